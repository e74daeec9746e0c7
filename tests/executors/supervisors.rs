//! Supervisors that are stopped, whose files are removed, and whose data folder is moved or copied.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tunesmith_contract::executor::{Harness, shell};
use tunesmith_executor::local::{LocalExecutor, LocalSettings};
use tunesmith_executor::{
    Executor, ExecutorJobSpec, ExecutorJobState, ExitStatus, LossCause, ProgramEnd, StopMode, StopReason,
};

use crate::pipes::{pipe, read_pipe};

/// A data folder in a temporary folder.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        std::fs::create_dir(folder.path().join("data")).unwrap();
        Self(folder)
    }

    /// The executor of the data folder `name`.
    fn executor_of(&self, name: &str) -> Arc<dyn Executor> {
        Arc::new(LocalExecutor::new(LocalSettings {
            supervisor: tunesmith_testing::tunesmith_wrapper(self.0.path()),
            registry: self.0.path().join(name).join("executions"),
            ..LocalSettings::default()
        }))
    }

    /// A job that runs `script` in the data folder, with a short grace period.
    fn shell(&self, script: &str) -> ExecutorJobSpec {
        let mut spec = shell(self, 1, script);
        spec.directory = self.0.path().join("data/attempt");
        spec.grace = Duration::from_millis(100);
        spec
    }

    fn supervisor(&self, spec: &ExecutorJobSpec) -> Pid {
        supervisor(&self.0.path().join("data/executions"), spec)
    }
}

impl Harness for Folder {
    fn executor(&self) -> Arc<dyn Executor> {
        self.executor_of("data")
    }

    fn working_directory(&self) -> &Path {
        self.directory()
    }

    fn directory(&self) -> &Path {
        self.0.path()
    }
}

/// The process ID of the supervisor of `spec`.
pub(crate) fn supervisor(registry: &Path, spec: &ExecutorJobSpec) -> Pid {
    let text = std::fs::read_to_string(registry.join(spec.id.to_string()).join("lock")).unwrap();
    Pid::from_raw(text.trim().parse().unwrap()).unwrap()
}

fn fields_of_stat(pid: Pid) -> Vec<String> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').map(str::to_owned).collect()
}

