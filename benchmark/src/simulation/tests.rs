use std::cell::Cell;

use tunesmith_algorithms::early_stopping::StoppingRuleKind;
use tunesmith_algorithms::problem::{
    Goal, MetricSpec, ParameterKind, ParameterSpec, ParameterValue, ProblemStatement, ScaleType, SearchSpace,
};

use super::*;
use crate::early_stopping::EarlyStopping;
use crate::problem::{CurvePoint, Evaluation, Profile};

/// Whole numbers 1 to 100; value and duration are the number. Trials report four times.
struct Numbers {
    profile: Profile,
}

impl Numbers {
    fn new(max: i64) -> Self {
        let kind = ParameterKind::Integer { min: 1, max, scale: ScaleType::UnitLinear };
        let space = SearchSpace::new(vec![ParameterSpec::new("k", kind).unwrap()]).unwrap();
        let metrics = vec![MetricSpec { name: "objective".into(), goal: Goal::Minimize }];
        let statement = ProblemStatement::new(space, metrics).unwrap();
        Self { profile: Profile::new("numbers", statement, Quality::Value { best_known: Some(1.0) }) }
    }
}

impl Problem for Numbers {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn evaluate(&self, point: &ParameterValues, _: Draw) -> Evaluation {
        let Some(ParameterValue::Integer(k)) = point.get("k") else { panic!("not a point: {point:?}") };
        let value = *k as f64;
        let report = |step: u32| {
            let part = f64::from(step) / 5.0;
            CurvePoint { step: u64::from(step), elapsed_secs: value * part, value: value + 5.0 - f64::from(step) }
        };
        Evaluation { duration_secs: value, curve: (1..=5).map(report).collect(), ..Evaluation::exact(value) }
    }
}

/// Suggests the values of a list and records the requests and results.
#[derive(Default)]
struct Scripted {
    numbers: Vec<i64>,
    requested: Vec<usize>,
    completed: Vec<u64>,
    learned: Vec<f64>,
    refuse_after: Option<usize>,
}

impl Optimizer for Scripted {
    fn create(&mut self, _: &StudyRequest) -> Result<(), OptimizerError> {
        Ok(())
    }

    fn suggest(&mut self, trials: &[TrialId]) -> Result<Vec<ParameterValues>, OptimizerError> {
        if self.refuse_after.is_some_and(|limit| self.requested.len() >= limit) {
            return Err(OptimizerError::Failed { reason: "no more".into() });
        }
        self.requested.push(trials.len());
        let taken = trials.len().min(self.numbers.len());
        let point = |k| ParameterValues::from([("k".to_owned(), ParameterValue::Integer(k))]);
        Ok(self.numbers.drain(..taken).map(point).collect())
    }

    fn complete(&mut self, result: &TrialResult) -> Result<(), OptimizerError> {
        self.completed.push(result.trial.id.0);
        if let TrialOutcome::Measured { values, .. } = &result.trial.outcome {
            self.learned.extend(values);
        }
        Ok(())
    }
}

fn scripted(numbers: &[i64]) -> Scripted {
    Scripted { numbers: numbers.to_vec(), ..Scripted::default() }
}

fn key(budget: usize, parallel: usize, mode: Mode) -> RunKey {
    let schedule = Schedule { parallel, mode, initial_points: 0, early_stopping: None, time_limit_secs: None };
    let (suite, problem, optimizer) = ("test".into(), "numbers".into(), "scripted".into());
    RunKey { suite, problem, seed: 1, optimizer, budget, schedule }
}

fn run(optimizer: &mut dyn Optimizer, key: &RunKey) -> RunRecord {
    let clock = Cell::new(0);
    let now = || {
        clock.set(clock.get() + 1);
        Duration::from_millis(clock.get())
    };
    simulate(&Numbers::new(100), optimizer, &Plan { key, keep_points: false, now: &now })
}

fn values(record: &RunRecord) -> Vec<f64> {
    let value = |result: &Option<ResultValue>| match result {
        Some(ResultValue::One(value)) => *value,
        other => panic!("{other:?} is not one value"),
    };
    record.results.iter().map(value).collect()
}

#[test]
fn sequential_trials_run_one_after_the_other() {
    let mut optimizer = scripted(&[7, 3, 5]);
    let record = run(&mut optimizer, &key(3, 1, Mode::Sequential));
    assert_eq!(values(&record), [7.0, 3.0, 5.0]);
    assert_eq!(record.ended_secs, [7.0, 10.0, 15.0]);
    // The clock advances once per call: once for each suggestion, once more for the result before it.
    assert_eq!(record.suggest_ms, [1.0, 2.0, 2.0]);
    assert_eq!(record.failure, None);
}

