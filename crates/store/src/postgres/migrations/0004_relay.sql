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
