//! What commands print about jobs, on a server and in a data folder.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tunesmith_testing::client::{client, client_command};
use tunesmith_testing::paced::until;
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, finished, wait_for_line};

const CONFIG: &str = "
hyperparameters:
  goal: MINIMIZE
  hyperparameterMetricTag: loss
  maxTrials: 8
  maxFailedTrials: 8
  params:
  - {parameterName: rate, type: DOUBLE, minValue: 0.001, maxValue: 1, scaleType: UNIT_LOG_SCALE}
  - {parameterName: batch, type: DISCRETE, discreteValues: [16, 32.5, 64]}
  - {parameterName: layers, type: INTEGER, minValue: 1, maxValue: 9}
  - {parameterName: kind, type: CATEGORICAL, categoricalValues: [left, right]}
tunesmith: {metricFromStdout: true, seed: 7}
";

/// The loss depends on the number of layers. Trials with 2 layers fail.
const TRAIN: &str = r#"for arg in "$@"; do case "$arg" in --layers=*) n="${arg#--layers=}";; esac; done
if [ "$n" = 2 ]; then echo "no luck" >&2; exit 1; fi
echo "loss=$n.25 step=7"
"#;

/// A server with the finished job `j`.
fn served() -> (Workspace, Server) {
    let workspace = Workspace::new(CONFIG);
    let train = workspace.write("train.sh", TRAIN);
    let server = Server::start(&workspace, &[]);
    let target = format!("http://{}", server.address);
    let args = ["jobs", "submit", "training", "j", "--config", "hptuning_config.yaml", "--job-dir", "models"];
    let command = ["--stream-logs", "--", "sh", train.to_str().unwrap()];
    client(&workspace, &[&args[..], &command].concat(), &["--server", &target]).expect(0);
    (workspace, server)
}

#[test]
fn job_reads_the_same_on_a_server_and_in_a_folder() {
    let (workspace, server) = served();
    let target = format!("http://{}", server.address);
    let describe = ["jobs", "describe", "j", "--format", "table"];
    let of_server = client(&workspace, &describe, &["--server", &target]).expect(0).stdout;
    let explain = |target: &[&str]| client(&workspace, &["explain", "j", "--json"], target).expect(0).stdout;
    let explained = explain(&["--server", &target]);
    server.kill();
    let of_folder = client(&workspace, &describe, &["--data-dir", "data"]).expect(0).stdout;
    let without_logs = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.starts_with("logs: ")).map(str::to_owned).collect()
    };
    assert_eq!(without_logs(&of_server), without_logs(&of_folder));
    for expected in ["best: trial ", "DURATION", "STEP", "SUCCEEDED", "job j is SUCCEEDED", "models: "] {
        assert!(of_server.contains(expected), "{expected} is missing: {of_server}");
    }
    let logs = of_server.lines().find(|line| line.starts_with("logs: ")).unwrap();
    assert_eq!(logs, format!("logs: tunesmith jobs stream-logs j --server {target}"));
    assert!(!of_server.contains("64.0"), "discrete values are printed as configured: {of_server}");
    let of_folder: Value = serde_json::from_str(&explain(&["--data-dir", "data"])).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&explained).unwrap(), of_folder);
    assert_eq!(of_folder["job"], "j");
}

#[test]
fn study_is_explained_on_a_server_and_in_a_folder() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let study = "/v1/projects/local/locations/local/studies";
    let config = json!({"studyConfig": {
        "metrics": [{"metric": "loss", "goal": "MINIMIZE"}], "algorithm": "RANDOM_SEARCH", "tunesmith": {"seed": "1"},
        "parameters": [
            {"parameter": "a", "type": "INTEGER", "integerValueSpec": {"minValue": "1", "maxValue": "9"}},
            {"parameter": "b", "type": "DISCRETE", "discreteValueSpec": {"values": [1, 2.5]}},
        ],
    }});
    assert_eq!(server.post(&format!("{study}?studyId=s"), &config).0, 200);
    for _ in 0..8 {
        let request = json!({"clientId": "c", "suggestionCount": 1});
        let answer = server.wait(server.post(&format!("{study}/s/trials:suggest"), &request).1);
        let trial = &answer["response"]["trials"][0];
        let value: f64 = trial["parameters"][0]["intValue"].as_str().unwrap().parse().unwrap();
        let body = json!({"finalMeasurement": {"stepCount": "1", "metrics": [{"metric": "loss", "value": value}]}});
        assert_eq!(server.post(&format!("/v1/{}:complete", trial["name"].as_str().unwrap()), &body).0, 200);
    }
    let target = format!("http://{}", server.address);
    let explain = |target: &[&str]| -> Value {
        let explained = client(&workspace, &["explain", "--study", "s", "--json"], target).expect(0);
        serde_json::from_str(&explained.stdout).unwrap()
    };
    let of_server = explain(&["--server", &target]);
    assert_eq!((&of_server["study"], &of_server["state"]), (&json!("s"), &json!("ACTIVE")));
    assert_eq!(of_server["trials"]["measured"], 8);
    assert_eq!(of_server["metrics"][0]["importance"]["parameters"][0]["parameter"], "a");
    server.kill();
    assert_eq!(explain(&["--data-dir", "data"]), of_server);
    let unknown = client(&workspace, &["explain", "--study", "none"], &["--data-dir", "data"]).expect(2);
    assert!(unknown.stderr.contains("none does not exist"), "{}", unknown.stderr);
}

