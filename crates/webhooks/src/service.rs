//! Webhooks of one process: observes changes, derives events, and delivers them.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::Notify;
use tokio::time::Instant;
use tunesmith_algorithms::problem::ProblemStatement;
use tunesmith_domain::{Job, JobId, Study, StudyId, Trial, TrialState, compare_results, is_feasible};
use tunesmith_store::{Changed, Observer, OptionalExtension, Store, StoreError};

use crate::cursor::{Cursor, Derived};
use crate::delivery::Delivery;
use crate::event::{Event, EventData};
use crate::outbox::{self, MAX_AGE};
use crate::{DocumentStore, Webhook};

/// Clock of the server.
pub(crate) type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

const CURSORS: &str = "webhook-cursors";
const STATE: &str = "webhook-state";
/// Delay before changes are read: several changes of a job have one comparison.
const DELAY: Duration = Duration::from_millis(200);
/// Pause after a failure of the store.
const STORE_PAUSE: Duration = Duration::from_secs(5);
/// Maximum number of changed subjects held in memory; above it, all subjects are compared.
const MAX_CHANGED: usize = 10_000;
/// Interval between comparisons of all subjects on a shared store, for changes of servers that have died.
const RESCAN_INTERVAL: Duration = Duration::from_secs(300);
/// Trials and subjects read at once.
const PAGE: usize = 500;
/// Comparisons repeated after another server has moved the cursor.
const MAX_CONFLICTS: usize = 10;
/// Interval between looks for undelivered events at the end of a process.
const DRAIN_INTERVAL: Duration = Duration::from_millis(100);

/// Webhooks of this process. Thread-safe.
pub struct Webhooks {
    store: Arc<dyn Store>,
    documents: DocumentStore,
    now: Now,
    /// Time from which on changes of this process are observed.
    created: Timestamp,
    deliveries: Vec<Delivery>,
    work: Mutex<Work>,
    wake: Notify,
}

/// Services that [`Webhooks`] uses.
pub struct Wiring {
    /// Store, not observed.
    pub store: Arc<dyn Store>,
    pub documents: DocumentStore,
    /// Unique name of this process.
    pub server: String,
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

struct Work {
    changed: BTreeSet<Changed>,
    /// Whether all subjects are to be compared.
    is_rescan_due: bool,
    is_comparing: bool,
}

impl Work {
    fn is_idle(&self) -> bool {
        self.changed.is_empty() && !self.is_rescan_due && !self.is_comparing
    }
}

/// State of all webhooks of a store.
#[derive(Serialize, Deserialize)]
struct State {
    version: u32,
    /// Time of the first webhook: earlier events are not sent.
    since: Timestamp,
}

/// Subject of events: a job, or a study that belongs to no job.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Subject {
    Job(JobId),
    Study(StudyId),
}

impl Subject {
    fn of(changed: Changed) -> Option<Self> {
        match changed {
            Changed::Job(id) => Some(Self::Job(id)),
            Changed::Study(id) if id.is_of_job() => {
                let (project, _, name) = id.parts();
                JobId::new(project, name).ok().map(Self::Job)
            }
            Changed::Study(id) => Some(Self::Study(id)),
        }
    }

    fn key(&self) -> String {
        match self {
            Self::Job(id) => format!("job {id}"),
            Self::Study(id) => format!("study {id}"),
        }
    }
}

/// Name of the cursor of the subject `key`. Keys may be too long for a file.
fn document_name(key: &str) -> String {
    hex::encode(&Sha256::digest(key)[..16])
}

impl Webhooks {
    /// Prepares `webhooks`, which have unique names. Starts nothing.
    ///
    /// # Errors
    /// If no certificates are trusted.
    pub fn new(webhooks: &[Arc<Webhook>], wiring: Wiring) -> Result<Self, tunesmith_client::ClientFailure> {
        let Wiring { store, documents, server, now } = wiring;
        let delivery = |webhook: &Arc<Webhook>| {
            Delivery::new(Arc::clone(webhook), documents.clone(), server.clone(), Arc::clone(&now))
        };
        let deliveries = webhooks.iter().map(delivery).collect::<Result<_, _>>()?;
        let work = Work { changed: BTreeSet::new(), is_rescan_due: true, is_comparing: false };
        let created = now();
        Ok(Self { store, documents, now, created, deliveries, work: Mutex::new(work), wake: Notify::new() })
    }

