//! Format of a server configuration, the source of its JSON Schema.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Deserialize;

use super::executor::{KubernetesConfig, RayConfig, SlurmConfig};
use super::webhooks::WebhookConfig;
use crate::shape::Shape;
use tunesmith_api::ai_platform::{Double, ProtoDuration};

/// The configuration of a server: what machines it has, what the names in requests mean on them, and who may use how much.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(title = "server_config")]
pub(super) struct ServerFile {
    /// What runs the programs: `local`, `agent`, `slurm`, `ray` or `kubernetes`, as `--executor`, or a name under `executors`.
    pub(super) executor: Option<String>,
    /// Executors with names of their own, which regions and machine types name: several clusters of one kind, each with its
    /// settings and limit.
    pub(super) executors: BTreeMap<String, ExecutorFile>,
    /// Settings of the executor `slurm`. Flags and variables of the environment replace them.
    pub(super) slurm: SlurmConfig,
    /// Settings of the executor `ray`. Flags and variables of the environment replace them.
    pub(super) ray: RayConfig,
    /// Settings of the executor `kubernetes`. Flags and variables of the environment replace them.
    pub(super) kubernetes: KubernetesConfig,
    /// Workers of models.
    pub(super) prediction: PredictionFile,
    /// What the programs on this machine may use together. Each kind of resource that is given is counted; programs wait
    /// until theirs are free. Nothing is counted by default.
    pub(super) resources: Option<ResourcesFile>,
    /// Machine types by name. They are added to the published ones; what an entry of a published name leaves out stays as
    /// published.
    pub(super) machine_types: BTreeMap<String, MachineTypeFile>,
    /// The machines of the predefined scale tiers, by name. What an entry leaves out stays as published.
    pub(super) scale_tiers: BTreeMap<String, TierFile>,
    /// By published accelerator, such as `NVIDIA_TESLA_K80`: the kind that is given out for it, or `any`. By default
    /// `k80`, `p100`, `v100`, `p4`, `t4`, `a100`, `tpu-v2` and so on.
    pub(super) accelerators: BTreeMap<String, String>,
    /// Places by region. If any is given, other regions are refused; otherwise the region has no effect.
    pub(super) regions: BTreeMap<String, PlacementFile>,
    /// Place of preemptible jobs: `tunesmith.preemptible`, and the strategy `SPOT` of Vertex AI. None by default, and preemptible
    /// jobs then run as others do.
    pub(super) preemptible: Option<PlacementFile>,
    /// Runtimes by version, as in `runtimeVersion`. If any is given, other versions are refused; otherwise the version has
    /// no effect.
    pub(super) runtime_versions: BTreeMap<String, RuntimeFile>,
    /// Folders and buckets that jobs may name as `jobDir` and in `packageUris` on a server with tokens, in addition to those of
    /// `--allowed-folder`: `[PROJECT=]/FOLDER`, `[PROJECT=]gs://BUCKET[/FOLDER]` or `[PROJECT=]s3://BUCKET[/FOLDER]`.
    pub(super) allowed_folders: Vec<String>,
    /// By name of a bucket: the folder of this machine that stands for it. Jobs of Vertex AI find it at `/gcs/BUCKET`, and
    /// `gs://BUCKET` as their `baseOutputDirectory` is the folder.
    pub(super) buckets: BTreeMap<String, String>,
    /// Limits on what runs and waits at the same time.
    pub(super) limits: LimitsFile,
    /// The longest time in which a trial with several replicas gets places for all of them, where each has a place of its own. It then
    /// gives back those that it has, and tries again later. 300 s by default.
    pub(super) placement_timeout: Option<ProtoDuration>,
    /// The longest time that a job waits in the queue, or that a trial waits for a limit or for resources; the job or the
    /// trial then fails with the reason. No limit by default.
    pub(super) queue_deadline: Option<ProtoDuration>,
    /// When a file of an audit log ends, and how long it is kept.
    pub(super) audit: AuditFile,
    /// Sign-in to the console at an OpenID Connect provider, beside tokens. A server with it requires every caller to be
    /// authenticated.
    pub(super) open_id_connect: Option<OpenIdConnectFile>,
    /// Retention of ended jobs and idle studies.
    pub(super) retention: RetentionFile,
    /// Receivers that are notified of events of jobs, trials and studies.
    pub(super) webhooks: Vec<WebhookConfig>,
}

