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
