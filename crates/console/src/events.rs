//! Streams of events: a page learns that what it shows has changed, and loads its changed parts again.
//!
//! An event has no content, so that every stream costs the same: a look at the revisions of a job and its study, two reads by
//! key, once a second. The pages of all jobs and studies share one look. Other servers on the same store are seen in the same way.

use std::collections::hash_map::DefaultHasher;
use std::convert::Infallible;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep};

use super::errors::PageError;
use super::router::{Console, Visit};
use super::subject::{Named, Subject};
use tunesmith_access::{PerPrincipal, Permission};
use tunesmith_domain::{JobId, Study, StudyId};
use tunesmith_http::pages::PageCall;

/// Maximum number of open streams, and of those of one principal. A page without one loads its parts again from time to time.
const MOST: usize = 256;
const MOST_OF_PRINCIPAL: usize = 16;

/// Time between two looks at a job.
const INTERVAL: Duration = Duration::from_secs(1);

/// Time between two looks at all jobs.
const INTERVAL_OF_ALL: Duration = Duration::from_secs(2);

/// Time after which a stream without an event sends a comment, by which both ends notice that the other one is gone.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The open streams.
#[derive(Clone)]
pub(crate) struct Streams {
    slots: Arc<Semaphore>,
    of_principals: Arc<PerPrincipal>,
    ended: watch::Receiver<bool>,
    /// The last look at all jobs.
    all: Arc<tokio::sync::Mutex<Option<(Instant, u64)>>>,
}

impl Streams {
    /// The slot of a stream of `principal`; `None` if there are too many.
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

/// The slot of an open stream, which is free once this value is dropped.
struct Slot {
    _own: Option<OwnedSemaphorePermit>,
    _of_all: OwnedSemaphorePermit,
}

/// What a stream is about.
#[derive(Clone)]
enum Watched {
    All,
    Job(JobId),
    Study(StudyId),
}

pub(crate) async fn all(State(console): State<Console>, parts: Parts) -> Response {
    let call = PageCall::of_all("console.events");
    let show = {
        let call = call.clone();
        async move |console, visit| open(console, visit, call, Watched::All).await
    };
    console.show(call, parts, show).await
}

pub(crate) async fn of_one(State(console): State<Console>, Path(named): Path<Named>, parts: Parts) -> Response {
    let call = named.call("console.events", Permission::StudiesGet);
    let opened = call.clone();
    let show = async move |console: Console, visit: Visit| {
        let watched = match console.subject(&named).await? {
            Subject::Job { job, .. } => Watched::Job(job.id.clone()),
            Subject::Study(study) => Watched::Study(study.id.clone()),
        };
        open(console, visit, opened, watched).await
    };
    console.show(call, parts, show).await
}

struct Stream {
    console: Console,
    watched: Watched,
    seen: u64,
    last_sent: Instant,
    /// The request that opened the stream, which ends when its visitor may no longer make it.
    call: PageCall,
    parts: Parts,
    _slot: Slot,
}

async fn open(console: Console, visit: Visit, call: PageCall, watched: Watched) -> Result<Response, PageError> {
    let Some(slot) = console.streams.slot(visit.visitor.principal()) else {
        let text = "too many pages are open; this one is loaded again from time to time";
        let mut response = (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("30"));
        return Ok(response);
    };
    let seen = console.look(&watched).await.unwrap_or_default();
    let parts = visit.parts;
    let stream = Stream { console, watched, seen, last_sent: Instant::now(), call, parts, _slot: slot };
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
    /// The next event; `None` when the server ends, what it is about no longer exists, or the visitor may no longer see it.
    async fn next(&mut self) -> Option<&'static [u8]> {
        let interval = match self.watched {
            Watched::All => INTERVAL_OF_ALL,
            Watched::Job(_) | Watched::Study(_) => INTERVAL,
        };
        let mut ended = self.console.streams.ended.clone();
        loop {
            tokio::select! {
                _ = ended.wait_for(|ended| *ended) => return None,
                () = sleep(interval) => {}
            }
            if !self.console.pages.still_admits(self.call.clone(), &self.parts).await {
                return None;
            }
            match self.console.look(&self.watched).await {
                Ok(now) if now != self.seen => {
                    self.seen = now;
                    self.last_sent = Instant::now();
                    return Some(b"event: changed\ndata: \n\n");
                }
                Ok(_) => {}
                Err(PageError::NotFound(_)) => return None,
                // The store may answer again.
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
    /// A number that changes with what is watched.
    async fn look(&self, watched: &Watched) -> Result<u64, PageError> {
        let id = match watched {
            Watched::Job(id) => id,
            Watched::Study(id) => return Ok(self.studies.study(id).await?.revision),
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

    /// As [`Self::look`], for all jobs and studies. Streams that look at the same time share the result.
    async fn look_at_all(&self) -> Result<u64, PageError> {
        let mut last = self.streams.all.lock().await;
        if let Some((at, seen)) = *last
            && at.elapsed() < INTERVAL_OF_ALL / 2
        {
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
        self.studies.pick(look).await?;
        self.jobs.load().slots.hash(&mut hasher);
        let seen = hasher.finish();
        *last = Some((Instant::now(), seen));
        Ok(seen)
    }
}
