//! The tools, by subject.

mod compare;
mod configuration;
mod diagnosis;
mod explain;
mod job_changes;
mod jobs;
mod proposals;
mod studies;
mod trials;
mod wait;

use crate::tool::Tool;

/// All tools, in the order of their use.
pub(crate) fn all() -> Vec<Tool> {
    let groups = [
        configuration::tools(),
        job_changes::tools(),
        jobs::tools(),
        wait::tools(),
        trials::tools(),
        diagnosis::tools(),
        explain::tools(),
        compare::tools(),
        proposals::tools(),
        studies::tools(),
    ];
    groups.into_iter().flatten().collect()
}
