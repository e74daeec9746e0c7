//! Next action for an attempt, from its files and its Slurm row. Pure functions: every rule is tested here.

use tunesmith_executor::local::shared::SharedState;
use tunesmith_executor::{ExecutorJobState, ExitStatus, LossCause, ProgramEnd, StopReason};

use crate::row::{Row, SlurmState, explained};

/// Maximum submissions of a job that Slurm keeps losing, before its attempt counts as lost.
pub(crate) const MAX_SUBMISSIONS: u32 = 5;

/// Signal of the kernel's OOM killer.
const SIGKILL: i32 = 9;

/// Observed state of an attempt.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) files: &'a SharedState,
    /// Its row in the latest listing, if any.
    pub(crate) row: Option<&'a Row>,
    /// Whether the listing is newer than the response to the last submission.
    pub(crate) listed: bool,
    /// Number of submissions.
    pub(crate) submissions: u32,
    /// Whether the files have had time to arrive since the job ended or vanished.
    pub(crate) settled: bool,
    pub(crate) stop_requested: bool,
    /// Last log line of an ended job.
    pub(crate) log_line: Option<String>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Decision {
    /// No action: the attempt is in this state.
    Is(ExecutorJobState),
    /// Submit the job.
    Submit,
    /// Cancel the job before it starts.
    CancelPending,
    /// Ended, with no process left.
    End(ExitStatus),
    /// Lost; its processes may still be running if `may_live`.
    Lose { cause: LossCause, reason: String, may_live: bool },
}

use Decision::{CancelPending, End, Is, Lose, Submit};

