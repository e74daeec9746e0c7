//! Executors, and the one bound to a data folder.
//!
//! A folder is bound to its first executor: another one does not know the programs that may still be running. Regions
//! and machine types in the server configuration may name additional ones.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueEnum;

use crate::composition::{ContainerOptions, Isolation, local_executor, this_program};
use crate::engine_settings;
use tunesmith_agent::process::{ProcessEngine, ProcessSettings};
use tunesmith_config::{ExecutorConfig, KubernetesConfig, NamedExecutor, RayConfig};
use tunesmith_executor::remote::{AgentEngine, Inbox, PLACEMENT_TIMEOUT, RemoteExecutor};
use tunesmith_executor::{Executor, NamedExecutors, RoutedExecutor};
use tunesmith_files::RootedPath;
use tunesmith_prediction::PodPlatform;
use tunesmith_slurm::{SlurmExecutor, SlurmSettings};

/// File in the data folder with its executor's name. Absent for the local one.
const MARKER: &str = "EXECUTOR";

/// Maximum size of the marker in bytes.
const MAX_MARKER_BYTES: u64 = 64;

/// Report interval of an agent on this machine.
const AGENT_INTERVAL: Duration = Duration::from_millis(250);

/// Engine that runs the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExecutorKind {
    /// Processes and containers on this machine. The default.
    Local,
    /// Processes on this machine, each with an agent that reports over HTTP, as on machines without shared storage.
    Agent,
    /// Slurm jobs, submitted from a machine with its commands. The nodes must see the data folder and this program.
    Slurm,
    /// Ray cluster jobs, each with an agent.
    Ray,
    /// Kubernetes cluster jobs, with an agent in each container.
    Kubernetes,
}

impl ExecutorKind {
    /// Name in `--executor` and the server configuration.
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
    /// Whether programs run as the server's user and see its files, unless `--run-as` sets another.
    fn runs_as_server(self) -> bool {
        match self {
            Self::Local | Self::Agent | Self::Slurm => true,
            Self::Ray | Self::Kubernetes => false,
        }
    }
}

/// Executor settings of a command.
#[derive(Debug, Clone, Default)]
pub(crate) struct ExecutorOptions {
    /// `None` for the data folder's.
    pub(crate) kind: Option<ExecutorKind>,
    /// Named executor for jobs that name none; `None` for that of `kind`.
    pub(crate) default: Option<String>,
    pub(crate) config: ExecutorConfig,
    /// Queues that jobs may name, by executor.
    pub(crate) queues: BTreeMap<String, BTreeSet<String>>,
    /// Identity of the store, if shared with other servers.
    pub(crate) store: Option<String>,
}

impl ExecutorOptions {
    /// Settings of the executor `name`: a named executor or a kind.
    fn named(&self, name: &str) -> NamedExecutor {
        let ExecutorConfig { slurm, ray, kubernetes, named, .. } = &self.config;
        named.get(name).cloned().unwrap_or_else(|| NamedExecutor {
            kind: name.to_owned(),
            slurm: slurm.clone(),
            ray: ray.clone(),
            kubernetes: kubernetes.clone(),
        })
    }

    /// Configured addresses under which agents reach the server.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &str> {
        let named = self.config.named.values().flat_map(|named| [&named.kubernetes.server, &named.ray.server]);
        [&self.config.kubernetes.server, &self.config.ray.server].into_iter().chain(named).flatten().map(String::as_str)
    }

    pub(crate) fn kinds(&self, names: &BTreeSet<String>) -> BTreeMap<String, ExecutorKind> {
        names.iter().filter_map(|name| Some((name.clone(), kind_of(&self.named(name)).ok()?))).collect()
    }

    /// Executors built in addition to the data folder's: the named ones and `others`.
    pub(crate) fn names_beside(&self, others: &BTreeSet<&str>) -> BTreeSet<String> {
        let others = others.iter().map(|name| (*name).to_owned());
        self.config.named.keys().cloned().chain(others).collect()
    }
}

fn kind_of(executor: &NamedExecutor) -> anyhow::Result<ExecutorKind> {
    ExecutorKind::from_str(&executor.kind, false).map_err(anyhow::Error::msg)
}