#[test]
fn a_batch_ends_with_its_slowest_trial() {
    let mut optimizer = scripted(&[7, 3, 5, 1]);
    let record = run(&mut optimizer, &key(4, 3, Mode::Batch));
    assert_eq!(optimizer.requested, [3, 1]);
    assert_eq!(values(&record), [3.0, 5.0, 7.0, 1.0]);
    assert_eq!(record.ended_secs, [3.0, 5.0, 7.0, 8.0]);
}

#[test]
fn asynchronous_trials_start_when_a_running_trial_ends() {
    let mut optimizer = scripted(&[7, 3, 5, 1]);
    let record = run(&mut optimizer, &key(4, 2, Mode::Asynchronous));
    // Trial 3 starts at 3 s. Trial 1 ends at 7 s, trials 3 and 4 both at 8 s.
    assert_eq!(optimizer.requested, [1, 1, 1, 1]);
    assert_eq!(optimizer.completed, [2, 1, 3, 4]);
    assert_eq!(record.ended_secs, [3.0, 7.0, 8.0, 8.0]);
}

#[test]
fn a_run_ends_when_the_space_is_exhausted_or_the_optimizer_fails() {
    let record = run(&mut scripted(&[7]), &key(4, 2, Mode::Asynchronous));
    assert_eq!((values(&record), record.failure), (vec![7.0], None));

    let mut optimizer = Scripted { refuse_after: Some(2), ..scripted(&[7, 3, 5]) };
    let record = run(&mut optimizer, &key(3, 1, Mode::Sequential));
    assert_eq!(values(&record), [7.0, 3.0]);
    assert_eq!(record.failure, Some(Failure::Failed("no more".into())));

    let record = run(&mut scripted(&[7, 101]), &key(3, 1, Mode::Sequential));
    assert_eq!(values(&record), [7.0]);
    let Some(Failure::Failed(reason)) = record.failure else { panic!("it left the space") };
    assert_eq!(
        reason,
        "its point for trial 2 is outside the space: value 101 of parameter \"k\" lies outside the search space"
    );
}

#[test]
fn initial_points_are_equal_for_all_optimizers_and_reported_with_their_results() {
    let mut key = key(5, 1, Mode::Sequential);
    key.schedule.initial_points = 3;
    let (mut first, mut second) = (scripted(&[1, 2]), scripted(&[3, 4]));
    let (a, b) = (run(&mut first, &key), run(&mut second, &key));
    assert_eq!(values(&a)[..3], values(&b)[..3]);
    assert_eq!(values(&a)[3..], [1.0, 2.0]);
    assert_eq!(first.completed, [1, 2, 3, 4, 5]);
    assert_eq!(first.requested, [1, 1]);
}

#[test]
fn the_median_rule_stops_a_trial_and_keeps_its_last_report() {
    let mut key = key(6, 1, Mode::Sequential);
    key.schedule.early_stopping = Some(EarlyStopping::Rule(StoppingRuleKind::Median));
    let mut optimizer = scripted(&[10, 10, 10, 10, 10, 90]);
    let record = run(&mut optimizer, &key);
    // The rule requires five completed trials and four reports: the sixth trial is stopped at its fourth of five
    // reports.
    assert_eq!(record.stopped_early, [5]);
    assert_eq!(values(&record)[5], 91.0);
    assert_eq!(record.ended_secs[5], 50.0 + 72.0);
    // All trials end 1 below their fourth report, and the search learns that.
    assert_eq!(optimizer.learned[5], 90.0);
}

#[test]
fn successive_halving_stops_a_trial_at_the_first_rung() {
    let mut key = key(3, 1, Mode::Sequential);
    key.schedule.early_stopping = Some(EarlyStopping::Rule(StoppingRuleKind::Asha));
    let record = run(&mut scripted(&[10, 10, 90]), &key);
    // Of three trials one passes step 1. The others had 14 there and this one 94.
    assert_eq!(record.stopped_early, [2]);
    assert_eq!(values(&record)[2], 94.0);
    assert_eq!(record.ended_secs[2], 20.0 + 18.0);
}

#[test]
fn successive_halving_counts_running_trials() {
    let mut key = key(3, 3, Mode::Asynchronous);
    key.schedule.early_stopping = Some(EarlyStopping::Rule(StoppingRuleKind::Asha));
    let record = run(&mut scripted(&[10, 12, 90]), &key);
    // No trial has ended when trial 3 reports step 1, but both others have passed it.
    assert_eq!(record.stopped_early.len(), 1);
    assert_eq!(values(&record), [10.0, 12.0, 94.0]);
}

