//! Applies a study's stopping rules, caching the results of its ended trials.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::Arc;

use futures::TryStreamExt;
use jiff::Timestamp;
use tunesmith_algorithms::designer::History;
use tunesmith_algorithms::expected_gain::expected_gain;
use tunesmith_algorithms::problem::{CompletedTrial, Goal, TrialId};

use crate::search_policy::outcome;
use tunesmith_domain::{EndedTrial, Study, StudyProgress, StudyStopping, Trial, TrialState};
use tunesmith_store::{Store, StoreError, pages};

/// Ended trials of one study.
#[derive(Default)]
pub struct EndedTrials {
    /// Distinguishes studies of the same name.
    create_time: Option<Timestamp>,
    /// Study revision up to which trials have been read.
    revision: u64,
    ended: HashMap<TrialId, EndedTrial>,
    /// Progress of the ended trials; `None` for recomputation after an out-of-order addition.
    progress: Option<StudyProgress>,
    /// Ended trials in the algorithms' form, if a rule needs a model.
    completed: BTreeMap<TrialId, CompletedTrial>,
    /// Expected gain, if computed since the last change.
    gain: Option<Option<f64>>,
}

impl EndedTrials {
    /// Why `study` gets no further trials at `now`; `None` if it does. Reads changes since the last call.
    pub async fn reason(
        &mut self,
        store: &dyn Store,
        study: &Study,
        now: Timestamp,
    ) -> Result<Option<String>, StoreError> {
        let rules = &study.study_stopping;
        if *rules == StudyStopping::default() {
            return Ok(None);
        }
        if self.create_time != Some(study.create_time) {
            *self = Self { create_time: Some(study.create_time), ..Self::default() };
        }
        let mut changed = pin!(pages::changed_trials(store, &study.id, self.revision));
        while let Some(trial) = changed.try_next().await? {
            self.revision = trial.revision;
            self.record(&trial, study);
        }
        let needs_gain = rules.min_expected_gain.is_some();
        let gain = if needs_gain && !rules.is_too_early(self.ended.len(), study.create_time, now) {
            self.expected_gain(study).await
        } else {
            None
        };
        let progress = self.progress(study.problem.metrics()[0].goal).await;
        Ok(rules.reason(&progress, gain, study.create_time, now))
    }

    async fn progress(&mut self, goal: Goal) -> StudyProgress {
        if let Some(progress) = self.progress {
            return progress;
        }
        let ended: Vec<EndedTrial> = self.ended.values().copied().collect();
        match tokio::task::spawn_blocking(move || StudyProgress::of(goal, ended)).await {
            Ok(progress) => *self.progress.insert(progress),
            Err(error) => {
                tracing::error!(%error, "the progress of a study cannot be determined");
                StudyProgress::default()
            }
        }
    }

    /// Expected improvement from a further trial; `None` if it cannot be computed.
    async fn expected_gain(&mut self, study: &Study) -> Option<f64> {
        if let Some(gain) = self.gain {
            return gain;
        }
        let problem = Arc::clone(&study.problem);
        let completed: Vec<CompletedTrial> = self.completed.values().cloned().collect();
        let compute = move || expected_gain(&problem, History { completed: &completed, pending: &[] });
        let gain = tokio::task::spawn_blocking(compute).await.unwrap_or_else(|error| {
            tracing::error!(study.name = %study.id, %error, "the expected gain of a study cannot be computed");
            None
        });
        self.gain = Some(gain);
        gain
    }

    fn record(&mut self, trial: &Trial, study: &Study) {
        let is_deleted = trial.state == TrialState::Deleted;
        let Some(end_time) = trial.end_time.filter(|_| trial.state.is_final() && !is_deleted) else {
            // A retried trial had ended before.
            if self.ended.remove(&trial.id).is_some() {
                self.progress = None;
                self.completed.remove(&trial.id);
                self.gain = None;
            }
            return;
        };
        let is_whole = trial.state == TrialState::Succeeded && !trial.stopped_early;
        let counts = is_whole && study.is_feasible(trial);
        let measured = trial.final_measurement.as_ref().filter(|_| counts);
        let value = measured.and_then(|measurement| measurement.value(&study.problem.metrics()[0].name));
        let ended = EndedTrial { id: trial.id, end_time, value };
        let known = self.ended.insert(trial.id, ended);
        if known != Some(ended) {
            let goal = study.problem.metrics()[0].goal;
            self.progress = self.progress.filter(|_| known.is_none()).and_then(|progress| progress.with(goal, ended));
        }
        if study.study_stopping.min_expected_gain.is_some() {
            let outcome = outcome(trial, &study.problem);
            let completed = CompletedTrial { id: trial.id, parameters: trial.parameters.clone(), outcome };
            self.completed.insert(trial.id, completed);
            self.gain = None;
        }
    }
}
