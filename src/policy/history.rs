//! What a study's designer knows: its completed and pending trials, kept up to date by reading only what changed.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;

use jiff::Timestamp;
use tunesmith_algorithms::designer::{Designer, DesignerError, History, SuggestRequest};
use tunesmith_algorithms::problem::{
    CompletedTrial, MetricSpec, PendingTrial, ProblemStatement, TrialId, TrialOutcome, TrialSuggestion,
};
use tunesmith_algorithms::transfer::EarlierStudy;

use super::PolicyError;
use crate::domain::{Study, StudyId, Trial, TrialState};
use crate::store::{Store, StoreError};

/// How many trials are read at once.
const PAGE: usize = 1000;

/// A study's trials in the form of a designer, with the designer.
pub(super) struct StudyHistory {
    study: StudyId,
    /// Tells studies of one name apart.
    create_time: Timestamp,
    problem: ProblemStatement,
    designer: Box<dyn Designer>,
    /// Revision of the study up to which the trials below are known.
    revision: u64,
    /// Trials of earlier studies. To the designer they come before the study's own: it counts on from them.
    prior_count: u64,
    completed: Vec<CompletedTrial>,
    pending: Vec<PendingTrial>,
    /// Place in `pending` of each pending trial.
    pending_index: HashMap<TrialId, usize>,
    completed_ids: HashSet<TrialId>,
    prepared: Option<Prepared>,
}

/// Points that were computed for a history.
struct Prepared {
    /// The revision of the study that they were computed from.
    revision: u64,
    first_id: TrialId,
    count: NonZeroUsize,
    points: Vec<TrialSuggestion>,
}

impl StudyHistory {
    /// An empty history of `study`, but for what its earlier studies teach.
    ///
    /// Their trials that are points of this study's space count as its own: it is the same question, perhaps in a wider
    /// or narrower range, and what is known need not be tried again. The others teach its designer as trials of a study
    /// of another space.
    pub(super) async fn open(store: &dyn Store, study: &Study) -> Result<Self, PolicyError> {
        let designer = |earlier: &[EarlierStudy]| {
            super::designer(study, earlier).map_err(|source| PolicyError::Designer { study: study.id.clone(), source })
        };
        let mut history = Self {
            study: study.id.clone(),
            create_time: study.create_time,
            problem: study.problem.clone(),
            designer: designer(&[])?,
            revision: 0,
            prior_count: 0,
            completed: Vec::new(),
            pending: Vec::new(),
            pending_index: HashMap::new(),
            completed_ids: HashSet::new(),
            prepared: None,
        };
        let mut earlier = Vec::new();
        for prior in &study.prior_studies {
            earlier.extend(history.learn_from(store, prior).await?);
        }
        if !earlier.is_empty() {
            history.designer = designer(&earlier)?;
        }
        Ok(history)
    }

    /// Whether this is the history of `study`, and not of one of the same name that was deleted.
    pub(super) fn is_of(&self, study: &Study) -> bool {
        self.create_time == study.create_time
    }

    /// Reads what has changed since the last call.
    pub(super) async fn refresh(&mut self, store: &dyn Store) -> Result<(), StoreError> {
        loop {
            let changed = store.trials_changed_since(&self.study, self.revision, PAGE).await?;
            let last_page = changed.len() < PAGE;
            for trial in changed {
                self.revision = trial.revision;
                self.record(&trial);
            }
            if last_page {
                return Ok(());
            }
        }
    }

    /// The number by which the designer knows the study's trial `id`.
    pub(super) fn designer_id(&self, id: TrialId) -> TrialId {
        id.offset(self.prior_count)
    }

    /// The points that were computed before for trial `first_id` on, if nothing has changed since.
    pub(super) fn prepared(&self, first_id: TrialId, count: NonZeroUsize) -> Option<Vec<TrialSuggestion>> {
        let prepared = self.prepared.as_ref()?;
        let is_current = (prepared.revision, prepared.first_id, prepared.count) == (self.revision, first_id, count);
        is_current.then(|| prepared.points.clone())
    }

