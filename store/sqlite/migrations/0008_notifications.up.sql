-- A notification that failed is tried again at a time of its own, and ends as REFUSED. A
-- CHECK cannot be changed: the table is made anew, which takes about a second for each
-- million rows. Rows of before have no next_at, as those that nobody has tried.
CREATE TABLE notifications_8 (
    event_id   TEXT NOT NULL,
    channel    TEXT NOT NULL,
    replace_id TEXT NOT NULL,
    recipient  TEXT NOT NULL,
    title      TEXT NOT NULL,
    body       TEXT NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('PENDING', 'SENT', 'REFUSED')),
    sends      INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    sent_at    INTEGER,
    next_at    INTEGER,
    reason     TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (event_id, channel)
) STRICT, WITHOUT ROWID;
INSERT INTO notifications_8 (event_id, channel, replace_id, recipient, title, body, state, sends, created_at, sent_at)
    SELECT event_id, channel, replace_id, recipient, title, body, state, sends, created_at, sent_at FROM notifications ORDER BY event_id, channel;
DROP TABLE notifications;
ALTER TABLE notifications_8 RENAME TO notifications;

-- What is due: two ranges, of those with next_at and of those without.
CREATE INDEX notifications_due ON notifications (channel, next_at, created_at, event_id) WHERE state = 'PENDING';
