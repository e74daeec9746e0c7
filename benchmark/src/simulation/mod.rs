//! Simulation of a study of one problem with one optimizer, on a virtual clock.
//!
//! Trials take their simulated time without waiting. The order of events is a pure function of the optimizer's
//! suggestions: of simultaneous events, the trial with the smaller id comes first.
//!
//! The last report of a stopped trial is its result, as in the service. With a rule of the service, our algorithms learn
//! from the final value that is predicted from the curves of the finished trials. Stopped trials may resume from their last
//! report, and then have a further result:
//!
//! - With [`EarlyStopping::Resuming`], before a trial starts, stopped trials that the rule would no longer stop resume in
//!   its place, those with the best predicted ends first. The rule watches them again, and the optimizer sees the new
//!   result in place of the old one.
//! - With [i-Epoch](Epochs), the best of the stopped trials resume when all have stopped, unwatched. The optimizer does
//!   not see their final values.

mod choice;
mod curves;
mod hyperband;
mod running;
#[cfg(test)]
mod tests;

use std::time::Duration;

use tunesmith_algorithms::designer::{Designer, History, SuggestRequest};
use tunesmith_algorithms::designers::RandomSearch;
use tunesmith_algorithms::early_stopping::{
    CurvePoint, EarlyStopDecision, FinalPrediction, PreparedStoppingRule, StoppingRule, StoppingRuleKind,
};
use tunesmith_algorithms::problem::{
    CompletedTrial, Fidelity, Goal, ParameterValues, PendingTrial, TrialId, TrialOutcome,
};

use self::choice::chosen;
use self::curves::{Curves, Stopped};
use self::hyperband::Hyperband;
use self::running::{Ended, Event, Running};
use crate::early_stopping::{EarlyStopping, Epochs};
use crate::optimizer::{Optimizer, OptimizerError, StudyRequest, TrialReport, TrialResult};
use crate::problem::{Draw, Problem, Quality};
use crate::record::{CHECKPOINTS, Chosen, Failure, Mode, ResultValue, RunKey, RunRecord, Schedule};

/// Settings of a run besides problem and optimizer.
pub struct Plan<'a> {
    pub key: &'a RunKey,
    /// Whether the record contains the points.
    pub keep_points: bool,
    /// Clock that measures the optimizer's time; any origin.
    pub now: &'a dyn Fn() -> Duration,
}

/// Runs `optimizer` on `problem` until the budget or the time is spent, the space is exhausted, or the optimizer fails. A failure
/// goes into the record, so that it does not end the comparison.
pub fn simulate(problem: &dyn Problem, optimizer: &mut dyn Optimizer, plan: &Plan<'_>) -> RunRecord {
    let mut study = Study::new(problem, plan);
    let failure = study.run(optimizer).err().map(|error| match error {
        OptimizerError::Unsupported { reason } => Failure::Unsupported(reason),
        OptimizerError::Failed { reason } => Failure::Failed(reason),
    });
    let mut record = study.record;
    record.failure = failure;
    record
}

struct Study<'a> {
    problem: &'a dyn Problem,
    plan: &'a Plan<'a>,
    record: RunRecord,
    running: Running,
    /// All suggested points; only the initial points of a finite space depend on them.
    given_out: Vec<PendingTrial>,
    /// Curves of the trials that ended with values.
    curves: Curves,
    hyperband: Hyperband,
    /// Completed trials and the places of their results, for noisy problems with one metric.
    completed: Vec<CompletedTrial>,
    completed_at: Vec<usize>,
    /// Number of times that a stopped trial has resumed.
    resumed: usize,
    /// Optimizer time since its last suggestion.
    spent: Duration,
    exhausted: bool,
}

impl<'a> Study<'a> {
    fn new(problem: &'a dyn Problem, plan: &'a Plan<'a>) -> Self {
        let statement = problem.statement();
        let record = RunRecord {
            key: plan.key.clone(),
            version: None,
            resolution: problem.profile().resolution,
            parameters: statement.search_space().parameters().len(),
            goals: statement.metrics().iter().map(|metric| metric.goal).collect(),
            quality: problem.quality().clone(),
            results: Vec::new(),
            ended_secs: Vec::new(),
            suggest_ms: Vec::new(),
            stopped_early: Vec::new(),
            resumed: Vec::new(),
            points: Vec::new(),
            chosen: Vec::new(),
            failure: None,
        };
        Self {
            problem,
            plan,
            record,
            running: Running::default(),
            given_out: Vec::new(),
            curves: Curves::default(),
            hyperband: Hyperband::default(),
            completed: Vec::new(),
            completed_at: Vec::new(),
            resumed: 0,
            spent: Duration::ZERO,
            exhausted: false,
        }
    }

