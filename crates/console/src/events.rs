//! Event streams, which notify a page of changes so that it reloads the changed parts.
//!
//! Events have no content, so that every stream costs the same: polling the revisions of a job and its study, two reads
//! by key, once a second. Pages of all jobs and studies share one poll. Polling also detects changes by other servers; that of models reads
//! only what has changed.

use std::collections::hash_map::DefaultHasher;
use std::convert::Infallible;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep};

use super::console::Console;
use super::errors::PageError;
use super::model::NamedModel;
use super::subject::{Named, Subject};
use super::visit::Visit;
use tunesmith_access::PerPrincipal;
use tunesmith_admission::Admission;
use tunesmith_domain::{JobId, Study, StudyId};
use tunesmith_prediction::Model;

/// Maximum number of open streams, in total and per principal. Pages without a stream reload periodically.
const MOST: usize = 256;
const MOST_OF_PRINCIPAL: usize = 16;

/// Polling interval of a job.
const INTERVAL: Duration = Duration::from_secs(1);

/// Polling interval of all jobs.
const INTERVAL_OF_ALL: Duration = Duration::from_secs(2);

/// Interval of comments in a stream without events, for both ends to detect a lost connection.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Time and result of a poll.
type LastLook = Arc<tokio::sync::Mutex<Option<(Instant, u64)>>>;

#[derive(Clone)]
pub(crate) struct Streams {
    slots: Arc<Semaphore>,
    of_principals: Arc<PerPrincipal>,
    ended: watch::Receiver<bool>,
    /// Last poll of all jobs.
    all: LastLook,
}

impl Streams {
    /// Acquires a stream slot for `principal`; `None` if there are too many.
    fn slot(&self, principal: Option<&str>) -> Option<Slot> {
        let own = match principal {
            Some(principal) => Some(self.of_principals.of(principal).try_acquire_owned().ok()?),
            None => None,
        };
        let of_all = Arc::clone(&self.slots).try_acquire_owned().ok()?;
        Some(Slot { _own: own, _of_all: of_all })
    }

    pub(crate) fn new(ended: watch::Receiver<bool>) -> Self {
        let of_principals = Arc::new(PerPrincipal::new(MOST_OF_PRINCIPAL));
        Self { slots: Arc::new(Semaphore::new(MOST)), of_principals, ended, all: Arc::default() }
    }
}

/// Slot of an open stream, freed on drop.
struct Slot {
    _own: Option<OwnedSemaphorePermit>,
    _of_all: OwnedSemaphorePermit,
}

#[derive(Clone)]
enum Watched {
    All,
    Job(JobId),
    Study(StudyId),
    Models,
    Model(NamedModel),
}

pub(crate) async fn all(console: Console, visit: Visit, (): ()) -> Result<Response, PageError> {
    open(console, visit, Watched::All).await
}

pub(crate) async fn of_one(console: Console, visit: Visit, named: Named, (): ()) -> Result<Response, PageError> {
    let watched = match console.subject(&named).await? {
        Subject::Job { job, .. } => Watched::Job(job.id.clone()),
        Subject::Study(study) => Watched::Study(study.id.clone()),
    };
    open(console, visit, watched).await
}

pub(crate) async fn models(console: Console, visit: Visit, (): ()) -> Result<Response, PageError> {
    open(console, visit, Watched::Models).await
}

pub(crate) async fn of_model(console: Console, visit: Visit, named: NamedModel, (): ()) -> Result<Response, PageError> {
    // Fails for a model that does not exist.
    console.models.model(&named.project, &named.model).await?;
    open(console, visit, Watched::Model(named)).await
}

struct Stream {
    console: Console,
    watched: Watched,
    seen: u64,
    last_sent: Instant,
    /// Request that opened the stream. The stream ends when its visitor loses the permission.
    admission: Admission,
    _slot: Slot,
}

