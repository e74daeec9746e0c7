//! The history that a study's designer uses: completed and pending trials, updated by reading only changes.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;

use futures::TryStreamExt;
use jiff::Timestamp;
use tunesmith_algorithms::designer::{Designer, DesignerError, History, SuggestRequest};
use tunesmith_algorithms::problem::{
    CompletedTrial, ParameterValues, PendingTrial, ProblemStatement, TrialId, TrialOutcome, TrialSuggestion,
};
use tunesmith_algorithms::transfer::SourceStudy;

use super::{Computed, Purpose, Reservation, SearchPolicyError, StudyEnd, Suggestions};
use crate::pages;
use tunesmith_domain::{Study, StudyId, Trial, TrialState};
use tunesmith_store::{Store, StoreError};
use tunesmith_telemetry::SuggestionSource;

/// Estimated memory of a trial, encoded and decoded, with its parameters by name.
const TRIAL_BYTES: usize = 1024;

/// Estimated maximum number of trials in the model, whose memory is quadratic in it.
const MODELLED: usize = 1000;
const MATRICES: usize = 3;

/// A study's designer, and the study's trials in the form that the designer uses.
pub(super) struct StudyHistory {
    study: StudyId,
    /// Distinguishes studies of the same name.
    create_time: Timestamp,
    problem: Arc<ProblemStatement>,
    algorithm: &'static str,
    /// Whether the designer uses trials of source studies outside the search space.
    uses_sources: bool,
    designer: Box<dyn Designer>,
    /// Revision of the study up to which its trials have been read.
    revision: u64,
    /// Number of trials of source studies in the history. To the designer they precede the study's own trials, whose
    /// numbers are shifted by it.
    prior_count: u64,
    completed: Vec<CompletedTrial>,
    pending: Vec<PendingTrial>,
    /// Index in `pending` of each pending trial.
    pending_index: HashMap<TrialId, usize>,
    completed_ids: HashSet<TrialId>,
    /// The highest trial number that has been read.
    last_id: TrialId,
    /// Numbers of reserved trials that are not in the store yet.
    reserved: BTreeSet<TrialId>,
    /// Number of times that reservations were taken back.
    reservation: u64,
    /// Number of changes of the history.
    version: u64,
    prepared: Option<Prepared>,
}

/// Points that were computed in advance.
struct Prepared {
    /// The value of [`StudyHistory::version`] for which they were computed.
    version: u64,
    first_id: TrialId,
    count: NonZeroUsize,
    points: Vec<TrialSuggestion>,
}

impl StudyHistory {
    /// An empty history of `study`, except for the trials of its source studies.
    ///
    /// Trials of source studies that lie in this study's search space become part of its history, also if the ranges
    /// differ; they are not tried again. The other trials are passed to the designer as trials of a study with another
    /// search space.
    pub(super) async fn open(store: &dyn Store, study: &Study) -> Result<Self, SearchPolicyError> {
        let designer = |sources: &[SourceStudy]| {
            super::designer(study, sources)
                .map_err(|source| SearchPolicyError::Designer { study: study.id.clone(), source })
        };
        let mut history = Self {
            study: study.id.clone(),
            create_time: study.create_time,
            problem: Arc::clone(&study.problem),
            algorithm: study.algorithm.as_str(),
            // The models of source studies predict one metric.
            uses_sources: study.algorithm.uses_source_studies() && study.problem.metrics().len() == 1,
            designer: designer(&[])?,
            revision: 0,
            prior_count: 0,
            completed: Vec::new(),
            pending: Vec::new(),
            pending_index: HashMap::new(),
            completed_ids: HashSet::new(),
            last_id: TrialId(0),
            reserved: BTreeSet::new(),
            reservation: 0,
            version: 0,
            prepared: None,
        };
        let mut sources = Vec::new();
        for prior in &study.prior_studies {
            sources.extend(history.add_source(store, prior).await?);
        }
        if !sources.is_empty() && history.uses_sources {
            history.designer = designer(&sources)?;
        }
        Ok(history)
    }

