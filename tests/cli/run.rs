//! `tunesmith run`: configurations, sources of metrics, results, early stopping, resuming a job.

use std::collections::BTreeSet;
use std::process::{Child, Stdio};

use rustix::process::Signal;
use tunesmith_testing::{Finished, Workspace, finished, signal};

/// A quadratic with its best value 0 at x = 3, reported on standard output.
const QUADRATIC: &str = r#"for arg in "$@"; do case "$arg" in --x=*) x="${arg#--x=}";; esac; done
awk -v x="$x" 'BEGIN { printf "loss=%.17g step=1\n", (x - 3) * (x - 3) }'
"#;

const QUADRATIC_CONFIG: &str = "
scaleTier: CUSTOM
masterType: n1-standard-4
hyperparameters:
  goal: MINIMIZE
  hyperparameterMetricTag: loss
  maxTrials: 12
  maxParallelTrials: 2
  algorithm: RANDOM_SEARCH
  params:
    - {parameterName: x, type: DOUBLE, minValue: 0, maxValue: 10}
tunesmith:
  metricFromStdout: true
  seed: 7
";

fn quadratic() -> Workspace {
    let workspace = Workspace::new(QUADRATIC_CONFIG);
    workspace.write("train.sh", QUADRATIC);
    workspace
}

