//! A study's history as its designer needs it, updated incrementally: trials for a designer with a model, used points
//! for one that only avoids repetitions, and nothing in a space where points do not repeat.

mod sources;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::pin::pin;

use futures::TryStreamExt;
use tunesmith_algorithms::designer::{Designer, DesignerError, SuggestRequest};
use tunesmith_algorithms::designers::{NumberedPoints, UsedPoints};
use tunesmith_algorithms::early_stopping::FinalPrediction;
use tunesmith_algorithms::encoding::{Encoding, EncodingError};
use tunesmith_algorithms::interruption::Interruption;
use tunesmith_algorithms::problem::{
    Fidelity, Origin, ParameterValues, ProblemStatement, Step, TrialId, TrialOutcome, TrialSuggestion,
};
use tunesmith_algorithms::transfer::SourceStudy;

pub use self::sources::SourceReport;
use self::sources::UsedSource;
use super::model_trials::ModelTrials;
use super::{Computed, Purpose, Reservation, SearchPolicyError, StudyEnd, Suggestions};
use crate::number_set::NumberSet;
use tunesmith_domain::{Study, Trial, TrialState};
use tunesmith_store::{Store, StoreError, pages};
use tunesmith_telemetry::SuggestionSource;

/// Estimated maximum number of trials in a model, whose memory is quadratic in it.
const MODELLED: usize = 1000;
const MATRICES: usize = 3;

/// Estimated bytes per used point.
const POINT_BYTES: usize = 40;

/// Number of used points above which finding an unused one can take milliseconds.
const MANY_POINTS: usize = 10_000;

/// Number of changes that take more than some milliseconds to read.
const MANY_CHANGES: u64 = 1_000;

/// A study's designer, and its trials in the designer's form.
pub(crate) struct StudyHistory {
    /// The study when the history was opened.
    study: Study,
    /// Whether the designer learns from trials of other studies.
    uses_sources: bool,
    sources: Vec<UsedSource>,
    designer: Box<dyn Designer>,
    /// Numbers the points for a designer with a model.
    encoding: Encoding,
    /// Study revision up to which trials have been read.
    revision: u64,
    /// Number of source trials in the history. The designer sees them before the study's own trials, whose numbers are
    /// shifted accordingly.
    prior_count: u64,
    /// Trials for a designer with a model.
    trials: ModelTrials,
    /// Points of the trials in `counted`, if needed.
    used: UsedPoints,
    counted: NumberSet,
    /// A trial outside the search space.
    foreign: Option<DesignerError>,
    /// Whether a change requires rereading all trials.
    is_outdated: bool,
    /// Highest trial number read.
    last_id: TrialId,
    /// Reserved trials not yet seen in the store, with their point numbers.
    reserved: BTreeMap<TrialId, Option<u128>>,
    /// Number of cancelled reservations.
    reservation: u64,
    /// Number of changes of the history.
    version: u64,
    prepared: Option<Prepared>,
}

/// Points computed in advance.
struct Prepared {
    /// [`StudyHistory::version`] at the time of computation.
    version: u64,
    first_id: TrialId,
    count: NonZeroUsize,
    points: Vec<TrialSuggestion>,
}

impl StudyHistory {
    /// History of `study` with only the trials of its source studies.
    ///
    /// Trials of continued studies inside the search space become part of the history, even if the ranges differ, and are
    /// not repeated. All others are passed to the designer as trials of other studies.
    pub(super) async fn open(store: &dyn Store, study: &Study) -> Result<Self, SearchPolicyError> {
        let designer = |sources: &[SourceStudy]| {
            super::designer(study, sources)
                .map_err(|source| SearchPolicyError::Designer { study: study.id.clone(), source })
        };
        let mut history = Self {
            study: study.clone(),
            // Source models predict a single metric.
            uses_sources: study.algorithm.uses_source_studies() && study.problem.metrics().len() == 1,
            sources: Vec::new(),
            designer: designer(&[])?,
            encoding: Encoding::new(study.problem.search_space()),
            revision: 0,
            prior_count: 0,
            trials: ModelTrials::new(&study.problem),
            used: UsedPoints::default(),
            counted: NumberSet::default(),
            foreign: None,
            is_outdated: false,
            last_id: TrialId(0),
            reserved: BTreeMap::new(),
            reservation: 0,
            version: 0,
            prepared: None,
        };
        let sources = history.add_sources(store, study).await?;
        if !sources.is_empty() && history.uses_sources {
            history.designer = designer(&sources)?;
        }
        Ok(history)
    }