#[test]
fn jobs_are_listed_although_the_study_of_one_is_missing() {
    let (workspace, server) = served();
    let whole = server.get("/v1/projects/local/jobs/j").1;
    assert_eq!(whole["trainingOutput"]["isHyperparameterTuningJob"], true);
    server.post(
        "/v1/projects/local/jobs",
        &json!({"jobId": "k", "trainingInput": {"masterConfig": {"containerCommand": ["true"]}}}),
    );
    until(|| server.get("/v1/projects/local/jobs/k").1["endTime"].is_string());
    server.kill();
    let store = rusqlite::Connection::open(store_file(&workspace.path().join("data"))).unwrap();
    assert_eq!(store.execute("DELETE FROM studies WHERE id LIKE '%j'", []).unwrap(), 1);
    drop(store);
    let server = Server::start(&workspace, &[]);
    let (status, list) = server.get("/v1/projects/local/jobs");
    assert_eq!(status, 200, "{list}");
    let ids: Vec<&Value> = list["jobs"].as_array().unwrap().iter().map(|job| &job["jobId"]).collect();
    assert_eq!(ids, ["j", "k"]);
    assert_eq!(list["jobs"][0]["state"], "SUCCEEDED");
    let target = format!("http://{}", server.address);
    let described = client(&workspace, &["jobs", "describe", "j", "--format", "table"], &["--server", &target]);
    assert!(described.expect(0).stdout.contains("job j is SUCCEEDED\n"));
}

/// The SQLite file of a data folder.
fn store_file(folder: &Path) -> std::path::PathBuf {
    let mut files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_store = |path: &std::path::PathBuf| {
        let mut start = [0; 15];
        path.is_file()
            && std::fs::File::open(path).unwrap().read_exact(&mut start).is_ok()
            && &start == b"SQLite format 3"
    };
    files.find(is_store).unwrap()
}

#[test]
fn closed_output_ends_a_command_without_a_message() {
    let (workspace, server) = served();
    let target = format!("http://{}", server.address);
    for args in [
        &["validate", "--schema"][..],
        &["completions", "bash"],
        &["jobs", "list", "--server", &target],
        &["jobs", "describe", "j", "--server", &target],
        &["jobs", "stream-logs", "j", "--server", &target],
        &["trials", "list", "--job", "j", "--server", &target],
        &["explain", "j", "--server", &target],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = client_command(&workspace, args, &[]).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        let ended = finished(ended);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(141), ""), "{args:?}");
    }
    // The server survives a client that closes the connection.
    let mut stream = std::net::TcpStream::connect(server.address).unwrap();
    stream.write_all(b"GET /v1/projects/local/jobs HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    drop(stream);
    assert_eq!(server.get("/v1/projects/local/jobs").0, 200);
}

#[test]
fn list_is_sorted_limited_and_reduced_to_addresses() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &["--job-slots", "1"]);
    let target = format!("http://{}", server.address);
    let target = ["--server", target.as_str()];
    for (id, program) in [("b", "true"), ("c", "false"), ("a", "true")] {
        let code = i32::from(program == "false");
        let submit = ["jobs", "submit", "training", id, "--stream-logs", "--", program];
        client(&workspace, &submit, &target).expect(code);
    }
    let uris = |more: &[&str]| -> String {
        let args = [&["jobs", "list", "--uri"], more].concat();
        let text = client(&workspace, &args, &target).expect(0).stdout;
        text.lines().map(|line| line.strip_prefix(&format!("{}/v1/projects/local/jobs/", target[1])).unwrap()).collect()
    };
    assert_eq!(uris(&[]), "acb", "newest first");
    assert_eq!(uris(&["--sort-by", "jobId"]), "abc");
    assert_eq!(uris(&["--sort-by", "~jobId", "--limit", "2"]), "cb");
    assert_eq!(uris(&["--sort-by", "state,createTime"]), "cba");
    let unknown = client(&workspace, &["jobs", "list", "--sort-by", "name"], &target).expect(2);
    assert!(unknown.stderr.contains("no job has a field \"name\""), "{}", unknown.stderr);
    server.kill();
    let folder = client(&workspace, &["jobs", "list", "--uri", "--limit", "1"], &["--data-dir", "data"]).expect(0);
    assert_eq!(folder.stdout, "/v1/projects/local/jobs/a\n");
}

