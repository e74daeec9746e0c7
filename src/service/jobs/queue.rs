//! The order in which jobs are begun.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::domain::{Job, JobId};
use crate::service::JobPlan;

/// Higher priority first, then the older one, then by name.
type Place = (Reverse<i32>, Timestamp, JobId);

/// The jobs that wait.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// With the time until when each may wait.
    places: BTreeMap<Place, Option<Timestamp>>,
}

impl Queue {
    /// Adds a job. One that has run before does not wait against the clock.
    pub(super) fn push(&mut self, job: &Job, plan: &JobPlan) {
        let waits = plan.max_wait_time.filter(|_| job.start_time.is_none());
        let until = waits.and_then(|time| job.create_time.checked_add(time).ok());
        self.places.insert((Reverse(plan.priority), job.create_time, job.id.clone()), until);
    }

    /// Takes the job that is to be begun next.
    pub(super) fn pop(&mut self) -> Option<JobId> {
        self.places.pop_first().map(|((_, _, id), _)| id)
    }

    /// Takes `job` away, and tells whether it was there.
    pub(super) fn remove(&mut self, job: &JobId) -> bool {
        let before = self.places.len();
        self.places.retain(|(_, _, id), _| id != job);
        self.places.len() < before
    }

    /// How many jobs are begun before `job`; `None` if it does not wait.
    pub(super) fn position(&self, job: &JobId) -> Option<usize> {
        self.places.keys().position(|(_, _, id)| id == job)
    }

    /// Takes a job away that has waited for too long at `now`.
    pub(super) fn pop_overdue(&mut self, now: Timestamp) -> Option<JobId> {
        let overdue = self.places.iter().find(|(_, until)| until.is_some_and(|until| until <= now));
        let place = overdue.map(|(place, _)| place.clone())?;
        self.places.remove(&place);
        Some(place.2)
    }

    /// When the first job will have waited for too long.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.places.values().flatten().min().copied()
    }
}
