//! Servers on a PostgreSQL database.

use serde_json::{Value, json};
use tunesmith_testing::paced::until;
use tunesmith_testing::postgres::Cluster;
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, finished};

const STUDIES: &str = "/v1/projects/p/locations/l/studies";
const TRIALS: &str = "/v1/projects/p/locations/l/studies/s/trials";

/// The number of requests after which a database that has returned must have been noticed.
const MOST_REQUESTS: usize = 20_000;

fn create_study(server: &Server) {
    let study = json!({"studyConfig": {
        "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
        "parameters": [{"parameter": "x", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}],
    }});
    let (status, answer) = server.post(&format!("{STUDIES}?studyId=s"), &study);
    assert_eq!(status, 200, "{answer}");
}

fn create_trial(server: &Server) -> (u16, Value) {
    server.post(TRIALS, &json!({"parameters": [{"parameter": "x", "floatValue": 0.25}]}))
}

fn trial_count(server: &Server) -> usize {
    server.get(TRIALS).1["trials"].as_array().map_or(0, Vec::len)
}

/// `tunesmith serve` in a new workspace with these arguments, which fails.
fn failed_start(workspace: &Workspace, arguments: &[&str]) -> String {
    let mut command = workspace.command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"]).args(arguments);
    finished(command.output().unwrap()).expect(2).stderr
}

#[test]
fn server_reports_a_lost_database_and_continues_when_it_returns() {
    let cluster = Cluster::start();
    let workspace = Workspace::new("");
    let address = cluster.create_database("tuning");
    let server = Cluster::serve_in(&workspace.path().join("data"), &address, &[]);
    create_study(&server);
    assert_eq!(create_trial(&server).0, 200);
    assert_eq!(server.text("GET", "/readyz").0, 200);
    cluster.stop();
    let (status, readiness) = server.get("/readyz");
    assert_eq!(status, 503, "{readiness}");
    let (status, answer) = create_trial(&server);
    assert_eq!((status, &answer["error"]["status"]), (503, &json!("UNAVAILABLE")), "{answer}");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("the database cannot be reached"), "{message}");
    let (_, readiness) = server.get("/readyz");
    let readiness = readiness["error"]["message"].as_str().unwrap().to_owned();
    assert!(readiness.starts_with("the store takes no changes: the database cannot be reached"), "{readiness}");
    cluster.restart();
    let is_ready = (0..MOST_REQUESTS).any(|_| server.text("GET", "/readyz").0 == 200);
    assert!(is_ready, "it becomes ready without a change");
    assert_eq!(create_trial(&server).0, 200);
    assert_eq!(trial_count(&server), 2);
}

#[test]
fn server_that_cannot_use_its_database_names_the_reason_and_not_the_password() {
    let cluster = Cluster::start();
    let workspace = Workspace::new("");
    let good = cluster.create_database("tuning");
    let wrong = failed_start(&workspace, &["--store", &good.replace(":right@", ":mistaken@")]);
    assert!(wrong.contains("password authentication failed for user \"test\"; give the password of test"), "{wrong}");
    assert!(!wrong.contains("mistaken"), "{wrong}");
    let parameter = failed_start(&workspace, &["--store", &format!("{good}?sslmod=require")]);
    assert!(parameter.contains("unknown parameter sslmod") && !parameter.contains("right"), "{parameter}");
    let unknown = failed_start(&workspace, &["--store", "mysql"]);
    assert!(unknown.contains("expected sqlite, sled, or the address of a database"), "{unknown}");
    let file = failed_start(&workspace, &["--store-password-file", "missing"]);
    assert!(file.contains("--store-password-file has an effect only with the address of a database"), "{file}");
    cluster.stop();
    let down = failed_start(&workspace, &["--store", &good]);
    assert!(down.contains("the database cannot be reached: Connection refused"), "{down}");
    assert!(down.contains("check that it runs, and the host and port of --store"), "{down}");
}

