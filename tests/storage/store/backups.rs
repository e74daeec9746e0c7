//! Backups of stores that are in use, and copies between kinds of stores, by the command line.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Semaphore;
use tunesmith_contract::samples;
use tunesmith_data_dir::{DataDir, StoreKind};
use tunesmith_domain::TrialId;
use tunesmith_store::{Contents, Store, read_all};
use tunesmith_testing::postgres::Cluster;
use tunesmith_testing::{Finished, Workspace, finished};

/// Number of backups under load.
fn backups() -> u64 {
    std::env::var("TUNESMITH_BACKUPS").map_or(5, |count| count.parse().unwrap())
}

fn tunesmith(workspace: &Workspace, arguments: &[&str]) -> Finished {
    finished(workspace.command().args(arguments).output().unwrap())
}

async fn contents(workspace: &Workspace, folder: &str) -> Contents {
    let folder = DataDir::open_read_only(&workspace.path().join(folder), "test").unwrap();
    read_all(&*folder.store().await.unwrap()).await.unwrap()
}

/// Number of trials that are written during one backup, so that the time of all backups grows with their number.
const TRIALS_OF_A_BACKUP: usize = 200;

/// Writes trials with results, one for each permit of `wanted` until it is closed. `written` is the number of the last
/// one acknowledged.
async fn write_trials(store: &dyn Store, written: &AtomicU64, wanted: &Semaphore) {
    let study = samples::study("p/l/s");
    store.create_study(study.clone()).await.unwrap();
    for number in 1.. {
        let Ok(permit) = wanted.acquire().await else { return };
        permit.forget();
        store.create_trial(&study.id, samples::new_trial(number)).await.unwrap();
        store.change_trial(&study.id, TrialId(number), samples::begin(1)).await.unwrap();
        store.change_trial(&study.id, TrialId(number), samples::succeed(1, 0.5)).await.unwrap();
        written.store(number, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_was_acknowledged_before_a_backup_is_missing_in_it() {
    let workspace = Workspace::new("");
    let data = DataDir::open(&workspace.path().join("data"), StoreKind::Sqlite, "tunesmith serve").unwrap();
    let store = data.store().await.unwrap();
    let (written, wanted) = (Arc::new(AtomicU64::new(0)), Arc::new(Semaphore::new(0)));
    let writer = {
        let (written, wanted) = (written.clone(), wanted.clone());
        tokio::spawn(async move { write_trials(&*store, &written, &wanted).await })
    };
    for number in 1..=backups() {
        wanted.add_permits(TRIALS_OF_A_BACKUP);
        let before = written.load(Ordering::SeqCst);
        let (backup, restored) = (format!("backup-{number}"), format!("restored-{number}"));
        let shown = tunesmith(&workspace, &["backup", &backup, "--data-dir", "data"]).expect(0).stdout;
        let after = written.load(Ordering::SeqCst) + 1;
        tunesmith(&workspace, &["restore", &backup, "--data-dir", &restored]).expect(0);
        let found = contents(&workspace, &restored).await;
        assert!(
            shown.starts_with(&format!(
                "Backed up and checked: 0 jobs, {} studies, {} trials",
                found.studies, found.trials
            )),
            "{shown}"
        );
        assert!((before..=after).contains(&found.trials), "{} of {before} to {after}", found.trials);
        // Each trial in a final state was acknowledged as a whole, in order.
        let folder = DataDir::open(&workspace.path().join(&restored), StoreKind::Sqlite, "test").unwrap();
        let store = folder.store().await.unwrap();
        let open = store.open_trials(&"p/l/s".parse().unwrap(), None, 10).await;
        assert!(open.map_or(0, |open| open.len()) <= 1);
        drop((store, folder));
        for copy in [&backup, &restored] {
            std::fs::remove_dir_all(workspace.path().join(copy)).unwrap();
        }
    }
    wanted.close();
    writer.await.unwrap();
}

#[test]
fn backups_and_restorations_that_cannot_work_are_refused() {
    let workspace = Workspace::new("");
    let refused = |arguments: &[&str], expected: &str| {
        let error = tunesmith(&workspace, arguments).expect(2).stderr;
        assert!(error.contains(expected), "{arguments:?}: {error}");
    };
    refused(&["backup", "b"], "there is no store in data folder .tunesmith");
    refused(&["restore", "absent", "--data-dir", "d"], "cannot find absent: No such file or directory");
    std::fs::create_dir(workspace.path().join("empty")).unwrap();
    refused(&["restore", "empty", "--data-dir", "d"], "/empty is no backup: BACKUP: No such file");
    refused(&["store", "copy", "absent", "d"], "there is no store in data folder absent");
    assert!(!workspace.path().join("d").exists() && !workspace.path().join("absent").exists());
}

async fn fill(folder: &Path, trials: u64) {
    let data = DataDir::open(folder, StoreKind::Sqlite, "test").unwrap();
    let store = data.store().await.unwrap();
    let study = samples::study("j");
    store.create_job(samples::job("j"), Some(study.clone())).await.unwrap();
    let numbers: Vec<u64> = (1..=trials).collect();
    for page in numbers.chunks(500) {
        store.create_trials(&study.id, page.iter().map(|number| samples::new_trial(*number)).collect()).await.unwrap();
    }
    let first = TrialId(1);
    store.change_trial(&study.id, first, samples::begin(1)).await.unwrap();
    let curve = (0..20_000).map(|step| samples::measurement(step, f64::NAN)).collect();
    store.change_trial(&study.id, first, samples::report(1, curve)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_are_copied_to_every_other_kind() {
    let workspace = Workspace::new("");
    let cluster = Cluster::start();
    let address = cluster.create_database("tuning");
    fill(&workspace.path().join("a"), 1500).await;
    std::fs::create_dir_all(workspace.path().join("a/packages/p/0123")).unwrap();
    workspace.write("a/packages/p/0123/trainer.tar.gz", "content");
    let expected = contents(&workspace, "a").await;
    assert_eq!((expected.jobs, expected.studies, expected.trials, expected.measurements), (1, 1, 1500, 20_000));
    for (from, to, store) in [("a", "b", "sled"), ("b", "c", &*address), ("c", "d", "sqlite")] {
        let mut copy = workspace.command();
        copy.args(["store", "copy", from, to, "--store", store]).env("PGPASSWORD", "right");
        let shown = finished(copy.output().unwrap()).expect(0);
        assert!(
            shown.stdout.starts_with("Copied and checked: 1 jobs, 1 studies, 1500 trials, 20000 measurements"),
            "{shown:?}"
        );
        assert!(shown.stderr.contains("only with --resume-copied"), "{shown:?}");
        assert_eq!(
            std::fs::read_to_string(workspace.path().join(to).join("packages/p/0123/trainer.tar.gz")).unwrap(),
            "content"
        );
    }
    assert_eq!(contents(&workspace, "d").await, expected);
    let doctor = tunesmith(&workspace, &["doctor", "--data-dir", "d"]);
    assert!(doctor.stdout.contains("can be read completely: 1 jobs, 1 studies, 1500 trials"), "{doctor:?}");
    let mut again = workspace.command();
    again.args(["store", "copy", "a", "e", "--store", &address]).env("PGPASSWORD", "right");
    let refused = finished(again.output().unwrap()).expect(2).stderr;
    assert!(refused.contains("the target contains jobs or studies already"), "{refused}");
    let mut dumped = workspace.command();
    dumped.args(["backup", "f", "--data-dir", "c"]).env("PGPASSWORD", "right");
    let refused = finished(dumped.output().unwrap()).expect(2).stderr;
    assert!(refused.contains("pg_dump"), "{refused}");
    assert!(!workspace.path().join("e").exists() && !workspace.path().join("f").exists());
}
