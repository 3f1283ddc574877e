-- Messages that a consumer could not apply and has set aside for a person. What came
-- from the queue is kept as bytes, for it may be any; the digest is of consumer and
-- message id, and of one size.
CREATE TABLE inbox_parked (
    digest     text COLLATE "C" NOT NULL PRIMARY KEY,
    consumer   bytea NOT NULL,
    message_id bytea NOT NULL,
    group_key  bytea NOT NULL,
    type       bytea NOT NULL,
    body       bytea NOT NULL,
    sent_at    bigint NOT NULL,
    attempts   bigint NOT NULL,
    reason     text COLLATE "C" NOT NULL,
    parked_at  bigint NOT NULL
);
CREATE INDEX inbox_parked_at ON inbox_parked (parked_at);

-- The list of events that a relay has set aside, without a look at those that wait.
CREATE INDEX outbox_parked ON outbox (parked_at, event_id) WHERE parked_at IS NOT NULL;
