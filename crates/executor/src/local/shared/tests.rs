use std::collections::BTreeMap;

use super::*;
use crate::{Placement, Replica, Role};

fn spec(folder: &Path) -> ExecutorJobSpec {
    ExecutorJobSpec {
        reports: Default::default(),
        server: Default::default(),
        id: ExecutorJobId { job: "j".parse().unwrap(), trial: None, attempt: 1 },
        replicas: vec![Replica::new(Role::Master, 0, Program::Command { argv: vec!["true".to_owned()] })],
        training_input: serde_json::Value::Null,
        master_is_chief: false,
        has_worker_pools: false,
        environment: BTreeMap::new(),
        working_directory: folder.to_owned(),
        program_folders: Vec::new(),
        directory: folder.join("attempt"),
        time_limit: None,
        grace: Duration::ZERO,
        start_port: None,
        packages: None,
        part: None,
        placement: Placement::default(),
    }
}

fn attempts(folder: &Path) -> SharedAttempts {
    let times = SharedTimes { check_ms: 10, lease_ms: 1000 };
    SharedAttempts::new(folder.join("executions"), times, None)
}

fn status(stopped: Option<StopReason>) -> ExitStatus {
    ExitStatus { end: ProgramEnd::Signaled(15), stopped }
}

#[test]
fn attempt_is_registered_once() {
    let folder = tempfile::tempdir().unwrap();
    let attempts = attempts(folder.path());
    let spec = spec(folder.path());
    assert!(attempts.find(&spec.id).unwrap().is_none());
    let (first, new) = attempts.register(&spec).unwrap();
    let (second, again) = attempts.register(&spec).unwrap();
    assert_eq!((new, again, &first.token), (true, false, &second.token));
    assert_eq!(attempts.find(&spec.id).unwrap().unwrap().token, first.token);
    assert_eq!(first.state().unwrap(), SharedState::NotStarted);
}

#[test]
fn stop_by_the_engine_is_distinguished_from_one_that_was_requested() {
    for requested in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (attempt, _) = attempts(folder.path()).register(&spec(folder.path())).unwrap();
        if requested {
            attempt.request_stop(StopMode::Graceful).unwrap();
        }
        attempt.end_with(status(Some(StopReason::Requested))).unwrap();
        let end = status(Some(StopReason::Requested));
        let expected = if requested { SharedState::Ended(end) } else { SharedState::EndedBySignal(end) };
        assert_eq!(attempt.state().unwrap(), expected);
        attempt.record_loss(LossCause::Preemption, "PREEMPTED").unwrap();
        let loss = SharedState::Lost { cause: LossCause::Preemption, reason: "PREEMPTED".to_owned() };
        let expected = if requested { expected } else { loss };
        assert_eq!(attempt.state().unwrap(), expected);
        for _ in 0..2 {
            attempt.clean_up().unwrap();
            assert_eq!(attempt.state().unwrap(), expected, "also without the records");
        }
    }
}

#[test]
fn program_that_died_from_a_signal_may_have_been_ended_by_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let (attempt, _) = attempts(folder.path()).register(&spec(folder.path())).unwrap();
    attempt.end_with(status(None)).unwrap();
    assert_eq!(attempt.state().unwrap(), SharedState::EndedBySignal(status(None)));
    attempt.clean_up().unwrap();
    assert_eq!(attempt.state().unwrap(), SharedState::Ended(status(None)), "its end was reported");
}

#[test]
fn program_that_ended_before_the_loss_was_known_keeps_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let (attempt, _) = attempts(folder.path()).register(&spec(folder.path())).unwrap();
    attempt.record_loss(LossCause::Failure, "NODE_FAIL").unwrap();
    let end = ExitStatus { end: ProgramEnd::Exited(7), stopped: None };
    attempt.end_with(end.clone()).unwrap();
    attempt.end_as_lost(LossCause::Failure, "NODE_FAIL").unwrap();
    assert_eq!(attempt.state().unwrap(), SharedState::Ended(end));
}

#[test]
fn copy_of_a_data_folder_does_not_use_the_jobs_of_the_original() {
    let folder = tempfile::tempdir().unwrap();
    let spec = spec(folder.path());
    let original = attempts(folder.path());
    original.register(&spec).unwrap();
    let mut copying = std::process::Command::new("cp");
    copying.args(["-a", "executions", "copy"]).current_dir(folder.path());
    assert!(copying.status().unwrap().success());
    let times = SharedTimes { check_ms: 10, lease_ms: 1000 };
    let copy = SharedAttempts::new(folder.path().join("copy"), times, None).find(&spec.id).unwrap().unwrap();
    assert!(matches!(copy.state().unwrap(), SharedState::Lost { cause: LossCause::Failure, .. }));
    assert_eq!(original.find(&spec.id).unwrap().unwrap().state().unwrap(), SharedState::NotStarted);
}

#[test]
fn token_of_an_attempt_is_known_by_its_folder_once_it_has_ended() {
    let folder = tempfile::TempDir::new().unwrap();
    let attempts = attempts(folder.path());
    let token = || attempts.token_of_ended(OsStr::new(&spec(folder.path()).id.to_string())).unwrap();
    assert_eq!(token(), None);
    let (attempt, _) = attempts.register(&spec(folder.path())).unwrap();
    assert_eq!(token(), None);
    // Whether the engine sent the signal is not known yet.
    attempt.end_with(status(Some(StopReason::Requested))).unwrap();
    assert_eq!(token(), None);
    attempt.record_loss(LossCause::Preemption, "requeued").unwrap();
    assert_eq!(token(), Some(attempt.token.clone()));
    attempt.clean_up().unwrap();
    assert_eq!(token(), Some(attempt.token));
}
