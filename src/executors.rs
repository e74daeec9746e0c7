//! The executors that programs can run on, and the one that a data folder keeps.
//!
//! A folder keeps the executor that it was first used with: another one does not know the programs that may still run. Regions and
//! machine types of a server configuration may name further ones.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueEnum;
use reqwest::Url;

use crate::composition::{ContainerOptions, Isolation, agent_program, local_executor, this_program};
use tunesmith_agent::process::{ProcessEngine, ProcessSettings};
use tunesmith_client::http_client;
use tunesmith_executor::remote::{AgentEngine, Inbox, PLACEMENT_TIMEOUT, RemoteExecutor};
use tunesmith_executor::{Executor, NamedExecutors, RoutedExecutor};
use tunesmith_files::Place;
use tunesmith_kubernetes::{ClusterChoice, KubernetesEngine, KubernetesSettings, PodSettings};
use tunesmith_ray::{AgentProgram, RayEngine, RaySettings, RayToken};
use tunesmith_slurm::{SlurmExecutor, SlurmSettings};

/// The file of a data folder that contains the name of its executor. Absent for the local one.
const MARKER: &str = "EXECUTOR";

/// Maximum size of the marker in bytes.
const MAX_MARKER_BYTES: u64 = 64;

/// Time between two reports of an agent on this machine.
const AGENT_INTERVAL: Duration = Duration::from_millis(250);

/// What runs the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExecutorKind {
    /// Processes and containers on this machine. The default.
    Local,
    /// Processes on this machine with an agent beside each, which reports over HTTP: as where no disk is shared.
    Agent,
    /// Jobs of Slurm, from a machine with its commands. The nodes must see the data folder and this program.
    Slurm,
    /// Jobs of a Ray cluster, with an agent beside each.
    Ray,
    /// Jobs of a Kubernetes cluster, with an agent in the container of each.
    Kubernetes,
}

impl ExecutorKind {
    /// The name, as `--executor` and the server configuration state it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Agent => "agent",
            Self::Slurm => "slurm",
            Self::Ray => "ray",
            Self::Kubernetes => "kubernetes",
        }
    }
}

impl ExecutorKind {
    /// Whether programs run as the user of the server, and see its files, unless `--run-as` gives them another one.
    fn runs_as_server(self) -> bool {
        match self {
            Self::Local | Self::Agent | Self::Slurm => true,
            Self::Ray | Self::Kubernetes => false,
        }
    }
}

/// The executor that a command asks for.
#[derive(Debug, Clone, Default)]
pub(crate) struct ExecutorOptions {
    /// The kind; `None` for that of the data folder.
    pub(crate) kind: Option<ExecutorKind>,
    /// The settings of Slurm, apart from those that the data folder gives.
    pub(crate) slurm: SlurmSettings,
    /// The settings of Ray.
    pub(crate) ray: RayOptions,
    /// The settings of Kubernetes.
    pub(crate) kubernetes: KubernetesOptions,
    /// The executors with names of their own.
    pub(crate) named: BTreeMap<String, NamedOptions>,
    /// The one of them that runs jobs that name no executor; `None` for that of `kind`.
    pub(crate) default: Option<String>,
    /// The longest time in which an attempt with several replicas gets its places; `None` for the default.
    pub(crate) placement_timeout: Option<Duration>,
    /// Maximum numbers of trials that run at the same time, by name of the executor.
    pub(crate) max_running_trials: BTreeMap<String, NonZeroU32>,
    /// The queues that jobs may name, by name of the executor.
    pub(crate) queues: BTreeMap<String, BTreeSet<String>>,
    /// The identity of the store, if other servers share it.
    pub(crate) store: Option<String>,
}

/// An executor with a name of its own.
#[derive(Debug, Clone)]
pub(crate) struct NamedOptions {
    /// The kind.
    pub(crate) kind: ExecutorKind,
    /// The settings, if it is one of Slurm.
    pub(crate) slurm: SlurmSettings,
    /// The settings, if it is one of Ray.
    pub(crate) ray: RayOptions,
    /// The settings, if it is one of Kubernetes.
    pub(crate) kubernetes: KubernetesOptions,
}

impl ExecutorOptions {
    /// The settings of the executor `name`, which is one of [`Self::named`] or that of a kind.
    fn named(&self, name: &str) -> anyhow::Result<NamedOptions> {
        if let Some(named) = self.named.get(name) {
            return Ok(named.clone());
        }
        let kind = ExecutorKind::from_str(name, false).map_err(anyhow::Error::msg)?;
        Ok(self.of_kind(kind))
    }

