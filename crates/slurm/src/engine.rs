//! Executor tasks: one lists jobs, one reconciles attempts, one submits.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tunesmith_executor::local::shared::SharedAttempts;
use tunesmith_executor::{ExecutorJobId, ExecutorJobSpec, ExitStatus, ProgramEnd};

use crate::SlurmSettings;
use crate::command::{self, CommandError};
use crate::listing::Listing;
use crate::refusal::Refusal;
use crate::row::{Row, SlurmState};
use crate::submission;
use crate::tracked::{Task, Tracked};

/// Initial and maximum back-off after a rejected submission.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Maximum attempts at a submission that fails for an unknown reason.
const MAX_REFUSALS: u32 = 5;

pub(crate) struct Engine {
    pub(crate) settings: SlurmSettings,
    pub(crate) attempts: SharedAttempts,
    uid: u32,
    tracked: Mutex<HashMap<ExecutorJobId, Arc<Tracked>>>,
    listing: Mutex<Option<Arc<Listing>>>,
    /// Waiting reason while Slurm is unreachable; `None` after a listing.
    outage: Mutex<Option<String>>,
    /// Submission queue, in order.
    queue: Mutex<VecDeque<Arc<Tracked>>>,
    rests: Mutex<Rests>,
    /// Notified when an attempt is tracked or stopped.
    pub(crate) changed: Notify,
    /// Notified when an attempt is tracked.
    present: Notify,
    listed: Notify,
    queued: Notify,
}

