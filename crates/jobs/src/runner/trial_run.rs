//! Runs one trial from its creation to its result, across lost attempts, restarts and early stopping.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;

use futures::TryStreamExt;
use tokio::sync::watch;
use tokio::time::Instant;
use tunesmith_algorithms::problem::TrialId;

use super::attempt::Attempt;
use super::classification::{EndedTrial, Findings};
use super::error_quote::{error_quote, log_name};
use super::files::FileReader;
use super::outage::Reach;
use super::submit::after_submission;
use super::trial_wait::GrantOutcome;
use super::{Context, JobServices, RunError, attempt_directory, time_of_change};
use crate::JobEvent;
use crate::live_trials::{LiveTrial, Registration, TrialKey};
use crate::resource_pool::Grant;
use crate::secret::attempt_token;
use crate::trainer::report_sources;
use tunesmith_domain::{
    Completion, FinalSelection, LossCause, Measurement, NoFinalMeasurement, Study, Trial, TrialChange, TrialState,
};
use tunesmith_executor::logs::LogStream;
use tunesmith_executor::reports::Reports;
use tunesmith_executor::{AttemptReports, ExecutorJobId, ExecutorJobState, ExitStatus, ProgramEnd, StopReason};
use tunesmith_store::pages;
use tunesmith_studies::early_stopping::EarlyStopping;

pub(super) enum TrialEnd {
    /// In a final state.
    Completed {
        trial: Box<Trial>,
        /// Reported tags, if the program succeeded.
        seen_tags: Option<BTreeSet<String>>,
    },
    /// The job was interrupted; the trial stays active and runs again on resume.
    Interrupted,
    /// The program is left to the next process.
    Detached,
}

pub(super) struct TrialRun {
    pub(super) context: Arc<Context>,
    pub(super) study: Study,
    pub(super) stopping: Option<Arc<EarlyStopping>>,
    /// Reason for stopping the trial for good, once set.
    pub(super) abandon: watch::Receiver<Option<String>>,
}

impl TrialRun {
    /// Runs `trial` to a final state or an interruption of the job. Without a `grant`, adopts the one of its running
    /// program, or waits for a new one.
    pub(super) async fn run(self, mut trial: Trial, mut grant: Option<Grant>) -> Result<TrialEnd, RunError> {
        // New, or retried.
        if trial.start_time.is_none() || self.is_superseded(&trial).await? {
            trial = self.begin_attempt(trial, None).await?;
        }
        // Start of the current series of capacity requests.
        let mut asked = None;
        loop {
            let id = self.executor_job(&trial);
            let JobServices { store, executor, .. } = self.context.services();
            let stored = pages::measurements(&**store, &self.study.id, &trial).await?;
            let live = self.register(&trial, &stored);
            let mut state = self.reach(&trial, &live.trial).call(|| executor.state(&id)).await?;
            let adopted = state != ExecutorJobState::Unknown;
            let reports = self.reports(&trial, &stored);
            drop(stored);
            if !adopted && trial.state == TrialState::Active {
                if self.abandon.borrow().is_some() {
                    // Counts as abandoned without having run.
                    match self.after(trial, ExecutorJobState::Unknown, Findings::default()).await? {
                        Next::End(end) => return Ok(end),
                        Next::Again { .. } => return Ok(TrialEnd::Interrupted),
                    }
                }
                if self.context.runner.is_interrupted() {
                    return Ok(TrialEnd::Interrupted);
                }
                let mut granted = match self.keep_or_wait(grant.take(), &trial, &live.trial).await? {
                    GrantOutcome::Granted(grant) => grant,
                    GrantOutcome::Ended(end) => return Ok(end),
                };
                granted.begin_use(&id);
                let submitted = self.reach(&trial, &live.trial).submit(Some(&trial), &id, &granted).await;
                grant = Some(granted);
                state = match submitted? {
                    Some(not_started) => not_started,
                    None => after_submission(&**executor, &id).await,
                };
            }
            if grant.is_none() && state.is_open() {
                grant = Some(self.context.adopt_grant(&id).await?);
            }
            if state == ExecutorJobState::Running {
                self.emit_started(&trial, adopted);
            }
            let files = FileReader::new(reports);
            let goes_on = self.context.plan.continues_from_checkpoints && trial.attempt > 1 && !adopted;
            let mut attempt = Attempt {
                run: &self,
                id,
                live: &live.trial,
                earlier: if goes_on { trial.measurement_count } else { 0 },
                trial,
                files,
                is_stopped: false,
                problems: Vec::new(),
            };
            if state.is_open() {
                let asked = *asked.get_or_insert_with(Instant::now);
                match attempt.watch(&state, adopted, asked).await? {
                    Some(ended) => state = ended,
                    None => return Ok(TrialEnd::Detached),
                }
            }
            grant.iter_mut().for_each(Grant::end_use);
            let findings = attempt.collect_rest().await?;
            trial = attempt.trial;
            let was_placed = !matches!(state, ExecutorJobState::NotPlaced { .. });
            match self.after(trial, state, findings).await? {
                Next::End(end) => return Ok(end),
                Next::Again { trial: again, loss } => {
                    // Leftovers in the engine's queue would consume another turn.
                    self.remove_attempt(&self.executor_job(&again)).await;
                    trial = self.begin_attempt(*again, loss).await?;
                }
            }
            if was_placed {
                asked = None;
            }
        }
    }

