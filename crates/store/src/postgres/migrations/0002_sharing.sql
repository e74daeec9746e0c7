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
