//! Streams over paged queries of the store.
//!
//! The first page is small, which keeps short results cheap.

use futures::future::BoxFuture;
use futures::stream::{self, Stream, StreamExt, TryStreamExt};

use tunesmith_domain::{Job, JobId, Measurement, Study, StudyId, Trial, TrialId};

use crate::{FEW, Store, StoreError};

/// Records per page, except the first.
pub const PAGE: usize = 1000;

pub(crate) const MEASUREMENTS: usize = 10_000;

/// Records between yields of a caller that evaluates each. A guess: 1 ms with the largest filter.
const STEP: usize = 32;

const READS: usize = 4;

/// All jobs by ID, after `after`.
pub fn jobs(store: &dyn Store, after: Option<JobId>) -> impl Stream<Item = Result<Job, StoreError>> + Send {
    yielding(records(
        after,
        move |after, limit| Box::pin(async move { store.jobs(after.as_ref(), limit).await }),
        |job| Some(job.id.clone()),
    ))
}

pub fn trials<'a>(
    store: &'a dyn Store,
    study: &'a StudyId,
) -> impl Stream<Item = Result<Trial, StoreError>> + Send + use<'a> {
    records(None, move |after, limit| store.trials(study, after, limit), |trial| Some(trial.id))
}

/// Pages of the trials at the study's revision, by number; reads several concurrently.
pub fn trials_by_page<'a>(
    store: &'a dyn Store,
    study: &'a Study,
) -> impl Stream<Item = Result<Vec<Trial>, StoreError>> + Send + use<'a> {
    let count = study.next_trial_id.0.saturating_sub(1);
    let starts = (0..count).step_by(PAGE).map(TrialId);
    let pages = stream::iter(starts).map(move |after| {
        let limit = PAGE.min(usize::try_from(count - after.0).unwrap_or(PAGE));
        store.trials(&study.id, Some(after), limit)
    });
    pages.buffered(READS)
}

/// Non-final trials of `study` by number.
pub fn open_trials<'a>(
    store: &'a dyn Store,
    study: &'a StudyId,
) -> impl Stream<Item = Result<Trial, StoreError>> + Send + use<'a> {
    open_trials_after(store, study, None)
}

/// Non-final trials of `study` by number, after `after`.
pub fn open_trials_after<'a>(
    store: &'a dyn Store,
    study: &'a StudyId,
    after: Option<TrialId>,
) -> impl Stream<Item = Result<Trial, StoreError>> + Send + use<'a> {
    records(after, move |after, limit| store.open_trials(study, after, limit), |trial| Some(trial.id))
}

/// Trials of `study` with revisions above `revision`, by revision.
pub fn changed_trials<'a>(
    store: &'a dyn Store,
    study: &'a StudyId,
    revision: u64,
) -> impl Stream<Item = Result<Trial, StoreError>> + Send + use<'a> {
    records(revision, move |revision, limit| store.trials_changed_since(study, revision, limit), |trial| trial.revision)
}

/// [`changed_trials`] in pages.
pub fn changed_pages<'a>(
    store: &'a dyn Store,
    study: &'a StudyId,
    revision: u64,
) -> impl Stream<Item = Result<Vec<Trial>, StoreError>> + Send + use<'a> {
    record_pages(
        revision,
        move |revision, limit| store.trials_changed_since(study, revision, limit),
        |trial| trial.revision,
    )
}

/// Studies that belong to no job, by ID: those of a project at a location, or with `None` all.
pub fn studies<'a>(
    store: &'a dyn Store,
    parent: Option<(&'a str, &'a str)>,
) -> impl Stream<Item = Result<Study, StoreError>> + Send + use<'a> {
    yielding(records(
        None,
        move |after: Option<StudyId>, limit| {
            Box::pin(async move { store.studies(parent, after.as_ref(), limit).await })
        },
        |study| Some(study.id.clone()),
    ))
}

/// Curve measurements of `trial` as read, in order of arrival; for a metric in event files of several folders, those of
/// one.
pub async fn curve(store: &dyn Store, study: &StudyId, trial: &Trial) -> Result<Vec<Measurement>, StoreError> {
    curve_pages(store, study, trial).try_concat().await
}

/// [`curve`] in pages.
pub fn curve_pages<'a>(
    store: &'a dyn Store,
    study: &'a StudyId,
    trial: &'a Trial,
) -> impl Stream<Item = Result<Vec<Measurement>, StoreError>> + Send + use<'a> {
    measurement_pages(store, study, trial).map_ok(|mut page| {
        trial.metric_folders.retain_curves(&mut page);
        page
    })
}

/// All measurements of `trial` as read, in order of arrival.
pub async fn measurements(store: &dyn Store, study: &StudyId, trial: &Trial) -> Result<Vec<Measurement>, StoreError> {
    measurement_pages(store, study, trial).try_concat().await
}

fn measurement_pages<'a>(
    store: &'a dyn Store,
    study: &'a StudyId,
    trial: &'a Trial,
) -> impl Stream<Item = Result<Vec<Measurement>, StoreError>> + Send + use<'a> {
    stream::try_unfold(0, move |from| async move {
        let limit = usize::try_from(trial.measurement_count.saturating_sub(from)).unwrap_or(usize::MAX);
        if limit == 0 {
            return Ok(None);
        }
        let page = store.measurements(study, trial.id, from, MEASUREMENTS.min(limit)).await?;
        let next = from + page.len() as u64;
        Ok::<_, StoreError>((!page.is_empty()).then_some((page, next)))
    })
}

/// Yields to other tasks after every [`STEP`] records, since callers evaluate filters on runtime threads.
fn yielding<T: Send>(
    records: impl Stream<Item = Result<T, StoreError>> + Send,
) -> impl Stream<Item = Result<T, StoreError>> + Send {
    records.enumerate().then(async |(index, record)| {
        if index % STEP == STEP - 1 {
            tokio::task::yield_now().await;
        }
        record
    })
}

fn records<'a, T: Send + 'a, C: Send + 'a>(
    start: C,
    read: impl Fn(C, usize) -> BoxFuture<'a, Result<Vec<T>, StoreError>> + Send + 'a,
    cursor: fn(&T) -> C,
) -> impl Stream<Item = Result<T, StoreError>> + Send + 'a {
    let pages = record_pages(start, read, cursor);
    pages.map_ok(|page| stream::iter(page.into_iter().map(Ok))).try_flatten()
}

/// All pages: `read` reads the page after a cursor, and `cursor` maps a record to its cursor.
fn record_pages<'a, T: Send + 'a, C: Send + 'a>(
    start: C,
    read: impl Fn(C, usize) -> BoxFuture<'a, Result<Vec<T>, StoreError>> + Send + 'a,
    cursor: fn(&T) -> C,
) -> impl Stream<Item = Result<Vec<T>, StoreError>> + Send + 'a {
    stream::try_unfold(Some((start, FEW)), move |next| {
        let page = next.map(|(start, limit)| (read(start, limit), limit));
        async move {
            let Some((page, limit)) = page else { return Ok::<_, StoreError>(None) };
            let page = page.await?;
            // A partial page is the last one.
            let next = page.last().filter(|_| page.len() == limit).map(|last| (cursor(last), PAGE));
            Ok(Some((page, next)))
        }
    })
}
