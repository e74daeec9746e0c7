//! Log quota of an attempt, enforced by its supervisor while the program runs.

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use crate::log_space::shorten;

/// Interval between two checks. A program can exceed the quota by its output in this time.
const INTERVAL: Duration = Duration::from_secs(1);

/// Logs of one attempt, each with an equal share of the quota.
pub(super) struct LogQuota {
    /// Maximum total disk space in bytes; `None` for no limit.
    quota_bytes: Option<u64>,
    logs: Vec<File>,
    next_check: Instant,
}

impl LogQuota {
    pub(super) fn new(quota_bytes: Option<u64>) -> Self {
        Self { quota_bytes, logs: Vec::new(), next_check: Instant::now() + INTERVAL }
    }

    /// Adds open logs that a program appends to.
    pub(super) fn add(&mut self, logs: impl IntoIterator<Item = File>) {
        self.logs.extend(logs);
    }

    /// Time until the next check; `None` without a quota.
    pub(super) fn until_check(&self, now: Instant) -> Option<Duration> {
        self.quota_bytes.map(|_| self.next_check.saturating_duration_since(now))
    }

    /// Shortens the logs if a check is due.
    ///
    /// # Errors
    /// If the file system cannot free space.
    pub(super) fn check(&mut self, now: Instant) -> io::Result<()> {
        let Some(quota_bytes) = self.quota_bytes.filter(|_| now >= self.next_check) else { return Ok(()) };
        self.next_check = now + INTERVAL;
        self.shorten(quota_bytes)
    }

    /// Shortens the logs after the programs have ended.
    ///
    /// # Errors
    /// Those of [`Self::check`].
    pub(super) fn finish(&self) -> io::Result<()> {
        self.quota_bytes.map_or(Ok(()), |quota_bytes| self.shorten(quota_bytes))
    }

    fn shorten(&self, quota_bytes: u64) -> io::Result<()> {
        let each = quota_bytes / (self.logs.len().max(1) as u64);
        self.logs.iter().try_for_each(|log| shorten(log, each))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, SeekFrom, Write};

    use super::*;

    #[test]
    fn large_log_keeps_its_head_its_tail_and_its_offsets() {
        let mut log = tempfile::tempfile().unwrap();
        let line = |number: usize| format!("line {number:011}\n");
        let text: String = (0..60_000).map(line).collect();
        log.write_all(text.as_bytes()).unwrap();
        log.sync_all().unwrap();
        let mut quota = LogQuota::new(Some(128 << 10));
        quota.add([log.try_clone().unwrap()]);
        quota.finish().unwrap();
        let metadata = log.metadata().unwrap();
        assert_eq!(metadata.len(), text.len() as u64);
        assert!(crate::log_space::of(&metadata) <= 128 << 10, "{metadata:?}");
        let mut read = String::new();
        log.seek(SeekFrom::Start(0)).unwrap();
        log.read_to_string(&mut read).unwrap();
        assert!(read.starts_with(&text[..32 << 10]));
        assert!(read.ends_with(&text[text.len() - (32 << 10)..]));
        assert!(read[64 << 10..text.len() - (64 << 10)].bytes().all(|byte| byte == 0));
    }

    #[test]
    fn small_logs_and_logs_without_quota_are_kept() {
        let mut log = tempfile::tempfile().unwrap();
        log.write_all(&[b'x'; 100_000]).unwrap();
        log.sync_all().unwrap();
        let before = crate::log_space::of(&log.metadata().unwrap());
        for quota_bytes in [None, Some(1 << 20)] {
            let mut quota = LogQuota::new(quota_bytes);
            quota.add([log.try_clone().unwrap()]);
            quota.finish().unwrap();
            assert_eq!(crate::log_space::of(&log.metadata().unwrap()), before);
        }
    }
}
