//! The calls of this room that the compiler cannot check.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::SigSet;
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal, setsid};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Makes the process of `command` the leader of a session, and of a process group, that ends with its parent.
#[expect(unsafe_code, reason = "there is no safe way to run code between fork and exec")]
pub(super) fn die_with_parent(command: &mut Command) {
    let parent = getpid();
    let prepare = move || {
        // What this process blocks in order to read it as events would stay blocked in the program.
        SigSet::empty().thread_set_mask()?;
        setsid()?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the line above, which then comes too late.
        if getppid() != Some(parent) {
            return Err(io::Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error()));
        }
        Ok(())
    };
    // SAFETY: `prepare` makes bare system calls and allocates nothing, so it is safe in the child of a fork.
    unsafe {
        command.pre_exec(prepare);
    }
}

/// Registers a process handle with the runtime: it becomes readable when the process ends.
#[expect(unsafe_code, reason = "the runtime cannot know that the descriptor stays open")]
pub(super) fn watch(process: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open, and keeps its number, for as long as it lives, and the `AsyncFd` owns it.
    Ok(unsafe { AsyncFd::register_with_interest(process, Interest::READABLE) }?)
}
