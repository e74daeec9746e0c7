//! Data folders that were copied or moved while their jobs had not ended.

use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};
use tunesmith_testing::paced::until;
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, finished};

const JOBS: &str = "/v1/projects/p/jobs";

/// A job whose program adds a line to `starts`, and waits until the file `go` exists.
fn job(workspace: &Workspace) -> Value {
    let folder = workspace.path().display();
    let script = format!("echo >> {folder}/starts; until [ -e {folder}/go ]; do sleep 0.1; done");
    json!({"jobId": "j", "trainingInput": {"masterConfig": {"containerCommand": ["sh", "-c", script]}}})
}

fn starts(workspace: &Workspace) -> usize {
    std::fs::read_to_string(workspace.path().join("starts")).unwrap_or_default().lines().count()
}

fn serve(workspace: &Workspace, folder: &str, more: &[&str]) -> Command {
    let mut command = workspace.command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--allow-unisolated-programs", "--data-dir", folder]).args(more);
    command
}

fn copy(workspace: &Workspace, from: &str, to: &str) {
    let copied =
        tunesmith_testing::program("cp").arg("-a").args([from, to]).current_dir(workspace.path()).status().unwrap();
    assert!(copied.success());
}

#[test]
fn copy_of_a_data_folder_does_not_run_the_jobs_of_its_original_without_the_option() {
    let workspace = Workspace::new("");
    let original = Server::start_command(&mut serve(&workspace, "data", &[]));
    assert_eq!(original.post(JOBS, &job(&workspace)).0, 200);
    until(|| starts(&workspace) == 1);
    original.signal(Signal::TERM);
    assert_eq!(original.end(), Some(0));
    copy(&workspace, "data", "copy");
    let path = |folder: &str| workspace.path().canonicalize().unwrap().join(folder).display().to_string();
    let refused = finished(serve(&workspace, "copy", &[]).output().unwrap()).expect(2).stderr;
    let begin = format!("data folder {} is a copy of {} on ", path("copy"), path("data"));
    assert!(refused.contains(&begin) && refused.contains("may run its unfinished jobs as well: p/j; "), "{refused}");
    let cancel = format!(
        "give --resume-copied to run them here once the original is not used any more, or cancel them in the copy: tunesmith jobs cancel j --project p --data-dir {}",
        path("copy")
    );
    assert!(refused.contains(&cancel), "{refused}");
    // The original goes on, also under another name.
    std::fs::rename(workspace.path().join("data"), workspace.path().join("moved")).unwrap();
    let moved = Server::start_command(&mut serve(&workspace, "moved", &[]));
    assert_eq!(moved.get(&format!("{JOBS}/j")).1["state"], "RUNNING");
    assert_eq!(starts(&workspace), 1, "its program was adopted");
    // The way out that the message names.
    let mut cancelled = workspace.command();
    cancelled.args(["jobs", "cancel", "j", "--project", "p", "--data-dir", "copy"]);
    finished(cancelled.output().unwrap()).expect(0);
    let copied = Server::start_command(&mut serve(&workspace, "copy", &[]));
    copied.until(&format!("{JOBS}/j"), "CANCELLED");
    copied.kill();
    assert_eq!(starts(&workspace), 1, "the copy has started nothing");
    assert_eq!(moved.get(&format!("{JOBS}/j")).1["state"], "RUNNING", "nor ended anything of the original");
    workspace.write("go", "");
    moved.until(&format!("{JOBS}/j"), "SUCCEEDED");
    // A settled copy is a folder of its own.
    let settled = Server::start_command(&mut serve(&workspace, "copy", &[]));
    assert_eq!(settled.get(JOBS).0, 200);
}

#[test]
fn restored_backup_runs_its_jobs_on_with_the_option() {
    let workspace = Workspace::new("");
    let original = Server::start_command(&mut serve(&workspace, "data", &[]));
    assert_eq!(original.post(JOBS, &job(&workspace)).0, 200);
    until(|| starts(&workspace) == 1);
    original.signal(Signal::TERM);
    assert_eq!(original.end(), Some(0));
    copy(&workspace, "data", "backup");
    std::fs::remove_dir_all(workspace.path().join("data")).unwrap();
    copy(&workspace, "backup", "data");
    let refused = finished(serve(&workspace, "data", &[]).output().unwrap()).expect(2).stderr;
    assert!(refused.contains("--resume-copied"), "{refused}");
    let restored = Server::start_command(&mut serve(&workspace, "data", &["--resume-copied"]));
    until(|| starts(&workspace) == 2);
    restored.kill();
    // It is the only one from now on.
    let again = Server::start_command(&mut serve(&workspace, "data", &[]));
    workspace.write("go", "");
    again.until(&format!("{JOBS}/j"), "SUCCEEDED");
    assert!(Path::new(&workspace.path().join("data/FOLDER")).exists());
}

const CONFIG: &str = "
hyperparameters:
  goal: MAXIMIZE
  hyperparameterMetricTag: acc
  maxTrials: 2
  params: [{parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}]
tunesmith:
  metricFromStdout: true
";

#[test]
fn run_in_a_copy_resumes_no_job_of_its_original_and_runs_new_ones() {
    let workspace = Workspace::new(CONFIG);
    workspace.write("train.sh", "echo acc=0.5; if [ -e wait ]; then touch ready; exec tail -f /dev/null; fi");
    workspace.write("wait", "");
    let mut run = workspace.run_command(["--data-dir", "data", "--job-id", "j", "--", "sh", "train.sh"]);
    let mut run = run.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    until(|| workspace.path().join("ready").exists());
    run.kill().unwrap();
    run.wait().unwrap();
    copy(&workspace, "data", "copy");
    std::fs::remove_file(workspace.path().join("wait")).unwrap();
    let resume = ["--data-dir", "copy", "--job-id", "j", "--", "sh", "train.sh"];
    let refused = workspace.run(resume).expect(2).stderr;
    assert!(refused.contains("is a copy of") && refused.contains("jobs as well: j; "), "{refused}");
    workspace.run(["--data-dir", "copy", "--job-id", "k", "--", "sh", "train.sh"]).expect(0);
    workspace.run(["--resume-copied"].into_iter().chain(resume)).expect(0);
    workspace.run(resume).expect(0);
}
