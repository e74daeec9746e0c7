//! Messages between the trial agent and the server.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ai_platform::optimizer::{FieldViolation, MAX_METRICS};
use crate::ai_platform::{Double, Int64};
use tunesmith_domain::{
    AgentCommand, AgentEnd, AgentReport, AgentResponse, ExecutorJobId, ExitStatus, JobId, LogName, LogPiece,
    LogPosition, LogStream, MAX_FOLDER_BYTES, Measurement, MetricValue, ProgramEnd, ReportKey, StopReason, TrialId,
};

/// Maximum length of a node name in characters, as in DNS.
const MAX_NODE_LENGTH: usize = 253;

/// Limits on the lists of a report. Agents send at most 1,000 measurements and one part of each log.
const MAX_MEASUREMENTS: usize = 10_000;
const MAX_LOG_PARTS: usize = 2_000;
const MAX_SEEN_TAGS: usize = 10_000;
const MAX_PROBLEMS: usize = 1_000;

/// Length in characters to which notices, problems and reasons are truncated. They are logged and shown.
const MAX_TEXT_LENGTH: usize = 1_000;

/// Report of an agent: heartbeat and everything new.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "SyncAttemptRequest")]
pub struct SyncRequest {
    /// Task of the agent's replica, such as `worker-0`; empty for an agent that runs the whole attempt.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub task: String,
    /// Name of the node, in the first report; empty afterwards. At most 253 characters.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// Address and port of this replica for the other ones, such as `10.0.0.7:2222`, until the response contains those
    /// of all replicas; empty otherwise.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// Parts of logs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<LogPart>,
    /// Index of the first of `measurements` within the attempt, from 0.
    pub first_measurement: Int64,
    /// Consecutive measurements, in order of arrival.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub measurements: Vec<NumberedMeasurement>,
    /// Names of metrics seen but not yet reported.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub seen_tags: Vec<String>,
    /// Read errors not yet reported.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// Preemption notice, such as `SIGTERM`; empty without one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub preempted: String,
    /// End of the program, once everything else was received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<EndMessage>,
}

/// A part of a log.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct LogPart {
    /// Task, such as `master-0`.
    pub task: String,
    /// `stdout` or `stderr`.
    pub stream: String,
    /// Offset of the first byte.
    pub offset: Int64,
    /// Number of bytes before that offset that were removed because the log exceeded its quota.
    #[serde(skip_serializing_if = "is_none_removed")]
    pub removed: Int64,
    /// Bytes in base64.
    pub data: String,
}

/// A measurement of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NumberedMeasurement {
    /// Training step, not negative.
    pub step: Int64,
    /// Time of the report by the trainer's clock, in seconds since 1970; 0 if unknown.
    #[serde(default)]
    pub wall_time: Double,
    /// Seconds since the start of the trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed: Option<Double>,
    /// `METRIC_FILE`, `EVENT_FILE`, `STANDARD_OUTPUT` or `HTTP`.
    pub source: String,
    /// Byte offset of a line of standard output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<Int64>,
    /// Folder of an event file relative to the trial's folder, `.` for that folder; at most 512 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Values of the metrics.
    pub metrics: Vec<MetricPart>,
}

/// Value of one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricPart {
    /// Name of the metric.
    pub metric: String,
    /// Value; `"NaN"`, `"Infinity"` and `"-Infinity"` are allowed.
    pub value: Double,
}

/// End of an attempt: exactly one of `exitCode`, `signal`, `outOfMemory`, `notStarted`, `preempted` and `lost`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct EndMessage {
    /// Exit code of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Signal that killed the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Whether the kernel killed the program for lack of memory.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub out_of_memory: bool,
    /// Reason the program could not be started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_started: Option<String>,
    /// Preemption notice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preempted: Option<String>,
    /// Reason the program was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// `REQUESTED` or `TIME_LIMIT` if the agent stopped the program; empty otherwise.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stopped: String,
}

/// Name of a run: `trial-3.attempt-1`, or `attempt-1` in a job without hyperparameters.
pub fn run_name(id: &ExecutorJobId) -> String {
    match id.trial {
        Some(trial) => format!("trial-{trial}.attempt-{}", id.attempt),
        None => format!("attempt-{}", id.attempt),
    }
}

