//! Early stopping, based on the curves of completed and running trials.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

use futures::TryStreamExt;
use jiff::Timestamp;
use parking_lot::Mutex;
use tunesmith_algorithms::early_stopping::{
    CompletedCurve, CurvePoint, EarlyStopDecision, FinalPrediction, PreparedStoppingRule, StoppingRule,
};
use tunesmith_algorithms::problem::{MetricSpec, TrialId};

use crate::study_cache::StudyCache;
use tunesmith_domain::{CurveAxis, Measurement, Study, StudyId, Trial, TrialState, folder_order};
use tunesmith_store::{Store, StoreError, pages};

/// Stopping rule of one study, with the curves of its trials.
pub struct EarlyStopping {
    study: Study,
    rule: StoppingRule,
    curves: Mutex<Curves>,
}

/// Number of stopped trials that are judged again at a time, those with the best predictions; it bounds the time.
const MOST_JUDGED: usize = 16;

#[derive(Default)]
struct Curves {
    completed: BTreeMap<TrialId, Arc<Completed>>,
    running: BTreeMap<TrialId, Vec<CurvePoint>>,
    /// First folder, by [`folder_order`], of the event files with the curves of completed trials.
    best_folder: Option<Arc<str>>,
    /// Built from the completed trials on first use after a change.
    prepared: Option<PreparedStoppingRule>,
}

struct Completed {
    curve: Vec<CurvePoint>,
    stopped_early: bool,
    /// Predicted final value of a trial that the rule has stopped.
    predicted_final: Option<f64>,
}

/// Decision of a rule to stop a trial.
pub struct Stop {
    /// For display.
    pub reason: String,
    /// Final value that the trial would have reached, if finished trials predict it.
    pub predicted_final: Option<FinalPrediction>,
}

impl EarlyStopping {
    pub fn new(rule: StoppingRule, study: &Study) -> Self {
        Self { study: study.clone(), rule, curves: Mutex::default() }
    }

    fn metric(&self) -> &MetricSpec {
        &self.study.problem.metrics()[0]
    }

    /// Adds the curve of a trial with a result, in place of the one known of it. Trials violating a constraint are skipped,
    /// since feasible ones may be unable to reach their values.
    pub async fn learn(&self, store: &dyn Store, trial: &Trial) -> Result<(), StoreError> {
        if trial.state != TrialState::Succeeded || !self.study.is_feasible(trial) {
            self.curves.lock().running.remove(&trial.id);
            self.forget(trial.id);
            return Ok(());
        }
        let mut curve = Vec::new();
        let mut pages = pin!(pages::curve_pages(store, &self.study.id, trial));
        while let Some(page) = pages.try_next().await? {
            curve.extend(self.points(&page));
        }
        let mut curves = self.curves.lock();
        curves.running.remove(&trial.id);
        let predicted_final = trial.predicted_final.map(|predicted| predicted.value);
        let completed = Completed { curve, stopped_early: trial.stopped_early, predicted_final };
        curves.completed.insert(trial.id, completed.into());
        curves.prepared = None;
        if let Some(folder) = trial.metric_folders.taken(&self.metric().name)
            && curves.best_folder.as_ref().is_none_or(|best| folder_order(folder, best) == Ordering::Less)
        {
            curves.best_folder = Some(Arc::clone(folder));
        }
        Ok(())
    }

    /// Removes the curve of a trial that has no result any more.
    pub fn forget(&self, trial: TrialId) {
        let mut curves = self.curves.lock();
        if curves.completed.remove(&trial).is_some() {
            curves.prepared = None;
        }
    }

    /// Trial that the rule has stopped, and would no longer stop, with the trials that have ended since. Of several, the one with
    /// the best predicted final value, then with the best last report. Decides on at most 16 trials, each in two passes over
    /// the curves. A trial without a prediction, such as one that a user has stopped, stays stopped.
    pub fn promising(&self) -> Option<TrialId> {
        // Running trials are decided on meanwhile.
        let (completed, running) = {
            let curves = self.curves.lock();
            (curves.completed.clone(), curves.running.clone())
        };
        let goal = self.metric().goal;
        let last = |trial: &Completed| {
            trial.curve.iter().max_by_key(|point| point.step).map_or(f64::INFINITY, |last| goal.loss(last.value))
        };
        let predicted =
            |(id, trial): (&TrialId, &Arc<Completed>)| Some((goal.loss(trial.predicted_final?), last(trial), *id));
        let mut stopped: Vec<(f64, f64, TrialId)> = completed.iter().filter_map(predicted).collect();
        stopped.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut judged = stopped.into_iter().take(MOST_JUDGED).map(|(.., id)| id);
        judged.find(|id| {
            // As when the trial ran: it is not among the completed ones.
            let rule = self.prepare(completed.iter().filter(|(other, _)| *other != id).map(|(_, other)| other));
            let others = running.values().map(Vec::as_slice);
            matches!(rule.decide(&completed[id].curve, others), EarlyStopDecision::Continue(_))
        })
    }

