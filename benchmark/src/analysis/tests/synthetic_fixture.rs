use tunesmith_algorithms::problem::Goal;

use crate::problem::Quality;
use crate::record::{Mode, ResultValue, RunKey, RunRecord, Schedule};

/// Sequential run of the suite `synthetic` with 2 parameters, goal Minimize, optimum 0, one second per trial and 2 ms
/// per suggestion.
pub(super) fn record(optimizer: &str, problem: &str, seed: u64, values: &[f64]) -> RunRecord {
    RunRecord {
        key: RunKey {
            suite: "synthetic".to_owned(),
            problem: problem.to_owned(),
            seed,
            optimizer: optimizer.to_owned(),
            budget: values.len(),
            schedule: Schedule {
                parallel: 1,
                mode: Mode::Sequential,
                initial_points: 0,
                early_stopping: None,
                time_limit_secs: None,
            },
        },
        parameters: 2,
        goals: vec![Goal::Minimize],
        quality: Quality::Value { best_known: Some(0.0) },
        results: values.iter().map(|&value| Some(ResultValue::One(value))).collect(),
        ended_secs: (1..=values.len()).map(|trial| trial as f64).collect(),
        suggest_ms: vec![2.0; values.len()],
        stopped_early: Vec::new(),
        resumed: Vec::new(),
        points: Vec::new(),
        chosen: Vec::new(),
        failure: None,
        version: None,
        resolution: None,
    }
}