impl Facts<'_> {
    pub(crate) fn decide(&self) -> Decision {
        match self.files {
            SharedState::Ended(status) => Is(ExecutorJobState::Ended(status.clone())),
            SharedState::Lost { cause, reason } => Is(ExecutorJobState::Lost { cause: *cause, reason: reason.clone() }),
            SharedState::EndedBySignal(status) => self.after_signal(status),
            SharedState::Started { .. } => self.started(),
            SharedState::NotStarted => self.not_started(),
        }
    }

    /// State after a signal: the supervisor recorded that it stopped its programs on a signal, or that a program died
    /// from one.
    fn after_signal(&self, status: &ExitStatus) -> Decision {
        let Some(row) = self.row else {
            if !self.listed || !self.settled {
                return Is(ExecutorJobState::Running);
            }
            if status.stopped.is_none() {
                return Is(ExecutorJobState::Ended(status.clone()));
            }
            return lose(LossCause::Preemption, "it was ended by a signal, and Slurm no longer knows why".to_owned());
        };
        match row.state {
            SlurmState::Active | SlurmState::Configuring => Is(ExecutorJobState::Running),
            SlurmState::OutOfMemory => End(ExitStatus { end: status.end.clone(), stopped: None }),
            SlurmState::Completed | SlurmState::Failed if status.stopped.is_none() => {
                Is(ExecutorJobState::Ended(status.clone()))
            }
            // SIGTERM announces a preemption or a node shutdown.
            SlurmState::Completed | SlurmState::Failed => {
                lose(LossCause::Preemption, format!("it was asked to end by a signal ({})", row.state.name()))
            }
            _ => Lose { cause: cause(row), reason: words(row), may_live: false },
        }
    }

    /// State after a supervisor claimed the attempt without recording an end.
    fn started(&self) -> Decision {
        let Some(row) = self.row else {
            return match self.listed && self.settled {
                true => Lose { cause: LossCause::Failure, reason: GONE.to_owned(), may_live: true },
                false => Is(ExecutorJobState::Running),
            };
        };
        match row.state {
            SlurmState::Active | SlurmState::Configuring => Is(ExecutorJobState::Running),
            _ if !self.settled => Is(ExecutorJobState::Running),
            // The kernel killed the supervisor together with its programs.
            SlurmState::OutOfMemory => End(ExitStatus { end: ProgramEnd::OutOfMemory, stopped: None }),
            SlurmState::Cancelled if self.stop_requested => {
                End(ExitStatus { end: ProgramEnd::Signaled(SIGKILL), stopped: Some(StopReason::Requested) })
            }
            SlurmState::Completed | SlurmState::Failed => {
                let reason = format!("its supervisor died ({}{})", row.state.name(), self.log());
                lose(LossCause::Failure, reason)
            }
            // A requeued job is pending again; its processes may be running on a failed node.
            state => Lose { cause: cause(row), reason: words(row), may_live: !state.has_no_process() },
        }
    }

    fn not_started(&self) -> Decision {
        let stopped = || {
            let end = ProgramEnd::NotStarted("it was stopped before it started".to_owned());
            End(ExitStatus { end, stopped: Some(StopReason::Requested) })
        };
        let Some(row) = self.row else {
            return match (self.listed, self.stop_requested, self.submissions) {
                (false, _, 0) => Is(waiting("its job is looked up in Slurm")),
                (false, ..) => Is(waiting("Slurm has accepted its job")),
                (true, true, 0) => stopped(),
                (true, false, 0) => Submit,
                _ if !self.settled => Is(waiting("Slurm does not list its job yet")),
                (true, true, _) => stopped(),
                (true, false, 1..MAX_SUBMISSIONS) => Submit,
                (true, false, times) => {
                    lose(LossCause::Failure, format!("Slurm lost its job {times} times before it started"))
                }
            };
        };
        match row.state {
            SlurmState::Pending if self.stop_requested => CancelPending,
            // Its processes may have started nevertheless.
            SlurmState::Pending if row.was_not_launched() => {
                Lose { cause: cause(row), reason: words(row), may_live: true }
            }
            SlurmState::Pending => Is(waiting(&explained(&row.reason))),
            SlurmState::Configuring => Is(waiting("its node is being started")),
            SlurmState::Active => Is(ExecutorJobState::Running),
            state if self.stop_requested && state.has_no_process() => stopped(),
            _ if !self.settled => Is(ExecutorJobState::Running),
            SlurmState::Failed if row.reason == "BadConstraints" => {
                let end = ProgramEnd::NotStarted(format!("Slurm: {}", explained(&row.reason)));
                End(ExitStatus { end, stopped: None })
            }
            SlurmState::Completed | SlurmState::Failed | SlurmState::OutOfMemory | SlurmState::Timeout => {
                let hint = "the data folder and this program must be on a file system that the nodes share";
                let line = if self.log_line.is_some() { self.log() } else { format!("; {hint}") };
                let reason =
                    format!("its job ended before its supervisor started ({}, {}{line})", row.state.name(), row.reason);
                lose(LossCause::Failure, reason)
            }
            // A supervisor that starts later finds the recorded end and exits.
            _ => lose(cause(row), words(row)),
        }
    }

    fn log(&self) -> String {
        self.log_line.as_ref().map(|line| format!("; its log ends with {line:?}")).unwrap_or_default()
    }
}

/// Reason for losing an attempt whose job has vanished.
const GONE: &str = "Slurm no longer knows its job, and its supervisor has not written its end";

fn lose(cause: LossCause, reason: String) -> Decision {
    Lose { cause, reason, may_live: false }
}

pub(crate) fn waiting(reason: &str) -> ExecutorJobState {
    ExecutorJobState::Waiting { reason: reason.to_owned() }
}

fn cause(row: &Row) -> LossCause {
    match row.state {
        SlurmState::Pending if row.was_not_launched() => LossCause::Failure,
        SlurmState::Preempted | SlurmState::Pending => LossCause::Preemption,
        _ => LossCause::Failure,
    }
}