#[test]
fn the_decay_curve_rule_requires_five_completed_trials() {
    let mut key = key(7, 1, Mode::Sequential);
    key.schedule.early_stopping = Some(EarlyStopping::Rule(StoppingRuleKind::DecayCurve));
    let mut optimizer = scripted(&[10, 10, 90, 10, 10, 90, 9]);
    let record = run(&mut optimizer, &key);
    // Trial 6 is stopped at its first report. Trial 7 starts and ends below all others.
    assert_eq!(record.stopped_early, [5]);
    assert_eq!(values(&record)[5], 94.0);
    assert_eq!(record.ended_secs[5], 130.0 + 18.0);
    // All trials end 4 below their first report, and the search learns that.
    assert_eq!(optimizer.learned[5], 90.0);
}

#[test]
fn the_best_trials_go_on_after_all_have_stopped_at_the_same_report() {
    let mut key = key(5, 1, Mode::Sequential);
    key.schedule.early_stopping = "i_epoch:2:2".parse().ok();
    let mut optimizer = scripted(&[50, 10, 90, 20]);
    let record = run(&mut optimizer, &key);
    // Three trials stop at their second report of five, 3 above their last value; then the best two resume.
    assert_eq!(values(&record), [53.0, 13.0, 93.0, 10.0, 50.0]);
    assert_eq!(record.stopped_early, [0, 1, 2]);
    // Two fifths of 50, 10 and 90 seconds, then three fifths of 10 and 50.
    assert_eq!(record.ended_secs, [20.0, 24.0, 60.0, 66.0, 96.0]);
    assert_eq!(optimizer.completed, [1, 2, 3], "the search learns of each trial once");
}

#[test]
fn trials_that_go_on_run_at_once() {
    let mut key = key(4, 2, Mode::Asynchronous);
    key.schedule.early_stopping = "i_epoch:1:2".parse().ok();
    let record = run(&mut scripted(&[50, 10]), &key);
    assert_eq!(values(&record), [14.0, 54.0, 10.0, 50.0]);
    assert_eq!(record.ended_secs, [2.0, 10.0, 18.0, 50.0]);
}

#[test]
fn rounding_keeps_the_gap_to_the_optimum() {
    assert_eq!(rounded(79.481_234_567_891, Some(79.48)), 79.481_234_568);
    assert_eq!(rounded(123.456_789, None), 123.4568);
    assert_eq!(rounded(0.0, None), 0.0);
    assert_eq!(rounded(1e-12, Some(0.0)), 1e-12);
    assert_eq!(rounded(-1.234_567_89e9, None), -1_234_567_890.0);
}

#[test]
fn a_run_ends_at_its_time_limit() {
    let mut key = key(9, 1, Mode::Sequential);
    key.schedule.time_limit_secs = Some(15);
    let mut optimizer = scripted(&[7, 3, 5, 9]);
    let record = run(&mut optimizer, &key);
    assert_eq!((values(&record), record.failure), (vec![7.0, 3.0, 5.0], None));
    assert_eq!(optimizer.numbers, [9], "no trial starts at the limit");
    // The second trial would end at 17 s.
    let record = run(&mut scripted(&[7, 10]), &key);
    assert_eq!(record.ended_secs, [7.0]);
}

#[test]
fn i_epoch_leaves_time_for_the_trials_that_resume() {
    let mut key = key(50, 1, Mode::Sequential);
    key.schedule.early_stopping = "i_epoch:2:2".parse().ok();
    key.schedule.time_limit_secs = Some(24);
    let record = run(&mut scripted(&[10; 50]), &key);
    // Three trials take four seconds each, and two of them six more.
    assert_eq!(record.ended_secs, [4.0, 8.0, 12.0, 18.0, 24.0]);
    assert_eq!(record.stopped_early, [0, 1, 2]);
}

#[test]
fn an_optimizer_stops_trials_by_their_reports() {
    struct Stopping(Scripted);
    impl Optimizer for Stopping {
        fn create(&mut self, study: &StudyRequest) -> Result<(), OptimizerError> {
            self.0.create(study)
        }
        fn suggest(&mut self, trials: &[TrialId]) -> Result<Vec<ParameterValues>, OptimizerError> {
            self.0.suggest(trials)
        }
        fn complete(&mut self, result: &TrialResult) -> Result<(), OptimizerError> {
            self.0.complete(result)
        }
        fn report(&mut self, report: &TrialReport) -> Result<bool, OptimizerError> {
            Ok(report.step == 3 && report.value > 50.0)
        }
    }
    let mut key = key(2, 1, Mode::Sequential);
    key.schedule.early_stopping = Some(EarlyStopping::Optimizer);
    let record = run(&mut Stopping(scripted(&[10, 90])), &key);
    assert_eq!((values(&record), record.stopped_early), (vec![10.0, 92.0], vec![1]));
    let record = run(&mut scripted(&[10, 90]), &key);
    let reason = "it has no early stopping of its own".to_owned();
    assert_eq!(record.failure, Some(Failure::Unsupported(reason)));
}

