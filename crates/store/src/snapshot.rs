//! Snapshot of one study as JSON, made of the records that engines store, and restored into a [`MemoryStore`].

use std::path::Path;

use futures::TryStreamExt;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::record::{
    Progress, RecordError, decode_chunk, decode_study, decode_trial, encode_chunks, encode_study, encode_trial,
};
use super::{MemoryStore, Store, StoreError, pages};
use tunesmith_domain::{StudyId, TrialId};

/// Version of the envelope; records have versions of their own.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Snapshot {
    version: u32,
    /// Record of the study, and below of its trials: text, because its version is recognised by the first bytes.
    study: String,
    next_trial_id: u64,
    revision: u64,
    trials: Vec<TrialSnapshot>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrialSnapshot {
    trial: String,
    /// Chunks of the curve, in hexadecimal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    curve: Vec<String>,
}

/// Snapshot of a study with its trials and curves. Trials that change meanwhile may be read before or after the change.
///
/// # Errors
/// [`StoreError::NotFound`].
pub async fn snapshot(store: &dyn Store, study: &StudyId) -> Result<Value, StoreError> {
    let study = store.study(study).await?;
    let (record, Progress { next_trial_id, revision }) = encode_study(&study);
    let mut trials = Vec::new();
    let mut read = std::pin::pin!(pages::trials(store, &study.id));
    while let Some(trial) = read.try_next().await? {
        let curve = pages::curve(store, &study.id, &trial).await?;
        let curve = encode_chunks(0, &curve).into_iter().map(|(_, chunk)| hex::encode(chunk)).collect();
        trials.push(TrialSnapshot { trial: text(encode_trial(&trial))?, curve });
    }
    let snapshot =
        Snapshot { version: VERSION, study: text(record)?, next_trial_id: next_trial_id.0, revision, trials };
    serde_json::to_value(snapshot).map_err(|error| damaged(error.to_string()))
}

impl MemoryStore {
    /// Adds the study of a [`snapshot`] and returns its ID. An existing study of this ID is replaced.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if `snapshot` is malformed, [`StoreError::TooNew`] if a later version wrote it; nothing
    /// is added.
    pub fn restore(&self, snapshot: Value) -> Result<StudyId, StoreError> {
        let version = snapshot.get("version").and_then(Value::as_u64);
        if let Some(found) = version.filter(|found| *found > u64::from(VERSION)) {
            let found = u32::try_from(found).unwrap_or(u32::MAX);
            return Err(RecordError::TooNew { found, known: VERSION }.of(Path::new(NAME), "the study"));
        }
        let snapshot: Snapshot = serde_json::from_value(snapshot).map_err(|error| damaged(error.to_string()))?;
        let progress = Progress { next_trial_id: TrialId(snapshot.next_trial_id), revision: snapshot.revision };
        let of = |resource: &'static str| move |error: RecordError| error.of(Path::new(NAME), resource);
        let study = decode_study(snapshot.study.as_bytes(), progress).map_err(of("the study"))?;
        let mut trials = Vec::with_capacity(snapshot.trials.len());
        for TrialSnapshot { trial, curve } in snapshot.trials {
            let trial = decode_trial(trial.as_bytes()).map_err(of("a trial"))?;
            let mut measurements = Vec::new();
            for chunk in curve {
                let bytes = hex::decode(chunk).map_err(|error| damaged(error.to_string()))?;
                measurements.extend(decode_chunk(&bytes).map_err(of("a curve"))?);
            }
            if measurements.len() as u64 != trial.measurement_count {
                let (found, wanted) = (measurements.len(), trial.measurement_count);
                return Err(damaged(format!("trial {} has {found} measurements, not {wanted}", trial.id)));
            }
            trials.push((trial, measurements));
        }
        self.change(|records| {
            records.put_remains(&study.id, None)?;
            records.put_study(&study)?;
            for (trial, measurements) in &trials {
                records.put_trial(&study.id, trial, None)?;
                records.add_measurements(&study.id, trial.id, 0, measurements)?;
            }
            Ok(study.id.clone())
        })
    }
}

/// Name of the source in errors.
const NAME: &str = "the snapshot";

fn text(record: Vec<u8>) -> Result<String, StoreError> {
    String::from_utf8(record).map_err(|error| damaged(error.to_string()))
}

fn damaged(detail: String) -> StoreError {
    StoreError::Damaged { path: NAME.into(), detail }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use tunesmith_contract::samples;

    use super::*;

    #[test]
    fn malformed_and_newer_snapshots_are_refused() {
        let store = MemoryStore::new();
        let error = store.restore(json!({"version": 2})).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the snapshot has format version 2, this program reads up to 1; use the program that wrote it"
        );
        assert!(matches!(store.restore(json!([])), Err(StoreError::Damaged { .. })));
    }

    #[tokio::test]
    async fn restored_study_equals_the_original() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let study = store.create_study(samples::study("s")).await.map(|()| samples::study("s")).unwrap();
        for number in 1..=3 {
            store.create_trial(&study.id, samples::new_trial(number)).await.unwrap();
        }
        let first = TrialId(1);
        store.change_trial(&study.id, first, samples::begin(1)).await.unwrap();
        let curve = vec![samples::measurement(1, 0.5), samples::measurement(2, f64::NAN)];
        store.change_trial(&study.id, first, samples::report(1, curve)).await.unwrap();
        store.change_trial(&study.id, first, samples::succeed(1, 0.25)).await.unwrap();
        let taken = snapshot(&*store, &study.id).await.unwrap();
        let restored = MemoryStore::new();
        assert_eq!(restored.restore(taken.clone()).unwrap(), study.id);
        let restored: Arc<dyn Store> = Arc::new(restored);
        assert_eq!(restored.study(&study.id).await.unwrap(), store.study(&study.id).await.unwrap());
        assert_eq!(restored.trial(&study.id, first).await.unwrap(), store.trial(&study.id, first).await.unwrap());
        assert_eq!(snapshot(&*restored, &study.id).await.unwrap(), taken);
    }
}
