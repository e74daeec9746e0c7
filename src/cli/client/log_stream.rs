//! Log streaming until the job ends.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

use clap::Args;

use crate::cli::output::{notice, write_line};
use tunesmith_api::ai_platform::job::JobResource;
use tunesmith_api::ai_platform::logs::JobLog;
use tunesmith_client::{Client, ClientError, LogSelection};
use tunesmith_domain::JobState;
use tunesmith_jobs::job_logs::MASTER;

/// Retry limit for an unresponsive server, which may be restarting.
const SERVER_PATIENCE: Duration = Duration::from_secs(60);

/// The lines to print.
#[derive(Debug, Args)]
pub(super) struct SelectionArgs {
    /// Print only the output of this trial.
    #[arg(long, value_name = "N")]
    trial: Option<u64>,
    /// Print only the output of this task, such as master-0, worker-0, ps-0 or evaluator-0.
    #[arg(long, value_name = "TASK")]
    task_name: Option<String>,
    /// Polling interval in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5, value_parser = polling_interval)]
    polling_interval: f64,
    /// Label multi-line messages once: lines that start with a space or tab, and the last line of a Python traceback,
    /// belong to the preceding message. Otherwise, every line is labelled.
    #[arg(long)]
    allow_multiline_logs: bool,
}

/// The logs of a job and the position printed up to in each.
pub(super) struct LogStream<'a> {
    client: &'a Client,
    id: String,
    /// Last line printed about a job that is not yet running.
    waiting: Option<String>,
    /// Filter; after the first response, only logs modified since then by the server's clock.
    selection: LogSelection,
    /// Polling interval.
    interval: Duration,
    /// Whether multi-line messages are labelled once.
    multiline: bool,
    printed: BTreeMap<String, Printed>,
}

#[derive(Default)]
struct Printed {
    offset: u64,
    /// Incomplete last line.
    line: String,
    message: Message,
}

/// Message that the last line of a log belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Message {
    /// No open message.
    #[default]
    None,
    /// Indented lines may follow.
    Open,
    /// Python traceback: indented lines, then one line with the exception.
    Traceback,
}

impl Message {
    /// Returns whether `line` belongs to this message, and the message that follows.
    fn next(self, line: &str) -> (bool, Self) {
        let is_indented = line.starts_with([' ', '\t']) && !line.trim().is_empty();
        match self {
            Self::Open | Self::Traceback if is_indented => (true, self),
            Self::Traceback => (true, Self::None),
            Self::None | Self::Open if line.starts_with("Traceback (most recent call last):") => {
                (false, Self::Traceback)
            }
            Self::None | Self::Open => (false, Self::Open),
        }
    }
}

impl<'a> LogStream<'a> {
    /// Streams the logs of job `id` from the beginning.
    pub(super) fn new(client: &'a Client, id: &str, args: &SelectionArgs) -> Self {
        let task = args.task_name.as_deref().map(task_name);
        Self {
            client,
            id: id.to_owned(),
            waiting: None,
            selection: LogSelection { trial: args.trial, task, modified_since: None },
            interval: Duration::from_secs_f64(args.polling_interval),
            multiline: args.allow_multiline_logs,
            printed: BTreeMap::new(),
        }
    }

