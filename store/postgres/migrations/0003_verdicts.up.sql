-- Refunds: guard and business row in one. A refund that has not failed has its amount
-- reserved in its payment.
CREATE TABLE refunds (
    refund_id    text COLLATE "C" PRIMARY KEY,
    client_key   text COLLATE "C" NOT NULL,
    caller_id    text COLLATE "C" NOT NULL,
    endpoint     text COLLATE "C" NOT NULL,
    fingerprint  text COLLATE "C" NOT NULL,
    state        text COLLATE "C" NOT NULL CHECK (state IN ('PENDING', 'UNKNOWN', 'SUCCEEDED', 'FAILED', 'VOID')),
    owner        text COLLATE "C" NOT NULL,
    lease_until  bigint,
    settled_by   text COLLATE "C" NOT NULL,
    tries        bigint NOT NULL,
    next_at      bigint,
    created_at   bigint NOT NULL,
    updated_at   bigint NOT NULL,
    payment_id   text COLLATE "C" NOT NULL,
    amount       bigint NOT NULL,
    currency     text COLLATE "C" NOT NULL,
    psp_refund   text COLLATE "C" NOT NULL,
    failure_code text COLLATE "C" NOT NULL,
    UNIQUE (client_key, caller_id, endpoint)
);
CREATE INDEX refunds_open ON refunds (updated_at, refund_id) WHERE state IN ('PENDING', 'UNKNOWN');
CREATE INDEX refunds_payment ON refunds (payment_id);
CREATE INDEX refunds_created ON refunds (created_at, refund_id);

-- The default lets a program that does not know the column go on writing payments. It
-- is not written into the rows that are there, and they need no check: their 0 holds.
ALTER TABLE payments
    ADD COLUMN refunded bigint NOT NULL DEFAULT 0,
    ADD CONSTRAINT payments_refunded CHECK (refunded = 0 OR refunded > 0 AND refunded <= amount) NOT VALID;

-- Each index costs a payment an entry when it begins and one when it settles. Times only
-- grow, so those of the second land in its last page, which is in memory. A BRIN index
-- would cost nothing there, but gives no order: each page of a list would read and sort
-- all that is left of its period. The order's key begins with the order, as other keys
-- begin with the client's.
CREATE INDEX payments_order ON payments (order_id, merchant_id, caller_id);
CREATE INDEX payments_created ON payments (created_at, payment_id);

-- Who learned what about an effect. guard_table is part of the key, since an
-- application names the ids of its generic guards itself.
CREATE TABLE evidence (
    guard_table text COLLATE "C" NOT NULL,
    guard_id    text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL,
    kind        text COLLATE "C" NOT NULL,
    by_whom     text COLLATE "C" NOT NULL,
    seen        text COLLATE "C" NOT NULL,
    at          bigint NOT NULL,
    PRIMARY KEY (guard_id, name, guard_table)
);
