#![doc = include_str!("../README.md")]

mod command;
mod decision;
mod engine;
mod listing;
mod refusal;
mod row;
mod submission;
mod tracked;

use std::io;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinHandle;

use tunesmith_domain::JobId;
use tunesmith_executor::local::PassedEnvironment;
use tunesmith_executor::local::shared::{SharedAttempts, SharedTimes};
use tunesmith_executor::{AttemptLocation, ReplicaNode};
use tunesmith_executor::{
    Capabilities, Executor, ExecutorError, ExecutorJobId, ExecutorJobSpec, ExecutorJobState, FolderFailure, Placement,
    StopMode, create_folders,
};

use self::command::CommandError;
pub use self::command::SlurmCommands;
use self::engine::Engine;
use self::tracked::Tracked;

/// Settings of a [`SlurmExecutor`].
#[derive(Debug, Clone)]
pub struct SlurmSettings {
    /// Path on the nodes of the program that calls `supervise_if_asked`.
    pub supervisor: PathBuf,
    /// Absolute path, shared with the nodes, of the folder with one folder per attempt. Created when needed.
    pub registry: PathBuf,
    /// Variables inherited by programs, except those naming local devices or folders.
    pub environment: PassedEnvironment,
    /// Log quota per attempt in bytes; `None` for no limit.
    pub log_quota_bytes: Option<u64>,
    pub commands: SlurmCommands,
    /// Path of Slurm's configuration, to select a cluster; `None` for the environment's.
    pub config_file: Option<PathBuf>,
    /// Default partition; `None` for the cluster's.
    pub partition: Option<String>,
    /// Account of jobs; `None` for the user's.
    pub account: Option<String>,
    /// Quality of service; `None` for the user's.
    pub qos: Option<String>,
    /// Additional `sbatch` options, appended last.
    pub options: Vec<String>,
    /// Maximum submissions per second.
    pub submit_rate: NonZeroU32,
    /// Interval of `squeue` calls, each of which lists the jobs of all attempts.
    pub poll_interval: Duration,
    /// Polling interval for files of attempts that may have started.
    pub file_interval: Duration,
    /// Maximum delay for a node's files to become visible after Slurm reports the end of a job.
    pub file_delay: Duration,
    /// Polling intervals of supervisors.
    pub times: SharedTimes,
}

impl Default for SlurmSettings {
    fn default() -> Self {
        Self {
            supervisor: PathBuf::new(),
            registry: PathBuf::new(),
            environment: PassedEnvironment::default(),
            log_quota_bytes: None,
            commands: SlurmCommands::default(),
            config_file: None,
            partition: None,
            account: None,
            qos: None,
            options: Vec::new(),
            // A guess, below the capacity of a large cluster's controller.
            submit_rate: NonZeroU32::new(10).unwrap_or(NonZeroU32::MIN),
            poll_interval: Duration::from_secs(5),
            file_interval: Duration::from_secs(1),
            // NFS caches folder attributes for 30 s (acdirmin).
            file_delay: Duration::from_secs(35),
            times: SharedTimes { check_ms: 1_000, lease_ms: 60_000 },
        }
    }
}

/// A Slurm installation that cannot be used as configured.
#[derive(Debug, thiserror::Error)]
pub enum SlurmUnusable {
    #[error(
        "Slurm's command {} cannot be started: {source}; run on a machine with Slurm's commands (Debian: apt-get install \
         slurm-client), or add their folder to PATH",
        program.display()
    )]
    Command {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("Slurm has no partition {partition:?} ({message}); list the partitions with sinfo")]
    Partition { partition: String, message: String },
}

/// Executor that runs programs as Slurm jobs.
///
/// Its tasks run on the runtime of the first call until the last clone is dropped. Slurm jobs continue.
#[derive(Clone)]
pub struct SlurmExecutor(Arc<Handle>);

struct Handle {
    engine: Arc<Engine>,
    tasks: OnceLock<[JoinHandle<()>; 3]>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.tasks.get().into_iter().flatten().for_each(JoinHandle::abort);
    }
}

/// Result of a lookup.
enum Found {
    Unknown,
    Open(Arc<Tracked>),
    Over(ExecutorJobState),
}

impl SlurmExecutor {
    /// Creates an executor without doing IO.
    pub fn new(settings: SlurmSettings) -> Self {
        let attempts = SharedAttempts::new(settings.registry.clone(), settings.times, settings.log_quota_bytes);
        let uid = tunesmith_executor::local::user_id();
        let engine = Arc::new(Engine::new(settings, attempts, uid));
        Self(Arc::new(Handle { engine, tasks: OnceLock::new() }))
    }

