//! Executor for machines without shared storage: an agent beside the program takes the role of the local supervisor,
//! and sends everything to the server.
//!
//! [`RemoteExecutor`] fulfils the contract of [`Executor`]. An [`AgentEngine`] only has to start, observe and stop
//! agents. Their reports arrive in the [`Inbox`]: logs in the attempt's folder, as a local program would have written
//! them, and the end of the program. Measurements are not stored here but by the service.
//!
//! An attempt with several replicas has one agent per replica, on machines that may be far apart. Programs start once
//! all agents have reported an address, and the attempt ends as a whole ([`Inbox`]).

mod changes;
mod ends;
mod engine;
mod inbox;
mod inbox_reports;
mod messages;
mod open_agents;
mod placement_queue;
mod silence;
mod submitted;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;

pub use self::changes::{Changes, Subscription};
use self::ends::{lost, of_task, state_of};
pub use self::engine::{AgentEngine, AgentId, AgentState};
pub use self::inbox::Inbox;
use self::inbox_reports::InboxReports;
pub use self::messages::{
    AgentCommand, AgentEnd, AgentReport, AgentSpec, LogPiece, LogPosition, Received, SPEC_FORMAT,
};
use self::open_agents::OpenAgents;
pub use self::placement_queue::PLACEMENT_TIMEOUT;
use self::placement_queue::PlacementQueue;
use self::placement_queue::Position;
pub use self::silence::CONTACT_TIMEOUT;
use self::silence::Contacts;
pub use self::submitted::{Submitted, random_name};
use super::logs::LogName;
use super::reports::Reports;
use super::{
    AttemptLocation, AttemptReports, Capabilities, Executor, ExecutorError, ExecutorJobId, ExecutorJobSpec,
    ExecutorJobState, ExitStatus, FolderFailure, LossCause, Placement, ProgramEnd, ReplicaNode, StopMode, StopReason,
    create_folders,
};
use tunesmith_domain::{JobId, Measurement};

/// Polling interval of the engine for an agent whose next state is awaited.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Polling interval for settled agents in an engine that notifies of changes; a guess.
const SETTLED_INTERVAL: Duration = Duration::from_secs(30);

/// State of an attempt according to its engine and the reports of its agents.
struct Look {
    state: ExecutorJobState,
    /// Whether only a notification of the engine or an agent changes the state.
    is_settled: bool,
}

impl From<ExecutorJobState> for Look {
    /// State that may change without a notification.
    fn from(state: ExecutorJobState) -> Self {
        Self { state, is_settled: false }
    }
}

/// Runs programs through agents.
#[derive(Debug)]
pub struct RemoteExecutor<E> {
    engine: E,
    inbox: Arc<Inbox>,
    /// Attempts with several replicas that are being placed.
    queue: PlacementQueue,
    contacts: Contacts,
}

impl<E: AgentEngine> RemoteExecutor<E> {
    /// Executor whose agents are started by `engine` and report to `inbox`. Does no IO.
    pub fn new(engine: E, inbox: Arc<Inbox>) -> Self {
        let (queue, contacts) = (PlacementQueue::new(PLACEMENT_TIMEOUT), Contacts::new(CONTACT_TIMEOUT));
        Self { engine, inbox, queue, contacts }
    }

    /// Sets the time within which attempts with several replicas must get all their slots, or release them.
    #[must_use]
    pub fn with_placement_timeout(self, timeout: Duration) -> Self {
        Self { queue: PlacementQueue::new(timeout), ..self }
    }

    /// Sets the time after which a running agent without reports is mentioned in the state.
    #[must_use]
    pub fn with_contact_timeout(self, timeout: Duration) -> Self {
        Self { contacts: Contacts::new(timeout), ..self }
    }