    fn prepare<'a>(&self, completed: impl Iterator<Item = &'a Arc<Completed>>) -> PreparedStoppingRule {
        let curves = completed.map(|trial| CompletedCurve { points: &trial.curve, stopped_early: trial.stopped_early });
        self.rule.prepare(self.metric().goal, curves)
    }

    pub fn points(&self, reports: &[Measurement]) -> Vec<CurvePoint> {
        let points = reports.iter().filter_map(|report| {
            let step = match self.study.stopping_axis {
                CurveAxis::Step => report.step,
                // Whole milliseconds; curves are compared at the positions of their reports.
                CurveAxis::ElapsedTime => (report.elapsed_secs? * 1e3) as i64,
            };
            Some(CurvePoint { step, value: report.value(&self.metric().name)? })
        });
        points.collect()
    }

    /// Decision to stop the running `trial`, if any. `folder` is the source of `curve`. A curve from a less relevant
    /// series than those of completed trials, such as the training loss, is not compared.
    pub fn decide(&self, trial: TrialId, folder: Option<&str>, curve: Vec<CurvePoint>) -> Option<Stop> {
        let mut curves = self.curves.lock();
        if let (Some(folder), Some(best)) = (folder, &curves.best_folder)
            && folder_order(best, folder) == Ordering::Less
        {
            curves.running.remove(&trial);
            return None;
        }
        let Curves { completed, running, prepared, .. } = &mut *curves;
        let prepared = prepared.get_or_insert_with(|| self.prepare(completed.values()));
        let others = running.iter().filter(|(other, _)| **other != trial).map(|(_, curve)| curve.as_slice());
        let stop = match prepared.decide(&curve, others) {
            EarlyStopDecision::Stop(evidence) => Some(Stop {
                reason: evidence.explain(&self.metric().name).to_string(),
                predicted_final: prepared.predicted_final(&curve),
            }),
            EarlyStopDecision::TooEarly | EarlyStopDecision::Continue(_) => None,
        };
        running.insert(trial, curve);
        stop
    }
}

#[derive(Default)]
pub(crate) struct StoppingRules {
    pub(crate) rules: StudyCache<tokio::sync::Mutex<StudyRule>>,
}

pub(crate) struct StudyRule {
    /// Distinguishes studies of the same name.
    create_time: Timestamp,
    rule: EarlyStopping,
    /// Study revision up to which final trials have been read.
    revision: u64,
}

impl StoppingRules {
    /// Decision to stop `trial` with the measurements `curve`, if any.
    pub(crate) async fn decide(
        &self,
        store: &dyn Store,
        study: &Study,
        trial: TrialId,
        curve: &[Measurement],
    ) -> Result<Option<Stop>, StoreError> {
        let Some(rule) = study.stopping_rule else { return Ok(None) };
        let fresh = || StudyRule { create_time: study.create_time, rule: EarlyStopping::new(rule, study), revision: 0 };
        let known = self.rules.get_or_insert(&study.id, 0, || tokio::sync::Mutex::new(fresh()));
        let mut known = known.lock().await;
        if known.create_time != study.create_time {
            *known = fresh();
        }
        known.refresh(store, &study.id).await?;
        Ok(known.rule.decide(trial, None, known.rule.points(curve)))
    }

    pub(crate) fn forget(&self, study: &StudyId) {
        self.rules.remove(study);
    }
}

impl StudyRule {
    async fn refresh(&mut self, store: &dyn Store, study: &StudyId) -> Result<(), StoreError> {
        let mut changed = pin!(pages::changed_trials(store, study, self.revision));
        while let Some(trial) = changed.try_next().await? {
            if trial.state.is_final() {
                self.rule.learn(store, &trial).await?;
            } else {
                self.rule.forget(trial.id);
            }
            self.revision = trial.revision;
        }
        Ok(())
    }
}