    /// Writes new lines to `output` until the job ends, and returns its final state.
    pub(super) async fn follow(&mut self, output: &mut impl Write) -> anyhow::Result<JobState> {
        let mut silent_since: Option<Instant> = None;
        loop {
            let state = match self.print_new_lines(output).await {
                Ok(state) => state,
                Err(error) if self.may_come_back(&error, silent_since) => {
                    if silent_since.is_none() {
                        notice(&format!("{error}; waiting for it"));
                    }
                    silent_since = silent_since.or_else(|| Some(Instant::now()));
                    tokio::time::sleep(self.interval).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            silent_since = None;
            if state.is_final() {
                // Final full read: the clocks of the server and the file system may differ.
                self.selection.modified_since = None;
                self.print_new_lines(output).await?;
                for (name, log) in std::mem::take(&mut self.printed) {
                    if !log.line.is_empty() {
                        write_line(output, &label(&name), log.line.as_bytes())?;
                    }
                }
                return Ok(state);
            }
            if matches!(state, JobState::Queued | JobState::Preparing) {
                self.tell_waiting().await;
            }
            tokio::time::sleep(self.interval).await;
        }
    }

    /// Prints why a job is waiting, whenever the reason changes.
    async fn tell_waiting(&mut self) {
        // Ignored: the next log request reports the failure.
        let Ok(job) = self.client.job(&self.id).await else { return };
        let line = waiting_text(&job);
        if line != self.waiting {
            if let Some(line) = &line {
                notice(line);
            }
            self.waiting = line;
        }
    }

    fn may_come_back(&self, error: &anyhow::Error, silent_since: Option<Instant>) -> bool {
        self.selection.modified_since.is_some()
            && error.downcast_ref::<ClientError>().is_some_and(ClientError::is_transient)
            && silent_since.is_none_or(|since| since.elapsed() < SERVER_PATIENCE)
    }

    /// Writes the new lines of all logs, and returns the job state from before the read.
    async fn print_new_lines(&mut self, output: &mut impl Write) -> anyhow::Result<JobState> {
        let list = self.client.job_logs(&self.id, &self.selection).await?;
        for log in &list.logs {
            self.print_log(log, output).await?;
        }
        self.selection.modified_since = Some(list.read_time.to_string());
        Ok(list.job_state)
    }

    async fn print_log(&mut self, log: &JobLog, output: &mut impl Write) -> anyhow::Result<()> {
        let name = log.name.rsplit('/').next().unwrap_or_default();
        let label = label(name);
        let printed = self.printed.entry(name.to_owned()).or_default();
        while printed.offset < log.size_bytes.0.cast_unsigned() {
            let part = self.client.read_job_log(&self.id, name, printed.offset).await?;
            let next = part.next_offset.0.cast_unsigned();
            if next <= printed.offset {
                break;
            }
            printed.offset = next;
            printed.line.push_str(&part.text);
            if let Some((whole, rest)) = printed.line.rsplit_once('\n') {
                for line in whole.split('\n') {
                    let (continues, message) = printed.message.next(line);
                    printed.message = message;
                    if continues && self.multiline {
                        output.write_all(format!("{line}\n").as_bytes())?;
                        output.flush()?;
                    } else {
                        write_line(output, &label, line.as_bytes())?;
                    }
                }
                printed.line = rest.to_owned();
            }
        }
        Ok(())
    }
}

fn waiting_text(job: &JobResource) -> Option<String> {
    let JobResource { job_id, state, job_position, .. } = job;
    Some(match (state, job_position.map(|position| position.0)) {
        (JobState::Preparing, _) => format!("job {job_id} installs its packages"),
        (JobState::Queued, Some(1)) => format!("job {job_id} waits: 1 job is ahead of it"),
        (JobState::Queued, Some(ahead)) if ahead > 0 => format!("job {job_id} waits: {ahead} jobs are ahead of it"),
        (JobState::Queued, Some(_)) => format!("job {job_id} waits for a free slot"),
        _ => return None,
    })
}

/// Line label: the trial, and the task unless it is the master.
fn label(name: &str) -> String {
    let parts: Vec<&str> = name.split('.').collect();
    let task = parts.len().checked_sub(2).map_or("", |index| parts[index]);
    let what = match name.strip_prefix("trial-").and_then(|rest| rest.split('.').next()) {
        Some(trial) => format!("trial {trial}"),
        None => "job".to_owned(),
    };
    if task == MASTER { format!("[{what}]") } else { format!("[{what} {task}]") }
}

fn polling_interval(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.2..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("0.2 to 3600 seconds are allowed".to_owned()),
    }
}

/// Task name in the service. Also accepts AI Platform's `worker-replica-0`.
fn task_name(given: &str) -> String {
    given.replace("-replica-", "-")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tunesmith_api::ai_platform::proto_json::known;

    use super::*;

    #[test]
    fn indented_lines_and_the_end_of_a_traceback_belong_to_a_message() {
        let lines = [
            ("epoch 1", false),
            ("  loss 0.5", true),
            ("Traceback (most recent call last):", false),
            ("  File \"task.py\", line 1", true),
            ("ValueError: no", true),
            ("  indented without a message", false),
            ("", false),
            ("epoch 2", false),
        ];
        let mut message = Message::None;
        for (line, expected) in lines {
            let (continues, next) = message.next(line);
            assert_eq!(continues, expected, "{line}");
            message = next;
        }
    }

    #[test]
    fn waiting_job_states_its_position() {
        let waiting = |state: &str, position: Value| {
            let job = json!({"jobId": "j", "state": state, "jobPosition": position, "trainingInput": {},
                "createTime": "2026-11-26T10:00:00Z", "trainingOutput": {}});
            waiting_text(&known(job).unwrap()).unwrap_or_default()
        };
        assert_eq!(waiting("QUEUED", "2".into()), "job j waits: 2 jobs are ahead of it");
        assert_eq!(waiting("QUEUED", "1".into()), "job j waits: 1 job is ahead of it");
        assert_eq!(waiting("QUEUED", "0".into()), "job j waits for a free slot");
        assert_eq!(waiting("PREPARING", Value::Null), "job j installs its packages");
        assert_eq!(waiting("RUNNING", Value::Null), "");
    }

    #[test]
    fn lines_are_labelled_by_trial_and_task() {
        assert_eq!(label("trial-3.attempt-1.master-0.stdout"), "[trial 3]");
        assert_eq!(label("trial-3.attempt-2.worker-1.stderr"), "[trial 3 worker-1]");
        assert_eq!(label("attempt-1.master-0.stdout"), "[job]");
        assert_eq!(task_name("worker-replica-1"), "worker-1");
    }
}
