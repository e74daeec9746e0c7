//! Rules of early stopping in jobs: beside constraints, and what the summary of a job states about them.

use tunesmith_testing::Workspace;

/// Trials x = 1 to 7, one after the other.
fn workspace(more: &str, tunesmith: &str) -> Workspace {
    Workspace::new(&format!(
        "
hyperparameters:
  goal: MINIMIZE
  hyperparameterMetricTag: loss
  maxTrials: 7
  algorithm: GRID_SEARCH
  enableTrialEarlyStopping: true
  params:
    - {{parameterName: x, type: INTEGER, minValue: 1, maxValue: 7}}
{more}
tunesmith: {{metricFromStdout: true, trialTimeLimit: 60s, {tunesmith}}}
"
    ))
}

/// The first trial has by far the best loss and violates the constraint. The others are alike, and the last one is worse than
/// they are: it runs until it is stopped.
const WITH_CONSTRAINT: &str = r#"x="${1#--x=}"
for step in 1 2 3 4; do
  case $x in
    1) echo "latency=50 step=$step"; echo "loss=0.00$step step=$step";;
    7) [ $step -gt 2 ] || { echo "latency=5 step=$step"; echo "loss=9 step=$step"; };;
    *) echo "latency=5 step=$step"; echo "loss=0.$((60 - x - step)) step=$step";;
  esac
done
if [ "$x" = 7 ]; then exec tail -f /dev/null; fi
"#;

#[test]
fn constraints_are_no_obstacle_and_trials_that_violate_them_no_measure() {
    let constraint = "metrics: [{metric: latency, goal: MINIMIZE, safetyConfig: {safetyThreshold: 7}}]";
    let workspace = workspace("", constraint);
    workspace.write("train.sh", WITH_CONSTRAINT);
    let run = workspace.run(["--job-id", "j", "--", "sh", "train.sh"]).expect(0);
    let stopped: Vec<String> = workspace.column("stopped_early");
    assert_eq!(stopped, ["false", "false", "false", "false", "false", "false", "true"], "{}", run.stderr);
    // The best value is that of trial 6, and not of trial 1.
    let reason = run.stderr.lines().find(|line| line.contains("trial 7 is stopped early")).unwrap().to_owned();
    assert!(reason.contains("to beat the best, 0.5"), "{reason}");
    assert!(
        run.stdout.contains("best: trial 6 with loss=0.5") && !run.stdout.contains("stopped no trial"),
        "{}",
        run.stdout
    );
}

#[test]
fn second_objective_is_refused_with_early_stopping() {
    let workspace = workspace("", "metrics: [{metric: size, goal: MINIMIZE}, {metric: latency, safetyConfig: {}}]");
    let refused = workspace.run(["--", "true"]).expect(2);
    let text = "trials are compared by one metric, and tunesmith.metrics adds 1";
    assert!(refused.stderr.contains(text), "{}", refused.stderr);
}

#[test]
fn rule_that_stopped_no_trial_states_why() {
    let summary = |tunesmith: &str, script: &str| {
        let workspace = workspace("", tunesmith);
        workspace.run(["--job-id", "j", "--", "sh", "-c", script, "trainer"]).expect(0).stdout
    };
    let falling = r#"for step in 1 2 3 4 5 6; do echo "loss=$((9 - step)).${1#--x=} step=$step"; done"#;
    let text = summary("earlyStopping: MEDIAN", falling);
    let expected =
        "MEDIAN stopped no trial: each trial was at its best at least as good as the median of the others on average\n";
    assert!(text.contains(expected), "{text}");
    let text = summary("earlyStopping: DECAY_CURVE", r#"echo "loss=${1#--x=}""#);
    let expected =
        "DECAY_CURVE stopped no trial: no trial reported more than once, and it decides after that, before the end\n";
    assert!(text.contains(expected), "{text}");
    let text = summary("earlyStopping: MEDIAN, earlyStoppingSettings: {minTrials: 20}", falling);
    let expected = "MEDIAN stopped no trial: it decides after 20 trials with a result, and there were 7 trials\n";
    assert!(text.contains(expected), "{text}");
}
