CREATE TABLE tunesmith_schema (
    singleton smallint PRIMARY KEY CHECK (singleton = 0),
    version bigint NOT NULL,
    -- The oldest schema version whose programs work with these tables.
    readable_from bigint NOT NULL,
    -- Distinguishes this database from others.
    identity uuid NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO tunesmith_schema (singleton, version, readable_from) VALUES (0, 1, 1);

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

-- The server that runs a job. The row remains after the job has ended, because the logs are on that server.
CREATE SEQUENCE fences;
CREATE TABLE claims (
    job text COLLATE "C" PRIMARY KEY,
    owner text NOT NULL,
    owner_name text NOT NULL,
    -- Increases with every claim of any job; a write of a former owner has a smaller number and is refused.
    fence bigint NOT NULL,
    until timestamptz NOT NULL
);

-- Documents and packages that servers share, in parts of limited size.
CREATE TABLE documents (
    kind text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    part bigint NOT NULL,
    body bytea NOT NULL,
    changed timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (kind, name, part)
);

-- The trials that run on all servers, for the limits on them. Written only by servers that have such limits.
CREATE TABLE running_trials (
    server text COLLATE "C" NOT NULL,
    -- The number of the trial's grant in its server.
    ticket bigint NOT NULL,
    job text COLLATE "C" NOT NULL,
    principal text,
    until timestamptz NOT NULL,
    PRIMARY KEY (server, ticket)
);

-- The servers that have run a job, and so may have a folder of it. Each removes its own after the job was deleted.
CREATE TABLE job_folders (
    server text COLLATE "C" NOT NULL,
    job text COLLATE "C" NOT NULL,
    is_deleted boolean NOT NULL DEFAULT false,
    PRIMARY KEY (server, job)
);
CREATE INDEX deleted_job_folders ON job_folders (server) WHERE is_deleted;
CREATE INDEX folders_by_job ON job_folders (job);

-- Requests that a server passes to the one that runs a job, and their answers. Not logged: a request that is lost is repeated by
-- its sender.
CREATE UNLOGGED TABLE relayed (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- The server that answers, and the one that waits for the answer.
    server text COLLATE "C" NOT NULL,
    asker text COLLATE "C" NOT NULL,
    request bytea NOT NULL,
    asked timestamptz NOT NULL DEFAULT now(),
    is_taken boolean NOT NULL DEFAULT false,
    answer bytea
);
CREATE INDEX relayed_to_take ON relayed (server) WHERE NOT is_taken;
CREATE INDEX relayed_by_age ON relayed (asked);

-- What servers have derived from all trials of a study, in a form of their own.
CREATE TABLE summaries (
    study text COLLATE "C" PRIMARY KEY,
    body bytea NOT NULL,
    crc bigint NOT NULL
);
