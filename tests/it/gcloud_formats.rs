//! What scripts for gcloud ask of `jobs`: formats, filters by relative time, and flags without effect.

use serde_json::{Value, json};

use crate::cli_client::client;
use crate::server::Server;
use crate::support::Workspace;

const TUNING: &str = "
trainingInput:
  hyperparameters:
    goal: MINIMIZE
    hyperparameterMetricTag: loss
    maxTrials: 3
    algorithm: RANDOM_SEARCH
    params: [{parameterName: x, type: INTEGER, minValue: 1, maxValue: 9}]
  tunesmith: {metricFromStdout: true, seed: 5}
";

/// A server with the finished jobs `tuned` (three trials) and `broken`.
fn server(workspace: &Workspace) -> (Server, String) {
    workspace.write("train.sh", "echo loss=${1#--x=}\n");
    let server = Server::start(workspace, &[]);
    let url = format!("http://{}", server.address);
    let submit = ["jobs", "submit", "training", "tuned", "--config", "hptuning_config.yaml", "--stream-logs"];
    let trainer = ["--labels", "team=vision", "--", "sh", "train.sh"];
    client(workspace, &[&submit[..], &trainer].concat(), &["--server", &url]).expect(0);
    let broken = ["jobs", "submit", "training", "broken", "--stream-logs", "--", "false"];
    client(workspace, &broken, &["--server", &url]).expect(1);
    (server, url)
}

#[test]
fn fields_of_a_job_are_printed_in_the_formats_of_gcloud() {
    let workspace = Workspace::new(TUNING);
    let (_server, url) = server(&workspace);
    let describe = |format: &str| {
        client(&workspace, &["jobs", "describe", "tuned", "--format", format], &["--server", &url]).expect(0).stdout
    };
    assert_eq!(describe("value(state)"), "SUCCEEDED\n");
    assert_eq!(describe("get(state)"), "SUCCEEDED\n");
    assert_eq!(describe("value(jobId,state,absent,labels.team)"), "tuned\tSUCCEEDED\t\tvision\n");
    let job: Value = serde_json::from_str(&describe("json")).unwrap();
    let best = &job["trainingOutput"]["trials"][0];
    let value = best["finalMetric"]["objectiveValue"].as_f64().unwrap();
    assert_eq!(
        describe("value(trainingOutput.trials[0].finalMetric.objectiveValue)").trim().parse::<f64>().unwrap(),
        value
    );
    assert_eq!(describe("value(trainingOutput.trials[].trialId.len())"), "3\n");
    let ids: Vec<&str> = job["trainingOutput"]["trials"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["trialId"].as_str().unwrap())
        .collect();
    assert_eq!(describe("value(trainingOutput.trials.trialId.list())").trim(), ids.join(","));
    assert_eq!(
        serde_json::from_str::<Value>(&describe("json(jobId,trainingOutput.completedTrialCount)")).unwrap(),
        json!({"jobId": "tuned", "trainingOutput": {"completedTrialCount": "3"}})
    );
    assert_eq!(describe("yaml(jobId,state)"), "jobId: tuned\nstate: SUCCEEDED\n");
    assert_eq!(describe("csv(jobId,state)"), "job_id,state\ntuned,SUCCEEDED\n");
    assert!(describe("flattened").contains("\ntrainingOutput.trials[2].trialId: "));
    assert_eq!(describe("none"), "");
    let time = describe("value(createTime.date('%Y-%m-%d'))");
    assert_eq!(time.trim(), &job["createTime"].as_str().unwrap()[..10]);
    let table = client(&workspace, &["jobs", "describe", "tuned", "--summarize"], &["--server", &url]).expect(0).stdout;
    assert_eq!(table, describe("table"));
    for (format, error) in [
        ("value(state", "expected a comma or )"),
        ("value(name.encode())", "unknown transform \"encode\"; expected one of basename(), date()"),
        ("config", "unknown format \"config\"; expected one of value, csv, table"),
    ] {
        let args = ["jobs", "describe", "tuned", "--format", format];
        let refused = client(&workspace, &args, &["--server", &url]).expect(2).stderr;
        assert!(refused.contains(error), "{refused}");
    }
}

#[test]
fn lists_are_selected_sorted_and_printed_in_the_formats_of_gcloud() {
    let workspace = Workspace::new(TUNING);
    let (_server, url) = server(&workspace);
    let list = |more: &[&str]| {
        client(&workspace, &[&["jobs", "list"], more].concat(), &["--server", &url, "--quiet"]).expect(0).stdout
    };
    assert_eq!(list(&["--format", "value(jobId)"]), "broken\ntuned\n", "newest first");
    assert_eq!(list(&["--format", "value(jobId)", "--sort-by", "~jobId", "--limit", "1"]), "tuned\n");
    assert_eq!(
        list(&["--format", "table(jobId,state:label=STATE)", "--sort-by", "~state"]),
        "JOB_ID  STATE\ntuned   SUCCEEDED\nbroken  FAILED\n"
    );
    assert_eq!(list(&["--format", "csv[no-heading](jobId:sort=1:reverse,state)"]), "tuned,SUCCEEDED\nbroken,FAILED\n");
    let all: Value = serde_json::from_str(&list(&["--format", "json"])).unwrap();
    assert_eq!(all.as_array().unwrap().len(), 2);
    assert_eq!(list(&["--format", "yaml"]).matches("\n---\n").count(), 1);
    for (filter, expected) in [
        ("createTime>-P7D", "broken\ntuned\n"),
        ("createTime>-p1w AND state:FAILED", "broken\n"),
        ("createTime<-PT12H", ""),
        ("createTime > -p1y2m3dt4h5m6s AND labels.team:vision", "tuned\n"),
        ("endTime<P1D", "broken\ntuned\n"),
    ] {
        assert_eq!(list(&["--format", "value(jobId)", "--filter", filter]), expected, "{filter}");
    }
    let uris = list(&["--uri", "--sort-by", "jobId"]);
    assert_eq!(uris, format!("{url}/v1/projects/local/jobs/broken\n{url}/v1/projects/local/jobs/tuned\n"));
    let refused = client(&workspace, &["jobs", "list", "--filter", "createTime>-P7X"], &["--server", &url]).expect(2);
    assert!(refused.stderr.contains("createTime needs a time, as in"), "{}", refused.stderr);
    assert!(refused.stderr.contains("-P7D"), "{}", refused.stderr);
    let trials = ["trials", "list", "--job", "tuned", "--format", "value(name.basename(),state)"];
    let trials = client(&workspace, &trials, &["--server", &url]).expect(0).stdout;
    assert_eq!(trials.lines().next(), Some("1\tCOMPLETED"));
}
