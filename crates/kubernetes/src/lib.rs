#![doc = include_str!("../README.md")]

mod client;
mod names;
mod objects;
mod placement;
mod pod_template;
mod state;
mod submission;
mod supersession;
mod sweep;
mod watch;
mod worker_objects;
mod worker_state;
mod workers;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use async_trait::async_trait;
use http::Uri;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Config, ResourceExt};

pub use self::pod_template::{PodTemplate, PodTemplateError};
pub use self::workers::{KubernetesWorkers, WORKER_PERMISSIONS};

use self::client::{ApiError, Client, Purpose, innermost};
use self::submission::Recorded;
use self::watch::Watched;
use tunesmith_domain::JobId;
use tunesmith_executor::remote::{AgentEngine, AgentId, AgentState, Submitted, Subscription};
use tunesmith_executor::{Capabilities, ExecutorError, ExecutorJobId, ExecutorJobSpec, LossCause, StopMode};

/// All permissions that a server needs: group, resource, verb.
pub const PERMISSIONS: [(&str, &str, &str); 12] = [
    ("batch", "jobs", "create"),
    ("batch", "jobs", "get"),
    ("batch", "jobs", "list"),
    ("batch", "jobs", "watch"),
    ("batch", "jobs", "delete"),
    ("", "pods", "list"),
    ("", "pods", "watch"),
    ("", "events", "list"),
    ("", "events", "watch"),
    ("", "secrets", "create"),
    ("", "secrets", "patch"),
    ("", "secrets", "delete"),
];

/// Settings of a [`KubernetesEngine`].
#[derive(Debug, Clone)]
pub struct KubernetesSettings {
    pub cluster: ClusterChoice,
    /// Default namespace of jobs; `None` for the one in the kubeconfig.
    pub namespace: Option<String>,
    pub pods: PodSettings,
    /// Additional namespaces that jobs may name as their queue.
    pub queues: BTreeSet<String>,
    /// Absolute path of the local folder that records submissions. Created when needed.
    pub registry: PathBuf,
    /// Label value identifying the store that servers share; `None` for a single server.
    pub store: Option<String>,
}

/// Selects a cluster configured on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterChoice {
    /// Path of the kubeconfig; `None` for `KUBECONFIG`, `~/.kube/config` or the pod's service account.
    pub config_file: Option<PathBuf>,
    /// Context in the kubeconfig; `None` for the current one.
    pub context: Option<String>,
}

impl ClusterChoice {
    async fn config(&self) -> Result<Config, KubernetesUnusable> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let config = match (&self.config_file, &self.context) {
            (None, None) => return Config::infer().await.map_err(|error| unusable_config(&error)),
            (None, Some(_)) => Config::from_kubeconfig(&options).await,
            (Some(file), _) => match Kubeconfig::read_from(file) {
                Ok(read) => Config::from_custom_kubeconfig(read, &options).await,
                Err(error) => Err(error),
            },
        };
        config.map_err(|error| unusable_config(&error))
    }
}

fn unusable_config(error: &(dyn std::error::Error + 'static)) -> KubernetesUnusable {
    KubernetesUnusable::Configuration(innermost(error))
}

/// Pod settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodSettings {
    /// Image with `tunesmith-agent` or `tunesmith`, and `cp`.
    pub agent_image: String,
    /// Path of the agent in that image.
    pub agent_path: String,
    /// Default image of trials; `None` if each must name one.
    pub default_image: Option<String>,
    /// Address under which pods reach the server; `None` for the one in the specification.
    pub server: Option<String>,
    /// Service account of pods; `None` for the namespace's default.
    pub service_account: Option<String>,
    /// Working directory of programs; `None` for the image's.
    pub working_directory: Option<String>,
    /// Required node labels.
    pub node_selector: BTreeMap<String, String>,
    /// Node label whose value is the accelerator type.
    pub accelerator_label: Option<String>,
    /// Persistent volume claims by mount path, such as the job-dir's.
    pub volumes: BTreeMap<String, String>,
    pub template: PodTemplate,
    /// Additional templates, by the name in the option `podTemplate` of a machine type or region.
    pub templates: BTreeMap<String, PodTemplate>,
}

