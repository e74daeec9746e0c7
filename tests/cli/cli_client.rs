//! The client commands against a real server and against a data folder, with real programs.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::process::Stdio;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tunesmith_testing::access::{bearer, token};
use tunesmith_testing::client::{client, client_command, read_head};
use tunesmith_testing::python::MAKE_WHEEL;
use tunesmith_testing::server::Server;
use tunesmith_testing::{Finished, Workspace, finished, wait_for_line, without_requests};

const TUNING: &str = "
trainingInput:
  hyperparameters:
    goal: MINIMIZE
    hyperparameterMetricTag: loss
    maxTrials: 3
    algorithm: RANDOM_SEARCH
    params: [{parameterName: x, type: INTEGER, minValue: 1, maxValue: 9}]
  tunesmith: {metricFromStdout: true, seed: 5}
labels: {origin: file}
";

const STUDY: &str = "
metrics: [{metric: loss, goal: MINIMIZE}]
parameters:
- {parameter: a, type: INTEGER, integerValueSpec: {minValue: 1, maxValue: 2}}
- {parameter: b, type: CATEGORICAL, categoricalValueSpec: {values: [p, q]}}
algorithm: GRID_SEARCH
tunesmith: {seed: '1'}
";

fn json_of(finished: Finished) -> Value {
    serde_json::from_str(&finished.expect(0).stdout).unwrap()
}

#[test]
fn submitting_a_package_folder_streams_the_logs_to_the_end_of_the_job() {
    let workspace = Workspace::new(TUNING);
    fs::create_dir_all(workspace.path().join("project/trainer")).unwrap();
    workspace.write("project/trainer/__init__.py", "");
    workspace.write(
        "project/trainer/task.py",
        "import sys\nx = [a for a in sys.argv if a.startswith('--x=')][0]\nprint('arguments', *sys.argv[1:3])\n\
         print(f'loss={(int(x[4:]) - 3) ** 2}')\n",
    );
    let server = Server::start(&workspace, &[]);
    let url = format!("http://{}", server.address);
    let mut submit = vec!["jobs", "submit", "training", "first", "--config", "hptuning_config.yaml"];
    submit.extend(["--package-path", "project/trainer", "--module-name", "trainer.task", "--job-dir", "models"]);
    submit.extend(["--labels", "owner=me,team=a-b", "--scale-tier", "basic-gpu", "--staging-bucket", "gs://b"]);
    submit.extend(["--stream-logs", "--", "--epochs=2", "--quiet"]);
    let first = client(&workspace, &submit, &["--server", &url]).expect(0);
    assert!(first.stdout.starts_with("jobId: first\nstate: QUEUED\n"), "{}", first.stdout);
    for trial in 1..=3 {
        assert!(first.stdout.contains(&format!("[trial {trial}] arguments --epochs=2 --quiet\n")), "{}", first.stdout);
    }
    assert!(first.stderr.contains("no effect on this service: scaleTier, --staging-bucket"), "{}", first.stderr);
    assert!(first.stderr.contains("package trainer.tar.gz: ") && first.stderr.contains("job first is SUCCEEDED"));

    submit[3] = "second";
    submit.retain(|argument| *argument != "--stream-logs");
    let second = client(&workspace, &submit, &["--server", &url]).expect(0);
    assert!(!second.stderr.contains("uploaded"), "the same content is uploaded once: {}", second.stderr);
    let followed = client(&workspace, &["jobs", "stream-logs", "second", "--trial", "2"], &["--server", &url]);
    let followed = followed.expect(0).stdout;
    assert_eq!(followed.lines().filter(|line| line.starts_with("[trial 2] loss=")).count(), 1, "{followed}");
    assert!(!followed.contains("[trial 1]"), "{followed}");

    let job = json_of(client(&workspace, &["jobs", "describe", "first", "--format", "json"], &["--server", &url]));
    assert_eq!(job["labels"], json!({"origin": "file", "owner": "me", "team": "a-b"}));
    assert_eq!(job["trainingInput"]["jobDir"], workspace.path().join("models").to_str().unwrap());
    let uri = job["trainingInput"]["packageUris"][0].as_str().unwrap();
    let (sha256, name) = uri.strip_prefix("tunesmith://projects/local/packages/").unwrap().split_once('/').unwrap();
    assert_eq!(name, "trainer.tar.gz");
    let bytes = fs::read(workspace.path().join("data/packages/local").join(sha256).join(name)).unwrap();
    assert_eq!(hex::encode(Sha256::digest(&bytes)), sha256);
    assert!(workspace.path().join("models/3").is_dir());
    let table = client(&workspace, &["jobs", "describe", "first", "--format", "table"], &["--server", &url]);
    assert!(table.expect(0).stdout.contains("job first is SUCCEEDED\n"));
    // A package of one project cannot be used by another.
    let foreign = json!({"jobId": "j", "trainingInput": {"packageUris": [uri], "pythonModule": "trainer.task"}});
    let (status, error) = server.post("/v1/projects/other/jobs", &foreign);
    assert_eq!((status, error["error"]["status"].as_str()), (400, Some("INVALID_ARGUMENT")), "{error}");
    assert!(error["error"]["message"].as_str().unwrap().contains("belongs to another project than the job"), "{error}");
}

