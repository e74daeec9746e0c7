//! Applies a study's stopping rule to running trials: keeps the curves of the completed ones.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tunesmith_algorithms::early_stopping::{CurvePoint, EarlyStopDecision, MedianRule, PreparedMedianRule};
use tunesmith_algorithms::problem::Goal;

use crate::domain::{StoppingRule, Study, StudyId, Trial, TrialState};
use crate::store::{Store, StoreError};

/// How many measurements are read at once.
const BATCH: usize = 10_000;

/// One study's stopping rule with what it has learnt.
pub(super) struct EarlyStopping {
    study: StudyId,
    metric: String,
    goal: Goal,
    rule: MedianRule,
    learnt: Mutex<Learnt>,
}

#[derive(Default)]
struct Learnt {
    curves: Vec<Vec<CurvePoint>>,
    /// Made from the curves when it is first needed after a change.
    prepared: Option<PreparedMedianRule>,
}

impl EarlyStopping {
    /// The rule of `study`, which has learnt nothing yet.
    pub(super) fn new(rule: StoppingRule, study: &Study) -> Self {
        let StoppingRule::Median = rule;
        let metric = &study.problem.metrics()[0];
        Self {
            study: study.id.clone(),
            metric: metric.name.clone(),
            goal: metric.goal,
            rule: MedianRule::default(),
            learnt: Mutex::default(),
        }
    }

    /// Reads the curve of `trial`, if it has a result. To be called once for each trial.
    pub(super) async fn learn(&self, store: &dyn Store, trial: &Trial) -> Result<(), StoreError> {
        if trial.state != TrialState::Succeeded {
            return Ok(());
        }
        let mut curve = Vec::new();
        let mut from = 0;
        while from < trial.measurement_count {
            let page = store.measurements(&self.study, trial.id, from, BATCH).await?;
            if page.is_empty() {
                break;
            }
            from += page.len() as u64;
            curve.extend(
                page.iter()
                    .filter_map(|report| Some(CurvePoint { step: report.step, value: report.value(&self.metric)? })),
            );
        }
        let mut learnt = self.lock();
        learnt.curves.push(curve);
        learnt.prepared = None;
        Ok(())
    }

    /// Why a running trial with this curve is to be stopped, if it is.
    pub(super) fn decide(&self, curve: &[CurvePoint]) -> Option<String> {
        let mut learnt = self.lock();
        let Learnt { curves, prepared } = &mut *learnt;
        let prepared = prepared.get_or_insert_with(|| self.rule.prepare(self.goal, curves.iter().map(Vec::as_slice)));
        match prepared.decide(curve) {
            EarlyStopDecision::Stop { best, median } => {
                Some(format!("its best {} {best} is worse than the median {median} of the others", self.metric))
            }
            EarlyStopDecision::TooEarly | EarlyStopDecision::Continue { .. } => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Learnt> {
        self.learnt.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
