//! What every [`Executor`] must do, as checks that each implementation runs in full.
//!
//! [`executor_contract!`](crate::executor_contract) makes one test of each. A check panics with what was broken.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{
    Executor, ExecutorJobId, ExecutorJobSpec, ExecutorJobState, ExitStatus, Program, ProgramEnd, Replica, Role,
    StopMode, StopReason,
};
use tunesmith_domain::TrialId;

/// An engine to test, with a folder of its own.
pub trait Harness: Send + Sync {
    /// A new executor, which knows all jobs of the ones before it.
    fn executor(&self) -> Arc<dyn Executor>;

    /// An absolute path that the programs see as well.
    fn directory(&self) -> &Path;
}

/// Makes a module of tests named `contract` that run every check on what `$harness` gives.
#[macro_export]
macro_rules! executor_contract {
    ($harness:expr) => {
        $crate::executor_contract!(@tests $harness;
            an_exit_code_is_reported, a_signal_is_reported, a_program_that_cannot_start_says_so,
            an_id_never_submitted_is_unknown, submitting_again_is_without_effect,
            submitting_twice_at_once_runs_once, a_graceful_stop_lets_the_program_end_well,
            force_follows_when_a_program_ignores_the_request, an_immediate_stop_does_not_ask,
            stopping_what_does_not_run_is_without_effect, the_time_limit_is_kept,
            another_executor_finds_the_job, dropping_a_wait_is_harmless,
            output_goes_to_the_log_files, the_environment_is_given);
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

/// The specification of a job named `trial` that runs `script` with `sh -c`.
pub fn shell(harness: &dyn Harness, trial: u64, script: &str) -> ExecutorJobSpec {
    let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    let id = ExecutorJobId {
        job: "contract".parse().expect("the name keeps the rules"),
        trial: Some(TrialId(trial)),
        attempt: 1,
    };
    ExecutorJobSpec {
        directory: harness.directory().join(id.to_string()),
        id,
        replicas: vec![Replica { role: Role::Master, index: 0, program: Program::Command { argv } }],
        training_input: serde_json::json!({}),
        master_is_chief: false,
        environment: BTreeMap::new(),
        working_directory: harness.directory().to_owned(),
        time_limit: None,
        grace: Duration::from_secs(60),
    }
}

/// Makes a named pipe; opening one end waits for the other, which is how checks and programs meet.
pub fn pipe(harness: &dyn Harness, name: &str) -> std::path::PathBuf {
    let path = harness.directory().join(name);
    let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo is there");
    assert!(made.success(), "mkfifo {}", path.display());
    path
}

/// Waits until a program writes into the pipe `path`, and returns what it wrote.
pub async fn hear(path: &Path) -> String {
    let path = path.to_owned();
    let reading = tokio::task::spawn_blocking(move || std::fs::read_to_string(path));
    reading.await.expect("reading does not panic").expect("the pipe can be read")
}

/// Submits and waits for the end.
pub async fn run(executor: &dyn Executor, spec: &ExecutorJobSpec) -> ExecutorJobState {
    executor.submit(spec).await.expect("submitted");
    executor.wait(&spec.id).await.expect("waited")
}

fn ended(end: ProgramEnd, stopped: Option<StopReason>) -> ExecutorJobState {
    ExecutorJobState::Ended(ExitStatus { end, stopped })
}

/// Exit codes are those of the program.
pub async fn an_exit_code_is_reported(harness: &dyn Harness) {
    let executor = harness.executor();
    for (trial, code) in [(1, 0), (2, 7), (3, 255)] {
        let state = run(&*executor, &shell(harness, trial, &format!("exit {code}"))).await;
        assert_eq!(state, ended(ProgramEnd::Exited(code), None));
    }
}

/// A program that a signal ended did not exit.
pub async fn a_signal_is_reported(harness: &dyn Harness) {
    let state = run(&*harness.executor(), &shell(harness, 1, "kill -9 $$")).await;
    assert_eq!(state, ended(ProgramEnd::Signaled(9), None));
}

/// What cannot be started is an end with a reason.
pub async fn a_program_that_cannot_start_says_so(harness: &dyn Harness) {
    let mut spec = shell(harness, 1, "");
    spec.replicas[0].program = Program::Command { argv: vec!["/no/such/program".to_owned()] };
    let state = run(&*harness.executor(), &spec).await;
    let ExecutorJobState::Ended(ExitStatus { end: ProgramEnd::NotStarted(reason), stopped: None }) = state else {
        panic!("{state:?}");
    };
    assert!(reason.contains("/no/such/program"), "{reason}");
}

/// Unknown is an answer, at once.
pub async fn an_id_never_submitted_is_unknown(harness: &dyn Harness) {
    let executor = harness.executor();
    let id = shell(harness, 99, "").id;
    assert_eq!(executor.state(&id).await.expect("asked"), ExecutorJobState::Unknown);
    assert_eq!(executor.wait(&id).await.expect("waited"), ExecutorJobState::Unknown);
}

/// An ID runs once, also when it has ended.
pub async fn submitting_again_is_without_effect(harness: &dyn Harness) {
    let executor = harness.executor();
    let spec = shell(harness, 1, "echo x >> runs; exit 3");
    for _ in 0..3 {
        assert_eq!(run(&*executor, &spec).await, ended(ProgramEnd::Exited(3), None));
    }
    assert_eq!(std::fs::read_to_string(harness.directory().join("runs")).expect("written"), "x\n");
}

/// An ID runs once, also when several submit it at the same time.
pub async fn submitting_twice_at_once_runs_once(harness: &dyn Harness) {
    for trial in 1..=8 {
        let spec = shell(harness, trial, &format!("echo x >> runs-{trial}"));
        let (one, other) = (harness.executor(), harness.executor());
        let (one, other) = tokio::join!(run(&*one, &spec), run(&*other, &spec));
        assert_eq!((one, other), (ended(ProgramEnd::Exited(0), None), ended(ProgramEnd::Exited(0), None)));
        let runs = std::fs::read_to_string(harness.directory().join(format!("runs-{trial}"))).expect("written");
        assert_eq!(runs, "x\n");
    }
}

/// SIGTERM comes first, and the program's own answer to it counts.
pub async fn a_graceful_stop_lets_the_program_end_well(harness: &dyn Harness) {
    let executor = harness.executor();
    let ready = pipe(harness, "ready");
    // A shell that is stopped while it starts a child may leave one behind that never hears of it: so the child itself
    // says that it is there.
    let spec = shell(harness, 1, "trap 'exit 5' TERM; sh -c 'echo > ready; exec sleep 1000' & wait");
    executor.submit(&spec).await.expect("submitted");
    hear(&ready).await;
    executor.stop(&spec.id, StopMode::Graceful).await.expect("stopped");
    let state = executor.wait(&spec.id).await.expect("waited");
    assert_eq!(state, ended(ProgramEnd::Exited(5), Some(StopReason::Requested)));
}

/// After the grace period comes SIGKILL.
pub async fn force_follows_when_a_program_ignores_the_request(harness: &dyn Harness) {
    let executor = harness.executor();
    let ready = pipe(harness, "ready");
    let mut spec = shell(harness, 1, "trap '' TERM; echo > ready; while :; do sleep 1000; done");
    spec.grace = Duration::from_millis(20);
    executor.submit(&spec).await.expect("submitted");
    hear(&ready).await;
    executor.stop(&spec.id, StopMode::Graceful).await.expect("stopped");
    let state = executor.wait(&spec.id).await.expect("waited");
    assert_eq!(state, ended(ProgramEnd::Signaled(9), Some(StopReason::Requested)));
}

/// Nothing is asked, and no grace given; also when a graceful stop is under way.
pub async fn an_immediate_stop_does_not_ask(harness: &dyn Harness) {
    let executor = harness.executor();
    let ready = pipe(harness, "ready");
    let spec = shell(harness, 1, "trap '' TERM; echo > ready; while :; do sleep 1000; done");
    executor.submit(&spec).await.expect("submitted");
    hear(&ready).await;
    executor.stop(&spec.id, StopMode::Graceful).await.expect("stopped");
    executor.stop(&spec.id, StopMode::Immediate).await.expect("stopped");
    let state = executor.wait(&spec.id).await.expect("waited");
    assert_eq!(state, ended(ProgramEnd::Signaled(9), Some(StopReason::Requested)));
}

/// Neither an unknown job nor an ended one is changed by a stop.
pub async fn stopping_what_does_not_run_is_without_effect(harness: &dyn Harness) {
    let executor = harness.executor();
    let spec = shell(harness, 1, "exit 4");
    executor.stop(&spec.id, StopMode::Immediate).await.expect("stopped");
    assert_eq!(run(&*executor, &spec).await, ended(ProgramEnd::Exited(4), None));
    executor.stop(&spec.id, StopMode::Immediate).await.expect("stopped");
    assert_eq!(executor.state(&spec.id).await.expect("asked"), ended(ProgramEnd::Exited(4), None));
}

/// A program that hangs is stopped when its time is over, and the end says why.
pub async fn the_time_limit_is_kept(harness: &dyn Harness) {
    let mut spec = shell(harness, 1, "exec sleep 1000");
    spec.time_limit = Some(Duration::from_millis(50));
    let state = run(&*harness.executor(), &spec).await;
    assert_eq!(state, ended(ProgramEnd::Signaled(15), Some(StopReason::TimeLimit)));
}

/// What one executor started, another can wait for.
pub async fn another_executor_finds_the_job(harness: &dyn Harness) {
    let go = pipe(harness, "go");
    let spec = shell(harness, 1, "read line < go; exit 6");
    harness.executor().submit(&spec).await.expect("submitted");
    let other = harness.executor();
    assert_eq!(other.state(&spec.id).await.expect("asked"), ExecutorJobState::Running);
    let tell = tokio::task::spawn_blocking(move || std::fs::write(go, "go\n"));
    assert_eq!(other.wait(&spec.id).await.expect("waited"), ended(ProgramEnd::Exited(6), None));
    tell.await.expect("no panic").expect("written");
}

/// A wait that nobody polls any more changes nothing.
pub async fn dropping_a_wait_is_harmless(harness: &dyn Harness) {
    let executor = harness.executor();
    let go = pipe(harness, "go");
    let spec = shell(harness, 1, "read line < go; exit 6");
    executor.submit(&spec).await.expect("submitted");
    let early = tokio::time::timeout(Duration::from_millis(5), executor.wait(&spec.id)).await;
    assert!(early.is_err(), "it cannot have ended");
    let tell = tokio::task::spawn_blocking(move || std::fs::write(go, "go\n"));
    assert_eq!(executor.wait(&spec.id).await.expect("waited"), ended(ProgramEnd::Exited(6), None));
    tell.await.expect("no panic").expect("written");
}

/// The log files are those that [`ExecutorJobSpec::directory`] names.
pub async fn output_goes_to_the_log_files(harness: &dyn Harness) {
    let spec = shell(harness, 1, "echo out; echo err >&2");
    run(&*harness.executor(), &spec).await;
    let read = |name| std::fs::read_to_string(spec.directory.join(name)).expect("there is a log");
    assert_eq!((read("stdout.log"), read("stderr.log")), ("out\n".to_owned(), "err\n".to_owned()));
}

/// The program has the job's variables, `TF_CONFIG`, its working directory, and nothing to read.
pub async fn the_environment_is_given(harness: &dyn Harness) {
    let mut spec = shell(harness, 7, "cat; pwd; echo \"$GREETING\"; echo \"$TF_CONFIG\"");
    spec.environment.insert("GREETING".to_owned(), "a, b = \"c\"".to_owned());
    run(&*harness.executor(), &spec).await;
    let output = std::fs::read_to_string(spec.directory.join("stdout.log")).expect("there is a log");
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[..2], [harness.directory().to_str().expect("a text"), "a, b = \"c\""]);
    let config: serde_json::Value = serde_json::from_str(lines[2]).expect("JSON");
    assert_eq!(config["task"]["trial"], "7");
    assert_eq!(config["cluster"]["master"].as_array().map(Vec::len), Some(1));
}
