use super::*;
use tunesmith_contract::samples;
use tunesmith_store::StoreError;

#[tokio::test]
async fn opening_a_locked_folder_names_the_holder() {
    let folder = tempfile::tempdir().unwrap();
    let first = DataDir::open(folder.path(), StoreKind::Sqlite, "tunesmith run --config a").unwrap();
    let error = DataDir::open(folder.path(), StoreKind::Sqlite, "tunesmith serve").unwrap_err();
    let DataDirError::InUse { holder, .. } = &error else { panic!("{error:?}") };
    assert_eq!(holder.pid, Some(std::process::id()));
    assert!(holder.since.is_some());
    let message = error.to_string();
    let expected = format!("is in use by process {} (tunesmith run --config a) since 2", std::process::id());
    assert!(message.contains(&expected), "{message}");
    drop(first);
    DataDir::open(folder.path(), StoreKind::Sqlite, "tunesmith serve").unwrap();
}

#[tokio::test]
async fn folder_keeps_its_kind_of_store() {
    for (kind, other) in [(StoreKind::Sqlite, StoreKind::Sled), (StoreKind::Sled, StoreKind::Sqlite)] {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path(), kind, "first").unwrap();
        data.store().await.unwrap();
        drop(data);
        let error = DataDir::open(folder.path(), other, "second").unwrap_err();
        assert!(
            matches!(error, DataDirError::OtherKind { holds, requested, .. } if (holds, requested) == (kind, other))
        );
        // The same without a marker.
        fs::remove_file(folder.path().join("STORE")).unwrap();
        let error = DataDir::open(folder.path(), other, "third").unwrap_err();
        assert!(matches!(error, DataDirError::OtherKind { .. }), "{error:?}");
        DataDir::open(folder.path(), kind, "fourth").unwrap().store().await.unwrap();
    }
}

#[tokio::test]
async fn missing_store_is_refused() {
    for kind in [StoreKind::Sqlite, StoreKind::Sled] {
        let folder = tempfile::tempdir().unwrap();
        DataDir::open(folder.path(), kind, "first").unwrap().store().await.unwrap();
        let store = folder.path().join(kind.file_name().unwrap());
        if store.is_dir() {
            fs::remove_dir_all(&store).unwrap()
        } else {
            fs::remove_file(&store).unwrap()
        }
        let data = DataDir::open(folder.path(), kind, "second").unwrap();
        let Err(DataDirError::Store(StoreError::Damaged { detail, .. })) = data.store().await else {
            panic!("{kind}: a missing store was opened")
        };
        assert!(detail.contains("missing") && detail.contains("restore"), "{detail}");
        assert!(!store.exists(), "no new store was created");
    }
}

#[tokio::test]
async fn read_only_opening_beside_a_writer_works_with_sqlite_but_not_with_sled() {
    let folder = tempfile::tempdir().unwrap();
    let data = DataDir::open(folder.path(), StoreKind::Sqlite, "run").unwrap();
    let store = data.store().await.unwrap();
    store.create_job(samples::job("a"), None).await.unwrap();
    let looking = DataDir::open_read_only(folder.path(), "jobs list").unwrap();
    let seen = looking.store().await.unwrap();
    assert_eq!(seen.jobs(None, 10).await.unwrap().len(), 1);
    store.create_job(samples::job("b"), None).await.unwrap();
    assert_eq!(seen.jobs(None, 10).await.unwrap().len(), 2);
    let error = seen.create_job(samples::job("c"), None).await.unwrap_err();
    assert!(matches!(error, StoreError::NotApplied { .. }), "{error:?}");

    let folder = tempfile::tempdir().unwrap();
    let data = DataDir::open(folder.path(), StoreKind::Sled, "run").unwrap();
    data.store().await.unwrap();
    let error = DataDir::open_read_only(folder.path(), "jobs list").unwrap_err();
    assert!(matches!(error, DataDirError::SledInUse { .. }), "{error:?}");
    let message = error.to_string();
    assert!(message.contains("sled, can be open in one process only; wait until it has ended"), "{message}");
    assert!(message.contains("tunesmith run --console"), "{message}");
    drop(data);
    let data = DataDir::open(folder.path(), StoreKind::Sled, "tunesmith serve --listen 127.0.0.1:8080").unwrap();
    let message = DataDir::open_read_only(folder.path(), "jobs list").unwrap_err().to_string();
    assert!(message.contains("use --server http://127.0.0.1:8080 in place of --data-dir"), "{message}");
    drop(data);
    DataDir::open_read_only(folder.path(), "jobs list").unwrap().store().await.unwrap();
}

#[test]
fn read_only_opening_does_not_create_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let absent = folder.path().join("absent");
    for path in [folder.path(), &absent] {
        let error = DataDir::open_read_only(path, "jobs list").unwrap_err();
        assert!(matches!(error, DataDirError::NoStore { .. }), "{error:?}");
    }
    assert!(!absent.exists());
}

#[test]
fn unknown_marker_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("STORE"), "tunesmith data folder 2, store other\n").unwrap();
    let error = DataDir::open(folder.path(), StoreKind::Sqlite, "run").unwrap_err();
    assert!(error.to_string().contains("\"tunesmith data folder 2, store other\""), "{error}");
}

#[test]
fn paths_are_below_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let data = DataDir::open(folder.path(), StoreKind::Sqlite, "run").unwrap();
    let root = folder.path().canonicalize().unwrap();
    let job = "census_1".parse().unwrap();
    assert_eq!(data.job(&job), root.join("jobs/census_1"));
    assert_eq!(data.environments(), root.join("environments"));
    assert_eq!("sled".parse(), Ok(StoreKind::Sled));
    assert_eq!("redb".parse::<StoreKind>().unwrap_err().kind, "redb");
}
