//! Running child processes of the benchmark, so that an interrupt can kill them.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use parking_lot::{Mutex, RwLock};
use rustix::process::{Pid, Signal, kill_process_group};

/// Process group ids.
static RUNNING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());
/// Whether this process is about to exit. Read-locked while a child starts or a result is written.
static ENDING: RwLock<bool> = RwLock::new(false);

/// Process group of a child, registered as running until dropped.
#[derive(Debug)]
pub(super) struct Group(u32);

impl Group {
    /// Starts `command` as the leader of its own process group.
    pub(super) fn start(command: &mut Command) -> std::io::Result<(Child, Self)> {
        unless_ending(|| {
            let child = command.process_group(0).spawn()?;
            RUNNING.lock().insert(child.id());
            let group = Self(child.id());
            Ok((child, group))
        })
    }

    pub(super) fn id(&self) -> u32 {
        self.0
    }

    /// Kills the rest of the group. The leader must not have been reaped yet: its id could already be reused.
    pub(super) fn kill(&self) {
        kill(self.0);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        RUNNING.lock().remove(&self.0);
    }
}

/// Runs `work`; [`kill_children`] waits for it. After [`kill_children`], parks the thread until the process exits
/// instead. Start children and write results only in here: then no child is left behind, no line is torn, and no killed
/// child counts as failed.
pub(super) fn unless_ending<T>(work: impl FnOnce() -> T) -> T {
    let ending = ENDING.read();
    if *ending {
        drop(ending);
        loop {
            std::thread::park();
        }
    }
    work()
}

/// Kills every running group before this process exits, and blocks new children and results, so that a killed child is
/// not recorded as failed.
pub fn kill_children() {
    *ENDING.write() = true;
    for id in RUNNING.lock().iter() {
        kill(*id);
    }
}

fn kill(id: u32) {
    if let Some(group) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        // The group may have just exited.
        let _ = kill_process_group(group, Signal::KILL);
    }
}
