//! An unfinished attempt as seen by this process.

use std::io;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tunesmith_executor::local::shared::{Alive, SharedAttempt, SharedState};
use tunesmith_executor::{ExecutorJobId, ExecutorJobSpec, ExecutorJobState, LossCause, StopMode};

use crate::decision::{Decision, Facts, waiting};
use crate::listing::Listing;
use crate::row::{Row, SlurmState};

/// Delay after the grace period before cancelling a job whose supervisor ignores a stop request. A guess, far more
/// than it needs.
const LATE: Duration = Duration::from_secs(30);

/// Submission record of an attempt, written before and after each submission.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobRecord {
    /// Slurm job ID of the last submission; `None` without a response.
    pub(crate) job: Option<String>,
    /// Number of acknowledged submissions.
    pub(crate) submissions: u32,
}

#[derive(Debug)]
pub(crate) struct Tracked {
    pub(crate) id: ExecutorJobId,
    pub(crate) attempt: SharedAttempt,
    /// Job name.
    pub(crate) name: String,
    state: watch::Sender<ExecutorJobState>,
    progress: Mutex<Progress>,
}

#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) record: JobRecord,
    /// Listings started earlier do not reflect the job. `None` if it was certainly not submitted.
    listed_from: Option<Instant>,
    /// Last listing considered.
    considered: Option<Instant>,
    /// Whether it is in the submission queue.
    pub(crate) is_submitting: bool,
    /// Submissions that failed for an unknown reason.
    pub(crate) refusals: u32,
    spec: Option<Box<ExecutorJobSpec>>,
    /// Time at which the job was first seen ended or missing.
    over_since: Option<Instant>,
    /// Time of the stop request, and its grace period.
    stop: Option<(Instant, Duration)>,
    is_cancelled: bool,
    loss: Option<Silence>,
    /// Whether the last read found a started supervisor.
    has_started: bool,
}

/// Supervisor of a lost attempt; may still be alive.
#[derive(Debug)]
struct Silence {
    cause: LossCause,
    reason: String,
    alive: Option<Alive>,
    since: Instant,
}

/// Work for the engine.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Submit,
    /// Cancel this Slurm job.
    Cancel(String),
    /// Cancel this Slurm job if it is pending.
    CancelPending(String),
    /// Drop the attempt, which has ended.
    Forget,
}

