//! A second process: this test binary with its task in environment variables.
#![expect(clippy::print_stdout, reason = "the process prints what was acknowledged")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use tunesmith_contract::samples;
use tunesmith_domain::TrialId;
use tunesmith_store::{Condition, OpenMode, Store, StoreError};

use super::{Kind, study_id};

const PATH: &str = "TUNESMITH_TEST_STORE_PATH";
const KIND: &str = "TUNESMITH_TEST_STORE_KIND";
const TASKS: &str = "TUNESMITH_TEST_STORE_TASKS";
const EACH: &str = "TUNESMITH_TEST_STORE_EACH";

/// The prefix of the error of a failed change on standard output.
pub(super) const FAILED: &str = "failed ";

/// The prefix of the number of an acknowledged trial on standard output.
pub(super) const ACKNOWLEDGED: &str = "acknowledged trial ";

/// The prefix of the step of an acknowledged measurement on standard output.
pub(super) const ACKNOWLEDGED_STEP: &str = "acknowledged step ";

/// The trial whose measurements [`reporters`] and [`writer_of_a_large_value`] report.
pub(super) const REPORTED: TrialId = TrialId(1);

/// The trial that [`writer_of_a_large_value`] completes.
pub(super) const WITH_LARGE_VALUE: TrialId = TrialId(5);

/// A process that reports `count` measurements of a trial of a sled store, each in a task of its own, and prints the
/// outcomes.
pub(super) fn reporters(launcher: &[&str], path: &Path, count: usize) -> Command {
    process("store::child::reporters_process", launcher, Kind::Sled, path, count, 1)
}

/// A reason that sled stores in a file of its own.
pub(super) fn large_reason() -> String {
    "x".repeat(200_000)
}

/// A process that opens a sled store, moves its folder `blobs` to `moved`, and puts a file in its place. Then it ends a
/// trial with a large value while other tasks report measurements of another trial, and prints the outcomes, first that
/// of the large value. Sled fails in a way that stops it in its whole process.
pub(super) fn writer_of_a_large_value(launcher: &[&str], path: &Path) -> Command {
    process("store::child::large_value_process", launcher, Kind::Sled, path, 20, 1)
}

/// A process that creates and completes `each` trials in each of `tasks` tasks, and prints which were acknowledged.
/// `launcher` is the command that runs it, empty for none.
pub(super) fn writer(launcher: &[&str], kind: Kind, path: &Path, tasks: usize, each: usize) -> Command {
    process("store::child::writer_process", launcher, kind, path, tasks, each)
}

/// A process that creates and completes `count` trials one after the other. It tries a failed change again until the
/// store has stopped, and prints every outcome.
pub(super) fn faulty_writer(launcher: &[&str], kind: Kind, path: &Path, count: usize) -> Command {
    process("store::child::faulty_writer_process", launcher, kind, path, 1, count)
}

fn process(test: &str, launcher: &[&str], kind: Kind, path: &Path, tasks: usize, each: usize) -> Command {
    let this = std::env::current_exe().unwrap();
    let mut command = match launcher {
        [] => tunesmith_testing::program(this),
        [program, arguments @ ..] => {
            let mut command = tunesmith_testing::program(program);
            command.args(arguments).arg(this);
            command
        }
    };
    command.args([test, "--exact", "--nocapture"]);
    command.env(PATH, path).env(KIND, kind.name()).env(TASKS, tasks.to_string()).env(EACH, each.to_string());
    command
}

/// The body of that process.
#[test]
fn faulty_writer_process() {
    let Some(path) = std::env::var_os(PATH) else { return };
    let kind = if std::env::var(KIND).unwrap() == "sled" { Kind::Sled } else { Kind::Sqlite };
    let count: usize = std::env::var(EACH).unwrap().parse().unwrap();
    runtime().block_on(async {
        let store = kind.open(Path::new(&path), OpenMode::Existing).unwrap();
        println!();
        let is_stopped = || matches!(*store.condition().borrow(), Condition::Stopped(_));
        while let Err(error) = store.create_job(samples::job("study"), Some(samples::study("study"))).await {
            if matches!(error, StoreError::AlreadyExists { .. }) || is_stopped() {
                break;
            }
            println!("{FAILED}{}", text(&error));
        }
        let mut made = 0;
        let mut id = TrialId::FIRST;
        while made < count && !is_stopped() {
            let created = store.create_trial(&study_id(), samples::new_trial(id.0)).await;
            match created {
                Ok(_) => {}
                // An earlier attempt was kept.
                Err(StoreError::TrialIdTaken { next, .. }) if next > id => {}
                Err(error) => {
                    println!("{FAILED}{}", text(&error));
                    continue;
                }
            }
            // A repeated completion with the same result has no effect.
            while let Err(error) = store.change_trial(&study_id(), id, samples::succeed(0, id.0 as f64)).await {
                println!("{FAILED}{}", text(&error));
                if is_stopped() {
                    break;
                }
            }
            if is_stopped() {
                break;
            }
            println!("{ACKNOWLEDGED}{id}");
            made += 1;
            id = id.offset(1);
        }
        println!("condition {:?}", *store.condition().borrow());
    });
}

