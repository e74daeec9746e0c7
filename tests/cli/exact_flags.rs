//! What looks like flags can be copied: the values are exactly those that ran.

use tunesmith_testing::{Workspace, finished, program};

/// A range whose bounds differ in the seventh digit, and a name that needs quotation marks.
const CONFIG: &str = "
trainingInput:
  hyperparameters:
    goal: MINIMIZE
    hyperparameterMetricTag: loss
    maxTrials: 6
    algorithm: RANDOM_SEARCH
    params:
    - {parameterName: x, type: DOUBLE, minValue: 0.9999990, maxValue: 0.9999998}
    - {parameterName: size, type: DISCRETE, discreteValues: [8, 16.5]}
    - {parameterName: kind, type: CATEGORICAL, categoricalValues: [it's, a b]}
  tunesmith: {metricFromStdout: true, seed: 3}
";

/// Keeps its arguments, one a line, and reports x.
const TRAINER: &str = r#"printf '%s\n' "$@" > "arguments.$CLOUD_ML_TRIAL_ID"
for word; do case $word in --x=*) echo "loss=${word#--x=}";; esac; done"#;

/// The words of a shell's command line.
fn words(line: &str) -> Vec<String> {
    let done = program("sh").args(["-c", &format!("printf '%s\\n' {line}")]).output().unwrap();
    String::from_utf8(done.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn flags_of_the_best_trial_are_those_that_ran() {
    let workspace = Workspace::new(CONFIG);
    let run = workspace.run(["--job-id", "j", "--", "sh", "-c", TRAINER, "trainer"]).expect(0);
    let best = workspace.job()["trainingOutput"]["trials"][0]["trialId"].as_str().unwrap().to_owned();
    let ran: Vec<String> = workspace.read(&format!("arguments.{best}")).lines().map(str::to_owned).collect();
    let x = ran.iter().find(|word| word.starts_with("--x=")).unwrap();
    assert!(x.len() > "--x=0.999999".len(), "six digits would do: {ran:?}");
    let command = |args: &[&str]| finished(workspace.command().args(args).output().unwrap()).expect(0).stdout;
    let described = command(&["jobs", "describe", "j", "--format", "table"]);
    let trial = command(&["trials", "describe", &best, "--job", "j", "--format", "table"]);
    for text in [&run.stdout, &described, &trial] {
        let line = text
            .lines()
            .find(|line| line.starts_with("  ") && line.contains("--x="))
            .unwrap_or_else(|| panic!("{text}"));
        let mut shown = words(line);
        let mut ran = ran.clone();
        shown.sort();
        ran.sort();
        assert_eq!(shown, ran, "{text}");
    }
}

#[test]
fn the_point_that_explain_proposes_lies_within_its_bounds() {
    let workspace = Workspace::new(&CONFIG.replace("maxTrials: 6", "maxTrials: 16"));
    workspace.run(["--job-id", "j", "--", "sh", "-c", TRAINER, "trainer"]).expect(0);
    let explained = finished(workspace.command().args(["explain", "j"]).output().unwrap()).expect(0).stdout;
    let proposed = explained.lines().find_map(|line| line.strip_prefix("not tried yet: "));
    let proposed = words(proposed.unwrap_or_else(|| panic!("{explained}")));
    let x = proposed.iter().find_map(|word| word.strip_prefix("--x=")).unwrap().parse::<f64>().unwrap();
    assert!((0.9999990..=0.9999998).contains(&x), "{proposed:?}");
    let json = finished(workspace.command().args(["explain", "j", "--json"]).output().unwrap()).expect(0).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["metrics"][0]["optimum"]["predicted"]["parameters"]["x"], x);
}
