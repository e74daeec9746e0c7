//! The contract of [`Executor`] as checks. Every implementation runs all of them.
//!
//! [`executor_contract!`](crate::executor_contract) expands to one test per check. A check panics if the contract is
//! violated.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{
    Executor, ExecutorJobId, ExecutorJobSpec, ExecutorJobState, ExitStatus, Placement, Program, ProgramEnd, Replica,
    Role, StopMode, StopReason,
};
use tunesmith_domain::TrialId;

/// An engine under test, with its own folder.
pub trait Harness: Send + Sync {
    /// Returns a new executor that finds the jobs of all earlier ones.
    fn executor(&self) -> Arc<dyn Executor>;

    /// Absolute path of a folder that the programs can access under the same path.
    fn directory(&self) -> &Path;
}

/// Expands to a module `contract` with one test per check, each with a new `$harness`.
#[macro_export]
macro_rules! executor_contract {
    ($harness:expr) => {
        $crate::executor_contract!(@tests $harness;
            exit_code_is_reported, signal_is_reported, failed_start_is_reported_with_its_reason,
            unsubmitted_id_is_unknown, second_submission_has_no_effect, concurrent_submissions_run_once,
            graceful_stop_sends_sigterm_first, graceful_stop_ends_with_sigkill_after_the_grace_period,
            immediate_stop_sends_sigkill_at_once, stop_of_a_job_that_does_not_run_has_no_effect,
            time_limit_is_enforced, job_is_found_by_another_executor, dropped_wait_has_no_effect,
            output_is_written_to_the_log_files, environment_is_passed_to_the_program,
            forgotten_job_is_unknown_and_its_id_may_be_used_again);
    };
    (@tests $harness:expr; $($name:ident),+) => {
        mod contract {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    $crate::contract::$name(&$harness).await;
                }
            )+
        }
    };
}

/// Returns the specification of a job for `trial` that runs `script` with `sh -c`.
pub fn shell(harness: &dyn Harness, trial: u64, script: &str) -> ExecutorJobSpec {
    let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    let id =
        ExecutorJobId { job: "contract".parse().expect("the name is valid"), trial: Some(TrialId(trial)), attempt: 1 };
    ExecutorJobSpec {
        directory: harness.directory().join(id.to_string()),
        id,
        replicas: vec![Replica::new(Role::Master, 0, Program::Command { argv })],
        training_input: serde_json::json!({}),
        master_is_chief: false,
        environment: BTreeMap::new(),
        working_directory: harness.directory().to_owned(),
        program_folders: Vec::new(),
        time_limit: None,
        grace: Duration::from_secs(60),
        start_port: None,
        placement: Placement::default(),
    }
}

/// Creates a named pipe, which synchronises a check with its program: opening one end waits for the other.
pub fn pipe(harness: &dyn Harness, name: &str) -> std::path::PathBuf {
    let path = harness.directory().join(name);
    let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo is installed");
    assert!(made.success(), "mkfifo {}", path.display());
    path
}

/// Waits until a program has written to the pipe `path` and returns the text.
pub async fn read_pipe(path: &Path) -> String {
    let path = path.to_owned();
    let reading = tokio::task::spawn_blocking(move || std::fs::read_to_string(path));
    reading.await.expect("reading does not panic").expect("the pipe can be read")
}

/// Submits a job and waits until it has ended.
pub async fn run(executor: &dyn Executor, spec: &ExecutorJobSpec) -> ExecutorJobState {
    executor.submit(spec).await.expect("submitted");
    executor.wait(&spec.id).await.expect("waited")
}

fn ended(end: ProgramEnd, stopped: Option<StopReason>) -> ExecutorJobState {
    ExecutorJobState::Ended(ExitStatus { end, stopped })
}

/// The reported exit code is that of the program.
pub async fn exit_code_is_reported(harness: &dyn Harness) {
    let executor = harness.executor();
    for (trial, code) in [(1, 0), (2, 7), (3, 255)] {
        let state = run(&*executor, &shell(harness, trial, &format!("exit {code}"))).await;
        assert_eq!(state, ended(ProgramEnd::Exited(code), None));
    }
}

/// A program that is killed by a signal is reported as signalled, not as exited.
pub async fn signal_is_reported(harness: &dyn Harness) {
    let state = run(&*harness.executor(), &shell(harness, 1, "kill -9 $$")).await;
    assert_eq!(state, ended(ProgramEnd::Signaled(9), None));
}

