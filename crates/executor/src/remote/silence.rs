//! Running agents that do not report.
//!
//! An agent starts its program only after the response to its first report; until then, its slot is idle.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use super::AgentId;
use crate::ExecutorJobId;

/// Time limit for an agent's first report; a guess. Agents report every second.
pub const CONTACT_TIMEOUT: Duration = Duration::from_secs(30);

/// Contact with a running agent.
#[derive(Debug, Clone, Copy)]
enum Contact {
    Made,
    /// No report since the agent was first seen running, at this time.
    Awaited(Instant),
}

/// Agents seen running.
#[derive(Debug)]
pub(super) struct Contacts {
    timeout: Duration,
    agents: Mutex<HashMap<AgentId, Contact>>,
}

impl Contacts {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, agents: Mutex::default() }
    }

    /// Whether `agent` is known to have reported.
    pub(super) fn is_made(&self, agent: &AgentId) -> bool {
        matches!(self.agents().get(agent), Some(Contact::Made))
    }

    /// Records a report of the running `agent`.
    pub(super) fn made(&self, agent: &AgentId) {
        self.agents().insert(agent.clone(), Contact::Made);
    }

    /// Time without a report of `agent`, which is running at `now` and has not reported: the timeout times a power of
    /// two; `None` below the timeout.
    pub(super) fn silence(&self, agent: &AgentId, now: Instant) -> Option<Duration> {
        let mut agents = self.agents();
        let Contact::Awaited(since) = *agents.entry(agent.clone()).or_insert(Contact::Awaited(now)) else {
            return None;
        };
        let elapsed = now.duration_since(since);
        let mut silence = self.timeout;
        while silence * 2 <= elapsed && !silence.is_zero() {
            silence *= 2;
        }
        (elapsed >= self.timeout).then_some(silence)
    }

    /// Forgets the agents of attempts that `is_over` accepts.
    pub(super) fn forget(&self, is_over: impl Fn(&ExecutorJobId) -> bool) {
        self.agents().retain(|agent, _| !is_over(&agent.run));
    }

    fn agents(&self) -> MutexGuard<'_, HashMap<AgentId, Contact>> {
        self.agents.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_begins_after_the_timeout_and_grows_in_steps() {
        let run = ExecutorJobId { job: "project/job".parse().unwrap(), trial: None, attempt: 1 };
        let (agent, begin) = (AgentId::from(&run), Instant::now());
        let contacts = Contacts::new(Duration::from_secs(30));
        let silence =
            |secs| contacts.silence(&agent, begin + Duration::from_secs(secs)).map(|silence| silence.as_secs());
        assert_eq!(
            [0, 29, 30, 59, 60, 119, 300].map(silence),
            [None, None, Some(30), Some(30), Some(60), Some(60), Some(240)]
        );
        contacts.made(&agent);
        assert!(contacts.is_made(&agent) && silence(900).is_none());
        contacts.forget(|other| *other == run);
        assert_eq!((contacts.is_made(&agent), silence(900)), (false, None), "it is another agent");
    }
}
