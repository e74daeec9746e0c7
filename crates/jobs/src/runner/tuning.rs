//! Runs a tuning job: keeps as many trials running as allowed until the study is complete.

use std::collections::{BTreeSet, VecDeque};
use std::pin::pin;
use std::sync::Arc;

use futures::TryStreamExt;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tunesmith_algorithms::problem::TrialId;

use super::counts::TrialCounts;
use super::failure_rule::FailureRule;
use super::grants::until;
use super::shared_outputs::SharedOutputs;
use super::trial_run::{TrialEnd, TrialRun};
use super::{Context, Control, JobOutcome, RunError, until_at_least};
use crate::resource_pool::{Grant, PendingGrant};
use crate::{Activity, JobEvent};
use tunesmith_domain::{
    Completion, JobState, NewTrial, Study, StudyChange, StudyState, Trial, TrialChange, TrialStart, TrialState,
};
use tunesmith_store::{StoreError, pages};
use tunesmith_studies::early_stopping::EarlyStopping;
use tunesmith_studies::search_policy::{Proposal, SearchPolicyError, error_text};
use tunesmith_studies::study_end::EndedTrials;

/// Client that owns the trials of jobs.
pub(super) const CLIENT_ID: &str = "tunesmith-job";

/// Page size for reading added trials.
const ADDED_AT_ONCE: usize = 1000;

pub(super) struct Tuning {
    context: Arc<Context>,
    study: Study,
    stopping: Option<Arc<EarlyStopping>>,
    end: EndedTrials,
    failures: FailureRule,
    running: JoinSet<Result<TrialEnd, RunError>>,
    running_trials: BTreeSet<TrialId>,
    /// Detection of files overwritten by trials.
    outputs: SharedOutputs,
    /// Stored trials whose next attempt has not started: retried ones, and those of an interrupted process.
    waiting: VecDeque<Trial>,
    /// Trial that was stopped early and is to go on.
    promising: Option<TrialId>,
    /// Reason for stopping all running trials, set once the job has failed or was cancelled.
    abandon: watch::Sender<Option<String>>,
    /// Total and concurrent trial counts, adjustable.
    counts: TrialCounts,
    created: u64,
    /// Whether the study has no further trials, regardless of the count.
    exhausted: bool,
    /// End of the last trial, or start of the run.
    idle_since: Instant,
    /// Whether any program was left to the next process.
    detached: bool,
}

impl Tuning {
    pub(super) fn new(context: Arc<Context>, study: Study) -> Self {
        let stopping = study.stopping_rule.map(|rule| Arc::new(EarlyStopping::new(rule, &study)));
        let counts = TrialCounts::from(&context.plan);
        let failures = FailureRule::new(context.plan.max_failed_trials, counts.max_trials);
        let (abandon, _) = watch::channel(None);
        let outputs = SharedOutputs::of(&context);
        Self {
            context,
            study,
            stopping,
            end: EndedTrials::default(),
            failures,
            running: JoinSet::new(),
            running_trials: BTreeSet::new(),
            outputs,
            waiting: VecDeque::new(),
            promising: None,
            abandon,
            counts,
            created: 0,
            exhausted: false,
            idle_since: Instant::now(),
            detached: false,
        }
    }

