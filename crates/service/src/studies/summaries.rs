//! The summary of each study, its figures and its optimal trials: kept up to date by reading only changes, and stored, so that
//! the next process does not read all trials either.

mod record;

use std::sync::Arc;

use futures::TryStreamExt;
use jiff::Timestamp;
use tokio::sync::OwnedMutexGuard;
use tokio::task::JoinHandle;
use tunesmith_algorithms::problem::TrialId;

use super::figures::{CountedTrials, EndedFigures};
use super::optimal::{Front, values};
use crate::pages;
use crate::study_cache::StudyCache;
use tunesmith_domain::{Study, StudyId, Trial, TrialState, compare_values};
use tunesmith_store::{FEW, Store, StoreError};

/// Product of new trials and trials of the front above which the front is computed on a blocking thread (a guess: 1 ms).
const LONG: usize = 100_000;

/// Number of changes of a study after which [`Summaries::follow`] brings its summary up to date.
const FOLLOWED: u64 = 500;

/// A summary is stored after this number of changes, and after a share of all changes of the study, so that a long study is
/// not written again and again. The next process reads the rest: at most some tenths of a second.
const STORED: u64 = 5_000;
const STORED_SHARE: u64 = 32;

/// Maximum size of a stored summary in bytes. The front of several metrics may have any number of trials.
const MAX_BYTES: usize = 4 << 20;

/// One summary for each study that was asked for, or that changes.
#[derive(Default)]
pub(super) struct Summaries(StudyCache<Summary>);

/// Summary of the trials of a study, up to a revision of the study.
#[derive(Debug, Clone, PartialEq)]
struct Summary {
    /// Distinguishes studies of the same name.
    create_time: Timestamp,
    revision: u64,
    /// The revision of the stored summary; `None` if that was not looked for.
    stored: Option<u64>,
    trials: CountedTrials,
    front: Front,
    /// The front of the trials that were stopped early, which count only if no trial ran to its end.
    front_of_stopped: Front,
}

impl Summaries {
    /// The figures of the ended trials of `study`.
    pub(super) async fn figures(&self, store: &Arc<dyn Store>, study: &Study) -> Result<EndedFigures, StoreError> {
        Ok(self.of(store, study).await?.trials.ended.clone())
    }

    /// The numbers of the trials of `study` that satisfy all constraints and that no other such trial dominates, best first by
    /// the first metric; with one metric, of the first one with the best value.
    pub(super) async fn optimal(&self, store: &Arc<dyn Store>, study: &Study) -> Result<Vec<TrialId>, StoreError> {
        let known = self.of(store, study).await?;
        let front = if known.front.0.is_empty() { &known.front_of_stopped } else { &known.front };
        let mut trials: Vec<(&TrialId, &Vec<f64>)> = front.0.iter().collect();
        trials.sort_by(|(first, a), (second, b)| compare_values(a, b).then(first.cmp(second)));
        Ok(trials.into_iter().map(|(id, _)| *id).collect())
    }

    async fn of(&self, store: &Arc<dyn Store>, study: &Study) -> Result<OwnedMutexGuard<Summary>, StoreError> {
        let known = self.0.get_or_insert(&study.id, || Summary::new(study));
        refresh(known.lock_owned().await, store, study).await
    }

    /// Brings the summary of `study` up to date in the background if at least [`FOLLOWED`] changes are missing from it, so
    /// that the first request for it does not read all trials. `revision` is that of the latest change. A failure has no
    /// effect: the next request reads the same again.
    pub(super) fn follow(&self, store: &Arc<dyn Store>, study: &Study, revision: u64) -> Option<JoinHandle<()>> {
        let known = self.0.get_or_insert(&study.id, || Summary::new(study));
        // The holder of the lock brings it up to date.
        let known = known.try_lock_owned().ok()?;
        let (store, study) = (Arc::clone(store), study.clone());
        let is_behind = known.create_time != study.create_time || revision >= known.revision + FOLLOWED;
        is_behind.then(|| {
            tokio::spawn(async move {
                if let Err(error) = refresh(known, &store, &study).await {
                    let error = &error as &dyn std::error::Error;
                    tracing::debug!(study.name = %study.id, error, "the summary cannot be brought up to date");
                }
            })
        })
    }

    /// Drops the summary of `study`.
    pub(super) fn forget(&self, study: &StudyId) {
        self.0.forget(study);
    }

    /// Drops the summaries that were not used during the last `calls` calls of this function, and returns their number.
    pub(super) fn drop_idle(&self, calls: u32) -> usize {
        self.0.drop_idle(calls)
    }

    /// Drops the summaries that were not used since the last [`Self::drop_idle`], and returns their number.
    pub(super) fn drop_unused(&self) -> usize {
        self.0.drop_unused()
    }
}