/// When a file of an audit log ends, and how long it is kept.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct AuditFile {
    /// Size from which on the log is continued in a new file, such as `16MiB`. `64MiB` by default.
    pub(super) max_file_size: Option<String>,
    /// Age of the first record, in days, from which on the log is continued in a new file. 30 by default.
    #[schemars(range(min = 1, max = 36_500))]
    pub(super) max_file_days: Option<u32>,
    /// Days after its end for which a file is kept. Files are never removed by default.
    #[schemars(range(min = 1, max = 36_500))]
    pub(super) retention_days: Option<u32>,
}

/// Sign-in to the console at an OpenID Connect provider. The address to register with the provider is that of the server
/// (`--public-url`), followed by `/console/login/callback`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("required" = ["issuer", "clientId"]))]
pub(super) struct OpenIdConnectFile {
    /// Address of the provider, exactly as it states its issuer: `https://HOST[/PATH]`, or `http://` on this machine.
    pub(super) issuer: String,
    /// ID of this server as a client of the provider.
    pub(super) client_id: String,
    /// File with the client's secret, readable by the server only. A public client has none.
    pub(super) client_secret_file: Option<String>,
    /// Name of the provider on the login page. Its host by default.
    pub(super) name: Option<String>,
    /// Scopes beside `openid`. `email` and `profile` by default.
    pub(super) scopes: Option<Vec<String>>,
    /// Claim of the ID token that names the principal, as `user:VALUE`: `email`, which the provider must have verified, by
    /// default; or one that the provider never gives to another account, such as `sub`.
    pub(super) principal_claim: Option<String>,
    /// Claim of the ID token with the groups of the account, or its path, such as `realm_access.roles`. `groups` by
    /// default.
    pub(super) groups_claim: Option<String>,
    /// Roles by group: `ml.admin`, `ml.developer` or `ml.viewer`, in all projects, or in one as `ml.viewer@PROJECT`. A
    /// person without any role cannot sign in.
    pub(super) group_roles: BTreeMap<String, Vec<String>>,
    /// Roles of everyone who can sign in at the provider. None by default.
    pub(super) roles: Vec<String>,
}

/// Retention of ended jobs and idle studies. They are never removed by default.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RetentionFile {
    /// Days after the end of a job for which it is kept with its study, trials and logs. A job whose trials an
    /// unfinished job reuses is kept.
    #[schemars(range(min = 1, max = 36_500))]
    pub(super) job_days: Option<u32>,
    /// Days after the last new, started or ended trial for which a study that belongs to no job is kept. A study with trials that
    /// run, and one whose trials an active study or an unfinished job reuses, is kept.
    #[schemars(range(min = 1, max = 36_500))]
    pub(super) study_days: Option<u32>,
}

/// An executor with a name of its own.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("required" = ["kind"]))]
pub(super) struct ExecutorFile {
    /// What it is: `local`, `agent`, `slurm`, `ray` or `kubernetes`.
    pub(super) kind: String,
    /// Settings of an executor of the kind `slurm`.
    pub(super) slurm: Option<SlurmConfig>,
    /// Settings of an executor of the kind `ray`.
    pub(super) ray: Option<RayConfig>,
    /// Settings of an executor of the kind `kubernetes`.
    pub(super) kubernetes: Option<KubernetesConfig>,
    /// Maximum number of trials of this server that run on it at the same time; any number by default. A job without
    /// hyperparameters counts as one.
    #[schemars(range(min = 1))]
    pub(super) max_running_trials: Option<u32>,
}

/// Workers of models.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct PredictionFile {
    /// Executor of workers: `local` (the default) for processes and containers of this machine; for pods `kubernetes`, or the name of
    /// an entry of that kind under `executors`.
    pub(super) executor: Option<String>,
}

/// What the programs on this machine may use together.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ResourcesFile {
    /// Number of processors, above 0; fractions are allowed. Not counted by default.
    pub(super) cpus: Option<Double>,
    /// Main memory, such as `64GiB`. Not counted by default.
    pub(super) memory: Option<String>,
    /// The accelerators. Not counted by default.
    pub(super) devices: Option<Vec<DeviceFile>>,
    /// Find the NVIDIA accelerators of this machine with `nvidia-smi`, instead of `devices`.
    pub(super) discover_devices: bool,
}

