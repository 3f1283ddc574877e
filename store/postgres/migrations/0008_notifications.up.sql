-- compatible: an earlier program may send a REFUSED one again, and goes on.
-- A notification that failed is tried again at a time of its own, and ends as REFUSED. Rows
-- of before have no next_at, as those that nobody has tried. The columns and the check
-- look at no row: NOT VALID, since it allows all that the earlier one did.
ALTER TABLE notifications
    ADD COLUMN IF NOT EXISTS next_at bigint,
    ADD COLUMN IF NOT EXISTS reason text COLLATE "C" NOT NULL DEFAULT '',
    DROP CONSTRAINT notifications_state_check,
    ADD CONSTRAINT notifications_state_check CHECK (state IN ('PENDING', 'SENT', 'REFUSED')) NOT VALID;
DROP INDEX notifications_pending;

-- What is due: two ranges, of those with next_at and of those without. This reads the whole
-- table once, and writers wait meanwhile, about a second for each million rows. Where that
-- is too long, add the columns above by hand first, and then this index CONCURRENTLY, which
-- nobody waits for: the migration takes what is there.
CREATE INDEX IF NOT EXISTS notifications_due ON notifications (channel, next_at, created_at, event_id) WHERE state = 'PENDING';
