//! What scripts for gcloud ask of `jobs`: formats, filters by relative time, and flags without effect.

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::client::client;
use tunesmith_testing::server::Server;

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

/// A nightly script of submissions with gcloud. Each line ends the script if it fails.
const NIGHTLY: &str = r#"
set -euo pipefail
DAY=$(date +%Y%m%d)
JOB="census_$DAY"
COMMON="--region us-central1 --runtime-version 2.1 --python-version 3.7"
gcloud ai-platform jobs submit training "$JOB" $COMMON --config hptuning_config.yaml --scale-tier BASIC \
    --staging-bucket gs://bucket --labels team=vision,night="$DAY" --stream-logs --quiet --project local -- sh train.sh
test "$(gcloud ai-platform jobs describe "$JOB" --format='value(state)')" = SUCCEEDED
BEST=$(gcloud ai-platform jobs describe "$JOB" --format='value(trainingOutput.trials[0].hyperparameters.x)')
test "$BEST" -ge 1
gcloud ai-platform jobs describe "$JOB" --format='json(jobId,trainingOutput.trials)' | python3 -c '
import json, sys
job = json.load(sys.stdin)
assert len(job["trainingOutput"]["trials"]) == 3, job'
gcloud ai-platform jobs list --filter="createTime>-P7D AND labels.team:vision" --format='table(jobId,state:label=STATE)' > list
test "$(tail -n +2 list | awk '{print $1}')" = "$JOB"
gcloud ai-platform jobs list --format=json --limit 1 | python3 -c 'import json, sys; assert len(json.load(sys.stdin)) == 1'
gcloud beta ai-platform jobs describe "$JOB" --summarize > summary
gcloud ai-platform jobs update "$JOB" --update-labels seen=yes
for OLD in $(gcloud ai-platform jobs list --filter='createTime<-p30d' --uri); do echo "$OLD" >&2; exit 1; done
gcloud ai-platform jobs stream-logs "$JOB" > logs
# What has no counterpart is named, and what is no command of AI Platform belongs to the real gcloud.
gcloud ai-platform models create census --regions us-central1
test "$(gcloud ai-platform models list --format='value(name)')" = projects/local/models/census
gcloud ai-platform models delete census --quiet
if gcloud ai-platform jobs submit prediction batch --model census --data-format text --input-paths in --output-path out \
    --region us-central1 2> batch; then exit 1; fi
grep -q 'model projects/local/models/census does not exist' batch
test "$(gcloud storage ls)" = "the real one: storage ls"
"#;

#[test]
fn nightly_script_of_gcloud_runs_with_the_shim() {
    let workspace = Workspace::new(TUNING);
    workspace.write("train.sh", "echo loss=${1#--x=}\n");
    workspace.write("nightly.sh", NIGHTLY);
    let bin = workspace.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/gcloud/gcloud");
    std::os::unix::fs::symlink(examples, bin.join("gcloud")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tunesmith"), bin.join("tunesmith")).unwrap();
    let real = workspace.path().join("real");
    std::fs::create_dir(&real).unwrap();
    std::fs::write(real.join("gcloud"), "#!/bin/sh\necho \"the real one: $*\"\n").unwrap();
    std::fs::set_permissions(real.join("gcloud"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let server = Server::start(&workspace, &[]);
    let mut command = tunesmith_testing::program("bash");
    command.arg("nightly.sh").current_dir(workspace.path());
    command.env("PATH", format!("{}:{}:{}", bin.display(), real.display(), tunesmith_testing::environment::path()));
    command.env("TUNESMITH_SERVER", format!("http://{}", server.address));
    let done = tunesmith_testing::finished(command.output().unwrap()).expect(0);
    assert_eq!(done.stderr.matches("no effect on this service: ").count(), 1, "{}", done.stderr);
    // The server of the environment is also that of the next command.
    assert!(!done.stderr.contains("--server"), "{}", done.stderr);
}

#[test]
fn run_takes_the_flags_of_gcloud() {
    let workspace = Workspace::new(TUNING);
    workspace.write("train.sh", "echo loss=${2#--x=}\n");
    let mut args =
        vec!["--job-id", "j", "--region", "us-central1", "--runtime-version", "2.1", "--scale-tier", "basic-gpu"];
    args.extend(["--staging-bucket", "gs://bucket", "--python-version", "3.7", "--stream-logs", "--quiet"]);
    args.extend(["--labels", "team=vision", "--args", "--epochs=2", "--", "sh", "train.sh"]);
    let run = workspace.run(args).expect(0);
    let noted: Vec<&str> = run.stderr.lines().filter(|line| line.contains("no effect")).collect();
    assert_eq!(
        noted,
        ["no effect in a local run: scaleTier, region, runtimeVersion, pythonVersion, --staging-bucket, --stream-logs"]
    );
    let job = workspace.job();
    assert_eq!(job["labels"], json!({"team": "vision"}));
    assert_eq!(job["trainingInput"]["region"], "us-central1");
    let wrong = workspace.run(["--python-version", "9", "--", "true"]).expect(2).stderr;
    assert!(wrong.contains("error: --python-version: \"9\" is not a Python version"), "{wrong}");
}

#[test]
fn what_has_no_counterpart_is_refused_with_the_reason() {
    let workspace = Workspace::new("");
    let refused = |args: &[&str]| client(&workspace, args, &[]).expect(2).stderr;
    assert!(refused(&["config", "set", "project", "p"]).contains("set TUNESMITH_PROJECT"));
}