    /// Observer for the stores of this process. It only notes the subject.
    pub fn observer(self: &Arc<Self>) -> Observer {
        let webhooks = Arc::clone(self);
        Arc::new(move |changed| {
            let mut work = webhooks.work.lock();
            if work.changed.len() < MAX_CHANGED {
                work.changed.insert(changed);
            } else {
                work.is_rescan_due = true;
            }
            drop(work);
            webhooks.wake.notify_one();
        })
    }

    /// Derives and delivers events. Never completes.
    pub async fn run(&self) {
        let mut tasks: Vec<BoxFuture<'_, ()>> = vec![Box::pin(self.compare())];
        for delivery in &self.deliveries {
            tasks.push(Box::pin(delivery.run()));
        }
        join_all(tasks).await;
    }

    /// Waits until all events are delivered, at most for `limit`. Returns the number of undelivered events.
    pub async fn drain(&self, limit: Duration) -> usize {
        let end = Instant::now() + limit;
        loop {
            let is_idle = self.work.lock().is_idle();
            let pending: Option<usize> = self.deliveries.iter().map(Delivery::pending).sum();
            match pending {
                Some(0) if is_idle => return 0,
                _ if Instant::now() >= end => return pending.unwrap_or_default().max(1),
                _ => tokio::time::sleep(DRAIN_INTERVAL).await,
            }
        }
    }

    async fn compare(&self) {
        let mut rescanned: Option<Instant> = None;
        let mut since = None;
        loop {
            let is_old = |at: Instant| self.documents.is_shared() && at.elapsed() >= RESCAN_INTERVAL;
            let (changed, is_rescan_due) = {
                let mut work = self.work.lock();
                work.is_rescan_due |= rescanned.is_none_or(is_old);
                work.is_comparing = true;
                (std::mem::take(&mut work.changed), std::mem::take(&mut work.is_rescan_due))
            };
            let result = self.compare_all(&mut since, changed.clone(), is_rescan_due).await;
            let is_idle = {
                let mut work = self.work.lock();
                work.is_comparing = false;
                if result.is_err() {
                    work.changed.extend(changed);
                    work.is_rescan_due |= is_rescan_due;
                }
                work.is_idle()
            };
            match result {
                Err(error) => {
                    tracing::warn!(error = %with_causes(&error), "events cannot be derived; it is repeated");
                    tokio::time::sleep(STORE_PAUSE).await;
                    continue;
                }
                Ok(()) if is_rescan_due => rescanned = Some(Instant::now()),
                Ok(()) => {}
            }
            if is_idle {
                let _ = tokio::time::timeout(RESCAN_INTERVAL, self.wake.notified()).await;
            }
            tokio::time::sleep(DELAY).await;
        }
    }

    async fn compare_all(
        &self,
        since: &mut Option<Timestamp>,
        changed: BTreeSet<Changed>,
        is_rescan: bool,
    ) -> Result<(), StoreError> {
        let enabled = match *since {
            Some(since) => since,
            None => *since.insert(self.enabled_since().await?),
        };
        if is_rescan {
            self.compare_subjects(enabled).await?;
        }
        let mut seen: Vec<Subject> = Vec::new();
        for subject in changed.into_iter().filter_map(Subject::of) {
            // A job comes before its study.
            if !seen.contains(&subject) {
                self.compare_subject(&subject, enabled).await?;
                seen.push(subject);
            }
        }
        Ok(())
    }

    /// Time of the first webhook on the store.
    async fn enabled_since(&self) -> Result<Timestamp, StoreError> {
        const NAME: &str = "state";
        for _ in 0..MAX_CONFLICTS {
            let body = self.documents.read(STATE, NAME).await?;
            if let Some(state) = body.as_deref().and_then(|body| serde_json::from_slice::<State>(body).ok()) {
                return Ok(state.since);
            }
            let state = State { version: 1, since: self.created };
            let encoded = serde_json::to_vec(&state).expect("a state has text keys");
            if self.documents.replace(STATE, NAME, body, encoded).await? {
                return Ok(state.since);
            }
        }
        Ok(self.created)
    }

