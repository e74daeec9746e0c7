//! Memory kills in this agent's control group.
//!
//! The kernel may kill the program of a trial but spare its agent. The container then keeps running, and its engine
//! reports no lack of memory.

use std::fs;
use std::path::{Path, PathBuf};

/// Mount point of control groups.
pub(super) const CONTROL_GROUPS: &str = "/sys/fs/cgroup";

/// Files with the number of kills, below the mount point: for version 2, where a container sees its own group, and for
/// version 1.
const COUNTERS: [&str; 2] = ["memory.events", "memory/memory.oom_control"];

/// Counter of processes the kernel killed for lack of memory.
pub(super) struct OomKills {
    mount: PathBuf,
    at_start: u64,
}

impl OomKills {
    /// Starts counting in the control group mounted at `mount`.
    pub(super) fn since_now(mount: &Path) -> Self {
        Self { mount: mount.to_owned(), at_start: count(mount) }
    }

    /// Whether a process was killed since the start.
    pub(super) fn any(&self) -> bool {
        count(&self.mount) > self.at_start
    }
}

/// Number of kills; 0 if no counter is readable.
fn count(mount: &Path) -> u64 {
    let kills = |text: String| text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok());
    COUNTERS.iter().find_map(|file| kills(fs::read_to_string(mount.join(file)).ok()?)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_after_the_start_are_noticed_in_both_versions_of_control_groups() {
        for (file, other) in [("memory.events", "low 0\noom 3\n"), ("memory/memory.oom_control", "under_oom 0\n")] {
            let mount = tempfile::tempdir().unwrap();
            let path = mount.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let write = |kills: u32| fs::write(&path, format!("{other}oom_kill {kills}\noom_group_kill 9\n")).unwrap();
            write(2);
            let watch = OomKills::since_now(mount.path());
            assert!(!watch.any(), "{file}");
            write(3);
            assert!(watch.any(), "{file}");
        }
        let mount = tempfile::tempdir().unwrap();
        assert!(!OomKills::since_now(mount.path()).any());
    }
}
