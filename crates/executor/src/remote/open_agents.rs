//! Agents of an attempt that have not ended.

use std::io;

use super::{AgentId, Inbox};
use crate::ExecutorJobId;

/// Agents of an attempt.
pub(super) struct OpenAgents {
    /// Agents that have not ended.
    pub(super) agents: Vec<AgentId>,
    pub(super) count: usize,
    /// Whether the whole attempt is about to end.
    pub(super) is_over: bool,
    /// Whether all agents know each other's addresses.
    pub(super) has_met: bool,
    /// Whether a stop was requested.
    pub(super) is_stopped: bool,
}

impl OpenAgents {
    /// Reads the agents of `id`, and settles the attempt if all have ended.
    pub(super) fn of(inbox: &Inbox, id: &ExecutorJobId) -> io::Result<Self> {
        let all = inbox.agents(id)?;
        let count = all.len();
        let mut agents = Vec::new();
        for agent in all {
            if inbox.end_of(&agent)?.is_none() {
                agents.push(agent);
            }
        }
        if agents.is_empty() {
            inbox.settle(id)?;
        }
        Ok(Self {
            agents,
            count,
            is_over: inbox.outcome(id)?.is_some(),
            has_met: count > 1 && inbox.has_met(id)?,
            is_stopped: inbox.stop_request(id)?.is_some(),
        })
    }
}
