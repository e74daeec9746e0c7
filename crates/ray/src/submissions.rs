//! The submissions of attempts to a Ray cluster.

use std::io;
use std::path::PathBuf;

use super::entrypoint::{prefix, record_name};
use tunesmith_domain::JobId;
use tunesmith_executor::remote::{AgentId, Submitted, random_name};

/// What follows the random name in the note on a submission that Ray has acknowledged.
const ACKNOWLEDGED: &str = " acknowledged";

/// Records which submission each agent has.
///
/// The ID of a submission ends in a random text, since Ray follows the end of a job by its ID for another second: a job that gets the
/// ID of one that has just been deleted would be taken for dead.
#[derive(Debug)]
pub(super) struct Submissions {
    records: Submitted,
}

/// A submission that was first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Submission {
    /// The name of its record.
    record: String,
    /// Its ID at Ray.
    pub(super) name: String,
    /// Whether Ray has acknowledged it.
    pub(super) is_acknowledged: bool,
}

impl Submission {
    /// Reads `note`, the content of `record`.
    fn new(record: String, note: &str) -> Self {
        let random = note.strip_suffix(ACKNOWLEDGED);
        let name = format!("{record}-{}", random.unwrap_or(note));
        Self { record, name, is_acknowledged: random.is_some() }
    }
}

impl Submissions {
    /// The submissions that are recorded in `folder`. Does no IO.
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { records: Submitted::new(folder) }
    }

    /// The submission of `id`; `None` if none was first.
    pub(super) fn of(&self, id: &AgentId) -> io::Result<Option<Submission>> {
        let record = record_name(&self.records.identity()?, id);
        Ok(self.records.note(&record)?.map(|note| Submission::new(record, &note)))
    }

    /// The submission of `id`, which is recorded when needed.
    pub(super) fn start(&self, id: &AgentId) -> io::Result<Submission> {
        let record = record_name(&self.records.identity()?, id);
        let note = self.records.add_once(&record, &random_name()?)?;
        Ok(Submission::new(record, &note))
    }

    /// Records that Ray has acknowledged `submission`.
    pub(super) fn acknowledge(&self, submission: &Submission) -> io::Result<()> {
        let random = &submission.name[submission.record.len() + 1..];
        self.records.add(&submission.record, &format!("{random}{ACKNOWLEDGED}"))
    }

    /// Records that `submission` was asked to stop.
    pub(super) fn mark_stopped(&self, submission: &Submission) -> io::Result<()> {
        self.records.mark_stopped(&submission.record)
    }

    /// Whether `submission` was asked to stop.
    pub(super) fn was_stopped(&self, submission: &Submission) -> io::Result<bool> {
        self.records.was_stopped(&submission.record)
    }

    /// All submissions of `job`.
    pub(super) fn of_job(&self, job: &JobId) -> io::Result<Vec<Submission>> {
        let mut found = Vec::new();
        for record in self.records.starting_with(&prefix(&self.records.identity()?, job))? {
            if let Some(note) = self.records.note(&record)? {
                found.push(Submission::new(record, &note));
            }
        }
        Ok(found)
    }

    /// Removes the record of `submission`.
    pub(super) fn remove(&self, submission: &Submission) -> io::Result<()> {
        self.records.remove(&submission.record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tunesmith_executor::ExecutorJobId;

    #[test]
    fn attempt_has_one_submission_until_it_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let submissions = Submissions::new(folder.path().join("ray"));
        let job: JobId = "job".parse().unwrap();
        let id = AgentId::from(&ExecutorJobId { job: job.clone(), trial: None, attempt: 1 });
        assert_eq!(submissions.of(&id).unwrap(), None);
        let first = submissions.start(&id).unwrap();
        assert!(!first.is_acknowledged && first.name.starts_with(&first.record));
        assert_eq!(submissions.start(&id).unwrap(), first);
        submissions.acknowledge(&first).unwrap();
        let acknowledged = Submission { is_acknowledged: true, ..first };
        assert_eq!(submissions.of(&id).unwrap().as_ref(), Some(&acknowledged));
        submissions.mark_stopped(&acknowledged).unwrap();
        assert!(submissions.was_stopped(&acknowledged).unwrap());
        assert_eq!(submissions.of_job(&job).unwrap(), std::slice::from_ref(&acknowledged));
        submissions.remove(&acknowledged).unwrap();
        assert_eq!(submissions.of(&id).unwrap(), None);
        let next = submissions.start(&id).unwrap();
        assert_ne!(next.name, acknowledged.name);
        assert!(!next.is_acknowledged && !submissions.was_stopped(&next).unwrap());
    }
}