    /// Computes the points for trial `first_id` on.
    pub(super) fn compute(
        &mut self,
        first_id: TrialId,
        count: NonZeroUsize,
    ) -> Result<Vec<TrialSuggestion>, DesignerError> {
        let request = SuggestRequest { first_trial_id: self.designer_id(first_id), count };
        let points = self.designer.suggest(self.known(), request)?;
        self.prepared = Some(Prepared { revision: self.revision, first_id, count, points: points.clone() });
        Ok(points)
    }

    /// What the designer is told.
    pub(super) fn known(&self) -> History<'_> {
        History { completed: &self.completed, pending: &self.pending }
    }

    /// The study's designer.
    pub(super) fn designer(&self) -> &dyn Designer {
        &*self.designer
    }

    fn record(&mut self, trial: &Trial) {
        let id = self.designer_id(trial.id);
        if trial.state == TrialState::Deleted {
            self.forget(id);
            return;
        }
        if !trial.state.is_final() {
            // Another change of a trial that is pending already does not concern the designer.
            self.pending_index.entry(id).or_insert_with(|| {
                self.pending.push(PendingTrial { id, parameters: trial.parameters.clone() });
                self.pending.len() - 1
            });
            return;
        }
        self.no_longer_pending(id);
        if !self.completed_ids.insert(id) {
            return;
        }
        let outcome = outcome(trial, self.problem.metrics());
        self.completed.push(CompletedTrial { id, parameters: trial.parameters.clone(), outcome });
    }

    fn no_longer_pending(&mut self, id: TrialId) {
        if let Some(index) = self.pending_index.remove(&id) {
            self.pending.swap_remove(index);
            if let Some(moved) = self.pending.get(index) {
                self.pending_index.insert(moved.id, index);
            }
        }
    }

    /// Forgets a trial that its user has taken away.
    fn forget(&mut self, id: TrialId) {
        self.no_longer_pending(id);
        if self.completed_ids.remove(&id) {
            self.completed.retain(|trial| trial.id != id);
        }
    }

    /// Takes over the completed trials of `prior` that are points of this study's space; the others are returned.
    async fn learn_from(&mut self, store: &dyn Store, prior: &StudyId) -> Result<Option<EarlierStudy>, StoreError> {
        let problem = store.study(prior).await?.problem.clone();
        let mut after = None;
        let mut foreign = Vec::new();
        loop {
            let page = store.trials(prior, after, PAGE).await?;
            for trial in page.iter().filter(|trial| trial.state.is_final()) {
                if self.problem.search_space().check(&trial.parameters).is_err() {
                    foreign.push(CompletedTrial {
                        id: trial.id,
                        parameters: trial.parameters.clone(),
                        outcome: outcome(trial, problem.metrics()),
                    });
                    continue;
                }
                self.prior_count += 1;
                self.completed.push(CompletedTrial {
                    id: TrialId(self.prior_count),
                    parameters: trial.parameters.clone(),
                    outcome: outcome(trial, self.problem.metrics()),
                });
            }
            after = page.last().map(|trial| trial.id);
            if page.len() < PAGE {
                break;
            }
        }
        if foreign.is_empty() {
            return Ok(None);
        }
        let (study, trials) = (&self.study, foreign.len());
        if self.designer.capabilities().learns {
            tracing::info!(
                study.name = %study, prior.name = %prior, trials,
                "trials of the earlier study are no points of this search space and teach it as those of another one"
            );
        } else {
            tracing::warn!(
                study.name = %study, prior.name = %prior, trials,
                "trials of the earlier study are no points of this search space; the algorithm leaves them out"
            );
        }
        Ok(Some(EarlierStudy { problem, completed: foreign }))
    }
}

/// A final trial's result as algorithms see it; infeasible if it lacks one of the metrics.
pub fn outcome(trial: &Trial, metrics: &[MetricSpec]) -> TrialOutcome {
    let values = trial.final_measurement.as_ref().and_then(|measurement| {
        metrics.iter().map(|metric| measurement.value(&metric.name)).collect::<Option<Vec<f64>>>()
    });
    match (trial.state, values) {
        (TrialState::Succeeded, Some(values)) => TrialOutcome::Measured { values, stopped_early: trial.stopped_early },
        _ => TrialOutcome::Infeasible,
    }
}