#[test]
fn job_runs_to_its_end_and_prints_the_best_trial() {
    let workspace = quadratic();
    let run = workspace.run(["--job-id", "first", "--job-dir", "models", "--", "sh", "train.sh"]).expect(0);
    let job = workspace.job();
    assert_eq!(job["jobId"], "first");
    assert_eq!(job["state"], "SUCCEEDED");
    assert_eq!(job["trainingOutput"]["completedTrialCount"], "12");
    assert_eq!(job["trainingOutput"]["isHyperparameterTuningJob"], true);
    let trials = job["trainingOutput"]["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 12);
    let losses: Vec<f64> = trials.iter().map(|t| t["finalMetric"]["objectiveValue"].as_f64().unwrap()).collect();
    assert!(losses.is_sorted(), "best first: {losses:?}");
    for trial in trials {
        let x: f64 = trial["hyperparameters"]["x"].as_str().unwrap().parse().unwrap();
        let loss = trial["finalMetric"]["objectiveValue"].as_f64().unwrap();
        assert!((loss - (x - 3.0) * (x - 3.0)).abs() <= 1e-12 * loss.max(1.0), "{x} {loss}");
        assert_eq!(trial["finalMetric"]["trainingStep"], "1");
        assert_eq!(trial["state"], "SUCCEEDED");
    }
    // Text has six significant digits, the job resource all of them.
    let best: f64 = trials[0]["hyperparameters"]["x"].as_str().unwrap().parse().unwrap();
    let shown: f64 = run.stdout.split("--x=").nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap();
    assert!((shown - best).abs() <= 1e-5 * best.abs(), "{best} {}", run.stdout);
    assert!(run.stderr.contains("no effect in a local run: "), "{}", run.stderr);
    assert!(workspace.path().join("models/12").is_dir());
    assert!(workspace.path().join(".tunesmith/jobs/first/trials/12/attempt-1/stdout.log").is_file());
    assert_eq!(workspace.column("trial_id").len(), 12);
}

#[test]
fn same_seed_gives_the_same_trials() {
    let sequence = |seed: &str| {
        let workspace = quadratic();
        workspace.run(["--parallel", "1", "--seed", seed, "--", "sh", "train.sh"]).expect(0);
        workspace.column("x")
    };
    let first = sequence("11");
    assert_eq!(first, sequence("11"));
    assert_ne!(first, sequence("12"));
}

#[test]
fn finished_job_is_printed_again_and_another_job_of_its_name_is_refused() {
    let workspace = quadratic();
    let command = ["--job-id", "j", "--", "sh", "train.sh"];
    let first = workspace.run(command).expect(0);
    let again = workspace.run(command).expect(0);
    assert_eq!(first.stdout, again.stdout);
    assert!(again.stderr.contains("job j finished before"), "{}", again.stderr);
    let other = workspace.run(["--job-id", "j", "--", "sh", "other.sh"]).expect(2);
    assert!(other.stderr.contains("job j exists and was submitted with other program"), "{}", other.stderr);
}

#[test]
fn grid_search_tries_each_point_once() {
    for parallel in ["1", "8"] {
        let workspace = Workspace::new(
            "
hyperparameters:
  goal: MAXIMIZE
  hyperparameterMetricTag: score
  maxTrials: 100
  algorithm: GRID_SEARCH
  params:
    - {parameterName: a, type: INTEGER, minValue: 1, maxValue: 3}
    - {parameterName: b, type: DISCRETE, discreteValues: [1, 2.5, 4, 8]}
    - {parameterName: c, type: CATEGORICAL, categoricalValues: [p, q, r, s, t]}
tunesmith: {metricFromStdout: true}
",
        );
        let run = workspace.run(["--parallel", parallel, "--", "sh", "-c", "echo score: 1", "trainer"]).expect(0);
        let points: BTreeSet<(String, String, String)> = workspace
            .trials()
            .into_iter()
            .map(|trial| (trial["a"].clone(), trial["b"].clone(), trial["c"].clone()))
            .collect();
        assert_eq!(points.len(), 60);
        assert_eq!(workspace.trials().len(), 60);
        assert!(run.stdout.contains("search space exhausted after 60 trials"), "{}", run.stdout);
    }
}

#[test]
fn program_gets_flags_of_active_parameters_only() {
    let workspace = Workspace::new(
        "
hyperparameters:
  goal: MAXIMIZE
  hyperparameterMetricTag: score
  maxTrials: 100
  algorithm: GRID_SEARCH
  params:
    - {parameterName: momentum, type: DISCRETE, discreteValues: [0.5, 0.9]}
    - {parameterName: nesterov, type: CATEGORICAL, categoricalValues: [no, yes]}
    - {parameterName: optimizer, type: CATEGORICAL, categoricalValues: [adam, sgd]}
tunesmith:
  metricFromStdout: true
  conditions:
    - {parameter: momentum, parent: optimizer, values: [sgd]}
    - {parameter: nesterov, parent: momentum, values: [0.9]}
",
    );
    // The score is the number of flags.
    let run = workspace.run(["--", "sh", "-c", "echo score: $#", "trainer"]).expect(0);
    let mut flags: Vec<(String, String, String, String)> = workspace
        .trials()
        .into_iter()
        .map(|trial| ["objective_value", "optimizer", "momentum", "nesterov"].map(|name| trial[name].clone()).into())
        .collect();
    flags.sort();
    let expected =
        [("1.0", "adam", "", ""), ("2.0", "sgd", "0.5", ""), ("3.0", "sgd", "0.9", "no"), ("3.0", "sgd", "0.9", "yes")];
    assert_eq!(flags, expected.map(|(score, a, b, c)| (score.into(), a.into(), b.into(), c.into())));
    assert!(run.stdout.contains("search space exhausted after 4 trials"), "{}", run.stdout);
}

#[test]
fn wrong_metric_tag_fails_the_job_with_the_first_trial() {
    let workspace = quadratic();
    workspace.write("hptuning_config.yaml", &QUADRATIC_CONFIG.replace("Tag: loss", "Tag: los"));
    let run = workspace.run(["--parallel", "1", "--", "sh", "train.sh"]).expect(1);
    assert!(run.stdout.contains("never reported hyperparameterMetricTag \"los\""), "{}", run.stdout);
    assert!(run.stdout.contains("did you mean \"loss\"?"), "{}", run.stdout);
    assert_eq!(workspace.trials().len(), 1);
    assert_eq!(workspace.job()["state"], "FAILED");
}

#[test]
fn trainer_reports_over_http_with_its_own_token() {
    let workspace = quadratic();
    workspace
        .write("hptuning_config.yaml", &QUADRATIC_CONFIG.replace("metricFromStdout: true", "metricFromStdout: false"));
    workspace.write(
        "train.py",
        r#"
import json, os, urllib.error, urllib.request
base = os.environ["TUNESMITH_ENDPOINT"] + "/v1/" + os.environ["TUNESMITH_TRIAL"]
def call(url, token, body=None):
    request = urllib.request.Request(url, data=json.dumps(body).encode() if body else None)
    request.add_header("authorization", "Bearer " + token)
    return json.load(urllib.request.urlopen(request))
def refused(code, *args):
    try:
        call(*args)
    except urllib.error.HTTPError as error:
        assert error.code == code, error.code
        return json.load(error)["error"]
    raise AssertionError("not refused")
token = os.environ["TUNESMITH_TOKEN"]
body = {"measurement": {"stepCount": "5", "metrics": [{"metric": "loss", "value": 0.25}]}}
assert refused(401, base + ":addMeasurement", "wrong", body)["status"] == "UNAUTHENTICATED"
bad = {"measurement": {"stepCount": "five", "metrics": [{"metric": "loss", "value": 1}]}}
details = refused(400, base + ":addMeasurement", token, bad)["details"]
assert details[0]["fieldViolations"][0]["field"] == "measurement.stepCount", details
trial = call(base + ":addMeasurement", token, body)
assert trial["state"] == "ACTIVE" and trial["name"] == os.environ["TUNESMITH_TRIAL"], trial
assert call(base, token)["parameters"][0]["parameter"] == "x"
"#,
    );
    workspace.run(["--", "python3", "train.py"]).expect(0);
    let best = &workspace.job()["trainingOutput"]["trials"][0];
    assert_eq!(best["finalMetric"]["objectiveValue"], 0.25);
    assert_eq!(best["finalMetric"]["trainingStep"], "5");
}

#[test]
fn trial_below_the_median_is_stopped_early() {
    let workspace = Workspace::new(
        "
hyperparameters:
  goal: MAXIMIZE
  hyperparameterMetricTag: acc
  maxTrials: 7
  algorithm: GRID_SEARCH
  enableTrialEarlyStopping: true
  params:
    - {parameterName: x, type: INTEGER, minValue: 1, maxValue: 7}
tunesmith: {metricFromStdout: true, earlyStopping: MEDIAN}
",
    );
    // Six good trials, then one that is bad from its first report and runs until it is stopped.
    workspace.write(
        "train.sh",
        r#"x="${1#--x=}"
for step in 1 2 3 4 5 6 7 8 9 10; do
  if [ "$x" = 7 ]; then echo "acc=0.1 step=$step"; else echo "acc=0.9 step=$step"; fi
done
if [ "$x" = 7 ]; then exec tail -f /dev/null; fi
"#,
    );
    let run = workspace.run(["--parallel", "1", "--", "sh", "train.sh"]).expect(0);
    let job = workspace.job();
    let last = job["trainingOutput"]["trials"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["trialId"], "7");
    assert_eq!(last["isTrialStoppedEarly"], true);
    assert_eq!(last["finalMetric"]["objectiveValue"], 0.1);
    assert!(run.stderr.contains("trial 7 is stopped early"), "{}", run.stderr);
}

#[test]
fn early_stopping_rule_is_configurable() {
    // Successive halving compares with running trials; the decay-curve rule needs five completed trials.
    for (rule, good, parallel) in [("ASHA", 2, "3"), ("DECAY_CURVE", 5, "1")] {
        let last = good + 1;
        let workspace = Workspace::new(&format!(
            "
hyperparameters:
  goal: MINIMIZE
  hyperparameterMetricTag: loss
  maxTrials: {last}
  algorithm: GRID_SEARCH
  enableTrialEarlyStopping: true
  params:
    - {{parameterName: x, type: INTEGER, minValue: 1, maxValue: {last}}}
tunesmith: {{metricFromStdout: true, earlyStopping: {rule}}}
"
        ));
        // The last trial is bad from its first report, and runs until it is stopped.
        workspace.write(
            "train.sh",
            &format!(
                r#"x="${{1#--x=}}"
for step in 1 2 3 4 5 6 7 8 9 10; do
  if [ "$x" = {last} ]; then [ $step -gt 5 ] || echo "loss=9 step=$step"; else echo "loss=0.$x step=$step"; fi
done
if [ "$x" = {last} ]; then exec tail -f /dev/null; fi
"#
            ),
        );
        let run = workspace.run(["--parallel", parallel, "--", "sh", "train.sh"]).expect(0);
        let job = workspace.job();
        let ended = job["trainingOutput"]["trials"].as_array().unwrap().last().unwrap().clone();
        assert_eq!((&ended["trialId"], &ended["isTrialStoppedEarly"]), (&last.to_string().into(), &true.into()));
        assert_eq!(ended["finalMetric"]["objectiveValue"], 9.0);
        assert!(run.stderr.contains(&format!("trial {last} is stopped early")), "{}", run.stderr);
    }
}

#[test]
fn resumed_previous_job_contributes_its_trials() {
    let workspace = Workspace::new(
        "
hyperparameters:
  goal: MAXIMIZE
  hyperparameterMetricTag: score
  maxTrials: 4
  algorithm: GRID_SEARCH
  params:
    - {parameterName: a, type: INTEGER, minValue: 1, maxValue: 6}
tunesmith: {metricFromStdout: true}
",
    );
    let trainer = ["--", "sh", "-c", "echo score=1", "trainer"];
    let job = |id: &'static str| ["--job-id", id].into_iter().chain(trainer);
    workspace.run(job("first")).expect(0);
    let first = workspace.column("a");
    let config = workspace.read("hptuning_config.yaml");
    let next = config.replace("  maxTrials: 4", "  maxTrials: 4\n  resumePreviousJobId: first");
    workspace.write("hptuning_config.yaml", &next);
    workspace.run(job("second")).expect(0);
    let mut all: Vec<String> = first.into_iter().chain(workspace.column("a")).collect();
    all.sort();
    assert_eq!(all, ["1", "2", "3", "4", "5", "6"], "no point of the first job is tried again");
    workspace.write("hptuning_config.yaml", &next.replace("first", "absent"));
    let unknown = workspace.run(job("third")).expect(2);
    assert!(unknown.stderr.contains("resumePreviousJobId: absent"), "{}", unknown.stderr);
}

#[test]
fn job_beyond_its_maximum_running_time_is_cancelled() {
    let workspace = quadratic();
    workspace.write("hptuning_config.yaml", &format!("{QUADRATIC_CONFIG}\nscheduling: {{maxRunningTime: 1s}}\n"));
    let run = workspace.run(["--", "sh", "-c", "exec tail -f /dev/null", "trainer"]).expect(1);
    assert_eq!(workspace.job()["state"], "CANCELLED");
    assert!(run.stdout.contains("scheduling.maxRunningTime"), "{}", run.stdout);
}

#[test]
fn first_ctrl_c_leaves_a_resumable_job() {
    let workspace = quadratic();
    // The third trial waits for a file that is created after the interruption.
    workspace.write(
        "blocking.sh",
        &format!(
            r#"if [ "$CLOUD_ML_TRIAL_ID" = 3 ] && [ ! -e go ]; then echo waiting >&2; exec tail -f /dev/null; fi
{QUADRATIC}"#
        ),
    );
    let args = ["--job-id", "j", "--parallel", "1", "--", "sh", "blocking.sh"];
    let mut child = spawn(&workspace, &args);
    wait_for_line(&mut child, "trial 3 started");
    signal(&child, Signal::INT);
    let interrupted = wait(child).expect(130);
    let advice = "interrupted; to resume job j, give the same command\n";
    assert!(interrupted.stdout.ends_with(advice), "{}", interrupted.stdout);
    assert_eq!(workspace.job()["state"], "QUEUED");
    workspace.write("go", "");
    let resumed = workspace.run(args).expect(0);
    assert!(resumed.stderr.contains("2 trials have results, 1 were unfinished"), "{}", resumed.stderr);
    assert_eq!(workspace.job()["trainingOutput"]["completedTrialCount"], "12");
    let uninterrupted = quadratic();
    uninterrupted.run(["--parallel", "1", "--", "sh", "train.sh"]).expect(0);
    assert_eq!(workspace.column("x"), uninterrupted.column("x"), "the sequence does not depend on the interruption");
}

#[test]
fn second_ctrl_c_kills_programs_that_ignore_the_first() {
    let workspace = quadratic();
    let args = ["--", "sh", "-c", "trap '' TERM; echo ready; while :; do read line; done < fifo", "trainer"];
    rustix::fs::mknodat(
        rustix::fs::CWD,
        workspace.path().join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let mut child = spawn(&workspace, &args);
    wait_for_line(&mut child, "trial 2 started");
    signal(&child, Signal::INT);
    wait_for_line(&mut child, "once more stops at once");
    signal(&child, Signal::INT);
    wait(child).expect(130);
    let path = workspace.path().display().to_string();
    assert_eq!(tunesmith_testing::processes_with(&path), []);
}

#[test]
fn job_without_hyperparameters_runs_its_program_once() {
    let workspace = Workspace::new("scheduling: {maxRunningTime: 600s}\n");
    let run = |script: &str| workspace.run(["--job-dir", "model", "--", "sh", "-c", script, "trainer", "--a=b"]);
    run(r#"test "$1" = --a=b && test "$2" = "--job-dir=$PWD/model" && test -z "$CLOUD_ML_TRIAL_ID""#).expect(0);
    assert_eq!(workspace.job()["state"], "SUCCEEDED");
    assert_eq!(workspace.job()["trainingOutput"], serde_json::json!({}));
    let failed = run("exit 3").expect(1);
    assert!(failed.stdout.contains("FAILED: the program ended with exit code 3"), "{}", failed.stdout);
}

#[test]
fn terminal_shows_running_trials_and_remaining_work() {
    // By default the algorithm is a Gaussian process, whose initial design is named.
    let workspace = Workspace::new(&QUADRATIC_CONFIG.replace("  algorithm: RANDOM_SEARCH\n", ""));
    // The trial ends when its line has appeared on the screen, which is redrawn until then.
    workspace.write(
        "drawn.sh",
        &format!(
            "{QUADRATIC}until grep -q 'loss=.* step 1' screen; do tail -n 1 -f screen | head -c 2000 >/dev/null; done\n"
        ),
    );
    let command =
        format!("{} run --config hptuning_config.yaml --parallel 1 -- sh drawn.sh", env!("CARGO_BIN_EXE_tunesmith"));
    let mut terminal = tunesmith_testing::program("script");
    terminal.args(["--quiet", "--flush", "--return", "--command", &command, "screen"]).current_dir(workspace.path());
    terminal.stdin(Stdio::null()).env("TERM", "xterm");
    finished(terminal.output().unwrap()).expect(0);
    let screen = workspace.read("screen");
    assert!(screen.contains("trial 1  x="), "{screen}");
    assert!(screen.contains("measuring the parameters, 1 of "), "{screen}");
    assert!(screen.contains("12 done, 0 failed, 0 to go"), "{screen}");
    assert!(screen.contains("░"), "a bar is drawn: {screen}");
    assert!(screen.contains("best: trial "), "{screen}");
}

#[test]
fn jobs_are_listed_and_described_from_the_data_folder() {
    let workspace = quadratic();
    workspace.run(["--job-id", "listed", "--", "sh", "train.sh"]).expect(0);
    let jobs = |args: &[&str]| {
        let mut command = workspace.command();
        finished(command.arg("jobs").args(args).output().unwrap()).expect(0).stdout
    };
    let list = jobs(&["list"]);
    assert!(list.contains("listed") && list.contains("SUCCEEDED"), "{list}");
    let mut described: serde_json::Value =
        serde_json::from_str(&jobs(&["describe", "listed", "--format", "json"])).unwrap();
    // The service adds the etag, on a server and in a data folder alike.
    assert!(described.as_object_mut().unwrap().remove("etag").is_some());
    // The file of `run` also names the recommended trial.
    let mut written = workspace.job();
    let recommended = written["tunesmith"].as_object_mut().unwrap().remove("recommended").unwrap();
    assert!(recommended["trialId"].is_string(), "{recommended}");
    assert_eq!(described, written);
    assert!(jobs(&["describe", "listed"]).contains("completedTrialCount: '12'"));
    let logs = jobs(&["stream-logs", "listed"]);
    assert_eq!(logs.lines().filter(|line| line.contains("] loss=")).count(), 12, "{logs}");
    let mut unknown = workspace.command();
    let unknown = finished(unknown.args(["jobs", "describe", "absent"]).output().unwrap()).expect(2);
    assert!(unknown.stderr.contains("job absent does not exist"), "{}", unknown.stderr);
}

fn spawn(workspace: &Workspace, args: &[&str]) -> Child {
    workspace.run_command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Reads standard error up to a line with `text`.
fn wait_for_line(child: &mut Child, text: &str) {
    tunesmith_testing::wait_for_line(child.stderr.as_mut().unwrap(), text);
}

fn wait(child: Child) -> Finished {
    finished(child.wait_with_output().unwrap())
}
