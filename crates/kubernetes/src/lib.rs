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

use self::client::{ApiError, Client, Purpose, innermost};
use self::submission::Recorded;
use self::watch::Watched;
use tunesmith_domain::JobId;
use tunesmith_executor::remote::{AgentEngine, AgentId, PlaceState, Submitted};
use tunesmith_executor::{Capabilities, ExecutorError, ExecutorJobId, ExecutorJobSpec, LossCause, StopMode};

/// What a server does with its objects: group, resource, verb. It needs no other permission.
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
    /// Which cluster.
    pub cluster: ClusterChoice,
    /// The namespace of jobs whose specification names none; `None` for that of the configuration of Kubernetes.
    pub namespace: Option<String>,
    /// The pods.
    pub pods: PodSettings,
    /// The namespaces beside it that jobs may name as their queue.
    pub queues: BTreeSet<String>,
    /// Absolute path of the folder on this machine in which submissions are recorded. Created when needed.
    pub registry: PathBuf,
    /// The identity of the store that this server shares with others, as the value of a label; `None` for the only server.
    pub store: Option<String>,
}

/// The cluster among those that are configured on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterChoice {
    /// Path of the configuration of Kubernetes; `None` for that of `KUBECONFIG`, `~/.kube/config` or the pod of this process.
    pub config_file: Option<PathBuf>,
    /// Name of the context in that configuration; `None` for its current one.
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

/// How pods are made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodSettings {
    /// The image with the program `tunesmith-agent` or `tunesmith`, and the command `cp`.
    pub agent_image: String,
    /// The path of the program in that image.
    pub agent_path: String,
    /// The image of trials that name none; `None` if each must name one.
    pub default_image: Option<String>,
    /// Address of the server, as pods reach it; `None` for that in the specification.
    pub server: Option<String>,
    /// The service account of pods; `None` for the namespace's default.
    pub service_account: Option<String>,
    /// The folder in which programs start; `None` for that of their image.
    pub working_directory: Option<String>,
    /// Labels that nodes must have.
    pub node_selector: BTreeMap<String, String>,
    /// The label of nodes whose value is the type of their accelerators.
    pub accelerator_label: Option<String>,
    /// Claims of persistent volumes by the path under which trials find them, such as that of the job-dir.
    pub volumes: BTreeMap<String, String>,
    /// The template of all pods.
    pub template: PodTemplate,
    /// Further templates, by the name that a machine type or region gives with the option `podTemplate`.
    pub templates: BTreeMap<String, PodTemplate>,
}

/// Why a cluster cannot be used as it was configured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KubernetesUnusable {
    /// There is no configuration.
    #[error(
        "the configuration of Kubernetes cannot be read: {0}; set KUBECONFIG to the file of a cluster, or run the server in a pod"
    )]
    Configuration(String),
    /// The API server does not answer, or refuses.
    #[error("the Kubernetes cluster at {address} cannot be used: {reason}; check KUBECONFIG and the network")]
    Cluster {
        /// The address of the API server.
        address: String,
        /// What it answers.
        reason: String,
    },
    /// Permissions are missing.
    #[error(
        "this user may not {} in the namespace {namespace:?} of Kubernetes; give it the Role of \
         examples/kubernetes in this namespace",
        missing.join(", ")
    )]
    Permissions {
        /// The namespace.
        namespace: String,
        /// What is missing, such as `create jobs.batch`.
        missing: Vec<String>,
    },
}

/// Starts agents as jobs of a Kubernetes cluster.
pub struct KubernetesEngine {
    settings: KubernetesSettings,
    /// The namespace of jobs whose specification names none.
    namespace: String,
    address: Uri,
    client: Client,
    submitted: Submitted,
    watched: Watched,
    /// Whether it was logged that the address of the server is one of its own machine.
    has_warned: AtomicBool,
}

impl KubernetesEngine {
    /// An engine for the cluster of `settings`. Makes no request.
    ///
    /// # Errors
    /// [`KubernetesUnusable::Configuration`].
    pub async fn connect(settings: KubernetesSettings) -> Result<Self, KubernetesUnusable> {
        let config = settings.cluster.config().await?;
        Self::new(settings, config)
    }

