//! One attempt that has not ended, as this process sees it.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tunesmith_executor::local::shared::{Alive, SharedAttempt, SharedState};
use tunesmith_executor::{ExecutorJobId, ExecutorJobSpec, ExecutorJobState, LossCause, StopMode};

use crate::decision::{Decision, Facts, waiting};
use crate::listing::Listing;
use crate::row::{Row, SlurmState};

/// Time after the grace period at which a job is cancelled whose supervisor has not obeyed a stop request. A guess, far
/// more than it needs.
const LATE: Duration = Duration::from_secs(30);

/// What is recorded of the job of an attempt, before and after its submission.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobRecord {
    /// Slurm's ID of the last submission; `None` if it was not answered.
    pub(crate) job: Option<String>,
    /// The number of answered submissions.
    pub(crate) submissions: u32,
}

/// An attempt that has not ended.
#[derive(Debug)]
pub(crate) struct Tracked {
    pub(crate) id: ExecutorJobId,
    pub(crate) attempt: SharedAttempt,
    /// The name of its job.
    pub(crate) name: String,
    state: watch::Sender<ExecutorJobState>,
    progress: Mutex<Progress>,
}

#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) record: JobRecord,
    /// Lists that were started before this time say nothing about the job. `None` if it was certainly not submitted.
    listed_from: Option<Instant>,
    /// The list that was considered last.
    considered: Option<Instant>,
    /// Whether the submitter has it.
    pub(crate) is_submitting: bool,
    /// Failed submissions for an unknown reason.
    pub(crate) refusals: u32,
    spec: Option<Box<ExecutorJobSpec>>,
    /// When the job was first found to be at its end or not listed.
    over_since: Option<Instant>,
    /// Since when it was to be stopped, and for how long its programs may run on.
    stop: Option<(Instant, Duration)>,
    is_cancelled: bool,
    loss: Option<Silence>,
    /// Whether a supervisor had started when the files were read last.
    has_started: bool,
}

/// The supervisor of a lost attempt, which may live.
#[derive(Debug)]
struct Silence {
    cause: LossCause,
    reason: String,
    alive: Option<Alive>,
    since: Instant,
}

/// What the engine has to do for an attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Submit its job.
    Submit,
    /// Cancel this job of Slurm.
    Cancel(String),
    /// Cancel this job of Slurm if it waits.
    CancelPending(String),
    /// Nothing: it has ended.
    Forget,
}

impl Tracked {
    /// The attempt `id`, whose specification is `spec` if it was registered by this process now.
    ///
    /// # Errors
    /// If its files cannot be read.
    pub(crate) fn new(
        id: ExecutorJobId,
        attempt: SharedAttempt,
        name: String,
        spec: Option<ExecutorJobSpec>,
    ) -> io::Result<Self> {
        let now = Instant::now();
        let state = match attempt.state()? {
            SharedState::NotStarted if spec.is_some() => waiting("it waits to be submitted to Slurm"),
            SharedState::NotStarted => waiting("its job is looked up in Slurm"),
            SharedState::Started { .. } | SharedState::EndedBySignal(_) => ExecutorJobState::Running,
            SharedState::Ended(status) => ExecutorJobState::Ended(status),
            SharedState::Lost { cause, reason } => ExecutorJobState::Lost { cause, reason },
        };
        let record = attempt.engine_record()?.unwrap_or_default();
        let stop = attempt.stop_requested()?.map(|_| (now, grace(&attempt)));
        let progress = Progress {
            record,
            listed_from: spec.is_none().then_some(now),
            considered: None,
            is_submitting: false,
            refusals: 0,
            spec: spec.map(Box::new),
            over_since: None,
            stop,
            is_cancelled: false,
            loss: None,
            has_started: state == ExecutorJobState::Running,
        };
        Ok(Self { id, attempt, name, state: watch::Sender::new(state), progress: Mutex::new(progress) })
    }

    pub(crate) fn state(&self) -> ExecutorJobState {
        self.state.borrow().clone()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<ExecutorJobState> {
        self.state.subscribe()
    }

    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the reason for which the attempt waits, unless it has started.
    pub(crate) fn set_reason(&self, reason: &str) {
        self.state.send_if_modified(|state| match state {
            ExecutorJobState::Waiting { reason: known } if known != reason => {
                reason.clone_into(known);
                true
            }
            _ => false,
        });
    }

    /// Returns the specification.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn spec(&self) -> io::Result<ExecutorJobSpec> {
        if let Some(spec) = self.progress().spec.take() {
            return Ok(*spec);
        }
        self.attempt.spec()?.ok_or_else(|| io::Error::other("spec.json was removed"))
    }

