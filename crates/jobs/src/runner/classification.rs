//! Classification of ended trials as succeeded or infeasible.

use std::collections::BTreeSet;
use std::time::Duration;

use tunesmith_domain::{Completion, Measurement, NoFinalMeasurement, Resources, Trial, TrialState};
use tunesmith_executor::{ExitStatus, ProgramEnd, StopReason};

/// Maximum number of problems quoted in the reason of a trial without a metric.
const MAX_PROBLEMS: usize = 2;

/// Findings in an attempt's reports, other than measurements.
#[derive(Debug, Clone, Default)]
pub(super) struct Findings {
    /// All metric names seen.
    pub(super) tags: BTreeSet<String>,
    pub(super) problems: Vec<String>,
}

pub(super) struct EndedTrial<'a> {
    pub(super) trial: &'a Trial,
    pub(super) status: &'a ExitStatus,
    /// Metrics and constraints, at least one.
    pub(super) tags: Vec<&'a str>,
    /// Result among the trial's measurements.
    pub(super) final_measurement: Result<Measurement, NoFinalMeasurement>,
    pub(super) findings: &'a Findings,
    pub(super) time_limit: Option<Duration>,
    /// Requested memory in bytes, enforced by engines with a memory limit.
    pub(super) memory_bytes: Option<u64>,
    /// Last line of standard error of the program or the container engine.
    pub(super) last_error_line: Option<String>,
}

impl EndedTrial<'_> {
    /// Classifies the trial. A failed program yields no result, even with measurements; but the final measurement of a
    /// trial stopped early counts even if the program failed.
    pub(super) fn completion(self) -> Completion {
        let stopped_early = self.trial.state == TrialState::Stopping;
        if !stopped_early && let Some(reason) = self.failure() {
            return Completion::Infeasible { reason };
        }
        match self.final_measurement {
            Err(NoFinalMeasurement::NoMeasurement | NoFinalMeasurement::MissingMetric) => {
                let reason = self.missing_metric();
                if stopped_early { Completion::Stopped { reason } } else { Completion::Infeasible { reason } }
            }
            result => result.into(),
        }
    }

    fn failure(&self) -> Option<String> {
        if self.status.stopped == Some(StopReason::TimeLimit) {
            let limit = self.time_limit.unwrap_or_default();
            return Some(format!("ran longer than the trial's time limit ({} s)", limit.as_secs_f64()));
        }
        let memory = Resources { memory_bytes: self.memory_bytes, ..Resources::default() };
        let requested = self.memory_bytes.map(|_| format!("; it requested {memory}")).unwrap_or_default();
        let reason = match &self.status.end {
            ProgramEnd::Exited(0) => return None,
            ProgramEnd::Exited(code) => format!("exit code {code}"),
            ProgramEnd::Signaled(9) => {
                format!("killed by signal 9 (SIGKILL; often the kernel, out of memory){requested}")
            }
            ProgramEnd::Signaled(signal) => format!("killed by signal {signal}{}", signal_name(*signal)),
            ProgramEnd::OutOfMemory => format!("out of memory: killed at its memory limit{requested}"),
            ProgramEnd::NotStarted(reason) => format!("could not be started: {reason}"),
        };
        Some(match &self.last_error_line {
            Some(line) => format!("{reason}: {line}"),
            None => reason,
        })
    }

    fn missing_metric(&self) -> String {
        let Findings { tags: seen, problems } = self.findings;
        let quoted = |names: &[&str]| names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        let missing: Vec<&str> = self.tags.iter().copied().filter(|tag| !seen.contains(*tag)).collect();
        let others: Vec<&str> = seen.iter().map(String::as_str).filter(|name| !self.tags.contains(name)).collect();
        let was_stopped = self.trial.state == TrialState::Stopping;
        let mut reason = if missing.is_empty() {
            // Each was reported, but none at or before the step of the result.
            format!("reported no value of each of {} up to the same step", quoted(&self.tags))
        } else {
            let others = match (others.is_empty(), missing.len() < self.tags.len()) {
                (true, true) => String::new(),
                (true, false) => "; no other metric was seen either".to_owned(),
                (false, _) => format!("; the metrics seen were {}", quoted(&others)),
            };
            let missing = quoted(&missing);
            if was_stopped {
                format!("was stopped before it reported {missing}{others}")
            } else {
                format!("ended without reporting {missing}{others}")
            }
        };
        for problem in problems.iter().take(MAX_PROBLEMS) {
            reason += "; ";
            reason += problem;
        }
        reason
    }
}

/// Parenthesized name of a fatal signal.
fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        3 => " (SIGQUIT)",
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        8 => " (SIGFPE)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        _ => "",
    }
}
