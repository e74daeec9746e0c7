//! Inbox of reports from agents, with one folder per attempt.
//!
//! | file | written by | meaning |
//! |---|---|---|
//! | `spec.json` | the executor | the attempt is open; the input of its agent |
//! | `replicas.json` | the executor | tasks of an attempt with several agents, in replica order |
//! | `stop.json` | the executor | requested stop mode, for the responses to the next reports |
//! | `summary.json` | the service | metrics seen by the agents |
//! | `outcome.json` | the service, or the executor | end of an attempt with agents still running |
//! | `end.json` | the service, or an executor that finds the agent gone | the end; never replaced |
//!
//! Files of one agent, in a folder named after its task if there are several:
//!
//! | file | written by | meaning |
//! |---|---|---|
//! | `spec.json` | the executor | the input of the agent |
//! | `contact` | the service | the agent has reported at least once |
//! | `node` | the service | name of its node |
//! | `address` | the service | address of its replica for its peers |
//! | `preemption.json` | the service | the agent received a preemption notice |
//! | `end.json` | the service, or the executor | its end; never replaced |
//!
//! An attempt ends with its master, or with the first other agent that is lost, fails to start its program or runs out
//! of memory. The remaining agents are then asked to stop, and the attempt's end is recorded when none is left.

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

/// Attempts run by agents.
#[derive(Debug)]
pub struct Inbox {
    folder: PathBuf,
    /// Maximum disk space of the logs of one attempt in bytes; `None` for no limit.
    log_quota_bytes: Option<u64>,
    /// Serialises reports per attempt.
    attempts: OpenAttempts,
    /// Notifies of recorded ends and first reports.
    changes: Changes<ExecutorJobId>,
}

impl Inbox {
    /// Inbox in `folder`, created on demand. Does no IO.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, log_quota_bytes: None, attempts: OpenAttempts::default(), changes: Changes::default() }
    }

    /// Limits the disk space of the logs of one attempt in bytes, both on its nodes and here.
    #[must_use]
    pub fn with_log_quota(self, log_quota_bytes: Option<u64>) -> Self {
        Self { log_quota_bytes, ..self }
    }

    /// Subscribes to first reports and ends of the agents of `id`.
    pub fn changes(&self, id: &ExecutorJobId) -> Subscription<ExecutorJobId> {
        self.changes.subscribe(id.clone())
    }

    /// Opens the attempt of `spec` and returns the specifications of its agents with their files. Agents that have
    /// reported keep their specifications.
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
            // Until then, the attempt may have been opened by a server with another address.
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

    /// Returns the agents of the attempt `id` in replica order, starting with the master's.
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

    /// Returns the recorded end of the attempt `id`, if any.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn end(&self, id: &ExecutorJobId) -> io::Result<Option<AgentEnd>> {
        read(&self.attempt(id), "end.json")
    }

    /// Returns the recorded end of `agent` or of its attempt, if any.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn end_of(&self, agent: &AgentId) -> io::Result<Option<AgentEnd>> {
        match read(&self.folder_of(agent), "end.json")? {
            None if agent.task.is_some() => self.end(&agent.run),
            end => Ok(end),
        }
    }

    /// Returns the end that the attempt `id` will have once its last agent has ended, if determined.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn outcome(&self, id: &ExecutorJobId) -> io::Result<Option<AgentEnd>> {
        read(&self.attempt(id), "outcome.json")
    }

    /// Records the end of `agent` unless there is one, and returns the recorded end.
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

    /// Ends the attempt `id` and releases its slots for `reason`, unless all of its agents have reported an address or
    /// its outcome is determined. Returns whether it ends.
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

    /// Whether all agents of the attempt `id` have reported an address, so that its programs may have started.
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

    /// Records the end of the attempt `id` if the ends of all its agents are recorded; needed after a server crash in
    /// between.
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

    /// Records a stop request for `id`. Returns false, without effect, for an attempt that is not open or has ended.
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

    /// Returns the preemption notice of `agent`, if any.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn preemption(&self, agent: &AgentId) -> io::Result<Option<String>> {
        read(&self.folder_of(agent), "preemption.json")
    }

    /// Returns the node reported by `agent`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn node(&self, agent: &AgentId) -> io::Result<Option<String>> {
        read(&self.folder_of(agent), "node")
    }

    /// Returns the tags seen and the problems reported by the agents of `id`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn summary(&self, id: &ExecutorJobId) -> io::Result<SentReports> {
        let summary: Option<Summary> = read(&self.attempt(id), "summary.json")?;
        Ok(summary.unwrap_or_default().into())
    }

    /// Returns the tasks whose logs `agent` sends: its own, or those of all replicas if it runs the whole attempt. The
    /// master's agent also sends the installer's log.
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

    /// Tasks of the attempt `id`.
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

    /// Receives a report of `agent`, except its measurements and its end. `job` is the folder of the job's files; the
    /// logs must be of [`Self::tasks_of`] the agent.
    ///
    /// Repeated parts of a log have no effect, and parts after a gap are not written: the response states where to
    /// resume. Blocks.
    ///
    /// # Errors
    /// If a file cannot be written; the report may be retried.
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
            // An attempt about to end starts no program.
            Some(address) if self.outcome(id)?.is_none() => self.introduce(agent, &address.to_string())?,
            _ => Vec::new(),
        };
        let command = match self.stop_request(id)? {
            // The master has ended, or another replica is lost.
            None if agent.task.is_some() && self.outcome(id)?.is_some() => AgentCommand::Stop,
            None => AgentCommand::Continue,
            Some(StopMode::Graceful) => AgentCommand::Stop,
            Some(StopMode::Immediate) => AgentCommand::Kill,
        };
        Ok(Received { logs, addresses, command })
    }

    /// Records the first `address` of `agent`, and returns the addresses of all agents once known.
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

    /// Removes all files of an ended attempt except its end. Returns false, without effect, for an attempt that has not
    /// ended.
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

    /// Folder with the files of `agent`.
    fn folder_of(&self, agent: &AgentId) -> PathBuf {
        let attempt = self.attempt(&agent.run);
        agent.task.as_ref().map_or(attempt.clone(), |task| attempt.join(task))
    }
}

/// Specifications of the agents of `spec`, one per replica.
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
