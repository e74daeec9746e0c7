//! Hints about valid but probably unintended settings.

use super::HptuningConfig;
use tunesmith_algorithms::designers::GridSearch;
use tunesmith_api::ai_platform::TuningSpec;
use tunesmith_domain::{Algorithm, StoppingRule};

const TRIALS_PER_PARAMETER: usize = 10;

/// Hints about `config` on a machine with `processors` processors. `parallel` is the number of concurrent trials from
/// the command line, and overrides the configuration.
pub fn hints(config: &HptuningConfig, processors: usize, parallel: Option<u64>) -> Vec<String> {
    let Some(tuning) = &config.study else { return Vec::new() };
    let mut hints = Vec::new();
    hints.extend(number_of_trials(config, tuning));
    hints.extend(number_of_points(tuning));
    hints.extend(early_stopping(tuning));
    let parallel = parallel.unwrap_or(tuning.max_parallel_trials.into()).min(tuning.max_trials.into());
    if usize::try_from(parallel).is_ok_and(|parallel| parallel > processors) {
        let noun = if processors == 1 { "processor" } else { "processors" };
        hints.push(format!(
            "{parallel} trials run at once, but this machine has {processors} {noun}: trials that compute on processors \
             slow each other down; set maxParallelTrials or --parallel to {processors} or less"
        ));
    }
    hints
}

fn number_of_trials(config: &HptuningConfig, tuning: &TuningSpec) -> Option<String> {
    let parameters = tuning.study.problem.search_space().parameters().len();
    let points = number_in_space(tuning).unwrap_or(u128::MAX);
    if tuning.max_trials > 1 || points == 1 {
        return None;
    }
    let is_given = config.training_input.hyperparameters.as_ref().is_some_and(|spec| spec.max_trials == Some(1));
    let origin = if is_given { "maxTrials is 1" } else { "maxTrials is missing and defaults to 1" };
    let usual = parameters * TRIALS_PER_PARAMETER;
    Some(format!("{origin}: one point is tried and nothing is tuned; {usual} trials are a usual start for this space"))
}

fn number_of_points(tuning: &TuningSpec) -> Option<String> {
    let points = number_in_space(tuning)?;
    let trials = tuning.max_trials;
    if points >= u128::from(trials) {
        return None;
    }
    let (what, more) = match tuning.study.algorithm {
        Algorithm::GridSearch { .. } => ("the grid", " or raise tunesmith.doubleResolution"),
        _ => ("the search space", ""),
    };
    let noun = if points == 1 { "point" } else { "points" };
    Some(format!(
        "maxTrials is {trials}, but {what} has only {points} {noun}: the job ends after {points} trials; to try more, \
         add values{more}"
    ))
}

/// Number of points available to the algorithm; `None` if infinite or very large.
fn number_in_space(tuning: &TuningSpec) -> Option<u128> {
    match &tuning.study.algorithm {
        Algorithm::GridSearch { double_resolution } => {
            GridSearch::new(&tuning.study.problem, double_resolution).ok()?.size()
        }
        _ => tuning.study.problem.search_space().cardinality().map(u128::from),
    }
}

/// Hint about a rule that cannot stop anything.
fn early_stopping(tuning: &TuningSpec) -> Option<String> {
    let (name, needed) = match tuning.study.stopping_rule? {
        StoppingRule::Median(rule) => ("MEDIAN", rule.min_completed()),
        StoppingRule::DecayCurve(rule) => ("DECAY_CURVE", rule.min_finished()),
        StoppingRule::Asha(_) => return None,
    };
    let needed = u32::try_from(needed).unwrap_or(u32::MAX);
    (tuning.max_trials <= needed).then(|| {
        format!(
            "enableTrialEarlyStopping has no effect with maxTrials {}: {name} stops nothing before {needed} {} completed",
            tuning.max_trials,
            if needed == 1 { "trial has" } else { "trials have" }
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: &str = "[{parameterName: x, type: INTEGER, minValue: 1, maxValue: 3}]";
    const REAL: &str = "[{parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}, {parameterName: y, type: DOUBLE, minValue: 0, maxValue: 1}]";

    fn of(more: &str, params: &str, tunesmith: &str, processors: usize, parallel: Option<u64>) -> Vec<String> {
        let text = format!(
            "hyperparameters: {{goal: MAXIMIZE, params: {params}{more}}}\ntunesmith: {{metricFromStdout: true{tunesmith}}}\n"
        );
        let config = crate::parse("config.yaml", &text).unwrap_or_else(|error| panic!("{error}"));
        hints(&config, processors, parallel)
    }

    #[track_caller]
    fn one(hints: Vec<String>, start: &str) {
        assert!(hints.len() == 1 && hints[0].starts_with(start), "{hints:?}");
    }

    #[test]
    fn usual_settings_have_no_hints() {
        assert_eq!(of(", maxTrials: 20, maxParallelTrials: 2", REAL, "", 2, None), Vec::<String>::new());
        assert_eq!(of(", maxTrials: 3", THREE, "", 1, None), Vec::<String>::new());
        let config = crate::parse("config.yaml", "args: [a]").unwrap();
        assert_eq!(hints(&config, 1, None), Vec::<String>::new());
    }

    #[test]
    fn one_trial_tunes_nothing() {
        one(
            of("", REAL, "", 2, None),
            "maxTrials is missing and defaults to 1: one point is tried and nothing is tuned; 20",
        );
        one(of(", maxTrials: 1", REAL, "", 2, None), "maxTrials is 1: one point");
    }

    #[test]
    fn space_or_grid_with_fewer_points_than_trials_ends_the_job_early() {
        one(
            of(", maxTrials: 10", THREE, "", 2, None),
            "maxTrials is 10, but the search space has only 3 points: the job ends after 3 trials",
        );
        let grid = ", maxTrials: 10, algorithm: GRID_SEARCH";
        one(
            of(grid, REAL, ", doubleResolution: {x: 3, y: 2}", 2, None),
            "maxTrials is 10, but the grid has only 6 points: the job ends after 6 trials; to try more, add values or raise",
        );
    }

    #[test]
    fn rule_that_needs_more_trials_than_there_are_has_no_effect() {
        let stopping = ", maxTrials: 20, enableTrialEarlyStopping: true";
        for rule in ["", ", earlyStopping: MEDIAN", ", earlyStopping: ASHA"] {
            assert_eq!(of(stopping, REAL, rule, 2, None), Vec::<String>::new());
        }
        for (rule, name, trials) in [("", "DECAY_CURVE", 3), (", earlyStopping: MEDIAN", "MEDIAN", 5)] {
            let stopping = format!(", maxTrials: {trials}, enableTrialEarlyStopping: true");
            let reason = format!("{name} stops nothing before {trials} trials have completed");
            let expected = format!("enableTrialEarlyStopping has no effect with maxTrials {trials}: {reason}");
            one(of(&stopping, REAL, rule, 2, None), &expected);
        }
    }

    #[test]
    fn more_trials_at_once_than_processors_slow_each_other_down() {
        let parallel = ", maxTrials: 20, maxParallelTrials: 8";
        one(of(parallel, REAL, "", 4, None), "8 trials run at once, but this machine has 4 processors");
        assert_eq!(of(parallel, REAL, "", 4, Some(4)), Vec::<String>::new());
        one(of(", maxTrials: 2", REAL, "", 1, Some(100)), "2 trials run at once, but this machine has 1 processor:");
    }
}