/// Subfolder with the records of additional executors, one each.
const OTHERS: &str = "executors";

/// Subfolder recording which attempts run on additional executors.
const ROUTES: &str = "routes";

/// Builds the executor of the data folder `folder`, binds the folder to it, and returns it with its kind. It
/// delegates jobs whose region or machine type names one of `others`.
///
/// # Errors
/// If the folder is bound to another executor, or an executor is unusable.
pub(crate) async fn executor(
    folder: &Path,
    options: ExecutorOptions,
    others: &BTreeSet<String>,
    container: ContainerOptions,
    isolation: Isolation,
    inbox: &Arc<Inbox>,
) -> anyhow::Result<(ExecutorKind, Arc<dyn Executor>)> {
    let kind = settle(folder, options.kind)?;
    let placement_timeout = options.config.placement_timeout.unwrap_or(PLACEMENT_TIMEOUT);
    let (queues, store) = (&options.queues, options.store.as_deref());
    let building = Building { placement_timeout, container, isolation, inbox, queues, store };
    let own = building.build(kind.as_str(), options.named(kind.as_str()), folder).await?;
    if kind != ExecutorKind::Local {
        keep(folder, kind)?;
    }
    let routes = folder.join(ROUTES);
    if others.is_empty() && !routes.try_exists()? {
        return Ok((kind, own));
    }
    let mut named = NamedExecutors::new();
    for name in others.iter().filter(|name| *name != kind.as_str()) {
        let other = options.named(name);
        let folder = folder.join(OTHERS).join(name);
        std::fs::create_dir_all(&folder).with_context(|| format!("{} cannot be created", folder.display()))?;
        if options.config.named.contains_key(name) {
            keep_kind(&folder, name, kind_of(&other)?)?;
        }
        let built = building.build(name, other, &folder).await;
        named.insert(name.clone(), built.with_context(|| format!("the executor {name} of the server configuration"))?);
    }
    let routed = RoutedExecutor::new(kind.as_str().to_owned(), own, named, routes);
    Ok((kind, Arc::new(routed.with_default(options.default))))
}

/// An executor of a server on `folder` that runs programs as the server's user; `None` if all run elsewhere. Jobs
/// choose among the executor of `options` and `others`.
///
/// # Errors
/// If the folder is bound to another executor.
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
    /// Builds the executor `name` of `options` with its records in `folder`, and checks that it is usable.
    async fn build(&self, name: &str, options: NamedExecutor, folder: &Path) -> anyhow::Result<Arc<dyn Executor>> {
        let kind = kind_of(&options)?;
        let NamedExecutor { slurm, ray, kubernetes, .. } = options;
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
            ExecutorKind::Ray => self.ray(ray, folder).await?,
            ExecutorKind::Kubernetes => self.kubernetes(name, kubernetes, folder).await?,
            ExecutorKind::Slurm => {
                let executor = SlurmExecutor::new(SlurmSettings {
                    supervisor: this_program()?,
                    registry: folder.join("executions"),
                    environment: isolation.environment.clone(),
                    log_quota_bytes: isolation.log_quota_bytes,
                    ..engine_settings::slurm(slurm)?
                });
                executor.check().await?;
                Arc::new(executor)
            }
        })
    }

    #[cfg(feature = "ray")]
    async fn ray(&self, config: RayConfig, folder: &Path) -> anyhow::Result<Arc<dyn Executor>> {
        let settings = engine_settings::ray::settings(config, folder.join("ray"))?;
        let http = tunesmith_client::http_client(settings.address.as_str())?;
        let engine = tunesmith_ray::RayEngine::new(settings, http);
        engine.check().await.map_err(anyhow::Error::msg)?;
        Ok(self.remote(engine))
    }

    #[cfg(not(feature = "ray"))]
    async fn ray(&self, _: RayConfig, _: &Path) -> anyhow::Result<Arc<dyn Executor>> {
        bail!("this program was built without the executor for Ray (feature ray)")
    }

    #[cfg(feature = "kubernetes")]
    async fn kubernetes(
        &self,
        name: &str,
        config: KubernetesConfig,
        folder: &Path,
    ) -> anyhow::Result<Arc<dyn Executor>> {
        let settings = engine_settings::kubernetes::settings(config, folder.join("kubernetes"))?;
        let engine = tunesmith_kubernetes::KubernetesEngine::connect(tunesmith_kubernetes::KubernetesSettings {
            queues: self.queues.get(name).cloned().unwrap_or_default(),
            store: self.store.map(str::to_owned),
            ..settings
        });
        let engine = engine.await?;
        engine.check().await?;
        Ok(self.remote(engine))
    }

    #[cfg(not(feature = "kubernetes"))]
    async fn kubernetes(&self, _: &str, _: KubernetesConfig, _: &Path) -> anyhow::Result<Arc<dyn Executor>> {
        let _ = (self.queues, self.store);
        bail!("this program was built without the executor for Kubernetes (feature kubernetes)")
    }

    /// Wraps `engine` as an executor.
    fn remote(&self, engine: impl AgentEngine) -> Arc<dyn Executor> {
        let executor = RemoteExecutor::new(engine, Arc::clone(self.inbox));
        Arc::new(executor.with_placement_timeout(self.placement_timeout))
    }
}