    fn of_kind(&self, kind: ExecutorKind) -> NamedOptions {
        NamedOptions { kind, slurm: self.slurm.clone(), ray: self.ray.clone(), kubernetes: self.kubernetes.clone() }
    }

    /// The addresses at which agents reach the server, as far as they are given.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &str> {
        let named = self.named.values().flat_map(|named| [&named.kubernetes.pods.server, &named.ray.server]);
        [&self.kubernetes.pods.server, &self.ray.server].into_iter().chain(named).flatten().map(String::as_str)
    }

    /// The kinds of the executors `names`.
    pub(crate) fn kinds(&self, names: &BTreeSet<String>) -> BTreeMap<String, ExecutorKind> {
        names.iter().filter_map(|name| Some((name.clone(), self.named(name).ok()?.kind))).collect()
    }

    /// The names of the executors that are built beside that of the data folder: those with names of their own, and `others`.
    pub(crate) fn names_beside(&self, others: &BTreeSet<&str>) -> BTreeSet<String> {
        let others = others.iter().map(|name| (*name).to_owned());
        self.named.keys().cloned().chain(others).collect()
    }
}

/// The settings of Kubernetes, apart from those that the data folder gives.
#[derive(Debug, Clone, Default)]
pub(crate) struct KubernetesOptions {
    /// Which cluster.
    pub(crate) cluster: ClusterChoice,
    /// The namespace; `None` for that of the configuration of Kubernetes.
    pub(crate) namespace: Option<String>,
    /// The pods. The image of the agent may be empty.
    pub(crate) pods: PodSettings,
}

/// The settings of Ray, apart from those that the data folder gives.
#[derive(Debug, Clone, Default)]
pub(crate) struct RayOptions {
    /// Address of the dashboard.
    pub(crate) address: Option<String>,
    /// Token for a cluster with authentication.
    pub(crate) token: RayToken,
    /// Path of `tunesmith-agent` or `tunesmith` on the nodes; `None` if the agent is uploaded.
    pub(crate) program: Option<PathBuf>,
    /// Address of this server, as the nodes reach it; `None` for the one that programs of this machine get.
    pub(crate) server: Option<String>,
}

/// The address of the dashboard of a cluster on this machine.
const RAY_ADDRESS: &str = "http://127.0.0.1:8265";

/// The folder of a data folder with the records of its further executors, one for each.
const OTHERS: &str = "executors";

/// The folder of a data folder that records which attempts run on further executors.
const ROUTES: &str = "routes";

/// Builds the executor of the data folder `folder`, lets the folder keep it, and returns it with its kind. It passes the jobs whose
/// region or machine type names one of `others` on to that executor.
///
/// # Errors
/// If the folder has another executor, or an executor cannot be used.
pub(crate) async fn executor(
    folder: &Path,
    options: ExecutorOptions,
    others: &BTreeSet<String>,
    container: ContainerOptions,
    isolation: Isolation,
    inbox: &Arc<Inbox>,
) -> anyhow::Result<(ExecutorKind, Arc<dyn Executor>)> {
    let kind = settle(folder, options.kind)?;
    let placement_timeout = options.placement_timeout.unwrap_or(PLACEMENT_TIMEOUT);
    let (queues, store) = (&options.queues, options.store.as_deref());
    let building = Building { placement_timeout, container, isolation, inbox, queues, store };
    let own = building.build(kind.as_str(), options.of_kind(kind), folder).await?;
    if kind != ExecutorKind::Local {
        keep(folder, kind)?;
    }
    let routes = folder.join(ROUTES);
    if others.is_empty() && !routes.try_exists()? {
        return Ok((kind, own));
    }
    let mut named = NamedExecutors::new();
    for name in others.iter().filter(|name| *name != kind.as_str()) {
        let other = options.named(name)?;
        let folder = folder.join(OTHERS).join(name);
        std::fs::create_dir_all(&folder).with_context(|| format!("{} cannot be created", folder.display()))?;
        if options.named.contains_key(name) {
            keep_kind(&folder, name, other.kind)?;
        }
        let built = building.build(name, other, &folder).await;
        named.insert(name.clone(), built.with_context(|| format!("the executor {name} of the server configuration"))?);
    }
    let routed = RoutedExecutor::new(kind.as_str().to_owned(), own, named, routes);
    Ok((kind, Arc::new(routed.with_default(options.default))))
}

