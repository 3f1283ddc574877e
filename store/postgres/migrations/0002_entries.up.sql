-- A ref has one entry, whole. The lines of an entry are numbered from 0 in the order of
-- their accounts, so that any two entries of one ref meet in line 0 of this key, also
-- when they are written at the same time and share no account.
ALTER TABLE postings ADD COLUMN line bigint;
UPDATE postings p SET line = n.line FROM (
    SELECT ref, account, row_number() OVER (PARTITION BY ref ORDER BY account) - 1 AS line FROM postings
) n WHERE n.ref = p.ref AND n.account = p.account;
ALTER TABLE postings
    ALTER COLUMN line SET NOT NULL,
    DROP CONSTRAINT postings_pkey,
    ADD PRIMARY KEY (ref, line);
