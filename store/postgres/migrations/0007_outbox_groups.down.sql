DROP INDEX outbox_groups;
