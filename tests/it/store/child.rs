//! A second process: this test binary with its task in environment variables.
#![expect(clippy::print_stdout, reason = "the process prints what was acknowledged")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use tunesmith_domain::TrialId;
use tunesmith_store::contract::samples;
use tunesmith_store::{OpenMode, Store, StoreError};

use super::{Kind, study_id};

const PATH: &str = "TUNESMITH_TEST_STORE_PATH";
const KIND: &str = "TUNESMITH_TEST_STORE_KIND";
const TASKS: &str = "TUNESMITH_TEST_STORE_TASKS";
const EACH: &str = "TUNESMITH_TEST_STORE_EACH";

/// The prefix of the number of an acknowledged trial on standard output.
pub(super) const ACKNOWLEDGED: &str = "acknowledged trial ";

/// A process that creates and completes `each` trials in each of `tasks` tasks, and prints which were acknowledged.
/// `launcher` is the command that runs it, empty for none.
pub(super) fn writer(launcher: &[&str], kind: Kind, path: &Path, tasks: usize, each: usize) -> Command {
    let this = std::env::current_exe().unwrap();
    let mut command = match launcher {
        [] => Command::new(this),
        [program, arguments @ ..] => {
            let mut command = Command::new(program);
            command.args(arguments).arg(this);
            command
        }
    };
    command.args(["store::child::writer_process", "--exact", "--nocapture"]);
    command.env(PATH, path).env(KIND, kind.name()).env(TASKS, tasks.to_string()).env(EACH, each.to_string());
    command
}

/// The body of that process. Without the variables it returns at once.
#[test]
fn writer_process() {
    let Some(path) = std::env::var_os(PATH) else { return };
    let kind = if std::env::var(KIND).unwrap() == "sled" { Kind::Sled } else { Kind::Sqlite };
    let number = |name| std::env::var(name).unwrap().parse::<usize>().unwrap();
    let (tasks, each) = (number(TASKS), number(EACH));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
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
