//! Trials in containers (`masterConfig.imageUri`), run by podman with an image that contains only busybox.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tunesmith_testing::{Finished, Workspace, finished};

/// Lower limits than podman's defaults, which a process without `CAP_SYS_RESOURCE` may not set.
pub(crate) const RUN_OPTIONS: &str = "--ulimit nofile=1024:1024 --ulimit nproc=4096:4096 --env 'GREETING=two words'";

/// A job of one trial whose program is `sh -c script`.
fn config(script: &str, more: &str) -> String {
    format!(
        "
scaleTier: CUSTOM
masterType: n1-standard-4
masterConfig:
  imageUri: localhost/busybox:1
  containerCommand: [sh, -c, {script:?}, trainer]
hyperparameters:
  goal: MAXIMIZE
  hyperparameterMetricTag: m
  maxTrials: 1
  params:
    - {{parameterName: x, type: INTEGER, minValue: 1, maxValue: 1}}
tunesmith:
  metricFromStdout: true
{more}"
    )
}

/// An isolated podman with images and containers in a temporary folder.
pub(crate) struct Podman {
    folder: TempDir,
}

impl Drop for Podman {
    /// Removes containers with their forwarded ports, which outlive the folder: connections to such a port of this machine fail
    /// from then on, whatever listens there.
    fn drop(&mut self) {
        let mut command = tunesmith_testing::program("podman");
        command.args(self.options().split(' ')).args(["rm", "--all", "--force", "--time", "0"]);
        let removed = finished(command.stdin(Stdio::null()).output().unwrap());
        // A failed test has panicked already.
        assert!(removed.code == Some(0) || std::thread::panicking(), "{removed:?}");
    }
}

impl Podman {
    pub(crate) fn new() -> Self {
        let podman = Self { folder: TempDir::new().unwrap() };
        let tree = podman.folder.path().join("tree");
        std::fs::create_dir_all(tree.join("bin")).unwrap();
        std::fs::create_dir_all(tree.join("tmp")).unwrap();
        std::fs::copy("/bin/busybox", tree.join("bin/busybox")).expect("busybox-static must be installed");
        for name in ["cat", "chmod", "echo", "env", "httpd", "kill", "mkdir", "sh", "tail", "test", "touch"] {
            symlink("busybox", tree.join("bin").join(name)).unwrap();
        }
        let archive = podman.folder.path().join("image.tar");
        let tar =
            tunesmith_testing::program("tar").arg("-C").arg(&tree).arg("-cf").arg(&archive).arg(".").status().unwrap();
        assert!(tar.success());
        let archive = archive.display().to_string();
        podman.call(&["import", "--change", "ENV PATH=/bin", &archive, "localhost/busybox:1"]);
        podman
    }

    pub(crate) fn options(&self) -> String {
        let folder = self.folder.path().display();
        format!(
            "--root {folder}/root --runroot {folder}/run --tmpdir {folder}/tmp --storage-driver vfs --runtime runc \
             --cgroup-manager cgroupfs --events-backend file"
        )
    }

    pub(crate) fn call(&self, args: &[&str]) -> String {
        let mut command = tunesmith_testing::program("podman");
        command.args(self.options().split(' ')).args(args).stdin(Stdio::null());
        finished(command.output().expect("podman must be installed")).expect(0).stdout
    }

    /// Returns the command `tunesmith run` with this podman, not started.
    fn command(&self, workspace: &Workspace, args: &[&str]) -> Command {
        let mut command = workspace.run_command(args);
        command.args(["--container-options", &self.options()]);
        command.env("TUNESMITH_CONTAINER_RUN_OPTIONS", RUN_OPTIONS);
        command
    }

    /// Runs a job to its end and checks that no container is left.
    fn run(&self, workspace: &Workspace, args: &[&str]) -> Finished {
        let run = finished(self.command(workspace, args).output().unwrap());
        self.expect_no_container();
        run
    }

    #[track_caller]
    fn expect_no_container(&self) {
        assert_eq!(self.call(&["ps", "--all", "--quiet"]), "");
    }
}

/// The logs of the only trial.
fn trial_log(workspace: &Workspace) -> String {
    let mut command = tunesmith_testing::program("find");
    command.arg(workspace.path()).args(["-name", "std*.log", "-exec", "tail", "{}", "+"]);
    finished(command.output().unwrap()).stdout
}

#[test]
fn job_fails_with_installation_advice_if_there_is_no_container_engine() {
    let workspace = Workspace::new(&config("echo m=0.5", ""));
    let empty = TempDir::new().unwrap();
    let run = finished(workspace.run_command(["--job-id", "j"]).env("PATH", empty.path()).output().unwrap()).expect(1);
    assert!(run.stdout.contains("neither podman nor a docker whose daemon answers"), "{run:?}");
    assert_eq!(workspace.job()["state"], "FAILED");
}

