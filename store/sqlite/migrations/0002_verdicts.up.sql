-- Refunds: guard and business row in one. A refund that has not failed has its amount
-- reserved in its payment.
CREATE TABLE refunds (
    refund_id    TEXT PRIMARY KEY,
    client_key   TEXT NOT NULL,
    caller_id    TEXT NOT NULL,
    endpoint     TEXT NOT NULL,
    fingerprint  TEXT NOT NULL,
    state        TEXT NOT NULL CHECK (state IN ('PENDING', 'UNKNOWN', 'SUCCEEDED', 'FAILED', 'VOID')),
    owner        TEXT NOT NULL,
    lease_until  INTEGER,
    settled_by   TEXT NOT NULL,
    tries        INTEGER NOT NULL,
    next_at      INTEGER,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    payment_id   TEXT NOT NULL,
    amount       INTEGER NOT NULL,
    currency     TEXT NOT NULL,
    psp_refund   TEXT NOT NULL,
    failure_code TEXT NOT NULL,
    UNIQUE (client_key, caller_id, endpoint)
) STRICT, WITHOUT ROWID;
CREATE INDEX refunds_open ON refunds (updated_at, refund_id) WHERE state IN ('PENDING', 'UNKNOWN');
CREATE INDEX refunds_payment ON refunds (payment_id);
CREATE INDEX refunds_created ON refunds (created_at, refund_id);

-- The default lets a program that does not know the column go on writing payments.
ALTER TABLE payments ADD COLUMN refunded INTEGER NOT NULL DEFAULT 0
    CHECK (refunded = 0 OR refunded > 0 AND refunded <= amount);
CREATE INDEX payments_order ON payments (order_id, merchant_id, caller_id);
CREATE INDEX payments_created ON payments (created_at, payment_id);

-- Who learned what about an effect. guard_table is part of the key, since an
-- application names the ids of its generic guards itself.
CREATE TABLE evidence (
    guard_table TEXT NOT NULL,
    guard_id    TEXT NOT NULL,
    name        TEXT NOT NULL,
    kind        TEXT NOT NULL,
    by_whom     TEXT NOT NULL,
    seen        TEXT NOT NULL,
    at          INTEGER NOT NULL,
    PRIMARY KEY (guard_id, name, guard_table)
) STRICT, WITHOUT ROWID;