fn ended(end: ProgramEnd, stopped: Option<StopReason>) -> ExecutorJobState {
    ExecutorJobState::Ended(ExitStatus { end, stopped })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn supervisor_has_its_own_session() {
    let folder = Folder::new();
    let ready = pipe(&folder, "ready");
    let spec = folder.shell("echo > ready; exec sleep 1000");
    folder.executor().submit(&spec).await.unwrap();
    read_pipe(&ready).await;
    let supervisor = folder.supervisor(&spec);
    assert_eq!(fields_of_stat(supervisor)[3], supervisor.as_raw_nonzero().to_string(), "session");
    folder.executor().stop(&spec.id, StopMode::Immediate).await.unwrap();
    folder.executor().wait(&spec.id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_supervisor_handles_a_stop_request() {
    let folder = Folder::new();
    let ready = pipe(&folder, "ready");
    let spec = folder.shell("kill -STOP $PPID; echo > ready; exec sleep 1000");
    let executor = folder.executor();
    executor.submit(&spec).await.unwrap();
    read_pipe(&ready).await;
    executor.stop(&spec.id, StopMode::Graceful).await.unwrap();
    assert_eq!(executor.wait(&spec.id).await.unwrap(), ended(ProgramEnd::Signaled(15), Some(StopReason::Requested)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn supervisor_that_is_stopped_once_is_continued_and_reports_the_end() {
    let folder = Folder::new();
    let spec = folder.shell("kill -STOP $PPID; exit 3");
    let executor = folder.executor();
    executor.submit(&spec).await.unwrap();
    assert_eq!(executor.wait(&spec.id).await.unwrap(), ended(ProgramEnd::Exited(3), None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn supervisor_that_is_stopped_again_and_again_ends_with_its_processes() {
    let folder = Folder::new();
    let mut spec = folder.shell("trap '' TERM; while :; do kill -STOP $PPID; sleep 0.01; done");
    // Each of these ends the attempt: the stop request, the time limit, and the number of stops.
    let executor = folder.executor();
    for (attempt, (limit, stopped)) in [(None, None), (Some(1), None), (None, Some(()))].into_iter().enumerate() {
        spec.id.attempt = attempt as u64 + 1;
        spec.directory = folder.0.path().join(format!("data/attempt-{attempt}"));
        spec.time_limit = limit.map(Duration::from_secs);
        executor.submit(&spec).await.unwrap();
        if stopped.is_some() {
            executor.stop(&spec.id, StopMode::Graceful).await.unwrap();
        }
        let state = executor.wait(&spec.id).await.unwrap();
        match state {
            ExecutorJobState::Lost { reason, .. } => assert!(reason.contains("was stopped by a signal"), "{reason}"),
            ExecutorJobState::Ended(status) => assert!(status.stopped.is_some(), "{status:?}"),
            state => panic!("{state:?}"),
        }
        let text = spec.directory.display().to_string();
        assert_eq!(tunesmith_testing::processes_with(&text), [], "no process is left");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempt_whose_supervisor_files_are_removed_is_lost_and_leaves_no_process() {
    let folder = Folder::new();
    let pid_pipe = pipe(&folder, "pid");
    let spec = folder.shell("rm -rf data/executions/*; echo $$ > pid; exec sleep 1000");
    let executor = folder.executor();
    executor.submit(&spec).await.unwrap();
    let waiting = tokio::spawn({
        let (executor, id) = (Arc::clone(&executor), spec.id.clone());
        async move { executor.wait(&id).await.unwrap() }
    });
    let pid = read_pipe(&pid_pipe).await;
    let state = waiting.await.unwrap();
    // Unknown, if the files were removed before the first look at them.
    if let ExecutorJobState::Lost { reason, .. } = &state {
        assert_eq!(reason, "the files of its supervisor were removed while it ran");
        assert!(!Path::new(&format!("/proc/{}/exe", pid.trim())).exists(), "the program has ended");
    } else {
        assert_eq!(state, ExecutorJobState::Unknown);
        kill_process(Pid::from_raw(pid.trim().parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn program_that_removes_its_own_folder_ends_with_its_exit_code() {
    let folder = Folder::new();
    let spec = folder.shell("rm -rf data/attempt; exit 4");
    let executor = folder.executor();
    executor.submit(&spec).await.unwrap();
    assert_eq!(executor.wait(&spec.id).await.unwrap(), ended(ProgramEnd::Exited(4), None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn end_is_recorded_in_a_data_folder_that_was_moved() {
    let folder = Folder::new();
    let (ready, go) = (pipe(&folder, "ready"), pipe(&folder, "go"));
    let spec = folder.shell("echo > ready; read line < go; exit 5");
    folder.executor().submit(&spec).await.unwrap();
    read_pipe(&ready).await;
    let (data, moved) = (folder.0.path().join("data"), folder.0.path().join("moved"));
    std::fs::rename(&data, &moved).unwrap();
    let executor = folder.executor_of("moved");
    assert_eq!(executor.state(&spec.id).await.unwrap(), ExecutorJobState::Running);
    let writer = tokio::task::spawn_blocking(move || std::fs::write(go, "go\n").unwrap());
    assert_eq!(executor.wait(&spec.id).await.unwrap(), ended(ProgramEnd::Exited(5), None));
    writer.await.unwrap();
    assert!(!data.exists(), "nothing was made at the former place");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copy_of_a_data_folder_does_not_signal_the_programs_of_the_original() {
    let folder = Folder::new();
    let (ready, go) = (pipe(&folder, "ready"), pipe(&folder, "go"));
    let spec = folder.shell("trap 'echo term >> signals' TERM; echo > ready; read line < go; exit 6");
    folder.executor().submit(&spec).await.unwrap();
    read_pipe(&ready).await;
    let copied =
        tunesmith_testing::program("cp").args(["-a", "data", "copy"]).current_dir(folder.0.path()).status().unwrap();
    assert!(copied.success());
    let copy = folder.executor_of("copy");
    copy.stop(&spec.id, StopMode::Graceful).await.unwrap();
    copy.stop(&spec.id, StopMode::Immediate).await.unwrap();
    let state = copy.wait(&spec.id).await.unwrap();
    let reason = "it does not run, and its data folder is a copy or was mounted anew".to_owned();
    assert_eq!(state, ExecutorJobState::Lost { cause: LossCause::Failure, reason });
    let original = folder.executor();
    assert_eq!(original.state(&spec.id).await.unwrap(), ExecutorJobState::Running);
    let writer = tokio::task::spawn_blocking(move || std::fs::write(go, "go\n").unwrap());
    assert_eq!(original.wait(&spec.id).await.unwrap(), ended(ProgramEnd::Exited(6), None));
    writer.await.unwrap();
    assert!(!folder.0.path().join("signals").exists());
}