#[test]
fn running_job_is_listed_updated_and_cancelled() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &["--job-slots", "1"]);
    let url = format!("http://{}", server.address);
    let target = ["--server", url.as_str()];
    let script = "echo ready; printf 'an unfinished line'; exec tail -f /dev/null";
    client(&workspace, &["jobs", "submit", "training", "a", "--labels", "k=v", "--", "sh", "-c", script], &target)
        .expect(0);
    let mut following = client_command(&workspace, &["jobs", "stream-logs", "a", "--polling-interval", "0.2"], &target);
    let mut following = following.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_line(following.stdout.as_mut().unwrap(), "[job] ready");
    let submitted =
        client(&workspace, &["jobs", "submit", "training", "b", "--priority", "3", "--", "true"], &target).expect(0);
    assert!(!submitted.stderr.contains("containerCommand"), "{}", submitted.stderr);
    let list = client(&workspace, &["jobs", "list", "--filter", "state:QUEUED AND jobId:b*"], &target).expect(0).stdout;
    assert_eq!(list.lines().count(), 2, "{list}");
    assert!(list.lines().nth(1).unwrap().starts_with("b "), "{list}");
    let list = json_of(client(&workspace, &["jobs", "list", "--format", "json", "--page-size", "1"], &target));
    let ids: Vec<&str> = list.as_array().unwrap().iter().map(|job| job["jobId"].as_str().unwrap()).collect();
    assert_eq!(ids, ["b", "a"], "newest first, over all pages");
    let limited = json_of(client(&workspace, &["jobs", "list", "--format", "json", "--limit", "1"], &target));
    assert_eq!(limited.as_array().unwrap().len(), 1);

    let update = |args: &[&str]| client(&workspace, &[&["jobs", "update", "a"], args].concat(), &target);
    assert_eq!(update(&["--update-labels", "k=w,l=x"]).expect(0).stdout, "job a has k=w, l=x\n");
    assert_eq!(update(&["--remove-labels", "k", "--update-labels", "m=y"]).expect(0).stdout, "job a has l=x, m=y\n");
    assert_eq!(update(&["--clear-labels"]).expect(0).stdout, "job a has no labels\n");
    assert!(update(&[]).expect(2).stderr.contains("no change is requested"));

    client(&workspace, &["jobs", "cancel", "a"], &target).expect(0);
    let followed = finished(following.wait_with_output().unwrap()).expect(1);
    assert_eq!(followed.stdout, "[job] an unfinished line\n", "the incomplete line is printed at the end");
    assert!(followed.stderr.contains("job a is CANCELLED"), "{}", followed.stderr);
    let again = client(&workspace, &["jobs", "cancel", "a"], &target).expect(1);
    assert!(again.stderr.contains("error: cannot cancel job a: it is CANCELLED"), "{}", again.stderr);
    client(&workspace, &["jobs", "stream-logs", "b"], &target).expect(0);
}

