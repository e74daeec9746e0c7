//! The durable stores through their public interface.

mod backups;
mod child;
mod contract;
mod damage;
mod data_dirs;
mod durability;
mod faults;
mod formats;
mod postgres;
mod postgres_claims;
mod postgres_statements;
mod power_cuts;
mod several;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use tunesmith_contract::samples;
use tunesmith_domain::{StudyId, TrialId};
use tunesmith_store::{OpenMode, SledStore, SqliteStore, Store, StoreError};

/// The durable stores.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Sqlite,
    Sled,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Sled => "sled",
        }
    }

    fn open(self, path: &Path, mode: OpenMode) -> Result<Arc<dyn Store>, StoreError> {
        Ok(match self {
            Self::Sqlite => Arc::new(SqliteStore::open(path, mode)?),
            Self::Sled => Arc::new(SledStore::open(path, mode)?),
        })
    }
}

fn study_id() -> StudyId {
    "study".parse().unwrap()
}

/// Adds a job, a study, and trials with measurements and results to `store`.
async fn fill(store: &dyn Store, trials: u64) {
    store.create_job(samples::job("study"), Some(samples::study("study"))).await.unwrap();
    for id in 1..=trials {
        store.create_trial(&study_id(), samples::new_trial(id)).await.unwrap();
        store.change_trial(&study_id(), TrialId(id), samples::begin(1)).await.unwrap();
        let reports = (0..5).map(|step| samples::measurement(step, f64::NAN)).collect();
        store.change_trial(&study_id(), TrialId(id), samples::report(1, reports)).await.unwrap();
        if id % 2 == 0 {
            store.change_trial(&study_id(), TrialId(id), samples::succeed(1, id as f64)).await.unwrap();
        }
    }
}

/// The content of a store as text.
async fn dump(store: &dyn Store) -> Result<String, StoreError> {
    let mut text = format!("{:#?}\n", store.jobs(None, usize::MAX).await?);
    let study = store.study(&study_id()).await?;
    text += &format!("{study:#?}\n{:#?}\n", store.trials_changed_since(&study.id, 0, usize::MAX).await?);
    for trial in store.trials(&study.id, None, usize::MAX).await? {
        let curve = store.measurements(&study.id, trial.id, 0, usize::MAX).await?;
        text += &format!("{trial:#?}\n{curve:#?}\n");
    }
    Ok(text)
}

/// Restores the zeros at the end of sled's file in the folder `store`, which test data do not contain.
fn restore_padding(store: &Path) {
    const SEGMENT_BYTES: u64 = 512 * 1024;
    let log = File::options().write(true).open(store.join("db")).unwrap();
    log.set_len(log.metadata().unwrap().len().next_multiple_of(SEGMENT_BYTES)).unwrap();
}

/// Copies a file, or a folder of files.
fn copy(from: &Path, to: &Path) {
    if from.is_file() {
        std::fs::copy(from, to).unwrap();
        return;
    }
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        copy(&entry.path(), &to.join(entry.file_name()));
    }
}