/// A program that cannot be started is reported as ended, with the reason.
pub async fn failed_start_is_reported_with_its_reason(harness: &dyn Harness) {
    let mut spec = shell(harness, 1, "");
    spec.replicas[0].program = Program::Command { argv: vec!["/no/such/program".to_owned()] };
    let state = run(&*harness.executor(), &spec).await;
    let ExecutorJobState::Ended(ExitStatus { end: ProgramEnd::NotStarted(reason), stopped: None }) = state else {
        panic!("{state:?}");
    };
    assert!(reason.contains("/no/such/program"), "{reason}");
}

/// An ID that was never submitted is unknown, and waiting for it returns at once.
pub async fn unsubmitted_id_is_unknown(harness: &dyn Harness) {
    let executor = harness.executor();
    let id = shell(harness, 99, "").id;
    assert_eq!(executor.state(&id).await.expect("state"), ExecutorJobState::Unknown);
    assert_eq!(executor.wait(&id).await.expect("waited"), ExecutorJobState::Unknown);
}

/// An ID runs once, also if it is submitted again after its end.
pub async fn second_submission_has_no_effect(harness: &dyn Harness) {
    let executor = harness.executor();
    let spec = shell(harness, 1, "echo x >> runs; exit 3");
    for _ in 0..3 {
        assert_eq!(run(&*executor, &spec).await, ended(ProgramEnd::Exited(3), None));
    }
    assert_eq!(std::fs::read_to_string(harness.directory().join("runs")).expect("written"), "x\n");
}

/// The runs of a forgotten job are unknown, those of other jobs are not, and its IDs may be used again.
pub async fn forgotten_job_is_unknown_and_its_id_may_be_used_again(harness: &dyn Harness) {
    let executor = harness.executor();
    let of_job = |name: &str| {
        let mut spec = shell(harness, 1, "echo x >> runs");
        spec.id.job = name.parse().expect("the name is valid");
        spec
    };
    let (one, other) = (of_job("one"), of_job("one_more"));
    for spec in [&one, &other] {
        assert_eq!(run(&*executor, spec).await, ended(ProgramEnd::Exited(0), None));
    }
    for _ in 0..2 {
        executor.forget(&one.id.job).await.expect("the records are removed");
        assert_eq!(executor.state(&one.id).await.expect("a state"), ExecutorJobState::Unknown);
    }
    assert_eq!(executor.state(&other.id).await.expect("a state"), ended(ProgramEnd::Exited(0), None));
    assert_eq!(run(&*executor, &one).await, ended(ProgramEnd::Exited(0), None));
    assert_eq!(std::fs::read_to_string(harness.directory().join("runs")).expect("written"), "x\nx\nx\n");
}

/// An ID runs once, also if it is submitted concurrently.
pub async fn concurrent_submissions_run_once(harness: &dyn Harness) {
    for trial in 1..=8 {
        let spec = shell(harness, trial, &format!("echo x >> runs-{trial}"));
        let (one, other) = (harness.executor(), harness.executor());
        let (one, other) = tokio::join!(run(&*one, &spec), run(&*other, &spec));
        assert_eq!((one, other), (ended(ProgramEnd::Exited(0), None), ended(ProgramEnd::Exited(0), None)));
        let runs = std::fs::read_to_string(harness.directory().join(format!("runs-{trial}"))).expect("written");
        assert_eq!(runs, "x\n");
    }
}

/// SIGTERM is sent first, and the exit code with which the program reacts is reported.
pub async fn graceful_stop_sends_sigterm_first(harness: &dyn Harness) {
    let executor = harness.executor();
    let ready = pipe(harness, "ready");
    // A shell that is stopped while it starts a child may leave a child that does not receive the signal. Therefore the
    // child itself reports that it is running.
    let spec = shell(harness, 1, "trap 'exit 5' TERM; sh -c 'echo > ready; exec sleep 1000' & wait");
    executor.submit(&spec).await.expect("submitted");
    read_pipe(&ready).await;
    executor.stop(&spec.id, StopMode::Graceful).await.expect("stopped");
    let state = executor.wait(&spec.id).await.expect("waited");
    assert_eq!(state, ended(ProgramEnd::Exited(5), Some(StopReason::Requested)));
}

/// SIGKILL is sent after the grace period.
pub async fn graceful_stop_ends_with_sigkill_after_the_grace_period(harness: &dyn Harness) {
    let executor = harness.executor();
    let ready = pipe(harness, "ready");
    let mut spec = shell(harness, 1, "trap '' TERM; echo > ready; while :; do sleep 1000; done");
    spec.grace = Duration::from_millis(20);
    executor.submit(&spec).await.expect("submitted");
    read_pipe(&ready).await;
    executor.stop(&spec.id, StopMode::Graceful).await.expect("stopped");
    let state = executor.wait(&spec.id).await.expect("waited");
    assert_eq!(state, ended(ProgramEnd::Signaled(9), Some(StopReason::Requested)));
}

