//! Disk space of logs.
//!
//! An oversized log keeps its head and its tail. The blocks in between are returned to the file system
//! (`FALLOC_FL_PUNCH_HOLE`), so that offsets in the log remain valid, for readers and for the program that appends to
//! it.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{FallocateFlags, fallocate};

use crate::logs::{LogFile, file_of, logs};
use tunesmith_files::OpenError;

/// Block size in which space is freed.
const BLOCK_BYTES: u64 = 4096;

/// Divisor of the quota for the head and the tail of a shortened log.
const KEPT_PART: u64 = 4;

/// Unit of the block count in a file's metadata.
const STAT_BLOCK_BYTES: u64 = 512;

/// Quota per log in a job above its limit, as long as that suffices; a guess: some screens of text at the beginning and
/// the end.
const SHORT_BYTES: u64 = 64 << 10;

/// Time without changes after which all of a log may be removed.
const QUIET: Duration = Duration::from_secs(60);

/// Disk space of a file in bytes.
pub(crate) fn of(file: &Metadata) -> u64 {
    file.blocks() * STAT_BLOCK_BYTES
}

/// Frees the space between head and tail of `log` if it takes more than `max_bytes`.
///
/// # Errors
/// If the file system cannot free space.
pub(crate) fn shorten(log: &File, max_bytes: u64) -> io::Result<()> {
    let metadata = log.metadata()?;
    if of(&metadata) <= max_bytes.max(KEPT_PART * BLOCK_BYTES) {
        return Ok(());
    }
    let kept = (max_bytes / KEPT_PART).max(BLOCK_BYTES);
    let start = kept.next_multiple_of(BLOCK_BYTES);
    let end = metadata.len().saturating_sub(kept) / BLOCK_BYTES * BLOCK_BYTES;
    remove_range(log, start, end)
}

/// Limits the logs in the folder `job` to `max_bytes` and returns their disk space in bytes. Logs are shortened to head
/// and tail, least recently changed first. If that is not enough, logs unchanged for a minute before `now` lose all
/// their text. Blocks.
///
/// # Errors
/// If the logs cannot be listed, or the file system cannot free space.
pub(crate) fn limit(job: &Path, max_bytes: u64, now: SystemTime) -> io::Result<u64> {
    let mut found = logs(job, None)?;
    let mut space = found.iter().map(|log| log.space_bytes).sum::<u64>();
    found.sort_by_key(|log| log.modified);
    let is_quiet = |log: &&mut LogFile| now.duration_since(log.modified).is_ok_and(|age| age >= QUIET);
    for log in &mut found {
        if space <= max_bytes {
            return Ok(space);
        }
        space -= give_back(job, log, |file| shorten(file, SHORT_BYTES))?;
    }
    for log in found.iter_mut().filter(is_quiet) {
        if space <= max_bytes {
            break;
        }
        space -= give_back(job, log, |file| remove_range(file, 0, file.metadata()?.len()))?;
    }
    Ok(space)
}

