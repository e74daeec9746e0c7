//! The only path of measurements into the store: from files of programs, their requests, agents, and clients of studies.
//!
//! Not here: permission to report, and the readers of files, which apply the rule of [`KnownReports`] themselves.

use std::borrow::Cow;

use jiff::Timestamp;
use tunesmith_domain::{KnownReports, Measurement, RequestKey, StudyId, Trial, TrialChange, TrialId};
use tunesmith_store::{Store, StoreError};

/// Measurements of one attempt at a trial.
pub struct Report<'a> {
    pub attempt: u64,
    pub at: Timestamp,
    pub measurements: &'a [Measurement],
    pub deduplication: Deduplication<'a>,
}

/// Recognition of stored measurements, given the trial as read.
pub enum Deduplication<'a> {
    /// None: a reader of files has removed them, and requests of programs are always new.
    None,
    /// A client's request has a known key, or repeats the latest measurements, each with a step or a time.
    Request { trial: &'a Trial, key: Option<&'a RequestKey> },
    /// An agent numbers its measurements, here from `first` on. It reads reports of `earlier` attempts again.
    Delivery { trial: &'a Trial, first: u64, earlier: &'a KnownReports },
}

/// Stores the new measurements of `report`, calls `stored` with them and the trial's number of measurements, and returns
/// the trial. A repeated request at most renews the lease.
///
/// # Errors
/// [`StoreError::NotFound`]; [`StoreError::Refused`] for an ended trial or attempt, or after a concurrent delivery.
pub async fn report(
    store: &dyn Store,
    study: &StudyId,
    id: TrialId,
    report: Report<'_>,
    stored: impl FnOnce(&[Measurement], u64) + Send,
) -> Result<Trial, StoreError> {
    let Report { attempt, at, measurements, deduplication } = report;
    let report = |request_key| {
        let change = TrialChange::Report { attempt, measurements: measurements.to_vec(), at, request_key };
        (Cow::from(measurements), change)
    };
    let (new, change) = match deduplication {
        Deduplication::None => report(None),
        Deduplication::Request { trial, key } => {
            if key.map_or(Ok(false), |key| trial.has_recorded(key))? {
                return Ok(trial.clone());
            }
            if repeats_latest(store, study, trial, measurements).await? {
                return store.change_trial(study, id, TrialChange::Renew { attempt, at }).await;
            }
            report(key.cloned())
        }
        Deduplication::Delivery { trial, first, earlier } => {
            let skipped = trial.delivered.checked_sub(first).and_then(|skipped| usize::try_from(skipped).ok());
            let following = skipped.and_then(|skipped| measurements.get(skipped..)).unwrap_or_default();
            if following.is_empty() {
                return Ok(trial.clone());
            }
            let new: Vec<_> = following.iter().filter(|one| !earlier.contains(one)).cloned().collect();
            let (from, to) = (trial.delivered, trial.delivered + following.len() as u64);
            (Cow::from(new.clone()), TrialChange::Deliver { attempt, from, to, measurements: new, at })
        }
    };
    let trial = store.change_trial(study, id, change).await?;
    stored(&new, trial.measurement_count);
    Ok(trial)
}

/// Whether `measurements` repeat the latest ones of `trial`.
async fn repeats_latest(
    store: &dyn Store,
    study: &StudyId,
    trial: &Trial,
    measurements: &[Measurement],
) -> Result<bool, StoreError> {
    let have_places = measurements.iter().all(|one| one.step > 0 || one.elapsed_secs.is_some());
    let from = trial.measurement_count.checked_sub(measurements.len() as u64);
    let Some(from) = from.filter(|_| have_places && !trial.state.is_final()) else { return Ok(false) };
    let latest = store.measurements(study, trial.id, from, measurements.len()).await?;
    let content = |one: &Measurement| (one.step, one.elapsed_secs, one.metrics.clone());
    Ok(latest.iter().map(content).eq(measurements.iter().map(content)))
}