/// An accelerator.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("required" = ["id"]))]
pub(super) struct DeviceFile {
    /// Index or UUID, as in `CUDA_VISIBLE_DEVICES`.
    #[schemars(length(min = 1))]
    pub(super) id: String,
    /// Kind, such as `v100`. A device without one serves requests of every kind.
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
}

/// A machine type.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct MachineTypeFile {
    /// Number of processors, above 0; fractions are allowed.
    pub(super) cpus: Option<Double>,
    /// Main memory, such as `15GiB`.
    pub(super) memory: Option<String>,
    /// Accelerators of each machine.
    pub(super) accelerators: Option<AcceleratorsFile>,
    /// Name of the executor; that of the server by default.
    pub(super) executor: Option<String>,
    /// A queue of the executor: a partition of Slurm, a namespace of Kubernetes.
    pub(super) queue: Option<String>,
    /// Further settings of the executor by name, such as constraints on nodes.
    pub(super) options: BTreeMap<String, String>,
}

/// Accelerators of a machine.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("required" = ["type", "count"]))]
pub(super) struct AcceleratorsFile {
    /// A published name such as `NVIDIA_TESLA_V100`, or a kind such as `v100`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1))]
    pub(super) kind: String,
    /// Their number.
    #[schemars(range(min = 1))]
    pub(super) count: u32,
}

/// The machines of a scale tier.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct TierFile {
    /// Machine type of the master.
    pub(super) master_type: Option<String>,
    /// Machine type of workers.
    pub(super) worker_type: Option<String>,
    /// Number of workers.
    #[schemars(range(max = 1000))]
    pub(super) worker_count: Option<u32>,
    /// Machine type of parameter servers.
    pub(super) parameter_server_type: Option<String>,
    /// Number of parameter servers.
    #[schemars(range(max = 1000))]
    pub(super) parameter_server_count: Option<u32>,
}

/// The place in which jobs run.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct PlacementFile {
    /// Name of the executor; that of the server by default.
    pub(super) executor: Option<String>,
    /// A queue of the executor: a partition of Slurm, a namespace of Kubernetes.
    pub(super) queue: Option<String>,
    /// Further settings of the executor by name, such as constraints on nodes.
    pub(super) options: BTreeMap<String, String>,
}

/// The runtime of programs.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RuntimeFile {
    /// Absolute path of the Python interpreter with which packages are installed and run. The `python3` on the `PATH` by
    /// default.
    pub(super) python: Option<String>,
    /// The image in which an executor that runs images runs programs that have none. Not for the executor `local`.
    pub(super) image: Option<String>,
}

/// Limits on what runs and waits at the same time.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct LimitsFile {
    /// Maximum number of running trials of jobs. A job without hyperparameters counts as one.
    pub(super) running_trials: RunningFile,
    /// Maximum number of queued jobs. A further job is refused.
    pub(super) queued_jobs: QueuedFile,
}

/// Limits on running trials. No limit by default.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RunningFile {
    /// In all.
    #[schemars(range(min = 1))]
    pub(super) cluster: Option<u32>,
    /// Of the jobs of one project.
    #[schemars(range(min = 1))]
    pub(super) project: Option<u32>,
    /// Of the jobs that one principal submitted.
    #[schemars(range(min = 1))]
    pub(super) principal: Option<u32>,
    /// Of one study.
    #[schemars(range(min = 1))]
    pub(super) study: Option<u32>,
}

/// Limits on queued jobs. No limit by default.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct QueuedFile {
    /// In all.
    #[schemars(range(min = 1))]
    pub(super) cluster: Option<u32>,
    /// Of one project.
    #[schemars(range(min = 1))]
    pub(super) project: Option<u32>,
    /// That one principal submitted.
    #[schemars(range(min = 1))]
    pub(super) principal: Option<u32>,
}

impl ServerFile {
    pub(super) fn shape() -> Shape {
        Shape::of(&server_json_schema())
    }
}

/// JSON Schema (draft 2020-12) of a server configuration, published as `schemas/server_config.schema.json`.
pub fn server_json_schema() -> Schema {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<ServerFile>()
}
