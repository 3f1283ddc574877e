DROP INDEX outbox_parked;
DROP TABLE inbox_parked;