#[test]
fn packages_of_a_configuration_are_uploaded() {
    let workspace = Workspace::new("packageUris: [greeter-1.0-py3-none-any.whl]\npythonModule: greeter\n");
    let wheel = workspace.path().join("greeter-1.0-py3-none-any.whl");
    assert!(
        tunesmith_testing::program("python3")
            .args(["-c", MAKE_WHEEL, "greeter"])
            .arg(&wheel)
            .status()
            .unwrap()
            .success()
    );
    let server = Server::start(&workspace, &[]);
    let url = format!("http://{}", server.address);
    let submit = ["jobs", "submit", "training", "j", "--config", "hptuning_config.yaml"];
    client(&workspace, &submit, &["--server", &url]).expect(0);
    // The server uses the uploaded copy.
    fs::remove_file(wheel).unwrap();
    client(&workspace, &["jobs", "stream-logs", "j"], &["--server", &url]).expect(0);
    let job = json_of(client(&workspace, &["jobs", "describe", "j", "--format", "json"], &["--server", &url]));
    let uri = job["trainingInput"]["packageUris"][0].as_str().unwrap();
    assert!(uri.starts_with("tunesmith://") && uri.ends_with("/greeter-1.0-py3-none-any.whl"), "{uri}");
}

#[test]
fn log_stream_survives_a_restart_of_the_server() {
    let workspace = Workspace::new("");
    let release = workspace.path().join("release");
    assert!(tunesmith_testing::program("mkfifo").arg(&release).status().unwrap().success());
    let server = Server::start(&workspace, &[]);
    let address = server.address;
    let url = format!("http://{address}");
    let script = "echo before; cat release > /dev/null; echo after";
    client(&workspace, &["jobs", "submit", "training", "j", "--", "sh", "-c", script], &["--server", &url]).expect(0);
    let mut following = client_command(&workspace, &["jobs", "stream-logs", "j"], &["--server", &url]);
    let mut following = following.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_line(following.stdout.as_mut().unwrap(), "[job] before");
    drop(server);
    wait_for_line(following.stderr.as_mut().unwrap(), "cannot be reached");
    let _server = Server::start_at(&workspace, address, &[]);
    drop(fs::File::options().write(true).open(release).unwrap());
    assert_eq!(finished(following.wait_with_output().unwrap()).expect(0).stdout, "[job] after\n");
}

#[test]
fn log_lines_are_labelled_and_filtered_by_task() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let url = format!("http://{}", server.address);
    let target = ["--server", url.as_str()];
    let mut submit = vec!["jobs", "submit", "training", "cluster", "--scale-tier", "CUSTOM", "--worker-count", "1"];
    submit.extend(["--master-machine-type", "m", "--worker-machine-type", "m", "--stream-logs", "--"]);
    submit.extend(["python3", "-c", "import json, os; print(json.loads(os.environ['TF_CONFIG'])['task']['type'])"]);
    // The master ends the job, so the worker may not have printed its line.
    let all = client(&workspace, &submit, &target).expect(0).stdout;
    assert!(all.contains("[job] master\n"), "{all}");
    let of = |task: &str| {
        let args = ["jobs", "stream-logs", "cluster", "--task-name", task];
        client(&workspace, &args, &target).expect(0).stdout
    };
    assert_eq!(of("master-replica-0"), "[job] master\n");
    assert!(["", "[job worker-0] worker\n"].contains(&of("worker-0").as_str()));
}

#[test]
fn study_commands_print_the_same_on_a_server_and_on_a_data_folder() {
    let workspace = Workspace::new("");
    workspace.write("study.yaml", STUDY);
    let server = Server::start(&workspace, &[]);
    let url = format!("http://{}", server.address);
    let (on_server, in_folder) =
        (work_by_hand(&workspace, &["--server", &url]), work_by_hand(&workspace, &["--data-dir", "folder"]));
    assert_eq!(without_requests(&on_server), in_folder);
    // Three mistakes are found before a request.
    let refusals = in_folder.lines().filter(|line| line.starts_with("error: ")).count();
    assert_eq!(on_server.lines().filter(|line| line.contains(" (request ")).count(), refusals - 3, "{on_server}");
}