    /// Compares all subjects that may have events without a notification: those of a process that has died.
    async fn compare_subjects(&self, enabled: Timestamp) -> Result<(), StoreError> {
        let oldest = (self.now)().checked_sub(MAX_AGE).unwrap_or(Timestamp::MIN).max(enabled);
        let mut cursors: BTreeMap<String, Cursor> = BTreeMap::new();
        for name in self.documents.names(CURSORS).await? {
            if let Some(cursor) = self.cursor(&name).await?.1 {
                cursors.insert(cursor.subject.clone(), cursor);
            }
        }
        let mut after: Option<JobId> = None;
        loop {
            let jobs = self.store.jobs(after.as_ref(), PAGE).await?;
            for job in &jobs {
                let subject = Subject::Job(job.id.clone());
                let known = cursors.remove(&subject.key());
                let is_old = job.state.is_final() && job.end_time.is_some_and(|ended| ended < oldest);
                if is_old && known.is_some() {
                    self.documents.remove(CURSORS, &document_name(&subject.key())).await?;
                }
                let is_complete = known.is_some_and(|cursor| cursor.ended.is_some() && cursor.ended == job.end_time);
                if !is_old && !is_complete {
                    self.compare_subject(&subject, enabled).await?;
                }
            }
            after = jobs.last().map(|job| job.id.clone());
            if jobs.len() < PAGE {
                break;
            }
        }
        let mut after: Option<StudyId> = None;
        loop {
            let studies = self.store.studies(None, after.as_ref(), PAGE).await?;
            for study in &studies {
                let subject = Subject::Study(study.id.clone());
                let known = cursors.remove(&subject.key());
                if known.is_none_or(|cursor| cursor.study_revision < study.revision) {
                    self.compare_subject(&subject, enabled).await?;
                }
            }
            after = studies.last().map(|study| study.id.clone());
            if studies.len() < PAGE {
                break;
            }
        }
        // The rest are cursors of deleted subjects.
        for key in cursors.into_keys() {
            self.documents.remove(CURSORS, &document_name(&key)).await?;
        }
        Ok(())
    }

    /// The cursor `name`, with its exact form.
    async fn cursor(&self, name: &str) -> Result<(Option<Vec<u8>>, Option<Cursor>), StoreError> {
        let body = self.documents.read(CURSORS, name).await?;
        let cursor: Option<Cursor> = body.as_deref().and_then(|body| serde_json::from_slice(body).ok());
        Ok((body, cursor.filter(|cursor| cursor.version == 1)))
    }

    /// Puts the events of `subject` into the outboxes, page by page.
    async fn compare_subject(&self, subject: &Subject, enabled: Timestamp) -> Result<(), StoreError> {
        let key = subject.key();
        let name = document_name(&key);
        let mut conflicts = 0;
        while conflicts < MAX_CONFLICTS {
            let (body, known) = self.cursor(&name).await?;
            let record = match subject {
                Subject::Job(id) => self.store.job(id).await.optional()?.map(|job| Record::Job(Box::new(job))),
                Subject::Study(id) => {
                    self.store.study(id).await.optional()?.map(|study| Record::Study(Box::new(study)))
                }
            };
            let Some(record) = record else {
                return if body.is_some() { self.documents.remove(CURSORS, &name).await } else { Ok(()) };
            };
            let known = known.filter(|cursor| cursor.created == record.created());
            let is_known = known.is_some();
            let former = known.clone();
            let mut cursor = known.unwrap_or_else(|| Cursor::new(key.clone(), record.created()));
            let now = (self.now)();
            let oldest = now.checked_sub(MAX_AGE).unwrap_or(Timestamp::MIN).max(enabled);
            let mut derived = cursor.derive(oldest);
            let is_last = self.page(&record, &mut cursor, &mut derived, is_known, now).await?;
            if is_last {
                cursor.looked = Some(now);
            }
            self.enqueue(&derived).await?;
            // Without events, the time of the comparison alone is not worth a write.
            let is_changed = former.is_none_or(|former| !former.is_same_position(&cursor));
            if is_changed {
                let encoded =
                    serde_json::to_vec(&cursor).expect("a cursor has text keys and no floating-point numbers");
                if !self.documents.replace(CURSORS, &name, body, encoded).await? {
                    conflicts += 1;
                    continue;
                }
            }
            if is_last {
                return Ok(());
            }
        }
        // Other servers compare the subject at the same time, and find the same events.
        Ok(())
    }