/// Subfolder with the identity of the workers of models in a cluster.
#[cfg(feature = "kubernetes")]
const WORKERS: &str = "prediction-workers";

/// Pods for the workers of models of the server at `endpoint`; `None` if they are processes of this machine.
///
/// # Errors
/// If the cluster is unusable.
#[cfg(feature = "kubernetes")]
pub(crate) async fn worker_pods(
    folder: &Path,
    options: &ExecutorOptions,
    endpoint: Option<&str>,
) -> anyhow::Result<Option<PodPlatform>> {
    let (Some(config), Some(endpoint)) = (config_of_workers(options)?, endpoint) else { return Ok(None) };
    // Their pods have no agent.
    let agent_image = config.agent_image.or(Some(String::new()));
    let config = KubernetesConfig { agent_image, ..config };
    let settings = engine_settings::kubernetes::settings(config, folder.join(WORKERS))?;
    let server = settings.pods.server.clone().unwrap_or_else(|| endpoint.to_owned());
    let engine = tunesmith_kubernetes::KubernetesWorkers::connect(settings, &server).await;
    Ok(Some(PodPlatform { engine: Arc::new(engine.context("prediction.executor")?), server }))
}

#[cfg(not(feature = "kubernetes"))]
pub(crate) async fn worker_pods(
    _: &Path,
    options: &ExecutorOptions,
    endpoint: Option<&str>,
) -> anyhow::Result<Option<PodPlatform>> {
    if config_of_workers(options)?.is_some() && endpoint.is_some() {
        bail!("prediction.executor: this program was built without the executor for Kubernetes (feature kubernetes)");
    }
    Ok(None)
}

/// Settings of the executor of the workers of models; `None` for the local one.
fn config_of_workers(options: &ExecutorOptions) -> anyhow::Result<Option<KubernetesConfig>> {
    let Some(name) = options.config.prediction.as_deref() else { return Ok(None) };
    let named = options.named(name);
    Ok((kind_of(&named)? == ExecutorKind::Kubernetes).then_some(named.kubernetes))
}

/// Records the `kind` of the executor `name`, which must not change.
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

/// Binds `folder` to `kind`.
fn keep(folder: &Path, kind: ExecutorKind) -> anyhow::Result<()> {
    let kept = RootedPath::new(folder, MARKER).replace(format!("{}\n", kind.as_str()).as_bytes(), true);
    kept.with_context(|| format!("{} cannot be written", folder.join(MARKER).display()))
}

/// The executor of `folder`; an error if `wanted` contradicts it.
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

/// The executor that `folder` is bound to; `None` if it has run no program.
pub(crate) fn kept(folder: &Path) -> anyhow::Result<Option<ExecutorKind>> {
    let path = folder.join(MARKER);
    match RootedPath::new(folder, MARKER).read(MAX_MARKER_BYTES) {
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