    fn run(&mut self, optimizer: &mut dyn Optimizer) -> Result<(), OptimizerError> {
        let RunKey { seed, budget, schedule, .. } = &self.plan.key;
        optimizer.create(&StudyRequest {
            problem: self.problem.statement().clone(),
            seed: *seed,
            budget: *budget,
            parallel: schedule.parallel,
            constraints: self.problem.profile().constraints,
            sources: self.problem.sources(),
        })?;
        loop {
            self.start_trials(optimizer)?;
            self.finish_best();
            if self.running.next_event_secs().is_some_and(|secs| secs > self.time_limit_secs()) {
                return Ok(());
            }
            match self.running.next_event() {
                Some(Event::End(ended)) => self.end(optimizer, ended)?,
                Some(Event::Report { trial }) => self.report(optimizer, trial)?,
                None => return Ok(()),
            }
        }
    }

    /// Starts the trials due by the schedule. Stopped trials that the rule would no longer stop come first.
    fn start_trials(&mut self, optimizer: &mut dyn Optimizer) -> Result<(), OptimizerError> {
        let Schedule { parallel, mode, initial_points, .. } = self.plan.key.schedule;
        loop {
            let kept = self.epochs().map_or(0, |epochs| epochs.kept as usize);
            let left = self.plan.key.budget.saturating_sub(kept + self.given_out.len());
            let mut free = match mode {
                Mode::Batch if !self.running.is_empty() => 0,
                Mode::Batch => parallel,
                Mode::Sequential | Mode::Asynchronous => parallel.saturating_sub(self.running.len()),
            };
            if let Some(EarlyStopping::Resuming(rule)) = self.plan.key.schedule.early_stopping {
                while free > 0 && self.is_time_left() && self.resume(Some(rule)) {
                    free -= 1;
                }
            }
            let wanted = left.min(if mode == Mode::Batch { free } else { free.min(1) });
            if wanted == 0 || self.exhausted || !self.is_time_left() {
                return Ok(());
            }
            let first = TrialId::FIRST.offset(self.given_out.len() as u64);
            if self.given_out.len() < initial_points {
                // The optimizer sees these points only with their results.
                let initial = wanted.min(initial_points - self.given_out.len());
                for place in 0..initial as u64 {
                    match self.initial_point(first.offset(place)) {
                        Some(point) => self.start(first.offset(place), point),
                        None => self.exhausted = true,
                    }
                }
            } else {
                let trials: Vec<TrialId> = (0..wanted as u64).map(|place| first.offset(place)).collect();
                let points = self.ask(optimizer, &trials)?;
                self.exhausted = points.len() < trials.len();
                for (&trial, point) in trials.iter().zip(points) {
                    self.start(trial, point);
                }
            }
        }
    }

    /// Largest simulated time of an event. Sums of durations may exceed the limit by rounding errors.
    fn time_limit_secs(&self) -> f64 {
        self.plan.key.schedule.time_limit_secs.map_or(f64::INFINITY, |limit| f64::from(limit) * (1.0 + 1e-9))
    }

    /// Whether a trial that starts now leaves time for those of i-Epoch that are to resume, if they take as long as the
    /// longest stopped so far.
    fn is_time_left(&self) -> bool {
        let now_secs = self.running.now_secs();
        let Some(epochs) = self.epochs() else {
            return self.plan.key.schedule.time_limit_secs.is_none_or(|limit| now_secs < f64::from(limit));
        };
        let rounds = (epochs.kept as usize).div_ceil(self.plan.key.schedule.parallel.max(1));
        let (mut spent_secs, mut remaining_secs) = (0.0_f64, 0.0_f64);
        for (reported, whole) in self.curves.stopped() {
            let spent = whole.curve[reported - 1].elapsed_secs;
            spent_secs = spent_secs.max(spent);
            remaining_secs = remaining_secs.max(whole.duration_secs - spent);
        }
        now_secs + spent_secs + rounds as f64 * remaining_secs <= self.time_limit_secs()
    }

    fn epochs(&self) -> Option<Epochs> {
        match self.plan.key.schedule.early_stopping {
            Some(EarlyStopping::Epochs(epochs)) => Some(epochs),
            _ => None,
        }
    }

    /// With i-Epoch, resumes the best of the stopped trials once none is left to start or runs from its beginning.
    fn finish_best(&mut self) {
        let Some(epochs) = self.epochs() else { return };
        if self.resumed == 0 && !self.running.is_empty() {
            return;
        }
        let parallel = self.plan.key.schedule.parallel;
        while self.resumed < epochs.kept as usize && self.running.len() < parallel && self.resume(None) {}
    }