/// SIGKILL is sent without SIGTERM or grace period, also during a graceful stop.
pub async fn immediate_stop_sends_sigkill_at_once(harness: &dyn Harness) {
    let executor = harness.executor();
    let ready = pipe(harness, "ready");
    let spec = shell(harness, 1, "trap '' TERM; echo > ready; while :; do sleep 1000; done");
    executor.submit(&spec).await.expect("submitted");
    read_pipe(&ready).await;
    executor.stop(&spec.id, StopMode::Graceful).await.expect("stopped");
    executor.stop(&spec.id, StopMode::Immediate).await.expect("stopped");
    let state = executor.wait(&spec.id).await.expect("waited");
    assert_eq!(state, ended(ProgramEnd::Signaled(9), Some(StopReason::Requested)));
}

/// A stop changes neither an unknown job nor an ended one.
pub async fn stop_of_a_job_that_does_not_run_has_no_effect(harness: &dyn Harness) {
    let executor = harness.executor();
    let spec = shell(harness, 1, "exit 4");
    executor.stop(&spec.id, StopMode::Immediate).await.expect("stopped");
    assert_eq!(run(&*executor, &spec).await, ended(ProgramEnd::Exited(4), None));
    executor.stop(&spec.id, StopMode::Immediate).await.expect("stopped");
    assert_eq!(executor.state(&spec.id).await.expect("state"), ended(ProgramEnd::Exited(4), None));
}

/// A program that exceeds its time limit is stopped, and the reason is reported.
pub async fn time_limit_is_enforced(harness: &dyn Harness) {
    let mut spec = shell(harness, 1, "exec sleep 1000");
    spec.time_limit = Some(Duration::from_millis(50));
    let state = run(&*harness.executor(), &spec).await;
    assert_eq!(state, ended(ProgramEnd::Signaled(15), Some(StopReason::TimeLimit)));
}

/// A job that one executor started can be waited for by another.
pub async fn job_is_found_by_another_executor(harness: &dyn Harness) {
    let go = pipe(harness, "go");
    let spec = shell(harness, 1, "read line < go; exit 6");
    harness.executor().submit(&spec).await.expect("submitted");
    let other = harness.executor();
    assert!(other.state(&spec.id).await.expect("state").is_open());
    let writer = tokio::task::spawn_blocking(move || std::fs::write(go, "go\n"));
    assert_eq!(other.wait(&spec.id).await.expect("waited"), ended(ProgramEnd::Exited(6), None));
    writer.await.expect("no panic").expect("written");
}

/// Dropping the future of a wait does not change the job.
pub async fn dropped_wait_has_no_effect(harness: &dyn Harness) {
    let executor = harness.executor();
    let go = pipe(harness, "go");
    let spec = shell(harness, 1, "read line < go; exit 6");
    executor.submit(&spec).await.expect("submitted");
    let early = tokio::time::timeout(Duration::from_millis(5), executor.wait(&spec.id)).await;
    assert!(early.is_err(), "it cannot have ended");
    let writer = tokio::task::spawn_blocking(move || std::fs::write(go, "go\n"));
    assert_eq!(executor.wait(&spec.id).await.expect("waited"), ended(ProgramEnd::Exited(6), None));
    writer.await.expect("no panic").expect("written");
}

/// Output is written to the files that [`ExecutorJobSpec::directory`] documents.
pub async fn output_is_written_to_the_log_files(harness: &dyn Harness) {
    let spec = shell(harness, 1, "echo out; echo err >&2");
    run(&*harness.executor(), &spec).await;
    let read = |name| std::fs::read_to_string(spec.directory.join(name)).expect("the log exists");
    assert_eq!((read("stdout.log"), read("stderr.log")), ("out\n".to_owned(), "err\n".to_owned()));
}

/// The program gets the job's variables, `TF_CONFIG`, its working directory and an empty standard input.
pub async fn environment_is_passed_to_the_program(harness: &dyn Harness) {
    let mut spec = shell(harness, 7, "cat; pwd; echo \"$GREETING\"; echo \"$TF_CONFIG\"");
    spec.environment.insert("GREETING".to_owned(), "a, b = \"c\"".to_owned());
    run(&*harness.executor(), &spec).await;
    let output = std::fs::read_to_string(spec.directory.join("stdout.log")).expect("the log exists");
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[..2], [harness.directory().to_str().expect("UTF-8"), "a, b = \"c\""]);
    let config: serde_json::Value = serde_json::from_str(lines[2]).expect("JSON");
    assert_eq!(config["task"]["trial"], "7");
    assert_eq!(config["cluster"]["master"].as_array().map(Vec::len), Some(1));
}
