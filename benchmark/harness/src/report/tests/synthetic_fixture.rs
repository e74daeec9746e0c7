//! Synthetic records for the tests of reports: three optimizers, eight problems, five seeds.

use tunesmith_algorithms::problem::Goal;
use tunesmith_benchmark::analysis::{AnalysisOptions, Comparison, compare_optimizers};
use tunesmith_benchmark::problem::Quality;
use tunesmith_benchmark::record::{Failure, Mode, ResultValue, RunKey, RunRecord, Schedule};

use super::ReportMeta;

/// Evaluations per run.
const BUDGET: usize = 50;

/// Optimizer `gp` gains most with each evaluation, then `tpe`, then `random`; one run of `tpe` failed.
pub(super) fn records() -> Vec<RunRecord> {
    let mut records = Vec::new();
    let optimizers = [("gp<b>&", 0.11, 4.0), ("tpe|fast", 0.07, 1.5), ("random", 0.03, 0.02)];
    for (optimizer, (name, rate, milliseconds)) in optimizers.into_iter().enumerate() {
        for problem in 1..=8 {
            for seed in 1..=5 {
                records.push(run(name, optimizer, rate, milliseconds, problem, seed));
            }
        }
    }
    let failed = &mut records[50];
    failed.results.truncate(20);
    failed.failure = Some(Failure::Failed("ended with exit code 3: <script>alert(1)</script>".to_owned()));
    records
}

fn run(name: &str, optimizer: usize, rate: f64, milliseconds: f64, problem: usize, seed: u64) -> RunRecord {
    let value = |trial: usize| {
        // Deterministic number in [0, 1): the fractional part of multiples of the golden ratio.
        let key = (optimizer * 10_007 + problem * 1009 + seed as usize * 101 + trial * 13) as f64;
        let noise = (key * 0.618_033_988_749_895).fract();
        10f64.powf(1.5 + 2.0 * noise - rate * trial as f64 * (0.6 + 0.1 * problem as f64))
    };
    RunRecord {
        key: RunKey {
            suite: "bbob".to_owned(),
            problem: format!("f{problem:02}/d{:02}", dimension(problem)),
            seed,
            optimizer: name.to_owned(),
            budget: BUDGET,
            schedule: Schedule {
                parallel: 1,
                mode: Mode::Sequential,
                initial_points: 0,
                early_stopping: None,
                time_limit_secs: None,
            },
        },
        parameters: dimension(problem),
        goals: vec![Goal::Minimize],
        quality: Quality::Value { best_known: Some(0.0) },
        results: (0..BUDGET).map(|trial| Some(ResultValue::One(value(trial)))).collect(),
        ended_secs: (1..=BUDGET).map(|trial| trial as f64).collect(),
        suggest_ms: (0..BUDGET).map(|trial| milliseconds * (1.0 + trial as f64 / 10.0)).collect(),
        stopped_early: Vec::new(),
        resumed: Vec::new(),
        points: Vec::new(),
        chosen: Vec::new(),
        failure: None,
        version: None,
        resolution: None,
    }
}

/// Four problems have 2 parameters, four have 5.
fn dimension(problem: usize) -> usize {
    if problem <= 4 { 2 } else { 5 }
}

pub(super) fn options() -> AnalysisOptions {
    AnalysisOptions { checkpoints: vec![25, 50], resamples: 200, ..AnalysisOptions::default() }
}

pub(super) fn comparison() -> Comparison {
    compare_optimizers(&records(), &options()).unwrap()
}

pub(super) fn meta() -> ReportMeta {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    ReportMeta {
        title: "Synthetic <optimizers>".to_owned(),
        commands: vec!["tunesmith bench --suite bbob --dims 2,5 --budget 50 --seeds 5 --out synthetic".to_owned()],
        versions: vec![pair("tunesmith", "0.1.0"), pair("optuna", "4.0.0")],
        machine: vec![pair("processor", "2 cores"), pair("memory", "4 GiB")],
        notes: vec!["Numbers of no meaning & no use.".to_owned()],
    }
}