    /// Records that Slurm gave the job of the attempt the ID `job`.
    ///
    /// # Errors
    /// If that cannot be written. The job is found by its name.
    pub(crate) fn submitted(&self, job: String) -> io::Result<()> {
        let mut progress = self.progress();
        progress.record = JobRecord { job: Some(job), submissions: progress.record.submissions + 1 };
        progress.is_submitting = false;
        progress.listed_from = Some(Instant::now());
        progress.over_since = None;
        self.attempt.write_engine_record(&progress.record)
    }

    /// Lets the job be looked up before it is submitted again: the last submission was not answered.
    pub(crate) fn look_up(&self) {
        let mut progress = self.progress();
        progress.is_submitting = false;
        progress.listed_from = Some(Instant::now());
    }

    /// Records a stop request, which the supervisor reads.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn stop(&self, how: StopMode) -> io::Result<()> {
        self.attempt.request_stop(how)?;
        let grace = if how == StopMode::Immediate { Duration::ZERO } else { grace(&self.attempt) };
        let mut progress = self.progress();
        let deadline = |(since, grace): (Instant, Duration)| since.checked_add(grace);
        let now = (Instant::now(), grace);
        let stop = progress.stop.filter(|stop| deadline(*stop) <= deadline(now));
        progress.stop = Some(stop.unwrap_or(now));
        Ok(())
    }

    /// Whether the files have to be read although the list of jobs has not changed: the job is not known to wait.
    fn may_have_changed(&self, progress: &Progress, listing: Option<&Listing>, row: Option<&Row>) -> bool {
        let is_new = listing.map(|listing| listing.started) != progress.considered;
        is_new || !row.is_some_and(|row| row.state == SlurmState::Pending)
    }

    /// Compares the files of the attempt with its row in `listing`, and does what needs no command. `file_delay` is the
    /// time that files need to arrive.
    ///
    /// # Errors
    /// If a file cannot be read or written; another call continues.
    pub(crate) fn reconcile(
        &self,
        listing: Option<&Listing>,
        file_delay: Duration,
        lease: Duration,
    ) -> io::Result<Option<Task>> {
        let now = Instant::now();
        let mut progress = self.progress();
        if progress.is_submitting {
            return Ok(None);
        }
        // Without a list of jobs that can contain it, the files alone tell its state.
        let listed_from = progress.listed_from;
        let usable = listing.filter(|listing| listed_from.is_none_or(|from| listing.started >= from));
        let row =
            usable.and_then(|listing| listing.row(&self.name, &self.attempt.token, progress.record.job.as_deref()));
        if !self.may_have_changed(&progress, listing, row) {
            return Ok(None);
        }
        progress.considered = listing.map(|listing| listing.started);
        // The files of a job that waits are read only if it has run before: thousands may wait.
        let waits = row.is_some_and(|row| row.state == SlurmState::Pending) && !progress.has_started;
        let files = if waits { SharedState::NotStarted } else { self.attempt.state()? };
        progress.has_started = !matches!(files, SharedState::NotStarted);
        if let SharedState::Started { engine_job: Some(job) } = &files
            && progress.record.job.as_ref() != Some(job)
        {
            // Of several jobs, this one has claimed the attempt.
            progress.record.job = Some(job.clone());
        }
        let over = match row {
            Some(row) if matches!(files, SharedState::NotStarted) => row.state.is_final(),
            Some(row) => row.state.is_final() || row.state == SlurmState::Pending,
            None => usable.is_some(),
        };
        let over_since = progress.over_since.filter(|_| over).or_else(|| over.then_some(now));
        progress.over_since = over_since;
        let settled = over_since.is_some_and(|since| now.duration_since(since) >= file_delay);
        let needs_log = settled && !matches!(files, SharedState::Ended(_) | SharedState::Lost { .. });
        let facts = Facts {
            files: &files,
            row,
            listed: usable.is_some() || listed_from.is_none(),
            submissions: progress.record.submissions,
            settled,
            stop_requested: progress.stop.is_some(),
            log_line: if needs_log { self.attempt.engine_log_line() } else { None },
        };
        let decision = match (facts.decide(), &progress.loss) {
            (Decision::Is(state), None) => Decision::Is(state),
            (Decision::Is(state), Some(_)) if !state.is_open() => Decision::Is(state),
            // The loss was recorded, and stays.
            (_, Some(loss)) => Decision::Lose { cause: loss.cause, reason: loss.reason.clone(), may_live: true },
            (decision, None) => decision,
        };
        match decision {
            Decision::Is(state) if state.is_open() => {
                self.set(state);
                Ok(self.overdue(&mut progress, row, now))
            }
            Decision::Is(state) => Ok(Some(self.end(state))),
            Decision::Submit => {
                progress.is_submitting = true;
                drop(progress);
                self.set(waiting("it waits to be submitted to Slurm"));
                Ok(Some(Task::Submit))
            }
            Decision::CancelPending => {
                let job = row.map(|row| row.job.clone());
                Ok(job.map(Task::CancelPending))
            }
            Decision::End(status) => {
                self.attempt.end_with(status.clone())?;
                // A supervisor may have ended the attempt by a signal; this is what it means.
                let state = match self.attempt.state()? {
                    SharedState::Lost { cause, reason } => ExecutorJobState::Lost { cause, reason },
                    SharedState::Ended(status) => ExecutorJobState::Ended(status),
                    _ => ExecutorJobState::Ended(status),
                };
                Ok(Some(self.end(state)))
            }
            Decision::Lose { cause, reason, may_live } => {
                self.lose(&mut progress, cause, reason, may_live, lease, now)?;
                let state = match self.attempt.state()? {
                    SharedState::Ended(status) => ExecutorJobState::Ended(status),
                    SharedState::Lost { cause, reason } => ExecutorJobState::Lost { cause, reason },
                    SharedState::NotStarted | SharedState::Started { .. } | SharedState::EndedBySignal(_) => {
                        return Ok(None);
                    }
                };
                Ok(Some(self.end(state)))
            }
        }
    }

    /// Records the loss, and ends the attempt once no process of it can live.
    fn lose(
        &self,
        progress: &mut Progress,
        cause: LossCause,
        reason: String,
        may_live: bool,
        lease: Duration,
        now: Instant,
    ) -> io::Result<()> {
        if progress.loss.is_none() {
            self.attempt.record_loss(cause, &reason)?;
            tracing::warn!(executor.job = %self.id, "an attempt is lost: {reason}");
            let alive = self.attempt.alive()?;
            progress.loss = Some(Silence { cause, reason: reason.clone(), alive, since: now });
        }
        if !may_live {
            return self.attempt.end_as_lost(cause, &reason);
        }
        let alive = self.attempt.alive()?;
        let Some(silence) = &mut progress.loss else { return Ok(()) };
        if silence.alive != alive {
            silence.alive = alive;
            silence.since = now;
        } else if now.duration_since(silence.since) >= lease {
            return self.attempt.end_as_lost(cause, &reason);
        }
        Ok(())
    }

    /// Returns the job to cancel if its supervisor has not obeyed a stop request in time.
    fn overdue(&self, progress: &mut Progress, row: Option<&Row>, now: Instant) -> Option<Task> {
        let (since, grace) = progress.stop?;
        let deadline = since.checked_add(grace)?.checked_add(LATE)?;
        let row = row.filter(|row| !row.state.is_final())?;
        if progress.is_cancelled || now < deadline {
            return None;
        }
        progress.is_cancelled = true;
        tracing::error!(executor.job = %self.id, slurm.job = row.job, "the supervisor of an attempt did not end it in time");
        Some(Task::Cancel(row.job.clone()))
    }

    fn set(&self, state: ExecutorJobState) {
        self.state.send_if_modified(|known| {
            let is_new = *known != state;
            *known = state;
            is_new
        });
    }

    fn end(&self, state: ExecutorJobState) -> Task {
        self.set(state);
        Task::Forget
    }
}

/// The time that the programs of `attempt` have to end.
fn grace(attempt: &SharedAttempt) -> Duration {
    attempt.spec().ok().flatten().map(|spec| spec.grace).unwrap_or_default()
}
