-- The number of committed groups of changes.
CREATE TABLE commits (only INTEGER PRIMARY KEY CHECK (only = 0), count INTEGER NOT NULL) STRICT;
INSERT INTO commits VALUES (0, 0);

-- Bodies are the versioned JSON of the program.
CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    body TEXT NOT NULL,
    crc INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE studies (id TEXT PRIMARY KEY, body TEXT NOT NULL, crc INTEGER NOT NULL) STRICT;

-- What changes with every trial of a study. A deleted study has a row until its trials are removed.
CREATE TABLE progress (
    study TEXT PRIMARY KEY,
    next_trial_id INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    crc INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE trials (
    study TEXT NOT NULL,
    id INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    body TEXT NOT NULL,
    crc INTEGER NOT NULL,
    open INTEGER NOT NULL,
    -- The end of the lease, in microseconds since 1970.
    deadline INTEGER,
    PRIMARY KEY (study, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX trials_by_revision ON trials (study, revision);
CREATE INDEX open_trials ON trials (study, id) WHERE open;
CREATE INDEX trials_by_deadline ON trials (deadline) WHERE deadline IS NOT NULL;

CREATE TABLE measurements (
    study TEXT NOT NULL,
    trial INTEGER NOT NULL,
    first INTEGER NOT NULL,
    body BLOB NOT NULL,
    crc INTEGER NOT NULL,
    PRIMARY KEY (study, trial, first)
) STRICT;

-- What the program has derived from all trials of a study, in a form of its own.
CREATE TABLE summaries (study TEXT PRIMARY KEY, body BLOB NOT NULL, crc INTEGER NOT NULL) STRICT;