/// Runs the commands for a study from creation to deletion, and returns all output without times.
fn work_by_hand(workspace: &Workspace, target: &[&str]) -> String {
    let mut said = String::new();
    let mut step = |code: i32, args: &[&str]| {
        let done = client(workspace, args, target).expect(code);
        said.push_str(&format!("$ {}\n{}{}", args.join(" "), done.stdout, done.stderr));
        done.stdout
    };
    step(0, &["studies", "create", "s", "--config", "study.yaml"]);
    step(2, &["studies", "create", "s", "--config", "study.yaml"]);
    let first = step(0, &["trials", "suggest", "--study", "s", "--client-id", "me"]);
    assert_eq!(first.lines().next(), Some("trial 1 is ACTIVE"));
    assert_eq!(
        step(0, &["trials", "suggest", "--study", "s", "--client-id", "me"]),
        first,
        "the same client, the same trial"
    );
    step(
        0,
        &[
            "trials",
            "add-measurement",
            "1",
            "--study",
            "s",
            "--step",
            "1",
            "--elapsed",
            "2.5",
            "--metric",
            "loss=-1e-3",
        ],
    );
    assert!(step(0, &["trials", "complete", "1", "--study", "s"]).ends_with("  loss -0.001\n"));
    step(0, &["trials", "suggest", "--study", "s", "--client-id", "me", "--count", "3"]);
    step(0, &["trials", "complete", "2", "--study", "s", "--metric", "loss=2", "--step", "7"]);
    step(0, &["trials", "complete", "3", "--study", "s", "--infeasible", "--reason", "it broke"]);
    let own = ["trials", "create", "--study", "s", "--parameter", "a=2", "--parameter", "b=q"];
    assert!(step(0, &[&own[..], &["--metric", "loss=5"]].concat()).contains("--a=2 --b=q\n  loss 5"));
    assert!(step(2, &["trials", "create", "--study", "s", "--parameter", "c=1"]).is_empty());
    step(0, &["trials", "delete", "5", "--study", "s", "--format", "table"]);
    step(0, &["trials", "stop", "4", "--study", "s", "--format", "table"]);
    step(0, &["trials", "delete", "4", "--study", "s", "--format", "table"]);
    let list = step(0, &["trials", "list", "--study", "s"]);
    assert!(list.contains("INFEASIBLE") && list.contains("it broke") && list.lines().count() == 4, "{list}");
    assert!(step(0, &["trials", "list", "--study", "s", "--optimal"]).contains(" -0.001 "));
    // Invalid requests.
    assert!(step(1, &["trials", "complete", "2", "--study", "s", "--metric", "loss=3"]).is_empty());
    step(2, &["trials", "complete", "2", "--study", "s", "--metric", "accuracy=3"]);
    step(2, &["trials", "complete", "9", "--study", "s"]);
    step(2, &["trials", "describe", "x/../1", "--study", "s"]);
    step(2, &["trials", "list", "--study", "absent"]);
    step(2, &["trials", "complete", "2", "--study", "s", "--metric", "loss=NaN"]);
    let timed = |args: &[&str]| client(workspace, args, target).expect(0).stdout;
    let csv = timed(&["trials", "export", "--study", "s"]);
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0][..4], ["trial_id", "state", "objective_value", "training_step"]);
    assert_eq!(rows[0][8..], ["recommended", "a", "b"]);
    assert_eq!(rows[1..].iter().map(|row| row[1]).collect::<Vec<_>>(), ["SUCCEEDED", "SUCCEEDED", "INFEASIBLE"]);
    assert_eq!((rows[1][2], rows[2][2], rows[2][3], rows[3][5]), ("-0.001", "2", "7", "it broke"));
    timed(&["trials", "export", "--study", "s", "--format", "json", "--output", "trials.json"]);
    let trials: Value = serde_json::from_str(&workspace.read("trials.json")).unwrap();
    assert_eq!(trials["trials"][0]["measurements"][0]["elapsedTime"], "2.5s");
    assert!(timed(&["studies", "list"]).contains("MINIMIZE loss"));
    let described: Value = serde_json::from_str(&timed(&["studies", "describe", "s", "--format", "json"])).unwrap();
    assert_eq!(
        (&described["name"], &described["state"]),
        (&json!("projects/local/locations/local/studies/s"), &json!("ACTIVE"))
    );
    let mut last = |code: i32, args: &[&str]| {
        let done = client(workspace, args, target).expect(code);
        said.push_str(&format!("{}{}", done.stdout, done.stderr));
    };
    last(0, &["studies", "delete", "s", "--format", "table"]);
    last(2, &["studies", "describe", "s"]);
    said
}

