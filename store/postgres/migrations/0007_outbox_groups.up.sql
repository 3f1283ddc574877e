-- compatible
-- The heads of the groups of events that wait: a backlog of one group is passed by in
-- one step.
CREATE INDEX outbox_groups ON outbox (group_key, seq) WHERE parked_at IS NULL;
