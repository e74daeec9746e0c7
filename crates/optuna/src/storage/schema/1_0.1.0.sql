-- Doubles are stored as the integer with their bits: SQLite has no NaN, and no negative zero.
CREATE TABLE studies (
    study_id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    -- One byte for each objective: 0 minimize, 1 maximize.
    directions BLOB NOT NULL,
    -- Number of the next trial.
    trials INTEGER NOT NULL DEFAULT 0,
    -- Size of the attributes.
    size_bytes INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Attributes of users (kind 0) and of Optuna (kind 1), as JSON text.
CREATE TABLE study_attributes (
    study_id INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (study_id, kind, key)
) STRICT, WITHOUT ROWID;

-- First distribution of each parameter, with which later ones must agree.
CREATE TABLE study_parameters (
    study_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    distribution TEXT NOT NULL,
    PRIMARY KEY (study_id, name)
) STRICT, WITHOUT ROWID;

-- Deleted studies whose trials have not all been removed.
CREATE TABLE deletions (study_id INTEGER PRIMARY KEY) STRICT;

CREATE TABLE trials (
    trial_id INTEGER PRIMARY KEY AUTOINCREMENT,
    study_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    -- 0 running, 1 complete, 2 pruned, 3 failed, 4 waiting.
    state INTEGER NOT NULL,
    -- Eight bytes for each value, little-endian.
    objectives BLOB NOT NULL,
    datetime_start TEXT NOT NULL,
    datetime_complete TEXT NOT NULL,
    size_bytes INTEGER NOT NULL DEFAULT 0,
    UNIQUE (study_id, number)
) STRICT;
CREATE INDEX trials_of_study ON trials (study_id, trial_id);

CREATE TABLE parameters (
    trial_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    value INTEGER NOT NULL,
    distribution TEXT NOT NULL,
    PRIMARY KEY (trial_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE trial_attributes (
    trial_id INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (trial_id, kind, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE intermediate_values (
    trial_id INTEGER NOT NULL,
    step INTEGER NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (trial_id, step)
) STRICT, WITHOUT ROWID;
