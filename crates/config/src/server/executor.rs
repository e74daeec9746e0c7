//! Executors of a server and their settings, from the server configuration and from overriding flags and environment
//! variables.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use schemars::JsonSchema;
use serde::Deserialize;

use tunesmith_api::ai_platform::ProtoDuration;

pub use tunesmith_api::ai_platform::machines::LOCAL;

pub const EXECUTORS: [&str; 5] = [LOCAL, "agent", "slurm", "ray", "kubernetes"];

/// Executor of a server, and the configured settings of all executors.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExecutorConfig {
    /// One of [`EXECUTORS`], or of `named`.
    pub name: Option<String>,
    pub slurm: SlurmConfig,
    pub ray: RayConfig,
    pub kubernetes: KubernetesConfig,
    /// Executors with names and settings of their own. No name is one of [`EXECUTORS`].
    pub named: BTreeMap<String, NamedExecutor>,
    /// Executor of the workers of models: [`LOCAL`], or one of the kind `kubernetes`. [`LOCAL`] if absent.
    pub prediction: Option<String>,
    /// Maximum time for scheduling all replicas of an attempt.
    pub placement_timeout: Option<Duration>,
    /// Maximum number of concurrent trials by executor name.
    pub max_running_trials: BTreeMap<String, NonZeroU32>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct NamedExecutor {
    /// One of [`EXECUTORS`]. Selects which of the settings below apply.
    pub kind: String,
    pub slurm: SlurmConfig,
    pub ray: RayConfig,
    pub kubernetes: KubernetesConfig,
}

/// The settings of Slurm. Flags and variables of the environment give the first ones.
#[derive(Debug, Clone, Default, PartialEq, Args, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct SlurmConfig {
    /// Path of the configuration file of Slurm, for one of several clusters; that of its commands by default.
    #[arg(skip)]
    pub config_file: Option<String>,
    /// Partition of the jobs whose machine type and region name no queue.
    #[arg(long = "slurm-partition", id = "slurm_partition", value_name = "NAME", env = "TUNESMITH_SLURM_PARTITION")]
    pub partition: Option<String>,
    /// Account of the jobs.
    #[arg(long = "slurm-account", id = "slurm_account", value_name = "NAME", env = "TUNESMITH_SLURM_ACCOUNT")]
    pub account: Option<String>,
    /// Quality of service of the jobs.
    #[arg(long = "slurm-qos", id = "slurm_qos", value_name = "NAME", env = "TUNESMITH_SLURM_QOS")]
    pub qos: Option<String>,
    /// Further options of sbatch, one word each.
    #[arg(
        long = "slurm-options",
        id = "slurm_options",
        value_name = "OPTIONS",
        env = "TUNESMITH_SLURM_OPTIONS",
        allow_hyphen_values = true,
        // A conversion from a text would be taken before the parser: that of one word.
        value_parser = Words::from_str,
        help = "Further options of sbatch, as words of a shell: separated by spaces, with quotes. May be given several times"
    )]
    #[schemars(with = "Vec<String>")]
    pub options: Vec<Words>,
    /// Maximum number of submissions per second; 10 by default.
    #[arg(skip)]
    #[schemars(range(min = 1))]
    pub submit_rate: Option<u32>,
    /// Time between two calls of squeue; 5 s by default.
    #[arg(skip)]
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "Option<ProtoDuration>")]
    pub poll_interval: Option<Duration>,
    /// Time that a file needs at most to arrive from a node; 35 s by default.
    #[arg(skip)]
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "Option<ProtoDuration>")]
    pub file_delay: Option<Duration>,
    /// Time after which the supervisor on a lost node counts as dead; 60 s by default.
    #[arg(skip)]
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "Option<ProtoDuration>")]
    pub lease: Option<Duration>,
}

impl SlurmConfig {
    /// Merges these settings, from flags and the environment, over those of `file`.
    #[must_use]
    pub fn over(self, file: &Self) -> Self {
        Self {
            partition: stated(self.partition, &file.partition),
            account: stated(self.account, &file.account),
            qos: stated(self.qos, &file.qos),
            options: if self.options.is_empty() { file.options.clone() } else { self.options },
            ..file.clone()
        }
    }
}

/// Value of a flag unless absent or empty, else of the file.
fn stated(flag: Option<String>, file: &Option<String>) -> Option<String> {
    flag.filter(|value| !value.is_empty()).or_else(|| file.clone())
}

/// Words of a command line: split like in a shell from text, or a single word from a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct Words(pub Vec<String>);

impl From<String> for Words {
    fn from(word: String) -> Self {
        Self(vec![word])
    }
}

impl FromStr for Words {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        shlex::split(text).map(Self).ok_or_else(|| format!("{text:?} has a quote that is not closed"))
    }
}

