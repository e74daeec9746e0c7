//! Jobs that continue an earlier one: what they take over, on the command line and over HTTP.
#![expect(clippy::unwrap_used, reason = "the lint does not recognise helpers of tests as tests")]

use serde_json::{Value, json};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Finished, Workspace, finished};

fn tunesmith<'a>(workspace: &Workspace, arguments: impl IntoIterator<Item = &'a str>) -> Finished {
    finished(workspace.command().args(arguments).output().unwrap())
}

const FIRST: &str = "
hyperparameters:
  goal: MINIMIZE
  hyperparameterMetricTag: score
  maxTrials: 4
  algorithm: GRID_SEARCH
  params:
    - {parameterName: a, type: INTEGER, minValue: 1, maxValue: 6}
tunesmith: {metricFromStdout: true}
";

const SHORT: &str = "
trainingInput:
  hyperparameters:
    maxTrials: 2
    maxParallelTrials: 1
    resumePreviousJobId: first
";

const TRAINER: [&str; 5] = ["--", "sh", "-c", "echo score=${1##*=}", "trainer"];

fn job(id: &'static str) -> impl Iterator<Item = &'static str> {
    ["--job-id", id].into_iter().chain(TRAINER)
}

/// The line of `text` about the trials that were taken over.
fn sources(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix("hyperparameters.resumePreviousJobId: ")).unwrap_or_default()
}

#[test]
fn short_configuration_continues_the_search_of_the_earlier_job() {
    let workspace = Workspace::new(FIRST);
    workspace.run(job("first")).expect(0);
    let first = workspace.column("a");
    workspace.write("hptuning_config.yaml", SHORT);
    let validated = tunesmith(&workspace, ["validate", "--config", "hptuning_config.yaml"]).expect(0);
    assert!(validated.stdout.contains("goal, params, hyperparameterMetricTag, algorithm"), "{}", validated.stdout);
    let second = workspace.run(job("second")).expect(0);
    assert!(
        second.stderr.contains("goal, params, hyperparameterMetricTag, algorithm: as in job first"),
        "{}",
        second.stderr
    );
    assert_eq!(sources(&second.stderr), "4 of 4 earlier trials count as results of this search");
    let mut all: Vec<String> = first.into_iter().chain(workspace.column("a")).collect();
    all.sort();
    assert_eq!(all, ["1", "2", "3", "4", "5", "6"], "no point of the first job is tried again");
    let input = &workspace.job()["trainingInput"];
    assert_eq!(
        (&input["hyperparameters"]["goal"], &input["hyperparameters"]["maxTrials"]),
        (&json!("MINIMIZE"), &json!(2))
    );
    let described =
        tunesmith(&workspace, ["jobs", "describe", "second", "--data-dir", ".tunesmith", "--format", "table"])
            .expect(0);
    assert_eq!(sources(&described.stdout), sources(&second.stderr));
    // What is given is kept.
    workspace.write("hptuning_config.yaml", &SHORT.replace("first", "absent"));
    let unknown = workspace.run(job("third")).expect(2);
    assert!(unknown.stderr.contains("resumePreviousJobId: absent"), "{}", unknown.stderr);
}