/// The body of that process.
#[test]
fn reporters_process() {
    let Some(path) = std::env::var_os(PATH) else { return };
    runtime().block_on(async {
        let store = Kind::Sled.open(Path::new(&path), OpenMode::Existing).unwrap();
        println!();
        finish(start_reports(&store)).await;
        println!("condition {:?}", *store.condition().borrow());
    });
}

/// The body of that process.
#[test]
fn large_value_process() {
    let Some(path) = std::env::var_os(PATH) else { return };
    runtime().block_on(async {
        let store = Kind::Sled.open(Path::new(&path), OpenMode::Existing).unwrap();
        println!();
        let blobs = Path::new(&path).join("blobs");
        std::fs::rename(&blobs, blobs.with_file_name("moved")).unwrap();
        std::fs::File::create(&blobs).unwrap();
        let reports = start_reports(&store);
        let change = samples::fail(1, &large_reason());
        let error = store.change_trial(&study_id(), WITH_LARGE_VALUE, change).await.unwrap_err();
        println!("{FAILED}{}", text(&error));
        finish(reports).await;
        println!("condition {:?}", *store.condition().borrow());
    });
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

type Report = tokio::task::JoinHandle<(i64, Result<(), StoreError>)>;

/// Starts the tasks that report one measurement each, with the steps from 100 on.
fn start_reports(store: &Arc<dyn Store>) -> Vec<Report> {
    let count: i64 = std::env::var(TASKS).unwrap().parse().unwrap();
    let report = |step| {
        let store = Arc::clone(store);
        let change = samples::report(1, vec![samples::measurement(step, 1.0)]);
        tokio::spawn(async move { (step, store.change_trial(&study_id(), REPORTED, change).await.map(|_| ())) })
    };
    (100..100 + count).map(report).collect()
}

/// Prints the outcomes of `reports`.
async fn finish(reports: Vec<Report>) {
    for report in reports {
        match report.await.unwrap() {
            (step, Ok(())) => println!("{ACKNOWLEDGED_STEP}{step}"),
            (_, Err(error)) => println!("{FAILED}{}", text(&error)),
        }
    }
}

fn text(error: &StoreError) -> String {
    match error.fault() {
        Some(fault) => format!("{error}: {fault}"),
        None => format!("{error:?}"),
    }
}

/// The body of that process. Without the variables it returns at once.
#[test]
fn writer_process() {
    let Some(path) = std::env::var_os(PATH) else { return };
    let kind = if std::env::var(KIND).unwrap() == "sled" { Kind::Sled } else { Kind::Sqlite };
    let number = |name| std::env::var(name).unwrap().parse::<usize>().unwrap();
    let (tasks, each) = (number(TASKS), number(EACH));
    runtime().block_on(async {
        let store = kind.open(Path::new(&path), OpenMode::Create).unwrap();
        match store.create_job(samples::job("study"), Some(samples::study("study"))).await {
            Ok(()) | Err(StoreError::AlreadyExists { .. }) => println!(),
            Err(error) => panic!("{error:?}"),
        }
        let tasks: Vec<_> = (0..tasks).map(|_| tokio::spawn(create_and_complete(Arc::clone(&store), each))).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

async fn create_and_complete(store: Arc<dyn Store>, count: usize) {
    let study = study_id();
    let mut next = store.study(&study).await.unwrap().next_trial_id;
    for _ in 0..count {
        let id: TrialId = loop {
            match store.create_trial(&study, samples::new_trial(next.0)).await {
                Ok(trial) => break trial.id,
                Err(StoreError::TrialIdTaken { next: free, .. }) => next = free,
                Err(error) => panic!("{error:?}"),
            }
        };
        store.change_trial(&study, id, samples::succeed(0, id.0 as f64)).await.unwrap();
        println!("{ACKNOWLEDGED}{id}");
        next = id.offset(1);
    }
}