    /// Derives the events of a page of trials; true for the last page.
    async fn page(
        &self,
        record: &Record,
        cursor: &mut Cursor,
        derived: &mut Derived,
        is_known: bool,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let (study, data) = match record {
            Record::Job(job) => {
                cursor.begin_job(job, derived);
                let study = match &job.study {
                    Some(id) => self.store.study(id).await.optional()?,
                    None => None,
                };
                (study, EventData::of_job(job))
            }
            Record::Study(study) => {
                cursor.begin_study(study, derived);
                (Some((**study).clone()), EventData::of_study(study))
            }
        };
        if let Some(study) = &study {
            let trials = self.store.trials_changed_since(&study.id, cursor.study_revision, PAGE).await?;
            let is_last = trials.len() < PAGE;
            let has_result = trials.iter().any(|trial| trial.state == TrialState::Succeeded);
            let mut best = if has_result { self.best(study, cursor).await? } else { None };
            cursor.trials(&study.problem, trials, &mut best, &data, derived);
            if !is_last {
                return Ok(false);
            }
            // Changes without trials, such as of metadata, have no event.
            cursor.study_revision = cursor.study_revision.max(study.revision);
        }
        match record {
            Record::Job(job) => cursor.end_job(job, derived),
            Record::Study(study) => cursor.end_study(study, is_known, now, derived),
        }
        Ok(true)
    }

    /// Trial with the best result up to the cursor.
    async fn best(&self, study: &Study, cursor: &Cursor) -> Result<Option<Trial>, StoreError> {
        let Some(id) = cursor.best else { return Ok(None) };
        let best = self.store.trial(&study.id, id).await.optional()?;
        if let Some(best) = best.filter(|trial| trial.state == TrialState::Succeeded) {
            return Ok(Some(best));
        }
        // It was deleted.
        let mut best: Option<Trial> = None;
        let mut revision = 0;
        loop {
            let trials = self.store.trials_changed_since(&study.id, revision, PAGE).await?;
            let is_last = trials.len() < PAGE;
            for trial in trials {
                revision = trial.revision;
                if revision > cursor.study_revision {
                    return Ok(best);
                }
                if is_better(&study.problem, &trial, best.as_ref()) {
                    best = Some(trial);
                }
            }
            if is_last {
                return Ok(best);
            }
        }
    }

    /// Adds the events to the outbox of each webhook that selects them.
    async fn enqueue(&self, derived: &Derived) -> Result<(), StoreError> {
        for delivery in &self.deliveries {
            let webhook = &delivery.webhook;
            let selected: Vec<&Event> = derived.events.iter().filter(|event| webhook.selects(event)).collect();
            if selected.is_empty() {
                continue;
            }
            for event in selected {
                outbox::add(&self.documents, webhook.name(), event).await?;
            }
            delivery.wake();
        }
        Ok(())
    }
}

/// Text of `error` and of its causes.
pub(crate) fn with_causes(error: &StoreError) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Whether `trial` has a usable result that is better than `best`.
pub(crate) fn is_better(problem: &ProblemStatement, trial: &Trial, best: Option<&Trial>) -> bool {
    trial.state == TrialState::Succeeded
        && is_feasible(problem, trial)
        && best.is_none_or(|best| best.id != trial.id && compare_results(problem, trial, best).is_lt())
}

enum Record {
    Job(Box<Job>),
    Study(Box<Study>),
}

impl Record {
    fn created(&self) -> Timestamp {
        match self {
            Self::Job(job) => job.create_time,
            Self::Study(study) => study.create_time,
        }
    }
}
