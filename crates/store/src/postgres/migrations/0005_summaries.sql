-- What servers have derived from all trials of a study, in a form of their own.
CREATE TABLE summaries (
    study text COLLATE "C" PRIMARY KEY,
    body bytea NOT NULL,
    crc bigint NOT NULL
);
