//! Study summaries (statistics, optimal trials and the course of the best result), updated incrementally and persisted,
//! so that restarts need not reread all trials.

mod record;

use std::sync::Arc;

use futures::TryStreamExt;
use jiff::Timestamp;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::JoinHandle;
use tunesmith_algorithms::problem::TrialId;

use super::figures::{CountedTrials, EndedFigures};
use super::optimal::{Front, values};
use super::trend::Trend;
use crate::study_cache::StudyCache;
use tunesmith_domain::{Study, StudyId, Trial, TrialState, compare_values};
use tunesmith_store::{FEW, Store, StoreError, SummaryKind, pages};

/// Product of new trials and front size above which the front is computed on a blocking thread (a guess: 1 ms).
const LONG: usize = 100_000;

/// Unread changes after which [`Summaries::follow`] updates a summary.
const FOLLOWED: u64 = 500;

/// Minimum number of changes between stores of a summary; also bounded by a share of all changes, so that long studies
/// are not rewritten constantly. The next process reads the rest in at most some tenths of a second.
const STORED: u64 = 5_000;
const STORED_SHARE: u64 = 32;

/// Maximum size of a stored summary in bytes. Fronts of several metrics are unbounded.
const MAX_BYTES: usize = 4 << 20;

/// One summary per requested or changing study.
#[derive(Default)]
pub(super) struct Summaries(pub(super) StudyCache<Mutex<Summary>>);

/// Summary of a study's trials, up to a revision.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Summary {
    /// Distinguishes studies of the same name.
    create_time: Timestamp,
    revision: u64,
    /// Revision of the stored summary; `None` if not looked up.
    stored: Option<u64>,
    trials: CountedTrials,
    front: Front,
    /// Front of trials stopped early, used only if no trial ran to completion.
    front_of_stopped: Front,
    trend: Trend,
    /// Trend of trials stopped early, used only if no trial ran to completion.
    trend_of_stopped: Trend,
}

impl Summaries {
    /// Statistics of the ended trials of `study`.
    pub(super) async fn figures(&self, store: &Arc<dyn Store>, study: &Study) -> Result<EndedFigures, StoreError> {
        Ok(self.of(store, study).await?.trials.ended.clone())
    }

    /// Feasible trials not dominated by other feasible ones, best first by the first metric; with one metric, the first
    /// trial with the best value.
    pub(super) async fn optimal(&self, store: &Arc<dyn Store>, study: &Study) -> Result<Vec<TrialId>, StoreError> {
        let known = self.of(store, study).await?;
        let front = if known.front.0.is_empty() { &known.front_of_stopped } else { &known.front };
        let mut trials: Vec<(&TrialId, &Vec<f64>)> = front.0.iter().collect();
        trials.sort_by(|(first, a), (second, b)| compare_values(a, b).then(first.cmp(second)));
        Ok(trials.into_iter().map(|(id, _)| *id).collect())
    }

    /// Best results of the first metric up to each range of trial numbers.
    pub(super) async fn best_so_far(&self, store: &Arc<dyn Store>, study: &Study) -> Result<Vec<f64>, StoreError> {
        let known = self.of(store, study).await?;
        let trend = if known.trend.bins.is_empty() { &known.trend_of_stopped } else { &known.trend };
        let Some(metric) = study.problem.metrics().first() else { return Ok(Vec::new()) };
        // Maximising twice restores the sign.
        Ok(trend.best_so_far().into_iter().map(|value| metric.goal.to_maximized(value)).collect())
    }

    async fn of(&self, store: &Arc<dyn Store>, study: &Study) -> Result<OwnedMutexGuard<Summary>, StoreError> {
        let known = self.0.get_or_insert(&study.id, 0, || Mutex::new(Summary::new(study)));
        refresh(known.lock_owned().await, store, study).await
    }

    /// Updates the summary in the background if [`FOLLOWED`] or more changes are missing, to speed up the first request
    /// for it. `revision` is that of the latest change. Failures are ignored: the next request rereads the changes.
    pub(super) fn follow(&self, store: &Arc<dyn Store>, study: &Study, revision: u64) -> Option<JoinHandle<()>> {
        let known = self.0.get_or_insert(&study.id, 0, || Mutex::new(Summary::new(study)));
        // The lock's holder updates it.
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

    pub(super) fn forget(&self, study: &StudyId) {
        self.0.remove(study);
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
            trend: Trend::default(),
            trend_of_stopped: Trend::default(),
        }
    }

    /// Whether trial `id` is on a front.
    fn is_optimal(&self, id: TrialId) -> bool {
        [&self.front, &self.front_of_stopped].iter().any(|front| front.0.contains_key(&id))
    }

    /// Stored summary of `study`; empty if there is no readable one.
    async fn load(store: &dyn Store, study: &Study) -> Result<Self, StoreError> {
        let body = match store.summary(&study.id, SummaryKind::Figures).await {
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

/// Reads the changes since the last call, or all trials, and stores the summary after many changes.
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
                // Trials changed after the study was read are among the changes.
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
                if let Err(error) = store.put_summary(&study, SummaryKind::Figures, body).await {
                    let error = &error as &dyn std::error::Error;
                    tracing::debug!(study.name = %study, error, "the summary cannot be stored");
                }
            });
        }
    }
    Ok(known)
}

/// Adds changed trials, and advances to `revision` if given. Returns false if all trials must be reread because a
/// counted one was deleted or retried and others take its place.
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
    // Precedes the front, which a blocking thread completes even if this future is dropped.
    known.revision = revision.unwrap_or(known.revision);
    let results = |stopped_early| {
        let of_kind = trials.iter().filter(move |trial| trial.stopped_early == stopped_early);
        of_kind.filter_map(|trial| Some((trial.id, values(study, trial)?))).collect::<Vec<_>>()
    };
    let (new, stopped) = (results(false), results(true));
    new.iter().for_each(|(id, values)| known.trend.add(*id, values[0]));
    stopped.iter().for_each(|(id, values)| known.trend_of_stopped.add(*id, values[0]));
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