/// Returns an executor of a server on the data folder `folder` whose programs run as the user of the server; `None` if all of them
/// run elsewhere. Jobs choose among that of `options` and `others`.
///
/// # Errors
/// If the folder has another executor.
pub(crate) fn unisolated(
    folder: &Path,
    options: &ExecutorOptions,
    others: &BTreeSet<&str>,
) -> anyhow::Result<Option<String>> {
    let kinds = options.kinds(&options.names_beside(others));
    let own = settle(folder, options.kind)?;
    let is_default = options.default.is_none();
    let named = kinds.into_iter().find(|(_, kind)| kind.runs_as_server()).map(|(name, _)| name);
    Ok(Some(own.as_str().to_owned()).filter(|_| is_default && own.runs_as_server()).or(named))
}

/// What executors are built of.
struct Building<'a> {
    placement_timeout: Duration,
    container: ContainerOptions,
    isolation: Isolation,
    inbox: &'a Arc<Inbox>,
    /// As [`ExecutorOptions::queues`].
    queues: &'a BTreeMap<String, BTreeSet<String>>,
    /// As [`ExecutorOptions::store`].
    store: Option<&'a str>,
}

impl Building<'_> {
    /// Builds the executor `name` of `options`, which keeps its records in `folder`, and checks that it can be used.
    async fn build(&self, name: &str, options: NamedOptions, folder: &Path) -> anyhow::Result<Arc<dyn Executor>> {
        let NamedOptions { kind, slurm, ray: ray_options, kubernetes: kubernetes_options } = options;
        let isolation = &self.isolation;
        if isolation.identities.are_given() {
            match kind {
                ExecutorKind::Local => {}
                ExecutorKind::Agent => {
                    bail!("--run-as has no effect on agents, whose programs run as their user: omit it")
                }
                ExecutorKind::Ray => {
                    bail!("--run-as has no effect on Ray, where jobs run as the user of the cluster: omit it")
                }
                ExecutorKind::Kubernetes => bail!(
                    "--run-as has no effect on Kubernetes, where programs run as the user of their image: omit it"
                ),
                ExecutorKind::Slurm => {
                    bail!("--run-as has no effect on Slurm, where jobs run as the user of this process: omit it")
                }
            }
        }
        Ok(match kind {
            ExecutorKind::Local => Arc::new(local_executor(folder, self.container.clone(), isolation.clone())?),
            ExecutorKind::Agent => {
                let engine = ProcessEngine::new(ProcessSettings {
                    program: this_program()?,
                    folder: folder.join("agent-spools"),
                    interval: AGENT_INTERVAL,
                });
                self.remote(engine)
            }
            ExecutorKind::Ray => {
                let engine = ray(folder, ray_options)?;
                engine.check().await.map_err(anyhow::Error::msg)?;
                self.remote(engine)
            }
            ExecutorKind::Kubernetes => {
                let engine = self.kubernetes(name, folder, kubernetes_options).await?;
                engine.check().await?;
                self.remote(engine)
            }
            ExecutorKind::Slurm => {
                let executor = SlurmExecutor::new(SlurmSettings {
                    supervisor: this_program()?,
                    registry: folder.join("executions"),
                    environment: isolation.environment.clone(),
                    log_quota_bytes: isolation.log_quota_bytes,
                    ..slurm
                });
                executor.check().await?;
                Arc::new(executor)
            }
        })
    }

    /// The executor whose agents are started by `engine`.
    fn remote(&self, engine: impl AgentEngine) -> Arc<dyn Executor> {
        let executor = RemoteExecutor::new(engine, Arc::clone(self.inbox));
        Arc::new(executor.with_placement_timeout(self.placement_timeout))
    }

    /// The engine of the executor `name`.
    async fn kubernetes(
        &self,
        name: &str,
        folder: &Path,
        options: KubernetesOptions,
    ) -> anyhow::Result<KubernetesEngine> {
        let KubernetesOptions { cluster, namespace, pods } = options;
        if pods.agent_image.is_empty() {
            bail!(
                "--kubernetes-agent-image is missing: state the image with tunesmith-agent, from which pods get their agent; \
                 examples/kubernetes/Dockerfile makes one"
            );
        }
        if let Some(server) = &pods.server {
            let parsed: Option<Url> = server.parse().ok();
            if !parsed.is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host()) {
                bail!("--kubernetes-server {server:?}: expected http://HOST:PORT or https://HOST:PORT");
            }
        }
        let settings = KubernetesSettings {
            cluster,
            namespace,
            queues: self.queues.get(name).cloned().unwrap_or_default(),
            pods,
            registry: folder.join("kubernetes"),
            store: self.store.map(str::to_owned),
        };
        Ok(KubernetesEngine::connect(settings).await?)
    }
}

