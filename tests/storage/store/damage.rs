//! Damaged stores are refused, never read with other content.
#![expect(clippy::print_stdout, reason = "the campaign prints its figures")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tunesmith_store::{OpenMode, StoreError};

use super::{Kind, copy, dump, fill};

/// A closed store and its content.
struct Intact {
    folder: TempDir,
    kind: Kind,
    content: String,
}

impl Intact {
    async fn new(kind: Kind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        fill(&*kind.open(&path, OpenMode::Create).unwrap(), 20).await;
        let content = dump(&*kind.open(&path, OpenMode::Existing).unwrap()).await.unwrap();
        Self { folder, kind, content }
    }

    /// The data file of the store at `store`.
    fn data_file(&self, store: &Path) -> PathBuf {
        match self.kind {
            Kind::Sqlite => store.to_owned(),
            Kind::Sled => store.join("db"),
        }
    }

    /// The content of a damaged copy, or the error of opening or reading it.
    async fn damaged(&self, damage: impl FnOnce(&Path)) -> Result<String, StoreError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        copy(&self.folder.path().join("store"), &path);
        damage(&self.data_file(&path));
        let store = self.kind.open(&path, OpenMode::Existing)?;
        dump(&*store).await
    }
}

#[track_caller]
fn assert_damaged(result: Result<String, StoreError>, what: &str) {
    match result {
        Err(StoreError::Damaged { path, detail }) => {
            assert!(path.is_absolute() && !detail.is_empty(), "{what}: {path:?} {detail}");
        }
        Ok(_) => panic!("{what}: the damage was not detected"),
        Err(error) => panic!("{what}: expected damage to be detected, got {error:?}"),
    }
}

fn overwrite(path: &Path, offset: usize, bytes: &[u8]) {
    let mut content = fs::read(path).unwrap();
    content[offset..offset + bytes.len()].copy_from_slice(bytes);
    fs::write(path, content).unwrap();
}

/// `TUNESMITH_DAMAGE_FACTOR` multiplies the number of damaged stores.
async fn flipped_bytes_are_detected(kind: Kind, places: usize) {
    let factor = std::env::var("TUNESMITH_DAMAGE_FACTOR").map_or(1, |factor| factor.parse().unwrap());
    let places = places * factor;
    let intact = Intact::new(kind).await;
    let content = fs::read(intact.data_file(&intact.folder.path().join("store"))).unwrap();
    let used = content.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let mut found = 0;
    for place in 0..places {
        let offset = place * used / places;
        let flipped = [content[offset] ^ 0x55];
        match intact.damaged(|file| overwrite(file, offset, &flipped)).await {
            // Some bytes have no effect, such as free space.
            Ok(read) => assert!(read == intact.content, "byte {offset} changed what is read"),
            Err(StoreError::Damaged { .. } | StoreError::TooNew { .. }) => found += 1,
            Err(error) => panic!("byte {offset}: {error:?}"),
        }
    }
    assert!(found > places / 10, "only {found} of {places} flipped bytes were refused");
    println!("figures: {}: {places} flipped bytes, {found} refused, the others without effect", kind.name());
}

#[tokio::test]
async fn sqlite_detects_flipped_bytes() {
    flipped_bytes_are_detected(Kind::Sqlite, 400).await;
}

#[tokio::test]
async fn sled_detects_flipped_bytes() {
    flipped_bytes_are_detected(Kind::Sled, 60).await;
}

#[tokio::test]
async fn truncated_files_are_detected() {
    for kind in [Kind::Sqlite, Kind::Sled] {
        let intact = Intact::new(kind).await;
        let content = fs::read(intact.data_file(&intact.folder.path().join("store"))).unwrap();
        let used = content.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        for length in [0, 1, 100, used / 4, used / 2, used - 1] {
            let cut = |file: &Path| File::options().write(true).open(file).unwrap().set_len(length as u64).unwrap();
            let result = intact.damaged(cut).await;
            // The last entry of sled's log may be internal; without it the content is complete.
            if length == used - 1 && result.as_ref().is_ok_and(|read| *read == intact.content) {
                continue;
            }
            assert_damaged(result, &format!("{} cut to {length} bytes", kind.name()));
        }
    }
}

#[tokio::test]
async fn a_missing_or_damaged_log_of_a_killed_sqlite_writer_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Kind::Sqlite.open(&path, OpenMode::Create).unwrap();
    fill(&*store, 20).await;
    let content = dump(&*store).await.unwrap();
    // A copy of the files of an open store equals the files that a killed process leaves.
    let reopened = async |damage: fn(&Path)| {
        let folder = tempfile::tempdir().unwrap();
        copy(&path.with_file_name(""), folder.path());
        damage(&folder.path().join("store-wal"));
        dump(&*Kind::Sqlite.open(&folder.path().join("store"), OpenMode::Existing)?).await
    };
    assert!(reopened(|_| {}).await.unwrap() == content, "an undamaged log is recovered");
    assert_damaged(reopened(|log| fs::remove_file(log).unwrap()).await, "a removed log");
    let flip = |log: &Path| overwrite(log, log.metadata().unwrap().len() as usize / 2, &[0xab; 16]);
    assert_damaged(reopened(flip).await, "a damaged log");
}

#[tokio::test]
async fn garbage_in_the_header_is_detected() {
    for kind in [Kind::Sqlite, Kind::Sled] {
        let intact = Intact::new(kind).await;
        let result = intact.damaged(|file| overwrite(file, 0, &[0xab; 64])).await;
        assert_damaged(result, kind.name());
    }
}

#[tokio::test]
async fn a_file_that_is_not_a_store_is_refused_and_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    fs::write(&path, "a shopping list, and long enough to be no mistake\n".repeat(100)).unwrap();
    for mode in [OpenMode::Create, OpenMode::Existing] {
        let error = Kind::Sqlite.open(&path, mode).err().unwrap();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
    }
    assert!(fs::read_to_string(&path).unwrap().starts_with("a shopping list"), "the file is unchanged");
}

#[tokio::test]
async fn an_sqlite_store_that_is_damaged_while_open_returns_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    fill(&*Kind::Sqlite.open(&path, OpenMode::Create).unwrap(), 200).await;
    let store = Kind::Sqlite.open(&path, OpenMode::Existing).unwrap();
    let size = path.metadata().unwrap().len() as usize;
    overwrite(&path, 4096, &vec![0xab; size - 4096]);
    let error = dump(&*store).await.unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
    let write = store.create_trial(&super::study_id(), tunesmith_contract::samples::new_trial(201)).await;
    let fault = write.unwrap_err().fault().map(ToString::to_string).unwrap_or_default();
    assert!(fault.contains("was changed by another program"), "{fault}");
}