/// Parses the [name](run_name) of a run of `job`; `None` if malformed.
pub fn run_id(job: JobId, name: &str) -> Option<ExecutorJobId> {
    // The prefix of a log name.
    let LogName { trial, attempt, .. } = format!("{name}.master-0.stdout").parse().ok()?;
    Some(ExecutorJobId { job, trial: trial.map(TrialId), attempt })
}

/// Response to a report.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(rename = "SyncAttemptResponse")]
pub struct SyncResponse {
    /// Index of the next measurement; all earlier ones are stored.
    pub next_measurement: Int64,
    /// Next offset of each reported log; all earlier bytes are stored.
    pub logs: Vec<LogEnd>,
    /// Addresses of all replicas in the order of the attempt, once known, if the request contains one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// `CONTINUE`; `STOP`: end the program with its grace period; `KILL`: end it immediately.
    pub command: String,
    /// Whether the end is stored, so that the agent is done.
    pub ended: bool,
}

/// Next offset of a log.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct LogEnd {
    /// Task of the log.
    pub task: String,
    /// `stdout` or `stderr`.
    pub stream: String,
    /// Offset of the next byte.
    pub next_offset: Int64,
}

impl SyncRequest {
    /// Validates the report.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn into_report(self, attempt: u64) -> Result<AgentReport, FieldViolation> {
        at_most("logs", self.logs.len(), MAX_LOG_PARTS)?;
        at_most("measurements", self.measurements.len(), MAX_MEASUREMENTS)?;
        at_most("seenTags", self.seen_tags.len(), MAX_SEEN_TAGS)?;
        at_most("problems", self.problems.len(), MAX_PROBLEMS)?;
        let mut logs = Vec::with_capacity(self.logs.len());
        for (index, part) in self.logs.into_iter().enumerate() {
            let refuse = |field: &str, description: String| FieldViolation {
                field: format!("logs[{index}].{field}"),
                description,
            };
            let name = format!("attempt-1.{}.{}", part.task, part.stream);
            let name: LogName =
                name.parse().map_err(|_| refuse("task", format!("{name:?} is not a task and a stream")))?;
            let offset = u64::try_from(part.offset.0).map_err(|_| refuse("offset", "is negative".to_owned()))?;
            let removed = u64::try_from(part.removed.0).map_err(|_| refuse("removed", "is negative".to_owned()))?;
            let bytes = STANDARD.decode(part.data).map_err(|error| refuse("data", error.to_string()))?;
            let position = LogPosition { task: name.task, stream: name.stream, offset };
            logs.push(LogPiece { position, removed, bytes });
        }
        let mut measurements = Vec::with_capacity(self.measurements.len());
        for (index, one) in self.measurements.into_iter().enumerate() {
            measurements.push(one.into_measurement(index, attempt)?);
        }
        let address = Some(self.address).filter(|address| !address.is_empty());
        let address = address.map(|address| address.parse()).transpose();
        Ok(AgentReport {
            task: Some(self.task).filter(|task| !task.is_empty()),
            node: node_name(self.node)?,
            address: address
                .map_err(|_| violation("address", "must be an IP address and a port, such as 10.0.0.7:2222"))?,
            logs,
            first_measurement: u64::try_from(self.first_measurement.0)
                .map_err(|_| violation("firstMeasurement", "is negative"))?,
            measurements,
            seen_tags: self.seen_tags.into_iter().collect(),
            problems: self.problems.into_iter().map(shortened).collect(),
            preempted: Some(shortened(self.preempted)).filter(|notice| !notice.is_empty()),
            end: self.end.map(EndMessage::into_end).transpose()?,
        })
    }
}

/// Rejects a list `field` with more than `most` entries.
fn at_most(field: &str, count: usize, most: usize) -> Result<(), FieldViolation> {
    if count <= most {
        Ok(())
    } else {
        Err(violation(field, &format!("has {count} entries; at most {most} are allowed")))
    }
}