#[test]
fn job_in_a_data_folder_waits_for_a_server_or_runs_at_once() {
    let workspace = Workspace::new(TUNING);
    let target = ["--data-dir", "data"];
    let submit = |id: &str, more: &[&str]| {
        let mut args = vec!["jobs", "submit", "training", id, "--config", "hptuning_config.yaml"];
        args.extend(more);
        args.extend(["--", "sh", "-c", "echo loss=4"]);
        client(&workspace, &args, &target)
    };
    let waiting = submit("waiting", &[]).expect(0);
    assert!(waiting.stderr.contains("to run it: tunesmith serve --data-dir"), "{}", waiting.stderr);
    submit("unwanted", &[]).expect(0);
    assert_eq!(
        client(&workspace, &["jobs", "cancel", "unwanted"], &target).expect(0).stdout,
        "job unwanted is CANCELLED: cancelled by a user\n"
    );
    let at_once = submit("at_once", &["--stream-logs"]).expect(0);
    assert_eq!(at_once.stdout.lines().filter(|line| line.ends_with("] loss=4")).count(), 3, "{}", at_once.stdout);
    let states = |target: &[&str]| {
        let list = json_of(client(&workspace, &["jobs", "list", "--format", "json"], target));
        let jobs = list.as_array().unwrap().iter();
        let mut states: Vec<String> =
            jobs.map(|job| format!("{} {}", job["jobId"].as_str().unwrap(), job["state"].as_str().unwrap())).collect();
        states.sort();
        states
    };
    assert_eq!(states(&target), ["at_once SUCCEEDED", "unwanted CANCELLED", "waiting QUEUED"]);
    let failing = client(
        &workspace,
        &["jobs", "submit", "training", "failing", "--stream-logs", "--", "sh", "-c", "exit 3"],
        &target,
    );
    assert!(failing.expect(1).stderr.contains("job failing is FAILED: "));

    let server = Server::start(&workspace, &[]);
    let url = format!("http://{}", server.address);
    client(&workspace, &["jobs", "stream-logs", "waiting"], &["--server", &url]).expect(0);
    assert!(states(&["--server", &url]).contains(&"waiting SUCCEEDED".to_owned()));
    // A data folder that a server has open can be read, but not changed.
    assert_eq!(states(&target), states(&["--server", &url]));
    for args in [["jobs", "cancel", "waiting"].as_slice(), &["studies", "delete", "s"]] {
        let refused = client(&workspace, args, &target).expect(2).stderr;
        assert!(refused.contains("is in use by process ") && refused.contains("use --server "), "{refused}");
    }
}

