//! The contract of [`Executor`] as checks. Every implementation runs all of them.
//!
//! [`executor_contract!`](crate::executor_contract) expands to one test per check. A check panics if the contract is
//! violated.
//!
//! The checks see a program only as any engine shows it: by its state, its logs and its end. Programs need `sh`, `sleep` and
//! `cat` where they run, and no file of the machine of the checks.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tunesmith_domain::TrialId;
use tunesmith_executor::logs::{LogName, LogStart, LogStream, MASTER};
use tunesmith_executor::reports::ReportSources;
use tunesmith_executor::{
    Executor, ExecutorJobId, ExecutorJobSpec, ExecutorJobState, ExitStatus, JobLogs, Placement, Program, ProgramEnd,
    Replica, Role, StopMode, StopReason,
};

/// An engine under test, with its own folder.
pub trait Harness: Send + Sync {
    /// Returns a new executor that finds the jobs of all earlier ones.
    fn executor(&self) -> Arc<dyn Executor>;

    /// Absolute path of a folder on this machine, for the files of the jobs.
    fn directory(&self) -> &Path;

    /// A folder that exists where the programs run, and is not the root of the file system.
    fn working_directory(&self) -> &Path;
}

/// Interval at which a check looks again.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Expands to a module `contract` with one test per check, each with a new `$harness`. With `in order`, expands to statements of
/// an async function that run the checks one after the other, for engines that take long to start.
#[macro_export]
macro_rules! executor_contract {
    (in order $harness:expr) => {
        $crate::executor_contract!(@checks ordered $harness);
    };
    (@checks $how:ident $harness:expr) => {
        $crate::executor_contract!(@$how $harness;
            exit_code_is_reported, signal_is_reported, failed_start_is_reported_with_its_reason,
            unsubmitted_id_is_unknown, second_submission_has_no_effect, concurrent_submissions_run_once,
            graceful_stop_sends_sigterm_first, graceful_stop_ends_with_sigkill_after_the_grace_period,
            immediate_stop_sends_sigkill_at_once, stop_of_a_job_that_does_not_run_has_no_effect,
            time_limit_is_enforced, job_is_found_by_another_executor, changes_of_the_state_are_returned,
            dropped_wait_has_no_effect, output_is_in_the_logs, environment_is_passed_to_the_program,
            forgotten_job_is_unknown_and_its_id_may_be_used_again,
            replicas_get_the_addresses_of_all_and_are_stopped_together, end_of_the_master_ends_the_other_replicas,
            failed_start_of_a_replica_is_the_end_of_the_job);
    };
    (@ordered $harness:expr; $($name:ident),+) => {
        $(
            eprintln!("{}", stringify!($name));
            $crate::executor::$name(&$harness).await;
        )+
    };
    (@tests $harness:expr; $($name:ident),+) => {
        mod contract {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    $crate::executor::$name(&$harness).await;
                }
            )+
        }
    };
    ($harness:expr) => {
        $crate::executor_contract!(@checks tests $harness);
    };
}

/// Returns the specification of a job for `trial` that runs `script` with `sh -c`.
pub fn shell(harness: &dyn Harness, trial: u64, script: &str) -> ExecutorJobSpec {
    let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    let id =
        ExecutorJobId { job: "contract".parse().expect("the name is valid"), trial: Some(TrialId(trial)), attempt: 1 };
    ExecutorJobSpec {
        directory: harness.directory().join(format!("trials/{trial}/attempt-1")),
        id,
        replicas: vec![Replica::new(Role::Master, 0, Program::Command { argv })],
        training_input: serde_json::json!({}),
        master_is_chief: false,
        has_worker_pools: false,
        environment: BTreeMap::new(),
        working_directory: harness.working_directory().to_owned(),
        program_folders: Vec::new(),
        time_limit: None,
        grace: Duration::from_secs(60),
        start_port: None,
        packages: None,
        part: None,
        placement: Placement::default(),
        reports: ReportSources::default(),
        server: Default::default(),
    }
}

