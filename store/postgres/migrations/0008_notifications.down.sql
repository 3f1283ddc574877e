-- What was refused counts as sent: nobody is to send it again.
DROP INDEX notifications_due;
UPDATE notifications SET state = 'SENT' WHERE state = 'REFUSED';
ALTER TABLE notifications
    DROP COLUMN reason,
    DROP COLUMN next_at,
    DROP CONSTRAINT notifications_state_check,
    ADD CONSTRAINT notifications_state_check CHECK (state IN ('PENDING', 'SENT')) NOT VALID;
CREATE INDEX notifications_pending ON notifications (created_at, event_id, channel) WHERE state = 'PENDING';
