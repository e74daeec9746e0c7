//! What the server knows of the attempts that agents run: one folder for each attempt.
//!
//! | file | written by | meaning |
//! |---|---|---|
//! | `spec.json` | the executor | the attempt is open; the input of its agent |
//! | `replicas.json` | the executor | the tasks of an attempt with several agents, in the order of the replicas |
//! | `stop.json` | the executor | the requested stop mode, for the answers to the next reports |
//! | `summary.json` | the service | the metrics that the agents have seen |
//! | `outcome.json` | the service, or the executor | the end of an attempt, some of whose agents have not ended |
//! | `end.json` | the service, or the executor that finds the place gone | the end; never replaced |
//!
//! These are of one agent, in a folder with the name of its task if there are several:
//!
//! | file | written by | meaning |
//! |---|---|---|
//! | `spec.json` | the executor | the input of the agent |
//! | `contact` | the service | the agent has reported at least once |
//! | `node` | the service | the name of its node |
//! | `address` | the service | where the others reach its replica |
//! | `preemption.json` | the service | the agent was notified that its place is taken |
//! | `end.json` | the service, or the executor | its end; never replaced |
//!
//! The end of the master is the outcome of its attempt, and so is the first other agent whose place is lost, or whose program
//! was not started or had no memory. The remaining agents are then asked to stop, and the attempt ends when none is left.

mod files;
mod open_attempts;
mod outcome;
mod summary;

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use self::files::{Appended, MAX_LOG_BYTES, append, read, write};
use self::open_attempts::{Known, OpenAttempts};
use self::outcome::outcome_of;
use self::summary::Summary;
use super::changes::{Changes, Subscription};
use super::engine::AgentId;
use super::log_name;
use super::messages::{AgentCommand, AgentEnd, AgentReport, AgentSpec, LogPosition, Received};
use crate::local::replica_name;
use crate::logs::{MASTER, PACKAGES, file_of};
use crate::reports::SentReports;
use crate::{AttemptPart, ExecutorJobId, ExecutorJobSpec, StopMode};
use tunesmith_domain::JobId;

/// The attempts of agents.
#[derive(Debug)]
pub struct Inbox {
    folder: PathBuf,
    /// Maximum space of the logs of one attempt in bytes; `None` for any.
    log_quota_bytes: Option<u64>,
    /// Reports of one attempt are received one after the other.
    attempts: OpenAttempts,
    /// The attempts of which an end was recorded, or which an agent reported for the first time.
    changes: Changes<ExecutorJobId>,
}

