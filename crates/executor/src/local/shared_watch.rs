//! Supervisor's side of an attempt submitted from another machine: claim, heartbeat, and requests read from the shared
//! folder.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use super::attempt::{Attempt, AttemptOutcome, Started, StopRequest};
use super::shared::{ALIVE, Alive, LOSS, SharedTimes};
use crate::host_name;

/// Heartbeats per lease.
const BEATS_PER_LEASE: u32 = 4;

/// Variables with the engine's name of the run.
const ENGINE_JOB_VARIABLES: [&str; 1] = ["SLURM_JOB_ID"];

/// Request of the submitting machine.
pub(super) enum Order {
    /// Stop the programs.
    Stop(StopRequest),
    /// Kill the programs: the attempt counts as lost.
    End(AttemptOutcome),
}

/// Schedule and state of polling the shared folder.
pub(super) struct SharedWatch {
    times: SharedTimes,
    next_check: Instant,
    next_beat: Instant,
    /// Last time the folder was writable.
    reached: Instant,
    beats: u64,
    stop: Option<StopRequest>,
    /// Whether the attempt was given up.
    is_over: bool,
}

impl SharedWatch {
    pub(super) fn new(times: SharedTimes, now: Instant) -> Self {
        Self { times, next_check: now, next_beat: now, reached: now, beats: 0, stop: None, is_over: false }
    }

    /// Time until the next check.
    pub(super) fn until_check(&self, now: Instant) -> Duration {
        self.next_check.saturating_duration_since(now)
    }

    /// Polls for requests and writes a heartbeat, if either is due.
    pub(super) fn check(&mut self, attempt: &Attempt, token: &str, now: Instant) -> Option<Order> {
        if now < self.next_check || self.is_over {
            return None;
        }
        self.next_check = now + self.times.check();
        if let Some(outcome) = loss(attempt) {
            self.is_over = true;
            return Some(Order::End(outcome));
        }
        if now >= self.next_beat {
            self.next_beat = now + self.times.lease() / BEATS_PER_LEASE;
            self.beats += 1;
            let alive = Alive { beats: self.beats, host: host_name(), token: token.to_owned() };
            if attempt.write(ALIVE, &alive, false).is_ok() {
                self.reached = now;
            }
        }
        if now.duration_since(self.reached) >= self.times.lease() {
            self.is_over = true;
            let reason = format!(
                "its machine {} could not write to the shared folder for {} s, and ended it",
                host_name(),
                self.times.lease().as_secs()
            );
            return Some(Order::End(AttemptOutcome::Lost { reason }));
        }
        let request = attempt.stop_request().ok().flatten()?;
        if self.stop == Some(request) || self.stop == Some(StopRequest::Immediate) {
            return None;
        }
        self.stop = Some(request);
        Some(Order::Stop(request))
    }
}

/// Loss of the attempt, if recorded by the submitting machine.
pub(super) fn loss(attempt: &Attempt) -> Option<AttemptOutcome> {
    attempt.read(LOSS).ok().flatten()
}

/// Writes `started.json` unless it exists. Of all supervisors started for an attempt, on any machine, exactly one
/// succeeds and runs the programs: hard links are created atomically, even on network file systems.
pub(super) fn claim(attempt: &Attempt, started: &Started) -> io::Result<bool> {
    let name = format!("started.{}.{}", host_name(), std::process::id());
    let (own, shared) = (attempt.folder().join(&name), attempt.folder().join("started.json"));
    let mut file = File::create(&own)?;
    file.write_all(&serde_json::to_vec(started)?)?;
    file.sync_all()?;
    let linked = fs::hard_link(&own, &shared);
    // A network file system may retry a request and report a failure although the first one created the link.
    let is_linked = fs::metadata(&own)?.nlink() == 2;
    fs::remove_file(&own)?;
    match linked {
        _ if is_linked => Ok(true),
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(false),
    }
}

/// Engine's name of this run.
pub(super) fn engine_job() -> Option<String> {
    ENGINE_JOB_VARIABLES.iter().find_map(|name| std::env::var(name).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started() -> Started {
        Started { format: 1, token: "t".to_owned(), supervisor_pid: 1, monotonic_ms: 0, engine_job: None }
    }

    #[test]
    fn attempt_is_claimed_once() {
        let folder = tempfile::tempdir().unwrap();
        let attempt = Attempt::new(folder.path());
        assert!(claim(&attempt, &started()).unwrap());
        assert!(!claim(&attempt, &started()).unwrap());
        assert_eq!(attempt.started().unwrap().unwrap().token, "t");
        let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["started.json"], "no other file is left");
    }

    #[test]
    fn requests_are_returned_once_and_the_stronger_one_again() {
        let folder = tempfile::tempdir().unwrap();
        let attempt = Attempt::new(folder.path());
        let times = SharedTimes { check_ms: 10, lease_ms: 1000 };
        let begin = Instant::now();
        let mut watch = SharedWatch::new(times, begin);
        let mut check = |ms| watch.check(&attempt, "t", begin + Duration::from_millis(ms));
        assert!(check(0).is_none());
        attempt.write_stop_request(StopRequest::Graceful).unwrap();
        assert!(check(5).is_none(), "no check is due");
        assert!(matches!(check(10), Some(Order::Stop(StopRequest::Graceful))));
        assert!(check(20).is_none());
        attempt.write_stop_request(StopRequest::Immediate).unwrap();
        assert!(matches!(check(30), Some(Order::Stop(StopRequest::Immediate))));
        attempt.write(LOSS, &AttemptOutcome::Preempted { reason: "p".to_owned() }, false).unwrap();
        assert!(matches!(check(40), Some(Order::End(AttemptOutcome::Preempted { .. }))));
        assert!(check(50).is_none());
    }

    #[test]
    fn supervisor_that_cannot_write_to_the_folder_ends_its_programs() {
        let folder = tempfile::tempdir().unwrap();
        let attempt = Attempt::new(folder.path().join("gone"));
        let begin = Instant::now();
        let mut watch = SharedWatch::new(SharedTimes { check_ms: 10, lease_ms: 1000 }, begin);
        assert!(watch.check(&attempt, "t", begin + Duration::from_millis(999)).is_none());
        let order = watch.check(&attempt, "t", begin + Duration::from_millis(1010));
        let Some(Order::End(AttemptOutcome::Lost { reason })) = order else { panic!("no end") };
        assert!(reason.ends_with("could not write to the shared folder for 1 s, and ended it"), "{reason}");
    }
}
