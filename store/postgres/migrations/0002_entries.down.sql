ALTER TABLE postings DROP CONSTRAINT postings_pkey, ADD PRIMARY KEY (ref, account), DROP COLUMN line;
