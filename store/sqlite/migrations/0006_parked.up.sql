-- Messages that a consumer could not apply and has set aside for a person. What came
-- from the queue is kept as bytes, for it may be any; the digest is of consumer and
-- message id, and of one size.
CREATE TABLE inbox_parked (
    digest     TEXT NOT NULL PRIMARY KEY,
    consumer   BLOB NOT NULL,
    message_id BLOB NOT NULL,
    group_key  BLOB NOT NULL,
    type       BLOB NOT NULL,
    body       BLOB NOT NULL,
    sent_at    INTEGER NOT NULL,
    attempts   INTEGER NOT NULL,
    reason     TEXT NOT NULL,
    parked_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX inbox_parked_at ON inbox_parked (parked_at);

-- The list of events that a relay has set aside, without a look at those that wait.
CREATE INDEX outbox_parked ON outbox (parked_at, event_id) WHERE parked_at IS NOT NULL;