    /// Whether the trial's program was started by a server that lost the job to this one, and cannot be watched from
    /// here. Its reports are refused once the next attempt has started.
    async fn is_superseded(&self, trial: &Trial) -> Result<bool, RunError> {
        if !self.context.runner.control.is_taken_over || trial.state != TrialState::Active {
            return Ok(false);
        }
        let (id, executor) = (self.executor_job(trial), &self.context.services().executor);
        if executor.state(&id).await? != ExecutorJobState::Unknown {
            return Ok(false);
        }
        let reach = Reach { context: &self.context, trial: None, abandon: Some(self.abandon.clone()) };
        reach.call(|| executor.supersede(&id)).await?;
        Ok(true)
    }

    pub(super) async fn after(
        &self,
        trial: Trial,
        state: ExecutorJobState,
        findings: Findings,
    ) -> Result<Next, RunError> {
        let abandoned = self.abandon.borrow().clone();
        // A program that ended by itself before the job was abandoned keeps its result; so does a stopped trial.
        let ended_by_itself = matches!(&state, ExecutorJobState::Ended(status) if status.stopped.is_none());
        if let Some(reason) = abandoned.filter(|_| !ended_by_itself && trial.state != TrialState::Stopping) {
            let completion = Completion::Infeasible { reason: format!("stopped, because {reason}") };
            return self.complete(&trial, completion, None).await;
        }
        match state {
            ExecutorJobState::Ended(status) => {
                let stopped = status.stopped == Some(StopReason::Requested);
                if stopped && trial.state == TrialState::Active {
                    return Ok(self.again_unless_interrupted(trial, None));
                }
                let good = status.stopped.is_none() && status.end == ProgramEnd::Exited(0);
                let completion = self.classify(&trial, &status, &findings).await?;
                self.complete(&trial, completion, good.then_some(findings.tags)).await
            }
            // Lost during an early stop: the reports give the result.
            ExecutorJobState::Lost { .. } | ExecutorJobState::NotPlaced { .. } | ExecutorJobState::Unknown
                if trial.state == TrialState::Stopping =>
            {
                let status = ExitStatus { end: ProgramEnd::Exited(0), stopped: Some(StopReason::Requested) };
                let completion = self.classify(&trial, &status, &findings).await?;
                self.complete(&trial, completion, None).await
            }
            // No program was started; the next attempt waits before requesting capacity again.
            ExecutorJobState::NotPlaced { .. } => Ok(self.again_unless_interrupted(trial, None)),
            ExecutorJobState::Lost { cause: cause @ LossCause::Preemption, reason } => {
                self.context.emit(JobEvent::TrialLost { id: trial.id, cause, reason });
                Ok(self.again_unless_interrupted(trial, Some(cause)))
            }
            state => {
                let reason = match state {
                    ExecutorJobState::Lost { reason, .. } => reason,
                    _ => "its record was removed while the program ran".to_owned(),
                };
                let cause = LossCause::Failure;
                if trial.lost_attempts >= self.context.plan.max_lost_attempts {
                    let reason =
                        format!("its supervisor or machine was lost {} times: {reason}", trial.lost_attempts + 1);
                    return self.complete(&trial, Completion::Infeasible { reason }, None).await;
                }
                self.context.emit(JobEvent::TrialLost { id: trial.id, cause, reason });
                Ok(self.again_unless_interrupted(trial, Some(cause)))
            }
        }
    }

    fn again_unless_interrupted(&self, trial: Trial, loss: Option<LossCause>) -> Next {
        if self.context.runner.is_interrupted() {
            Next::End(TrialEnd::Interrupted)
        } else {
            Next::Again { trial: Box::new(trial), loss }
        }
    }