/// Reason for losing an attempt whose job is in the state of `row`.
fn words(row: &Row) -> String {
    let what = match row.state {
        SlurmState::Pending if row.was_not_launched() => "Slurm could not launch its job, and holds it",
        SlurmState::Pending => "Slurm requeued its job",
        SlurmState::Preempted => "Slurm gave its place to another job",
        SlurmState::NodeFail => "its node failed",
        SlurmState::BootFail => "its node could not be started",
        SlurmState::Cancelled => "its job was cancelled in Slurm, and not by this server",
        SlurmState::Timeout => "it reached the time limit of Slurm",
        SlurmState::Deadline => "it reached the deadline of Slurm",
        _ => "its job ended",
    };
    format!("{what} ({}, job {})", row.state.name(), row.job)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(state: &str, reason: &str) -> Row {
        Row::of(&format!("7|{state}|t|n|/f|{reason}"))
    }

    fn facts<'a>(files: &'a SharedState, row: Option<&'a Row>) -> Facts<'a> {
        Facts { files, row, listed: true, submissions: 1, settled: true, stop_requested: false, log_line: None }
    }

    const STARTED: SharedState = SharedState::Started { engine_job: None };

    fn by_signal() -> SharedState {
        let end = ProgramEnd::Signaled(15);
        SharedState::EndedBySignal(ExitStatus { end, stopped: Some(StopReason::Requested) })
    }

    #[track_caller]
    fn assert_lost(decision: Decision, expected: LossCause, live: bool, word: &str) {
        let Lose { cause, reason, may_live } = decision else { panic!("{decision:?}") };
        assert_eq!((cause, may_live), (expected, live), "{reason}");
        assert!(reason.contains(word), "{reason}");
    }

    #[test]
    fn every_end_of_slurm_has_its_cause() {
        use LossCause::{Failure, Preemption};
        for (state, cause, live) in [
            ("NODE_FAIL", Failure, true),
            ("BOOT_FAIL", Failure, false),
            ("DEADLINE", Failure, false),
            ("TIMEOUT", Failure, false),
            ("CANCELLED", Failure, false),
            ("FAILED", Failure, false),
            ("COMPLETED", Failure, false),
            ("PREEMPTED", Preemption, false),
            ("REVOKED", Preemption, false),
            ("PENDING", Preemption, true),
            ("REQUEUED", Preemption, true),
        ] {
            let row = row(state, "None");
            let name = row.state.name();
            assert_lost(facts(&STARTED, Some(&row)).decide(), cause, live, name);
            if !matches!(row.state, SlurmState::Completed | SlurmState::Failed) {
                assert_lost(facts(&by_signal(), Some(&row)).decide(), cause, false, name);
            }
        }
    }

    #[test]
    fn signal_from_outside_is_a_preemption() {
        for state in ["COMPLETED", "FAILED"] {
            let row = row(state, "NonZeroExitCode");
            assert_lost(facts(&by_signal(), Some(&row)).decide(), LossCause::Preemption, false, "by a signal");
        }
        let running = row("COMPLETING", "None");
        assert_eq!(
            facts(&by_signal(), Some(&running)).decide(),
            Is(ExecutorJobState::Running),
            "the cause is not known"
        );
    }

    #[test]
    fn program_that_dies_from_a_signal_failed_unless_slurm_ended_it() {
        let status = ExitStatus { end: ProgramEnd::Signaled(15), stopped: None };
        let files = SharedState::EndedBySignal(status.clone());
        let completed = row("COMPLETED", "None");
        assert_eq!(facts(&files, Some(&completed)).decide(), Is(ExecutorJobState::Ended(status.clone())));
        assert_eq!(facts(&files, None).decide(), Is(ExecutorJobState::Ended(status)));
        let preempted = row("PREEMPTED", "None");
        assert_lost(facts(&files, Some(&preempted)).decide(), LossCause::Preemption, false, "PREEMPTED");
    }

    #[test]
    fn memory_limit_is_the_end_of_the_program() {
        let row = row("OUT_OF_MEMORY", "OutOfMemory");
        let end = ExitStatus { end: ProgramEnd::OutOfMemory, stopped: None };
        assert_eq!(facts(&STARTED, Some(&row)).decide(), End(end));
    }

    #[test]
    fn end_in_the_files_counts_in_every_state_of_slurm() {
        let status = ExitStatus { end: ProgramEnd::Exited(7), stopped: None };
        let files = SharedState::Ended(status.clone());
        for state in ["RUNNING", "NODE_FAIL", "CANCELLED", "PENDING"] {
            let decision = facts(&files, Some(&row(state, "None"))).decide();
            assert_eq!(decision, Is(ExecutorJobState::Ended(status.clone())));
        }
        assert_eq!(facts(&files, None).decide(), Is(ExecutorJobState::Ended(status)));
    }

    #[test]
    fn nothing_is_concluded_before_the_files_had_time_to_arrive() {
        for state in ["NODE_FAIL", "COMPLETED", "PREEMPTED", "PENDING"] {
            let row = row(state, "None");
            let facts = Facts { settled: false, ..facts(&STARTED, Some(&row)) };
            assert_eq!(facts.decide(), Is(ExecutorJobState::Running), "{state}");
        }
        let gone = Facts { settled: false, ..facts(&STARTED, None) };
        assert_eq!(gone.decide(), Is(ExecutorJobState::Running));
        let not_listed = Facts { listed: false, ..facts(&STARTED, None) };
        assert_eq!(not_listed.decide(), Is(ExecutorJobState::Running));
        assert_lost(facts(&STARTED, None).decide(), LossCause::Failure, true, "no longer knows");
    }

    #[test]
    fn job_that_slurm_lost_is_submitted_again_a_few_times() {
        let files = SharedState::NotStarted;
        let times = |submissions| Facts { submissions, ..facts(&files, None) }.decide();
        assert_eq!((times(0), times(1), times(4)), (Submit, Submit, Submit));
        assert_lost(times(5), LossCause::Failure, false, "lost its job 5 times");
        let unsettled = Facts { settled: false, ..facts(&files, None) };
        assert!(matches!(unsettled.decide(), Is(ExecutorJobState::Waiting { .. })));
        let unlisted = Facts { listed: false, submissions: 0, ..facts(&files, None) };
        assert_eq!(unlisted.decide(), Is(waiting("its job is looked up in Slurm")), "looked up before it is submitted");
    }

    #[test]
    fn waiting_job_names_the_reason_and_is_cancelled_before_its_start() {
        let files = SharedState::NotStarted;
        let pending = row("PENDING", "Resources");
        let decision = facts(&files, Some(&pending)).decide();
        assert_eq!(decision, Is(waiting("Resources (the resources are in use by other jobs)")));
        let stop = |row| Facts { stop_requested: true, ..facts(&files, row) }.decide();
        assert_eq!(stop(Some(&pending)), CancelPending);
        let stopped = |decision| matches!(decision, End(ExitStatus { stopped: Some(StopReason::Requested), .. }));
        let (cancelled, running) = (row("CANCELLED", "None"), row("RUNNING", "None"));
        assert!(stopped(stop(Some(&cancelled))));
        assert!(stopped(stop(None)));
        assert_eq!(stop(Some(&running)), Is(ExecutorJobState::Running), "its supervisor decides");
    }

    #[test]
    fn job_that_slurm_holds_after_a_failed_launch_is_lost() {
        let held = row("PENDING", "launch failed requeued held");
        for files in [SharedState::NotStarted, STARTED] {
            assert_lost(facts(&files, Some(&held)).decide(), LossCause::Failure, true, "could not launch its job");
        }
        let files = SharedState::NotStarted;
        let stop = Facts { stop_requested: true, ..facts(&files, Some(&held)) };
        assert_eq!(stop.decide(), CancelPending);
        // An administrator may release it.
        let held = row("PENDING", "job requeued in held state");
        assert!(matches!(facts(&files, Some(&held)).decide(), Is(ExecutorJobState::Waiting { .. })));
    }

    #[test]
    fn job_without_supervisor_is_lost_with_a_hint() {
        let files = SharedState::NotStarted;
        let failed = row("FAILED", "JobLaunchFailure");
        assert_lost(facts(&files, Some(&failed)).decide(), LossCause::Failure, false, "must be on a file system");
        let line = Some("sh: 1: exec: /x: not found".to_owned());
        let with_log = Facts { log_line: line, ..facts(&files, Some(&failed)) };
        assert_lost(with_log.decide(), LossCause::Failure, false, "/x: not found");
        let impossible = row("FAILED", "BadConstraints");
        let End(ExitStatus { end: ProgramEnd::NotStarted(reason), stopped: None }) =
            facts(&files, Some(&impossible)).decide()
        else {
            panic!("not rejected")
        };
        assert_eq!(reason, "Slurm: BadConstraints (no node can meet its constraints)");
    }
}