impl Summary {
    fn new(study: &Study) -> Self {
        Self {
            create_time: study.create_time,
            revision: 0,
            stored: None,
            trials: CountedTrials::default(),
            front: Front::default(),
            front_of_stopped: Front::default(),
        }
    }

    /// Whether the trial `id` is on a front.
    fn is_optimal(&self, id: TrialId) -> bool {
        [&self.front, &self.front_of_stopped].iter().any(|front| front.0.contains_key(&id))
    }

    /// The stored summary of `study`; an empty one if there is none that can be read.
    async fn load(store: &dyn Store, study: &Study) -> Result<Self, StoreError> {
        let body = match store.summary(&study.id).await {
            Ok(body) => body,
            Err(error @ StoreError::NotFound { .. }) => return Err(error),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(study.name = %study.id, error, "the stored summary is not used; all trials are read");
                None
            }
        };
        let known = body
            .and_then(|body| record::decode(&body))
            .filter(|known| known.create_time == study.create_time && known.revision <= study.revision);
        Ok(known.unwrap_or_else(|| Self { stored: Some(0), ..Self::new(study) }))
    }
}

/// Reads the changes since the last call, or all trials, and stores the summary if it has changed much.
async fn refresh(
    mut known: OwnedMutexGuard<Summary>,
    store: &Arc<dyn Store>,
    study: &Study,
) -> Result<OwnedMutexGuard<Summary>, StoreError> {
    if known.create_time != study.create_time || known.stored.is_none() {
        *known = Summary::load(&**store, study).await?;
    }
    'all: loop {
        if known.revision == 0 {
            *known = Summary { stored: known.stored, ..Summary::new(study) };
            let mut pages = std::pin::pin!(pages::trials_by_page(&**store, study));
            while let Some(mut trials) = pages.try_next().await? {
                // Trials that have changed since the study was read are among the changes.
                trials.retain(|trial| trial.revision <= study.revision);
                (known, _) = add(known, study, &trials, None).await?;
                tokio::task::yield_now().await;
            }
            known.revision = study.revision;
        }
        let mut changed = std::pin::pin!(pages::changed_pages(&**store, &study.id, known.revision));
        while let Some(trials) = changed.try_next().await? {
            let is_new;
            let last = trials.last().map(|last| last.revision);
            (known, is_new) = add(known, study, &trials, last).await?;
            if !is_new {
                known.revision = 0;
                continue 'all;
            }
        }
        break;
    }
    let stored = known.stored.unwrap_or(0);
    if known.revision >= stored + STORED.max(known.revision / STORED_SHARE) {
        known.stored = Some(known.revision);
        let body = record::encode(&known);
        if body.len() <= MAX_BYTES {
            let (store, study) = (Arc::clone(store), study.id.clone());
            tokio::spawn(async move {
                if let Err(error) = store.put_summary(&study, body).await {
                    let error = &error as &dyn std::error::Error;
                    tracing::debug!(study.name = %study, error, "the summary cannot be stored");
                }
            });
        }
    }
    Ok(known)
}

/// Adds changed trials, after which the summary is that of `revision`, if it is given. Returns false if all trials have to be
/// read again: a counted one was deleted, or is run again, and others take its place.
async fn add(
    mut known: OwnedMutexGuard<Summary>,
    study: &Study,
    trials: &[Trial],
    revision: Option<u64>,
) -> Result<(OwnedMutexGuard<Summary>, bool), StoreError> {
    let metric = study.problem.metrics().first().map_or("", |metric| metric.name.as_str());
    for trial in trials {
        let is_known = match trial.state {
            TrialState::Deleted => !known.is_optimal(trial.id) && known.trials.remove(trial, metric),
            _ => known.trials.add(trial, metric),
        };
        if !is_known {
            return Ok((known, false));
        }
    }
    // Before the front, which a blocking thread completes even if this future is dropped.
    known.revision = revision.unwrap_or(known.revision);
    let results = |stopped_early| {
        let of_kind = trials.iter().filter(move |trial| trial.stopped_early == stopped_early);
        of_kind.filter_map(|trial| Some((trial.id, values(study, trial)?))).collect::<Vec<_>>()
    };
    let (new, stopped) = (results(false), results(true));
    let is_single = study.problem.metrics().len() == 1;
    let largest = known.front.0.len().max(known.front_of_stopped.0.len()).max(FEW);
    let extend = move |known: &mut Summary| {
        known.front.extend(new, is_single);
        known.front_of_stopped.extend(stopped, is_single);
    };
    if is_single || trials.len() * largest <= LONG {
        extend(&mut known);
        return Ok((known, true));
    }
    let extended = tokio::task::spawn_blocking(move || {
        extend(&mut known);
        known
    });
    let known = extended
        .await
        .map_err(|source| StoreError::NotApplied { operation: "compute the optimal trials", source: source.into() })?;
    Ok((known, true))
}

#[cfg(test)]
mod tests;
