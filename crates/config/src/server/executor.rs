//! What runs the programs of a server, and its settings: the part of a server configuration that flags replace.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use tunesmith_api::ai_platform::ProtoDuration;

pub use tunesmith_api::ai_platform::machines::LOCAL;

/// The names of executors.
pub const EXECUTORS: [&str; 5] = [LOCAL, "agent", "slurm", "ray", "kubernetes"];

/// The executor of a server and the settings of all executors, as far as the configuration states them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExecutorConfig {
    /// One of [`EXECUTORS`], or of `named`.
    pub name: Option<String>,
    /// Slurm.
    pub slurm: SlurmConfig,
    /// Ray.
    pub ray: RayConfig,
    /// Kubernetes.
    pub kubernetes: KubernetesConfig,
    /// The executors with names and settings of their own. No name is one of [`EXECUTORS`].
    pub named: BTreeMap<String, NamedExecutor>,
    /// The longest time in which an attempt with several replicas gets its places.
    pub placement_timeout: Option<Duration>,
    /// Maximum numbers of trials that run at the same time, by name of the executor.
    pub max_running_trials: BTreeMap<String, NonZeroU32>,
}

/// An executor with a name of its own.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NamedExecutor {
    /// One of [`EXECUTORS`].
    pub kind: String,
    /// The settings, if it is one of Slurm.
    pub slurm: SlurmConfig,
    /// The settings, if it is one of Ray.
    pub ray: RayConfig,
    /// The settings, if it is one of Kubernetes.
    pub kubernetes: KubernetesConfig,
}

/// The settings of Slurm, with the meaning of the flags `--slurm-…`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct SlurmConfig {
    /// Path of the configuration file of Slurm, for one of several clusters; that of its commands by default.
    pub config_file: Option<String>,
    /// Partition of the jobs whose machine type and region name no queue.
    pub partition: Option<String>,
    /// Account of the jobs.
    pub account: Option<String>,
    /// Quality of service of the jobs.
    pub qos: Option<String>,
    /// Further options of sbatch, one word each.
    pub options: Vec<String>,
    /// Maximum number of submissions per second; 10 by default.
    #[schemars(range(min = 1))]
    pub submit_rate: Option<u32>,
    /// Time between two calls of squeue; 5 s by default.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "Option<ProtoDuration>")]
    pub poll_interval: Option<Duration>,
    /// Time that a file needs at most to arrive from a node; 35 s by default.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "Option<ProtoDuration>")]
    pub file_delay: Option<Duration>,
    /// Time after which the supervisor on a lost node counts as dead; 60 s by default.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "Option<ProtoDuration>")]
    pub lease: Option<Duration>,
}

/// The settings of Ray, with the meaning of the flags `--ray-…`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RayConfig {
    /// Address of the dashboard; http://127.0.0.1:8265 by default.
    pub address: Option<String>,
    /// Name of the variable of the environment with the token of a cluster with authentication; by default TUNESMITH_RAY_TOKEN, and then the sources of Ray.
    pub token_variable: Option<String>,
    /// Path of this program on the nodes; uploaded by default.
    pub program: Option<String>,
    /// Address of this server, as the nodes reach it.
    pub server: Option<String>,
}

/// The settings of Kubernetes, with the meaning of the flags `--kubernetes-…`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct KubernetesConfig {
    /// Path of the configuration of Kubernetes; that of KUBECONFIG, ~/.kube/config or the pod by default.
    pub config_file: Option<String>,
    /// Name of the context in that configuration, for one of several clusters; its current one by default.
    pub context: Option<String>,
    /// Namespace of the jobs whose machine type and region name no queue; that of the configuration of Kubernetes by default.
    pub namespace: Option<String>,
    /// Address of this server, as pods reach it.
    pub server: Option<String>,
    /// Image with tunesmith-agent and the command cp, from which pods get their agent.
    pub agent_image: Option<String>,
    /// Path of tunesmith-agent, or of tunesmith, in that image; /usr/local/bin/tunesmith-agent by default.
    pub agent_path: Option<String>,
    /// Image of trials that name none.
    pub image: Option<String>,
    /// Folder in which programs start; that of their image by default.
    pub working_dir: Option<String>,
    /// Service account of pods.
    pub service_account: Option<String>,
    /// Labels that nodes must have.
    pub node_selector: BTreeMap<String, String>,
    /// Label of nodes whose value is the type of their accelerators.
    pub accelerator_label: Option<String>,
    /// Paths in pods by the claim of a persistent volume.
    pub volumes: BTreeMap<String, String>,
    /// Template into which the pods of trials are merged, as in the field `template` of a Job.
    pub pod_template: Option<serde_json::Map<String, serde_json::Value>>,
    /// Further templates by name, for the option `podTemplate` of a machine type or region.
    pub pod_templates: BTreeMap<String, serde_json::Map<String, serde_json::Value>>,
}

fn duration<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    Ok(Option::<ProtoDuration>::deserialize(deserializer)?.map(|duration| duration.0))
}
