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

/// Losses at step 1: successive halving stops trials 4 to 7 there, which run until they are stopped. After six trials, two
/// pass, and trial 4 is the second. A trial that finds its checkpoint continues with step 2.
const WITH_CHECKPOINTS: &str = r#"for argument in "$@"; do
  case $argument in --x=*) x="${argument#--x=}";; --folder=*) folder="${argument#--folder=}";; esac
done
if [ -e "$folder/checkpoint" ]; then
  echo "loss=0.5 step=2"
  exit 0
fi
case $x in 1) loss=9;; 2) loss=8;; 3) loss=1;; 4) loss=2;; 5) loss=7;; 6) loss=6;; 7) loss=7.5;; esac
mkdir -p "$folder"
touch "$folder/checkpoint"
echo "loss=$loss step=1"
if [ "$x" -gt 3 ]; then exec tail -f /dev/null; fi
echo "loss=$loss step=2"
"#;

#[test]
fn stopped_trial_goes_on_from_its_checkpoint_once_the_rule_would_not_stop_it() {
    let rule = "earlyStopping: ASHA, jobDirFlag: folder";
    let run = |more: &str| {
        let workspace = workspace("", &format!("{rule}{more}"));
        workspace.write("train.sh", WITH_CHECKPOINTS);
        let run = workspace.run(["--job-id", "j", "--", "sh", "train.sh"]).expect(0);
        let stopped: Vec<String> = workspace.column("stopped_early");
        (run, stopped.iter().map(|stopped| stopped == "true").collect::<Vec<bool>>())
    };
    let (whole, stopped) = run("");
    assert_eq!(stopped, [false, false, false, true, true, true, true], "{}", whole.stderr);
    let (run, stopped) = run(", continuesFromCheckpoints: true");
    assert_eq!(stopped, [false, false, false, false, true, true, true], "{}", run.stderr);
    let place =
        |text: &str| run.stderr.lines().position(|line| line.contains(text)).unwrap_or_else(|| panic!("{text}"));
    let goes_on = place("trial 4 goes on: it may still become the best");
    assert!(place("trial 6 ended") < goes_on && goes_on < place("trial 7 started"), "{}", run.stderr);
    assert!(place("trial 4 started again (attempt 2)") > goes_on, "{}", run.stderr);
    assert_eq!(run.stderr.matches("goes on").count(), 1, "{}", run.stderr);
    assert!(run.stdout.contains("best: trial 4 with loss=0.5"), "{}", run.stdout);
}

#[test]
fn continuation_without_early_stopping_is_a_warning_and_without_parameters_an_error() {
    let workspace = workspace("", "continuesFromCheckpoints: true");
    let config = workspace
        .read("hptuning_config.yaml")
        .replace("enableTrialEarlyStopping: true", "enableTrialEarlyStopping: false");
    workspace.write("hptuning_config.yaml", &config);
    let warned = workspace.run(["--", "sh", "-c", "echo loss=1"]).expect(0).stderr;
    assert!(warned.contains("tunesmith.continuesFromCheckpoints"), "{warned}");
    assert!(warned.contains("has no effect without enableTrialEarlyStopping"), "{warned}");
}