    /// Runs `work` on the inbox, on a thread that may block.
    async fn blocking<T: Send + 'static>(
        &self,
        id: &ExecutorJobId,
        work: impl FnOnce(&Inbox) -> io::Result<T> + Send + 'static,
    ) -> Result<T, ExecutorError> {
        let inbox = Arc::clone(&self.inbox);
        let done = tokio::task::spawn_blocking(move || work(&inbox)).await;
        done.unwrap_or_else(|error| Err(io::Error::other(error)))
            .map_err(|source| ExecutorError::Unreachable { id: id.clone(), source })
    }

    async fn agents(&self, id: &ExecutorJobId) -> Result<Vec<AgentId>, ExecutorError> {
        let known = id.clone();
        self.blocking(id, move |inbox| inbox.agents(&known)).await
    }

    async fn end(&self, id: &ExecutorJobId) -> Result<Option<ExecutorJobState>, ExecutorError> {
        let known = id.clone();
        self.blocking(id, move |inbox| {
            let Some(end) = inbox.end(&known)? else { return Ok(None) };
            Ok(Some(state_of(end, inbox.stop_request(&known)?)))
        })
        .await
    }

    /// Records that `agent` is gone with `end`, unless its end has arrived.
    async fn close(&self, agent: &AgentId, end: AgentEnd) -> Result<(), ExecutorError> {
        let known = agent.clone();
        self.blocking(&agent.run, move |inbox| {
            let stop = inbox.stop_request(&known.run)?;
            let is_unwanted = stop.is_some() || inbox.outcome(&known.run)?.is_some();
            let end = match (inbox.preemption(&known)?, inbox.has_contact(&known)?, stop) {
                (Some(notice), ..) => AgentEnd::Preempted { reason: notice },
                (None, false, _) if is_unwanted => AgentEnd::Ended(ExitStatus {
                    end: ProgramEnd::NotStarted("it was stopped before it started".to_owned()),
                    stopped: Some(StopReason::Requested),
                }),
                (None, true, Some(StopMode::Immediate)) => {
                    AgentEnd::Ended(ExitStatus { end: ProgramEnd::Signaled(9), stopped: Some(StopReason::Requested) })
                }
                _ => end,
            };
            inbox.close(&known, end).map(drop)
        })
        .await
    }

    /// Starts the `agents` of one attempt with their specification files. Starting again has no effect.
    async fn start(&self, agents: Vec<(ExecutorJobSpec, PathBuf)>) -> Result<(), ExecutorError> {
        let mut first = None;
        for (spec, file) in agents {
            let agent = AgentId::of(&spec);
            let started = self.engine.start(&spec, &file).await;
            let master = first.get_or_insert_with(|| agent.clone());
            match started {
                Err(ExecutorError::Rejected { reason, .. }) if *master != agent => {
                    // Agents already started have to end before they start a program.
                    let end = ProgramEnd::NotStarted(format!("{}: {reason}", agent.task.unwrap_or_default()));
                    return self.close(master, AgentEnd::Ended(ExitStatus { end, stopped: None })).await;
                }
                started => started?,
            }
        }
        Ok(())
    }

    /// Starts the agents of the open attempt `id`. If the engine rejects one, the attempt ends.
    async fn start_agents(&self, id: &ExecutorJobId) -> Result<(), ExecutorError> {
        let known = id.clone();
        let opened =
            self.blocking(id, move |inbox| inbox.spec(&known)?.map_or(Ok(Vec::new()), |spec| inbox.open(&spec)));
        match self.start(opened.await?).await {
            Err(ExecutorError::Rejected { reason, .. }) => {
                for agent in self.agents(id).await?.iter().take(1) {
                    let end = ProgramEnd::NotStarted(reason.clone());
                    self.close(agent, AgentEnd::Ended(ExitStatus { end, stopped: None })).await?;
                }
                Ok(())
            }
            started => started,
        }
    }

    /// Whether the engine knows any agent of `agents`.
    async fn has_started(&self, agents: &[(ExecutorJobSpec, PathBuf)]) -> Result<bool, ExecutorError> {
        let Some((first, _)) = agents.first() else { return Ok(false) };
        Ok(self.engine.place(&AgentId::of(first)).await? != AgentState::Unknown)
    }

    /// Queue position of the attempt `id` with the open `agents`, which lacks slots; `None` if it must be submitted
    /// again.
    async fn position(&self, id: &ExecutorJobId, agents: &[AgentId]) -> Result<Option<Position>, ExecutorError> {
        if !self.queue.knows(id) {
            let Some(first) = agents.first() else { return Ok(None) };
            if self.engine.place(first).await? == AgentState::Unknown {
                return Ok(None);
            }
            self.queue.enter(id, true, Instant::now());
        }
        Ok(Some(self.queue.position(id, Instant::now())))
    }

    /// Releases the `running` of `count` slots of the attempt `id`, which lacks the others for the reason `waiting`.
    async fn give_back(
        &self,
        id: &ExecutorJobId,
        running: usize,
        count: usize,
        waiting: Option<&str>,
    ) -> Result<(), ExecutorError> {
        let limit = self.queue.timeout().as_secs_f64();
        let why = waiting.map(|reason| format!(" ({reason})")).unwrap_or_default();
        let reason = format!("it got {running} of {count} places within {limit} s, and gave them back{why}");
        let (known, text) = (id.clone(), reason.clone());
        if self.blocking(id, move |inbox| inbox.give_back(&known, &text)).await? {
            tracing::info!(executor.job = %id, "{reason}");
            self.queue.gave_back(id, &reason, Instant::now());
        }
        Ok(())
    }

    /// Whether `agent` has reported; a positive result is cached.
    async fn has_contact(&self, agent: &AgentId) -> Result<bool, ExecutorError> {
        if self.contacts.is_made(agent) {
            return Ok(true);
        }
        let known = agent.clone();
        let has_contact = self.blocking(&agent.run, move |inbox| inbox.has_contact(&known)).await?;
        if has_contact {
            self.contacts.made(agent);
        }
        Ok(has_contact)
    }

    /// Description of the silence of the running `agent`; `None` if it has reported, or has only just started.
    async fn silence(&self, agent: &AgentId) -> Result<Option<String>, ExecutorError> {
        if self.has_contact(agent).await? {
            return Ok(None);
        }
        let Some(silence) = self.contacts.silence(agent, Instant::now()) else { return Ok(None) };
        let id = agent.run.clone();
        let server = match self.engine.server() {
            Some(server) => server.to_owned(),
            None => self
                .blocking(&agent.run, move |inbox| inbox.spec(&id))
                .await?
                .map(|spec| spec.server.address)
                .unwrap_or_default(),
        };
        let silence = silence.as_secs_f64();
        Ok(Some(format!("its agent runs and has not reported for {silence} s; it reaches the server at {server}")))
    }

    /// Returns the state of `id`: its end, or else [`Self::look_at_agents`].
    async fn look(&self, id: &ExecutorJobId) -> Result<Look, ExecutorError> {
        if let Some(end) = self.end(id).await? {
            self.queue.ended(id);
            self.contacts.forget(|known| known == id);
            return Ok(end.into());
        }
        let known = id.clone();
        if !self.blocking(id, move |inbox| inbox.is_open(&known)).await? {
            return Ok(ExecutorJobState::Unknown.into());
        }
        let look = self.look_at_agents(id).await?;
        Ok(self.end(id).await?.map_or(look, Look::from))
    }

    /// Queries the engine for the open agents of `id`, records the ends of those that are gone, and returns the state
    /// of the attempt unless it has ended.
    async fn look_at_agents(&self, id: &ExecutorJobId) -> Result<Look, ExecutorError> {
        let known = id.clone();
        let OpenAgents { agents, count, is_over, has_met, is_stopped } =
            self.blocking(id, move |inbox| OpenAgents::of(inbox, &known)).await?;
        if is_over || has_met {
            self.queue.ended(id);
        }
        if has_met {
            self.queue.placed(id);
        }
        let gets_places = count > 1 && !is_over && !has_met;
        let mut since = None;
        if gets_places {
            match self.position(id, &agents).await? {
                // It was submitted to an earlier process, which started none of its agents.
                None => return Ok(ExecutorJobState::Unknown.into()),
                Some(Position::First(begin)) => since = Some(begin),
                Some(Position::Behind(reason)) if !is_stopped => return Ok(ExecutorJobState::Waiting { reason }.into()),
                Some(Position::Behind(_)) => {}
            }
        }
        let (mut is_unknown, mut waiting) = (false, None);
        let mut is_settled = !(gets_places || is_over || is_stopped);
        let mut running = count - agents.len();
        for agent in agents {
            match self.engine.place(&agent).await? {
                AgentState::Unknown => {
                    let is_unwanted = is_over || (gets_places && is_stopped);
                    if is_unwanted || self.has_contact(&agent).await? {
                        let reason = "its engine does not know it any more".to_owned();
                        self.close(&agent, lost(LossCause::Failure, reason)).await?;
                    } else {
                        is_unknown = true;
                    }
                }
                // It would wait for a program that has ended.
                AgentState::Waiting { .. } if is_over => self.engine.stop(&agent, StopMode::Graceful).await?,
                AgentState::Waiting { .. } if self.has_contact(&agent).await? => {
                    is_settled = false;
                    // It has run, and was preempted without a notice that it could report, for example by a queue that
                    // suspends it. The engine's cached state may be from before its start, and its reason may be an old one.
                    if let AgentState::Waiting { reason } = self.engine.confirmed_place(&agent).await? {
                        let reason = format!("its place was taken after it had started: {reason}");
                        self.close(&agent, lost(LossCause::Preemption, reason)).await?;
                    }
                }
                AgentState::Waiting { reason } => {
                    waiting.get_or_insert(of_task(&agent, reason));
                }
                AgentState::Running => {
                    running += 1;
                    match self.silence(&agent).await? {
                        // The agent would not receive the request.
                        Some(_) if is_over || is_stopped => self.engine.clean_up(&agent).await?,
                        Some(reason) => drop(waiting.get_or_insert(of_task(&agent, reason))),
                        None => {}
                    }
                    is_settled &= self.contacts.is_made(&agent);
                }
                AgentState::Ended(ExitStatus { end: ProgramEnd::NotStarted(reason), .. })
                    if self.has_contact(&agent).await? =>
                {
                    // The engine mistakes the end of an agent for one that never started.
                    self.close(&agent, lost(LossCause::Failure, reason)).await?;
                }
                AgentState::Ended(status) => self.close(&agent, AgentEnd::Ended(status)).await?,
                AgentState::Gone { cause, reason } => self.close(&agent, lost(cause, reason)).await?,
            }
        }
        if let Some(since) = since {
            let now = Instant::now();
            if running == count {
                self.queue.placed(id);
            } else if now.duration_since(since) >= self.queue.timeout() {
                self.give_back(id, running, count, waiting.as_deref()).await?;
            } else if is_unknown && !is_stopped {
                // It is first in the queue, or an earlier start failed.
                self.start_agents(id).await?;
                is_unknown = false;
            }
        }
        let state = match waiting {
            // The caller submits again, which does not affect agents already started.
            _ if is_unknown => ExecutorJobState::Unknown,
            Some(reason) => ExecutorJobState::Waiting { reason },
            None => ExecutorJobState::Running,
        };
        Ok(Look { state, is_settled })
    }
}

