//! Processes of an attempt, found through `/proc`.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid, kill_process};

/// Environment variable that marks the processes of an attempt.
pub(super) const TOKEN_VARIABLE: &str = "TUNESMITH_ATTEMPT_TOKEN";

/// Living process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) group: i32,
}

/// Living descendants of this process, without zombies.
pub(super) fn descendants() -> io::Result<Vec<Process>> {
    descendants_of(getpid())
}

/// Whether the process is stopped by a signal.
pub(super) fn is_stopped(pid: Pid) -> bool {
    let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    let name_end = stat.iter().rposition(|&byte| byte == b')').unwrap_or(0);
    stat.get(name_end + 2) == Some(&b'T')
}

/// Living descendants of `root`, without zombies. Descendants of a sub-reaper remain its descendants.
pub(super) fn descendants_of(root: Pid) -> io::Result<Vec<Process>> {
    let mut children: HashMap<i32, Vec<(Process, bool)>> = HashMap::new();
    for pid in all()? {
        if let Some((parent, group, living)) = stat(pid) {
            children.entry(parent).or_default().push((Process { pid, group }, living));
        }
    }
    let mut found = Vec::new();
    let mut pending = vec![root.as_raw_nonzero().get()];
    let mut seen = HashSet::new();
    while let Some(parent) = pending.pop() {
        if !seen.insert(parent) {
            continue;
        }
        for &(process, living) in children.get(&parent).into_iter().flatten() {
            pending.push(process.pid.as_raw_nonzero().get());
            if living {
                found.push(process);
            }
        }
    }
    Ok(found)
}

/// Kills all processes whose environment contains `token`, until none is left.
///
/// # Errors
/// [`io::ErrorKind::TimedOut`] if a process is still alive after `timeout`: blocked in the kernel, or owned by another
/// user.
pub(super) fn kill_all_with_token(token: &str, timeout: Duration) -> io::Result<()> {
    let entry = format!("{TOKEN_VARIABLE}={token}");
    let deadline = Instant::now() + timeout;
    loop {
        let mut left = None;
        for pid in all()? {
            // A process that has ended or belongs to another user is not of the attempt.
            let Ok(environment) = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())) else { continue };
            if environment.split(|&byte| byte == 0).any(|variable| variable == entry.as_bytes()) {
                // The next iteration checks whether the process has ended.
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

/// All current process IDs.
fn all() -> io::Result<Vec<Pid>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        pids.extend(name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw));
    }
    Ok(pids)
}

/// Parent, process group and whether the process is alive (not a zombie); `None` if it does not exist.
fn stat(pid: Pid) -> Option<(i32, i32, bool)> {
    parse_stat(&fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?)
}

/// Parses the format of proc_pid_stat(5): `pid (name) state ppid pgrp ...`. The name may contain any bytes, including
/// parentheses.
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
    fn process_names_may_contain_parentheses_and_invalid_utf8() {
        assert_eq!(parse_stat(b"12 (a) R 1 2 (\xff) S 7 8 9 0"), Some((7, 8, true)));
        assert_eq!(parse_stat(b"12 (sh) Z 7 8 9 0"), Some((7, 8, false)));
        assert_eq!(parse_stat(b""), None);
    }

    #[test]
    fn unknown_token_kills_no_process() {
        kill_all_with_token("no such token", Duration::ZERO).unwrap();
    }
}
