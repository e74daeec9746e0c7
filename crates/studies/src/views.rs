//! Columns and models of studies for plots and tables, updated incrementally.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::TryStreamExt;
use tokio::sync::{Mutex, OwnedRwLockReadGuard, RwLock, Semaphore};
use tunesmith_algorithms::designer::History;
use tunesmith_algorithms::insight::{InsightError, MetricInsight, explain};
use tunesmith_algorithms::problem::{CompletedTrial, TrialId};

use super::{Studies, StudiesError};
use crate::study_cache::StudyCache;
use tunesmith_domain::{Measurement, Study, StudyId};
use tunesmith_store::{Store, StoreError, SummaryKind, pages};
use tunesmith_views::{Columns, running_times};

/// Limit on the estimated memory of all columns in bytes: a million trials of some parameters. A server's memory budget
/// evicts columns earlier.
const MEMORY: usize = 256 << 20;

/// Minimum number of changes between stores of columns, and share of all changes: the next process reads the rest, and a
/// study that grows is not written constantly.
const STORED: u64 = 5_000;
const STORED_SHARE: u64 = 8;

/// Maximum size of stored columns in bytes: some 300,000 trials. Other changes wait while they are written.
const MAX_STORED_BYTES: usize = 32 << 20;

/// Number of cached models per study.
const MODELS: usize = 4;

/// Limit on concurrent model fits: each occupies a processor for seconds.
static FITTERS: Semaphore = Semaphore::const_new(1);

/// Columns of a study, immutable while held.
pub type ViewedColumns = OwnedRwLockReadGuard<Columns>;

/// Models by input, newest first.
pub(super) type Models = VecDeque<(ModelKey, Result<Arc<MetricInsight>, InsightError>)>;

/// Model input: study revision, metric, and the trials by filter and number.
type ModelKey = (u64, String, (String, usize));

/// Cached columns and models of viewed studies.
pub(super) struct StudyViews {
    pub(super) columns: StudyCache<RwLock<Columns>>,
    pub(super) models: StudyCache<Mutex<Models>>,
}

impl Default for StudyViews {
    fn default() -> Self {
        Self { columns: StudyCache::new(MEMORY), models: StudyCache::default() }
    }
}

impl StudyViews {
    pub(super) fn forget(&self, study: &StudyId) {
        self.columns.remove(study);
        self.models.remove(study);
    }

    /// Columns of `study`, at least up to its revision.
    async fn columns(&self, store: &Arc<dyn Store>, study: &Study) -> Result<ViewedColumns, StoreError> {
        let shared = self.columns.get_or_insert(&study.id, 0, || RwLock::new(Columns::new(study)));
        let held = Arc::clone(&shared).read_owned().await;
        if held.is_of(study) && held.revision() >= study.revision {
            return Ok(held);
        }
        drop(held);
        let mut columns = Arc::clone(&shared).write_owned().await;
        if !columns.is_of(study) || columns.revision() == 0 {
            *columns = match stored(&**store, study).await? {
                Some(columns) => columns,
                None => load(&**store, study).await?,
            };
        }
        if columns.revision() < study.revision {
            refresh(&mut columns, &**store, study).await?;
        }
        let bytes = columns.bytes();
        drop(self.columns.set_size(&study.id, bytes));
        let due = columns.stored_revision() + STORED.max(columns.revision() / STORED_SHARE);
        if columns.len() as u64 >= STORED && columns.revision() >= due && bytes <= MAX_STORED_BYTES {
            columns.mark_stored();
            tokio::spawn(keep(Arc::clone(store), study.id.clone(), shared));
        }
        Ok(columns.downgrade())
    }
}

/// Stored columns of `study`, up to an earlier revision; `None` without readable ones.
async fn stored(store: &dyn Store, study: &Study) -> Result<Option<Columns>, StoreError> {
    if study.next_trial_id.0 <= STORED {
        return Ok(None);
    }
    let body = match store.summary(&study.id, SummaryKind::Columns).await {
        Ok(Some(body)) => body,
        Ok(None) => return Ok(None),
        Err(error @ StoreError::NotFound { .. }) => return Err(error),
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(study.name = %study.id, error, "the stored columns are not used; all trials are read");
            return Ok(None);
        }
    };
    let study = study.clone();
    let restoring = tokio::task::spawn_blocking(move || Columns::restore(&study, &body));
    // Trials replace what cannot be restored.
    Ok(restoring.await.ok().flatten())
}

