//! The maximum disk space of the logs of one attempt.
//!
//! A log that is too large keeps its head and its tail. The blocks in between are given back to the file system
//! (`FALLOC_FL_PUNCH_HOLE`), so that offsets in the log stay valid, for readers as for the program that appends to it.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, fallocate};

/// Interval between two checks. A program can exceed the quota by what it writes in this time.
const INTERVAL: Duration = Duration::from_secs(1);

/// Size of the blocks in which space is given back.
const BLOCK_BYTES: u64 = 4096;

/// Part of the quota that the head and the tail of a log may each take, after the space in between was given back.
const KEPT_PART: u64 = 4;

/// Unit of the number of blocks in the metadata of a file.
const STAT_BLOCK_BYTES: u64 = 512;

/// The logs of one attempt. Each may take the whole quota divided by their number.
pub(super) struct LogQuota {
    /// Maximum space of all logs in bytes; `None` for any.
    quota_bytes: Option<u64>,
    logs: Vec<File>,
    next_check: Instant,
}

impl LogQuota {
    pub(super) fn new(quota_bytes: Option<u64>) -> Self {
        Self { quota_bytes, logs: Vec::new(), next_check: Instant::now() + INTERVAL }
    }

    /// Adds open logs, which their program appends to.
    pub(super) fn add(&mut self, logs: impl IntoIterator<Item = File>) {
        self.logs.extend(logs);
    }

    /// The time until the next check; `None` if there is no quota.
    pub(super) fn until_check(&self, now: Instant) -> Option<Duration> {
        self.quota_bytes.map(|_| self.next_check.saturating_duration_since(now))
    }

    /// Shortens the logs if a check is due.
    ///
    /// # Errors
    /// If the file system cannot give space back.
    pub(super) fn check(&mut self, now: Instant) -> io::Result<()> {
        let Some(quota_bytes) = self.quota_bytes.filter(|_| now >= self.next_check) else { return Ok(()) };
        self.next_check = now + INTERVAL;
        self.shorten(quota_bytes)
    }

    /// Shortens the logs after the programs have ended.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub(super) fn finish(&self) -> io::Result<()> {
        self.quota_bytes.map_or(Ok(()), |quota_bytes| self.shorten(quota_bytes))
    }

    fn shorten(&self, quota_bytes: u64) -> io::Result<()> {
        let each = quota_bytes / (self.logs.len().max(1) as u64);
        self.logs.iter().try_for_each(|log| shorten(log, each))
    }
}

/// Gives the space between head and tail of `log` back if it takes more than `max_bytes`.
fn shorten(log: &File, max_bytes: u64) -> io::Result<()> {
    let metadata = log.metadata()?;
    if metadata.blocks() * STAT_BLOCK_BYTES <= max_bytes.max(KEPT_PART * BLOCK_BYTES) {
        return Ok(());
    }
    let kept = (max_bytes / KEPT_PART).max(BLOCK_BYTES);
    let start = kept.next_multiple_of(BLOCK_BYTES);
    let end = metadata.len().saturating_sub(kept) / BLOCK_BYTES * BLOCK_BYTES;
    if end > start {
        fallocate(log, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, start, end - start)?;
    }
    Ok(())
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
        assert!(metadata.blocks() * STAT_BLOCK_BYTES <= 128 << 10, "{} blocks", metadata.blocks());
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
        let before = log.metadata().unwrap().blocks();
        for quota_bytes in [None, Some(1 << 20)] {
            let mut quota = LogQuota::new(quota_bytes);
            quota.add([log.try_clone().unwrap()]);
            quota.finish().unwrap();
            assert_eq!(log.metadata().unwrap().blocks(), before);
        }
    }
}