/// A cluster that cannot be used as configured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KubernetesUnusable {
    #[error(
        "the configuration of Kubernetes cannot be read: {0}; set KUBECONFIG to the file of a cluster, or run the server in a pod"
    )]
    Configuration(String),
    #[error("the Kubernetes cluster at {address} cannot be used: {reason}; check KUBECONFIG and the network")]
    Cluster { address: String, reason: String },
    #[error("{0}")]
    Server(String),
    #[error("the folder {} cannot be used", .0.display())]
    Folder(PathBuf, #[source] io::Error),
    #[error(
        "this user may not {} in the namespace {namespace:?} of Kubernetes; give it the Role of \
         examples/kubernetes in this namespace",
        missing.join(", ")
    )]
    Permissions {
        namespace: String,
        /// Missing permissions, such as `create jobs.batch`.
        missing: Vec<String>,
    },
}

/// Engine that runs agents as Kubernetes Jobs.
pub struct KubernetesEngine {
    settings: KubernetesSettings,
    /// Default namespace.
    namespace: String,
    address: Uri,
    client: Client,
    submitted: Submitted,
    watched: Watched,
    /// Whether the warning about a loopback server address was logged.
    has_warned: AtomicBool,
}

impl KubernetesEngine {
    /// Creates an engine for the cluster of `settings`, without sending a request.
    ///
    /// # Errors
    /// [`KubernetesUnusable::Configuration`].
    pub async fn connect(settings: KubernetesSettings) -> Result<Self, KubernetesUnusable> {
        let config = settings.cluster.config().await?;
        Self::new(settings, config)
    }

    /// Creates an engine for the cluster of `config`, without sending a request.
    ///
    /// # Errors
    /// [`KubernetesUnusable::Configuration`].
    pub fn new(settings: KubernetesSettings, mut config: Config) -> Result<Self, KubernetesUnusable> {
        // [`client::Client`] retries, with shorter delays.
        config.default_retry = false;
        let namespace = settings.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let address = config.cluster_url.clone();
        let kube = kube::Client::try_from(config);
        let kube = kube.map_err(|error| KubernetesUnusable::Configuration(innermost(&error)))?;
        Ok(Self {
            namespace,
            address,
            submitted: Submitted::new(settings.registry.clone()),
            watched: Watched::new(kube.clone()),
            client: Client::new(kube),
            has_warned: AtomicBool::new(false),
            settings,
        })
    }

    /// Checks that the cluster responds and grants all permissions in every namespace.
    ///
    /// # Errors
    /// [`KubernetesUnusable`].
    pub async fn check(&self) -> Result<(), KubernetesUnusable> {
        for namespace in std::iter::once(&self.namespace).chain(&self.settings.queues) {
            check_permissions(&self.client, &self.address, namespace, &PERMISSIONS).await?;
        }
        Ok(())
    }
}

/// Checks that the cluster at `address` responds and grants all `permissions` in `namespace`.
async fn check_permissions(
    client: &Client,
    address: &Uri,
    namespace: &str,
    permissions: &[(&str, &str, &str)],
) -> Result<(), KubernetesUnusable> {
    let mut missing = Vec::new();
    for (group, resource, verb) in permissions {
        let answer = may(client, namespace, group, resource, verb).await;
        let unusable =
            |error: ApiError| KubernetesUnusable::Cluster { address: address.to_string(), reason: error.to_string() };
        if !answer.map_err(unusable)? {
            let name = if group.is_empty() { (*resource).to_owned() } else { format!("{resource}.{group}") };
            missing.push(format!("{verb} {name}"));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(KubernetesUnusable::Permissions { namespace: namespace.to_owned(), missing })
}

async fn may(client: &Client, namespace: &str, group: &str, resource: &str, verb: &str) -> Result<bool, ApiError> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let attributes = ResourceAttributes {
        namespace: Some(namespace.to_owned()),
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource: Some(subresource.to_owned()).filter(|name| !name.is_empty()),
        verb: Some(verb.to_owned()),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
    let review = SelfSubjectAccessReview { spec, ..Default::default() };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.kube.clone());
    let params = PostParams::default();
    let answer = client.call(Purpose::Read, || reviews.create(&params, &review)).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

impl std::fmt::Debug for KubernetesEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubernetesEngine").field("settings", &self.settings).finish_non_exhaustive()
    }
}

fn unreachable(id: &ExecutorJobId, error: ApiError) -> ExecutorError {
    ExecutorError::Unreachable { id: id.clone(), source: io::Error::other(error) }
}

fn io_failed(id: &ExecutorJobId) -> impl Fn(io::Error) -> ExecutorError {
    |source| ExecutorError::Unreachable { id: id.clone(), source }
}

