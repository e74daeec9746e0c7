//! Applies a study's stopping rule to running trials, and keeps the curves of completed and running trials.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tunesmith_algorithms::early_stopping::{
    CompletedCurve, CurvePoint, EarlyStopDecision, PreparedStoppingRule, StoppingRule,
};
use tunesmith_algorithms::problem::{Goal, ProblemStatement, TrialId};

use tunesmith_domain::{CurveAxis, Measurement, Study, StudyId, Trial, TrialState, folder_order};
use tunesmith_store::{Store, StoreError};

/// Maximum number of measurements in one read.
const BATCH: usize = 10_000;

/// The stopping rule of one study, with the curves of its trials.
pub(super) struct EarlyStopping {
    study: StudyId,
    metric: String,
    goal: Goal,
    axis: CurveAxis,
    rule: StoppingRule,
    problem: Arc<ProblemStatement>,
    learnt: Mutex<Learnt>,
}

#[derive(Default)]
struct Learnt {
    completed: Vec<Completed>,
    /// The current curves of running trials.
    running: BTreeMap<TrialId, Vec<CurvePoint>>,
    /// The first folder, by [`folder_order`], of the event files with the curves of completed trials.
    best_folder: Option<Arc<str>>,
    /// Built from the completed trials on first use after a change.
    prepared: Option<PreparedStoppingRule>,
}

struct Completed {
    curve: Vec<CurvePoint>,
    stopped_early: bool,
}

impl EarlyStopping {
    /// The rule of `study`, without curves.
    pub(super) fn new(rule: StoppingRule, study: &Study) -> Self {
        let metric = &study.problem.metrics()[0];
        Self {
            study: study.id.clone(),
            metric: metric.name.clone(),
            goal: metric.goal,
            axis: study.stopping_axis,
            rule,
            problem: Arc::clone(&study.problem),
            learnt: Mutex::default(),
        }
    }

    /// Whether the result of `trial` satisfies every constraint.
    fn is_feasible(&self, trial: &Trial) -> bool {
        let value = |name: &str| trial.final_measurement.as_ref()?.value(name);
        let mut constraints = self.problem.constraints().iter();
        constraints.all(|constraint| value(&constraint.name).is_some_and(|value| constraint.holds(value)))
    }

    /// Adds the curve of `trial`, if the trial has a result. One that violates a constraint is no measure for others: its
    /// value may be out of the reach of all trials that satisfy it. Must be called once for each trial.
    pub(super) async fn learn(&self, store: &dyn Store, trial: &Trial) -> Result<(), StoreError> {
        if trial.state != TrialState::Succeeded || !self.is_feasible(trial) {
            self.lock().running.remove(&trial.id);
            return Ok(());
        }
        let mut curve = Vec::new();
        let mut from = 0;
        while from < trial.measurement_count {
            let mut page = store.measurements(&self.study, trial.id, from, BATCH).await?;
            if page.is_empty() {
                break;
            }
            from += page.len() as u64;
            trial.metric_folders.retain_curves(&mut page);
            curve.extend(self.points(&page));
        }
        let mut learnt = self.lock();
        learnt.running.remove(&trial.id);
        learnt.completed.push(Completed { curve, stopped_early: trial.stopped_early });
        learnt.prepared = None;
        if let Some(folder) = trial.metric_folders.taken(&self.metric)
            && learnt.best_folder.as_ref().is_none_or(|best| folder_order(folder, best) == Ordering::Less)
        {
            learnt.best_folder = Some(Arc::clone(folder));
        }
        Ok(())
    }

    /// The curve of a trial's measurements.
    pub(super) fn points(&self, reports: &[Measurement]) -> Vec<CurvePoint> {
        let points = reports.iter().filter_map(|report| {
            let step = match self.axis {
                CurveAxis::Step => report.step,
                // Whole milliseconds; a curve is compared at the positions of its reports.
                CurveAxis::ElapsedTime => (report.elapsed_secs? * 1e3) as i64,
            };
            Some(CurvePoint { step, value: report.value(&self.metric)? })
        });
        points.collect()
    }

    /// The reason to stop the running `trial` with this curve, if there is one. `folder` is that of the event files with the
    /// curve. A trial whose curve is still that of a less good series than those of completed trials, such as its training
    /// loss, is not compared with them.
    pub(super) fn decide(&self, trial: TrialId, folder: Option<&str>, curve: Vec<CurvePoint>) -> Option<String> {
        let mut learnt = self.lock();
        if let (Some(folder), Some(best)) = (folder, &learnt.best_folder)
            && folder_order(best, folder) == Ordering::Less
        {
            learnt.running.remove(&trial);
            return None;
        }
        let Learnt { completed, running, prepared, .. } = &mut *learnt;
        let prepared = prepared.get_or_insert_with(|| {
            let curves = completed.iter();
            let curves = curves.map(|Completed { curve, stopped_early }| CompletedCurve {
                points: curve,
                stopped_early: *stopped_early,
            });
            self.rule.prepare(self.goal, curves)
        });
        let others = running.iter().filter(|(other, _)| **other != trial).map(|(_, curve)| curve.as_slice());
        let decision = prepared.decide(&curve, others);
        running.insert(trial, curve);
        match decision {
            EarlyStopDecision::Stop(reason) => Some(reason.explain(&self.metric).to_string()),
            EarlyStopDecision::TooEarly | EarlyStopDecision::Continue => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Learnt> {
        self.learnt.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