    pub(super) async fn run(mut self) -> Result<JobOutcome, RunError> {
        let cancelling = self.context.job.state == JobState::Cancelling;
        let cancelling = cancelling.then(|| self.context.job.error_message.clone());
        // Set first, so that no further program starts.
        self.abandon.send_replace(cancelling.clone());
        self.resume().await?;
        if let Some(reason) = cancelling {
            return self.abandon(JobState::Cancelled, reason).await;
        }
        let mut control = self.context.runner.control.level.clone();
        let mut counts = self.context.runner.control.live.counts.clone();
        let added = Arc::clone(&self.context.runner.control.live.added);
        let mut next: Option<PendingGrant> = None;
        let mut shown = String::new();
        loop {
            self.apply_counts();
            if let Some(reason) = self.failures.failure() {
                return self.abandon(JobState::Failed, reason).await;
            }
            let draining = self.context.runner.is_interrupted();
            let missing = self.missing();
            if self.running.is_empty() && (missing == 0 || draining) {
                if missing > 0 {
                    return self.interrupt().await;
                }
                match self.finish().await? {
                    Some(outcome) => return Ok(outcome),
                    None => continue,
                }
            }
            if draining || missing == 0 {
                next = None;
            } else {
                let next = next.get_or_insert_with(|| self.context.request_grant(None, missing));
                next.set_trials(missing);
                self.context.show_waiting(next, &mut shown);
            }
            let is_idle = self.running.is_empty();
            let deadline = next.as_ref().and_then(|next| self.context.deadline(next, self.idle_since));
            let context = Arc::clone(&self.context);
            let level = if draining { Control::Detach } else { Control::Drain };
            tokio::select! {
                biased;
                () = until_at_least(&mut control, level) => if *control.borrow() >= Control::Detach {
                    return self.interrupt().await;
                },
                ended = self.running.join_next(), if !is_idle => self.record_end(ended).await?,
                reason = context.until_cancelled() => {
                    return self.abandon(JobState::Cancelled, reason).await;
                }
                // Never an error while the job is registered as running.
                Ok(()) = counts.changed() => {}
                () = added.notified() => self.find_added().await?,
                grant = granted(&mut next) => {
                    next = None;
                    self.start_next(grant).await?;
                }
                () = until(deadline), if is_idle => {
                    let reason = next.as_ref().map(|next| context.overdue_reason(next)).unwrap_or_default();
                    return self.abandon(JobState::Failed, format!("no trial could start: the next one {reason}")).await;
                }
            }
        }
    }

    fn apply_counts(&mut self) {
        let Some(counts) = *self.context.runner.control.live.counts.borrow() else { return };
        if counts.max_trials > self.counts.max_trials {
            self.exhausted = false;
        }
        self.counts = counts;
        self.failures.set_max_trials(counts.max_trials);
    }

    /// Number of trials to start now.
    fn missing(&self) -> u64 {
        let parallel = self.context.runner.settings.parallel.unwrap_or(self.counts.max_parallel_trials).max(1);
        let new = if self.exhausted { 0 } else { self.counts.max_trials.saturating_sub(self.created) };
        let stored = self.waiting.len() as u64 + u64::from(self.promising.is_some());
        let all = new.saturating_add(stored);
        parallel.saturating_sub(self.running.len() as u64).min(all)
    }

    /// Starts the next trial with `grant`: a waiting one, one that was stopped early and is promising again, or a new one
    /// based on all results so far.
    async fn start_next(&mut self, grant: Grant) -> Result<(), RunError> {
        if let Some(trial) = self.waiting.pop_front() {
            self.start(trial, Some(grant));
            return Ok(());
        }
        if let Some(trial) = self.continue_promising().await? {
            self.start(trial, Some(grant));
            return Ok(());
        }
        match self.next_trial().await? {
            Some(trial) => {
                self.created = self.created.max(trial.id.0);
                self.start(trial, Some(grant));
            }
            None => self.exhausted = true,
        }
        Ok(())
    }