impl Inbox {
    /// An inbox in `folder`, which is created when needed. Does no IO.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, log_quota_bytes: None, attempts: OpenAttempts::default(), changes: Changes::default() }
    }

    /// The same with a limit of the space of the logs of one attempt in bytes, on its nodes and here.
    #[must_use]
    pub fn with_log_quota(self, log_quota_bytes: Option<u64>) -> Self {
        Self { log_quota_bytes, ..self }
    }

    /// Returns a subscription to the first reports and the ends of the agents of `id`.
    pub fn changes(&self, id: &ExecutorJobId) -> Subscription<ExecutorJobId> {
        self.changes.subscribe(id.clone())
    }

    /// Opens the attempt of `spec`, and returns the specifications of its agents with their files. Specifications of agents that
    /// have reported stay as they are.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn open(&self, spec: &ExecutorJobSpec) -> io::Result<Vec<(ExecutorJobSpec, PathBuf)>> {
        // Two submissions of an attempt write the same files.
        let attempt = self.attempts.get(&spec.id);
        let _one = attempt.lock();
        let parts = parts(spec);
        let mut opened = Vec::with_capacity(parts.len());
        for part in &parts {
            let agent = AgentId::of(part);
            let folder = self.folder_of(&agent);
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
            // Before that, an attempt may have been opened by a server with another address.
            if !self.has_contact(&agent)? {
                write(
                    &folder,
                    "spec.json",
                    &AgentSpec::new(part.clone(), self.log_quota_bytes.map(|quota| quota / parts.len() as u64)),
                    false,
                )?;
            }
            opened.push((part.clone(), folder.join("spec.json")));
        }
        if parts.len() > 1 && !self.is_open(&spec.id)? {
            let tasks: Vec<Option<String>> = parts.iter().map(|part| AgentId::of(part).task).collect();
            write(&self.attempt(&spec.id), "replicas.json", &tasks, false)?;
            write(&self.attempt(&spec.id), "spec.json", &AgentSpec::new(spec.clone(), self.log_quota_bytes), false)?;
        }
        Ok(opened)
    }

    /// Returns the agents of the attempt `id`, in the order of its replicas; the first runs the master.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn agents(&self, id: &ExecutorJobId) -> io::Result<Vec<AgentId>> {
        let tasks: Option<Vec<String>> = read(&self.attempt(id), "replicas.json")?;
        Ok(match tasks {
            None => vec![AgentId::from(id)],
            Some(tasks) => tasks.into_iter().map(|task| AgentId { run: id.clone(), task: Some(task) }).collect(),
        })
    }

    /// Whether the attempt `id` was opened.
    ///
    /// # Errors
    /// If that cannot be determined.
    pub fn is_open(&self, id: &ExecutorJobId) -> io::Result<bool> {
        self.attempt(id).join("spec.json").try_exists()
    }

    /// Whether `agent` has reported.
    ///
    /// # Errors
    /// If that cannot be determined.
    pub fn has_contact(&self, agent: &AgentId) -> io::Result<bool> {
        self.folder_of(agent).join("contact").try_exists()
    }

    /// Returns the end of the attempt `id`, if it was recorded.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn end(&self, id: &ExecutorJobId) -> io::Result<Option<AgentEnd>> {
        read(&self.attempt(id), "end.json")
    }

    /// Returns the end of `agent`, if it or that of its attempt was recorded.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn end_of(&self, agent: &AgentId) -> io::Result<Option<AgentEnd>> {
        match read(&self.folder_of(agent), "end.json")? {
            None if agent.task.is_some() => self.end(&agent.run),
            end => Ok(end),
        }
    }

    /// Returns the end that the attempt `id` will have when its last agent has ended, if that is known.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn outcome(&self, id: &ExecutorJobId) -> io::Result<Option<AgentEnd>> {
        read(&self.attempt(id), "outcome.json")
    }

    /// Records the end of `agent`, and returns it; an earlier end stays.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn close(&self, agent: &AgentId, end: AgentEnd) -> io::Result<AgentEnd> {
        let attempt = self.attempts.get(&agent.run);
        let _one = attempt.lock();
        if let Some(earlier) = self.end_of(agent)? {
            return Ok(earlier);
        }
        if agent.task.is_some() && self.outcome(&agent.run)?.is_none() {
            let is_master = self.agents(&agent.run)?.first() == Some(agent);
            if let Some(outcome) = outcome_of(agent, is_master, &end) {
                write(&self.attempt(&agent.run), "outcome.json", &outcome, true)?;
            }
        }
        write(&self.folder_of(agent), "end.json", &end, true)?;
        if agent.task.is_some() {
            self.conclude(&agent.run)?;
        }
        self.changes.notify(&agent.run);
        Ok(end)
    }

    /// Ends the attempt `id`, which gives back its places for `reason`, unless all of its agents have reported an address, or its
    /// outcome is known. Returns whether it ends.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub fn give_back(&self, id: &ExecutorJobId, reason: &str) -> io::Result<bool> {
        let attempt = self.attempts.get(id);
        let _one = attempt.lock();
        if self.has_met(id)? || self.outcome(id)?.is_some() || self.end(id)?.is_some() {
            return Ok(false);
        }
        write(&self.attempt(id), "outcome.json", &AgentEnd::NotPlaced { reason: reason.to_owned() }, true)?;
        self.conclude(id)?;
        self.changes.notify(id);
        Ok(true)
    }

    /// Whether all agents of the attempt `id` have reported an address: its programs may have started.
    ///
    /// # Errors
    /// If that cannot be determined.
    pub fn has_met(&self, id: &ExecutorJobId) -> io::Result<bool> {
        for agent in self.agents(id)? {
            if !self.folder_of(&agent).join("address").try_exists()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the specification of the open attempt `id`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn spec(&self, id: &ExecutorJobId) -> io::Result<Option<ExecutorJobSpec>> {
        let spec: Option<AgentSpec> = read(&self.attempt(id), "spec.json")?;
        Ok(spec.map(|spec| spec.spec))
    }

    /// Records the end of the attempt `id` if the ends of all its agents are recorded: a server may have been ended in between.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub fn settle(&self, id: &ExecutorJobId) -> io::Result<()> {
        let attempt = self.attempts.get(id);
        let _one = attempt.lock();
        self.conclude(id)
    }

    fn conclude(&self, id: &ExecutorJobId) -> io::Result<()> {
        let Some(outcome) = self.outcome(id)? else { return Ok(()) };
        if self.end(id)?.is_some() {
            return Ok(());
        }
        for agent in &self.agents(id)? {
            if self.end_of(agent)?.is_none() {
                return Ok(());
            }
        }
        write(&self.attempt(id), "end.json", &outcome, true)
    }

    /// Returns the stop request for `id`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn stop_request(&self, id: &ExecutorJobId) -> io::Result<Option<StopMode>> {
        let request: Option<StopForm> = read(&self.attempt(id), "stop.json")?;
        Ok(request.map(|request| match request {
            StopForm::Graceful => StopMode::Graceful,
            StopForm::Immediate => StopMode::Immediate,
        }))
    }

    /// Records a stop request for `id`, and returns true; false for an attempt that is not open or has ended.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn request_stop(&self, id: &ExecutorJobId, how: StopMode) -> io::Result<bool> {
        let attempt = self.attempts.get(id);
        let _one = attempt.lock();
        if !self.is_open(id)? || self.end(id)?.is_some() {
            return Ok(false);
        }
        let form = match (how, self.stop_request(id)?) {
            (StopMode::Immediate, _) | (_, Some(StopMode::Immediate)) => StopForm::Immediate,
            (StopMode::Graceful, _) => StopForm::Graceful,
        };
        write(&self.attempt(id), "stop.json", &form, false)?;
        Ok(true)
    }

    /// Returns the notice of a preemption of `agent`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn preemption(&self, agent: &AgentId) -> io::Result<Option<String>> {
        read(&self.folder_of(agent), "preemption.json")
    }

    /// Returns the node that `agent` has reported.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn node(&self, agent: &AgentId) -> io::Result<Option<String>> {
        read(&self.folder_of(agent), "node")
    }

    /// Returns what the agents of `id` have reported about their reads.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn summary(&self, id: &ExecutorJobId) -> io::Result<SentReports> {
        let summary: Option<Summary> = read(&self.attempt(id), "summary.json")?;
        Ok(summary.unwrap_or_default().into())
    }

    /// Returns the tasks whose logs `agent` sends: its own, or those of all replicas if it runs all of the attempt; that of the
    /// master also sends the log of its installer.
    ///
    /// # Errors
    /// If the specification cannot be read.
    pub fn tasks_of(&self, agent: &AgentId) -> io::Result<Vec<String>> {
        let tasks = self.tasks(&agent.run, &mut self.attempts.get(&agent.run).lock())?;
        Ok(match &agent.task {
            Some(own) => {
                let installer = tasks.into_iter().filter(|task| own == MASTER && task == PACKAGES);
                std::iter::once(own.clone()).chain(installer).collect()
            }
            None => tasks,
        })
    }

    /// Returns the tasks of the attempt `id`.
    fn tasks(&self, id: &ExecutorJobId, known: &mut Known) -> io::Result<Vec<String>> {
        if let Some(tasks) = &known.tasks {
            return Ok(tasks.clone());
        }
        let Some(spec) = self.spec(id)? else { return Ok(vec![MASTER.to_owned()]) };
        let installer = spec.packages.is_some().then(|| PACKAGES.to_owned());
        let tasks: Vec<String> = spec.replicas.iter().map(replica_name).chain(installer).collect();
        known.tasks = Some(tasks.clone());
        Ok(tasks)
    }

    /// Receives everything of a report of `agent` but its measurements and its end. `job` is the folder of the job's files; the
    /// logs are those of [`Self::tasks_of`] the agent.
    ///
    /// A part of a log that was received before has no effect, and one that leaves a gap is not written: the answer states
    /// where the log continues. Blocks.
    ///
    /// # Errors
    /// If a file cannot be written; the report may be repeated.
    pub fn receive(&self, agent: &AgentId, job: &Path, report: &AgentReport) -> io::Result<Received> {
        let attempt = self.attempts.get(&agent.run);
        let mut known = attempt.lock();
        let (id, folder) = (&agent.run, self.folder_of(agent));
        if !self.has_contact(agent)? {
            fs::write(folder.join("contact"), "")?;
            self.changes.notify(id);
        }
        if let Some(node) = &report.node {
            write(&folder, "node", node, false)?;
        }
        if let Some(notice) = &report.preempted
            && self.preemption(agent)?.is_none()
        {
            write(&folder, "preemption.json", notice, false)?;
        }
        let mut summary: Option<Summary> = None;
        if !report.seen_tags.is_empty() || !report.problems.is_empty() {
            let mut known: Summary = read(&self.attempt(id), "summary.json")?.unwrap_or_default();
            summary = known.add(report).then_some(known);
        }
        // Each task has two logs.
        let quota_bytes = match self.log_quota_bytes.filter(|_| !report.logs.is_empty()) {
            Some(quota) => Some(quota / (2 * self.tasks(id, &mut known)?.len().max(1) as u64)),
            None => None,
        };
        let mut logs = Vec::with_capacity(report.logs.len());
        for piece in &report.logs {
            let name = log_name(id, &piece.position);
            let offset = match append(&file_of(&name, job), piece, quota_bytes)? {
                Appended::Size(offset) => offset,
                Appended::TooLong { offset } => {
                    let mut known = match summary.take() {
                        Some(summary) => summary,
                        None => read(&self.attempt(id), "summary.json")?.unwrap_or_default(),
                    };
                    let problem =
                        format!("{name} is longer than {} GiB; the rest of it is not kept", MAX_LOG_BYTES >> 30);
                    summary = known.add_problem(&problem).then_some(known);
                    offset
                }
            };
            logs.push(LogPosition { offset, ..piece.position.clone() });
        }
        if let Some(summary) = summary {
            write(&self.attempt(id), "summary.json", &summary, false)?;
        }
        let addresses = match report.address {
            // An attempt that is to end starts no program.
            Some(address) if self.outcome(id)?.is_none() => self.introduce(agent, &address.to_string())?,
            _ => Vec::new(),
        };
        let command = match self.stop_request(id)? {
            // Its master has ended, or another replica is lost.
            None if agent.task.is_some() && self.outcome(id)?.is_some() => AgentCommand::Stop,
            None => AgentCommand::Continue,
            Some(StopMode::Graceful) => AgentCommand::Stop,
            Some(StopMode::Immediate) => AgentCommand::Kill,
        };
        Ok(Received { logs, addresses, command })
    }

    /// Records the `address` of `agent`, of which the first stays, and returns those of all if they are known.
    fn introduce(&self, agent: &AgentId, address: &str) -> io::Result<Vec<String>> {
        let folder = self.folder_of(agent);
        if !folder.join("address").try_exists()? {
            write(&folder, "address", &address, false)?;
        }
        let mut addresses = Vec::new();
        for other in self.agents(&agent.run)? {
            match read(&self.folder_of(&other), "address")? {
                Some(address) => addresses.push(address),
                None => return Ok(Vec::new()),
            }
        }
        Ok(addresses)
    }

    /// Removes everything of an ended attempt but its end, and returns true; false for one that has not ended.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn clean_up(&self, id: &ExecutorJobId) -> io::Result<bool> {
        let attempt = self.attempts.get(id);
        let _one = attempt.lock();
        if self.end(id)?.is_none() {
            return Ok(false);
        }
        let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        for agent in self.agents(id)?.iter().filter(|agent| agent.task.is_some()) {
            fs::remove_dir_all(self.folder_of(agent))
                .or_else(|error| if is_missing(&error) { Ok(()) } else { Err(error) })?;
        }
        let names = ["spec.json", "contact", "node", "stop.json", "preemption.json", "summary.json"];
        for name in names.into_iter().chain(["outcome.json", "replicas.json"]) {
            let removed = fs::remove_file(self.attempt(id).join(name));
            removed.or_else(|error| if is_missing(&error) { Ok(()) } else { Err(error) })?;
        }
        drop(_one);
        drop(attempt);
        self.attempts.forget(|known| known == id);
        Ok(true)
    }

    /// Removes the attempts of `job`.
    ///
    /// # Errors
    /// If a folder cannot be removed.
    pub fn forget(&self, job: &JobId) -> io::Result<()> {
        self.attempts.forget(|known| known.job == *job);
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(|name| ExecutorJobId::is_of(name, job)) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    fn attempt(&self, id: &ExecutorJobId) -> PathBuf {
        self.folder.join(id.to_string())
    }

    /// The folder with the files of `agent`.
    fn folder_of(&self, agent: &AgentId) -> PathBuf {
        let attempt = self.attempt(&agent.run);
        agent.task.as_ref().map_or(attempt.clone(), |task| attempt.join(task))
    }
}

/// The specifications of the agents of `spec`: one for each replica.
fn parts(spec: &ExecutorJobSpec) -> Vec<ExecutorJobSpec> {
    if spec.replicas.len() < 2 {
        return vec![spec.clone()];
    }
    let part = |replica| Some(AttemptPart { replica, addresses: Vec::new() });
    (0..spec.replicas.len()).map(|replica| ExecutorJobSpec { part: part(replica), ..spec.clone() }).collect()
}

#[derive(Serialize, Deserialize)]
enum StopForm {
    Graceful,
    Immediate,
}

#[cfg(test)]
mod tests;
