//! Running trials, their next events and the virtual clock.

use tunesmith_algorithms::early_stopping::{CurvePoint, FinalPrediction};
use tunesmith_algorithms::problem::{ParameterValues, TrialId};

use crate::problem::{Evaluation, EvaluationOutcome};

#[derive(Debug, Default)]
pub(super) struct Running {
    trials: Vec<RunningTrial>,
    now_secs: f64,
}

#[derive(Debug)]
struct RunningTrial {
    trial: TrialId,
    point: ParameterValues,
    evaluation: Evaluation,
    started_secs: f64,
    /// Whether reports are events, as early stopping requires.
    watched: bool,
    /// Number of reports so far.
    reported: usize,
    /// Whether the trial was stopped early before.
    resumed: bool,
    stopped: bool,
    predicted_final: Option<FinalPrediction>,
}

#[derive(Debug)]
pub(super) enum Event {
    /// Report of a watched trial.
    Report {
        trial: TrialId,
    },
    End(Ended),
}

#[derive(Debug)]
pub(super) struct Ended {
    pub(super) trial: TrialId,
    pub(super) point: ParameterValues,
    /// Values seen by the optimizer; `None` if the trial failed.
    pub(super) values: Option<Vec<f64>>,
    /// Values without noise; `None` if the trial failed.
    pub(super) noiseless: Option<Vec<f64>>,
    pub(super) constraints: Vec<f64>,
    pub(super) stopped_early: bool,
    /// Whether the trial was stopped early before, so that this is a further result of it.
    pub(super) resumed: bool,
    /// Final value predicted by the rule that stopped the trial.
    pub(super) predicted_final: Option<FinalPrediction>,
    pub(super) reports: Vec<CurvePoint>,
    /// Complete evaluation of a trial that was stopped early and may resume.
    pub(super) whole: Option<Box<Evaluation>>,
}

impl Running {
    pub(super) fn len(&self) -> usize {
        self.trials.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.trials.is_empty()
    }

    /// Simulated seconds since the start of the study.
    pub(super) fn now_secs(&self) -> f64 {
        self.now_secs
    }

    /// Starts `trial`, or resumes it after `reported` of the reports of `evaluation`.
    pub(super) fn start(
        &mut self,
        trial: TrialId,
        point: ParameterValues,
        evaluation: Evaluation,
        watched: bool,
        reported: usize,
    ) {
        let spent = reported.checked_sub(1).map_or(0.0, |last| evaluation.curve[last].elapsed_secs);
        let running = RunningTrial {
            trial,
            point,
            evaluation,
            started_secs: self.now_secs - spent,
            watched,
            reported,
            resumed: reported > 0,
            stopped: false,
            predicted_final: None,
        };
        self.trials.push(running);
    }

    /// Simulated time of the next event; `None` if no trial runs.
    pub(super) fn next_event_secs(&self) -> Option<f64> {
        self.next_trial().map(|next| self.time_of(&self.trials[next]))
    }

    /// Advances the clock to the next event; `None` if no trial runs.
    pub(super) fn next_event(&mut self) -> Option<Event> {
        let next = self.next_trial()?;
        self.now_secs = self.time_of(&self.trials[next]);
        let running = &mut self.trials[next];
        if running.next_report_secs().is_some() {
            running.reported += 1;
            return Some(Event::Report { trial: running.trial });
        }
        Some(Event::End(self.trials.swap_remove(next).end()))
    }

    /// Index of the trial with the next event.
    fn next_trial(&self) -> Option<usize> {
        (0..self.trials.len()).min_by(|&a, &b| {
            let (a, b) = (&self.trials[a], &self.trials[b]);
            self.time_of(a).total_cmp(&self.time_of(b)).then(a.trial.cmp(&b.trial))
        })
    }

    /// Number of reports of `trial` if it runs to its end; 0 if it is not running.
    pub(super) fn reports_of_whole(&self, trial: TrialId) -> usize {
        self.trials.iter().find(|running| running.trial == trial).map_or(0, |running| running.evaluation.curve.len())
    }

    /// Reports of `trial` so far; empty if it is not running.
    pub(super) fn reports(&self, trial: TrialId) -> Vec<CurvePoint> {
        self.trials.iter().find(|running| running.trial == trial).map(RunningTrial::reports).unwrap_or_default()
    }

    /// Reports of each running trial except `trial`.
    pub(super) fn reports_of_others(&self, trial: TrialId) -> Vec<Vec<CurvePoint>> {
        self.trials.iter().filter(|running| running.trial != trial).map(RunningTrial::reports).collect()
    }

    /// Ends `trial` now; its last report becomes its result.
    pub(super) fn stop(&mut self, trial: TrialId, predicted_final: Option<FinalPrediction>) {
        if let Some(running) = self.trials.iter_mut().find(|running| running.trial == trial) {
            running.stopped = true;
            running.predicted_final = predicted_final;
        }
    }

    fn time_of(&self, running: &RunningTrial) -> f64 {
        if running.stopped {
            return self.now_secs;
        }
        let end = running.started_secs + running.evaluation.duration_secs;
        running.next_report_secs().map_or(end, |report| report.min(end))
    }
}

impl RunningTrial {
    /// Time of the next report, excluding the last one, which is the end of the trial.
    fn next_report_secs(&self) -> Option<f64> {
        if !self.watched || self.stopped || self.reported + 1 >= self.evaluation.curve.len() {
            return None;
        }
        Some(self.started_secs + self.evaluation.curve[self.reported].elapsed_secs)
    }

    fn reports(&self) -> Vec<CurvePoint> {
        let made = &self.evaluation.curve[..self.reported];
        made.iter().map(|point| CurvePoint { step: point.step as i64, value: point.value }).collect()
    }

    fn end(mut self) -> Ended {
        let stopped_at = self.reported.checked_sub(1).filter(|_| self.stopped).map(|last| self.evaluation.curve[last]);
        if !self.stopped {
            self.reported = self.evaluation.curve.len();
        }
        let reports = self.reports();
        let whole = stopped_at.is_some().then(|| Box::new(self.evaluation.clone()));
        let (values, noiseless, constraints) = match (self.evaluation.outcome, stopped_at) {
            (_, Some(last)) => (Some(vec![last.value]), Some(vec![last.value]), Vec::new()),
            (EvaluationOutcome::Measured { observed, noiseless, constraints }, None) => {
                (Some(observed), Some(noiseless), constraints)
            }
            (EvaluationOutcome::Infeasible { .. }, None) => (None, None, Vec::new()),
        };
        let Self { trial, point, resumed, stopped: stopped_early, predicted_final, .. } = self;
        Ended { trial, point, values, noiseless, constraints, stopped_early, resumed, predicted_final, reports, whole }
    }
}