/// Removes all logs in the folder `job`, whose programs have ended, and returns their number. Blocks.
///
/// # Errors
/// If the logs cannot be listed or removed.
pub(crate) fn remove(job: &Path) -> io::Result<usize> {
    let found = logs(job, None)?;
    for log in &found {
        match file_of(&log.name, job).remove() {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
    }
    Ok(found.len())
}

/// Shortens `log` and returns the number of bytes freed; 0 if it is no longer the same regular file.
fn give_back(job: &Path, log: &mut LogFile, shorten: impl Fn(&File) -> io::Result<()>) -> io::Result<u64> {
    let file = match file_of(&log.name, job).open_to_change() {
        Ok(file) => file,
        Err(OpenError::NotRegular) => return Ok(0),
        Err(error) if error.is_not_found() => return Ok(0),
        Err(error) => return Err(error.into()),
    };
    let modified = file.metadata()?.modified()?;
    shorten(&file)?;
    // The age of a log refers to the last change by its program.
    file.set_modified(modified)?;
    let before = log.space_bytes;
    log.space_bytes = of(&file.metadata()?).min(before);
    Ok(before - log.space_bytes)
}

fn remove_range(log: &File, start: u64, end: u64) -> io::Result<()> {
    if end > start {
        fallocate(log, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, start, end - start)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::logs::{LogStart, read};

    const MIB: usize = 1 << 20;

    /// Job whose attempt `number` wrote a log of one MiB at `age` before `now`.
    fn write(job: &Path, number: u64, age: Duration, now: SystemTime) {
        let attempt = job.join(format!("attempt-{number}"));
        fs::create_dir_all(&attempt).unwrap();
        let log = attempt.join("stdout.log");
        fs::write(&log, vec![b'a' + u8::try_from(number).unwrap(); MIB]).unwrap();
        let file = File::options().write(true).open(log).unwrap();
        file.sync_all().unwrap();
        file.set_modified(now - age).unwrap();
    }

    /// Space of the logs of `job` in KiB.
    fn space(job: &Path) -> Vec<u64> {
        logs(job, None).unwrap().iter().map(|log| log.space_bytes >> 10).collect()
    }

    #[test]
    fn logs_of_a_job_are_shortened_oldest_first_and_only_as_far_as_needed() {
        let job = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        for (number, secs) in [(1, 10), (2, 400), (3, 300)] {
            write(job.path(), number, Duration::from_secs(secs), now);
        }
        assert_eq!(limit(job.path(), 3 * MIB as u64, now).unwrap(), 3 * MIB as u64);
        assert_eq!(space(job.path()), [1024, 1024, 1024]);
        assert_eq!(limit(job.path(), 2 * MIB as u64 + (64 << 10), now).unwrap() >> 10, 2 * 1024 + 32);
        assert_eq!(space(job.path()), [1024, 32, 1024]);
        assert_eq!(limit(job.path(), 100 << 10, now).unwrap() >> 10, 96);
        assert_eq!(space(job.path()), [32, 32, 32]);
        // The log of the running program keeps its head and its tail.
        assert_eq!(limit(job.path(), 0, now).unwrap() >> 10, 32);
        assert_eq!(space(job.path()), [32, 0, 0]);
        let name = "attempt-2.master-0.stdout".parse().unwrap();
        let chunk = read(job.path(), &name, LogStart::At(0), 100).unwrap().unwrap();
        assert_eq!(chunk.text, "\n[1048576 bytes of this log were removed, since it exceeded a quota]\n");
        assert_eq!(chunk.next_offset, MIB as u64);
    }

    #[test]
    fn files_that_a_program_has_linked_in_place_of_its_logs_are_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let (job, other) = (folder.path().join("job"), folder.path().join("other"));
        let now = SystemTime::now();
        fs::create_dir(&other).unwrap();
        let precious = other.join("precious");
        fs::write(&precious, vec![b'x'; MIB]).unwrap();
        for number in [1, 2] {
            fs::create_dir_all(job.join(format!("attempt-{number}"))).unwrap();
        }
        symlink(&precious, job.join("attempt-1/stdout.log")).unwrap();
        fs::hard_link(&precious, job.join("attempt-2/stdout.log")).unwrap();
        limit(&job, 0, now + Duration::from_secs(3600)).unwrap();
        assert_eq!(fs::read(&precious).unwrap(), vec![b'x'; MIB]);
    }

    #[test]
    fn logs_are_removed_and_other_files_are_kept() {
        let job = tempfile::tempdir().unwrap();
        write(job.path(), 1, Duration::ZERO, SystemTime::now());
        fs::write(job.path().join("attempt-1/model.bin"), "weights").unwrap();
        assert_eq!(remove(job.path()).unwrap(), 1);
        assert_eq!(remove(job.path()).unwrap(), 0);
        assert_eq!(fs::read(job.path().join("attempt-1/model.bin")).unwrap(), b"weights");
    }
}