    /// The name of the study's algorithm.
    pub(super) fn algorithm(&self) -> &'static str {
        self.algorithm
    }

    /// Estimated memory in bytes: the trials, and the matrices of a model of as many of them as it can contain.
    pub(super) fn bytes(&self) -> usize {
        let trials = self.completed.len() + self.pending.len();
        let modelled = if self.designer.capabilities().learns { trials.min(MODELLED) } else { 0 };
        trials * TRIAL_BYTES + MATRICES * modelled * modelled * size_of::<f64>()
    }

    /// Whether a computation can take long. Algorithms without a model respond immediately.
    pub(super) fn computes_long(&self) -> bool {
        self.designer.capabilities().learns
    }

    /// Whether this is the history of `study`, and not of a deleted study of the same name.
    pub(super) fn is_of(&self, study: &Study) -> bool {
        self.create_time == study.create_time
    }

    /// Reads the changes since the last call.
    pub(super) async fn refresh(&mut self, store: &dyn Store) -> Result<(), StoreError> {
        let study = self.study.clone();
        let mut changed = pin!(pages::changed_trials(store, &study, self.revision));
        while let Some(trial) = changed.try_next().await? {
            self.revision = trial.revision;
            self.record(&trial);
        }
        Ok(())
    }

    /// The points for the next trials of `study`, if they were computed in advance and the history has not changed
    /// since.
    pub(super) fn prepared(&mut self, study: &Study, count: NonZeroUsize, purpose: Purpose) -> Option<Computed> {
        let (first_id, count, _) = self.next(study, count);
        let prepared = self.prepared.as_ref()?;
        let is_current = (prepared.version, prepared.first_id, Some(prepared.count)) == (self.version, first_id, count);
        let points = is_current.then(|| prepared.points.clone())?;
        Some(self.give_out(first_id, points, None, purpose, SuggestionSource::Prepared))
    }

    /// Computes the points for the next trials of `study`.
    pub(super) fn suggestions(
        &mut self,
        study: &Study,
        count: NonZeroUsize,
        purpose: Purpose,
    ) -> Result<Computed, DesignerError> {
        let (first_id, allowed, end) = self.next(study, count);
        let Some(count) = allowed else {
            return Ok(self.give_out(first_id, Vec::new(), end, purpose, SuggestionSource::Computed));
        };
        let request = SuggestRequest { first_trial_id: self.designer_id(first_id), count };
        let points = self.designer.suggest(self.as_history(), request)?;
        let end = if points.len() < count.get() { Some(StudyEnd::Exhausted) } else { end };
        if end.is_none() {
            self.prepared = Some(Prepared { version: self.version, first_id, count, points: points.clone() });
        }
        Ok(self.give_out(first_id, points, end, purpose, SuggestionSource::Computed))
    }

    /// The number of the next trial, the possible number of new trials, at most `count`, and the reason if it is less
    /// than `count`.
    fn next(&self, study: &Study, count: NonZeroUsize) -> (TrialId, Option<NonZeroUsize>, Option<StudyEnd>) {
        // Trials may have been read that `study`, which was read before, does not count yet.
        let last = self.reserved.last().map_or(self.last_id, |last| self.last_id.max(*last));
        let first_id = study.next_trial_id.max(last.offset(1));
        let left = study.max_trials.map_or(u64::MAX, |most| most.saturating_sub(first_id.0.saturating_sub(1)));
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let end = (left < count.get()).then_some(StudyEnd::MaxTrials);
        (first_id, NonZeroUsize::new(left.min(count.get())), end)
    }

    fn give_out(
        &mut self,
        first_id: TrialId,
        points: Vec<TrialSuggestion>,
        end: Option<StudyEnd>,
        purpose: Purpose,
        source: SuggestionSource,
    ) -> Computed {
        if purpose == Purpose::Reservation {
            for (index, point) in (0..).zip(&points) {
                let id = first_id.offset(index);
                if self.add_pending(self.designer_id(id), &point.parameters) {
                    self.reserved.insert(id);
                }
            }
        }
        let reservation = Reservation(self.reservation);
        let suggestions = Suggestions { first_id, points, end, reservation, failure: None };
        Computed { suggestions, algorithm: self.algorithm, source }
    }

    /// Removes reserved points without trials, unless reservations were taken back since `reservation`.
    pub(super) fn take_back(&mut self, reservation: Reservation) {
        if reservation != Reservation(self.reservation) {
            return;
        }
        self.reservation += 1;
        self.version += 1;
        for id in std::mem::take(&mut self.reserved) {
            self.no_longer_pending(self.designer_id(id));
        }
    }

    /// Whether trials have the value of more than one metric or constraint.
    fn has_several_values(&self) -> bool {
        self.problem.value_names().nth(1).is_some()
    }

    /// The number of the study's trial `id` in the designer's history.
    fn designer_id(&self, id: TrialId) -> TrialId {
        id.offset(self.prior_count)
    }

    /// The history as the designer gets it.
    fn as_history(&self) -> History<'_> {
        History { completed: &self.completed, pending: &self.pending }
    }

    fn record(&mut self, trial: &Trial) {
        let id = self.designer_id(trial.id);
        self.last_id = self.last_id.max(trial.id);
        self.reserved.remove(&trial.id);
        if trial.state == TrialState::Deleted {
            self.version += 1;
            self.forget(id);
            return;
        }
        if !trial.state.is_final() {
            // A retried trial was completed before.
            self.no_longer_completed(id);
            self.add_pending(id, &trial.parameters);
            return;
        }
        self.no_longer_pending(id);
        if !self.completed_ids.insert(id) {
            return;
        }
        self.version += 1;
        let outcome = outcome(trial, &self.problem);
        self.completed.push(CompletedTrial { id, parameters: trial.parameters.clone(), outcome });
    }

    /// Adds a pending trial; returns whether it is new. Other changes of a pending trial do not affect the designer.
    fn add_pending(&mut self, id: TrialId, parameters: &ParameterValues) -> bool {
        let Entry::Vacant(place) = self.pending_index.entry(id) else { return false };
        place.insert(self.pending.len());
        self.pending.push(PendingTrial { id, parameters: parameters.clone() });
        self.version += 1;
        true
    }

    fn no_longer_pending(&mut self, id: TrialId) {
        if let Some(index) = self.pending_index.remove(&id) {
            self.pending.swap_remove(index);
            if let Some(moved) = self.pending.get(index) {
                self.pending_index.insert(moved.id, index);
            }
        }
    }

    /// Removes a deleted trial.
    fn forget(&mut self, id: TrialId) {
        self.no_longer_pending(id);
        self.no_longer_completed(id);
    }

    fn no_longer_completed(&mut self, id: TrialId) {
        if self.completed_ids.remove(&id) {
            self.completed.retain(|trial| trial.id != id);
        }
    }

    /// Adds the completed trials of `prior` that lie in this study's search space, and returns the others.
    async fn add_source(&mut self, store: &dyn Store, prior: &StudyId) -> Result<Option<SourceStudy>, StoreError> {
        let problem = match store.study(prior).await {
            Ok(source) => ProblemStatement::clone(&source.problem),
            Err(StoreError::NotFound { .. }) => {
                tracing::warn!(
                    study.name = %self.study, prior.name = %prior,
                    "the source study was deleted; the search continues without its trials"
                );
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let (mut foreign, mut incomplete) = (Vec::new(), 0_usize);
        let mut trials = pin!(pages::trials(store, prior));
        while let Some(trial) = trials.try_next().await? {
            if !trial.state.is_final() {
                continue;
            }
            if self.problem.search_space().check(&trial.parameters).is_err() {
                let outcome = outcome(&trial, &problem);
                foreign.push(CompletedTrial { id: trial.id, parameters: trial.parameters.clone(), outcome });
                continue;
            }
            let outcome = outcome(&trial, &self.problem);
            if outcome == TrialOutcome::Infeasible && trial.state == TrialState::Succeeded && self.has_several_values()
            {
                // The source study did not ask for a value that this one needs: its trial has not failed.
                incomplete += 1;
                continue;
            }
            self.prior_count += 1;
            let id = TrialId(self.prior_count);
            self.completed.push(CompletedTrial { id, parameters: trial.parameters.clone(), outcome });
        }
        if incomplete > 0 {
            tracing::warn!(
                study.name = %self.study, prior.name = %prior, trials = incomplete,
                "trials of the source study lack the value of a metric or a constraint of this study and are not used"
            );
        }
        if foreign.is_empty() {
            return Ok(None);
        }
        let (study, trials) = (&self.study, foreign.len());
        if self.uses_sources {
            tracing::info!(
                study.name = %study, prior.name = %prior, trials,
                "trials of the source study are outside this search space and are used as trials of another one"
            );
        } else {
            tracing::warn!(
                study.name = %study, prior.name = %prior, trials,
                "trials of the source study are outside this search space; the algorithm does not use them"
            );
        }
        Ok(Some(SourceStudy { problem, completed: foreign }))
    }
}

/// The result of a final trial for algorithms; infeasible if the value of a metric or a constraint is missing.
pub fn outcome(trial: &Trial, problem: &ProblemStatement) -> TrialOutcome {
    let values = trial.final_measurement.as_ref().and_then(|measurement| {
        problem.value_names().map(|name| measurement.value(name)).collect::<Option<Vec<f64>>>()
    });
    match (trial.state, values) {
        (TrialState::Succeeded, Some(values)) => TrialOutcome::Measured { values, stopped_early: trial.stopped_early },
        _ => TrialOutcome::Infeasible,
    }
}
