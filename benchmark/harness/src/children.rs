//! The running child processes of the benchmark, so that an interrupt can end them.

use std::collections::BTreeSet;
use std::process::Child;
use std::sync::{Mutex, PoisonError, RwLock};

use rustix::process::{Pid, Signal, kill_process_group};

/// Ids of running children, each the leader of a process group.
static RUNNING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());
/// Whether this process is about to end. Held for reading while a child is started or a result written.
static ENDING: RwLock<bool> = RwLock::new(false);

/// A child, the leader of its process group, known as running until this is dropped.
#[derive(Debug)]
pub(super) struct Group(u32);

impl Group {
    /// Takes `child` under control; it must have been started as the leader of a group of its own.
    pub(super) fn of(child: &Child) -> Self {
        running().insert(child.id());
        Self(child.id())
    }

    /// The id of the group.
    pub(super) fn id(&self) -> u32 {
        self.0
    }

    /// Kills the rest of the group. Its leader must not have been waited for, since its id may be reused then.
    pub(super) fn kill(&self) {
        kill(self.0);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        running().remove(&self.0);
    }
}

/// Does `work`, during which [`kill_children`] waits. After [`kill_children`] it does nothing and parks the thread until
/// the end of the process. Children must be started and results written in here: then no child is left behind, no line
/// is torn, and a killed child does not count as failed.
pub(super) fn unless_ending<T>(work: impl FnOnce() -> T) -> T {
    let ending = ENDING.read().unwrap_or_else(PoisonError::into_inner);
    if *ending {
        drop(ending);
        loop {
            std::thread::park();
        }
    }
    work()
}

/// Kills every running group before this process ends. From here on no child is started and no result written, so that
/// a killed child is not recorded as failed.
pub fn kill_children() {
    *ENDING.write().unwrap_or_else(PoisonError::into_inner) = true;
    for id in running().iter() {
        kill(*id);
    }
}

fn running() -> std::sync::MutexGuard<'static, BTreeSet<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn kill(id: u32) {
    if let Some(group) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        // It may have ended by itself just now.
        let _ = kill_process_group(group, Signal::KILL);
    }
}
