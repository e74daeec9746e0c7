//! `unsafe` calls of the local executor.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::SigSet;
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use rustix::fs::Mode;
use rustix::process::{
    Resource, Rlimit, Signal, getpid, getppid, set_parent_process_death_signal, setrlimit, setsid, umask,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::identity::Identity;

/// Makes the process of `command` the leader of a new session and process group, which the kernel kills when its parent
/// dies.
#[expect(unsafe_code, reason = "there is no safe way to run code between fork and exec")]
pub(super) fn die_with_parent(command: &mut Command) {
    let parent = getpid();
    let prepare = move || {
        // The program inherits the signal mask, and this process blocks the signals it reads as events.
        SigSet::empty().thread_set_mask()?;
        setsid()?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the call above, which then has no effect.
        if getppid() != Some(parent) {
            return Err(io::Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error()));
        }
        Ok(())
    };
    // SAFETY: `prepare` makes only system calls and does not allocate, so it is safe in the child of a fork.
    unsafe {
        command.pre_exec(prepare);
    }
}

/// Limits the data (memory that it may write to) of the process of `command`, and the size of each file that it writes.
/// Its children inherit the limits, each for itself.
#[expect(unsafe_code, reason = "there is no safe way to run code between fork and exec")]
pub(super) fn limit(command: &mut Command, data_bytes: u64, file_bytes: u64) {
    let prepare = move || {
        for (resource, bytes) in [(Resource::Data, data_bytes), (Resource::Fsize, file_bytes), (Resource::Core, 0)] {
            setrlimit(resource, Rlimit { current: Some(bytes), maximum: Some(bytes) })?;
        }
        Ok(())
    };
    // SAFETY: `prepare` makes only system calls and does not allocate, so it is safe in the child of a fork.
    unsafe {
        command.pre_exec(prepare);
    }
}

/// Runs the process of `command` as the user `identity` and with the umask `mode`, where given. Call before
/// [`die_with_parent`]: changing the user makes the kernel clear that setting.
#[expect(unsafe_code, reason = "there is no safe way to run code between fork and exec")]
pub(super) fn become_user(command: &mut Command, identity: Option<&Identity>, mode: Option<u32>) {
    let ids = identity.map(|identity| {
        let groups: Vec<Gid> = identity.groups.iter().copied().map(Gid::from_raw).collect();
        (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid), groups)
    });
    let prepare = move || {
        if let Some(mode) = mode {
            umask(Mode::from_raw_mode(mode));
        }
        if let Some((uid, gid, groups)) = &ids {
            setgroups(groups)?;
            setresgid(*gid, *gid, *gid)?;
            setresuid(*uid, *uid, *uid)?;
        }
        Ok(())
    };
    // SAFETY: `prepare` makes only system calls and does not allocate, so it is safe in the child of a fork.
    unsafe {
        command.pre_exec(prepare);
    }
}

/// Registers a process handle with the runtime. It becomes readable when the process ends.
#[expect(unsafe_code, reason = "the runtime cannot check that the descriptor stays open")]
pub(super) fn watch(process: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` stays open under its number until it is dropped, and the `AsyncFd` owns it.
    Ok(unsafe { AsyncFd::register_with_interest(process, Interest::READABLE) }?)
}