#[test]
fn hyperband_compares_trials_within_their_brackets() {
    let mut key = key(60, 1, Mode::Sequential);
    key.schedule.early_stopping = Some(EarlyStopping::Hyperband);
    let record = run(&mut scripted(&(20..80).collect::<Vec<_>>()), &key);
    // Each trial is worse than all before it: of each bracket, the first two at each rung at most pass.
    let stopped = record.stopped_early.len();
    assert!((50..60).contains(&stopped), "{stopped}");
    assert!(!record.stopped_early.contains(&0));
}

#[test]
fn a_stopped_trial_resumes_when_the_rule_would_no_longer_stop_it() {
    let mut key = key(7, 1, Mode::Sequential);
    key.schedule.early_stopping = "median:resume".parse().ok();
    let mut optimizer = scripted(&[10, 10, 10, 20, 20, 12, 90]);
    let record = run(&mut optimizer, &key);
    // At the fourth report the sixth trial has 13, and the median of the means of the others is 12.5. With the seventh
    // trial it is 17.5: the sixth one takes the time of its last report, although the budget is spent.
    assert_eq!(values(&record), [10.0, 10.0, 10.0, 20.0, 20.0, 13.0, 91.0, 12.0]);
    assert_eq!((&*record.stopped_early, &*record.resumed), (&[5, 6][..], &[7][..]));
    assert_eq!(record.ended_secs[5..], [79.6, 151.6, 154.0]);
    assert_eq!(optimizer.completed, [1, 2, 3, 4, 5, 6, 7, 6]);
    assert_eq!(optimizer.learned.last(), Some(&12.0));
    assert_eq!(optimizer.requested.len(), 7);
}

#[test]
fn the_rule_watches_a_trial_that_has_resumed() {
    let mut key = key(7, 1, Mode::Sequential);
    key.schedule.early_stopping = "asha:resume".parse().ok();
    let record = run(&mut scripted(&[10, 12, 11, 90, 90, 90, 90]), &key);
    // The third trial is one of the best two of six at step 1, and not the best of three at step 3.
    assert_eq!(values(&record), [10.0, 12.0, 15.0, 94.0, 94.0, 94.0, 13.0, 94.0]);
    assert_eq!((&*record.stopped_early, &*record.resumed), (&[2, 3, 4, 5, 6, 7][..], &[6][..]));
    assert_eq!(record.ended_secs, [10.0, 22.0, 24.2, 42.2, 60.2, 78.2, 82.6, 100.6]);
}

#[test]
fn stopped_trials_resume_first_in_a_batch() {
    let mut key = key(14, 5, Mode::Batch);
    key.schedule.early_stopping = "median:resume".parse().ok();
    let mut optimizer = scripted(&[10, 10, 10, 20, 20, 12, 90, 90, 90, 90, 9, 9, 9, 9]);
    let record = run(&mut optimizer, &key);
    assert_eq!(optimizer.requested, [5, 5, 4]);
    // The trials of 9 s end after the last report of the one that resumes, whose whole time is 12 s.
    assert_eq!(values(&record)[10..], [12.0, 9.0, 9.0, 9.0, 9.0]);
    assert_eq!(record.resumed, [10]);
    assert_eq!(record.ended_secs[10..], [94.4, 101.0, 101.0, 101.0, 101.0]);
}

#[test]
fn a_trial_that_resumes_is_chosen_by_its_last_result() {
    let mut problem = Numbers::new(100);
    problem.profile.is_noisy = true;
    let mut key = key(25, 1, Mode::Sequential);
    key.schedule.early_stopping = "median:resume".parse().ok();
    let mut numbers = vec![20, 20, 20, 40, 40, 22, 90, 5];
    numbers.extend([50; 17]);
    let plan = Plan { key: &key, keep_points: false, now: &|| Duration::ZERO };
    let record = simulate(&problem, &mut scripted(&numbers), &plan);
    // The sixth trial resumes after the seventh one, so the eighth one, the best, has the ninth result.
    assert_eq!(values(&record)[5..9], [23.0, 91.0, 22.0, 5.0]);
    assert_eq!(record.resumed[0], 7);
    let chosen: Vec<_> = record.chosen.iter().map(|chosen| (chosen.after, chosen.observed)).collect();
    assert_eq!(chosen, [(25, 8)]);
}