fn ray(folder: &Path, options: RayOptions) -> anyhow::Result<RayEngine> {
    let address = options.address.as_deref().unwrap_or(RAY_ADDRESS);
    let parsed = address.parse().ok().filter(|url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let http = http_client(address)?;
    let settings = RaySettings {
        address: parsed
            .with_context(|| format!("--ray-address {address:?}: expected http://HOST:PORT of the dashboard"))?,
        token: options.token,
        server: options.server,
        agent: match options.program {
            Some(path) => AgentProgram::Installed(path),
            None => AgentProgram::Uploaded(agent_program()?),
        },
        registry: folder.join("ray"),
    };
    Ok(RayEngine::new(settings, http))
}

/// Lets the folder of the executor `name` keep its `kind`, which must not have changed.
fn keep_kind(folder: &Path, name: &str, kind: ExecutorKind) -> anyhow::Result<()> {
    match kept(folder)? {
        Some(kept) if kept == kind => Ok(()),
        Some(kept) => bail!(
            "executors.{name}.kind: the executor {name} was of the kind {} before, and its programs may still run there; it cannot \
             become {}: give the new one another name",
            kept.as_str(),
            kind.as_str()
        ),
        None => keep(folder, kind),
    }
}

/// Lets `folder` keep the executor `kind`.
fn keep(folder: &Path, kind: ExecutorKind) -> anyhow::Result<()> {
    let kept = Place::new(folder, MARKER).replace(format!("{}\n", kind.as_str()).as_bytes(), true);
    kept.with_context(|| format!("{} cannot be written", folder.join(MARKER).display()))
}

/// Returns the executor of `folder`, which `wanted` must not contradict.
fn settle(folder: &Path, wanted: Option<ExecutorKind>) -> anyhow::Result<ExecutorKind> {
    let kept = kept(folder)?;
    match (kept, wanted) {
        (Some(kept), Some(wanted)) if kept != wanted => bail!(
            "the programs of {} run on the executor {}, and some may still run there: omit --executor {}, or give another \
             --data-dir",
            folder.display(),
            kept.as_str(),
            wanted.as_str()
        ),
        (kept, wanted) => Ok(kept.or(wanted).unwrap_or(ExecutorKind::Local)),
    }
}

/// Returns the executor that `folder` keeps; `None` if it has run no program.
pub(crate) fn kept(folder: &Path) -> anyhow::Result<Option<ExecutorKind>> {
    let path = folder.join(MARKER);
    match Place::new(folder, MARKER).read(MAX_MARKER_BYTES) {
        Ok(text) => {
            let text = String::from_utf8_lossy(&text).trim().to_owned();
            let known = ExecutorKind::value_variants().iter().copied().find(|kind| kind.as_str() == text);
            let known =
                known.with_context(|| format!("{}: {text:?} is not an executor of this version", path.display()));
            Ok(Some(known?))
        }
        Err(error) if error.is_not_found() => {
            let mut attempts = match std::fs::read_dir(folder.join("executions")) {
                Ok(attempts) => attempts,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error).with_context(|| format!("{} cannot be read", folder.display())),
            };
            Ok(attempts.next().map(|_| ExecutorKind::Local))
        }
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_keeps_the_executor_that_it_was_used_with() {
        let folder = tempfile::tempdir().unwrap();
        let settled = |wanted| settle(folder.path(), wanted).map_err(|error| error.to_string());
        assert_eq!(settled(None), Ok(ExecutorKind::Local));
        assert_eq!(settled(Some(ExecutorKind::Slurm)), Ok(ExecutorKind::Slurm));
        std::fs::create_dir_all(folder.path().join("executions/a")).unwrap();
        let error = settled(Some(ExecutorKind::Slurm)).unwrap_err();
        assert!(error.contains("run on the executor local") && error.contains("another --data-dir"), "{error}");
        std::fs::write(folder.path().join(MARKER), "slurm\n").unwrap();
        assert_eq!(settled(None), Ok(ExecutorKind::Slurm));
        assert!(settled(Some(ExecutorKind::Local)).unwrap_err().contains("run on the executor slurm"));
        std::fs::write(folder.path().join(MARKER), "other\n").unwrap();
        assert!(settled(None).unwrap_err().ends_with("EXECUTOR: \"other\" is not an executor of this version"));
    }
}
