//! Table of all use cases, the source of names, access rules and descriptions for every front end.
//!
//! The ID is the method's ID in AI Platform's discovery document, or starts with `tunesmith.`.

use tunesmith_access::Permission::{self, *};

use self::RequiredAccess::{Of, Open, Token, TrialToken};
use self::Resource::{Job, Location, Model, Operation, Package, Project, Run, Server, Study, Trial};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UseCase {
    name: &'static str,
    summary: &'static str,
    access: RequiredAccess,
    resource: Resource,
    changes: bool,
    takes_key: bool,
    is_suggestion: bool,
    time_limit_factor: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredAccess {
    /// None; calls are not recorded, since nothing is confidential.
    Open,
    /// Token of a running trial, checked by the use case.
    TrialToken,
    /// Any token, if the server requires tokens.
    Token,
    /// Token of a principal with this permission, if the server requires tokens.
    Of(Permission),
}

/// Kind of the resource in a call: the parent of the created or listed resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    Server,
    Project,
    Location,
    /// A job. Its IAM policy may grant the permission.
    Job,
    /// A model with its versions. Its IAM policy may grant the permission.
    Model,
    Run,
    Package,
    Operation,
    Study,
    Trial,
}

impl UseCase {
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Purpose, in one or a few sentences.
    pub const fn summary(self) -> &'static str {
        self.summary
    }

    pub const fn access(self) -> RequiredAccess {
        self.access
    }

    pub const fn resource(self) -> Resource {
        self.resource
    }

    /// Whether a call may change something.
    pub const fn changes(self) -> bool {
        self.changes
    }

    /// Whether repeated calls with one idempotency key have one effect.
    pub const fn takes_key(self) -> bool {
        self.takes_key
    }

    /// Whether calls count as concurrent suggestions of their caller.
    pub const fn is_suggestion(self) -> bool {
        self.is_suggestion
    }

    /// Time limit as a multiple of the default.
    pub const fn time_limit_factor(self) -> u32 {
        self.time_limit_factor
    }

    /// Page with the results of this use case. `name` identifies it in logs, metrics and audit records.
    #[must_use]
    pub const fn shown_as(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// Page about the whole server, requiring `access`.
    pub const fn page(name: &'static str, access: RequiredAccess) -> Self {
        Self::new(name, "", access, Server, false)
    }

    /// Call of an unknown method. Any valid token is sufficient.
    pub const fn unknown(changes: bool) -> Self {
        Self::new("unknown", "", Token, Server, changes)
    }

    #[must_use]
    pub const fn slower(self, factor: u32) -> Self {
        Self { time_limit_factor: factor, ..self }
    }

    const fn new(
        name: &'static str,
        summary: &'static str,
        access: RequiredAccess,
        resource: Resource,
        changes: bool,
    ) -> Self {
        Self { name, summary, access, resource, changes, takes_key: false, is_suggestion: false, time_limit_factor: 1 }
    }

    const fn with_key(self) -> Self {
        Self { takes_key: true, ..self }
    }

    const fn suggesting(self) -> Self {
        Self { is_suggestion: true, ..self }
    }

    const fn reads(name: &'static str, access: RequiredAccess, resource: Resource, summary: &'static str) -> Self {
        Self::new(name, summary, access, resource, false)
    }

    const fn changing(name: &'static str, access: RequiredAccess, resource: Resource, summary: &'static str) -> Self {
        Self::new(name, summary, access, resource, true)
    }
}

/// Opens a browser session. Only the console has sessions.
pub const SIGN_IN: UseCase = UseCase::changing("console.login", Token, Server, "Opens a session of a browser.");

