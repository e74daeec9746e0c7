//! Reads all records of a paged query of the store, as streams.
//!
//! The first page is small, so that short results are read at low cost.

use futures::future::BoxFuture;
use futures::stream::{self, Stream, StreamExt, TryStreamExt};

use tunesmith_domain::{Job, JobId, Measurement, Study, StudyId, Trial, TrialId};
use tunesmith_store::{FEW, Store, StoreError};

/// Number of records in every page but the first.
pub(crate) const PAGE: usize = 1000;

/// Number of records after which a caller that looks at each of them lets other tasks run. A guess: 1 ms with the largest filter.
const STEP: usize = 32;

/// Number of pages that are read at the same time.
const READS: usize = 4;

/// Returns all jobs by ID, starting after `after`.
pub fn jobs(store: &dyn Store, after: Option<JobId>) -> impl Stream<Item = Result<Job, StoreError>> + Send {
    in_steps(records(
        after,
        move |after, limit| Box::pin(async move { store.jobs(after.as_ref(), limit).await }),
        |job| Some(job.id.clone()),
    ))
}

/// Returns all trials of `study` by number.
pub fn trials<'a>(
    store: &'a dyn Store,
    study: &'a StudyId,
) -> impl Stream<Item = Result<Trial, StoreError>> + Send + use<'a> {
    records(None, move |after, limit| store.trials(study, after, limit), |trial| Some(trial.id))
}

/// Returns pages of the trials that `study` had at its revision, by number: several are read at the same time.
pub(crate) fn trials_by_page<'a>(
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

/// Returns the trials of `study` that are not final, by number.
pub(crate) fn open_trials<'a>(
    store: &'a dyn Store,
    study: &'a StudyId,
) -> impl Stream<Item = Result<Trial, StoreError>> + Send + use<'a> {
    open_trials_after(store, study, None)
}

/// Returns the trials of `study` that are not final, by number, starting after `after`.
pub(crate) fn open_trials_after<'a>(
    store: &'a dyn Store,
    study: &'a StudyId,
    after: Option<TrialId>,
) -> impl Stream<Item = Result<Trial, StoreError>> + Send + use<'a> {
    records(after, move |after, limit| store.open_trials(study, after, limit), |trial| Some(trial.id))
}

/// Returns the trials of `study` whose revision is above `revision`, by revision.
pub(crate) fn changed_trials<'a>(
    store: &'a dyn Store,
    study: &'a StudyId,
    revision: u64,
) -> impl Stream<Item = Result<Trial, StoreError>> + Send + use<'a> {
    records(revision, move |revision, limit| store.trials_changed_since(study, revision, limit), |trial| trial.revision)
}

/// Returns pages of what [`changed_trials`] returns.
pub(crate) fn changed_pages<'a>(
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

/// Returns the studies of `project` at `location` by ID.
pub(crate) fn studies<'a>(
    store: &'a dyn Store,
    project: &'a str,
    location: &'a str,
) -> impl Stream<Item = Result<Study, StoreError>> + Send + use<'a> {
    in_steps(records(
        None,
        move |after: Option<StudyId>, limit| {
            Box::pin(async move { store.studies(project, location, after.as_ref(), limit).await })
        },
        |study| Some(study.id.clone()),
    ))
}

/// Returns the studies of all projects and locations that belong to no job, by ID.
pub(crate) fn all_studies(store: &dyn Store) -> impl Stream<Item = Result<Study, StoreError>> + Send {
    in_steps(records(
        None,
        move |after: Option<StudyId>, limit| Box::pin(async move { store.all_studies(after.as_ref(), limit).await }),
        |study| Some(study.id.clone()),
    ))
}

/// Returns the measurements of the curves that `trial` had when it was read, in the order of their arrival: of a metric in
/// event files of several folders, those of one.
pub(crate) async fn curve(store: &dyn Store, study: &StudyId, trial: &Trial) -> Result<Vec<Measurement>, StoreError> {
    let mut found = measurements(store, study, trial).await?;
    trial.metric_folders.retain_curves(&mut found);
    Ok(found)
}

/// Returns all measurements that `trial` had when it was read, in the order of their arrival.
pub(crate) async fn measurements(
    store: &dyn Store,
    study: &StudyId,
    trial: &Trial,
) -> Result<Vec<Measurement>, StoreError> {
    let mut found: Vec<Measurement> = Vec::new();
    let count = usize::try_from(trial.measurement_count).unwrap_or(usize::MAX);
    while found.len() < count {
        let limit = PAGE.min(count - found.len());
        let page = store.measurements(study, trial.id, found.len() as u64, limit).await?;
        if page.is_empty() {
            break;
        }
        found.extend(page);
    }
    Ok(found)
}

/// Lets other tasks run after every [`STEP`] records: callers evaluate filters on the threads of the runtime.
fn in_steps<T: Send>(
    records: impl Stream<Item = Result<T, StoreError>> + Send,
) -> impl Stream<Item = Result<T, StoreError>> + Send {
    records.enumerate().then(async |(index, record)| {
        if index % STEP == STEP - 1 {
            tokio::task::yield_now().await;
        }
        record
    })
}

/// Returns the records of [`record_pages`].
fn records<'a, T: Send + 'a, C: Send + 'a>(
    start: C,
    read: impl Fn(C, usize) -> BoxFuture<'a, Result<Vec<T>, StoreError>> + Send + 'a,
    cursor: fn(&T) -> C,
) -> impl Stream<Item = Result<T, StoreError>> + Send + 'a {
    let pages = record_pages(start, read, cursor);
    pages.map_ok(|page| stream::iter(page.into_iter().map(Ok))).try_flatten()
}

/// Returns all pages: `read` reads the page after a cursor, and `cursor` returns the cursor of a record.
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
            // A page that is not full is the last one.
            let next = page.last().filter(|_| page.len() == limit).map(|last| (cursor(last), PAGE));
            Ok(Some((page, next)))
        }
    })
}