#[async_trait]
impl<E: AgentEngine> Executor for RemoteExecutor<E> {
    fn capabilities(&self, _: &Placement) -> Capabilities {
        self.engine.capabilities()
    }

    fn has_volume(&self, _: &Placement, path: &Path) -> bool {
        self.engine.has_volume(path)
    }

    async fn runs_containers(&self, _: &Placement) -> bool {
        self.engine.runs_containers()
    }

    async fn submit(&self, spec: &ExecutorJobSpec) -> Result<(), ExecutorError> {
        let (id, owned) = (spec.id.clone(), spec.clone());
        if self.end(&id).await?.is_some() {
            return Ok(());
        }
        let leaves_folders = !self.engine.capabilities().shares_files;
        let prepared = self
            .blocking(&id, move |inbox| match create_folders(&owned, leaves_folders) {
                Ok(()) => inbox.open(&owned).map(Ok),
                Err(FolderFailure::OfJob(reason)) => Ok(Err(reason)),
                Err(FolderFailure::OfService(error)) => Err(error),
            })
            .await?;
        let agents = prepared.map_err(|reason| ExecutorError::Rejected { id: id.clone(), reason })?;
        if agents.len() > 1 {
            self.queue.enter(&id, self.has_started(&agents).await?, Instant::now());
            if let Position::Behind(_) = self.queue.position(&id, Instant::now()) {
                // A later look starts it, once it is first in the queue.
                return Ok(());
            }
        }
        self.start(agents).await
    }