#[test]
fn run_follows_the_output_of_its_trials() {
    let workspace = Workspace::new(CONFIG);
    workspace.write("train.sh", TRAIN);
    let run = workspace.run(["--follow", "--job-id", "j", "--", "sh", "train.sh"]).expect(0);
    let layers = workspace.column("layers");
    for (index, layers) in layers.iter().enumerate() {
        let line = if layers == "2" { "no luck".to_owned() } else { format!("loss={layers}.25 step=7") };
        assert!(run.stdout.contains(&format!("[trial {}] {line}\n", index + 1)), "{}", run.stdout);
    }
    let extended = workspace.run(["--follow", "--trials", "+1", "--job-id", "j", "--", "sh", "train.sh"]).expect(0);
    assert!(extended.stdout.contains("[trial 9] "), "{}", extended.stdout);
    assert!(
        !extended.stdout.contains("[trial 1] "),
        "what an earlier run printed is not repeated: {}",
        extended.stdout
    );
}

#[test]
fn queued_job_states_what_it_waits_for() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &["--job-slots", "1"]);
    let target = format!("http://{}", server.address);
    let target = ["--server", target.as_str()];
    for id in ["a", "b"] {
        let submit = ["jobs", "submit", "training", id, "--", "tail", "-f", "/dev/null"];
        client(&workspace, &submit, &target).expect(0);
        if id == "a" {
            server.until("/v1/projects/local/jobs/a", "RUNNING");
        }
    }
    let mut following = client_command(&workspace, &["jobs", "stream-logs", "b"], &target);
    let mut following = following.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_line(following.stderr.as_mut().unwrap(), "job b waits for a free slot");
    client(&workspace, &["jobs", "cancel", "b"], &target).expect(0);
    assert_eq!(finished(following.wait_with_output().unwrap()).code, Some(1));
    client(&workspace, &["jobs", "cancel", "a"], &target).expect(0);
    until(|| server.get("/v1/projects/local/jobs/a").1["endTime"].is_string());
}

/// Two consecutive free ports.
fn free_ports() -> u16 {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        if port < u16::MAX && TcpListener::bind(("127.0.0.1", port + 1)).is_ok() {
            return port;
        }
    }
}

#[test]
fn replicas_of_a_local_run_get_consecutive_ports() {
    let workspace = Workspace::new("");
    workspace.write("trainer.py", "import os\nprint(os.environ['TF_CONFIG'])\n");
    let port = free_ports();
    let mut command = workspace.command();
    command.args(["local", "train", "--module-name", "trainer", "--distributed", "--worker-count", "1"]);
    command.args(["--parameter-server-count", "0", "--start-port", &port.to_string()]);
    let run = finished(command.output().unwrap()).expect(0);
    let line = run.stdout.lines().find_map(|line| line.strip_prefix("[master] ")).unwrap();
    let config: Value = serde_json::from_str(line).unwrap();
    let addresses = json!({"master": [format!("127.0.0.1:{port}")], "worker": [format!("127.0.0.1:{}", port + 1)]});
    assert_eq!(config["cluster"], addresses);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let mut command = workspace.command();
    command.args(["local", "train", "--module-name", "trainer", "--distributed", "--start-port", &port]);
    let refused = finished(command.output().unwrap()).expect(1);
    assert!(refused.stderr.contains(&format!("port {port}: ")), "{}", refused.stderr);
    let mut command = workspace.command();
    command.args(["local", "train", "--module-name", "trainer", "--start-port", &port]);
    assert!(finished(command.output().unwrap()).expect(2).stderr.contains("--start-port needs --distributed"));
}