#[test]
fn password_comes_from_a_file_and_a_folder_keeps_its_database() {
    let cluster = Cluster::start();
    let workspace = Workspace::new("");
    let address = cluster.create_database("tuning");
    let without = address.replace(":right@", "@");
    std::fs::write(workspace.path().join("password"), "right\n").unwrap();
    let password = ["--store", without.as_str(), "--store-password-file", "password"];
    let server = Server::start(&workspace, &password);
    create_study(&server);
    server.kill();
    let noted = std::fs::read_to_string(workspace.path().join("data/DATABASE")).unwrap();
    assert!(noted.starts_with(&format!("{without}\n")) && !noted.contains("right"), "{noted}");
    // Commands on the folder find the database.
    let mut list = workspace.command();
    list.args(["studies", "list", "--data-dir", "data", "--project", "p", "--location", "l"])
        .env("PGPASSWORD", "right");
    let listed = finished(list.output().unwrap()).expect(0);
    assert!(listed.stdout.contains('s'), "{}", listed.stdout);
    let other = cluster.create_database("other");
    let refused = failed_start(&workspace, &["--store", &other]);
    assert!(refused.contains("belongs to the database postgres://test@127.0.0.1"), "{refused}");
    let refused = failed_start(&workspace, &["--store", "sqlite"]);
    assert!(refused.contains("contains a store of kind postgres, not sqlite"), "{refused}");
    cluster.query("tuning", "DROP SCHEMA public CASCADE; CREATE SCHEMA public");
    let emptied = failed_start(&workspace, &["--store", &address]);
    assert!(emptied.contains("its tables are missing; stop, keep a copy"), "{emptied}");
}

const JOB: &str = "
hyperparameters:
  goal: MINIMIZE
  hyperparameterMetricTag: loss
  maxTrials: 3
  maxParallelTrials: 2
  algorithm: RANDOM_SEARCH
  params:
    - {parameterName: x, type: DOUBLE, minValue: 0, maxValue: 10}
tunesmith:
  metricFromStdout: true
";

#[test]
fn job_runs_on_a_database_whose_password_its_program_does_not_get() {
    let cluster = Cluster::start();
    let workspace = Workspace::new(JOB);
    let address = cluster.create_database("tuning");
    workspace.write("train.sh", "env > variables\necho loss=0.5 step=1\n");
    let mut run = workspace.run_command(["--job-id", "j", "--", "sh", "train.sh"]);
    let ran = finished(run.env("TUNESMITH_STORE", &address).env("PGPASSWORD", "right").output().unwrap()).expect(0);
    let state = cluster.query("tuning", "SELECT state FROM jobs WHERE id = 'j'");
    assert_eq!(state, "SUCCEEDED", "{}\n{}", ran.stdout, ran.stderr);
    assert_eq!(cluster.query("tuning", "SELECT count(*) FROM trials WHERE NOT open"), "3");
    let variables = workspace.read("variables");
    assert!(variables.contains("PATH=") && !variables.contains("right"), "{variables}");
}

/// A job of two trials, the programs of which write their process IDs to `pids` and wait until the file `go` exists.
fn waiting_job(workspace: &Workspace) -> Value {
    let folder = workspace.path().display();
    let script = format!(
        "echo $$ >> {folder}/pids; if [ -e {folder}/go ]; then echo loss=0.5 step=1; else exec tail -f /dev/null; fi"
    );
    json!({"jobId": "j", "trainingInput": {
        "masterConfig": {"containerCommand": ["sh", "-c", script]},
        "hyperparameters": {
            "goal": "MINIMIZE", "hyperparameterMetricTag": "loss", "maxTrials": 2, "maxParallelTrials": 2,
            "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}],
        },
        "tunesmith": {"metricFromStdout": true},
    }})
}

