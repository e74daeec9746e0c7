//! Derivation of events: compares a record with the last state for which events exist.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use tunesmith_algorithms::problem::ProblemStatement;
use tunesmith_domain::{Job, JobState, Study, StudyState, Trial, TrialId, TrialState};

use crate::event::{Event, EventData, EventKind};
use crate::service::is_better;

/// Maximum time between the end of a trial and its visibility in the store. A guess: clocks of servers are synchronised,
/// and transactions take less than a second.
const COMMIT_DELAY: SignedDuration = SignedDuration::from_secs(60);

/// The last state of a job or study for which events exist.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cursor {
    /// Version of the form: 1.
    pub(crate) version: u32,
    /// Key of the job or study; see [`crate::service`].
    pub(crate) subject: String,
    /// Tells the subject from a later one with the same name.
    pub(crate) created: Timestamp,
    #[serde(default)]
    is_announced: bool,
    /// Start of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    started: Option<Timestamp>,
    /// End of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<Timestamp>,
    /// Whether the study has ended, and how often.
    #[serde(default)]
    is_study_ended: bool,
    #[serde(default)]
    study_ends: u64,
    /// Revision of the study up to which trials were compared.
    #[serde(default)]
    pub(crate) study_revision: u64,
    /// Number of the trial with the best result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) best: Option<TrialId>,
    /// Time of the last complete comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) looked: Option<Timestamp>,
}

/// Events of one comparison, none older than `since`.
pub(crate) struct Derived {
    since: Timestamp,
    created: Timestamp,
    pub(crate) events: Vec<Event>,
}

impl Derived {
    fn add(&mut self, kind: EventKind, at: Timestamp, data: EventData) {
        if at >= self.since {
            self.events.push(Event::new(kind, at, self.created, &at, data));
        }
    }
}

impl Cursor {
    /// Cursor of a subject without events.
    pub(crate) fn new(subject: String, created: Timestamp) -> Self {
        Self {
            version: 1,
            subject,
            created,
            is_announced: false,
            started: None,
            ended: None,
            is_study_ended: false,
            study_ends: 0,
            study_revision: 0,
            best: None,
            looked: None,
        }
    }

    /// Begins a comparison that ignores events before `since`.
    pub(crate) fn derive(&self, since: Timestamp) -> Derived {
        // A trial that changes again long after its end was seen at its end.
        let seen = self.looked.and_then(|looked| looked.checked_sub(COMMIT_DELAY).ok());
        Derived { since: seen.map_or(since, |seen| seen.max(since)), created: self.created, events: Vec::new() }
    }

    /// Whether `other` differs at most in the time of the comparison.
    pub(crate) fn is_same_position(&self, other: &Self) -> bool {
        *self == Self { looked: self.looked, ..other.clone() }
    }

    /// Creation and start of `job`.
    pub(crate) fn begin_job(&mut self, job: &Job, derived: &mut Derived) {
        if !self.is_announced {
            self.is_announced = true;
            derived.add(EventKind::JobCreated, job.create_time, EventData::of_job(job));
        }
        if let Some(started) = job.start_time.filter(|started| self.started != Some(*started)) {
            self.started = Some(started);
            derived.add(EventKind::JobStarted, started, EventData::of_job(job));
        }
    }

    /// End of `job`.
    pub(crate) fn end_job(&mut self, job: &Job, derived: &mut Derived) {
        let kind = match job.state {
            JobState::Succeeded => EventKind::JobSucceeded,
            JobState::Failed => EventKind::JobFailed,
            JobState::Cancelled => EventKind::JobCancelled,
            JobState::Queued | JobState::Preparing | JobState::Running | JobState::Cancelling => {
                self.ended = None;
                return;
            }
        };
        let ended = job.end_time.unwrap_or(job.create_time);
        if self.ended != Some(ended) {
            self.ended = Some(ended);
            derived.add(kind, ended, EventData::of_job(job));
        }
    }

    pub(crate) fn begin_study(&mut self, study: &Study, derived: &mut Derived) {
        if !self.is_announced {
            self.is_announced = true;
            derived.add(EventKind::StudyCreated, study.create_time, EventData::of_study(study));
        }
    }

    /// End of `study`, found at `now`: studies have no time of their end.
    pub(crate) fn end_study(&mut self, study: &Study, is_known: bool, now: Timestamp, derived: &mut Derived) {
        let kind = match study.state {
            StudyState::Active => None,
            StudyState::Inactive => Some(EventKind::StudyStopped),
            StudyState::Completed => Some(EventKind::StudyCompleted),
        };
        let was_ended = std::mem::replace(&mut self.is_study_ended, kind.is_some());
        let Some(kind) = kind.filter(|_| !was_ended) else { return };
        self.study_ends += 1;
        // A study that ended before there were webhooks has no event.
        if is_known || study.create_time >= derived.since {
            let data = EventData::of_study(study);
            derived.events.push(Event::new(kind, now, self.created, &self.study_ends, data));
        }
    }

    /// Ends of `trials`, ordered by revision. `best` is the trial with the best earlier result.
    pub(crate) fn trials(
        &mut self,
        problem: &ProblemStatement,
        trials: Vec<Trial>,
        best: &mut Option<Trial>,
        data: &EventData,
        derived: &mut Derived,
    ) {
        for trial in trials {
            self.study_revision = self.study_revision.max(trial.revision);
            let Some(ended) = trial.end_time else { continue };
            match trial.state {
                TrialState::Succeeded => {
                    derived.add(EventKind::TrialCompleted, ended, data.with_trial(&trial));
                    if is_better(problem, &trial, best.as_ref()) {
                        derived.add(EventKind::TrialBest, ended, data.with_trial(&trial));
                        self.best = Some(trial.id);
                        *best = Some(trial);
                    }
                }
                TrialState::Infeasible => derived.add(EventKind::TrialFailed, ended, data.with_trial(&trial)),
                TrialState::Requested | TrialState::Active | TrialState::Stopping | TrialState::Deleted => {}
            }
        }
    }
}
