//! End of an attempt given the recorded end of its agent, and end of a vanished agent.

use super::{AgentEnd, AgentId};
use crate::{ExecutorJobState, ExitStatus, LossCause, ProgramEnd, StopMode, StopReason};

/// Prefixes `reason` with the task of `agent`, if it has one.
pub(super) fn of_task(agent: &AgentId, reason: String) -> String {
    match &agent.task {
        Some(task) => format!("{task}: {reason}"),
        None => reason,
    }
}

pub(super) fn lost(cause: LossCause, reason: String) -> AgentEnd {
    match cause {
        LossCause::Preemption => AgentEnd::Preempted { reason },
        LossCause::Failure => AgentEnd::Lost { reason },
    }
}

/// State of an attempt with a recorded end. An agent cannot tell the signal of a stop request from that of a
/// preemption; a recorded request decides.
pub(super) fn state_of(end: AgentEnd, stop: Option<StopMode>) -> ExecutorJobState {
    match (end, stop) {
        (AgentEnd::Ended(status), _) => ExecutorJobState::Ended(status),
        (AgentEnd::Preempted { .. }, Some(_)) => {
            ExecutorJobState::Ended(ExitStatus { end: ProgramEnd::Signaled(15), stopped: Some(StopReason::Requested) })
        }
        (AgentEnd::Preempted { reason }, None) => ExecutorJobState::Lost { cause: LossCause::Preemption, reason },
        (AgentEnd::NotPlaced { reason }, None) => ExecutorJobState::NotPlaced { reason },
        (AgentEnd::NotPlaced { reason }, Some(_)) => ExecutorJobState::Ended(ExitStatus {
            end: ProgramEnd::NotStarted(reason),
            stopped: Some(StopReason::Requested),
        }),
        (AgentEnd::Lost { reason }, _) => ExecutorJobState::Lost { cause: LossCause::Failure, reason },
    }
}
