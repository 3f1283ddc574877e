-- High-water marks of counters, one for each subject of a line. A row is never deleted:
-- who forgets it would apply an old action again.
CREATE TABLE versions (
    subject     TEXT NOT NULL,
    device      TEXT NOT NULL,
    caller      TEXT NOT NULL,
    stream      TEXT NOT NULL,
    version     INTEGER NOT NULL CHECK (version > 0),
    action      TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    value       BLOB NOT NULL,
    applied_at  INTEGER NOT NULL,
    PRIMARY KEY (subject, device, caller, stream)
) STRICT, WITHOUT ROWID;
CREATE INDEX versions_last ON versions (device, caller, stream, version, subject);

-- Locators: the records that never move. A tombstone is never deleted: who forgets it
-- would create the item again.
CREATE TABLE locators (
    id          TEXT NOT NULL,
    owner       TEXT NOT NULL,
    kind        TEXT NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('PRESENT', 'TOMBSTONE')),
    place       TEXT NOT NULL,
    revision    INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    value       BLOB NOT NULL,
    created_at  INTEGER NOT NULL,
    changed_at  INTEGER NOT NULL,
    PRIMARY KEY (id, owner, kind)
) STRICT, WITHOUT ROWID;
CREATE INDEX locators_place ON locators (place, owner, kind, id) WHERE state = 'PRESENT';