#[test]
fn trial_in_a_container_gets_its_arguments_environment_and_folders() {
    let script = "set -e; test $1 = --x=1; test $CLOUD_ML_TRIAL_ID = 1; test -n \"$TF_CONFIG\"; \
                  test \"$GREETING\" = 'two words'; \
                  echo model > ${2#--job-dir=}/model; touch $CLOUD_ML_HP_METRIC_FILE; echo m=0.5";
    let workspace = Workspace::new(&config(script, ""));
    let podman = Podman::new();
    let run = podman.run(&workspace, &["--job-dir", "models"]);
    assert_eq!(run.code, Some(0), "{run:?}\n{}", trial_log(&workspace));
    assert_eq!(workspace.job()["trainingOutput"]["trials"][0]["finalMetric"]["objectiveValue"], 0.5);
    assert_eq!(workspace.read("models/1/model"), "model\n");
}

#[test]
fn container_of_vertex_ai_finds_buckets_that_have_a_folder() {
    let workspace = Workspace::new(
        "jobSpec:
  workerPoolSpecs:
  - replicaCount: 1
    containerSpec:
      imageUri: localhost/busybox:1
      command: [sh, -c, 'test \"$(cat /gcs/training-data/in)\" = hello && echo out > /gcs/training-data/out']
",
    );
    let bucket = workspace.path().join("bucket");
    std::fs::create_dir(&bucket).unwrap();
    std::fs::write(bucket.join("in"), "hello\n").unwrap();
    std::fs::write(workspace.path().join("server.yaml"), format!("buckets: {{training-data: {bucket:?}}}\n")).unwrap();
    let run = Podman::new().run(&workspace, &["--server-config", "server.yaml"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(workspace.read("bucket/out"), "out\n");
}

#[test]
fn exit_code_of_a_failed_container_is_reported() {
    let workspace = Workspace::new(&config("exit 7", ""));
    let run = Podman::new().run(&workspace, &[]).expect(1);
    assert!(format!("{run:?}").contains("exit code 7"), "{run:?}");
    assert_eq!(workspace.job()["state"], "FAILED");
}

#[test]
fn docker_that_does_not_work_is_skipped() {
    let workspace = Workspace::new(&config("echo m=0.5", ""));
    let folder = TempDir::new().unwrap();
    symlink("/bin/false", folder.path().join("docker")).unwrap();
    let podman = Podman::new();
    let mut command = podman.command(&workspace, &[]);
    command.env("PATH", format!("{}:{}", folder.path().display(), tunesmith_testing::environment::path()));
    finished(command.output().unwrap()).expect(0);
    podman.expect_no_container();
}

#[test]
fn missing_image_is_reported_as_failed_start() {
    let config = config("echo m=0.5", "").replace("localhost/busybox:1", "localhost/absent:1");
    let workspace = Workspace::new(&config);
    let run = Podman::new().run(&workspace, &[]).expect(1);
    // The error of the engine is quoted.
    let reason = workspace.column("reason").remove(0);
    let quote = reason.strip_prefix("could not be started: the container engine could not run it: ");
    assert!(quote.is_some_and(|quote| quote.contains("localhost/absent")), "{reason}: {run:?}");
}

#[test]
fn container_is_removed_after_the_time_limit() {
    // The first process of a container ignores SIGTERM unless it handles it, so the container must be killed.
    let more = "  stopGracePeriod: 1s\nscheduling: {maxRunningTime: 2s}\n";
    let workspace = Workspace::new(&config("exec tail -f /dev/null", more));
    Podman::new().run(&workspace, &[]).expect(1);
    assert_eq!(workspace.job()["state"], "CANCELLED");
    expect_no_process(workspace.path());
}

#[test]
fn container_is_removed_after_an_interruption() {
    let script = "trap 'exit 0' TERM; echo up > ${2#--job-dir=}/up; while :; do read line; done < ${2#--job-dir=}/up";
    let workspace = Workspace::new(&config(script, ""));
    let podman = Podman::new();
    std::fs::create_dir_all(workspace.path().join("models/1")).unwrap();
    // The container's shell opens the pipe for writing, which waits for this reader.
    let up = workspace.path().join("models/1/up");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &up, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let mut command = podman.command(&workspace, &["--job-dir", "models"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    assert_eq!(std::fs::read_to_string(&up).unwrap(), "up\n");
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    finished(child.wait_with_output().unwrap()).expect(130);
    podman.expect_no_container();
    expect_no_process(workspace.path());
}

/// Fails if a process with the workspace in its arguments or environment is left.
#[track_caller]
fn expect_no_process(workspace: &Path) {
    assert_eq!(tunesmith_testing::processes_with(&workspace.display().to_string()), []);
}