/// The IDs of the processes that the programs have written.
fn process_ids(workspace: &Workspace) -> Vec<u32> {
    let text = std::fs::read_to_string(workspace.path().join("pids")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn runs(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}/cwd")).exists()
}

const JOBS: &str = "/v1/projects/p/jobs";

#[test]
fn job_of_a_dead_server_goes_on_elsewhere_and_its_programs_are_ended_when_it_returns() {
    let cluster = Cluster::start();
    let workspace = Workspace::new("");
    let address = cluster.create_database("tuning");
    let (first, second) = (workspace.path().join("first"), workspace.path().join("second"));
    let a = Cluster::serve_in(&first, &address, &[]);
    let (status, created) = a.post(JOBS, &waiting_job(&workspace));
    assert_eq!(status, 200, "{created}");
    until(|| process_ids(&workspace).len() >= 2);
    let b = Cluster::serve_in(&second, &address, &[]);
    let job = format!("{JOBS}/j");
    assert_eq!(b.get(&job).1["state"], "RUNNING", "any server answers");
    let left = process_ids(&workspace);
    a.kill();
    workspace.write("go", "");
    let ended = b.until_ended(&job);
    assert_eq!(ended["state"], "SUCCEEDED", "{ended}");
    let trials = ended["trainingOutput"]["trials"].as_array().unwrap();
    assert_eq!(trials.iter().filter(|trial| trial["state"] == "SUCCEEDED").count(), 2, "{ended}");
    assert!(left.iter().all(|pid| runs(*pid)), "the programs of the dead server run on");
    assert_eq!(process_ids(&workspace).len(), 4, "each trial ran once more");
    let _a = Cluster::serve_in(&first, &address, &[]);
    until(|| !left.iter().any(|pid| runs(*pid)));
}

#[test]
fn server_that_hung_loses_its_jobs_and_ends_their_programs() {
    let cluster = Cluster::start();
    let workspace = Workspace::new("");
    let address = cluster.create_database("tuning");
    let a = Cluster::serve_in(&workspace.path().join("first"), &address, &[]);
    assert_eq!(a.post(JOBS, &waiting_job(&workspace)).0, 200);
    until(|| process_ids(&workspace).len() >= 2);
    let b = Cluster::serve_in(&workspace.path().join("second"), &address, &[]);
    let left = process_ids(&workspace);
    a.signal(rustix::process::Signal::STOP);
    // The other server starts both trials again.
    until(|| process_ids(&workspace).len() >= 4);
    a.signal(rustix::process::Signal::CONT);
    until(|| !left.iter().any(|pid| runs(*pid)));
    let others: Vec<u32> = process_ids(&workspace).into_iter().filter(|pid| !left.contains(pid)).collect();
    assert_eq!(others.len(), 2);
    assert!(others.iter().all(|pid| runs(*pid)), "those of the owner run on");
    // Any server cancels the job of another one.
    let job = format!("{JOBS}/j");
    assert_eq!(a.post(&format!("{job}:cancel"), &json!({})).0, 200);
    b.until(&job, "CANCELLED");
    assert!(!others.iter().any(|pid| runs(*pid)));
    assert_eq!(process_ids(&workspace).len(), 4, "no program was started again");
}

#[test]
fn job_that_was_queued_on_a_busy_server_starts_on_another_one() {
    let cluster = Cluster::start();
    let workspace = Workspace::new("");
    let address = cluster.create_database("tuning");
    let busy = Cluster::serve_in(&workspace.path().join("first"), &address, &["--job-slots", "1"]);
    let mut waiting = waiting_job(&workspace);
    assert_eq!(busy.post(JOBS, &waiting).0, 200);
    until(|| process_ids(&workspace).len() >= 2);
    let free = Cluster::serve_in(&workspace.path().join("second"), &address, &["--job-slots", "1"]);
    waiting["jobId"] = json!("k");
    assert_eq!(busy.post(JOBS, &waiting).0, 200);
    until(|| process_ids(&workspace).len() >= 4);
    let owners = cluster.query("tuning", "SELECT count(DISTINCT owner) FROM claims WHERE until > now()");
    assert_eq!(owners, "2");
    for server in [&busy, &free] {
        assert_eq!(server.get(&format!("{JOBS}/k")).1["state"], "RUNNING");
    }
    for job in ["j", "k"] {
        assert_eq!(free.post(&format!("{JOBS}/{job}:cancel"), &json!({})).0, 200);
        busy.until(&format!("{JOBS}/{job}"), "CANCELLED");
    }
}

#[test]
fn tokens_and_packages_are_those_of_all_servers() {
    let cluster = Cluster::start();
    let workspace = Workspace::new("");
    let address = cluster.create_database("tuning");
    let (first, second) = (workspace.path().join("first"), workspace.path().join("second"));
    let tokens = |folder: &std::path::Path, arguments: &[&str]| {
        let mut command = workspace.command();
        command.arg("tokens").args(arguments).arg("--data-dir").arg(folder).env("TUNESMITH_STORE", &address);
        finished(command.output().unwrap()).expect(0).stdout
    };
    // Before the folder has a database.
    let admin = tokens(&first, &["create", "--principal", "user:ada@example.com", "--role", "ml.admin"]);
    let a = Cluster::serve_in(&first, &address, &[]);
    let b = Cluster::serve_in(&second, &address, &[]);
    let header = |token: &str| format!("authorization: Bearer {}\r\n", token.trim());
    for server in [&a, &b] {
        assert_eq!(server.send("GET", JOBS, "", "").0, 401);
        assert_eq!(server.send("GET", JOBS, &header(&admin), "").0, 200);
    }
    let viewer = tokens(&second, &["create", "--principal", "user:eve@example.com", "--role", "ml.viewer@p"]);
    until(|| a.send("GET", JOBS, &header(&viewer), "").0 == 200);
    let id = viewer.trim().split('_').nth(1).unwrap().to_owned();
    tokens(&first, &["revoke", &id]);
    until(|| b.send("GET", JOBS, &header(&viewer), "").0 == 401);
    assert_eq!(b.send("GET", JOBS, &header(&admin), "").0, 200, "the others are kept");

    // An archive of one server is used by a job of another one.
    let archive = workspace.path().join("trainer-1.0.tar.gz");
    let mut pack = tunesmith_testing::program("tar");
    pack.arg("-czf").arg(&archive).arg("-C").arg(workspace.path()).arg("hptuning_config.yaml");
    assert!(pack.status().unwrap().success());
    let bytes = std::fs::read(&archive).unwrap();
    let sha256 = sha256(&bytes);
    let package = format!("/v1/projects/p/packages/{sha256}/trainer-1.0.tar.gz");
    let port = |server: &Server| format!("http://{}", server.address);
    let mut upload = tunesmith_testing::program("curl");
    upload.args(["-sS", "-f", "-X", "PUT", "-H", &format!("authorization: Bearer {}", admin.trim()), "--data-binary"]);
    upload.arg(format!("@{}", archive.display())).arg(format!("{}{package}", port(&a)));
    assert!(upload.stdout(std::process::Stdio::null()).status().unwrap().success());
    let (status, found) = b.send("GET", &package, &header(&admin), "");
    assert_eq!((status, &found["sizeBytes"]), (200, &json!(bytes.len().to_string())), "{found}");
    let copied = second.join(format!("packages/p/{sha256}/trainer-1.0.tar.gz"));
    assert_eq!(std::fs::read(copied).unwrap(), bytes);
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    hex::encode(sha2::Sha256::digest(bytes))
}

#[test]
fn logs_of_a_job_are_answered_by_its_server_and_the_others_name_it() {
    let cluster = Cluster::start();
    let workspace = Workspace::new("");
    let address = cluster.create_database("tuning");
    let first = workspace.path().join("first");
    let a = Cluster::serve_in(&first, &address, &[]);
    workspace.write("go", "");
    assert_eq!(a.post(JOBS, &waiting_job(&workspace)).0, 200);
    let job = format!("{JOBS}/j");
    a.until(&job, "SUCCEEDED");
    let b = Cluster::serve_in(&workspace.path().join("second"), &address, &[]);
    let logs = format!("{job}/logs");
    let listed = a.get(&logs).1;
    assert_eq!(listed["logs"][0]["name"], "projects/p/jobs/j/logs/trial-1.attempt-1.master-0.stdout", "{listed}");
    for path in [logs.clone(), format!("{logs}/trial-1.attempt-1.master-0.stdout")] {
        let (status, answer) = b.get(&path);
        let message = answer["error"]["message"].as_str().unwrap();
        assert_eq!(status, 400, "{answer}");
        assert!(message.starts_with("the logs of job p/j are on the server that runs it: "), "{message}");
        assert!(message.contains(first.file_name().unwrap().to_str().unwrap()), "{message}");
    }
}
