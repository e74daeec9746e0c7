//! Submission records.

use std::io;
use std::path::PathBuf;

use super::entrypoint::{prefix, record_name};
use tunesmith_domain::JobId;
use tunesmith_executor::remote::{AgentId, Submitted, random_name};

/// Suffix of the record of a submission that Ray acknowledged.
const ACKNOWLEDGED: &str = " acknowledged";

/// Records each agent's submission.
///
/// Submission IDs end in a random suffix: Ray follows a job's end by ID for another second, so a job reusing the ID
/// of a just deleted one would be taken for dead.
#[derive(Debug)]
pub(super) struct Submissions {
    records: Submitted,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Submission {
    record: String,
    /// Submission ID at Ray.
    pub(super) name: String,
    pub(super) is_acknowledged: bool,
}

impl Submission {
    /// Parses `note`, the content of `record`.
    fn new(record: String, note: &str) -> Self {
        let random = note.strip_suffix(ACKNOWLEDGED);
        let name = format!("{record}-{}", random.unwrap_or(note));
        Self { record, name, is_acknowledged: random.is_some() }
    }
}

impl Submissions {
    /// Opens the records in `folder`, without doing IO.
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { records: Submitted::new(folder) }
    }

    pub(super) fn of(&self, id: &AgentId) -> io::Result<Option<Submission>> {
        let record = record_name(self.records.identity()?, id);
        Ok(self.records.note(&record)?.map(|note| Submission::new(record, &note)))
    }

    /// Submission of `id`, recorded on first use.
    pub(super) fn start(&self, id: &AgentId) -> io::Result<Submission> {
        let record = record_name(self.records.identity()?, id);
        let note = self.records.add_once(&record, &random_name()?)?;
        Ok(Submission::new(record, &note))
    }

    pub(super) fn acknowledge(&self, submission: &Submission) -> io::Result<()> {
        let random = &submission.name[submission.record.len() + 1..];
        self.records.add(&submission.record, &format!("{random}{ACKNOWLEDGED}"))
    }

    pub(super) fn mark_stopped(&self, submission: &Submission) -> io::Result<()> {
        self.records.mark_stopped(&submission.record)
    }

    pub(super) fn was_stopped(&self, submission: &Submission) -> io::Result<bool> {
        self.records.was_stopped(&submission.record)
    }

    pub(super) fn of_job(&self, job: &JobId) -> io::Result<Vec<Submission>> {
        let mut found = Vec::new();
        for record in self.records.starting_with(&prefix(self.records.identity()?, job))? {
            if let Some(note) = self.records.note(&record)? {
                found.push(Submission::new(record, &note));
            }
        }
        Ok(found)
    }

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