    /// Resumes a stopped trial, if there is one, for the time of its remaining reports. With a rule, only a trial that the
    /// rule would no longer stop resumes, and the rule watches it.
    fn resume(&mut self, rule: Option<StoppingRuleKind>) -> bool {
        let Some(goal) = self.problem.statement().metrics().first().map(|metric| metric.goal) else { return false };
        let may_resume = |trial: TrialId, reports: &[CurvePoint]| {
            rule.is_none_or(|rule| {
                let decision = self.decide(&self.prepared(rule, goal, trial), trial, reports);
                matches!(decision, EarlyStopDecision::Continue(_))
            })
        };
        let Some(trial) = self.curves.first_to_resume(goal, may_resume) else { return false };
        let Some((reported, Stopped { point, whole, .. })) = self.curves.take(trial) else { return false };
        self.running.start(trial, point, *whole, rule.is_some(), reported);
        self.resumed += 1;
        true
    }

    /// `rule` with the curves of the trials that ended, except `trial`.
    fn prepared(&self, rule: StoppingRuleKind, goal: Goal, trial: TrialId) -> PreparedStoppingRule {
        StoppingRule::from(rule).prepare(goal, self.curves.except(trial))
    }

    /// Decision of `rule` on a running or stopped trial by its reports and those of the other running trials.
    fn decide(&self, rule: &PreparedStoppingRule, trial: TrialId, reports: &[CurvePoint]) -> EarlyStopDecision {
        let others = self.running.reports_of_others(trial);
        rule.decide(reports, others.iter().map(Vec::as_slice))
    }

    fn ask(
        &mut self,
        optimizer: &mut dyn Optimizer,
        trials: &[TrialId],
    ) -> Result<Vec<ParameterValues>, OptimizerError> {
        let before = (self.plan.now)();
        let answer = optimizer.suggest(trials);
        self.spent += (self.plan.now)().saturating_sub(before);
        let points = answer?;
        self.record.suggest_ms.push(milliseconds(std::mem::take(&mut self.spent)));
        let failed = |reason: String| OptimizerError::Failed { reason };
        if points.len() > trials.len() {
            return Err(failed(format!("it gave {} points for {} trials", points.len(), trials.len())));
        }
        for (trial, point) in trials.iter().zip(&points) {
            let check = self.problem.statement().search_space().check(point);
            check.map_err(|error| failed(format!("its point for trial {trial} is outside the space: {error}")))?;
        }
        Ok(points)
    }

    /// Uniform point, equal for all optimizers; `None` if the space is exhausted.
    fn initial_point(&self, trial: TrialId) -> Option<ParameterValues> {
        let designer = RandomSearch::new(self.problem.statement(), self.plan.key.seed);
        let history = History { completed: &[], pending: &self.given_out };
        let suggestion = designer.suggest(history, SuggestRequest::one(trial)).ok()?.pop()?;
        Some(suggestion.parameters)
    }

    fn start(&mut self, trial: TrialId, point: ParameterValues) {
        let evaluation = self.problem.evaluate(&point, Draw { seed: self.plan.key.seed, trial });
        let watched = self.plan.key.schedule.early_stopping.is_some();
        self.given_out.push(PendingTrial { id: trial, parameters: point.clone() });
        self.running.start(trial, point, evaluation, watched, 0);
    }

    /// Applies the early stopping rule after a report of a running trial.
    fn report(&mut self, optimizer: &mut dyn Optimizer, trial: TrialId) -> Result<(), OptimizerError> {
        let Some(metric) = self.problem.statement().metrics().first() else { return Ok(()) };
        let Some(rule) = self.plan.key.schedule.early_stopping else { return Ok(()) };
        let reports = self.running.reports(trial);
        let Some(last) = reports.last().copied() else { return Ok(()) };
        let mut predicted_final = None;
        let stops = match rule {
            EarlyStopping::Epochs(epochs) => reports.len() >= epochs.reports.get() as usize,
            EarlyStopping::Rule(rule) | EarlyStopping::Resuming(rule) => {
                let rule = self.prepared(rule, metric.goal, trial);
                let stops = self.decide(&rule, trial, &reports).is_stop();
                if stops {
                    predicted_final = rule.predicted_final(&reports);
                }
                stops
            }
            EarlyStopping::Hyperband => {
                let draw = Draw { seed: self.plan.key.seed, trial };
                let (reported, whole) = (reports.len(), self.running.reports_of_whole(trial));
                self.hyperband.stops(draw, reported, whole, metric.goal.loss(last.value))
            }
            EarlyStopping::Optimizer => {
                let before = (self.plan.now)();
                let stops = optimizer.report(&TrialReport { trial, step: last.step as u64, value: last.value })?;
                self.spent += (self.plan.now)().saturating_sub(before);
                stops
            }
        };
        if stops {
            self.running.stop(trial, predicted_final);
        }
        Ok(())
    }

