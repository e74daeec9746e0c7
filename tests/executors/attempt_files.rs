//! What is left of an attempt: its logs within their quota, its metrics and its exit status.

use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use serde_json::json;
use sha2::{Digest, Sha256};
use tunesmith_testing::Workspace;
use tunesmith_testing::paced::until;
use tunesmith_testing::server::Server;

const CONFIG: &str = "
hyperparameters:
  goal: MAXIMIZE
  hyperparameterMetricTag: acc
  maxTrials: 1
  params: [{parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}]
tunesmith:
  metricFromStdout: true
";

#[test]
fn logs_that_exceed_their_quota_keep_head_and_tail_and_the_result() {
    let workspace = Workspace::new(CONFIG);
    workspace.write("train.sh", "echo first; seq 1 1500000; echo acc=0.5; seq 1 1500000 >&2; echo last >&2");
    // An agent sends the logs to the server, which keeps them within the same limit.
    for executor in ["local", "agent"] {
        let args = ["--executor", executor, "--data-dir", executor, "--job-id", "j", "--log-quota", "2"];
        workspace.run(args.into_iter().chain(["--", "bash", "train.sh"])).expect(0);
        assert_eq!(workspace.column("objective_value"), ["0.5"]);
        let folder = workspace.path().join(executor).join("jobs/j/trials/1/attempt-1");
        let taken: u64 =
            ["stdout.log", "stderr.log"].map(|log| folder.join(log).metadata().unwrap().blocks() * 512).iter().sum();
        assert!(taken <= 2 << 20, "{executor}: {taken} bytes");
        let log = |name: &str| String::from_utf8(std::fs::read(folder.join(name)).unwrap()).unwrap();
        assert!(log("stdout.log").starts_with("first\n1\n2\n") && log("stdout.log").ends_with("1500000\nacc=0.5\n"));
        assert!(log("stderr.log").ends_with("\nlast\n"));
    }
}

#[test]
fn ended_trial_leaves_its_logs_its_metrics_and_its_exit_status() {
    let workspace = Workspace::new(CONFIG);
    workspace.write("train.sh", "echo acc=0.5; test $CLOUD_ML_TRIAL_ID = 1 && touch $CLOUD_ML_HP_METRIC_FILE; true");
    workspace.run(["--data-dir", "data", "--job-id", "j", "--", "bash", "train.sh"]).expect(0);
    let mut find = tunesmith_testing::program("find");
    find.args(["data/jobs/j/trials", "data/executions", "-not", "-type", "d"]).current_dir(workspace.path());
    let found = String::from_utf8(find.output().unwrap().stdout).unwrap();
    let mut left: Vec<&str> = found.lines().collect();
    left.sort_unstable();
    let attempt = "data/jobs/j/trials/1/attempt-1";
    let supervisor = "data/executions/j-trial-1-attempt-1";
    let [end, metrics, log] = [
        format!("{supervisor}/exit.json"),
        format!("{attempt}/metrics/output.metrics"),
        format!("{attempt}/stdout.log"),
    ];
    assert_eq!(left, [end, metrics, log]);
    // The finished job is known from the store alone.
    let again = workspace.run(["--data-dir", "data", "--job-id", "j", "--", "bash", "train.sh"]).expect(0);
    assert!(again.stderr.contains("nothing is left to do"), "{}", again.stderr);
}

#[test]
fn packages_and_environments_that_no_job_has_used_are_removed_after_the_retention() {
    let workspace = Workspace::new("");
    let days = |days: u64| SystemTime::now() - Duration::from_secs(days * 24 * 60 * 60);
    let age = |path: &std::path::Path, time: SystemTime| std::fs::File::open(path).unwrap().set_modified(time).unwrap();
    let content = "PK\x03\x04 content";
    let sha256 = hex::encode(Sha256::digest(content));
    let data = workspace.path().join("data");
    let package = |name: &str| data.join("packages/p").join(&sha256).join(name);
    let server = Server::start(&workspace, &[]);
    for name in ["old.zip", "new.zip"] {
        let path = format!("/v1/projects/p/packages/{sha256}/{name}");
        assert_eq!(server.send("PUT", &path, "content-type: application/octet-stream\r\n", content).0, 200);
    }
    let environment = data.join("environments/old");
    std::fs::create_dir_all(&environment).unwrap();
    std::fs::write(environment.join("ready"), "").unwrap();
    age(&environment.join("ready"), days(9));
    age(&package("old.zip"), days(9));
    drop(server);

    let server = Server::start(&workspace, &["--retention", "5"]);
    until(|| !environment.exists() && !package("old.zip").exists());
    assert!(package("new.zip").exists());
    drop(server);
}