/// Defines a constant per use case, and the list of them.
macro_rules! use_cases {
    ($(#[$about:meta])* $list:ident: $($id:ident = $kind:ident($name:literal, $access:expr, $resource:expr) $summary:literal $(.$option:ident($($value:literal)?))?;)*) => {
        $(
            #[doc = $summary]
            pub const $id: UseCase = UseCase::$kind($name, $access, $resource, $summary)$(.$option($($value)?))?;
        )*

        $(#[$about])*
        pub const $list: &[UseCase] = &[$($id),*];
    };
}

use_cases! {
    /// Use cases of the HTTP API.
    ALL:
    OPENAPI = reads("openapi", Open, Server)
        "Gets this document.";
    LIVENESS = reads("healthz", Open, Server)
        "Checks whether the server is alive.";
    READINESS = reads("readyz", Open, Server)
        "Checks whether the server is ready.";
    METRICS = reads("metrics", Open, Server)
        "Gets the metrics in OpenMetrics text format.";
    LIST_TOKENS = reads("tunesmith.tokens.list", Of(TokensList), Server)
        "Lists the access tokens of the server, without their secrets.";
    CREATE_TOKEN = changing("tunesmith.tokens.create", Of(TokensCreate), Server)
        "Creates an access token. Its secret is in the answer, and nowhere else.";
    ROTATE_TOKEN = changing("tunesmith.tokens.rotate", Of(TokensCreate), Server)
        "Creates a successor of an access token, with the same principal and roles. The token itself ends at once, or after an \
         overlap.";
    DELETE_TOKEN = changing("tunesmith.tokens.delete", Of(TokensDelete), Server)
        "Revokes an access token.";
    GET_CONFIG = reads("ml.projects.getConfig", Of(ProjectsGetConfig), Project)
        "Gets the service accounts of the service.";
    LIST_LOCATIONS = reads("ml.projects.locations.list", Of(LocationsList), Project)
        "Lists locations.";
    GET_LOCATION = reads("ml.projects.locations.get", Of(LocationsGet), Location)
        "Gets a location.";
    LIST_PROJECT_OPERATIONS = reads("ml.projects.operations.list", Of(OperationsList), Project)
        "Lists the operations of models and versions.";
    GET_PROJECT_OPERATION = reads("ml.projects.operations.get", Of(OperationsGet), Operation)
        "Gets an operation of a model or version, with its response once it is done.";
    CANCEL_PROJECT_OPERATION = changing("ml.projects.operations.cancel", Of(OperationsCancel), Operation)
        "Cancels an operation of a model or version. Only the creation of a version can be cancelled.";
    CREATE_JOB = changing("ml.projects.jobs.create", Of(JobsCreate), Project)
        "Creates a job and runs it.";
    LIST_JOBS = reads("ml.projects.jobs.list", Of(JobsList), Project)
        "Lists jobs.";
    GET_JOB = reads("ml.projects.jobs.get", Of(JobsGet), Job)
        "Gets a job with its successful trials, best first.";
    PATCH_JOB = changing("ml.projects.jobs.patch", Of(JobsUpdate), Job)
        "Changes a job's labels, or its numbers of trials in all and at once.";
    CANCEL_JOB = changing("ml.projects.jobs.cancel", Of(JobsCancel), Job)
        "Cancels a job: a queued one immediately, a running one after its programs have ended.";
    RETRY_JOB = changing("tunesmith.projects.jobs.retry", Of(JobsUpdate), Job)
        "Runs the failed and lost trials of a job again, or the program of a job without hyperparameters.";
    DELETE_JOB = changing("tunesmith.projects.jobs.delete", Of(JobsUpdate), Job)
        "Deletes a job in a final state with its trials and logs. Its job-dir is kept.";
    GET_JOB_POLICY = reads("ml.projects.jobs.getIamPolicy", Of(JobsGetIamPolicy), Job)
        "Gets a job's IAM policy; an empty one if none was set.";
    SET_JOB_POLICY = changing("ml.projects.jobs.setIamPolicy", Of(JobsSetIamPolicy), Job)
        "Sets a job's IAM policy.";
    TEST_JOB_PERMISSIONS = reads("ml.projects.jobs.testIamPermissions", Token, Job)
        "Gets the tested permissions that the caller has on a job; none if the job does not exist.";
    ADD_JOB_TRIAL = changing("tunesmith.projects.jobs.trials.create", Of(JobsUpdate), Job)
        "Adds a user-supplied trial to a job that has not ended. It runs next and counts as one of the job's \
         trials.".with_key();
    STOP_JOB_TRIAL = changing("tunesmith.projects.jobs.trials.stop", Of(JobsUpdate), Job)
        "Stops a trial of a job: its program ends, and its last measurement becomes its result. The job goes \
         on.";
    SET_JOB_TRIAL_NOTE = changing("tunesmith.projects.jobs.trials.setNote", Of(JobsUpdate), Job)
        "Sets or removes the note on a trial of a job. With `etag`, the change is rejected if the note has changed since it \
         was read.";
    LIST_JOB_LOGS = reads("tunesmith.projects.jobs.logs.list", Of(JobsGet), Job)
        "Lists the logs of a job's programs.";
    GET_JOB_LOG = reads("tunesmith.projects.jobs.logs.get", Of(JobsGet), Job)
        "Reads a part of a log.";
    LIST_ARTIFACTS = reads("tunesmith.projects.jobs.artifacts.list", Of(JobsGet), Job)
        "Lists the files that a program has left in the job folder.";
    DOWNLOAD_ARTIFACT = reads("tunesmith.projects.jobs.artifacts.download", Of(JobsGet), Job)
        "Reads a file that a program has left in the job folder.";
    GET_PACKAGE = reads("tunesmith.projects.packages.get", Of(JobsCreate), Package)
        "Gets a package.";
    UPLOAD_PACKAGE = changing("tunesmith.projects.packages.put", Of(JobsCreate), Package)
        "Uploads a package; the body is its content.".slower(10);
    GET_OWN_TRIAL = reads("tunesmith.jobs.trials.get", TrialToken, Trial)
        "Gets a trial of a job, for its program.";
    REPORT_MEASUREMENT = changing("tunesmith.jobs.trials.addMeasurement", TrialToken, Trial)
        "Adds a measurement to a trial of a job, for its program.";
    // Not a change: audit logs record decisions of principals, and agents report every second.
    SYNC_RUN = reads("tunesmith.jobs.runs.sync", TrialToken, Run)
        "Receives logs, measurements and the end of one run of a job's program from the agent beside it, and \
         answers with what the agent is to do. The run is `trial-3.attempt-1`, or `attempt-1` in a job without \
         hyperparameters. Repeating a report has no further effect.";
    GET_RUN_PACKAGE = reads("tunesmith.jobs.runs.packages.get", TrialToken, Run)
        "Returns a Python package of a job to the agent that installs it for one run of the job's program.".slower(10);
    EXCHANGE_WITH_WORKER = reads("tunesmith.projects.models.workers.exchange", TrialToken, Model)
        "Receives a message of a worker of a model in a pod, such as its predictions, and answers with the next request for \
         it. Both are a line of JSON, followed by the content. Without a request, the status is 204 after a while.";
    GET_WORKER_FILE = reads("tunesmith.projects.models.workers.files.get", TrialToken, Model)
        "Returns a file of a version to its worker in a pod.".slower(10);
    CREATE_MODEL = changing("ml.projects.models.create", Of(ModelsCreate), Project)
        "Creates a model without versions.";
    LIST_MODELS = reads("ml.projects.models.list", Of(ModelsList), Project)
        "Lists models.";
    GET_MODEL = reads("ml.projects.models.get", Of(ModelsGet), Model)
        "Gets a model with its default version.";
    PATCH_MODEL = changing("ml.projects.models.patch", Of(ModelsUpdate), Model)
        "Changes the description or the default version of a model.";
    DELETE_MODEL = changing("ml.projects.models.delete", Of(ModelsDelete), Model)
        "Deletes a model without versions.";
    GET_MODEL_POLICY = reads("ml.projects.models.getIamPolicy", Of(ModelsGetIamPolicy), Model)
        "Gets a model's IAM policy; an empty one if none was set.";
    SET_MODEL_POLICY = changing("ml.projects.models.setIamPolicy", Of(ModelsSetIamPolicy), Model)
        "Sets a model's IAM policy.";
    TEST_MODEL_PERMISSIONS = reads("ml.projects.models.testIamPermissions", Token, Model)
        "Gets the tested permissions that the caller has on a model; none if the model does not exist.";
    CREATE_VERSION = changing("ml.projects.models.versions.create", Of(VersionsCreate), Model)
        "Creates a version: copies the files of the model, installs the packages, and loads the model. The operation ends \
         once it is loaded.";
    LIST_VERSIONS = reads("ml.projects.models.versions.list", Of(VersionsList), Model)
        "Lists the versions of a model.";
    GET_VERSION = reads("ml.projects.models.versions.get", Of(VersionsGet), Model)
        "Gets a version with the state of its workers.";
    PATCH_VERSION = changing("ml.projects.models.versions.patch", Of(VersionsUpdate), Model)
        "Changes the description of a version, or its number of workers.";
    DELETE_VERSION = changing("ml.projects.models.versions.delete", Of(VersionsDelete), Model)
        "Deletes a version with its files, and ends its workers.";
    SET_DEFAULT_VERSION = changing("ml.projects.models.versions.setDefault", Of(ModelsUpdate), Model)
        "Makes a version the default of its model.";
    GET_VERSION_LOG = reads("tunesmith.projects.models.versions.logs.get", Of(VersionsGet), Model)
        "Reads the end of what the workers of a version have printed.";
    PREDICT = reads("ml.projects.predict", Of(ModelsPredict), Model)
        "Predicts with the default version of a model. A failure of the model is a response with `error`.".slower(3);
    PREDICT_VERSION = reads("tunesmith.projects.models.versions.predict", Of(VersionsPredict), Model)
        "Predicts with a version of a model, as `ml.projects.predict`.".slower(3);
    EXPLAIN = reads("ml.projects.explain", Of(ModelsPredict), Model)
        "Explanations of predictions, which are not supported.";
    EXPLAIN_VERSION = reads("tunesmith.projects.models.versions.explain", Of(VersionsPredict), Model)
        "Explanations of predictions of a version, which are not supported.";
    CREATE_STUDY = changing("ml.projects.locations.studies.create", Of(StudiesCreate), Location)
        "Creates a study.";
    LIST_STUDIES = reads("ml.projects.locations.studies.list", Of(StudiesList), Location)
        "Lists all studies of a location.";
    GET_STUDY = reads("ml.projects.locations.studies.get", Of(StudiesGet), Study)
        "Gets a study.";
    PATCH_STUDY = changing("tunesmith.projects.locations.studies.patch", Of(StudiesCreate), Study)
        "Raises a study's number of trials.";
    DELETE_STUDY = changing("ml.projects.locations.studies.delete", Of(StudiesDelete), Study)
        "Deletes a study and its trials.";
    SUGGEST_TRIALS = changing("ml.projects.locations.studies.trials.suggest", Of(TrialsCreate), Study)
        "Suggests trials: those that the client owns already, or new ones. Answers with 429 if the study is \
         `COMPLETED` and has no more.".suggesting();
    LIST_OPTIMAL_TRIALS = reads("ml.projects.locations.studies.trials.listOptimalTrials", Of(TrialsList), Study)
        "Lists the optimal trials: the best one, or the Pareto front of several metrics, best first by the \
         first metric.";
    CREATE_TRIAL = changing("ml.projects.locations.studies.trials.create", Of(TrialsCreate), Study)
        "Creates a user-supplied trial.".with_key();
    LIST_TRIALS = reads("ml.projects.locations.studies.trials.list", Of(TrialsList), Study)
        "Lists all trials of a study.";
    GET_TRIAL = reads("ml.projects.locations.studies.trials.get", Of(TrialsGet), Trial)
        "Gets a trial.";
    DELETE_TRIAL = changing("ml.projects.locations.studies.trials.delete", Of(TrialsDelete), Trial)
        "Deletes a trial.";
    ADD_MEASUREMENT = changing("ml.projects.locations.studies.trials.addMeasurement", Of(TrialsUpdate), Trial)
        "Adds a measurement to a trial's curve. The answer contains the curve while it has at most 100 \
         measurements.".with_key();
    COMPLETE_TRIAL = changing("ml.projects.locations.studies.trials.complete", Of(TrialsUpdate), Trial)
        "Completes a trial.";
    CHECK_EARLY_STOPPING = changing("ml.projects.locations.studies.trials.checkEarlyStoppingState", Of(TrialsUpdate), Trial)
        "Checks whether a trial should stop.";
    STOP_TRIAL = changing("ml.projects.locations.studies.trials.stop", Of(TrialsUpdate), Trial)
        "Requests the client of a trial to stop.";
    SET_TRIAL_NOTE = changing("tunesmith.projects.locations.studies.trials.setNote", Of(TrialsUpdate), Trial)
        "Sets or removes the note on a trial. With `etag`, the change is rejected if the note has changed since it was \
         read.";
    GET_OPERATION = reads("ml.projects.locations.operations.get", Of(OperationsGet), Operation)
        "Gets an operation, with its response once it is done.";
    CANCEL_OPERATION = changing("ml.projects.locations.operations.cancel", Of(OperationsCancel), Operation)
        "Cancels an operation. A suggestion that is being computed ends; its trials that exist already belong \
         to the client.";
    VIEW_HISTORY = reads("tunesmith.projects.locations.studies.views.history", Of(TrialsList), Study)
        "Gets the results in the order of the trials, and the best so far.";
    VIEW_PARALLEL_COORDINATES = reads("tunesmith.projects.locations.studies.views.parallelCoordinates", Of(TrialsList), Study)
        "Gets trials as lines across the axes of parameters and metrics.";
    VIEW_SLICE = reads("tunesmith.projects.locations.studies.views.slice", Of(TrialsList), Study)
        "Gets the results over one parameter.";
    VIEW_CONTOUR = reads("tunesmith.projects.locations.studies.views.contour", Of(TrialsList), Study)
        "Gets the results over two parameters, in cells.";
    VIEW_RANK = reads("tunesmith.projects.locations.studies.views.rank", Of(TrialsList), Study)
        "Gets trials over two parameters, with their ranks.";
    VIEW_PARETO_FRONT = reads("tunesmith.projects.locations.studies.views.paretoFront", Of(TrialsList), Study)
        "Gets the Pareto front, and all trials over two metrics.";
    VIEW_DISTRIBUTION = reads("tunesmith.projects.locations.studies.views.distribution", Of(TrialsList), Study)
        "Gets the empirical distribution function of the results.";
    VIEW_LEARNING_CURVES = reads("tunesmith.projects.locations.studies.views.learningCurves", Of(TrialsList), Study)
        "Gets the learning curves of the best trials and of a sample of the others.";
    VIEW_TIMELINE = reads("tunesmith.projects.locations.studies.views.timeline", Of(TrialsList), Study)
        "Gets when the trials ran, and on which clients.";
    VIEW_IMPORTANCE = reads("tunesmith.projects.locations.studies.views.importance", Of(TrialsList), Study)
        "Gets the importance of the parameters, with ranges.".slower(2);
    VIEW_TRUST = reads("tunesmith.projects.locations.studies.views.trust", Of(TrialsList), Study)
        "Gets how far the model's predictions can be trusted, and where it would look next.".slower(2);
    VIEW_RECOMMENDED = reads("tunesmith.projects.locations.studies.views.recommended", Of(TrialsList), Study)
        "Gets the tried point with the best expected result, and the best result.".slower(2);
    VIEW_SOURCE_STUDIES = reads("tunesmith.projects.locations.studies.views.sourceStudies", Of(TrialsList), Study)
        "Gets how much each source study counts for the search.".slower(2);
    VIEW_TABLE = reads("tunesmith.projects.locations.studies.views.table", Of(TrialsList), Study)
        "Gets some trials without their measurements, filtered and ordered.";
}

use_cases! {
    /// Use cases of studies that only Vertex AI or OSS Vizier has.
    VIZIER:
    LOOKUP_STUDY = reads("tunesmith.projects.locations.studies.lookup", Of(StudiesGet), Location)
        "Gets a study by its name for display.";
    SET_STUDY_STATE = changing("tunesmith.projects.locations.studies.setState", Of(StudiesCreate), Study)
        "Ends a study, or lets it accept requests again.";
    UPDATE_METADATA = changing("tunesmith.projects.locations.studies.updateMetadata", Of(TrialsUpdate), Study)
        "Adds metadata to a study and its trials.";
    LIST_OPERATIONS = reads("tunesmith.projects.locations.operations.list", Of(OperationsList), Location)
        "Lists operations; always empty, since operations are not kept.";
    DELETE_OPERATION = changing("tunesmith.projects.locations.operations.delete", Of(OperationsCancel), Operation)
        "Forgets an operation. Operations are not kept, so nothing changes.";
}

use_cases! {
    /// Use cases of the storage of Optuna studies, which are not the studies of `ml.projects.locations.studies`.
    OPTUNA_STORAGE:
    OPTUNA_CREATE_STUDY = changing("tunesmith.optuna.studies.create", Of(StudiesCreate), Server)
        "Creates an Optuna study.";
    OPTUNA_LIST_STUDIES = reads("tunesmith.optuna.studies.list", Of(StudiesList), Server)
        "Lists all Optuna studies with their attributes.";
    OPTUNA_GET_STUDY = reads("tunesmith.optuna.studies.get", Of(StudiesGet), Server)
        "Gets the ID, name, directions or attributes of an Optuna study.";
    OPTUNA_SET_STUDY_ATTRIBUTE = changing("tunesmith.optuna.studies.setAttribute", Of(StudiesCreate), Server)
        "Sets an attribute of an Optuna study.";
    OPTUNA_DELETE_STUDY = changing("tunesmith.optuna.studies.delete", Of(StudiesDelete), Server)
        "Deletes an Optuna study and its trials.";
    OPTUNA_CREATE_TRIAL = changing("tunesmith.optuna.trials.create", Of(TrialsCreate), Server)
        "Creates a trial of an Optuna study: a running one, or one with its content.";
    OPTUNA_LIST_TRIALS = reads("tunesmith.optuna.trials.list", Of(TrialsList), Server)
        "Lists trials of an Optuna study.";
    OPTUNA_GET_TRIAL = reads("tunesmith.optuna.trials.get", Of(TrialsGet), Server)
        "Gets a trial of an Optuna study, or its ID.";
    OPTUNA_SET_PARAMETER = changing("tunesmith.optuna.trials.setParameter", Of(TrialsUpdate), Server)
        "Sets a parameter of an unfinished trial.";
    OPTUNA_SET_STATE = changing("tunesmith.optuna.trials.setState", Of(TrialsUpdate), Server)
        "Starts or finishes a trial, and sets its values.";
    OPTUNA_SET_INTERMEDIATE_VALUE = changing("tunesmith.optuna.trials.setIntermediateValue", Of(TrialsUpdate), Server)
        "Sets the value of an unfinished trial at a step.";
    OPTUNA_SET_TRIAL_ATTRIBUTE = changing("tunesmith.optuna.trials.setAttribute", Of(TrialsUpdate), Server)
        "Sets an attribute of an unfinished trial.";
}

use_cases! {
    /// Use cases of the Model Context Protocol beside those of the HTTP API, which its tools call.
    AGENTS:
    MCP_MESSAGE = reads("mcp", Token, Server)
        "Answers a message of the Model Context Protocol.";
    CHECK_CONFIGURATION = reads("tunesmith.configurations.check", Token, Server)
        "Checks or proposes a configuration without storing anything.";
}