    pub(super) fn algorithm(&self) -> &'static str {
        self.study.algorithm.as_str()
    }

    /// Estimated memory in bytes: trials, points, and the matrices of a model with the maximum number of trials.
    pub(super) fn bytes(&self) -> usize {
        let modelled = if self.designer.capabilities().learns { self.trials.len().min(MODELLED) } else { 0 };
        self.trials.bytes() + self.used.len() * POINT_BYTES + MATRICES * modelled * modelled * size_of::<f64>()
    }

    /// Whether computations may be slow: only with a model, or many points to avoid.
    pub(super) fn computes_long(&self) -> bool {
        self.designer.capabilities().learns || self.used.len() > MANY_POINTS
    }

    /// Whether a computation would have to wait for many unread changes.
    pub(super) fn is_behind(&self, study: &Study) -> bool {
        self.needs_more() && study.revision > self.revision + MANY_CHANGES
    }

    /// Whether this is the history of `study`, and not of a deleted namesake.
    pub(super) fn is_of(&self, study: &Study) -> bool {
        self.study.create_time == study.create_time
    }

    /// Reads the changes since the last call that the designer needs; none for a model-free algorithm in a space where
    /// points do not repeat.
    pub(super) async fn refresh(&mut self, store: &dyn Store, study: &Study) -> Result<(), SearchPolicyError> {
        self.read(store, study).await?;
        if self.is_outdated {
            let parameters = |id: &TrialId| self.trials.pending_parameters(self.designer_id(*id)).cloned();
            let reserved: Vec<_> = self.reserved.keys().filter_map(|id| Some((*id, parameters(id)?))).collect();
            let (reservation, version) = (self.reservation, self.version + 1);
            *self = Self { reservation, version, ..Self::open(store, study).await? };
            self.read(store, study).await?;
            for (id, parameters) in reserved {
                if !self.counted.contains(id) {
                    self.reserve(id, &parameters);
                }
            }
        }
        self.trials.rank();
        Ok(())
    }

    async fn read(&mut self, store: &dyn Store, study: &Study) -> Result<(), StoreError> {
        if self.revision == 0 && self.needs_more() {
            let mut pages = pin!(pages::trials_by_page(store, study));
            while let Some(trials) = pages.try_next().await? {
                // Trials changed after the study was read are among the changes.
                trials.iter().filter(|trial| trial.revision <= study.revision).for_each(|trial| self.record(trial));
                tokio::task::yield_now().await;
                if !self.needs_more() {
                    return Ok(());
                }
            }
            self.revision = study.revision;
        }
        let study = self.study.id.clone();
        let mut changed = pin!(pages::changed_trials(store, &study, self.revision));
        while self.needs_more()
            && let Some(trial) = changed.try_next().await?
        {
            self.revision = trial.revision;
            self.record(&trial);
        }
        Ok(())
    }

    /// Whether further trials can affect the designer.
    fn needs_more(&self) -> bool {
        self.designer.by_points().is_none_or(|designer| designer.needs_more_than(&self.used))
    }

    /// Returns prepared points for the next trials, if the history has not changed since.
    pub(super) fn prepared(&mut self, study: &Study, count: NonZeroUsize, purpose: Purpose) -> Option<Computed> {
        let (first_id, count, _) = self.next(study, count);
        let prepared = self.prepared.as_ref()?;
        let is_current = (prepared.version, prepared.first_id, Some(prepared.count)) == (self.version, first_id, count);
        let points = is_current.then(|| prepared.points.clone())?;
        Some(self.assigned(first_id, points, None, purpose, SuggestionSource::Prepared))
    }

    pub(super) fn suggestions(
        &mut self,
        study: &Study,
        count: NonZeroUsize,
        purpose: Purpose,
        interruption: &Interruption,
    ) -> Result<Computed, DesignerError> {
        let (first_id, allowed, end) = self.next(study, count);
        let Some(count) = allowed else {
            return Ok(self.assigned(first_id, Vec::new(), end, purpose, SuggestionSource::Computed));
        };
        let points = self.points(SuggestRequest { first_trial_id: self.designer_id(first_id), count }, interruption)?;
        if interruption.is_requested() {
            // The caller may be gone: nothing is reserved.
            return Err(DesignerError::Interrupted);
        }
        let end = if points.len() < count.get() { Some(StudyEnd::Exhausted) } else { end };
        if end.is_none() {
            self.prepared = Some(Prepared { version: self.version, first_id, count, points: points.clone() });
        }
        Ok(self.assigned(first_id, points, end, purpose, SuggestionSource::Computed))
    }

    fn points(
        &mut self,
        request: SuggestRequest,
        interruption: &Interruption,
    ) -> Result<Vec<TrialSuggestion>, DesignerError> {
        if let Some(foreign) = &self.foreign {
            return Err(foreign.clone());
        }
        let mut points = match self.designer.by_points() {
            Some(designer) => designer.suggest_unused(&mut self.used, request),
            None => self.designer.suggest_until(self.trials.as_history(), request, interruption)?,
        };
        if self.trials.is_partial() && self.counts_points() {
            self.replace_used(&mut points, request);
        } else if self.designer.by_points().is_none() {
            return Ok(points);
        }
        // They count as used only when handed out.
        for point in &points {
            if let Ok(Some(number)) = self.number(&point.parameters) {
                self.used.remove(number);
            }
        }
        Ok(points)
    }

    /// Replaces points of a finite space already used by trials hidden from the designer, and marks all as used.
    fn replace_used(&mut self, points: &mut Vec<TrialSuggestion>, request: SuggestRequest) {
        let space = NumberedPoints::new(&self.encoding);
        for index in 0..points.len() {
            let number = space.number(&points[index].parameters).ok().flatten();
            if number.is_none_or(|number| !self.used.contains(number)) {
                number.map(|number| self.used.insert(number));
                continue;
            }
            let trial = request.first_trial_id.offset(index as u64);
            let Some(parameters) = space.take_unused(&mut self.used, [], self.study.seed, trial) else {
                points.truncate(index);
                return;
            };
            let origin = Origin { step: Some(Step::Unused), ..points[index].origin };
            points[index] = TrialSuggestion { parameters, origin };
        }
    }

    /// Next trial number, the possible number of new trials (at most `count`), and the reason if it is below `count`.
    fn next(&mut self, study: &Study, count: NonZeroUsize) -> (TrialId, Option<NonZeroUsize>, Option<StudyEnd>) {
        if !self.needs_more() {
            // Their trials are stored, and need not be read.
            self.reserved = self.reserved.split_off(&study.next_trial_id);
        }
        // Newer trials than `study` knows of may have been read.
        let last = self.reserved.last_key_value().map_or(self.last_id, |(last, _)| self.last_id.max(*last));
        let first_id = study.next_trial_id.max(last.offset(1));
        let left = study.max_trials.map_or(u64::MAX, |most| most.saturating_sub(first_id.0.saturating_sub(1)));
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let end = (left < count.get()).then_some(StudyEnd::MaxTrials);
        (first_id, NonZeroUsize::new(left.min(count.get())), end)
    }

    fn assigned(
        &mut self,
        first_id: TrialId,
        points: Vec<TrialSuggestion>,
        end: Option<StudyEnd>,
        purpose: Purpose,
        source: SuggestionSource,
    ) -> Computed {
        if purpose == Purpose::Reservation {
            for (index, point) in (0..).zip(&points) {
                self.reserve(first_id.offset(index), &point.parameters);
            }
        }
        let reservation = Reservation(self.reservation);
        let suggestions = Suggestions { first_id, points, end, reservation, failure: None };
        Computed { suggestions, algorithm: self.algorithm(), source }
    }

    /// Reserves the point of a trial about to be created.
    fn reserve(&mut self, trial: TrialId, parameters: &ParameterValues) {
        let number = self.count(trial, parameters);
        if self.designer.by_points().is_none() {
            self.trials.add_pending(self.designer_id(trial), parameters);
        }
        self.version += 1;
        self.reserved.insert(trial, number);
    }

    /// Ends the reservation of a stored trial, which another process may have created with a different point.
    fn confirm(&mut self, trial: &Trial) {
        let Some(number) = self.reserved.get(&trial.id).copied() else { return };
        let known = self.trials.pending_parameters(self.designer_id(trial.id));
        let is_same = known.is_none_or(|known| *known == trial.parameters)
            && self.number(&trial.parameters).ok().flatten() == number;
        if is_same {
            self.reserved.remove(&trial.id);
        } else {
            self.cancel(trial.id);
        }
    }

    fn cancel(&mut self, trial: TrialId) {
        let Some(number) = self.reserved.remove(&trial) else { return };
        self.version += 1;
        self.counted.remove(trial);
        number.iter().for_each(|number| self.used.remove(*number));
        self.trials.no_longer_pending(self.designer_id(trial));
    }

    /// Releases reserved points without trials, unless other cancellations followed `reservation`.
    pub(super) fn release(&mut self, reservation: Reservation) {
        if reservation != Reservation(self.reservation) {
            return;
        }
        self.reservation += 1;
        while let Some((trial, _)) = self.reserved.first_key_value() {
            self.cancel(*trial);
        }
    }

    /// Number of the study's trial `id` in the designer's history.
    fn designer_id(&self, id: TrialId) -> TrialId {
        id.offset(self.prior_count)
    }

    fn record(&mut self, trial: &Trial) {
        let id = self.designer_id(trial.id);
        self.confirm(trial);
        self.last_id = self.last_id.max(trial.id);
        if trial.state == TrialState::Deleted {
            self.forget(trial);
            return;
        }
        let is_new = !self.counted.contains(trial.id);
        self.count(trial.id, &trial.parameters);
        if self.designer.by_points().is_some() {
            self.version += u64::from(is_new);
            return;
        }
        if trial.state.is_final() {
            let problem = &self.study.problem;
            self.version += u64::from(self.trials.complete(id, &trial.parameters, || outcome(trial, problem)));
            return;
        }
        // A retried trial was completed before.
        self.is_outdated |= !self.trials.no_longer_completed(id);
        self.version += u64::from(self.trials.add_pending(id, &trial.parameters));
    }

    fn forget(&mut self, trial: &Trial) {
        self.version += 1;
        if self.counts_points() && self.counted.remove(trial.id) {
            let number = self.number(&trial.parameters);
            number.ok().flatten().iter().for_each(|number| self.used.remove(*number));
        } else if self.designer.by_points().is_some_and(|designer| !designer.is_finite()) {
            // An initial point counts as proposed, since deletions of its trial are not tracked.
            self.count(trial.id, &trial.parameters);
        }
        if self.designer.by_points().is_none() {
            let id = self.designer_id(trial.id);
            self.trials.pass(id);
            self.trials.no_longer_pending(id);
            self.is_outdated |= !self.trials.no_longer_completed(id);
        }
    }

    /// Whether the search space is finite, so that used points are tracked.
    fn counts_points(&self) -> bool {
        match self.designer.by_points() {
            Some(designer) => designer.is_finite(),
            None => NumberedPoints::new(&self.encoding).is_finite(),
        }
    }

    fn number(&self, parameters: &ParameterValues) -> Result<Option<u128>, EncodingError> {
        match self.designer.by_points() {
            Some(designer) => designer.number(parameters),
            None => NumberedPoints::new(&self.encoding).number(parameters),
        }
    }

    /// Counts the point of trial `id` and returns its number; `None` if already counted, or without a number.
    fn count(&mut self, id: TrialId, parameters: &ParameterValues) -> Option<u128> {
        if !self.counted.insert(id) {
            return None;
        }
        match self.number(parameters) {
            Ok(number) => number.inspect(|number| {
                self.used.insert(*number);
            }),
            Err(error) => {
                self.foreign.get_or_insert(DesignerError::ForeignTrial { trial: id, reason: error.to_string() });
                None
            }
        }
    }
}

/// Result of a final trial for algorithms; infeasible if the value of a metric or constraint is missing. The objective of a
/// trial that was stopped by a rule which predicts final values is the predicted one.
pub fn outcome(trial: &Trial, problem: &ProblemStatement) -> TrialOutcome {
    let values = trial.final_measurement.as_ref().and_then(|measurement| {
        problem.value_names().map(|name| measurement.value(name)).collect::<Option<Vec<f64>>>()
    });
    match (trial.state, values) {
        (TrialState::Succeeded, Some(mut values)) => {
            let fidelity = match (trial.stopped_early, trial.predicted_final) {
                (false, _) => Fidelity::Full,
                (true, None) => Fidelity::Partial,
                (true, Some(FinalPrediction { value, deviation })) => {
                    values[0] = value;
                    Fidelity::Predicted { deviation }
                }
            };
            TrialOutcome::Measured { values, fidelity }
        }
        _ => TrialOutcome::Infeasible,
    }
}

#[cfg(test)]
mod tests;
