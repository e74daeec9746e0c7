//! Overview: running, needing attention, queued and ended.

use std::cmp::Reverse;

use askama::Template;
use axum::response::Response;
use jiff::{SignedDuration, Timestamp};

use super::console::{Console, rendered};
use super::errors::PageError;
use super::frame::{Frame, Section};
use super::jobs::Found;
use super::summary::ListRow;
use super::visit::Visit;
use tunesmith_access::Permission;
use tunesmith_domain::{JobId, JobState, Study, StudyId, StudyState};

const MOST: usize = 12;

/// Time for which a failed job needs attention.
const ATTENTION: SignedDuration = SignedDuration::from_hours(24 * 7);

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    frame: Frame,
    /// Error of a store that rejects writes.
    fault: Option<String>,
    counts: Counts,
    slots: Option<(usize, usize)>,
    attention: Vec<ListRow>,
    running: Vec<ListRow>,
    queued: Vec<ListRow>,
    ended: Vec<ListRow>,
    /// Newest studies without a job, active ones first.
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

pub(crate) async fn show(console: Console, visit: Visit, (): ()) -> Result<Response, PageError> {
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
    let jobs = |ids: &[&JobId]| ids.iter().map(|id| Found::Job((*id).clone())).collect::<Vec<_>>();
    let page = OverviewPage {
        frame: visit.frame("Overview", Section::Overview),
        fault,
        counts,
        slots: load.slots,
        attention: console.rows(jobs(&attention)).await?,
        running: console.rows(jobs(&running)).await?,
        queued: console.rows(jobs(&queued)).await?,
        ended: console.rows(jobs(&ended)).await?,
        studies: console.rows(studies.into_iter().map(Found::Study)).await?,
    };
    Ok(rendered(&page))
}

impl Console {
    /// Rows of the first entries of `found`, without those deleted in the meantime.
    async fn rows(&self, found: impl IntoIterator<Item = Found>) -> Result<Vec<ListRow>, PageError> {
        let mut rows = Vec::new();
        for found in found.into_iter().take(MOST) {
            match self.row_of(&found).await {
                Ok(row) => rows.push(row),
                Err(PageError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(rows)
    }

    /// Visible studies without a job: active ones first, newest first.
    async fn studies_of(&self, visit: &Visit) -> Result<Vec<StudyId>, PageError> {
        let visitor = &visit.visitor;
        let found = self.studies.pick(None, |study: Study| {
            let may_see = visitor.may(Permission::StudiesGet, study.id.parts().0);
            may_see.then(|| (study.state != StudyState::Active, Reverse(study.create_time), study.id.clone()))
        });
        let mut found = found.await?;
        found.sort();
        Ok(found.into_iter().map(|(_, _, id)| id).collect())
    }
}
