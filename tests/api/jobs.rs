//! Jobs over HTTP: real clients against a real server that runs real programs.

use std::path::Path;

use serde_json::json;
use tunesmith_testing::Workspace;
use tunesmith_testing::paced::found;
use tunesmith_testing::server::Server;

#[test]
fn published_python_client_creates_follows_and_cancels_jobs() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &["--job-slots", "1"]);
    server.drive("jobs.py", &[workspace.path().to_str().unwrap()]);
}

#[test]
fn job_continues_after_the_server_was_killed() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let release = workspace.path().join("release");
    assert!(tunesmith_testing::program("mkfifo").arg(&release).status().unwrap().success());
    let script = format!("cat {} > /dev/null; echo once >> runs", release.display());
    let input = json!({"masterConfig": {"containerCommand": ["sh", "-c", script]}});
    let job = "/v1/projects/p/jobs/j";
    assert_eq!(server.post("/v1/projects/p/jobs", &json!({"jobId": "j", "trainingInput": input})).0, 200);
    server.until(job, "RUNNING");
    drop(server);
    let server = Server::start(&workspace, &[]);
    // The program was not started again, and still waits for its input.
    drop(std::fs::File::options().write(true).open(release).unwrap());
    let ended = server.until_ended(job);
    assert_eq!(ended["state"], "SUCCEEDED", "{ended}");
    assert_eq!(workspace.read("runs"), "once\n");
}

#[test]
fn cancelling_stops_programs_that_outlived_the_server() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let input = json!({"masterConfig": {"containerCommand": ["sh", "-c", "echo $$ > pid; exec tail -f /dev/null"]}});
    let job = "/v1/projects/p/jobs/j";
    assert_eq!(server.post("/v1/projects/p/jobs", &json!({"jobId": "j", "trainingInput": input})).0, 200);
    let pid = workspace.path().join("pid");
    let pid = found(|| std::fs::read_to_string(&pid).ok()?.trim().parse::<u32>().ok());
    drop(server);
    let server = Server::start(&workspace, &[]);
    assert_eq!(server.post(&format!("{job}:cancel"), &json!({})), (200, json!({})));
    server.until(job, "CANCELLED");
    assert!(!Path::new(&format!("/proc/{pid}/cwd")).exists(), "the program has ended with its job");
}