async fn open(console: Console, visit: Visit, watched: Watched) -> Result<Response, PageError> {
    let Some(slot) = console.streams.slot(visit.visitor.principal()) else {
        let text = "too many pages are open; this one is loaded again from time to time";
        let mut response = (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("30"));
        return Ok(response);
    };
    let seen = console.look(&watched).await.unwrap_or_default();
    let admission = visit.admission;
    let stream = Stream { console, watched, seen, last_sent: Instant::now(), admission, _slot: slot };
    let begin = stream::once(async { Ok::<_, Infallible>(Bytes::from_static(b"retry: 3000\n\n")) });
    let events = stream::unfold(stream, async |mut stream| {
        let event = stream.next().await?;
        Some((Ok(Bytes::from_static(event)), stream))
    });
    let mut response = Body::from_stream(futures::StreamExt::chain(begin, events)).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

impl Stream {
    /// Next event; `None` on shutdown, or when the subject is deleted or no longer visible.
    async fn next(&mut self) -> Option<&'static [u8]> {
        let interval = match self.watched {
            Watched::All | Watched::Models => INTERVAL_OF_ALL,
            Watched::Job(_) | Watched::Study(_) | Watched::Model(_) => INTERVAL,
        };
        let mut ended = self.console.streams.ended.clone();
        loop {
            tokio::select! {
                _ = ended.wait_for(|ended| *ended) => return None,
                () = sleep(interval) => {}
            }
            if !self.admission.is_still_allowed().await {
                return None;
            }
            match self.console.look(&self.watched).await {
                Ok(now) if now != self.seen => {
                    self.seen = now;
                    self.last_sent = Instant::now();
                    return Some(b"event: changed\ndata: \n\n");
                }
                Ok(_) => {}
                Err(PageError::NotFound(_) | PageError::NoPage(_)) => return None,
                // The store may recover.
                Err(PageError::Denied(_) | PageError::Invalid(_) | PageError::Failed(_)) => {}
            }
            if self.last_sent.elapsed() >= HEARTBEAT {
                self.last_sent = Instant::now();
                return Some(b": still here\n\n");
            }
        }
    }
}

impl Console {
    /// Number that changes with the watched subject.
    async fn look(&self, watched: &Watched) -> Result<u64, PageError> {
        let id = match watched {
            Watched::Job(id) => id,
            Watched::Study(id) => return Ok(self.studies.study(id).await?.revision),
            Watched::Models => return Ok(self.models.state_number().await?),
            Watched::Model(named) => {
                let mut hasher = DefaultHasher::new();
                self.hash_model(&self.models.model(&named.project, &named.model).await?, &mut hasher);
                return Ok(hasher.finish());
            }
            Watched::All => return self.look_at_all().await,
        };
        let job = self.jobs.job(id).await?;
        let study = self.study_of(&job).await?.map(|study| study.revision);
        let (position, waiting) = self.jobs.wait_of(&job);
        let reasons: Vec<String> = waiting.into_iter().map(|waiting| waiting.reason).collect();
        let mut hasher = DefaultHasher::new();
        (job.revision, study, position, reasons).hash(&mut hasher);
        Ok(hasher.finish())
    }

    /// Adds what changes with a model, its workers and its requests.
    fn hash_model(&self, model: &Model, hasher: &mut DefaultHasher) {
        (&model.project, &model.name, model.revision).hash(hasher);
        for version in &model.versions {
            let status = self.models.status(version);
            (status.ready, status.starting, status.waiting, status.requests, status.failures).hash(hasher);
        }
    }

    /// Like [`Self::look`], for all jobs and studies. Concurrent streams share the result.
    async fn look_at_all(&self) -> Result<u64, PageError> {
        let mut last = self.streams.all.lock().await;
        if let Some(seen) = recent(*last) {
            return Ok(seen);
        }
        let mut hasher = DefaultHasher::new();
        let open = self
            .jobs
            .pick(|job| {
                (job.id.as_str(), job.revision).hash(&mut hasher);
                if job.state.is_final() { None } else { job.study.clone() }
            })
            .await?;
        for study in open {
            match self.studies.study(&study).await.map_err(PageError::from) {
                Ok(study) => study.revision.hash(&mut hasher),
                Err(PageError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let look = |study: Study| {
            (study.id.as_str(), study.revision).hash(&mut hasher);
            None::<()>
        };
        self.studies.pick(None, look).await?;
        self.jobs.load().slots.hash(&mut hasher);
        let seen = hasher.finish();
        *last = Some((Instant::now(), seen));
        Ok(seen)
    }
}

/// Result of a recent poll.
fn recent(last: Option<(Instant, u64)>) -> Option<u64> {
    last.filter(|(at, _)| at.elapsed() < INTERVAL_OF_ALL / 2).map(|(_, seen)| seen)
}