/// Leftover jobs: their attempt has ended, but Slurm still has them.
#[derive(Debug, Default)]
struct Rests {
    /// Whether leftovers are possible.
    exist: bool,
    /// Listing that was last searched.
    considered: Option<Instant>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl Engine {
    pub(crate) fn new(settings: SlurmSettings, attempts: SharedAttempts, uid: u32) -> Self {
        Self {
            settings,
            attempts,
            uid,
            tracked: Mutex::default(),
            listing: Mutex::default(),
            outage: Mutex::default(),
            queue: Mutex::default(),
            rests: Mutex::default(),
            changed: Notify::new(),
            present: Notify::new(),
            listed: Notify::new(),
            queued: Notify::new(),
        }
    }

    pub(crate) fn tracked(&self, id: &ExecutorJobId) -> Option<Arc<Tracked>> {
        lock(&self.tracked).get(id).cloned()
    }

    /// Starts tracking the attempt `id`. Blocks while reading files.
    pub(crate) fn track(&self, id: &ExecutorJobId, spec: Option<ExecutorJobSpec>) -> io::Result<Option<Arc<Tracked>>> {
        let (attempt, spec) = match spec {
            Some(spec) => {
                let (attempt, is_new) = self.attempts.register(&spec)?;
                (attempt, Some(spec).filter(|_| is_new))
            }
            None => match self.attempts.find(id)? {
                Some(attempt) => (attempt, None),
                None => return Ok(None),
            },
        };
        let name = submission::job_name(id, &attempt.token);
        let new = Arc::new(Tracked::new(id.clone(), attempt, name, spec)?);
        if !new.state().is_open() {
            return Ok(Some(new));
        }
        let tracked = Arc::clone(lock(&self.tracked).entry(id.clone()).or_insert(new));
        self.changed.notify_one();
        self.present.notify_one();
        Ok(Some(tracked))
    }

    /// Polls `squeue` while attempts exist.
    pub(crate) async fn list(self: Arc<Self>) {
        let mut reachable = true;
        loop {
            if lock(&self.tracked).is_empty() && !lock(&self.rests).exist {
                self.present.notified().await;
            }
            let started = Instant::now();
            match command::run(&self.settings.commands.squeue, &Listing::arguments(self.uid), "", self.config_file())
                .await
            {
                Ok(output) => {
                    if !reachable {
                        tracing::info!("Slurm can be reached again");
                    }
                    reachable = true;
                    *lock(&self.outage) = None;
                    *lock(&self.listing) = Some(Arc::new(Listing::parse(started, &output)));
                    self.listed.notify_one();
                }
                Err(error) => {
                    if reachable {
                        tracing::warn!(%error, "Slurm cannot be reached; no attempt changes until it can");
                    }
                    reachable = false;
                    let outage = self.unreachable(&error.to_string());
                    for tracked in lock(&self.tracked).values() {
                        tracked.set_reason(&outage);
                    }
                }
            }
            tokio::time::sleep(self.settings.poll_interval).await;
        }
    }

    /// Reconciles attempts after each listing and at the file polling interval.
    pub(crate) async fn reconcile(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.listed.notified() => {}
                () = self.changed.notified() => {}
                () = tokio::time::sleep(self.settings.file_interval) => {}
            }
            let engine = Arc::clone(&self);
            match tokio::task::spawn_blocking(move || engine.reconcile_all()).await {
                Ok(cancellations) => self.cancel(cancellations).await,
                Err(error) => tracing::error!(%error, "comparing the attempts with Slurm stopped unexpectedly"),
            }
        }
    }

    /// Returns jobs to cancel, each with whether to cancel only while pending.
    fn reconcile_all(&self) -> Vec<(String, bool)> {
        let (listing, outage) = (lock(&self.listing).clone(), lock(&self.outage).clone());
        let all: Vec<Arc<Tracked>> = lock(&self.tracked).values().cloned().collect();
        let mut cancellations = Vec::new();
        let mut has_ended = false;
        for tracked in all {
            let SlurmSettings { file_delay, times, .. } = &self.settings;
            match tracked.reconcile(listing.as_deref(), outage.as_deref(), *file_delay, times.lease()) {
                Ok(None) => {}
                Ok(Some(Task::Submit)) => {
                    lock(&self.queue).push_back(tracked);
                    self.queued.notify_one();
                }
                Ok(Some(Task::Cancel(job))) => cancellations.push((job, false)),
                Ok(Some(Task::CancelPending(job))) => cancellations.push((job, true)),
                Ok(Some(Task::Forget)) => {
                    lock(&self.tracked).remove(&tracked.id);
                    has_ended = true;
                }
                Err(error) => {
                    tracing::warn!(executor.job = %tracked.id, %error, "the files of an attempt cannot be used")
                }
            }
        }
        if let Some(listing) = listing {
            cancellations.extend(self.rests(&listing).into_iter().map(|job| (job, true)));
        }
        // The next listing shows whether Slurm has ended the job.
        lock(&self.rests).exist |= has_ended;
        cancellations
    }

    /// Finds leftover jobs in a new listing, including those of earlier processes. Returns those to cancel while
    /// pending: a requeued job would start a supervisor that does nothing, a held one would remain forever.
    fn rests(&self, listing: &Listing) -> Vec<String> {
        if lock(&self.rests).considered.replace(listing.started) == Some(listing.started) {
            return Vec::new();
        }
        let names: HashSet<String> = lock(&self.tracked).values().map(|tracked| tracked.name.clone()).collect();
        let found: Vec<&Row> =
            listing.open().filter(|row| !names.contains(&row.name) && self.is_of_ended_attempt(row)).collect();
        lock(&self.rests).exist = !found.is_empty();
        let waiting = found.into_iter().filter(|row| row.state == SlurmState::Pending);
        waiting.map(|row| row.job.clone()).collect()
    }

    fn is_of_ended_attempt(&self, row: &Row) -> bool {
        let Some(name) = row.folder.file_name() else { return false };
        match self.attempts.token_of_ended(name) {
            Ok(token) => token.is_some_and(|token| submission::is_job_of(row, &token)),
            Err(error) => {
                tracing::warn!(slurm.job = row.job, %error, "the files of an attempt cannot be used");
                false
            }
        }
    }

    async fn cancel(&self, jobs: Vec<(String, bool)>) {
        for (job, only_pending) in jobs {
            let mut arguments = Vec::new();
            if only_pending {
                arguments.push("--state=PENDING".to_owned());
            }
            arguments.push(job.clone());
            // Retried after the next listing, unless the job ends first.
            if let Err(error) = command::run(&self.settings.commands.scancel, &arguments, "", self.config_file()).await
            {
                tracing::debug!(slurm.job = job, %error, "a job was not cancelled");
            }
        }
    }

    /// Submits queued attempts at a limited rate, backing off while Slurm rejects submissions.
    pub(crate) async fn submit(self: Arc<Self>) {
        let mut pause = FIRST_PAUSE;
        let interval = Duration::from_secs(1) / self.settings.submit_rate.get();
        loop {
            let next = lock(&self.queue).pop_front();
            let Some(tracked) = next else {
                self.queued.notified().await;
                continue;
            };
            let begin = Instant::now();
            match self.submit_one(&tracked).await {
                Ok(()) => pause = FIRST_PAUSE,
                Err(refusal) => {
                    if let Some(reason) = self.refused(&tracked, refusal) {
                        tracked.set_reason(&reason);
                        for other in lock(&self.queue).iter() {
                            other.set_reason(&reason);
                        }
                        tokio::time::sleep(pause).await;
                        pause = (pause * 2).min(LONGEST_PAUSE);
                    }
                }
            }
            tokio::time::sleep(interval.saturating_sub(begin.elapsed())).await;
        }
    }

    async fn submit_one(&self, tracked: &Arc<Tracked>) -> Result<(), Refusal> {
        let file_error = |error: io::Error| Refusal::Other(format!("its files cannot be used: {error}"));
        let prepare = {
            let tracked = Arc::clone(tracked);
            tokio::task::spawn_blocking(move || Ok((tracked.attempt.stop_requested()?, tracked.spec()?)))
        };
        let (stop, spec) = prepare.await.map_err(io::Error::other).flatten().map_err(file_error)?;
        if stop.is_some() {
            tracked.look_up();
            return Ok(());
        }
        let (name, folder) = (&tracked.name, tracked.attempt.folder());
        let arguments = submission::arguments(&self.settings, &spec, name, &tracked.attempt.token, folder);
        let script = submission::script(&self.settings.supervisor, folder);
        let output = command::run(&self.settings.commands.sbatch, &arguments, &script, self.config_file()).await;
        let output = output.map_err(|error| Refusal::of(&error))?;
        // `ID`, or `ID;CLUSTER` with several clusters.
        let job = output.lines().last().and_then(|line| line.split(';').next()).unwrap_or_default().trim().to_owned();
        if job.is_empty() || !job.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Refusal::Unreachable(format!("sbatch answered {output:?} in place of an ID")));
        }
        let tracked = Arc::clone(tracked);
        let written = tokio::task::spawn_blocking(move || tracked.submitted(job)).await.map_err(io::Error::other);
        if let Err(error) = written.flatten() {
            tracing::warn!(%error, "the ID of a job cannot be recorded; it is found by its name");
        }
        Ok(())
    }

    /// Records an outage, and returns the waiting reason.
    fn unreachable(&self, error: &str) -> String {
        let reason = format!("Slurm cannot be reached: {error}");
        *lock(&self.outage) = Some(reason.clone());
        reason
    }

    /// Handles a rejected submission. Returns the reason to delay further submissions; `None` if only this attempt is
    /// affected.
    fn refused(&self, tracked: &Arc<Tracked>, refusal: Refusal) -> Option<String> {
        match refusal {
            Refusal::Unreachable(message) => {
                // The job may exist.
                tracked.look_up();
                Some(self.unreachable(&message))
            }
            Refusal::Limit(message) => {
                lock(&self.queue).push_front(Arc::clone(tracked));
                Some(format!("submission limit: {message}"))
            }
            Refusal::Other(message) => {
                let refusals = {
                    let mut progress = tracked.progress();
                    progress.refusals += 1;
                    progress.refusals
                };
                if refusals < MAX_REFUSALS {
                    tracked.look_up();
                    return Some(format!("Slurm did not accept it, and is asked again: {message}"));
                }
                self.reject(tracked, message);
                None
            }
            Refusal::Invalid(message) => {
                self.reject(tracked, message);
                None
            }
        }
    }

    /// Ends an attempt that can never run.
    fn reject(&self, tracked: &Arc<Tracked>, message: String) {
        let end = ProgramEnd::NotStarted(format!("Slurm did not accept it: {message}"));
        if let Err(error) = tracked.attempt.end_with(ExitStatus { end, stopped: None }) {
            tracing::warn!(executor.job = %tracked.id, %error, "the end of an attempt cannot be recorded");
        }
        // Reconciliation finds the end or resubmits.
        tracked.look_up();
        self.changed.notify_one();
    }

    pub(crate) fn config_file(&self) -> Option<&Path> {
        self.settings.config_file.as_deref()
    }

    /// Runs `scontrol` to check that Slurm is usable.
    pub(crate) async fn scontrol(&self, arguments: &[&str]) -> Result<String, CommandError> {
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        command::run(&self.settings.commands.scontrol, &arguments, "", self.config_file()).await
    }
}
