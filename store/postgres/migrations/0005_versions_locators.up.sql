-- High-water marks of counters, one for each subject of a line. A row is never deleted:
-- who forgets it would apply an old action again. The key begins with the subject: see
-- the guards table on plans that are made on an empty table.
CREATE TABLE versions (
    subject     text COLLATE "C" NOT NULL,
    device      text COLLATE "C" NOT NULL,
    caller      text COLLATE "C" NOT NULL,
    stream      text COLLATE "C" NOT NULL,
    version     bigint NOT NULL CHECK (version > 0),
    action      text COLLATE "C" NOT NULL,
    fingerprint text COLLATE "C" NOT NULL,
    value       bytea NOT NULL,
    applied_at  bigint NOT NULL,
    PRIMARY KEY (subject, device, caller, stream)
);
CREATE INDEX versions_last ON versions (device, caller, stream, version, subject);

-- Locators: the records that never move. A tombstone is never deleted: who forgets it
-- would create the item again.
CREATE TABLE locators (
    id          text COLLATE "C" NOT NULL,
    owner       text COLLATE "C" NOT NULL,
    kind        text COLLATE "C" NOT NULL,
    state       text COLLATE "C" NOT NULL CHECK (state IN ('PRESENT', 'TOMBSTONE')),
    place       text COLLATE "C" NOT NULL,
    revision    bigint NOT NULL,
    fingerprint text COLLATE "C" NOT NULL,
    value       bytea NOT NULL,
    created_at  bigint NOT NULL,
    changed_at  bigint NOT NULL,
    PRIMARY KEY (id, owner, kind)
);
CREATE INDEX locators_place ON locators (place, owner, kind, id) WHERE state = 'PRESENT';
