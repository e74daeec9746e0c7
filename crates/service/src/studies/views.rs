//! The columns and the models of studies for plots and tables, kept up to date by reading only changes.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::TryStreamExt;
use tokio::sync::{Mutex, OwnedRwLockReadGuard, RwLock, Semaphore};
use tunesmith_algorithms::designer::History;
use tunesmith_algorithms::insight::{InsightError, MetricInsight, explain};
use tunesmith_algorithms::problem::{CompletedTrial, TrialId};

use super::{Studies, StudiesError};
use crate::bounded_cache::BoundedCache;
use crate::pages;
use crate::study_cache::StudyCache;
use tunesmith_domain::{Measurement, Study, StudyId};
use tunesmith_store::{Store, StoreError};
use tunesmith_views::{Columns, running_times};

/// Limit of the estimated memory of all columns in bytes: a million trials of some parameters. The memory budget of a server
/// drops columns before.
const MEMORY: usize = 256 << 20;

/// Number of models that are kept for each study.
const MODELS: usize = 4;

/// Number of models that are fitted at once: each takes one processor for seconds.
static FITTERS: Semaphore = Semaphore::const_new(1);

/// The columns of a study, which do not change while they are held.
pub type ViewedColumns = OwnedRwLockReadGuard<Columns>;

/// Models by what they were fitted to, the newest first.
type Models = VecDeque<(ModelKey, Result<Arc<MetricInsight>, InsightError>)>;

/// What a model was fitted to: the revision of the study, the metric, and the trials by their filter and number.
type ModelKey = (u64, String, (String, usize));

/// The columns and models of the studies that were looked at.
pub(super) struct StudyViews {
    columns: BoundedCache<RwLock<Columns>>,
    models: StudyCache<Models>,
    /// The first load of a study is made once.
    loading: Mutex<()>,
}

impl Default for StudyViews {
    fn default() -> Self {
        Self { columns: BoundedCache::new(MEMORY), models: StudyCache::default(), loading: Mutex::default() }
    }
}

impl StudyViews {
    /// Drops what was kept for `study`.
    pub(super) fn forget(&self, study: &StudyId) {
        self.columns.remove(study);
        self.models.forget(study);
    }

    /// Drops what was not used during the last `calls` calls of this function, and returns the number of dropped values.
    pub(super) fn drop_idle(&self, calls: u32) -> usize {
        self.columns.drop_idle(calls) + self.models.drop_idle(calls)
    }

    /// As [`BoundedCache::drop_unused`], for columns.
    pub(super) fn drop_unused(&self) -> bool {
        self.columns.drop_unused()
    }

    /// As [`BoundedCache::drop_oldest`], for columns.
    pub(super) fn drop_oldest(&self) -> bool {
        self.columns.drop_oldest()
    }

    /// The columns of `study`, at least up to its revision.
    async fn columns(&self, store: &dyn Store, study: &Study) -> Result<ViewedColumns, StoreError> {
        let shared = match self.columns.get(&study.id) {
            Some(shared) => shared,
            None => self.loaded(store, study).await?,
        };
        let held = Arc::clone(&shared).read_owned().await;
        if held.is_of(study) && held.revision() >= study.revision {
            return Ok(held);
        }
        drop(held);
        let mut columns = shared.write_owned().await;
        if !columns.is_of(study) {
            *columns = load(store, study).await?;
        }
        if columns.revision() < study.revision {
            refresh(&mut columns, store, study).await?;
        }
        drop(self.columns.set_size(&study.id, columns.bytes()));
        Ok(columns.downgrade())
    }

    async fn loaded(&self, store: &dyn Store, study: &Study) -> Result<Arc<RwLock<Columns>>, StoreError> {
        let _loading = self.loading.lock().await;
        if let Some(shared) = self.columns.get(&study.id) {
            return Ok(shared);
        }
        let columns = load(store, study).await?;
        let bytes = columns.bytes();
        let shared = self.columns.get_or_insert(&study.id, RwLock::new(columns), bytes);
        drop(self.columns.set_size(&study.id, bytes));
        Ok(shared)
    }
}

/// Reads all trials of `study`.
async fn load(store: &dyn Store, study: &Study) -> Result<Columns, StoreError> {
    let mut columns = Columns::new(study);
    let mut pages = std::pin::pin!(pages::trials_by_page(store, study));
    while let Some(trials) = pages.try_next().await? {
        trials.iter().for_each(|trial| columns.apply(trial));
        tokio::task::yield_now().await;
    }
    // Trials that change while others are read have a higher revision, and are read again.
    columns.mark_read_up_to(study.revision);
    Ok(columns)
}

/// Reads the changes of `study` since the revision of `columns`.
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
    /// The trials of `study` by column, at least up to its revision. The first call for a study reads all its trials, later
    /// ones only what has changed.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn columns(&self, study: &Study) -> Result<ViewedColumns, StudiesError> {
        Ok(self.views.columns(&*self.store, study).await?)
    }

    /// The times from the start to the end of the trials of `study`, in seconds since 1970; now is the end of those that run.
    /// Those that ended before `begin` are left out.
    ///
    /// # Errors
    /// As [`Self::columns`].
    pub async fn running_times(&self, study: &Study, begin: f64) -> Result<Vec<(f64, f64)>, StudiesError> {
        let now = self.clock.now().as_microsecond();
        let columns = self.columns(study).await?;
        Ok(running_times(&columns, now).filter(|(_, end)| *end >= begin).collect())
    }

    /// The trials with these numbers that still exist, with their measurements.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn curves_of(
        &self,
        study: &StudyId,
        numbers: Vec<TrialId>,
    ) -> Result<Vec<(TrialId, Vec<Measurement>)>, StudiesError> {
        let mut curves = Vec::with_capacity(numbers.len());
        for trial in self.trials_numbered(study, numbers).await? {
            curves.push((trial.id, pages::curve(&*self.store, study, &trial).await?));
        }
        Ok(curves)
    }

    /// The analysis of `metric` by the trials `completed`, which were chosen by `choice`, a filter and a number of trials,
    /// at `revision` of the study. It is kept for the next call with the same revision, metric and choice.
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
        let models = self.views.models.get_or_insert(&study.id, VecDeque::new);
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