impl Tracked {
    /// Loads the attempt `id`; `spec` is given if this process has just registered it.
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
        self.progress.lock()
    }

    /// Replaces the waiting reason, unless the attempt has started.
    pub(crate) fn set_reason(&self, reason: &str) {
        self.state.send_if_modified(|state| match state {
            ExecutorJobState::Waiting { reason: known } if known != reason => {
                reason.clone_into(known);
                true
            }
            _ => false,
        });
    }

    pub(crate) fn spec(&self) -> io::Result<ExecutorJobSpec> {
        if let Some(spec) = self.progress().spec.take() {
            return Ok(*spec);
        }
        self.attempt.spec()?.ok_or_else(|| io::Error::other("spec.json was removed"))
    }

    /// Records the Slurm ID `job`.
    ///
    /// # Errors
    /// If the record cannot be written. The job is then found by its name.
    pub(crate) fn submitted(&self, job: String) -> io::Result<()> {
        let mut progress = self.progress();
        progress.record = JobRecord { job: Some(job), submissions: progress.record.submissions + 1 };
        progress.is_submitting = false;
        progress.listed_from = Some(Instant::now());
        progress.over_since = None;
        self.attempt.write_engine_record(&progress.record)
    }

    /// Requires a lookup before resubmission: the last submission had no response.
    pub(crate) fn look_up(&self) {
        let mut progress = self.progress();
        progress.is_submitting = false;
        progress.listed_from = Some(Instant::now());
    }

    /// Records a stop request for the supervisor.
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

    /// Whether the files need reading although the listing is unchanged: the job is not known to be pending.
    fn may_have_changed(&self, progress: &Progress, listing: Option<&Listing>, row: Option<&Row>) -> bool {
        let is_new = listing.map(|listing| listing.started) != progress.considered;
        is_new || !row.is_some_and(|row| row.state == SlurmState::Pending)
    }

    /// Reconciles the attempt's files with its row in `listing`, and performs everything that needs no command.
    /// `outage` is the reason why Slurm is unreachable, and `file_delay` the maximum propagation delay of files.
    ///
    /// # Errors
    /// If a file cannot be read or written; the next call continues.
    pub(crate) fn reconcile(
        &self,
        listing: Option<&Listing>,
        outage: Option<&str>,
        file_delay: Duration,
        lease: Duration,
    ) -> io::Result<Option<Task>> {
        let now = Instant::now();
        let mut progress = self.progress();
        if progress.is_submitting {
            return Ok(None);
        }
        // Until a listing can contain the job, only the files determine its state.
        let listed_from = progress.listed_from;
        let usable = listing.filter(|listing| listed_from.is_none_or(|from| listing.started >= from));
        let row =
            usable.and_then(|listing| listing.row(&self.name, &self.attempt.token, progress.record.job.as_deref()));
        if !self.may_have_changed(&progress, listing, row) {
            return Ok(None);
        }
        progress.considered = listing.map(|listing| listing.started);
        let files = self.read_files(&mut progress, row)?;
        let decision = match (self.decide(&mut progress, &files, row, usable.is_some(), file_delay, now), outage) {
            // The attempt waits for the next listing.
            (Decision::Is(ExecutorJobState::Waiting { .. }), Some(outage)) if row.is_none() => {
                Decision::Is(waiting(outage))
            }
            (decision, _) => decision,
        };
        self.carry_out(decision, progress, row, lease, now)
    }

    /// Reads the attempt's files. Files of pending jobs, of which there may be thousands, are read only after a
    /// requeue.
    fn read_files(&self, progress: &mut Progress, row: Option<&Row>) -> io::Result<SharedState> {
        let waits = row.is_some_and(|row| row.state == SlurmState::Pending) && !progress.has_started;
        let files = if waits { SharedState::NotStarted } else { self.attempt.state()? };
        progress.has_started = !matches!(files, SharedState::NotStarted);
        if let SharedState::Started { engine_job: Some(job) } = &files
            && progress.record.job.as_ref() != Some(job)
        {
            // Of several jobs, this one claimed the attempt.
            progress.record.job = Some(job.clone());
        }
        Ok(files)
    }

    /// Evaluates `files` and `row`. `is_listed`: the listing can contain the attempt's job.
    fn decide(
        &self,
        progress: &mut Progress,
        files: &SharedState,
        row: Option<&Row>,
        is_listed: bool,
        file_delay: Duration,
        now: Instant,
    ) -> Decision {
        let over = match row {
            Some(row) if matches!(files, SharedState::NotStarted) => row.state.is_final(),
            Some(row) => row.state.is_final() || row.state == SlurmState::Pending,
            None => is_listed,
        };
        progress.over_since = progress.over_since.filter(|_| over).or_else(|| over.then_some(now));
        let settled = progress.over_since.is_some_and(|since| now.duration_since(since) >= file_delay);
        let needs_log = settled && !matches!(files, SharedState::Ended(_) | SharedState::Lost { .. });
        let facts = Facts {
            files,
            row,
            listed: is_listed || progress.listed_from.is_none(),
            submissions: progress.record.submissions,
            settled,
            stop_requested: progress.stop.is_some(),
            log_line: if needs_log { self.attempt.engine_log_line() } else { None },
        };
        match (facts.decide(), &progress.loss) {
            (Decision::Is(state), Some(_)) if !state.is_open() => Decision::Is(state),
            // A recorded loss is final.
            (_, Some(loss)) => Decision::Lose { cause: loss.cause, reason: loss.reason.clone(), may_live: true },
            (decision, None) => decision,
        }
    }

    /// Carries out `decision`, and returns the work that needs a command.
    fn carry_out(
        &self,
        decision: Decision,
        mut progress: MutexGuard<'_, Progress>,
        row: Option<&Row>,
        lease: Duration,
        now: Instant,
    ) -> io::Result<Option<Task>> {
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
            Decision::CancelPending => Ok(row.map(|row| Task::CancelPending(row.job.clone()))),
            Decision::End(status) => {
                self.attempt.end_with(status.clone())?;
                // The supervisor may have recorded an end by signal, which `status` interprets.
                let state = self.recorded_end()?.unwrap_or(ExecutorJobState::Ended(status));
                Ok(Some(self.end(state)))
            }
            Decision::Lose { cause, reason, may_live } => {
                self.lose(&mut progress, cause, reason, may_live, lease, now)?;
                Ok(self.recorded_end()?.map(|state| self.end(state)))
            }
        }
    }

    /// End recorded in the attempt's files.
    fn recorded_end(&self) -> io::Result<Option<ExecutorJobState>> {
        Ok(match self.attempt.state()? {
            SharedState::Ended(status) => Some(ExecutorJobState::Ended(status)),
            SharedState::Lost { cause, reason } => Some(ExecutorJobState::Lost { cause, reason }),
            SharedState::NotStarted | SharedState::Started { .. } | SharedState::EndedBySignal(_) => None,
        })
    }

    /// Records the loss, and ends the attempt once none of its processes can be alive.
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

    /// Job to cancel because its supervisor missed the stop deadline.
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

/// Grace period of the programs of `attempt`.
fn grace(attempt: &SharedAttempt) -> Duration {
    attempt.spec().ok().flatten().map(|spec| spec.grace).unwrap_or_default()
}
