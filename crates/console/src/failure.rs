//! Why a job failed: the end of the output of a failed trial, or of its only program.

use super::console::Console;
use super::errors::PageError;
use super::subject::Subject;
use tunesmith_algorithms::problem::TrialId;
use tunesmith_domain::{JobState, Trial};

/// Number of the latest trials that are searched for a failed one.
const SEARCHED: usize = 200;

/// Number of lines shown.
const LINES: usize = 20;

pub(crate) struct Failure {
    /// Number of the failed trial; `None` for a job without trials.
    pub(crate) trial: Option<u64>,
    /// Source of the lines, such as `stderr of master`; empty without output.
    pub(crate) source: String,
    /// Last lines; empty if the program printed nothing.
    pub(crate) text: String,
    pub(crate) is_cut: bool,
}

impl Console {
    /// Failure of `subject`; `None` unless it is a failed job, or a job whose trials have all failed so far.
    pub(crate) async fn failure_of(
        &self,
        subject: &Subject,
        has_only_failures: bool,
    ) -> Result<Option<Failure>, PageError> {
        let Some(job) = subject.job() else { return Ok(None) };
        if job.state != JobState::Failed && !has_only_failures {
            return Ok(None);
        }
        let trial = match subject.study() {
            Some(study) => {
                let after = study.next_trial_id.0.saturating_sub(SEARCHED as u64 + 1);
                let latest = self.studies.trial_page(&study.id, TrialId(after), SEARCHED).await?;
                // Trials that ended with the job name its reason.
                let is_consequence = |trial: &Trial| {
                    let reason = trial.infeasible_reason.as_deref().unwrap_or_default();
                    !job.error_message.is_empty() && reason.contains(&job.error_message)
                };
                let failed = || latest.trials.iter().rev().filter(|trial| trial.has_failed());
                let found = failed().find(|trial| !is_consequence(trial)).or_else(|| failed().next());
                // It may have failed before any trial did.
                let Some(found) = found else { return Ok(None) };
                Some(found.id.0)
            }
            None => None,
        };
        let logs = self.logs(&job.id, trial).await?;
        // Programs report errors on stderr, where the last attempt is first.
        let log = logs.iter().find(|log| log.stream == "stderr").or(logs.first());
        let (text, is_cut) = log.map(|log| last_lines(&log.text, LINES)).unwrap_or_default();
        let source = log.map(|log| format!("{} of {}, attempt {}", log.stream, log.task, log.attempt));
        Ok(Some(Failure { trial, source: source.unwrap_or_default(), text, is_cut }))
    }
}

/// The last `count` lines of `text`, and whether there are more.
fn last_lines(text: &str, count: usize) -> (String, bool) {
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.len().saturating_sub(count);
    (lines[first..].join("\n"), first > 0)
}

#[cfg(test)]
mod tests {
    use super::last_lines;

    #[test]
    fn end_of_a_log_has_whole_lines() {
        assert_eq!(last_lines("a\nb\nc\n", 2), ("b\nc".to_owned(), true));
        assert_eq!(last_lines("a\nb", 2), ("a\nb".to_owned(), false));
        assert_eq!(last_lines("", 2), (String::new(), false));
    }
}