    fn end(&mut self, optimizer: &mut dyn Optimizer, ended: Ended) -> Result<(), OptimizerError> {
        let feasible = ended.values.is_some() && ended.constraints.iter().all(|constraint| *constraint <= 0.0);
        let outcome = match &ended.values {
            Some(values) if feasible => {
                let (mut values, mut fidelity) = (values.clone(), Fidelity::Full);
                // i-Epoch values come from the same report and are comparable.
                if ended.stopped_early && self.epochs().is_none() {
                    fidelity = Fidelity::Partial;
                }
                // As in the service, the search learns from the predicted final value.
                if let Some(FinalPrediction { value, deviation }) = ended.predicted_final {
                    (values, fidelity) = (vec![value], Fidelity::Predicted { deviation });
                }
                TrialOutcome::Measured { values, fidelity }
            }
            _ => TrialOutcome::Infeasible,
        };
        if ended.stopped_early {
            self.record.stopped_early.push(self.record.results.len());
        }
        let replaces = ended.resumed && self.epochs().is_none();
        if replaces {
            self.record.resumed.push(self.record.results.len());
        }
        let noiseless = ended.noiseless.filter(|_| feasible);
        self.record.results.push(noiseless.map(|values| self.recorded(&values)));
        self.record.ended_secs.push(round_to(self.running.now_secs(), 6));
        if self.plan.keep_points {
            self.record.points.push(ended.point.clone());
        }
        let trial = CompletedTrial { id: ended.trial, parameters: ended.point.clone(), outcome };
        self.choose(&trial, replaces);
        if ended.resumed && self.epochs().is_some() {
            return Ok(());
        }
        if ended.values.is_some() {
            let predicted_final = ended.predicted_final.map(|predicted| predicted.value);
            let stopped = ended.whole.map(|whole| Stopped { point: ended.point, whole, predicted_final });
            self.curves.insert(ended.trial, ended.reports, stopped);
        }
        let before = (self.plan.now)();
        let answer = optimizer.complete(&TrialResult { trial, values: ended.values, constraints: ended.constraints });
        self.spent += (self.plan.now)().saturating_sub(before);
        answer
    }

    /// Records the trials a user would pick, at the checkpoints of the reports. The last result is of `trial`, in place of
    /// an earlier one if it `replaces` that.
    fn choose(&mut self, trial: &CompletedTrial, replaces: bool) {
        let profile = self.problem.profile();
        if !profile.is_noisy || profile.statement.metrics().len() != 1 {
            return;
        }
        let last = self.record.results.len() - 1;
        if let Some(place) = self.completed.iter().position(|other| replaces && other.id == trial.id) {
            self.completed[place] = trial.clone();
            self.completed_at[place] = last;
            return;
        }
        self.completed.push(trial.clone());
        self.completed_at.push(last);
        if CHECKPOINTS.contains(&self.completed.len()) {
            let found = chosen(&profile.statement, &self.completed);
            self.record.chosen.extend(found.map(|Chosen { after, observed, recommended }| {
                let at = |place: usize| self.completed_at[place];
                Chosen { after, observed: at(observed), recommended: recommended.map(at) }
            }));
        }
    }

    fn recorded(&self, values: &[f64]) -> ResultValue {
        match (values, &self.record.quality) {
            ([value], Quality::Value { best_known }) => ResultValue::One(rounded(*value, *best_known)),
            _ => ResultValue::Many(values.iter().map(|value| rounded(*value, None)).collect()),
        }
    }
}

/// Rounds `value` to the fewest digits within a millionth of its distance from `best_known` (or from 0), because files
/// contain tens of thousands of results.
fn rounded(value: f64, best_known: Option<f64>) -> f64 {
    let distance = (value - best_known.unwrap_or(0.0)).abs();
    if distance == 0.0 || !distance.is_finite() {
        return value;
    }
    let digits = 6 - distance.log10().floor() as i32;
    let short = round_to(value, digits);
    // Near f64 precision the rounding error can exceed that bound.
    if (short - value).abs() <= distance * 1e-6 { short } else { value }
}

/// Rounds to `digits` decimals through text, for the shortest decimal representation.
fn round_to(value: f64, digits: i32) -> f64 {
    let digits = usize::try_from(digits.max(0)).unwrap_or(0);
    format!("{value:.digits$}").parse().unwrap_or(value)
}

/// Milliseconds with three significant digits, at least a microsecond: finer wall times are not reproducible.
fn milliseconds(duration: Duration) -> f64 {
    let milliseconds = duration.as_secs_f64() * 1e3;
    if milliseconds >= 1000.0 {
        return round_to(milliseconds, 0);
    }
    let digits = 2 - milliseconds.log10().floor().max(-1.0) as i32;
    round_to(milliseconds, digits)
}