/// Truncates `text`.
fn shortened(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_TEXT_LENGTH) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Validates a node name. Limited in length, since it is stored and shown.
fn node_name(name: String) -> Result<Option<String>, FieldViolation> {
    if name.chars().count() > MAX_NODE_LENGTH || name.chars().any(char::is_control) {
        return Err(violation("node", "must have at most 253 characters, none of them a control character"));
    }
    Ok(Some(name).filter(|name| !name.is_empty()))
}

impl From<&AgentReport> for SyncRequest {
    fn from(report: &AgentReport) -> Self {
        Self {
            task: report.task.clone().unwrap_or_default(),
            node: report.node.clone().unwrap_or_default(),
            address: report.address.map(|address| address.to_string()).unwrap_or_default(),
            logs: report
                .logs
                .iter()
                .map(|piece| LogPart {
                    task: piece.position.task.clone(),
                    stream: piece.position.stream.as_str().to_owned(),
                    offset: Int64(piece.position.offset.cast_signed()),
                    removed: Int64(piece.removed.cast_signed()),
                    data: STANDARD.encode(&piece.bytes),
                })
                .collect(),
            first_measurement: Int64(report.first_measurement.cast_signed()),
            measurements: report.measurements.iter().map(NumberedMeasurement::from).collect(),
            seen_tags: report.seen_tags.iter().cloned().collect(),
            problems: report.problems.clone(),
            preempted: report.preempted.clone().unwrap_or_default(),
            end: report.end.as_ref().map(EndMessage::from),
        }
    }
}

impl NumberedMeasurement {
    /// Validates the measurement at `index`.
    ///
    /// # Errors
    /// The invalid field.
    pub fn into_measurement(self, index: usize, attempt: u64) -> Result<Measurement, FieldViolation> {
        let refuse = |field: &str, description: &str| violation(&format!("measurements[{index}].{field}"), description);
        if self.step.0 < 0 {
            return Err(refuse("step", "is negative"));
        }
        let key = match self.source.as_str() {
            "METRIC_FILE" => ReportKey::MetricFile { attempt },
            "EVENT_FILE" => ReportKey::EventFile {
                folder: self.folder.as_deref().ok_or_else(|| refuse("folder", "is required"))?.into(),
            },
            "STANDARD_OUTPUT" => {
                let offset = self.offset.and_then(|offset| u64::try_from(offset.0).ok());
                let offset = offset.ok_or_else(|| refuse("offset", "must be a number of bytes"))?;
                ReportKey::StandardOutput { attempt, offset }
            }
            "HTTP" => ReportKey::Http,
            _ => return Err(refuse("source", "must be METRIC_FILE, EVENT_FILE, STANDARD_OUTPUT or HTTP")),
        };
        at_most(&format!("measurements[{index}].metrics"), self.metrics.len(), MAX_METRICS)?;
        if self.folder.as_ref().is_some_and(|folder| folder.len() > MAX_FOLDER_BYTES) {
            return Err(refuse("folder", &format!("has more than {MAX_FOLDER_BYTES} bytes")));
        }
        Ok(Measurement {
            step: self.step.0,
            wall_time_secs: self.wall_time.0,
            elapsed_secs: self.elapsed.map(|elapsed| elapsed.0),
            key,
            metrics: self
                .metrics
                .into_iter()
                .map(|part| MetricValue { metric: part.metric, value: part.value.0 })
                .collect(),
        })
    }
}

impl From<&Measurement> for NumberedMeasurement {
    fn from(one: &Measurement) -> Self {
        let (source, offset) = match one.key {
            ReportKey::MetricFile { .. } => ("METRIC_FILE", None),
            ReportKey::EventFile { .. } => ("EVENT_FILE", None),
            ReportKey::StandardOutput { offset, .. } => ("STANDARD_OUTPUT", Some(Int64(offset.cast_signed()))),
            ReportKey::Http => ("HTTP", None),
        };
        Self {
            step: Int64(one.step),
            wall_time: Double(one.wall_time_secs),
            elapsed: one.elapsed_secs.map(Double),
            source: source.to_owned(),
            offset,
            folder: one.folder().map(|folder| (**folder).to_owned()),
            metrics: one
                .metrics
                .iter()
                .map(|metric| MetricPart { metric: metric.metric.clone(), value: Double(metric.value) })
                .collect(),
        }
    }
}

