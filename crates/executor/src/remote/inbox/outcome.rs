//! The end of an attempt whose replicas run under several agents.

use super::super::engine::AgentId;
use super::super::messages::AgentEnd;
use crate::{ExitStatus, ProgramEnd};

/// The end of an attempt with several agents by the `end` of `agent`; `None` if it goes on.
pub(super) fn outcome_of(agent: &AgentId, is_master: bool, end: &AgentEnd) -> Option<AgentEnd> {
    if is_master {
        return Some(end.clone());
    }
    let named = |reason: &str| format!("{}: {reason}", agent.task.as_deref().unwrap_or_default());
    match end {
        AgentEnd::Preempted { reason } => Some(AgentEnd::Preempted { reason: named(reason) }),
        AgentEnd::Lost { reason } => Some(AgentEnd::Lost { reason: named(reason) }),
        AgentEnd::NotPlaced { reason } => Some(AgentEnd::NotPlaced { reason: named(reason) }),
        AgentEnd::Ended(status) => match &status.end {
            ProgramEnd::NotStarted(reason) if status.stopped.is_none() => {
                let is_named = agent.task.as_ref().is_some_and(|task| reason.starts_with(task.as_str()));
                let end = ProgramEnd::NotStarted(if is_named { reason.clone() } else { named(reason) });
                Some(AgentEnd::Ended(ExitStatus { end, stopped: None }))
            }
            ProgramEnd::OutOfMemory => Some(end.clone()),
            // As on one machine, the end of the master decides.
            ProgramEnd::NotStarted(_) | ProgramEnd::Exited(_) | ProgramEnd::Signaled(_) => None,
        },
    }
}