/// Reason for the end of an agent whose Job was deleted.
const DELETED: &str = "its job was deleted from the cluster";

fn gone(reason: &str) -> AgentState {
    AgentState::Gone { cause: LossCause::Failure, reason: reason.to_owned() }
}

#[async_trait]
impl AgentEngine for KubernetesEngine {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ELSEWHERE
    }

    fn has_volume(&self, path: &Path) -> bool {
        self.settings.pods.volumes.keys().any(|volume| path.starts_with(volume))
    }

    fn server(&self) -> Option<&str> {
        self.settings.pods.server.as_deref()
    }

    async fn start(&self, spec: &ExecutorJobSpec, file: &Path) -> Result<(), ExecutorError> {
        self.submit(spec, file).await
    }

    async fn place(&self, id: &AgentId) -> Result<AgentState, ExecutorError> {
        let Some(recorded) = self.recorded(id)? else { return Ok(AgentState::Unknown) };
        let Some(job) = self.job(&id.run, &recorded).await? else {
            return Ok(match recorded.uid {
                Some(_) => gone(DELETED),
                None => AgentState::Unknown,
            });
        };
        let pods = self.pods(&id.run, &recorded, &job).await?;
        let place = state::place(&job, &pods);
        if !matches!(place, AgentState::Waiting { .. }) {
            return Ok(place);
        }
        let identity = self.identity(&id.run)?;
        let reason = match state::newest(&pods) {
            // A suspended Job states its own reason.
            None if state::is_suspended(&job) => None,
            None => self.watched.refusal(identity, &recorded.namespace, &job.uid().unwrap_or_default()),
            Some(pod) if state::is_being_created(pod) => self.watched.pull(identity, &recorded.namespace, pod),
            Some(_) => None,
        };
        Ok(reason.map_or(place, |reason| AgentState::Waiting { reason }))
    }

    fn changes(&self, run: &ExecutorJobId) -> Option<Subscription<String>> {
        // Without an identity, the attempt is polled.
        let labels = names::labels(self.submitted.identity().ok()?, &AgentId::from(run));
        Some(self.watched.changes(names::attempt_key(&labels)?))
    }

    async fn confirmed_place(&self, id: &AgentId) -> Result<AgentState, ExecutorError> {
        let Some(recorded) = self.recorded(id)? else { return Ok(AgentState::Unknown) };
        match self.read_job(&id.run, &recorded).await? {
            Some(job) => Ok(state::place(&job, &self.read_pods(&id.run, &recorded, &job).await?)),
            None => Ok(gone(DELETED)),
        }
    }

    async fn stop(&self, id: &AgentId, _: StopMode) -> Result<(), ExecutorError> {
        // A running agent receives the request in the response to its next report, and reports the end of its
        // program. A signal from the kubelet would look like a preemption.
        if !matches!(self.place(id).await?, AgentState::Waiting { .. }) {
            return Ok(());
        }
        match self.recorded(id)? {
            Some(recorded) => self.delete(&recorded).await.map_err(|error| unreachable(&id.run, error)),
            None => Ok(()),
        }
    }

    async fn node(&self, id: &AgentId) -> Result<Option<String>, ExecutorError> {
        let Some(recorded) = self.recorded(id)? else { return Ok(None) };
        let Some(job) = self.job(&id.run, &recorded).await? else { return Ok(None) };
        Ok(state::node(&self.pods(&id.run, &recorded, &job).await?))
    }

    async fn clean_up(&self, id: &AgentId) -> Result<(), ExecutorError> {
        match self.recorded(id)? {
            Some(recorded) => self.delete(&recorded).await.map_err(|error| unreachable(&id.run, error)),
            None => Ok(()),
        }
    }

    async fn supersede(&self, run: &ExecutorJobId) -> Result<(), ExecutorError> {
        self.remove_of_other_servers(run).await
    }

    async fn sweep(&self, is_over: &(dyn for<'a> Fn(&'a str) -> io::Result<bool> + Sync)) -> io::Result<()> {
        self.remove_left_over(is_over).await
    }

    async fn forget(&self, job: &JobId) -> io::Result<()> {
        let prefix = names::prefix(self.submitted.identity()?, job);
        for name in self.submitted.starting_with(&prefix)? {
            if let Some(note) = self.submitted.note(&name)? {
                self.delete(&Recorded::new(name.clone(), &note)).await.map_err(io::Error::other)?;
            }
            self.submitted.remove(&name)?;
        }
        Ok(())
    }
}