/// The model recommends another trial than the best one where that was lucky, and none where they agree.
#[test]
fn trial_that_was_not_just_lucky_is_recommended() {
    let config = "trainingInput:\n  hyperparameters:\n    goal: MINIMIZE\n    hyperparameterMetricTag: loss\n    maxTrials: 40\n    \
                  maxParallelTrials: 2\n    algorithm: RANDOM_SEARCH\n    params:\n    - {parameterName: x, type: DOUBLE, \
                  minValue: 0, maxValue: 1}\n  tunesmith: {metricFromStdout: true, seed: 3}\n";
    let workspace = Workspace::new(config);
    // A parabola with noise; trial 36, far from the minimum, is lucky.
    let trainer = r#"awk -v x="${1#--x=}" -v n="$CLOUD_ML_TRIAL_ID" -v noisy="$NOISY" 'BEGIN {
        print "step=1 loss=" (x - 0.5) ^ 2 + noisy * ((n * 7 % 11 - 5) / 60 - (n == 36) * 0.6) }'"#;
    let summary = |job: &str, noisy: &str| {
        let trainer = format!("NOISY={noisy}\n{trainer}");
        let job = ["--data-dir", "data", "--job-id", job, "--", "sh", "-c", &trainer, "trainer"];
        workspace.run(job).expect(0).stdout
    };
    let text = summary("noisy", "1");
    assert!(text.contains("best: trial 36 with loss=-"), "{text}");
    let line = text.lines().find(|line| line.starts_with("recommended: trial ")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.ends_with("; trial 36 may have been lucky"), "{line}");
    let recommended = line.split([' ', ',']).nth(2).unwrap();
    let trials = workspace.trials();
    let trial = trials.iter().find(|trial| trial["trial_id"] == recommended).unwrap();
    assert!((trial["x"].parse::<f64>().unwrap() - 0.5).abs() < 0.2, "{line}");
    // Files and views agree.
    let marked: Vec<&str> =
        trials.iter().filter(|trial| trial["recommended"] == "true").map(|one| &*one["trial_id"]).collect();
    assert_eq!(marked, [recommended]);
    let of_file = workspace.job()["tunesmith"]["recommended"].clone();
    assert_eq!(of_file["trialId"], recommended);
    assert!(of_file["lower"].as_f64().unwrap() < of_file["predicted"].as_f64().unwrap(), "{of_file}");
    let export = ["trials", "export", "--job", "noisy", "--data-dir", "data", "--format"];
    let exported =
        |format: &str| finished(workspace.command().args(export).arg(format).output().unwrap()).expect(0).stdout;
    let json: Value = serde_json::from_str(&exported("json")).unwrap();
    assert_eq!(json["recommended"]["trial"].to_string(), recommended);
    assert_eq!(json["recommended"]["predicted"], of_file["predicted"]);
    let csv = exported("csv");
    let row = csv.lines().find(|row| row.contains(",true,")).unwrap_or_else(|| panic!("{csv}"));
    assert!(row.starts_with(&format!("{recommended},SUCCEEDED,")), "{row}");
    let text = summary("exact", "0");
    assert!(text.contains("best: trial ") && !text.contains("recommended"), "{text}");
}

/// The best trials are repeated with other seeds, and the best mean is recommended.
#[test]
fn best_trials_are_repeated_with_other_seeds() {
    let config = "trainingInput:\n  hyperparameters:\n    goal: MINIMIZE\n    hyperparameterMetricTag: loss\n    maxTrials: 20\n    \
                  params:\n    - {parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}\n    - {parameterName: seed, type: \
                  INTEGER, minValue: 1, maxValue: 3}\n  tunesmith: {metricFromStdout: true, seed: 3, repeats: {parameter: seed, \
                  leaders: 3}}\n";
    let workspace = Workspace::new(config);
    let trainer = r#"awk -v seed="${1#--seed=}" -v x="${2#--x=}" 'BEGIN {
        print "step=1 loss=" (x - 0.5) ^ 2 + 0.05 * sin(1000 * x * seed) }'"#;
    let job = ["--data-dir", "data", "--job-id", "repeated", "--", "sh", "-c", trainer, "trainer"];
    let text = workspace.run(job).expect(0).stdout;
    let trials = workspace.trials();
    let mut by_point: BTreeMap<&str, Vec<(&str, &str, f64)>> = BTreeMap::new();
    for trial in &trials {
        let number: u64 = trial["trial_id"].parse().unwrap();
        assert_eq!(trial["seed"] != "1", number > 14, "{trial:?}");
        let result = (&*trial["trial_id"], &*trial["seed"], trial["objective_value"].parse().unwrap());
        by_point.entry(&trial["x"]).or_default().push(result);
    }
    let mean =
        |results: &[(&str, &str, f64)]| results.iter().map(|result| result.2).sum::<f64>() / results.len() as f64;
    // A point that falls behind is not repeated any more.
    let most = by_point.values().map(Vec::len).max().unwrap();
    assert!(most > 1, "{by_point:?}");
    let repeated: Vec<_> = by_point.values().filter(|results| results.len() == most).collect();
    let best = repeated.iter().min_by(|a, b| mean(a).total_cmp(&mean(b))).unwrap();
    let first = best.iter().find(|result| result.1 == "1").unwrap().0;
    let line = format!("recommended: trial {first}, with the best mean of {most} trials: loss=");
    assert!(text.contains(&line), "{text}");
    assert!(!text.contains("results are noisy"), "{text}");
}