#[test]
fn job_run_in_a_data_folder_reports_over_http() {
    let workspace = Workspace::new(&TUNING.replace("metricFromStdout: true, ", ""));
    workspace.write(
        "report.py",
        r#"
import json, os, urllib.request
body = {"measurement": {"stepCount": "1", "metrics": [{"metric": "loss", "value": 2.5}]}}
url = os.environ["TUNESMITH_ENDPOINT"] + "/v1/" + os.environ["TUNESMITH_TRIAL"] + ":addMeasurement"
request = urllib.request.Request(url, data=json.dumps(body).encode())
request.add_header("authorization", "Bearer " + os.environ["TUNESMITH_TOKEN"])
urllib.request.urlopen(request, timeout=10).close()
"#,
    );
    let submit = ["jobs", "submit", "training", "j", "--config", "hptuning_config.yaml", "--stream-logs"];
    let trainer = ["--", "python3", "report.py"];
    client(&workspace, &[&submit[..], &trainer].concat(), &["--data-dir", "data"]).expect(0);
    let trials = client(&workspace, &["trials", "list", "--job", "j"], &["--data-dir", "data"]).expect(0).stdout;
    assert_eq!(trials.matches(" 2.5 ").count(), 3, "{trials}");
}

#[test]
fn interrupted_job_in_a_data_folder_stays_queued() {
    let workspace = Workspace::new("");
    let script = "echo ready; exec tail -f /dev/null";
    let args = ["jobs", "submit", "training", "j", "--stream-logs", "--", "sh", "-c", script];
    let mut command = client_command(&workspace, &args, &["--data-dir", "data"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_line(child.stdout.as_mut().unwrap(), "[job] ready");
    tunesmith_testing::signal(&child, rustix::process::Signal::INT);
    let said = finished(child.wait_with_output().unwrap()).expect(130);
    assert!(said.stderr.contains("to resume job j: tunesmith serve --data-dir"), "{}", said.stderr);
    let job = client(&workspace, &["jobs", "describe", "j", "--format", "json"], &["--data-dir", "data"]);
    assert_eq!(json_of(job)["state"], "QUEUED");
}

#[test]
fn errors_are_printed_one_per_line() {
    let workspace = Workspace::new("hyperparameters: {goal: SIDEWAYS}");
    let server = Server::start(&workspace, &[]);
    let url = format!("http://{}", server.address);
    let target = ["--server", url.as_str()];
    let error = |code: i32, args: &[&str]| without_requests(&client(&workspace, args, &target).expect(code).stderr);
    for command in ["describe", "cancel", "stream-logs"] {
        assert_eq!(error(2, &["jobs", command, "absent"]), "error: job absent does not exist\n");
    }
    let filter = error(2, &["jobs", "list", "--filter", "name:x"]);
    assert_eq!(
        filter,
        "error: filter: column 1: found the field name; allowed: jobId, state, errorMessage, labels.KEY, createTime, startTime, endTime\n"
    );
    let submit = ["jobs", "submit", "training"];
    assert!(error(2, &[&submit[..], &["--", "true"]].concat()).contains("the job has no name"));
    assert!(error(2, &[&submit[..], &["j", "--config", "hptuning_config.yaml"]].concat()).contains("SIDEWAYS"));
    let two_mistakes = ["j", "--python-version", "9", "--priority", "2000", "--", "true"];
    let said = error(2, &[&submit[..], &two_mistakes].concat());
    assert_eq!(
        said.lines().filter(|line| line.starts_with("error: ")).collect::<Vec<_>>(),
        [
            "error: trainingInput.pythonVersion: \"9\" is not a Python version of AI Platform; allowed: one of 3.7, 3.5, \
             2.7",
            "error: trainingInput.scheduling.priority: 2000 is out of range; allowed: a whole number from 0 to 1000",
        ]
    );
    assert!(
        error(2, &[&submit[..], &["j", "--package-path", "nowhere", "--module-name", "m"]].concat())
            .contains("`nowhere` is not a folder of a Python package: it does not exist")
    );
    workspace.write("text.whl", "no package");
    assert!(
        error(2, &[&submit[..], &["j", "--packages", "text.whl", "--module-name", "m"]].concat())
            .starts_with("error: body: package `tunesmith://projects/local/packages/")
    );
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let unreachable = client(&workspace, &["jobs", "list"], &["--server", &format!("http://{closed}")]).expect(1);
    assert!(unreachable.stderr.starts_with(&format!("error: the server http://{closed} cannot be reached: ")));
    let address = client(&workspace, &["jobs", "list"], &["--server", "localhost:80"]).expect(2);
    assert!(address.stderr.contains("http://HOST:PORT"), "{}", address.stderr);
    let nothing = client(&workspace, &["jobs", "list"], &["--data-dir", "nothing"]).expect(2);
    assert!(nothing.stderr.contains("there is no store in data folder nothing"), "{}", nothing.stderr);
    assert!(!workspace.path().join("nothing").exists());
}

#[test]
fn server_and_token_are_read_from_the_environment() {
    let workspace = Workspace::new("");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = client_command(&workspace, &["jobs", "list", "--project", "p:q"], &[]);
    command.env("TUNESMITH_SERVER", format!("http://{}", listener.local_addr().unwrap()));
    command.env("TUNESMITH_ACCESS_TOKEN", "secret-1");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let request = read_head(&mut stream);
    assert!(request.starts_with("GET /v1/projects/p%3Aq/jobs?"), "{request}");
    assert!(request.contains("\r\nauthorization: Bearer secret-1\r\n"), "{request}");
    let body = r#"{"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "who are you"}}"#;
    write!(stream, "HTTP/1.1 401 Unauthorized\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let refused = finished(child.wait_with_output().unwrap()).expect(1);
    assert_eq!(refused.stderr, "error: who are you (the access token is taken from TUNESMITH_ACCESS_TOKEN)\n");
}

#[test]
fn roles_allow_uploading_packages_and_reading_logs() {
    let workspace = Workspace::new("");
    let developer = token(&workspace, &["--principal", "user:dev@x", "--role", "ml.developer@local"]);
    let viewer = token(&workspace, &["--principal", "user:view@x", "--role", "ml.viewer"]);
    let server = Server::start(&workspace, &[]);
    let url = format!("http://{}", server.address);
    let as_user = |token: &str, args: &[&str]| {
        let mut command = client_command(&workspace, args, &["--server", &url]);
        finished(command.env("TUNESMITH_ACCESS_TOKEN", token).output().unwrap())
    };
    let submit = ["jobs", "submit", "training", "j", "--stream-logs", "--", "echo", "hello"];
    assert!(as_user(&developer, &submit).expect(0).stdout.ends_with("[job] hello\n"));
    let refused = as_user(&viewer, &submit).expect(1).stderr;
    assert!(refused.starts_with("error: permission ml.jobs.create is denied on projects/local"), "{refused}");
    assert_eq!(as_user(&viewer, &["jobs", "stream-logs", "j"]).expect(0).stdout, "[job] hello\n");
    let without_token = client(&workspace, &["jobs", "stream-logs", "j"], &["--server", &url]).expect(1).stderr;
    assert!(without_token.contains("TUNESMITH_ACCESS_TOKEN"), "{without_token}");
    let package = format!("/v1/projects/local/packages/{}/a.zip", "0".repeat(64));
    let logs = "/v1/projects/local/jobs/j/logs";
    for (method, path) in
        [("GET", logs), ("GET", &format!("{logs}/attempt-1.master-0.stdout")), ("GET", &package), ("PUT", &package)]
    {
        assert_eq!(server.send(method, path, "", "").0, 401, "{method} {path}");
    }
    assert_eq!(server.send("PUT", &package, &bearer(&viewer), "").0, 403);
    assert_eq!(server.send("PUT", &package, &bearer(&developer), "").0, 400);
    // The owner of the folder needs no token.
    drop(server);
    let list = client(&workspace, &["jobs", "list"], &["--data-dir", "data"]).expect(0).stdout;
    assert!(list.contains("\nj "), "{list}");
}

#[test]
fn completion_scripts_contain_the_commands() {
    let workspace = Workspace::new("");
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = client(&workspace, &["completions", shell], &[]).expect(0).stdout;
        for word in ["stream-logs", "add-measurement", "studies"] {
            assert!(script.contains(word), "{shell} {word}");
        }
        // The script for fish covers two levels of commands.
        assert!(shell == "fish" || script.contains("master-image-uri"), "{shell}");
    }
}