    async fn state(&self, id: &ExecutorJobId) -> Result<ExecutorJobState, ExecutorError> {
        Ok(self.look(id).await?.state)
    }

    async fn changed(&self, id: &ExecutorJobId, known: &ExecutorJobState) -> Result<ExecutorJobState, ExecutorError> {
        let (mut reports, mut places) = (self.inbox.changes(id), self.engine.changes(id));
        loop {
            reports.begin();
            places.iter_mut().for_each(Subscription::begin);
            let Look { state, is_settled } = self.look(id).await?;
            if state != *known || !state.is_open() {
                return Ok(state);
            }
            let pause = if is_settled && places.is_some() { SETTLED_INTERVAL } else { WATCH_INTERVAL };
            tokio::select! {
                () = reports.changed() => {}
                () = async {
                    match &mut places {
                        Some(places) => places.changed().await,
                        None => std::future::pending().await,
                    }
                } => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn stop(&self, id: &ExecutorJobId, how: StopMode) -> Result<(), ExecutorError> {
        let known = id.clone();
        if self.blocking(id, move |inbox| inbox.request_stop(&known, how)).await? {
            for agent in self.agents(id).await? {
                self.engine.stop(&agent, how).await?;
            }
        }
        Ok(())
    }

    async fn clean_up(&self, id: &ExecutorJobId) -> Result<(), ExecutorError> {
        let (known, agents) = (id.clone(), self.agents(id).await?);
        if self.end(id).await?.is_some() {
            for agent in agents {
                self.engine.clean_up(&agent).await?;
            }
            self.blocking(id, move |inbox| inbox.clean_up(&known)).await?;
        }
        Ok(())
    }

    async fn supersede(&self, id: &ExecutorJobId) -> Result<(), ExecutorError> {
        self.engine.supersede(id).await
    }

    async fn sweep(&self) -> io::Result<()> {
        self.engine.sweep(&|id| self.inbox.is_over(id)).await
    }

    async fn nodes(&self, id: &ExecutorJobId) -> Result<AttemptLocation, ExecutorError> {
        let mut nodes = Vec::new();
        for agent in self.agents(id).await? {
            let known = agent.clone();
            let node = match self.engine.node(&agent).await? {
                None => self.blocking(id, move |inbox| inbox.node(&known)).await?,
                node => node,
            };
            nodes.extend(node.map(|node| ReplicaNode { task: agent.task, node }));
        }
        Ok(AttemptLocation { nodes, ..AttemptLocation::from(id) })
    }

    fn reports(&self, attempt: &AttemptReports<'_>, _: &[Measurement]) -> Box<dyn Reports> {
        Box::new(InboxReports::new(Arc::clone(&self.inbox), attempt.id.clone()))
    }

    async fn forget(&self, job: &JobId) -> io::Result<()> {
        self.engine.forget(job).await?;
        self.queue.forget(job);
        self.contacts.forget(|known| known.job == *job);
        let (inbox, job) = (Arc::clone(&self.inbox), job.clone());
        tokio::task::spawn_blocking(move || inbox.forget(&job)).await?
    }
}

/// Log name of a task of `id`.
fn log_name(id: &ExecutorJobId, piece: &LogPosition) -> LogName {
    LogName {
        trial: id.trial.map(|trial| trial.0),
        attempt: id.attempt,
        task: piece.task.clone(),
        stream: piece.stream,
    }
}