    /// Checks that the Slurm commands start and the partition exists. An unreachable controller is not an error: it
    /// may be restarting.
    ///
    /// # Errors
    /// [`SlurmUnusable`].
    pub async fn check(&self) -> Result<(), SlurmUnusable> {
        let engine = &self.0.engine;
        let SlurmCommands { sbatch, squeue, scancel, scontrol } = &engine.settings.commands;
        for program in [sbatch, squeue, scancel, scontrol] {
            // Other failures are reported when the command is used.
            if let Err(CommandError::NotStarted { program, source }) =
                command::run(program, &["--version".to_owned()], "", engine.config_file()).await
            {
                return Err(SlurmUnusable::Command { program, source });
            }
        }
        for partition in engine.settings.partition.iter().flat_map(|names| names.split(',')) {
            match engine.scontrol(&["--oneliner", "show", "partition", partition]).await {
                Err(CommandError::Failed { message }) if message.contains("not found") => {
                    return Err(SlurmUnusable::Partition { partition: partition.to_owned(), message });
                }
                Err(error) => tracing::warn!(%error, "Slurm cannot be asked for its partition {partition}"),
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// Starts the tasks on the first call.
    fn start(&self) {
        let engine = &self.0.engine;
        self.0.tasks.get_or_init(|| {
            [
                tokio::spawn(Arc::clone(engine).list()),
                tokio::spawn(Arc::clone(engine).reconcile()),
                tokio::spawn(Arc::clone(engine).submit()),
            ]
        });
    }

    /// Finds the attempt `id` and tracks it unless it has ended. A given `spec` registers it.
    async fn find(&self, id: &ExecutorJobId, spec: Option<ExecutorJobSpec>) -> Result<Found, ExecutorError> {
        self.start();
        if let Some(tracked) = self.0.engine.tracked(id) {
            return Ok(Found::Open(tracked));
        }
        let known = id.clone();
        let found = self.blocking(id, move |engine| engine.track(&known, spec)).await?;
        Ok(match found {
            None => Found::Unknown,
            Some(tracked) if tracked.state().is_open() => Found::Open(tracked),
            Some(tracked) => Found::Over(tracked.state()),
        })
    }

    /// Runs `work` on a blocking thread.
    async fn blocking<T: Send + 'static>(
        &self,
        id: &ExecutorJobId,
        work: impl FnOnce(&Engine) -> io::Result<T> + Send + 'static,
    ) -> Result<T, ExecutorError> {
        let engine = Arc::clone(&self.0.engine);
        let result = tokio::task::spawn_blocking(move || work(&engine)).await.map_err(io::Error::other).flatten();
        result.map_err(|source| ExecutorError::Unreachable { id: id.clone(), source })
    }
}

#[async_trait]
impl Executor for SlurmExecutor {
    fn capabilities(&self, _: &Placement) -> Capabilities {
        Capabilities { runs_here: false, ..Capabilities::LOCAL }
    }

    async fn submit(&self, spec: &ExecutorJobSpec) -> Result<(), ExecutorError> {
        let rejected = |reason| ExecutorError::Rejected { id: spec.id.clone(), reason };
        SharedAttempts::check(spec).and_then(|()| submission::check(spec)).map_err(rejected)?;
        let owned = spec.clone();
        let created = tokio::task::spawn_blocking(move || create_folders(&owned, false)).await;
        created.unwrap_or_else(|error| Err(FolderFailure::OfService(io::Error::other(error)))).map_err(|failure| {
            match failure {
                FolderFailure::OfJob(reason) => rejected(reason),
                FolderFailure::OfService(source) => ExecutorError::Unreachable { id: spec.id.clone(), source },
            }
        })?;
        self.find(&spec.id, Some(spec.clone())).await?;
        Ok(())
    }

    async fn state(&self, id: &ExecutorJobId) -> Result<ExecutorJobState, ExecutorError> {
        Ok(match self.find(id, None).await? {
            Found::Unknown => ExecutorJobState::Unknown,
            Found::Open(tracked) => tracked.state(),
            Found::Over(state) => state,
        })
    }

    async fn changed(&self, id: &ExecutorJobId, known: &ExecutorJobState) -> Result<ExecutorJobState, ExecutorError> {
        let tracked = match self.find(id, None).await? {
            Found::Unknown => return Ok(ExecutorJobState::Unknown),
            Found::Over(state) => return Ok(state),
            Found::Open(tracked) => tracked,
        };
        let mut changes = tracked.changes();
        let changed = changes.wait_for(|state| state != known || !state.is_open()).await.map(|state| state.clone());
        // The sender lives as long as `tracked`.
        changed.map_err(|error| ExecutorError::Unreachable { id: id.clone(), source: io::Error::other(error) })
    }

    async fn stop(&self, id: &ExecutorJobId, how: StopMode) -> Result<(), ExecutorError> {
        let Found::Open(tracked) = self.find(id, None).await? else { return Ok(()) };
        self.blocking(id, move |engine| {
            tracked.stop(how)?;
            engine.changed.notify_one();
            Ok(())
        })
        .await
    }

    async fn nodes(&self, id: &ExecutorJobId) -> Result<AttemptLocation, ExecutorError> {
        let known = id.clone();
        let alive = self.blocking(id, move |engine| engine.attempts.find(&known)?.map_or(Ok(None), |one| one.alive()));
        // One supervisor runs all replicas.
        let nodes = alive.await?.map(|alive| ReplicaNode::of_all(alive.host)).into_iter().collect();
        Ok(AttemptLocation { nodes, ..AttemptLocation::from(id) })
    }

    async fn clean_up(&self, id: &ExecutorJobId) -> Result<(), ExecutorError> {
        let known = id.clone();
        self.blocking(id, move |engine| engine.attempts.find(&known)?.map_or(Ok(()), |attempt| attempt.clean_up()))
            .await
    }

    async fn forget(&self, job: &JobId) -> io::Result<()> {
        let (engine, job) = (Arc::clone(&self.0.engine), job.clone());
        tokio::task::spawn_blocking(move || engine.attempts.forget(&job)).await?
    }
}
