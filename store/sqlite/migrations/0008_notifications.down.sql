-- What was refused counts as sent: nobody is to send it again.
CREATE TABLE notifications_7 (
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
INSERT INTO notifications_7 (event_id, channel, replace_id, recipient, title, body, state, sends, created_at, sent_at)
    SELECT event_id, channel, replace_id, recipient, title, body, CASE state WHEN 'REFUSED' THEN 'SENT' ELSE state END, sends, created_at, sent_at
    FROM notifications ORDER BY event_id, channel;
DROP TABLE notifications;
ALTER TABLE notifications_7 RENAME TO notifications;
CREATE INDEX notifications_pending ON notifications (created_at, event_id, channel) WHERE state = 'PENDING';
