//! Simplest engine for agents: a detached process on the local machine.
//!
//! It demonstrates how the parts fit together, and lets tests and users try the agent without a cluster. An agent holds
//! the lock of its folder from start to end, as its standard input, so that any process can tell whether it is alive.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rustix::fs::{FlockOperation, flock};

use tunesmith_domain::JobId;
use tunesmith_executor::remote::{AgentEngine, AgentId, AgentState};
use tunesmith_executor::{Capabilities, ExecutorError, ExecutorJobId, ExecutorJobSpec, LossCause, StopMode};

#[derive(Debug, Clone)]
pub struct ProcessSettings {
    /// The program `tunesmith`.
    pub program: PathBuf,
    /// Folder with one spool folder per attempt.
    pub folder: PathBuf,
    /// Report interval of an agent.
    pub interval: Duration,
}

/// Starts agents as processes on this machine.
#[derive(Debug, Clone)]
pub struct ProcessEngine(Arc<ProcessSettings>);

impl ProcessEngine {
    /// Does no IO.
    pub fn new(settings: ProcessSettings) -> Self {
        Self(Arc::new(settings))
    }

    /// Spool folder of the agent `id`.
    pub fn spool(&self, id: &AgentId) -> PathBuf {
        self.0.folder.join(id.to_string())
    }

    async fn blocking<T: Send + 'static>(
        &self,
        id: &AgentId,
        work: impl FnOnce(&Self, &AgentId) -> io::Result<T> + Send + 'static,
    ) -> Result<T, ExecutorError> {
        let (engine, known) = (self.clone(), id.clone());
        let done = tokio::task::spawn_blocking(move || work(&engine, &known)).await;
        done.unwrap_or_else(|error| Err(io::Error::other(error)))
            .map_err(|source| ExecutorError::Unreachable { id: id.run.clone(), source })
    }

    fn start_process(&self, id: &AgentId, file: &Path) -> io::Result<()> {
        let spool = self.spool(id);
        fs::create_dir_all(&spool)?;
        let lock = lock_file(&spool)?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(());
        }
        match File::create_new(spool.join("started")) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            Err(error) => return Err(error),
        }
        let log = OpenOptions::new().append(true).create(true).open(spool.join("agent.log"))?;
        let settings = &self.0;
        let mut command = tokio::process::Command::new(&settings.program);
        command.arg("agent").arg("--spec").arg(file).arg("--spool").arg(&spool);
        command.arg("--interval-ms").arg(settings.interval.as_millis().to_string());
        // Own process group, which Ctrl-C in a terminal does not reach.
        command.process_group(0).stdin(lock).stdout(Stdio::null()).stderr(log);
        let mut child = command.spawn()?;
        // The wait only prevents a zombie.
        tokio::spawn(async move { child.wait().await });
        Ok(())
    }

    fn look(&self, id: &AgentId) -> io::Result<AgentState> {
        let spool = self.spool(id);
        if !spool.join("started").try_exists()? {
            return Ok(AgentState::Unknown);
        }
        if flock(&lock_file(&spool)?, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(AgentState::Running);
        }
        // The supervisor of a killed agent ends the program first.
        let supervised = spool.join("executions").join(id.run.to_string());
        if supervised.try_exists()?
            && flock(&lock_file(&supervised)?, FlockOperation::NonBlockingLockExclusive).is_err()
        {
            return Ok(AgentState::Running);
        }
        let (cause, reason) = (LossCause::Failure, "its agent ended without telling the end of its program".to_owned());
        Ok(AgentState::Gone { cause, reason })
    }
}

/// Opens the lock file of the process that works in `folder`.
fn lock_file(folder: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(folder.join("lock"))
}

#[async_trait]
impl AgentEngine for ProcessEngine {
    fn capabilities(&self) -> Capabilities {
        Capabilities::LOCAL
    }

    async fn start(&self, spec: &ExecutorJobSpec, file: &Path) -> Result<(), ExecutorError> {
        let file = file.to_owned();
        self.blocking(&AgentId::of(spec), move |engine, id| engine.start_process(id, &file)).await
    }

    async fn place(&self, id: &AgentId) -> Result<AgentState, ExecutorError> {
        self.blocking(id, Self::look).await
    }

    async fn stop(&self, _: &AgentId, _: StopMode) -> Result<(), ExecutorError> {
        // The response to the agent's next report carries the request.
        Ok(())
    }

    async fn clean_up(&self, id: &AgentId) -> Result<(), ExecutorError> {
        self.blocking(id, |engine, id| {
            let spool = engine.spool(id);
            if !spool.try_exists()? || flock(&lock_file(&spool)?, FlockOperation::NonBlockingLockExclusive).is_err() {
                return Ok(());
            }
            fs::remove_dir_all(spool)
        })
        .await
    }

    async fn forget(&self, job: &JobId) -> io::Result<()> {
        let (folder, job) = (self.0.folder.clone(), job.clone());
        tokio::task::spawn_blocking(move || {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error),
            };
            for entry in entries {
                let entry = entry?;
                if entry.file_name().to_str().is_some_and(|name| ExecutorJobId::is_of(name, &job)) {
                    fs::remove_dir_all(entry.path())?;
                }
            }
            Ok(())
        })
        .await?
    }
}
