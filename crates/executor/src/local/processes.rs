//! Finding and signalling the processes of an attempt, as `/proc` shows them.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid, kill_process};

/// The variable in whose presence a process is known to be of an attempt.
pub(super) const TOKEN_VARIABLE: &str = "TUNESMITH_ATTEMPT_TOKEN";

/// One living process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) group: i32,
}

/// The living descendants of this process, zombies left out. A sub-reaper's descendants cannot leave it.
pub(super) fn descendants() -> io::Result<Vec<Process>> {
    let mut children: HashMap<i32, Vec<(Process, bool)>> = HashMap::new();
    for pid in all()? {
        if let Some((parent, group, living)) = stat(pid) {
            children.entry(parent).or_default().push((Process { pid, group }, living));
        }
    }
    let mut found = Vec::new();
    let mut open = vec![getpid().as_raw_nonzero().get()];
    let mut seen = HashSet::new();
    while let Some(parent) = open.pop() {
        if !seen.insert(parent) {
            continue;
        }
        for &(process, living) in children.get(&parent).into_iter().flatten() {
            open.push(process.pid.as_raw_nonzero().get());
            if living {
                found.push(process);
            }
        }
    }
    Ok(found)
}

/// Kills every process whose environment bears `token`, until none is left.
///
/// # Errors
/// [`io::ErrorKind::TimedOut`] if one is still there after `patience`: stuck in the kernel, or not ours to kill.
pub(super) fn kill_all_with_token(token: &str, patience: Duration) -> io::Result<()> {
    let entry = format!("{TOKEN_VARIABLE}={token}");
    let deadline = Instant::now() + patience;
    loop {
        let mut left = None;
        for pid in all()? {
            // A process may end while it is looked at, or belong to another user: neither can be one of ours.
            let Ok(environment) = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())) else { continue };
            if environment.split(|&byte| byte == 0).any(|variable| variable == entry.as_bytes()) {
                // Signals are not lost; the next look says whether it helped.
                let _ = kill_process(pid, Signal::KILL);
                left = Some(pid);
            }
        }
        let Some(pid) = left else { return Ok(()) };
        if Instant::now() >= deadline {
            let message = format!("process {} of a lost attempt cannot be killed", pid.as_raw_nonzero());
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// All process IDs of now.
fn all() -> io::Result<Vec<Pid>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        pids.extend(name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw));
    }
    Ok(pids)
}

/// Parent, process group, and whether it is more than a zombie; `None` if it is gone.
fn stat(pid: Pid) -> Option<(i32, i32, bool)> {
    parse_stat(&fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?)
}

/// See proc_pid_stat(5): `pid (name) state ppid pgrp ...`, where the name may hold anything, parentheses included.
fn parse_stat(bytes: &[u8]) -> Option<(i32, i32, bool)> {
    let name_end = bytes.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(bytes.get(name_end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let living = !matches!(fields.next()?, "Z" | "X");
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?, living))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_bytes_does_not_confuse() {
        assert_eq!(parse_stat(b"12 (a) R 1 2 (\xff) S 7 8 9 0"), Some((7, 8, true)));
        assert_eq!(parse_stat(b"12 (sh) Z 7 8 9 0"), Some((7, 8, false)));
        assert_eq!(parse_stat(b""), None);
    }

    #[test]
    fn an_unknown_token_kills_nothing() {
        kill_all_with_token("no such token", Duration::ZERO).unwrap();
    }
}