/// Stores `columns`, so that the next process need not read all trials. Failures are ignored: they can be read.
async fn keep(store: Arc<dyn Store>, study: StudyId, columns: Arc<RwLock<Columns>>) {
    let columns = columns.read_owned().await;
    let Ok(body) = tokio::task::spawn_blocking(move || columns.store()).await else { return };
    if let Err(error) = store.put_summary(&study, SummaryKind::Columns, body).await {
        let error = &error as &dyn std::error::Error;
        tracing::debug!(study.name = %study, error, "the columns cannot be stored");
    }
}

async fn load(store: &dyn Store, study: &Study) -> Result<Columns, StoreError> {
    let mut columns = Columns::new(study);
    let mut pages = std::pin::pin!(pages::trials_by_page(store, study));
    while let Some(trials) = pages.try_next().await? {
        trials.iter().for_each(|trial| columns.apply(trial));
        tokio::task::yield_now().await;
    }
    // Trials changed during the read have a higher revision, and are reread.
    columns.mark_read_up_to(study.revision);
    Ok(columns)
}

async fn refresh(columns: &mut Columns, store: &dyn Store, study: &Study) -> Result<(), StoreError> {
    let from = columns.revision();
    let mut changed = std::pin::pin!(pages::changed_trials(store, &study.id, from));
    while let Some(trial) = changed.try_next().await? {
        columns.apply(&trial);
        columns.mark_read_up_to(trial.revision);
    }
    columns.mark_read_up_to(study.revision);
    Ok(())
}

impl Studies {
    /// Columns of `study`, at least up to its revision. The first call reads all trials, or those that changed since the columns were stored;
    /// later ones read only changes.
    pub async fn columns(&self, study: &Study) -> Result<ViewedColumns, StudiesError> {
        Ok(self.views.columns(&self.store, study).await?)
    }

    /// Start and end times of trials in seconds since 1970; running ones end now. Omits those that ended before
    /// `begin`.
    pub async fn running_times(&self, study: &Study, begin: f64) -> Result<Vec<(f64, f64)>, StudiesError> {
        let now = self.clock.now().as_microsecond();
        let columns = self.columns(study).await?;
        Ok(running_times(&columns, now).filter(|(_, end)| *end >= begin).collect())
    }

    /// Existing trials among `chosen`, with their curves. The second number, the count of trials represented, is passed
    /// through.
    pub async fn curves_of(
        &self,
        study: &StudyId,
        chosen: Vec<(TrialId, u32)>,
    ) -> Result<Vec<(TrialId, u32, Vec<Measurement>)>, StudiesError> {
        let mut curves = Vec::with_capacity(chosen.len());
        for (number, count) in chosen {
            for trial in self.trials_numbered(study, [number]).await? {
                curves.push((number, count, pages::curve(&*self.store, study, &trial).await?));
            }
        }
        Ok(curves)
    }

    /// Analysis of `metric` over the `completed` trials, selected by `choice` (a filter and a number of trials) at
    /// `revision`. Cached for the same revision, metric and choice.
    ///
    /// # Errors
    /// [`StudiesError::Interrupted`]; the inner error if the trials cannot be analysed.
    pub async fn insight(
        &self,
        study: &Study,
        revision: u64,
        metric: &str,
        choice: (String, usize),
        completed: Vec<CompletedTrial>,
    ) -> Result<Result<Arc<MetricInsight>, InsightError>, StudiesError> {
        let models = self.views.models.get_or_insert(&study.id, 0, Mutex::default);
        let mut models = models.lock_owned().await;
        let key = (revision, metric.to_owned(), choice);
        if let Some((_, known)) = models.iter().find(|(other, _)| *other == key) {
            return Ok(known.clone());
        }
        let _permit = FITTERS.acquire().await.expect("the semaphore is never closed");
        let (problem, metric) = (Arc::clone(&study.problem), metric.to_owned());
        let fitting = tokio::task::spawn_blocking(move || {
            explain(&problem, History { completed: &completed, pending: &[] }, &metric).map(Arc::new)
        });
        let insight = fitting.await.map_err(|source| StudiesError::Interrupted { study: study.id.clone(), source })?;
        models.retain(|((revision, ..), _)| *revision == key.0);
        models.truncate(MODELS - 1);
        models.push_front((key, insight.clone()));
        Ok(insight)
    }
}

#[cfg(test)]
mod tests;