    /// An engine for the cluster of `config`. Makes no request.
    ///
    /// # Errors
    /// [`KubernetesUnusable::Configuration`].
    pub fn new(settings: KubernetesSettings, mut config: Config) -> Result<Self, KubernetesUnusable> {
        // Requests are repeated here, for a shorter time.
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

    /// Checks that the cluster answers, and permits what this engine does in each namespace.
    ///
    /// # Errors
    /// [`KubernetesUnusable`].
    pub async fn check(&self) -> Result<(), KubernetesUnusable> {
        for namespace in std::iter::once(&self.namespace).chain(&self.settings.queues) {
            let mut missing = Vec::new();
            for (group, resource, verb) in PERMISSIONS {
                if !self.may(namespace, group, resource, verb).await.map_err(|error| self.unusable(&error))? {
                    let name = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
                    missing.push(format!("{verb} {name}"));
                }
            }
            if !missing.is_empty() {
                return Err(KubernetesUnusable::Permissions { namespace: namespace.clone(), missing });
            }
        }
        Ok(())
    }

    fn unusable(&self, error: &ApiError) -> KubernetesUnusable {
        KubernetesUnusable::Cluster { address: self.address.to_string(), reason: error.to_string() }
    }

    async fn may(&self, namespace: &str, group: &str, resource: &str, verb: &str) -> Result<bool, ApiError> {
        let attributes = ResourceAttributes {
            namespace: Some(namespace.to_owned()),
            group: Some(group.to_owned()),
            resource: Some(resource.to_owned()),
            verb: Some(verb.to_owned()),
            ..ResourceAttributes::default()
        };
        let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
        let review = SelfSubjectAccessReview { spec, ..Default::default() };
        let reviews: Api<SelfSubjectAccessReview> = Api::all(self.client.kube.clone());
        let params = PostParams::default();
        let answer = self.client.call(Purpose::Read, || reviews.create(&params, &review)).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
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

/// Why the place of an agent is gone whose Job is.
const DELETED: &str = "its job was deleted from the cluster";

fn gone(reason: &str) -> PlaceState {
    PlaceState::Gone { cause: LossCause::Failure, reason: reason.to_owned() }
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

    async fn place(&self, id: &AgentId) -> Result<PlaceState, ExecutorError> {
        let Some(recorded) = self.recorded(id)? else { return Ok(PlaceState::Unknown) };
        let Some(job) = self.job(&id.run, &recorded).await? else {
            return Ok(match recorded.uid {
                Some(_) => gone(DELETED),
                None => PlaceState::Unknown,
            });
        };
        let pods = self.pods(&id.run, &recorded, &job).await?;
        let place = state::place(&job, &pods);
        if !matches!(place, PlaceState::Waiting { .. }) {
            return Ok(place);
        }
        let identity = self.identity(&id.run)?;
        let reason = match state::newest(&pods) {
            // A suspended Job states its reason itself.
            None if state::is_suspended(&job) => None,
            None => self.watched.refusal(&identity, &recorded.namespace, &job.uid().unwrap_or_default()),
            Some(pod) if state::is_being_created(pod) => self.watched.pull(&identity, &recorded.namespace, pod),
            Some(_) => None,
        };
        Ok(reason.map_or(place, |reason| PlaceState::Waiting { reason }))
    }

    async fn confirmed_place(&self, id: &AgentId) -> Result<PlaceState, ExecutorError> {
        let Some(recorded) = self.recorded(id)? else { return Ok(PlaceState::Unknown) };
        match self.read_job(&id.run, &recorded).await? {
            Some(job) => Ok(state::place(&job, &self.read_pods(&id.run, &recorded, &job).await?)),
            None => Ok(gone(DELETED)),
        }
    }

    async fn stop(&self, id: &AgentId, _: StopMode) -> Result<(), ExecutorError> {
        // A running agent gets the request in the answer to its next report, and reports the end of its program. A signal of the
        // kubelet would be the notice of a preemption.
        if !matches!(self.place(id).await?, PlaceState::Waiting { .. }) {
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

    async fn tidy(&self, id: &AgentId) -> Result<(), ExecutorError> {
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
        let prefix = names::prefix(&self.submitted.identity()?, job);
        for name in self.submitted.starting_with(&prefix)? {
            if let Some(note) = self.submitted.note(&name)? {
                self.delete(&Recorded::new(name.clone(), &note)).await.map_err(io::Error::other)?;
            }
            self.submitted.remove(&name)?;
        }
        Ok(())
    }
}
