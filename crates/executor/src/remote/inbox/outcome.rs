//! End of an attempt whose replicas may run under several agents.

use std::io;

use super::super::engine::AgentId;
use super::super::messages::AgentEnd;
use super::Inbox;
use crate::{ExitStatus, ProgramEnd};

impl Inbox {
    /// Whether the attempt with the ID `id`, as text, needs no agent any more: it has ended, was stopped before its
    /// first report, or is forgotten.
    ///
    /// # Errors
    /// If that cannot be determined.
    pub fn is_over(&self, id: &str) -> io::Result<bool> {
        let attempt = self.folder.join(id);
        let has = |name: &str| attempt.join(name).try_exists();
        Ok(!attempt.try_exists()? || has("end.json")? || (has("stop.json")? && !has("contact")?))
    }
}

/// End of an attempt with several agents due to the `end` of `agent`; `None` if it continues.
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
            // As on a single machine, the end of the master decides.
            ProgramEnd::NotStarted(_) | ProgramEnd::Exited(_) | ProgramEnd::Signaled(_) => None,
        },
    }
}
