#![expect(clippy::unwrap_used, reason = "clippy exempts test functions only, not their helpers")]

use super::*;
use tunesmith_contract::samples;

/// A data folder with a job, its study, a trial and further files.
async fn filled(path: &Path, kind: StoreKind) -> DataDir {
    let data = DataDir::open(path, kind, "tunesmith serve").unwrap();
    let store = data.store().await.unwrap();
    let study = samples::study("j");
    store.create_job(samples::job("j"), Some(study.clone())).await.unwrap();
    store.create_trial(&study.id, samples::new_trial(1)).await.unwrap();
    for (name, content) in
        [("jobs/j/trials/1/attempt-1/stdout.log", "output"), ("environments/e/ready", ""), ("tokens.json", "{}")]
    {
        let file = path.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }
    data
}

const FILLED: Contents = Contents { jobs: 1, studies: 1, trials: 1, measurements: 0 };

#[tokio::test]
async fn folder_in_use_is_backed_up_and_restored() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let data = filled(&at("data"), StoreKind::Sqlite).await;
    let (contents, files) = back_up(&at("data"), &at("backup"), "tunesmith backup").await.unwrap();
    // FOLDER, STORE, the log and the tokens.
    assert_eq!((contents, files.files), (FILLED, 4));
    assert!(!at("backup/environments").exists() && !at("backup/LOCK").exists());
    // Reading a backup leaves files beside the store.
    drop(DataDir::open_read_only(&at("backup"), "tunesmith jobs list").unwrap().store().await.unwrap());
    assert!(at("backup/store.sqlite-shm").exists());
    // The original goes on.
    data.store().await.unwrap().create_job(samples::job("later"), None).await.unwrap();
    let (contents, _) = restore(&at("backup"), &at("restored"), "tunesmith restore").await.unwrap();
    assert_eq!(contents, FILLED);
    let restored = DataDir::open(&at("restored"), StoreKind::Sqlite, "tunesmith serve").unwrap();
    assert_eq!(restored.original().unwrap().path, at("data").canonicalize().unwrap());
    let store = restored.store().await.unwrap();
    assert_eq!(store.jobs(None, 10).await.unwrap(), [samples::job("j")]);
    store.create_trial(&"j".parse().unwrap(), samples::new_trial(2)).await.unwrap();
    assert_eq!(fs::read_to_string(at("restored/jobs/j/trials/1/attempt-1/stdout.log")).unwrap(), "output");
    // Names of partial folders are gone.
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 3);
}

#[tokio::test]
async fn changed_missing_and_further_files_of_a_backup_are_found() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    drop(filled(&at("data"), StoreKind::Sled).await);
    back_up(&at("data"), &at("backup"), "tunesmith backup").await.unwrap();
    let refused = async |expected: &str| {
        let error = restore(&at("backup"), &at("restored"), "tunesmith restore").await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!at("restored").exists());
    };
    fs::write(at("backup/extra"), "").unwrap();
    refused("extra in the backup").await;
    fs::remove_file(at("backup/extra")).unwrap();
    fs::write(at("backup/tokens.json"), "{ }").unwrap();
    refused("has another content than when it was written").await;
    fs::remove_file(at("backup/tokens.json")).unwrap();
    refused("is missing").await;
    fs::remove_file(at("backup/BACKUP")).unwrap();
    refused("is no backup: BACKUP: No such file").await;
}

#[tokio::test]
async fn folders_are_new_and_not_nested() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let data = filled(&at("data"), StoreKind::Sled).await;
    let error = back_up(&at("data"), &at("backup"), "tunesmith backup").await.unwrap_err();
    assert!(matches!(error, DataDirError::SledInUse { .. }), "{error}");
    drop(data);
    let error = back_up(&at("data"), &at("data/jobs/backup"), "tunesmith backup").await.unwrap_err();
    assert!(matches!(error, DataDirError::Inside { .. }), "{error}");
    let error = back_up(&at("data"), root.path(), "tunesmith backup").await.unwrap_err();
    assert!(matches!(error, DataDirError::NotEmpty { .. }), "{error}");
    let error = back_up(&at("absent"), &at("backup"), "tunesmith backup").await.unwrap_err();
    assert!(matches!(error, DataDirError::NoStore { .. }), "{error}");
}

#[tokio::test]
async fn store_is_copied_to_another_kind_and_back() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    drop(filled(&at("a"), StoreKind::Sqlite).await);
    for (from, to, kind) in [("a", "b", StoreKind::Sled), ("b", "c", StoreKind::Sqlite)] {
        let add = async |_: &DataDir, _: &DataDir| Ok::<_, DataDirError>(());
        let copied = copy_store(&at(from), &at(to), kind.into(), "tunesmith store", add).await;
        let (contents, files, ()) = copied.unwrap();
        assert_eq!((contents, files.files), (FILLED, 3), "{kind}");
    }
    let copy = DataDir::open(&at("c"), StoreKind::Sqlite, "tunesmith serve").unwrap();
    assert!(copy.original().is_some());
    assert_eq!(copy.store().await.unwrap().jobs(None, 10).await.unwrap(), [samples::job("j")]);
}