/// The settings of Ray. Flags and variables of the environment give those of the agents and the address.
#[derive(Debug, Clone, Default, PartialEq, Args, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RayConfig {
    /// Address of the dashboard; http://127.0.0.1:8265 by default.
    #[arg(long = "ray-address", id = "ray_address", value_name = "URL", env = "TUNESMITH_RAY_ADDRESS")]
    pub address: Option<String>,
    /// Name of the variable of the environment with the token of a cluster with authentication; by default TUNESMITH_RAY_TOKEN, and then the sources of Ray.
    #[arg(skip)]
    pub token_variable: Option<String>,
    /// Path of this program on the nodes; uploaded by default.
    #[arg(long = "ray-program", id = "ray_program", value_name = "PATH", env = "TUNESMITH_RAY_PROGRAM")]
    pub program: Option<String>,
    /// Address of this server, as the nodes reach it.
    #[arg(long = "ray-server", id = "ray_server", value_name = "URL", env = "TUNESMITH_RAY_SERVER")]
    pub server: Option<String>,
}

impl RayConfig {
    /// As [`SlurmConfig::over`].
    #[must_use]
    pub fn over(self, file: &Self) -> Self {
        Self {
            address: stated(self.address, &file.address),
            program: stated(self.program, &file.program),
            server: stated(self.server, &file.server),
            ..file.clone()
        }
    }
}

/// The settings of Kubernetes. Flags and variables of the environment give the namespace, the images and the addresses.
#[derive(Debug, Clone, Default, PartialEq, Args, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct KubernetesConfig {
    /// Path of the configuration of Kubernetes; that of KUBECONFIG, ~/.kube/config or the pod by default.
    #[arg(skip)]
    pub config_file: Option<String>,
    /// Name of the context in that configuration, for one of several clusters; its current one by default.
    #[arg(skip)]
    pub context: Option<String>,
    /// Namespace of the jobs whose machine type and region name no queue; that of the configuration of Kubernetes by default.
    #[arg(
        long = "kubernetes-namespace",
        id = "kubernetes_namespace",
        value_name = "NAME",
        env = "TUNESMITH_KUBERNETES_NAMESPACE"
    )]
    pub namespace: Option<String>,
    /// Address of this server, as pods reach it.
    #[arg(
        long = "kubernetes-server",
        id = "kubernetes_server",
        value_name = "URL",
        env = "TUNESMITH_KUBERNETES_SERVER"
    )]
    pub server: Option<String>,
    /// Image with tunesmith-agent and the command cp, from which pods get their agent.
    #[arg(
        long = "kubernetes-agent-image",
        id = "kubernetes_agent_image",
        value_name = "IMAGE",
        env = "TUNESMITH_KUBERNETES_AGENT_IMAGE"
    )]
    pub agent_image: Option<String>,
    /// Path of tunesmith-agent, or of tunesmith, in that image; /usr/local/bin/tunesmith-agent by default.
    #[arg(
        long = "kubernetes-agent-path",
        id = "kubernetes_agent_path",
        value_name = "PATH",
        env = "TUNESMITH_KUBERNETES_AGENT_PATH"
    )]
    pub agent_path: Option<String>,
    /// Image of trials that name none.
    #[arg(
        long = "kubernetes-image",
        id = "kubernetes_image",
        value_name = "IMAGE",
        env = "TUNESMITH_KUBERNETES_IMAGE"
    )]
    pub image: Option<String>,
    /// Folder in which programs start; that of their image by default.
    #[arg(skip)]
    pub working_dir: Option<String>,
    /// Service account of pods.
    #[arg(skip)]
    pub service_account: Option<String>,
    /// Labels that nodes must have.
    #[arg(skip)]
    pub node_selector: BTreeMap<String, String>,
    /// Label of nodes whose value is the type of their accelerators.
    #[arg(skip)]
    pub accelerator_label: Option<String>,
    /// Paths in pods by the claim of a persistent volume.
    #[arg(skip)]
    pub volumes: BTreeMap<String, String>,
    /// Template into which the pods of trials are merged, as in the field `template` of a Job.
    #[arg(skip)]
    pub pod_template: Option<serde_json::Map<String, serde_json::Value>>,
    /// Further templates by name, for the option `podTemplate` of a machine type or region.
    #[arg(skip)]
    pub pod_templates: BTreeMap<String, serde_json::Map<String, serde_json::Value>>,
}

impl KubernetesConfig {
    /// As [`SlurmConfig::over`].
    #[must_use]
    pub fn over(self, file: &Self) -> Self {
        Self {
            namespace: stated(self.namespace, &file.namespace),
            server: stated(self.server, &file.server),
            agent_image: stated(self.agent_image, &file.agent_image),
            agent_path: stated(self.agent_path, &file.agent_path),
            image: stated(self.image, &file.image),
            ..file.clone()
        }
    }
}

fn duration<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    Ok(Option::<ProtoDuration>::deserialize(deserializer)?.map(|duration| duration.0))
}
