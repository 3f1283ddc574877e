-- Sagas: the durable log of each is one row, so that every record of progress is one
-- compare-and-set.
CREATE TABLE sagas (
    id          text COLLATE "C" PRIMARY KEY,
    name        text COLLATE "C" NOT NULL,
    fingerprint text COLLATE "C" NOT NULL,
    input       bytea NOT NULL,
    state       text COLLATE "C" NOT NULL CHECK (state IN ('RUNNING', 'COMPENSATING', 'COMPLETED', 'COMPENSATED')),
    log         bytea NOT NULL,
    reason      text COLLATE "C" NOT NULL,
    version     bigint NOT NULL,
    owner       text COLLATE "C" NOT NULL,
    lease_until bigint,
    saved_by    text COLLATE "C" NOT NULL,
    next_at     bigint NOT NULL,
    created_at  bigint NOT NULL,
    updated_at  bigint NOT NULL
);
CREATE INDEX sagas_due ON sagas (next_at, id) WHERE state IN ('RUNNING', 'COMPENSATING');
CREATE INDEX sagas_listed ON sagas (state, created_at, id);

-- What a saga's participant knows of each action.
CREATE TABLE saga_marks (
    key        text COLLATE "C" PRIMARY KEY,
    state      text COLLATE "C" NOT NULL CHECK (state IN ('STARTED', 'DONE', 'CANCELLED')),
    result     bytea NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);