    /// Withdraws the result of the promising trial, if any, so that it goes on; `None` also if the study is complete.
    async fn continue_promising(&mut self) -> Result<Option<Trial>, RunError> {
        let Some(id) = self.promising.take() else { return Ok(None) };
        if self.is_study_complete().await? {
            self.exhausted = true;
            return Ok(None);
        }
        let changed = self.context.services().store.change_trial(&self.study.id, id, TrialChange::Continue).await;
        if let Some(stopping) = &self.stopping {
            stopping.forget(id);
        }
        let trial = match changed {
            Ok(trial) => Some(trial).filter(|trial| trial.state == TrialState::Active),
            // A user has deleted it.
            Err(StoreError::NotFound { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        if trial.is_some() {
            self.failures.withdraw_success();
            self.context.emit(JobEvent::TrialContinued { id });
        }
        self.find_promising().await?;
        Ok(trial)
    }

    /// Finds the next stopped trial to go on, where programs continue from their checkpoints.
    async fn find_promising(&mut self) -> Result<(), RunError> {
        self.promising = match &self.stopping {
            Some(stopping) if self.context.plan.continues_from_checkpoints => {
                let stopping = Arc::clone(stopping);
                tokio::task::spawn_blocking(move || stopping.promising()).await?
            }
            _ => None,
        };
        Ok(())
    }

    /// Whether a stopping rule of the study has ended it; completes it if so.
    async fn is_study_complete(&mut self) -> Result<bool, RunError> {
        let context = Arc::clone(&self.context);
        let services = context.services();
        let reason = self.end.reason(&*services.store, &self.study, services.clock.now()).await?;
        let Some(reason) = reason else { return Ok(false) };
        self.study = services.store.change_study(&self.study.id, StudyChange::Complete { reason }).await?;
        Ok(true)
    }

    /// Reads trials added by users since the last call.
    async fn find_added(&mut self) -> Result<(), RunError> {
        let context = Arc::clone(&self.context);
        loop {
            let last = TrialId(self.created);
            let added = context.services().store.trials(&self.study.id, Some(last), ADDED_AT_ONCE).await?;
            let Some(last) = added.last() else { return Ok(()) };
            self.created = last.id.0;
            self.waiting.extend(added.into_iter().filter(|trial| !trial.state.is_final()));
        }
    }

    /// Reads the existing trials and resumes the unfinished ones.
    async fn resume(&mut self) -> Result<(), RunError> {
        let (mut completed, mut unfinished) = (0, 0);
        let (context, study) = (Arc::clone(&self.context), self.study.id.clone());
        let mut trials = pin!(pages::trials(&*context.services().store, &study));
        while let Some(trial) = trials.try_next().await? {
            if trial.state.is_final() {
                completed += 1;
                self.failures.record(&trial);
                self.learn_curve(&trial).await?;
            } else {
                unfinished += 1;
                // No more started trials run than the parallelism allowed.
                if trial.start_time.is_some() {
                    self.start(trial, None);
                } else {
                    self.waiting.push_back(trial);
                }
            }
        }
        self.created = completed + unfinished;
        self.find_promising().await?;
        if self.created > 0 {
            self.context.emit(JobEvent::Resumed { completed, unfinished });
        }
        Ok(())
    }

    /// Creates the next trial, or picks one that a user has added meanwhile. Returns `None` if the study has all its
    /// trials or its space is exhausted.
    async fn next_trial(&mut self) -> Result<Option<Trial>, RunError> {
        let context = Arc::clone(&self.context);
        let services = context.services();
        loop {
            if self.is_study_complete().await? {
                return Ok(None);
            }
            self.context.emit(JobEvent::ActivityChanged { activity: Some(Activity::Suggesting) });
            let proposal = services.policy.propose(&self.study.id).await;
            self.context.emit(JobEvent::ActivityChanged { activity: None });
            let proposal = match proposal {
                Ok(proposal) => proposal,
                Err(SearchPolicyError::Store(error)) => return Err(error.into()),
                Err(error) => {
                    let change = StudyChange::Deactivate { reason: error_text(&error) };
                    self.study = services.store.change_study(&self.study.id, change).await?;
                    return Ok(None);
                }
            };
            let (id, parameters, origin) = match proposal {
                Proposal::Trial { id, .. } if id.0 > self.counts.max_trials => {
                    return Ok(None);
                }
                Proposal::Trial { id, parameters, origin } => (id, parameters, origin),
                Proposal::Exhausted => {
                    let change = StudyChange::Complete { reason: "search space exhausted".to_owned() };
                    self.study = services.store.change_study(&self.study.id, change).await?;
                    return Ok(None);
                }
            };
            let trial = NewTrial {
                id,
                parameters,
                origin: Some(origin),
                fallback_reason: None,
                fixed_parameters: Vec::new(),
                client_id: CLIENT_ID.to_owned(),
                start: TrialStart::Given,
                create_time: services.clock.now(),
                request_key: None,
            };
            match services.store.create_trial(&self.study.id, trial).await {
                Ok(trial) => return Ok(Some(trial)),
                Err(StoreError::TrialIdTaken { .. }) => {
                    // A user has added a trial, which precedes other suggestions.
                    self.find_added().await?;
                    if let Some(trial) = self.waiting.pop_front() {
                        return Ok(Some(trial));
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn start(&mut self, trial: Trial, grant: Option<Grant>) {
        self.running_trials.insert(trial.id);
        let run = TrialRun {
            context: Arc::clone(&self.context),
            study: self.study.clone(),
            stopping: self.stopping.clone(),
            abandon: self.abandon.subscribe(),
        };
        self.running.spawn(run.run(trial, grant));
    }

    async fn record_end(
        &mut self,
        ended: Option<Result<Result<TrialEnd, RunError>, tokio::task::JoinError>>,
    ) -> Result<(), RunError> {
        let Some(ended) = ended else { return Ok(()) };
        self.idle_since = Instant::now();
        match ended?? {
            TrialEnd::Completed { trial, seen_tags } => {
                self.failures.record(&trial);
                self.failures.record_tags(&trial, &self.context.plan, &seen_tags);
                self.learn_curve(&trial).await?;
                self.find_promising().await?;
                self.running_trials.remove(&trial.id);
                self.outputs.search(&self.context, trial.id, &self.running_trials).await?;
                self.context.emit(JobEvent::TrialEnded { trial });
            }
            TrialEnd::Interrupted => {}
            TrialEnd::Detached => self.detached = true,
        }
        Ok(())
    }

    async fn learn_curve(&self, trial: &Trial) -> Result<(), RunError> {
        if let Some(stopping) = &self.stopping {
            stopping.learn(&*self.context.services().store, trial).await?;
        }
        Ok(())
    }

    /// Ends the job after its last trial; `None` if trials were added meanwhile.
    async fn finish(&mut self) -> Result<Option<JobOutcome>, RunError> {
        let context = Arc::clone(&self.context);
        let (runner, services) = (&context.runner, context.services());
        let _ending = runner.control.live.ending.lock().await;
        self.apply_counts();
        self.find_added().await?;
        if self.missing() > 0 {
            return Ok(None);
        }
        self.study = services.store.study(&self.study.id).await?;
        if self.study.state == StudyState::Inactive {
            let message = self.study.state_reason.clone();
            return Ok(Some(runner.end(JobState::Failed, &message).await?));
        }
        let reason = format!("{} trials, as many as maxTrials asks for", self.counts.max_trials);
        services.store.change_study(&self.study.id, StudyChange::Complete { reason }).await?;
        let (state, message) = match self.failures.nothing_succeeded() {
            Some(message) => (JobState::Failed, message),
            None => (JobState::Succeeded, String::new()),
        };
        Ok(Some(runner.end(state, &message).await?))
    }

    /// Stops all running trials for good and ends the job.
    async fn abandon(mut self, state: JobState, reason: String) -> Result<JobOutcome, RunError> {
        let context = Arc::clone(&self.context);
        if state == JobState::Cancelled {
            context.runner.set_state(JobState::Cancelling, &reason).await?;
        }
        self.abandon.send_replace(Some(reason.clone()));
        self.end_waiting(&reason).await?;
        self.join_all().await?;
        if self.detached {
            // The next process stops the programs and ends the job.
            return context.runner.detach().await;
        }
        // Keeps users from adding a trial between the last trial's end and the job's.
        let _ending = context.runner.control.live.ending.lock().await;
        self.find_added().await?;
        self.end_waiting(&reason).await?;
        context.runner.end(state, &reason).await
    }

    /// Completes the trials that have not started, without a result.
    async fn end_waiting(&mut self, reason: &str) -> Result<(), RunError> {
        let context = Arc::clone(&self.context);
        while let Some(trial) = self.waiting.pop_front() {
            let change = TrialChange::Complete {
                attempt: trial.attempt,
                measurements: Vec::new(),
                completion: Completion::Infeasible { reason: format!("stopped, because {reason}") },
                at: context.services().clock.now(),
            };
            let trial = context.services().store.change_trial(&self.study.id, trial.id, change).await?;
            context.emit(JobEvent::TrialEnded { trial: Box::new(trial) });
        }
        Ok(())
    }

    /// Waits for the running trials, interrupted by the same control, and leaves the job resumable.
    async fn interrupt(mut self) -> Result<JobOutcome, RunError> {
        self.join_all().await?;
        let context = &self.context;
        if self.detached {
            return context.runner.detach().await;
        }
        context.runner.interrupt().await
    }

    async fn join_all(&mut self) -> Result<(), RunError> {
        while let Some(ended) = self.running.join_next().await {
            self.record_end(Some(ended)).await?;
        }
        Ok(())
    }
}

/// Waits for the grant of `next`; never completes without a request.
async fn granted(next: &mut Option<PendingGrant>) -> Grant {
    match next {
        Some(next) => next.granted().await,
        None => std::future::pending().await,
    }
}
