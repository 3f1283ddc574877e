DROP TABLE evidence;
DROP INDEX payments_created;
DROP INDEX payments_order;
ALTER TABLE payments DROP CONSTRAINT payments_refunded, DROP COLUMN refunded;
DROP TABLE refunds;
