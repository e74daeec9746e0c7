//! The overview: what runs, what needs attention, the queue, and what has ended.

use std::cmp::Reverse;

use askama::Template;
use axum::extract::State;
use axum::http::request::Parts;
use axum::response::Response;
use jiff::{SignedDuration, Timestamp};

use super::errors::PageError;
use super::frame::{Frame, Section};
use super::router::{Console, Visit, rendered};
use super::subject::Subject;
use super::summary::ListRow;
use tunesmith_access::Permission;
use tunesmith_domain::{JobId, JobState, Study, StudyId, StudyState};
use tunesmith_http::pages::PageCall;

/// Maximum number of jobs in each part of the page.
const MOST: usize = 12;

/// How long a failed job is shown as one that needs attention.
const ATTENTION: SignedDuration = SignedDuration::from_hours(24 * 7);

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    frame: Frame,
    /// Why the store takes no changes.
    fault: Option<String>,
    counts: Counts,
    slots: Option<(usize, usize)>,
    attention: Vec<ListRow>,
    running: Vec<ListRow>,
    queued: Vec<ListRow>,
    ended: Vec<ListRow>,
    /// The newest studies that belong to no job, active ones first.
    studies: Vec<ListRow>,
}

#[derive(Default)]
struct Counts {
    running: usize,
    queued: usize,
    attention: usize,
    jobs: usize,
    studies: usize,
}

struct Brief {
    id: JobId,
    state: JobState,
    changed: Timestamp,
}

pub(crate) async fn page(State(console): State<Console>, parts: Parts) -> Response {
    console.show(PageCall::of_all("console.overview"), parts, overview).await
}

async fn overview(console: Console, visit: Visit) -> Result<Response, PageError> {
    let visitor = visit.visitor.clone();
    let mut briefs = console
        .jobs
        .pick(move |job| {
            visitor.may_on(Permission::JobsGet, &job).then(|| Brief {
                state: job.state,
                changed: job.end_time.or(job.start_time).unwrap_or(job.requeue_time.unwrap_or(job.create_time)),
                id: job.id.clone(),
            })
        })
        .await?;
    briefs.sort_by_key(|brief| Reverse(brief.changed));
    let recent = console.clock.now().checked_sub(ATTENTION).unwrap_or(Timestamp::MIN);
    let load = console.jobs.load();
    let mut ids: [Vec<&JobId>; 4] = Default::default();
    for brief in &briefs {
        let part = match brief.state {
            JobState::Running | JobState::Preparing | JobState::Cancelling => 1,
            JobState::Queued => 2,
            JobState::Failed if brief.changed >= recent => 0,
            JobState::Succeeded | JobState::Failed | JobState::Cancelled => 3,
        };
        ids[part].push(&brief.id);
    }
    let place = |id: &JobId| load.queued.iter().position(|queued| queued == id).unwrap_or(usize::MAX);
    ids[2].sort_by_key(|id| place(id));
    let counts =
        Counts { attention: ids[0].len(), running: ids[1].len(), queued: ids[2].len(), jobs: briefs.len(), studies: 0 };
    let [attention, running, queued, ended] = ids;
    let studies = console.studies_of(&visit).await?;
    let counts = Counts { studies: studies.len(), ..counts };
    let condition = console.jobs.store_condition();
    let fault = condition.borrow().fault().map(ToString::to_string);
    let page = OverviewPage {
        frame: Frame::new("Overview", Section::Overview, &visit.visitor, &visit.parts),
        fault,
        counts,
        slots: load.slots,
        attention: console.rows(&attention).await?,
        running: console.rows(&running).await?,
        queued: console.rows(&queued).await?,
        ended: console.rows(&ended).await?,
        studies: console.rows_of_studies(&studies).await?,
    };
    Ok(rendered(&page))
}

impl Console {
    /// The rows of the first of `ids`. Jobs that were deleted since are left out.
    async fn rows(&self, ids: &[&JobId]) -> Result<Vec<ListRow>, PageError> {
        let mut rows = Vec::new();
        for id in ids.iter().take(MOST) {
            match self.jobs.job(id).await.map_err(PageError::from) {
                Ok(job) => rows.push(self.row(&self.subject_of_job(job).await?).await?),
                Err(PageError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(rows)
    }

    /// The studies without a job that the visitor may see: active ones first, newest first.
    async fn studies_of(&self, visit: &Visit) -> Result<Vec<StudyId>, PageError> {
        let visitor = &visit.visitor;
        let found = self.studies.pick(|study: Study| {
            let may_see = visitor.may(Permission::StudiesGet, study.id.parts().0);
            may_see.then(|| (study.state != StudyState::Active, Reverse(study.create_time), study.id.clone()))
        });
        let mut found = found.await?;
        found.sort();
        Ok(found.into_iter().map(|(_, _, id)| id).collect())
    }

    /// As [`Self::rows`], for studies.
    async fn rows_of_studies(&self, ids: &[StudyId]) -> Result<Vec<ListRow>, PageError> {
        let mut rows = Vec::new();
        for id in ids.iter().take(MOST) {
            match self.studies.study(id).await.map_err(PageError::from) {
                Ok(study) => rows.push(self.row(&Subject::Study(study)).await?),
                Err(PageError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(rows)
    }
}
