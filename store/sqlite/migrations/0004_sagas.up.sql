-- Sagas: the durable log of each is one row, so that every record of progress is one
-- compare-and-set.
CREATE TABLE sagas (
    id          TEXT PRIMARY KEY,
    name        TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    input       BLOB NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('RUNNING', 'COMPENSATING', 'COMPLETED', 'COMPENSATED')),
    log         BLOB NOT NULL,
    reason      TEXT NOT NULL,
    version     INTEGER NOT NULL,
    owner       TEXT NOT NULL,
    lease_until INTEGER,
    saved_by    TEXT NOT NULL,
    next_at     INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sagas_due ON sagas (next_at, id) WHERE state IN ('RUNNING', 'COMPENSATING');
CREATE INDEX sagas_listed ON sagas (state, created_at, id);

-- What a saga's participant knows of each action.
CREATE TABLE saga_marks (
    key        TEXT PRIMARY KEY,
    state      TEXT NOT NULL CHECK (state IN ('STARTED', 'DONE', 'CANCELLED')),
    result     BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