#[test]
fn job_states_why_earlier_trials_are_not_taken_over() {
    let workspace = Workspace::new(FIRST);
    workspace.run(job("first")).expect(0);
    let resumed = |changes: &[(&str, &str)]| {
        let text = FIRST.replace("  maxTrials: 4", "  maxTrials: 1\n  resumePreviousJobId: first");
        changes.iter().fold(text, |text, (from, to)| text.replace(from, to))
    };
    let cases = [
        (
            "tag",
            resumed(&[("Tag: score", "Tag: accuracy")]),
            "0 of 4 earlier trials count as results of this search: 4 have no result of \"accuracy\"",
        ),
        (
            "name",
            resumed(&[("parameterName: a", "parameterName: b")]),
            "0 of 4 earlier trials count as results of this search: 4 have no parameter \"b\"",
        ),
        (
            "range",
            resumed(&[("minValue: 1", "minValue: 3")]),
            "2 of 4 earlier trials count as results of this search: 2 have a value of \"a\" that is out of range",
        ),
        (
            "transfer",
            resumed(&[
                ("minValue: 1", "minValue: 3"),
                ("  algorithm: GRID_SEARCH\n", "  algorithm: GAUSSIAN_PROCESS_BANDIT\n"),
            ]),
            "2 of 4 earlier trials count as results of this search: 2 have a value of \"a\" that is out of range; 2 outside the search space still inform it as trials of another one",
        ),
    ];
    for (id, text, expected) in cases {
        workspace.write("hptuning_config.yaml", &text);
        let trainer = ["--", "sh", "-c", "echo score=1; echo accuracy=1", "trainer"];
        let run = workspace.run(["--job-id", id].into_iter().chain(trainer)).expect(0);
        assert_eq!(sources(&run.stderr), expected, "{}", run.stderr);
    }
}

/// Nothing is known of the new metric, so the search starts as one without earlier trials.
#[test]
fn trials_without_the_metric_keep_no_point_away() {
    let workspace = Workspace::new("");
    let config = |tag: &str, more: &str| {
        format!(
            "hyperparameters:\n  goal: MAXIMIZE\n  hyperparameterMetricTag: {tag}\n  maxTrials: 4\n{more}  params:\n  - {{parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}}\ntunesmith: {{metricFromStdout: true, seed: 7}}\n"
        )
    };
    let trainer = ["--", "sh", "-c", "echo one=1; echo two=2", "trainer"];
    let run = |id: &'static str, text: &str| {
        workspace.write("hptuning_config.yaml", text);
        workspace.run(["--job-id", id].into_iter().chain(trainer)).expect(0);
        workspace.column("x")
    };
    let alone = run("alone", &config("two", ""));
    run("first", &config("one", ""));
    assert_eq!(run("second", &config("two", "  resumePreviousJobId: first\n")), alone);
}

#[test]
fn short_configuration_is_accepted_over_http() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let create = |id: &str, spec: Value| {
        let input = json!({"masterConfig": {"containerCommand": ["true"]}, "hyperparameters": spec});
        server.post("/v1/projects/p/jobs", &json!({"jobId": id, "trainingInput": input}))
    };
    let params = json!([{"parameterName": "x", "type": "DOUBLE", "maxValue": 1}]);
    let first =
        json!({"goal": "MINIMIZE", "params": params, "algorithm": "RANDOM_SEARCH", "hyperparameterMetricTag": "loss"});
    assert_eq!(create("first", first).0, 200);
    let (status, second) =
        create("second", json!({"resumePreviousJobId": "first", "maxTrials": 0, "maxParallelTrials": 0}));
    assert_eq!(status, 200, "{second}");
    let spec = &second["trainingInput"]["hyperparameters"];
    assert_eq!(
        (&spec["goal"], &spec["params"], &spec["algorithm"], &spec["hyperparameterMetricTag"]),
        (&json!("MINIMIZE"), &params, &json!("RANDOM_SEARCH"), &json!("loss"))
    );
    let notices = second["tunesmith"]["notices"].as_array().unwrap();
    for field in ["goal", "params", "algorithm", "maxTrials"] {
        let field = format!("trainingInput.hyperparameters.{field}");
        assert!(notices.iter().any(|notice| notice["field"] == field), "{field}: {notices:?}");
    }
    let (status, refused) = create("third", json!({"resumePreviousJobId": "absent"}));
    assert_eq!(
        (status, refused["error"]["details"][0]["fieldViolations"][0]["field"].as_str()),
        (400, Some("trainingInput.hyperparameters.resumePreviousJobId")),
        "{refused}"
    );
    assert_eq!(create("fourth", json!({"maxTrials": 3})).0, 400);
}