#[test]
fn logs_of_a_job_and_of_a_project_are_limited_and_removed_after_their_retention() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let attempt = |job: &str| workspace.path().join(format!("data/projects/p/jobs/{job}/attempt-1"));
    for job in ["a", "b"] {
        let script = "head -c 2000000 /dev/zero | tr '\\0' x; echo; echo end";
        let body = json!({"jobId": job, "trainingInput": {
            "masterConfig": {"containerCommand": ["sh", "-c", script]},
        }});
        assert_eq!(server.post("/v1/projects/p/jobs", &body).0, 200);
        server.until(&format!("/v1/projects/p/jobs/{job}"), "SUCCEEDED");
    }
    drop(server);
    let space = |job: &str| std::fs::metadata(attempt(job).join("stdout.log")).unwrap().blocks() * 512;
    let before = space("b");
    assert!(space("a") >= 2_000_000);

    // Two MiB for both jobs: the one that ended first gives way.
    let server = Server::start(&workspace, &["--project-log-quota", "2"]);
    until(|| space("a") <= 64 << 10);
    assert_eq!(space("b"), before);
    let log = server.get("/v1/projects/p/jobs/a/logs/attempt-1.master-0.stdout?offset=32768").1;
    assert!(
        log["text"].as_str().unwrap().contains("bytes of this log were removed, since it exceeded a quota"),
        "{log}"
    );
    drop(server);

    let server = Server::start(&workspace, &["--job-log-quota", "1", "--project-log-quota", "0"]);
    until(|| space("b") <= 64 << 10);
    drop(server);
    assert!(std::fs::read_to_string(attempt("b").join("stdout.log")).unwrap().ends_with("x\nend\n"));
}

#[test]
fn logs_from_agents_are_limited_by_the_quotas_of_jobs_and_projects() {
    let workspace = Workspace::new("");
    let listen = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let serve = |more: &[&str]| Server::start_at(&workspace, listen, &[&["--executor", "agent"], more].concat());
    let server = serve(&[]);
    let log = |job: &str| workspace.path().join(format!("data/projects/p/jobs/{job}/attempt-1/stdout.log"));
    let space = |job: &str| std::fs::metadata(log(job)).unwrap().blocks() * 512;
    let read = |job: &str| std::fs::read_to_string(log(job)).unwrap();
    let submit = |job: &str, script: &str| {
        let body = json!({"jobId": job, "trainingInput": {"masterConfig": {"containerCommand": ["sh", "-c", script]}}});
        assert_eq!(server.post("/v1/projects/p/jobs", &body).0, 200);
    };
    const WRITE: &str = "echo first; head -c 2000000 /dev/zero | tr '\\0' x; echo;";
    for job in ["a", "b"] {
        submit(job, &format!("{WRITE} echo end"));
        server.until(&format!("/v1/projects/p/jobs/{job}"), "SUCCEEDED");
        assert!(space(job) >= 2_000_000 && read(job).ends_with("x\nend\n"));
    }
    drop(server);

    // Two MiB for the project: the job that ended first gives way.
    let server = serve(&["--project-log-quota", "2"]);
    until(|| space("a") <= 64 << 10);
    assert!(space("b") >= 2_000_000);
    let shortened = server.get("/v1/projects/p/jobs/a/logs/attempt-1.master-0.stdout?offset=32768").1;
    let text = shortened["text"].as_str().unwrap();
    assert!(text.contains("bytes of this log were removed, since it exceeded a quota"), "{shortened}");
    // A program whose log is shortened while it runs goes on where it was.
    let pipe = workspace.path().join("go");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let script = format!("{WRITE} echo middle; read line < {}; echo end", pipe.display());
    let body = json!({"jobId": "c", "trainingInput": {"masterConfig": {"containerCommand": ["sh", "-c", script]}}});
    assert_eq!(server.post("/v1/projects/p/jobs", &body).0, 200);
    until(|| log("c").exists() && read("c").ends_with("middle\n"));
    drop(server);
    let server = serve(&["--job-log-quota", "1", "--project-log-quota", "0"]);
    until(|| space("b") <= 1 << 20 && space("c") <= 1 << 20);
    std::fs::write(&pipe, "go\n").unwrap();
    server.until("/v1/projects/p/jobs/c", "SUCCEEDED");
    let text = read("c");
    assert!(text.starts_with("first\nx") && text.ends_with("x\nmiddle\nend\n"), "{} bytes", text.len());
    drop(server);
}
