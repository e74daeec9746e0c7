CREATE TABLE schema_version (
    singleton smallint PRIMARY KEY CHECK (singleton = 0),
    version bigint NOT NULL,
    -- The oldest schema version whose programs work with these tables.
    readable_from bigint NOT NULL,
    -- Distinguishes this database from others.
    identity uuid NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO schema_version (singleton, version, readable_from) VALUES (0, 1, 1);

-- One row for each session that writes. Each transaction sets its number, so that the outcome of a commit whose answer
-- was lost can be read.
CREATE TABLE writers (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sequence bigint NOT NULL DEFAULT 0,
    used timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

-- Bodies are the versioned JSON of the program, as text so that checksums cover their bytes. IDs are ordered by bytes.
CREATE TABLE jobs (
    id text COLLATE "C" PRIMARY KEY,
    state text NOT NULL,
    body text NOT NULL,
    crc bigint NOT NULL
);
CREATE INDEX unfinished_jobs ON jobs (id) WHERE state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED');

CREATE TABLE studies (
    id text COLLATE "C" PRIMARY KEY,
    body text NOT NULL,
    crc bigint NOT NULL
);

-- What changes with every trial of a study. A deleted study has a row until its trials are removed.
CREATE TABLE progress (
    study text COLLATE "C" PRIMARY KEY,
    next_trial_id bigint NOT NULL,
    revision bigint NOT NULL,
    crc bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE trials (
    study text COLLATE "C" NOT NULL,
    id bigint NOT NULL,
    revision bigint NOT NULL,
    body text NOT NULL,
    crc bigint NOT NULL,
    open boolean NOT NULL,
    -- The end of the lease, in microseconds since 1970.
    deadline bigint,
    PRIMARY KEY (study, id)
);
CREATE UNIQUE INDEX trials_by_revision ON trials (study, revision);
CREATE INDEX open_trials ON trials (study, id) WHERE open;
CREATE INDEX trials_by_deadline ON trials (deadline) WHERE deadline IS NOT NULL;

CREATE TABLE measurements (
    study text COLLATE "C" NOT NULL,
    trial bigint NOT NULL,
    first bigint NOT NULL,
    body bytea NOT NULL,
    crc bigint NOT NULL,
    PRIMARY KEY (study, trial, first)
);
