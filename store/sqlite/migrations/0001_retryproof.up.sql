-- Times are microseconds since 1970; NULL is "none". No statement reads a clock.

-- The key store: who works on an effect now, and what was answered.
CREATE TABLE claims (
    scope_id    TEXT PRIMARY KEY,
    endpoint    TEXT NOT NULL,
    caller      TEXT NOT NULL,
    client_key  TEXT NOT NULL,
    guard_id    TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('IN_PROGRESS', 'COMPLETE', 'VOID')),
    owner       TEXT NOT NULL,
    lease_until INTEGER,
    expires_at  INTEGER,
    answer      BLOB
) STRICT, WITHOUT ROWID;
CREATE INDEX claims_expires ON claims (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX claims_working ON claims (lease_until) WHERE state = 'IN_PROGRESS';

-- Durable guards of effects without a business row.
CREATE TABLE guards (
    id          TEXT PRIMARY KEY,
    client_key  TEXT NOT NULL,
    caller      TEXT NOT NULL,
    endpoint    TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('PENDING', 'UNKNOWN', 'SUCCEEDED', 'FAILED', 'VOID')),
    owner       TEXT NOT NULL,
    lease_until INTEGER,
    settled_by  TEXT NOT NULL,
    tries       INTEGER NOT NULL,
    next_at     INTEGER,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    result      BLOB,
    UNIQUE (client_key, caller, endpoint)
) STRICT, WITHOUT ROWID;
CREATE INDEX guards_open ON guards (updated_at, id) WHERE state IN ('PENDING', 'UNKNOWN');

-- Payments: guard and business row in one.
CREATE TABLE payments (
    payment_id     TEXT PRIMARY KEY,
    client_key     TEXT NOT NULL,
    caller_id      TEXT NOT NULL,
    endpoint       TEXT NOT NULL,
    fingerprint    TEXT NOT NULL,
    state          TEXT NOT NULL CHECK (state IN ('PENDING', 'UNKNOWN', 'SUCCEEDED', 'FAILED', 'VOID')),
    owner          TEXT NOT NULL,
    lease_until    INTEGER,
    settled_by     TEXT NOT NULL,
    tries          INTEGER NOT NULL,
    next_at        INTEGER,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    order_id       TEXT NOT NULL,
    merchant_id    TEXT NOT NULL,
    amount         INTEGER NOT NULL,
    currency       TEXT NOT NULL,
    payment_method TEXT NOT NULL,
    psp_charge     TEXT NOT NULL,
    decline_code   TEXT NOT NULL,
    UNIQUE (client_key, caller_id, endpoint)
) STRICT, WITHOUT ROWID;
CREATE INDEX payments_open ON payments (updated_at, payment_id) WHERE state IN ('PENDING', 'UNKNOWN');

-- The journal. A balance is kept for merchants only: a system account's row would
-- be part of every settlement.
CREATE TABLE postings (
    ref        TEXT NOT NULL,
    account    TEXT NOT NULL,
    currency   TEXT NOT NULL,
    amount     INTEGER NOT NULL CHECK (amount <> 0),
    created_at INTEGER NOT NULL,
    PRIMARY KEY (ref, account)
) STRICT, WITHOUT ROWID;
CREATE INDEX postings_account ON postings (account, currency);

CREATE TABLE accounts (
    account  TEXT NOT NULL,
    currency TEXT NOT NULL,
    balance  INTEGER NOT NULL,
    PRIMARY KEY (account, currency)
) STRICT, WITHOUT ROWID;

-- Events to publish; a row is here until it was sent.
CREATE TABLE outbox (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id     TEXT NOT NULL UNIQUE,
    type         TEXT NOT NULL,
    group_key    TEXT NOT NULL,
    body         BLOB NOT NULL,
    at           INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,
    leased_by    TEXT NOT NULL,
    leased_until INTEGER,
    next_at      INTEGER,
    parked_at    INTEGER,
    reason       TEXT NOT NULL
) STRICT;
CREATE INDEX outbox_waiting ON outbox (at) WHERE parked_at IS NULL;
CREATE INDEX outbox_held ON outbox (group_key, seq)
    WHERE parked_at IS NULL AND (leased_until IS NOT NULL OR next_at IS NOT NULL);

CREATE TABLE inbox (
    event_id TEXT NOT NULL,
    source   TEXT NOT NULL,
    consumer TEXT NOT NULL,
    noted_at INTEGER NOT NULL,
    PRIMARY KEY (event_id, source, consumer)
) STRICT, WITHOUT ROWID;
CREATE INDEX inbox_noted ON inbox (noted_at, event_id, source, consumer);

CREATE TABLE notifications (
    event_id   TEXT NOT NULL,
    channel    TEXT NOT NULL,
    replace_id TEXT NOT NULL,
    recipient  TEXT NOT NULL,
    title      TEXT NOT NULL,
    body       TEXT NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('PENDING', 'SENT')),
    sends      INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    sent_at    INTEGER,
    PRIMARY KEY (event_id, channel)
) STRICT, WITHOUT ROWID;
CREATE INDEX notifications_pending ON notifications (created_at, event_id, channel) WHERE state = 'PENDING';

CREATE TABLE sightings (
    payment_id TEXT NOT NULL,
    hop        TEXT NOT NULL,
    what       TEXT NOT NULL,
    n          INTEGER NOT NULL,
    last_at    INTEGER NOT NULL,
    PRIMARY KEY (payment_id, hop, what)
) STRICT, WITHOUT ROWID;
