//! Where attempts run.

use super::{AttemptPlace, ExecutorJobId};

impl From<&ExecutorJobId> for AttemptPlace {
    /// The place of a run whose nodes are not known.
    fn from(id: &ExecutorJobId) -> Self {
        Self { attempt: id.attempt, ..Self::default() }
    }
}

/// The name of this machine.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
