//! Receives what the agents beside the programs of jobs report: logs, measurements and ends.
//!
//! A report may be repeated: parts of logs have offsets, measurements numbers, and an end is recorded once. It is refused if
//! its attempt is not the current one any more. Not here: how an agent is started, and what its end means.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use tunesmith_domain::{AgentResponse, KnownReports, Measurement, ReportKey, StudyId, TransitionError, Trial};
use tunesmith_executor::ExecutorJobId;
use tunesmith_executor::remote::{AgentCommand, AgentId, AgentReport, Inbox, LogPosition, Received};
use tunesmith_store::{OptionalExtension, Relay, StoreError, pages};

use super::live_trials::TrialKey;
use super::packages::PackageName;
use super::runner::JobServices;
use super::secret::{attempt_token, existing_secret, existing_shared_secret};
use tunesmith_domain::JobId;
use tunesmith_studies::measurements::{self, Deduplication, Report};

/// The folder of the packages that agents get, in that of a job.
pub(super) const STAGED_PACKAGES: &str = "packages";

/// Why a report was refused.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The token does not belong to the attempt.
    #[error("the token does not belong to {0}")]
    WrongToken(ExecutorJobId),
    /// The attempt is over for the server: its agent ends its program.
    #[error("{id} is superseded: {reason}")]
    Superseded {
        /// The attempt.
        id: ExecutorJobId,
        /// The cause.
        reason: String,
    },
    /// Another server runs the job, or will. The agent repeats the report until it reaches that server.
    #[error("{id} is not of this server: {reason}")]
    OtherServer {
        /// The attempt.
        id: ExecutorJobId,
        /// The server.
        reason: String,
    },
    /// The attempt has no such replica.
    #[error("{id} has no replica {task:?}; its replicas are {}", known.join(", "))]
    NoReplica {
        /// The attempt.
        id: ExecutorJobId,
        /// The task of the report; empty if it has none.
        task: String,
        /// The tasks of the attempt.
        known: Vec<String>,
    },
    /// The agent sends the log of a task that it does not run.
    #[error("{id} has no task {task:?} of this agent; its tasks are {}", known.join(", "))]
    NoTask {
        /// The attempt.
        id: ExecutorJobId,
        /// The task of the log.
        task: String,
        /// The tasks of the agent.
        known: Vec<String>,
    },
    /// The job has no such package.
    #[error("{id} has no package {name}")]
    NoPackage {
        /// The attempt.
        id: ExecutorJobId,
        /// Digest and file name.
        name: String,
    },
    /// A file of the attempt could not be written; the agent repeats the report.
    #[error("the report of {id} cannot be stored")]
    Files {
        /// The attempt.
        id: ExecutorJobId,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An attempt whose agent is authenticated. Returned by [`AgentReports::authorize`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizedRun(ExecutorJobId);

impl AuthorizedRun {
    /// Returns the attempt.
    pub fn id(&self) -> &ExecutorJobId {
        &self.0
    }
}

/// Returns the folder of a job's files.
pub type DirectoryOf = Arc<dyn Fn(&JobId) -> PathBuf + Send + Sync>;

/// Receives the reports of agents.
#[derive(Clone)]
pub struct AgentReports {
    services: Arc<JobServices>,
    inbox: Arc<Inbox>,
    earlier_events: Arc<Mutex<HashMap<TrialKey, EarlierEvents>>>,
    relay: Option<Arc<dyn Relay>>,
}

/// An attempt, and the measurements from event files that earlier ones have reported. The files are in the job-dir, which all
/// attempts of a trial share, so that an agent reads them again.
type EarlierEvents = (u64, Arc<KnownReports>);

impl AgentReports {
    /// A service for the attempts in `inbox`.
    pub fn new(services: Arc<JobServices>, inbox: Arc<Inbox>) -> Self {
        Self { services, inbox, earlier_events: Arc::default(), relay: None }
    }

    /// The same beside other servers, which `relay` reaches.
    #[must_use]
    pub fn with_relay(self, relay: Option<Arc<dyn Relay>>) -> Self {
        Self { relay, ..self }
    }

    /// The way to the server that runs a job, for requests that [`AgentError::OtherServer`] refuses; `None` if there is one server.
    pub fn relay(&self) -> Option<Arc<dyn Relay>> {
        self.relay.clone()
    }

    /// Receives a report of `run`. What the answer confirms is stored.
    ///
    /// # Errors
    /// [`AgentError`]. A part of the report may be stored; repeating it has no further effect.
    pub async fn receive(&self, run: &AuthorizedRun, report: AgentReport) -> Result<AgentResponse, AgentError> {
        let id = run.id();
        let folder = (self.services.directory)(&id.job);
        let superseded = |reason: &str| AgentError::Superseded { id: id.clone(), reason: reason.to_owned() };
        let agent = AgentId { run: id.clone(), task: report.task.clone() };
        let (inbox, known) = (Arc::clone(&self.inbox), agent.clone());
        let (is_open, recorded, agents) =
            blocking(id, move || Ok((inbox.is_open(&known.run)?, inbox.end_of(&known)?, inbox.agents(&known.run)?)))
                .await?;
        let wanted = report.first_measurement + report.measurements.len() as u64;
        match recorded {
            // The answer to the first report of the end was lost.
            Some(end) if report.end.as_ref() == Some(&end) => {
                let logs = report.logs.iter().map(|piece| {
                    let offset = piece.position.offset + piece.bytes.len() as u64;
                    LogPosition { offset, ..piece.position.clone() }
                });
                let (logs, command) = (logs.collect(), AgentCommand::Continue);
                return Ok(AgentResponse {
                    next_measurement: wanted,
                    logs,
                    addresses: Vec::new(),
                    command,
                    ended: true,
                });
            }
            Some(_) => return Err(superseded("the server has recorded its end")),
            None if !is_open => {
                self.current(id).await?;
                self.check_owner(id).await?;
                return Err(superseded("the server does not know it any more"));
            }
            None => {}
        }
        let trial = self.current(id).await?;
        if !agents.contains(&agent) {
            let known = agents.into_iter().filter_map(|agent| agent.task).collect();
            return Err(AgentError::NoReplica { id: id.clone(), task: agent.task.unwrap_or_default(), known });
        }
        let is_master = agents.first() == Some(&agent);
        if !report.logs.is_empty() {
            let (inbox, asked) = (Arc::clone(&self.inbox), agent.clone());
            let known = blocking(id, move || inbox.tasks_of(&asked)).await?;
            if let Some(piece) = report.logs.iter().find(|piece| !known.contains(&piece.position.task)) {
                return Err(AgentError::NoTask { id: id.clone(), task: piece.position.task.clone(), known });
            }
        }
        let (inbox, known) = (Arc::clone(&self.inbox), agent.clone());
        let (received, report) = blocking(id, move || Ok((inbox.receive(&known, &folder, &report)?, report))).await?;
        let next_measurement = match trial {
            Some(trial) if is_master => self.deliver(id, trial, &report).await?,
            // A job without hyperparameters has no measurements, and the metric is that of the master.
            _ => wanted,
        };
        let complete = next_measurement == wanted
            && report
                .logs
                .iter()
                .zip(&received.logs)
                .all(|(piece, position)| position.offset >= piece.position.offset + piece.bytes.len() as u64);
        let ended = match report.end {
            Some(end) if complete => {
                let (inbox, known, wanted) = (Arc::clone(&self.inbox), agent, end.clone());
                blocking(id, move || inbox.close(&known, end)).await? == wanted
            }
            _ => false,
        };
        if let Some(trial) = id.trial.filter(|_| ended && is_master) {
            self.earlier_events.lock().remove(&TrialKey { study: StudyId::from(&id.job), trial });
        }
        let Received { logs, addresses, command } = received;
        Ok(AgentResponse { next_measurement, logs, addresses, command, ended })
    }

    /// Checks that no other server has claimed the job of `id`: the files of its attempts are on that server.
    async fn check_owner(&self, id: &ExecutorJobId) -> Result<(), AgentError> {
        let reason = match self.services.claims.owner(&id.job).await? {
            Some(owner) if owner.is_self => return Ok(()),
            Some(owner) if owner.is_current => {
                format!("its job is run by {}; send the report to that server", owner.name)
            }
            Some(owner) => format!("its job was run by {}, which does not answer; send the report again", owner.name),
            None => return Ok(()),
        };
        Err(AgentError::OtherServer { id: id.clone(), reason })
    }

    /// Checks that `token` is that of the attempt `id`. Costs the same for every request.
    ///
    /// # Errors
    /// [`AgentError::WrongToken`], or if the secret of the job cannot be read.
    pub async fn authorize(&self, id: &ExecutorJobId, token: &str) -> Result<AuthorizedRun, AgentError> {
        let secret = match &self.services.documents {
            Some(documents) => existing_shared_secret(&**documents, &id.job).await?,
            None => {
                let folder = (self.services.directory)(&id.job);
                blocking(id, move || existing_secret(&folder)).await?
            }
        };
        // A timing attack is not possible: the token is a digest of a secret.
        if secret.is_none_or(|secret| attempt_token(&secret, id) != token) {
            return Err(AgentError::WrongToken(id.clone()));
        }
        Ok(AuthorizedRun(id.clone()))
    }

    /// Opens a package of the job of `run`.
    ///
    /// # Errors
    /// [`AgentError::NoPackage`], or if the file cannot be opened.
    pub async fn package(&self, run: &AuthorizedRun, sha256: &str, file_name: &str) -> Result<File, AgentError> {
        let id = run.id();
        self.check_owner(id).await?;
        let unknown = || AgentError::NoPackage { id: id.clone(), name: format!("{sha256}/{file_name}") };
        // A valid name refers to no other folder.
        let (project, _) = id.job.parts();
        PackageName::new(project, sha256, file_name).map_err(|_| unknown())?;
        let path = (self.services.directory)(&id.job).join(STAGED_PACKAGES).join(sha256).join(file_name);
        let opened = blocking(id, move || match File::open(&path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        });
        opened.await?.ok_or_else(unknown)
    }

    /// Returns the trial of `id`; `None` for a job without hyperparameters.
    async fn current(&self, id: &ExecutorJobId) -> Result<Option<Trial>, AgentError> {
        let superseded = |reason: String| AgentError::Superseded { id: id.clone(), reason };
        let store = &self.services.store;
        let job = store.job(&id.job).await.optional()?;
        let job = job.ok_or_else(|| superseded("its job was deleted".to_owned()))?;
        if job.state.is_final() {
            return Err(superseded(format!("its job is {}", job.state)));
        }
        let (Some(study), Some(number)) = (&job.study, id.trial) else { return Ok(None) };
        let trial = store.trial(study, number).await.optional()?;
        let trial = trial.ok_or_else(|| superseded("its trial was deleted".to_owned()))?;
        if trial.attempt != id.attempt {
            return Err(superseded(format!("its trial is at attempt {}", trial.attempt)));
        }
        if trial.state.is_final() {
            return Err(superseded(format!("its trial is {}", trial.state)));
        }
        Ok(Some(trial))
    }

    /// Stores the new measurements of `report`, and returns the number of the next one.
    async fn deliver(&self, id: &ExecutorJobId, trial: Trial, report: &AgentReport) -> Result<u64, AgentError> {
        let JobServices { store, live, clock, .. } = &*self.services;
        let (attempt, at, first) = (id.attempt, clock.now(), report.first_measurement);
        let key = TrialKey { study: StudyId::from(&id.job), trial: trial.id };
        let earlier = self.earlier_events(&key, &trial, &report.measurements).await?;
        let deduplication = Deduplication::Delivery { trial: &trial, first, earlier: &earlier };
        let delivery = Report { attempt, at, measurements: &report.measurements, deduplication };
        let extend = |new: &[Measurement], count| live.extend(&key, attempt, new, count);
        match measurements::report(&**store, &key.study, key.trial, delivery, extend).await {
            // A concurrent delivery was faster; the agent continues after it.
            Err(StoreError::Refused(TransitionError::OutOfSequence { expected, .. })) => Ok(expected),
            Err(StoreError::Refused(error @ (TransitionError::Fenced { .. } | TransitionError::WrongState { .. }))) => {
                Err(AgentError::Superseded { id: id.clone(), reason: error.to_string() })
            }
            changed => Ok(changed?.delivered),
        }
    }

    /// Returns the reports in event files of earlier attempts at `trial`; none if `new` has no report of such a file.
    async fn earlier_events(
        &self,
        key: &TrialKey,
        trial: &Trial,
        new: &[Measurement],
    ) -> Result<Arc<KnownReports>, StoreError> {
        let is_event = |one: &&Measurement| matches!(one.key, ReportKey::EventFile { .. });
        if trial.attempt <= 1 || !new.iter().any(|one| is_event(&one)) {
            return Ok(Arc::default());
        }
        let known = self.earlier_events.lock().get(key).filter(|(attempt, _)| *attempt == trial.attempt).cloned();
        if let Some((_, earlier)) = known {
            return Ok(earlier);
        }
        let stored = pages::measurements(&*self.services.store, &key.study, trial).await?;
        let earlier: Arc<KnownReports> = Arc::new(stored.iter().filter(is_event).collect());
        self.earlier_events.lock().insert(key.clone(), (trial.attempt, Arc::clone(&earlier)));
        Ok(earlier)
    }
}

/// Runs `work` on a thread that may block.
async fn blocking<T: Send + 'static>(
    id: &ExecutorJobId,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, AgentError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error)))
        .map_err(|source| AgentError::Files { id: id.clone(), source })
}
