//! Classifies a trial whose program has ended as succeeded or infeasible.

use std::collections::BTreeSet;
use std::time::Duration;

use tunesmith_domain::{Completion, Measurement, NoFinalMeasurement, Resources, Trial, TrialState};
use tunesmith_executor::{ExitStatus, ProgramEnd, StopReason};

/// Maximum number of problems in the reason of a trial without a metric.
const MAX_PROBLEMS: usize = 2;

/// Findings in the reports of an attempt, beside measurements.
#[derive(Debug, Clone, Default)]
pub(super) struct Findings {
    /// The names of all metrics that were seen.
    pub(super) tags: BTreeSet<String>,
    /// What could not be read.
    pub(super) problems: Vec<String>,
}

/// A trial whose program has ended, with the data that decide its result.
pub(super) struct EndedTrial<'a> {
    pub(super) trial: &'a Trial,
    pub(super) status: &'a ExitStatus,
    /// The metrics and constraints, at least one.
    pub(super) tags: Vec<&'a str>,
    /// The result among the trial's measurements.
    pub(super) final_measurement: Result<Measurement, NoFinalMeasurement>,
    pub(super) findings: &'a Findings,
    pub(super) time_limit: Option<Duration>,
    /// The requested memory in bytes, which is the limit where an engine has one.
    pub(super) memory_bytes: Option<u64>,
    /// Last line of the standard error of the program, or of the container engine.
    pub(super) last_error_line: Option<String>,
}

impl EndedTrial<'_> {
    /// Returns the result. A failed program has none, even if it reported measurements. A trial that was stopped early
    /// has its final measurement as the result, even if the program failed.
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
        let reason = match &self.status.end {
            ProgramEnd::Exited(0) => return None,
            ProgramEnd::Exited(code) => format!("exit code {code}"),
            ProgramEnd::Signaled(9) => {
                let memory = Resources { memory_bytes: self.memory_bytes, ..Resources::default() };
                let requested = self.memory_bytes.map(|_| format!("; it requested {memory}")).unwrap_or_default();
                format!("killed by signal 9 (SIGKILL; often the kernel, out of memory){requested}")
            }
            ProgramEnd::Signaled(signal) => format!("killed by signal {signal}{}", signal_name(*signal)),
            ProgramEnd::OutOfMemory => "killed because it took more memory than it may".to_owned(),
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
            // Each was reported, but none at the step of the result or before it.
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

/// Returns the name of a signal that ends programs, in parentheses.
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