impl EndMessage {
    fn into_end(self) -> Result<AgentEnd, FieldViolation> {
        let stopped = match self.stopped.as_str() {
            "" => None,
            "REQUESTED" => Some(StopReason::Requested),
            "TIME_LIMIT" => Some(StopReason::TimeLimit),
            _ => return Err(violation("end.stopped", "must be REQUESTED, TIME_LIMIT or absent")),
        };
        let ended = |end| AgentEnd::Ended(ExitStatus { end, stopped });
        let given = [
            self.exit_code.map(|code| ended(ProgramEnd::Exited(code))),
            self.signal.map(|signal| ended(ProgramEnd::Signaled(signal))),
            self.out_of_memory.then(|| ended(ProgramEnd::OutOfMemory)),
            self.not_started.map(|reason| ended(ProgramEnd::NotStarted(shortened(reason)))),
            self.preempted.map(|reason| AgentEnd::Preempted { reason: shortened(reason) }),
            self.lost.map(|reason| AgentEnd::Lost { reason: shortened(reason) }),
        ];
        let mut given = given.into_iter().flatten();
        match (given.next(), given.next()) {
            (Some(end), None) => Ok(end),
            _ => Err(violation(
                "end",
                "must have exactly one of exitCode, signal, outOfMemory, notStarted, preempted and lost",
            )),
        }
    }
}

impl From<&AgentEnd> for EndMessage {
    fn from(end: &AgentEnd) -> Self {
        match end.clone() {
            AgentEnd::Preempted { reason } => Self { preempted: Some(reason), ..Self::default() },
            AgentEnd::Lost { reason } | AgentEnd::NotPlaced { reason } => {
                Self { lost: Some(reason), ..Self::default() }
            }
            AgentEnd::Ended(ExitStatus { end, stopped }) => {
                let stopped = match stopped {
                    None => "",
                    Some(StopReason::Requested) => "REQUESTED",
                    Some(StopReason::TimeLimit) => "TIME_LIMIT",
                };
                let message = Self { stopped: stopped.to_owned(), ..Self::default() };
                match end {
                    ProgramEnd::Exited(code) => Self { exit_code: Some(code), ..message },
                    ProgramEnd::Signaled(signal) => Self { signal: Some(signal), ..message },
                    ProgramEnd::OutOfMemory => Self { out_of_memory: true, ..message },
                    ProgramEnd::NotStarted(reason) => Self { not_started: Some(reason), ..message },
                }
            }
        }
    }
}

impl From<AgentResponse> for SyncResponse {
    fn from(answer: AgentResponse) -> Self {
        let logs = answer.logs.into_iter().map(|LogPosition { task, stream, offset }| LogEnd {
            task,
            stream: stream.as_str().to_owned(),
            next_offset: Int64(offset.cast_signed()),
        });
        Self {
            next_measurement: Int64(answer.next_measurement.cast_signed()),
            logs: logs.collect(),
            addresses: answer.addresses,
            command: command_text(answer.command).to_owned(),
            ended: answer.ended,
        }
    }
}

impl SyncResponse {
    /// The server's command. Unknown commands are ignored, so that an older agent works with a newer server.
    pub fn asked(&self) -> AgentCommand {
        [AgentCommand::Stop, AgentCommand::Kill]
            .into_iter()
            .find(|command| command_text(*command) == self.command)
            .unwrap_or(AgentCommand::Continue)
    }

    /// Offset at which the log of `task` and `stream` continues, if stated.
    pub fn log_end(&self, task: &str, stream: LogStream) -> Option<u64> {
        let log = self.logs.iter().find(|log| log.task == task && log.stream == stream.as_str())?;
        u64::try_from(log.next_offset.0).ok()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_none_removed(removed: &Int64) -> bool {
    removed.0 == 0
}

fn command_text(command: AgentCommand) -> &'static str {
    match command {
        AgentCommand::Continue => "CONTINUE",
        AgentCommand::Stop => "STOP",
        AgentCommand::Kill => "KILL",
    }
}

fn violation(field: &str, description: &str) -> FieldViolation {
    FieldViolation { field: field.to_owned(), description: description.to_owned() }
}

#[cfg(test)]
mod tests;
