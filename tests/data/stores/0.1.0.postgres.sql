--
-- PostgreSQL database dump
--


-- Dumped from database version 15.20 (Debian 15.20-0+deb12u1)
-- Dumped by pg_dump version 15.20 (Debian 15.20-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: claims; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.claims (
    job text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL,
    owner_name text NOT NULL,
    fence bigint NOT NULL,
    until timestamp with time zone NOT NULL
);


--
-- Name: documents; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.documents (
    kind text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    part bigint NOT NULL,
    body bytea NOT NULL,
    changed timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: fences; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.fences
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: job_folders; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.job_folders (
    server text NOT NULL COLLATE pg_catalog."C",
    job text NOT NULL COLLATE pg_catalog."C",
    is_deleted boolean DEFAULT false NOT NULL
);


--
-- Name: jobs; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.jobs (
    id text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL,
    body text NOT NULL,
    crc bigint NOT NULL
);


--
-- Name: measurements; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.measurements (
    study text NOT NULL COLLATE pg_catalog."C",
    trial bigint NOT NULL,
    first bigint NOT NULL,
    body bytea NOT NULL,
    crc bigint NOT NULL
);


--
-- Name: progress; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.progress (
    study text NOT NULL COLLATE pg_catalog."C",
    next_trial_id bigint NOT NULL,
    revision bigint NOT NULL,
    crc bigint NOT NULL
)
WITH (fillfactor='50');


--
-- Name: relayed; Type: TABLE; Schema: public; Owner: -
--

CREATE UNLOGGED TABLE public.relayed (
    id bigint NOT NULL,
    server text NOT NULL COLLATE pg_catalog."C",
    asker text NOT NULL COLLATE pg_catalog."C",
    request bytea NOT NULL,
    asked timestamp with time zone DEFAULT now() NOT NULL,
    is_taken boolean DEFAULT false NOT NULL,
    answer bytea
);


--
-- Name: relayed_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.relayed ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.relayed_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: running_trials; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.running_trials (
    server text NOT NULL COLLATE pg_catalog."C",
    ticket bigint NOT NULL,
    job text NOT NULL COLLATE pg_catalog."C",
    principal text,
    until timestamp with time zone NOT NULL
);


--
-- Name: studies; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.studies (
    id text NOT NULL COLLATE pg_catalog."C",
    body text NOT NULL,
    crc bigint NOT NULL
);


--
-- Name: summaries; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.summaries (
    study text NOT NULL COLLATE pg_catalog."C",
    body bytea NOT NULL,
    crc bigint NOT NULL
);


--
-- Name: trials; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.trials (
    study text NOT NULL COLLATE pg_catalog."C",
    id bigint NOT NULL,
    revision bigint NOT NULL,
    body text NOT NULL,
    crc bigint NOT NULL,
    open boolean NOT NULL,
    deadline bigint
);


--
-- Name: tunesmith_schema; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.tunesmith_schema (
    singleton smallint NOT NULL,
    version bigint NOT NULL,
    readable_from bigint NOT NULL,
    identity uuid DEFAULT gen_random_uuid() NOT NULL,
    CONSTRAINT tunesmith_schema_singleton_check CHECK ((singleton = 0))
);


--
-- Name: writers; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.writers (
    id bigint NOT NULL,
    sequence bigint DEFAULT 0 NOT NULL,
    used timestamp with time zone DEFAULT now() NOT NULL
)
WITH (fillfactor='50');


--
-- Name: writers_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.writers ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.writers_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Data for Name: claims; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: documents; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: job_folders; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: jobs; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.jobs VALUES ('other', 'QUEUED', '{"v":1,"id":"other","state":"QUEUED","study":"other","training_input":{"hyperparameters":{"goal":"MAXIMIZE","maxTrials":3},"x":0.1},"plan":{"args":["--data=d"],"further_tags":["loss","latency"],"grace":{"nanos":0,"secs":30},"job_dir":"gs://bucket/job","job_dir_flag":"output-dir","machines":{"executor":"local","notices":[{"description":"has no effect on this service","field":"region"}],"options":{"account":"ml"},"python":"/opt/python3","queue":"gpu","resources":{"accelerators":{"count":2,"kind":"v100"},"memory_bytes":8589934592,"milli_cpus":1500}},"master_is_chief":true,"max_failed_trials":1,"max_lost_attempts":3,"max_parallel_trials":2,"max_running_time":{"nanos":500,"secs":3600},"max_trials":18446744073709551615,"max_wait_time":{"nanos":0,"secs":60},"metric_folder":"validation","metric_from_stdout":true,"metric_tag":"accuracy","principal":"someone","priority":-1,"program":{"PythonModule":{"module":"trainer.task","package_path":"/source","package_uris":["trainer-1.0.tar.gz"],"requirements":["numpy"]}},"replicas":[{"count":2,"program":null,"resources":{"accelerators":{"count":2,"kind":"v100"},"memory_bytes":8589934592,"milli_cpus":1500},"role":"Worker"},{"count":1,"program":{"Container":{"args":["-m","é\n\u0000"],"command":["python"],"image":"image:1"}},"role":"ParameterServer"},{"count":1,"program":{"Command":{"argv":["true"]}},"role":"Evaluator"}],"trial_time_limit":null,"working_directory":"/work"},"fingerprint":"sha256:00","labels":{"owner":"someone"},"policy":{"bindings":[]},"create_time":"2025-06-15T15:06:40.123456789Z","error_message":"","revision":0}', 2137446447);
INSERT INTO public.jobs VALUES ('study', 'RUNNING', '{"v":1,"id":"study","state":"RUNNING","study":"study","training_input":{"hyperparameters":{"goal":"MAXIMIZE","maxTrials":3},"x":0.1},"plan":{"args":["--data=d"],"further_tags":["loss","latency"],"grace":{"nanos":0,"secs":30},"job_dir":"gs://bucket/job","job_dir_flag":"output-dir","machines":{"executor":"local","notices":[{"description":"has no effect on this service","field":"region"}],"options":{"account":"ml"},"python":"/opt/python3","queue":"gpu","resources":{"accelerators":{"count":2,"kind":"v100"},"memory_bytes":8589934592,"milli_cpus":1500}},"master_is_chief":true,"max_failed_trials":1,"max_lost_attempts":3,"max_parallel_trials":2,"max_running_time":{"nanos":500,"secs":3600},"max_trials":18446744073709551615,"max_wait_time":{"nanos":0,"secs":60},"metric_folder":"validation","metric_from_stdout":true,"metric_tag":"accuracy","principal":"someone","priority":-1,"program":{"PythonModule":{"module":"trainer.task","package_path":"/source","package_uris":["trainer-1.0.tar.gz"],"requirements":["numpy"]}},"replicas":[{"count":2,"program":null,"resources":{"accelerators":{"count":2,"kind":"v100"},"memory_bytes":8589934592,"milli_cpus":1500},"role":"Worker"},{"count":1,"program":{"Container":{"args":["-m","é\n\u0000"],"command":["python"],"image":"image:1"}},"role":"ParameterServer"},{"count":1,"program":{"Command":{"argv":["true"]}},"role":"Evaluator"}],"trial_time_limit":null,"working_directory":"/work"},"fingerprint":"sha256:00","labels":{"owner":"someone"},"policy":{"bindings":[]},"create_time":"2025-06-15T15:06:40.123456789Z","start_time":"2025-06-15T15:06:42.123456789Z","error_message":"","revision":1}', 1062567925);


--
-- Data for Name: measurements; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.measurements VALUES ('study', 1, 0, '\x010202086163637572616379046c6f73730166660660b813da4183333333333333d33f01f8ffffffffffffffff010200000000000000f87f01000000000000f8ff0266660660b813da4183333333333333d33f01f8ffffffffffffffff010200000000000000f07f01000000000000f0ff', 1270751483);
INSERT INTO public.measurements VALUES ('study', 1, 2, '\x010102086163637572616379046c6f73736466660660b813da4183333333333333d33f01f8ffffffffffffffff010200000000000000e83f01000000000000e8bf', 276592333);


--
-- Data for Name: progress; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.progress VALUES ('study', 4, 11, 2034490169);


--
-- Data for Name: relayed; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: running_trials; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: studies; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.studies VALUES ('study', '{"v":1,"id":"study","problem":{"search_space":[{"name":"rate","kind":{"Double":{"min":1e-7,"max":0.1,"scale":"UnitLog"}}},{"name":"layers","kind":{"Integer":{"min":-1,"max":9223372036854775807,"scale":"UnitLinear"}}},{"name":"size","kind":{"Discrete":{"values":[0.5,32.0],"scale":"UnitReverseLog"}}},{"name":"kind","kind":{"Categorical":{"values":["ä b","c"]}}}],"metrics":[{"name":"accuracy","goal":"Maximize"},{"name":"loss","goal":"Minimize"}]},"algorithm":{"GRID_SEARCH":{"double_resolution":{"rate":10}}},"seed":18446744073709551615,"stopping_rule":{"MEDIAN":{"min_completed":5,"min_reports":null,"min_progress":0.1}},"stopping_axis":"ELAPSED_TIME","final_measurement":"BEST","prior_studies":["earlier-1"],"max_trials":18446744073709551615,"trial_lease":{"secs":90,"nanos":500000000},"config":{"metrics":[{"metric":"accuracy"}]},"state":"COMPLETED","state_reason":"enough","create_time":"2025-06-15T15:06:40.123456789Z"}', 3823655629);


--
-- Data for Name: summaries; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: trials; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.trials VALUES ('study', 3, 6, '{"v":1,"id":3,"parameters":{"kind":{"Categorical":"ä b"},"layers":{"Integer":9223372036854775806},"rate":{"Double":0.03333333333333333},"size":{"Discrete":32.0}},"origin":{"algorithm":"GAUSSIAN_PROCESS_BANDIT","step":"TRUST_REGION"},"state":"ACTIVE","client_id":"client 3","attempt":1,"create_time":"2025-06-15T15:06:41.123456789Z","start_time":"2025-06-15T15:06:42.123456789Z","attempt_start_time":"2025-06-15T15:06:42.123456789Z","measurement_count":0,"fallback_reason":"the matrix is singular","request_keys":["create-3 0000000000000001 1750000001123456789"],"revision":6}', 2489942667, true, NULL);
INSERT INTO public.trials VALUES ('study', 1, 9, '{"v":1,"id":1,"parameters":{"kind":{"Categorical":"ä b"},"layers":{"Integer":9223372036854775806},"rate":{"Double":0.03333333333333333},"size":{"Discrete":32.0}},"origin":{"algorithm":"GAUSSIAN_PROCESS_BANDIT","step":"TRUST_REGION"},"state":"SUCCEEDED","client_id":"client 1","attempt":1,"create_time":"2025-06-15T15:06:41.123456789Z","start_time":"2025-06-15T15:06:42.123456789Z","attempt_start_time":"2025-06-15T15:06:42.123456789Z","end_time":"2025-06-15T15:06:43.123456789Z","measurement_count":3,"final_measurement":{"step":100,"wall_time_secs":1750000000.1,"elapsed_secs":0.3,"key":{"STANDARD_OUTPUT":{"attempt":1,"offset":18446744073709551608}},"metrics":[{"metric":"accuracy","value":0.75},{"metric":"loss","value":-0.75}]},"stopped_early":true,"fallback_reason":"the matrix is singular","request_keys":["create-1 0000000000000001 1750000001123456789"],"revision":9}', 1408108897, false, NULL);
INSERT INTO public.trials VALUES ('study', 2, 10, '{"v":1,"id":2,"parameters":{"kind":{"Categorical":"ä b"},"layers":{"Integer":9223372036854775806},"rate":{"Double":0.03333333333333333},"size":{"Discrete":32.0}},"origin":{"algorithm":"GAUSSIAN_PROCESS_BANDIT","step":"TRUST_REGION"},"state":"INFEASIBLE","client_id":"client 2","attempt":1,"create_time":"2025-06-15T15:06:41.123456789Z","start_time":"2025-06-15T15:06:42.123456789Z","attempt_start_time":"2025-06-15T15:06:42.123456789Z","end_time":"2025-06-15T15:06:43.123456789Z","measurement_count":0,"infeasible_reason":"exit code 1","fallback_reason":"the matrix is singular","request_keys":["create-2 0000000000000001 1750000001123456789"],"revision":10}', 85707311, false, NULL);


--
-- Data for Name: tunesmith_schema; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.tunesmith_schema VALUES (0, 1, 1, 'ed5066e5-939f-4609-92ff-e2cb09139328');


--
-- Data for Name: writers; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.writers OVERRIDING SYSTEM VALUE VALUES (1, 14, '2026-11-26 13:33:42.854105+00');


--
-- Name: fences; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.fences', 1, false);


--
-- Name: relayed_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.relayed_id_seq', 1, false);


--
-- Name: writers_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.writers_id_seq', 1, true);


--
-- Name: claims claims_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.claims
    ADD CONSTRAINT claims_pkey PRIMARY KEY (job);


--
-- Name: documents documents_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.documents
    ADD CONSTRAINT documents_pkey PRIMARY KEY (kind, name, part);


--
-- Name: job_folders job_folders_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.job_folders
    ADD CONSTRAINT job_folders_pkey PRIMARY KEY (server, job);


--
-- Name: jobs jobs_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (id);


--
-- Name: measurements measurements_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.measurements
    ADD CONSTRAINT measurements_pkey PRIMARY KEY (study, trial, first);


--
-- Name: progress progress_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.progress
    ADD CONSTRAINT progress_pkey PRIMARY KEY (study);


--
-- Name: relayed relayed_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.relayed
    ADD CONSTRAINT relayed_pkey PRIMARY KEY (id);


--
-- Name: running_trials running_trials_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.running_trials
    ADD CONSTRAINT running_trials_pkey PRIMARY KEY (server, ticket);


--
-- Name: studies studies_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.studies
    ADD CONSTRAINT studies_pkey PRIMARY KEY (id);


--
-- Name: summaries summaries_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.summaries
    ADD CONSTRAINT summaries_pkey PRIMARY KEY (study);


--
-- Name: trials trials_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.trials
    ADD CONSTRAINT trials_pkey PRIMARY KEY (study, id);


--
-- Name: tunesmith_schema tunesmith_schema_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.tunesmith_schema
    ADD CONSTRAINT tunesmith_schema_pkey PRIMARY KEY (singleton);


--
-- Name: writers writers_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.writers
    ADD CONSTRAINT writers_pkey PRIMARY KEY (id);


--
-- Name: deleted_job_folders; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX deleted_job_folders ON public.job_folders USING btree (server) WHERE is_deleted;


--
-- Name: folders_by_job; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX folders_by_job ON public.job_folders USING btree (job);


--
-- Name: open_trials; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX open_trials ON public.trials USING btree (study, id) WHERE open;


--
-- Name: relayed_by_age; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX relayed_by_age ON public.relayed USING btree (asked);


--
-- Name: relayed_to_take; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX relayed_to_take ON public.relayed USING btree (server) WHERE (NOT is_taken);


--
-- Name: trials_by_deadline; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX trials_by_deadline ON public.trials USING btree (deadline) WHERE (deadline IS NOT NULL);


--
-- Name: trials_by_revision; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX trials_by_revision ON public.trials USING btree (study, revision);


--
-- Name: unfinished_jobs; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX unfinished_jobs ON public.jobs USING btree (id) WHERE (state <> ALL (ARRAY['SUCCEEDED'::text, 'FAILED'::text, 'CANCELLED'::text]));


--
-- PostgreSQL database dump complete
--