/// Returns the log of the master of `spec`; empty if there is none.
pub async fn log(harness: &dyn Harness, spec: &ExecutorJobSpec, stream: LogStream) -> String {
    log_of(harness, spec, MASTER, stream).await
}

/// Returns the log of the replica `task` of `spec`; empty if there is none.
pub async fn log_of(harness: &dyn Harness, spec: &ExecutorJobSpec, task: &str, stream: LogStream) -> String {
    let trial = spec.id.trial.map(|trial| trial.0);
    let name = LogName { trial, attempt: spec.id.attempt, task: task.to_owned(), stream };
    let chunk = JobLogs::new(harness.directory().to_owned())
        .read(name, LogStart::At(0), 1 << 20)
        .await
        .expect("the log is read");
    chunk.map(|chunk| chunk.text).unwrap_or_default()
}

/// Waits until the program of `spec` has written the line `ready`.
pub async fn until_ready(harness: &dyn Harness, executor: &dyn Executor, spec: &ExecutorJobSpec) {
    until_replica_is_ready(harness, executor, spec, MASTER).await;
}

/// Waits until the program of the replica `task` of `spec` has written the line `ready`.
pub async fn until_replica_is_ready(
    harness: &dyn Harness,
    executor: &dyn Executor,
    spec: &ExecutorJobSpec,
    task: &str,
) {
    while !log_of(harness, spec, task, LogStream::Stdout).await.lines().any(|line| line == "ready") {
        let state = executor.state(&spec.id).await.expect("a state");
        assert!(state.is_open(), "it ended before it was ready: {state:?}");
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// Waits until the job of `spec`, whose programs run, is reported to run: an engine that is polled may report the start after
/// the first output of a program.
async fn until_running(executor: &dyn Executor, spec: &ExecutorJobSpec) {
    let mut known = executor.state(&spec.id).await.expect("a state");
    while matches!(known, ExecutorJobState::Waiting { .. }) {
        known = executor.changed(&spec.id, &known).await.expect("a state");
    }
    assert_eq!(known, ExecutorJobState::Running);
}

/// Waits until the nodes of all replicas of `spec`, whose programs run, are known.
async fn until_nodes_are_known(executor: &dyn Executor, spec: &ExecutorJobSpec) {
    loop {
        let place = executor.nodes(&spec.id).await.expect("nodes");
        assert_eq!(place.attempt, spec.id.attempt);
        if place.is_complete(spec.replicas.len()) {
            assert!(place.nodes.iter().all(|node| !node.node.trim().is_empty()), "{place:?}");
            return;
        }
        assert!(executor.state(&spec.id).await.expect("a state").is_open(), "{place:?}");
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
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
    let spec = shell(harness, 1, "echo x; exit 3");
    for _ in 0..3 {
        assert_eq!(run(&*executor, &spec).await, ended(ProgramEnd::Exited(3), None));
    }
    assert_eq!(log(harness, &spec, LogStream::Stdout).await, "x\n");
}

/// The runs of a forgotten job are unknown, those of other jobs are not, and its IDs may be used again.
pub async fn forgotten_job_is_unknown_and_its_id_may_be_used_again(harness: &dyn Harness) {
    let executor = harness.executor();
    let of_job = |name: &str, code: i32| {
        let mut spec = shell(harness, 1, &format!("exit {code}"));
        spec.id.job = name.parse().expect("the name is valid");
        spec
    };
    let (one, other) = (of_job("one", 1), of_job("one_more", 2));
    assert_eq!(run(&*executor, &one).await, ended(ProgramEnd::Exited(1), None));
    assert_eq!(run(&*executor, &other).await, ended(ProgramEnd::Exited(2), None));
    for _ in 0..2 {
        executor.forget(&one.id.job).await.expect("the records are removed");
        assert_eq!(executor.state(&one.id).await.expect("a state"), ExecutorJobState::Unknown);
    }
    assert_eq!(executor.state(&other.id).await.expect("a state"), ended(ProgramEnd::Exited(2), None));
    assert_eq!(run(&*executor, &of_job("one", 3)).await, ended(ProgramEnd::Exited(3), None));
}

/// An ID runs once, also if it is submitted concurrently.
pub async fn concurrent_submissions_run_once(harness: &dyn Harness) {
    for trial in 1..=8 {
        let spec = shell(harness, trial, "echo x");
        let (one, other) = (harness.executor(), harness.executor());
        let (one, other) = tokio::join!(run(&*one, &spec), run(&*other, &spec));
        assert_eq!((one, other), (ended(ProgramEnd::Exited(0), None), ended(ProgramEnd::Exited(0), None)));
        assert_eq!(log(harness, &spec, LogStream::Stdout).await, "x\n");
    }
}

/// SIGTERM is sent first, and the exit code with which the program reacts is reported.
pub async fn graceful_stop_sends_sigterm_first(harness: &dyn Harness) {
    let executor = harness.executor();
    // A shell that is stopped while it starts a child may leave a child that does not receive the signal. Therefore the
    // child itself reports that it is running.
    let spec = shell(harness, 1, "trap 'exit 5' TERM; sh -c 'echo ready; exec sleep 1000' & wait");
    executor.submit(&spec).await.expect("submitted");
    until_ready(harness, &*executor, &spec).await;
    executor.stop(&spec.id, StopMode::Graceful).await.expect("stopped");
    let state = executor.wait(&spec.id).await.expect("waited");
    assert_eq!(state, ended(ProgramEnd::Exited(5), Some(StopReason::Requested)));
}

/// SIGKILL is sent after the grace period.
pub async fn graceful_stop_ends_with_sigkill_after_the_grace_period(harness: &dyn Harness) {
    let executor = harness.executor();
    let mut spec = shell(harness, 1, "trap '' TERM; echo ready; while :; do sleep 1000; done");
    spec.grace = Duration::from_millis(20);
    executor.submit(&spec).await.expect("submitted");
    until_ready(harness, &*executor, &spec).await;
    executor.stop(&spec.id, StopMode::Graceful).await.expect("stopped");
    let state = executor.wait(&spec.id).await.expect("waited");
    assert_eq!(state, ended(ProgramEnd::Signaled(9), Some(StopReason::Requested)));
}

/// SIGKILL is sent without SIGTERM or grace period, also during a graceful stop.
pub async fn immediate_stop_sends_sigkill_at_once(harness: &dyn Harness) {
    let executor = harness.executor();
    let spec = shell(harness, 1, "trap '' TERM; echo ready; while :; do sleep 1000; done");
    executor.submit(&spec).await.expect("submitted");
    until_ready(harness, &*executor, &spec).await;
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

/// A program that runs until it is stopped, and then exits with 6.
const UNTIL_STOPPED: &str = "trap 'exit 6' TERM; sh -c 'echo ready; exec sleep 1000' & wait";

/// A job that one executor started can be waited for by another.
pub async fn job_is_found_by_another_executor(harness: &dyn Harness) {
    let spec = shell(harness, 1, UNTIL_STOPPED);
    harness.executor().submit(&spec).await.expect("submitted");
    let other = harness.executor();
    until_ready(harness, &*other, &spec).await;
    assert!(other.state(&spec.id).await.expect("state").is_open());
    until_nodes_are_known(&*other, &spec).await;
    harness.executor().stop(&spec.id, StopMode::Graceful).await.expect("stopped");
    let stopped = ended(ProgramEnd::Exited(6), Some(StopReason::Requested));
    assert_eq!(other.wait(&spec.id).await.expect("waited"), stopped);
}

/// A state is returned when it is another one than the known one, and an end at once.
pub async fn changes_of_the_state_are_returned(harness: &dyn Harness) {
    let executor = harness.executor();
    let spec = shell(harness, 1, UNTIL_STOPPED);
    let changed = async |known: &ExecutorJobState| executor.changed(&spec.id, known).await.expect("a state");
    assert_eq!(changed(&ExecutorJobState::Running).await, ExecutorJobState::Unknown);
    assert_eq!(changed(&ExecutorJobState::Unknown).await, ExecutorJobState::Unknown);
    executor.submit(&spec).await.expect("submitted");
    until_ready(harness, &*executor, &spec).await;
    let mut known = ExecutorJobState::Waiting { reason: "another one".to_owned() };
    // An engine that is polled may report the start after the program's first output.
    while matches!(known, ExecutorJobState::Waiting { .. }) {
        let next = changed(&known).await;
        assert_ne!(next, known, "it has changed");
        known = next;
    }
    assert_eq!(known, ExecutorJobState::Running);
    let same = tokio::time::timeout(Duration::from_millis(5), changed(&ExecutorJobState::Running)).await;
    assert!(same.is_err(), "it runs");
    executor.stop(&spec.id, StopMode::Graceful).await.expect("stopped");
    let stopped = ended(ProgramEnd::Exited(6), Some(StopReason::Requested));
    assert_eq!(changed(&ExecutorJobState::Running).await, stopped);
    assert_eq!(changed(&stopped).await, stopped);
}

/// Dropping the future of a wait does not change the job.
pub async fn dropped_wait_has_no_effect(harness: &dyn Harness) {
    let executor = harness.executor();
    let spec = shell(harness, 1, UNTIL_STOPPED);
    executor.submit(&spec).await.expect("submitted");
    let early = tokio::time::timeout(Duration::from_millis(5), executor.wait(&spec.id)).await;
    assert!(early.is_err(), "it cannot have ended");
    until_ready(harness, &*executor, &spec).await;
    executor.stop(&spec.id, StopMode::Graceful).await.expect("stopped");
    let stopped = ended(ProgramEnd::Exited(6), Some(StopReason::Requested));
    assert_eq!(executor.wait(&spec.id).await.expect("waited"), stopped);
}

/// Output is in the logs when the end is reported, each stream in its own.
pub async fn output_is_in_the_logs(harness: &dyn Harness) {
    let spec = shell(harness, 1, "echo out; echo err >&2");
    let executor = harness.executor();
    run(&*executor, &spec).await;
    assert_eq!(log(harness, &spec, LogStream::Stdout).await, "out\n");
    assert_eq!(log(harness, &spec, LogStream::Stderr).await, "err\n");
    let names = JobLogs::new(harness.directory().to_owned()).list(Some(1)).await.expect("the logs are listed");
    let names: Vec<String> = names.iter().map(|log| log.name.to_string()).collect();
    assert_eq!(names, ["trial-1.attempt-1.master-0.stderr", "trial-1.attempt-1.master-0.stdout"]);
}

/// The program gets the job's variables, `TF_CONFIG`, its working directory and an empty standard input.
pub async fn environment_is_passed_to_the_program(harness: &dyn Harness) {
    let mut spec = shell(harness, 7, "cat; pwd; echo \"$GREETING\"; echo \"$TF_CONFIG\"");
    spec.environment.insert("GREETING".to_owned(), "a, b = \"c\"".to_owned());
    let executor = harness.executor();
    run(&*executor, &spec).await;
    let output = log(harness, &spec, LogStream::Stdout).await;
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[..2], [harness.working_directory().to_str().expect("UTF-8"), "a, b = \"c\""]);
    let config: serde_json::Value = serde_json::from_str(lines[2]).expect("JSON");
    assert_eq!(config["task"]["trial"], "7");
    assert_eq!(config["cluster"]["master"].as_array().map(Vec::len), Some(1));
}

/// Adds replicas to `spec` that run `script` with `sh -c`. They need little, so that several fit on a small node.
pub fn add_replicas(spec: &mut ExecutorJobSpec, roles: &[(Role, u32)], script: &str) {
    let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    spec.replicas
        .extend(roles.iter().map(|&(role, index)| Replica::new(role, index, Program::Command { argv: argv.clone() })));
    for replica in &mut spec.replicas {
        replica.resources.milli_cpus = Some(100);
    }
}

/// The replicas of a job get the addresses of all and their own role, and a stop request is sent to each.
pub async fn replicas_get_the_addresses_of_all_and_are_stopped_together(harness: &dyn Harness) {
    const SCRIPT: &str = "trap 'exit 5' TERM; echo \"$TF_CONFIG\"; sh -c 'echo ready; exec sleep 1000' & wait";
    let executor = harness.executor();
    let mut spec = shell(harness, 1, SCRIPT);
    add_replicas(&mut spec, &[(Role::Worker, 0), (Role::Worker, 1), (Role::ParameterServer, 0)], SCRIPT);
    executor.submit(&spec).await.expect("submitted");
    let mut clusters = Vec::new();
    for (task, kind, index) in
        [(MASTER, "master", 0), ("worker-0", "worker", 0), ("worker-1", "worker", 1), ("ps-0", "ps", 0)]
    {
        until_replica_is_ready(harness, &*executor, &spec, task).await;
        let text = log_of(harness, &spec, task, LogStream::Stdout).await;
        let config: serde_json::Value = serde_json::from_str(text.lines().next().expect("a line")).expect("JSON");
        assert_eq!((&config["task"]["type"], &config["task"]["index"]), (&kind.into(), &index.into()), "{task}");
        clusters.push(config["cluster"].clone());
    }
    assert!(clusters.iter().all(|cluster| *cluster == clusters[0]), "{clusters:?}");
    let of_role = |role: &str| clusters[0][role].as_array().cloned().unwrap_or_default();
    assert_eq!(["master", "worker", "ps"].map(|role| of_role(role).len()), [1, 2, 1]);
    let all: std::collections::BTreeSet<String> =
        ["master", "worker", "ps"].iter().flat_map(|role| of_role(role)).map(|address| address.to_string()).collect();
    assert_eq!(all.len(), 4, "{all:?}");
    until_running(&*executor, &spec).await;
    until_nodes_are_known(&*executor, &spec).await;
    executor.stop(&spec.id, StopMode::Graceful).await.expect("stopped");
    let state = executor.wait(&spec.id).await.expect("waited");
    assert_eq!(state, ended(ProgramEnd::Exited(5), Some(StopReason::Requested)));
    executor.clean_up(&spec.id).await.expect("cleaned up");
    assert_eq!(executor.state(&spec.id).await.expect("state"), state);
}

/// The end of the master is the end of the job, and the other replicas are stopped.
pub async fn end_of_the_master_ends_the_other_replicas(harness: &dyn Harness) {
    let mut spec = shell(harness, 1, "exit 4");
    add_replicas(&mut spec, &[(Role::Worker, 0)], "exec sleep 1000");
    assert_eq!(run(&*harness.executor(), &spec).await, ended(ProgramEnd::Exited(4), None));
}

/// A replica whose program cannot be started ends the job with the reason.
pub async fn failed_start_of_a_replica_is_the_end_of_the_job(harness: &dyn Harness) {
    let mut spec = shell(harness, 1, "exec sleep 1000");
    add_replicas(&mut spec, &[(Role::Worker, 0)], "");
    spec.replicas[1].program = Program::Command { argv: vec!["/no/such/program".to_owned()] };
    let state = run(&*harness.executor(), &spec).await;
    let ExecutorJobState::Ended(ExitStatus { end: ProgramEnd::NotStarted(reason), stopped: None }) = state else {
        panic!("{state:?}");
    };
    assert!(reason.starts_with("worker-0") && reason.contains("/no/such/program"), "{reason}");
}
