//! Follows the logs of a job until the job has ended.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;

use super::error::ClientError;
use super::request::{last_segment, list, text};
use super::service::Client;
use crate::cli::output::{notice, write_line};
use tunesmith_domain::JobState;
use tunesmith_service::job_logs::MASTER;

/// Maximum time to wait for a server that stopped responding. It may be restarting.
const SERVER_PATIENCE: Duration = Duration::from_secs(60);

/// The lines to print.
#[derive(Debug, Args)]
pub(super) struct SelectionArgs {
    /// Print the output of this trial only.
    #[arg(long, value_name = "N")]
    trial: Option<u64>,
    /// Print the output of this task only, such as master-0, worker-0, ps-0 or evaluator-0.
    #[arg(long, value_name = "TASK")]
    task_name: Option<String>,
    /// Seconds between two requests.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5, value_parser = polling_interval)]
    polling_interval: f64,
    /// Print the label of a message once: lines that start with a space or a tab, and the last line of a Python traceback,
    /// belong to the message before them. Without it, every line is labelled.
    #[arg(long)]
    allow_multiline_logs: bool,
}

/// The lines to print, and the polling interval.
#[derive(Debug, Clone)]
pub(super) struct Selection {
    /// Only this trial.
    pub(super) trial: Option<u64>,
    /// Only this task.
    pub(super) task: Option<String>,
    /// Time between two requests.
    pub(super) interval: Duration,
    /// Whether a message of several lines is labelled once.
    pub(super) multiline: bool,
}

/// The logs of a job, with the position up to which each was printed.
pub(super) struct LogStream<'a> {
    client: &'a Client,
    /// ID of the job.
    id: String,
    /// Path of the job's logs.
    logs: String,
    /// The last line about the job's state before it runs.
    waiting: Option<String>,
    selection: Selection,
    /// By the name of the log.
    printed: BTreeMap<String, Printed>,
    /// Time of the last response, by the clock of the service.
    read_time: String,
}

#[derive(Default)]
struct Printed {
    offset: u64,
    /// The incomplete last line.
    line: String,
    message: Message,
}

/// The message that the last printed line of a log belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Message {
    /// There is none yet, or it is complete.
    #[default]
    None,
    /// Indented lines may follow.
    Open,
    /// A Python traceback: indented lines follow, and then one line with the exception.
    Traceback,
}

impl Message {
    /// Returns whether `line` belongs to this message, and the message after it.
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

impl SelectionArgs {
    /// Returns the selection.
    pub(super) fn selection(&self) -> Selection {
        Selection {
            trial: self.trial,
            task: self.task_name.as_deref().map(task_name),
            interval: Duration::from_secs_f64(self.polling_interval),
            multiline: self.allow_multiline_logs,
        }
    }
}

impl<'a> LogStream<'a> {
    /// Creates a stream of the logs of the job `id`, from their beginning.
    pub(super) fn new(client: &'a Client, id: &str, selection: Selection) -> Self {
        let logs = client.path(&["jobs", id, "logs"]);
        Self {
            client,
            id: id.to_owned(),
            logs,
            waiting: None,
            selection,
            printed: BTreeMap::new(),
            read_time: String::new(),
        }
    }

    /// Writes new lines to `output` until the job has ended, and returns its final state.
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
                    tokio::time::sleep(self.selection.interval).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            silent_since = None;
            if state.is_final() {
                // Reads all logs once more, because the clocks of the server and the file system may differ.
                self.read_time.clear();
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
            tokio::time::sleep(self.selection.interval).await;
        }
    }

    /// Prints what a job that does not run yet waits for, whenever that changes.
    async fn tell_waiting(&mut self) {
        // A failed request is repeated with the next one for the logs, which reports the failure.
        let Ok(job) = self.client.get(&self.client.path(&["jobs", &self.id]), &[]).await else { return };
        let line = waiting_text(&self.id, &job);
        if line != self.waiting {
            if let Some(line) = &line {
                notice(line);
            }
            self.waiting = line;
        }
    }

    fn may_come_back(&self, error: &anyhow::Error, silent_since: Option<Instant>) -> bool {
        !self.read_time.is_empty()
            && error.downcast_ref::<ClientError>().is_some_and(ClientError::is_transient)
            && silent_since.is_none_or(|since| since.elapsed() < SERVER_PATIENCE)
    }

    /// Writes the new lines of all logs, and returns the state that the job had before.
    async fn print_new_lines(&mut self, output: &mut impl Write) -> anyhow::Result<JobState> {
        let trial = self.selection.trial.map(|trial| trial.to_string()).unwrap_or_default();
        let mut query = vec![("trial", trial), ("task", self.selection.task.clone().unwrap_or_default())];
        query.push(("modifiedSince", self.read_time.clone()));
        query.retain(|(_, value)| !value.is_empty());
        let (mut first, mut page_token) = (None, String::new());
        loop {
            let mut query: Vec<(&str, &str)> = query.iter().map(|(name, value)| (*name, value.as_str())).collect();
            if !page_token.is_empty() {
                query.push(("pageToken", &page_token));
            }
            let page = self.client.get(&self.logs, &query).await?;
            for log in list(&page, "logs") {
                self.print_log(log, output).await?;
            }
            page_token = text(&page, "nextPageToken").to_owned();
            let first = first.get_or_insert(page);
            if page_token.is_empty() {
                self.read_time = text(first, "readTime").to_owned();
                return Ok(text(first, "jobState").parse()?);
            }
        }
    }

    /// Writes the new lines of one log.
    async fn print_log(&mut self, log: &Value, output: &mut impl Write) -> anyhow::Result<()> {
        let name = last_segment(text(log, "name")).to_owned();
        let size: u64 = text(log, "sizeBytes").parse().unwrap_or_default();
        let label = label(&name);
        let path = format!("{}/{name}", self.logs);
        let printed = self.printed.entry(name).or_default();
        while printed.offset < size {
            let chunk = self.client.get(&path, &[("offset", &printed.offset.to_string())]).await?;
            let next = text(&chunk, "nextOffset").parse().unwrap_or(printed.offset);
            if next <= printed.offset {
                break;
            }
            printed.offset = next;
            printed.line.push_str(text(&chunk, "text"));
            if let Some((whole, rest)) = printed.line.rsplit_once('\n') {
                for line in whole.split('\n') {
                    let (continues, message) = printed.message.next(line);
                    printed.message = message;
                    if continues && self.selection.multiline {
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

/// Returns what a job that does not run yet waits for.
fn waiting_text(id: &str, job: &Value) -> Option<String> {
    let ahead = text(job, "jobPosition").parse::<u64>().ok();
    match (text(job, "state"), ahead) {
        ("PREPARING", _) => Some(format!("job {id} installs its packages")),
        ("QUEUED", Some(1)) => Some(format!("job {id} waits: 1 job is ahead of it")),
        ("QUEUED", Some(ahead)) if ahead > 0 => Some(format!("job {id} waits: {ahead} jobs are ahead of it")),
        ("QUEUED", Some(_)) => Some(format!("job {id} waits for a free slot")),
        _ => None,
    }
}

/// Returns the label of the lines of a log: its trial, and its task unless that is the master.
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

/// Returns the name of a task in the service. Accepts AI Platform's `worker-replica-0`, too.
fn task_name(given: &str) -> String {
    given.replace("-replica-", "-")
}

#[cfg(test)]
mod tests {
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
            waiting_text("j", &serde_json::json!({"state": state, "jobPosition": position})).unwrap_or_default()
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