    async fn classify(&self, trial: &Trial, status: &ExitStatus, findings: &Findings) -> Result<Completion, RunError> {
        let ended = EndedTrial {
            trial,
            status,
            tags: self.study.problem.value_names().collect(),
            final_measurement: self.final_measurement(trial).await?,
            findings,
            time_limit: self.context.plan.trial_time_limit,
            memory_bytes: self.context.plan.machines.resources.memory_bytes,
            last_error_line: error_quote(
                &self.context.runner.directory,
                &log_name(&self.executor_job(trial), LogStream::Stderr),
            )
            .await,
        };
        Ok(ended.completion())
    }

    /// Result among the stored measurements, read page by page.
    async fn final_measurement(&self, trial: &Trial) -> Result<Result<Measurement, NoFinalMeasurement>, RunError> {
        let mut selection = FinalSelection::new(&self.study.problem, self.study.final_measurement);
        let mut pages = pin!(pages::curve_pages(&*self.context.services().store, &self.study.id, trial));
        while let Some(page) = pages.try_next().await? {
            page.iter().for_each(|measurement| selection.add(measurement));
        }
        Ok(selection.finish())
    }

    pub(super) async fn complete(
        &self,
        trial: &Trial,
        completion: Completion,
        seen_tags: Option<BTreeSet<String>>,
    ) -> Result<Next, RunError> {
        let change = TrialChange::Complete {
            attempt: trial.attempt,
            measurements: Vec::new(),
            completion,
            at: time_of_change(trial, self.context.services().clock.now()),
        };
        let trial = Box::new(self.change(trial.id, change).await?);
        self.remove_attempts(&trial).await;
        Ok(Next::End(TrialEnd::Completed { trial, seen_tags }))
    }

    /// Removes the attempt records of a trial whose result is stored.
    async fn remove_attempts(&self, trial: &Trial) {
        for attempt in 1..=trial.attempt {
            self.remove_attempt(&ExecutorJobId { attempt, ..self.executor_job(trial) }).await;
        }
        if self.context.runner.control.is_taken_over
            && let Err(error) = self.context.services().executor.supersede(&self.executor_job(trial)).await
        {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(trial.id = %trial.id, error, "programs of another server may still run");
        }
    }

    async fn remove_attempt(&self, id: &ExecutorJobId) {
        if let Err(error) = self.context.services().executor.clean_up(id).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(executor.job = %id, error, "an ended attempt could not be removed from its executor yet");
        }
    }

    pub(super) async fn change(&self, trial: TrialId, change: TrialChange) -> Result<Trial, RunError> {
        Ok(self.context.services().store.change_trial(&self.study.id, trial, change).await?)
    }

    /// Executor calls for the attempt at `trial`.
    pub(super) fn reach<'a>(&'a self, trial: &Trial, live: &'a LiveTrial) -> Reach<'a> {
        Reach { context: &self.context, trial: Some((trial.id, live)), abandon: Some(self.abandon.clone()) }
    }

    fn register(&self, trial: &Trial, stored: &[Measurement]) -> Registration {
        let tag = self.context.plan.metric_tag.clone();
        let live = LiveTrial::new(trial.attempt, self.token(trial), tag, stored, trial.measurement_count);
        let key = TrialKey { study: self.study.id.clone(), trial: trial.id };
        let registration = self.context.services().live.insert(key, live);
        // Its stop may have been requested before it was registered.
        registration.trial.outdated.notify_one();
        registration
    }

    fn reports(&self, trial: &Trial, known: &[Measurement]) -> Box<dyn Reports> {
        let attempt = AttemptReports {
            id: &self.executor_job(trial),
            directory: &attempt_directory(&self.context.runner.directory, trial),
            sources: &report_sources(&self.context.plan, Some(trial), self.context.job_folder().ok().as_ref()),
        };
        self.context.services().executor.reports(&attempt, known)
    }

    pub(super) fn executor_job(&self, trial: &Trial) -> ExecutorJobId {
        ExecutorJobId { job: self.context.job.id.clone(), trial: Some(trial.id), attempt: trial.attempt }
    }

    fn token(&self, trial: &Trial) -> String {
        attempt_token(&self.context.runner.secret, &self.executor_job(trial))
    }
}

pub(super) enum Next {
    End(TrialEnd),
    /// Another attempt follows; `loss` is the reason if this one was lost.
    Again {
        trial: Box<Trial>,
        loss: Option<LossCause>,
    },
}
