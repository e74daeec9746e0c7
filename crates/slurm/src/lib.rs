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
use tunesmith_executor::{AttemptPlace, ReplicaNode};
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
    /// Path of the program on the nodes that calls `supervise_if_asked`.
    pub supervisor: PathBuf,
    /// Absolute path, the same on the nodes, of the folder that contains a folder for each attempt. Created when needed.
    pub registry: PathBuf,
    /// The variables of this process that programs inherit, except those that name devices or folders of this machine.
    pub environment: PassedEnvironment,
    /// Maximum disk space of the logs of one attempt in bytes; `None` for any.
    pub log_quota_bytes: Option<u64>,
    /// The programs of Slurm.
    pub commands: SlurmCommands,
    /// Path of the configuration file of Slurm, for one of several clusters; `None` for that of the environment.
    pub config_file: Option<PathBuf>,
    /// The partition of jobs whose specification names none; `None` for the default of the cluster.
    pub partition: Option<String>,
    /// The account of jobs; `None` for that of the user.
    pub account: Option<String>,
    /// The quality of service of jobs; `None` for that of the user.
    pub qos: Option<String>,
    /// Further options of `sbatch`, after all others.
    pub options: Vec<String>,
    /// Maximum number of submissions per second.
    pub submit_rate: NonZeroU32,
    /// Pause between two calls of `squeue`, each of which lists the jobs of all attempts.
    pub poll_interval: Duration,
    /// Interval at which the files of attempts are read that may have started.
    pub file_interval: Duration,
    /// Time that a file needs at most to arrive from a node, after Slurm has reported the end of the job.
    pub file_delay: Duration,
    /// How supervisors follow the files of their attempts.
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
            // A guess, below what a controller of a large cluster takes.
            submit_rate: NonZeroU32::new(10).unwrap_or(NonZeroU32::MIN),
            poll_interval: Duration::from_secs(5),
            file_interval: Duration::from_secs(1),
            // NFS keeps attributes of folders for 30 s (acdirmin).
            file_delay: Duration::from_secs(35),
            times: SharedTimes { check_ms: 1_000, lease_ms: 60_000 },
        }
    }
}

/// Why Slurm cannot be used as it was configured.
#[derive(Debug, thiserror::Error)]
pub enum SlurmUnusable {
    /// A command is missing.
    #[error(
        "Slurm's command {} cannot be started: {source}; run on a machine with Slurm's commands (Debian: apt-get install \
         slurm-client), or add their folder to PATH",
        program.display()
    )]
    Command {
        /// The command.
        program: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The partition does not exist.
    #[error("Slurm has no partition {partition:?} ({message}); list the partitions with sinfo")]
    Partition {
        /// The name.
        partition: String,
        /// What Slurm answered.
        message: String,
    },
}

/// Runs programs as jobs of Slurm.
///
/// Its tasks run on the runtime in which it is first used, until the last clone is dropped. Jobs of Slurm continue.
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

/// An attempt that was looked up.
enum Found {
    Unknown,
    Open(Arc<Tracked>),
    Over(ExecutorJobState),
}

impl SlurmExecutor {
    /// An executor with `settings`. Does no IO.
    pub fn new(settings: SlurmSettings) -> Self {
        let attempts = SharedAttempts::new(settings.registry.clone(), settings.times, settings.log_quota_bytes);
        let uid = tunesmith_executor::local::user_id();
        let engine = Arc::new(Engine::new(settings, attempts, uid));
        Self(Arc::new(Handle { engine, tasks: OnceLock::new() }))
    }

    /// Checks that the commands of Slurm can be started and that the partition exists. A controller that cannot be reached
    /// is not an error: it may be restarted.
    ///
    /// # Errors
    /// [`SlurmUnusable`].
    pub async fn check(&self) -> Result<(), SlurmUnusable> {
        let engine = &self.0.engine;
        let SlurmCommands { sbatch, squeue, scancel, scontrol } = &engine.settings.commands;
        for program in [sbatch, squeue, scancel, scontrol] {
            // A command that fails for another reason reports it when it is used.
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

    /// Starts the tasks, once.
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

    /// Finds the attempt `id`, and follows it from now on if it has not ended. `spec` is given to register it.
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

    /// Runs `work` on a thread that may block.
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

    async fn wait(&self, id: &ExecutorJobId) -> Result<ExecutorJobState, ExecutorError> {
        let tracked = match self.find(id, None).await? {
            Found::Unknown => return Ok(ExecutorJobState::Unknown),
            Found::Over(state) => return Ok(state),
            Found::Open(tracked) => tracked,
        };
        let mut changes = tracked.changes();
        let ended = changes.wait_for(|state| !state.is_open()).await.map(|state| state.clone());
        // The sender lives as long as `tracked`.
        ended.map_err(|error| ExecutorError::Unreachable { id: id.clone(), source: io::Error::other(error) })
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

    async fn nodes(&self, id: &ExecutorJobId) -> Result<AttemptPlace, ExecutorError> {
        let known = id.clone();
        let alive = self.blocking(id, move |engine| engine.attempts.find(&known)?.map_or(Ok(None), |one| one.alive()));
        // One supervisor runs all replicas.
        let nodes = alive.await?.map(|alive| ReplicaNode::of_all(alive.host)).into_iter().collect();
        Ok(AttemptPlace { nodes, ..AttemptPlace::from(id) })
    }

    async fn tidy(&self, id: &ExecutorJobId) -> Result<(), ExecutorError> {
        let known = id.clone();
        self.blocking(id, move |engine| engine.attempts.find(&known)?.map_or(Ok(()), |attempt| attempt.tidy())).await
    }

    async fn forget(&self, job: &JobId) -> io::Result<()> {
        let (engine, job) = (Arc::clone(&self.0.engine), job.clone());
        tokio::task::spawn_blocking(move || engine.attempts.forget(&job)).await?
    }
}
