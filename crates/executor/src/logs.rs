//! Reading of a job's logs in chunks, even while they grow.
//!
//! Executors write the output of an attempt to its folder: `stdout.log` and `stderr.log` for the master,
//! `<role>-<index>-stdout.log` and `<role>-<index>-stderr.log` for other replicas. The output of the package installer
//! is `packages.log` in the job's folder or, with agents, `packages-stdout.log` in the attempt's folder.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{SeekFrom as Position, seek};
use rustix::io::Errno;

use crate::log_space;
use tunesmith_domain::canonical_number;
pub use tunesmith_domain::{LogName, LogStream, MASTER, PACKAGES};
use tunesmith_files::{Entry, OpenError, RootedPath};

/// Log and its current size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFile {
    pub name: LogName,
    pub size_bytes: u64,
    /// Disk space; less than the size once a part was removed.
    pub space_bytes: u64,
    /// Time of the last change.
    pub modified: SystemTime,
}

/// Start position of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStart {
    /// Offset in bytes.
    At(u64),
    /// The last part, ending with the log.
    Tail,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogChunk {
    /// Invalid UTF-8 is replaced.
    pub text: String,
    pub next_offset: u64,
}

/// File of the log `name` in the job's folder `job`.
pub(crate) fn file_of(name: &LogName, job: &Path) -> RootedPath {
    file_in(name, &RootedPath::from(job.to_owned()))
}

fn file_in(name: &LogName, job: &RootedPath) -> RootedPath {
    let LogName { trial, attempt, task, stream } = name;
    if *name == LogName::packages() {
        return job.join("packages.log");
    }
    let attempts = match trial {
        Some(trial) => job.join("trials").join(trial.to_string()),
        None => job.clone(),
    };
    let stream = stream.as_str();
    let file = if task == MASTER { format!("{stream}.log") } else { format!("{task}-{stream}.log") };
    attempts.join(format!("attempt-{attempt}")).join(file)
}

/// Path of the log `name` in the job's folder `job`.
pub fn path(name: &LogName, job: &Path) -> PathBuf {
    file_of(name, job).path()
}

/// Lists the logs in the folder `job` by trial, attempt, task and stream, optionally only those of `trial`. Blocks.
///
/// # Errors
/// Those of reading folders.
pub fn logs(job: &Path, trial: Option<u64>) -> io::Result<Vec<LogFile>> {
    let mut found = Vec::new();
    let job = RootedPath::from(job.to_owned());
    let mut trials: Vec<(Option<u64>, RootedPath)> = match trial {
        Some(trial) => vec![(Some(trial), job.join("trials").join(trial.to_string()))],
        None => vec![(None, job.clone())],
    };
    if trial.is_none() {
        for (name, place) in entries(&job.join("trials"), |entry| entry.is_folder)? {
            trials.extend(name.parse().ok().map(|number| (Some(number), place)));
        }
    }
    for (trial, folder) in trials {
        for (name, place) in entries(&folder, |entry| entry.is_folder)? {
            let Some(attempt) = name.strip_prefix("attempt-").and_then(canonical_number) else { continue };
            for (file, place) in entries(&place, |entry| entry.is_file)? {
                let Some((task, stream)) = task_and_stream(&file) else { continue };
                found.extend(log_at(LogName { trial, attempt, task, stream }, &place)?);
            }
        }
    }
    if trial.is_none() {
        let name = LogName::packages();
        let place = file_in(&name, &job);
        found.extend(log_at(name, &place)?);
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Log `name` at `place`; `None` if a program has removed or replaced it in the meantime.
fn log_at(name: LogName, place: &RootedPath) -> io::Result<Option<LogFile>> {
    let Some(metadata) = unless_absent(place.metadata())?.filter(std::fs::Metadata::is_file) else { return Ok(None) };
    let (size_bytes, space_bytes) = (metadata.len(), log_space::of(&metadata));
    Ok(Some(LogFile { name, size_bytes, space_bytes, modified: metadata.modified()? }))
}

/// Reads about `limit` bytes of the log `name` in the folder `job`, beginning at `start`; `None` if there is no such
/// log, or if a program replaced it by a link, a pipe or a device. Chunks end at character boundaries, unless the log
/// does not. Blocks.
///
/// # Errors
/// If the file cannot be read.
pub fn read(job: &Path, name: &LogName, start: LogStart, limit: usize) -> io::Result<Option<LogChunk>> {
    let Some(mut file) = unless_absent(file_of(name, job).open())? else { return Ok(None) };
    let offset = match start {
        LogStart::At(offset) => offset,
        LogStart::Tail => file.metadata()?.len().saturating_sub(limit as u64),
    };
    let (start, limit) = match next_data(&file, offset, limit)? {
        NextData::Here { limit } => (offset, limit),
        NextData::At { start } => {
            let text = format!("\n[{} bytes of this log were removed, since it exceeded a quota]\n", start - offset);
            return Ok(Some(LogChunk { text, next_offset: start }));
        }
    };
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(limit as u64).read_to_end(&mut bytes)?;
    if bytes.len() == limit {
        bytes.truncate(limit - unfinished_character(&bytes));
    }
    let next_offset = offset + bytes.len() as u64;
    Ok(Some(LogChunk { text: String::from_utf8_lossy(&bytes).into_owned(), next_offset }))
}

/// Reads up to `limit` bytes of the log `name` in the folder `job` from `offset`, or from the end of a hole at
/// `offset`. Returns the actual offset and the bytes; `None` if there is no such log. Blocks.
///
/// # Errors
/// If the file cannot be read.
pub fn read_bytes(job: &Path, name: &LogName, offset: u64, limit: usize) -> io::Result<Option<(u64, Vec<u8>)>> {
    let Some(mut file) = unless_absent(file_of(name, job).open())? else { return Ok(None) };
    let (start, limit) = match next_data(&file, offset, limit)? {
        NextData::Here { limit } => (offset, limit),
        NextData::At { start } => (start, 0),
    };
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(limit as u64).read_to_end(&mut bytes)?;
    Ok(Some((start, bytes)))
}

/// Next bytes of a log.
enum NextData {
    /// At the offset, up to `limit` before the next hole.
    Here { limit: usize },
    /// After a hole: an executor removed the middle of a log above its quota.
    At { start: u64 },
}

/// Locates the next bytes of `file` from `offset`, at most `limit`.
fn next_data(file: &File, offset: u64, limit: usize) -> io::Result<NextData> {
    let start = match seek(file, Position::Data(offset)) {
        Ok(start) => start,
        // No data follows: the end of the log, or a hole at its end.
        Err(Errno::NXIO) => file.metadata()?.len().max(offset),
        // The file system does not support holes.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(NextData::Here { limit }),
        Err(error) => return Err(error.into()),
    };
    if start > offset {
        return Ok(NextData::At { start });
    }
    let hole = seek(file, Position::Hole(offset)).unwrap_or(u64::MAX);
    let until_hole = usize::try_from(hole.saturating_sub(offset)).unwrap_or(usize::MAX);
    Ok(NextData::Here { limit: if until_hole == 0 { limit } else { limit.min(until_hole) } })
}

/// Number of bytes of an incomplete character at the end.
fn unfinished_character(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last();
    // An incomplete sequence is invalid, ends the text, and has no definite error length.
    let rest = last.map_or(0, |chunk| chunk.invalid().len());
    if rest < bytes.len() && std::str::from_utf8(&bytes[bytes.len() - rest..]).is_err_and(|e| e.error_len().is_none()) {
        rest
    } else {
        0
    }
}

fn task_and_stream(file: &str) -> Option<(String, LogStream)> {
    let name = file.strip_suffix(".log")?;
    let (task, stream) = name.rsplit_once('-').unwrap_or((MASTER, name));
    let stream = [LogStream::Stderr, LogStream::Stdout].into_iter().find(|known| known.as_str() == stream)?;
    LogName::is_task(task).then(|| (task.to_owned(), stream))
}

/// Names and paths of the entries of `folder` that `wanted` accepts; empty if it is missing or not a folder.
fn entries(folder: &RootedPath, wanted: fn(&Entry) -> bool) -> io::Result<Vec<(String, RootedPath)>> {
    let listed = unless_absent(folder.entries())?.unwrap_or_default();
    let named = |entry: Entry| entry.name.into_string().ok().map(|name| (name.clone(), folder.join(name)));
    Ok(listed.into_iter().filter(wanted).filter_map(named).collect())
}

/// Maps missing and non-regular files to `None`.
fn unless_absent<T>(result: Result<T, OpenError>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(OpenError::NotRegular) => Ok(None),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use rustix::fs::{FallocateFlags, fallocate};

    use super::*;

    fn write(job: &Path, path: &str, bytes: &[u8]) {
        let path = job.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    #[test]
    fn logs_are_listed_in_order_and_read_by_name() {
        let job = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("packages.log", "Collecting numpy"),
            ("trials/10/attempt-1/stdout.log", "ten"),
            ("trials/2/attempt-1/stdout.log", "two"),
            ("trials/2/attempt-2/worker-0-stderr.log", "worker"),
            ("trials/2/attempt-2/spec.json", "{}"),
            ("trials/2/attempt-2/supervisor.log", ""),
            ("secret", ""),
        ] {
            write(job.path(), path, text.as_bytes());
        }
        let all = logs(job.path(), None).unwrap();
        let names: Vec<String> = all.iter().map(|log| log.name.to_string()).collect();
        assert_eq!(
            names,
            [
                "attempt-0.packages.stdout",
                "trial-2.attempt-1.master-0.stdout",
                "trial-2.attempt-2.worker-0.stderr",
                "trial-10.attempt-1.master-0.stdout"
            ]
        );
        let texts: Vec<String> = names
            .iter()
            .map(|name| read(job.path(), &name.parse().unwrap(), LogStart::At(0), 100).unwrap().unwrap().text)
            .collect();
        assert_eq!(texts, ["Collecting numpy", "two", "worker", "ten"]);
        assert_eq!(logs(job.path(), Some(10)).unwrap().len(), 1);
        assert_eq!(logs(&job.path().join("absent"), None).unwrap(), []);
        write(job.path(), "attempt-1/stderr.log", b"");
        assert_eq!(logs(job.path(), None).unwrap()[1].name.to_string(), "attempt-1.master-0.stderr");
    }

    #[test]
    fn links_and_pipes_in_place_of_logs_are_neither_listed_nor_read() {
        let folder = tempfile::tempdir().unwrap();
        let job = folder.path().join("job");
        write(&job, "trials/1/attempt-1/stdout.log", b"text");
        let attempt = job.join("trials/1/attempt-1");
        symlink("/etc/passwd", attempt.join("stderr.log")).unwrap();
        assert!(Command::new("mkfifo").arg(attempt.join("worker-0-stdout.log")).status().unwrap().success());
        symlink(&attempt, job.join("trials/1/attempt-2")).unwrap();
        symlink("1", job.join("trials/2")).unwrap();
        symlink("job", folder.path().join("other")).unwrap();
        let names: Vec<String> = logs(&job, None).unwrap().iter().map(|log| log.name.to_string()).collect();
        assert_eq!(names, ["trial-1.attempt-1.master-0.stdout"]);
        for name in [
            "trial-1.attempt-1.master-0.stderr",
            "trial-1.attempt-1.worker-0.stdout",
            "trial-1.attempt-2.master-0.stdout",
            "trial-2.attempt-1.master-0.stdout",
        ] {
            assert_eq!(read(&job, &name.parse().unwrap(), LogStart::At(0), 100).unwrap(), None, "{name}");
        }
        let log = "trial-1.attempt-1.master-0.stdout".parse().unwrap();
        assert_eq!(read(&job, &log, LogStart::At(0), 100).unwrap().unwrap().text, "text");
        assert_eq!(
            read(&folder.path().join("other"), &log, LogStart::At(0), 100).unwrap(),
            None,
            "the folder of a job is no link"
        );
    }

    #[test]
    fn tail_ends_with_the_log() {
        let job = tempfile::tempdir().unwrap();
        write(job.path(), "attempt-1/stderr.log", b"one\ntwo\n");
        let name: LogName = "attempt-1.master-0.stderr".parse().unwrap();
        for (limit, text) in [(4, "two\n"), (100, "one\ntwo\n")] {
            let chunk = read(job.path(), &name, LogStart::Tail, limit).unwrap().unwrap();
            assert_eq!((chunk.text.as_str(), chunk.next_offset), (text, 8));
        }
    }

    #[test]
    fn removed_middle_of_a_log_is_named_instead_of_its_bytes() {
        let job = tempfile::tempdir().unwrap();
        let text = "x".repeat(64 << 10);
        write(job.path(), "attempt-1/stdout.log", text.as_bytes());
        let file = File::options().write(true).open(job.path().join("attempt-1/stdout.log")).unwrap();
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&file, flags, 16 << 10, 32 << 10).unwrap();
        let name: LogName = "attempt-1.master-0.stdout".parse().unwrap();
        let (mut joined, mut offset) = (String::new(), 0);
        while offset < text.len() as u64 {
            let chunk = read(job.path(), &name, LogStart::At(offset), 10_000).unwrap().unwrap();
            assert!(chunk.next_offset > offset);
            joined.push_str(&chunk.text);
            offset = chunk.next_offset;
        }
        let kept = "x".repeat(16 << 10);
        assert_eq!(
            joined,
            format!("{kept}\n[32768 bytes of this log were removed, since it exceeded a quota]\n{kept}")
        );
    }

    #[test]
    fn chunks_join_to_the_whole_text() {
        let job = tempfile::tempdir().unwrap();
        let text = "aé€😀b".repeat(3);
        write(job.path(), "attempt-1/stdout.log", text.as_bytes());
        let name: LogName = "attempt-1.master-0.stdout".parse().unwrap();
        for limit in 4..12 {
            let (mut joined, mut offset) = (String::new(), 0);
            while offset < text.len() as u64 {
                let chunk = read(job.path(), &name, LogStart::At(offset), limit).unwrap().unwrap();
                assert!(chunk.next_offset > offset);
                joined.push_str(&chunk.text);
                offset = chunk.next_offset;
            }
            assert_eq!(joined, text, "{limit}");
        }
        write(job.path(), "attempt-1/stdout.log", b"\xff\xff\xff\xffend");
        let chunk = read(job.path(), &name, LogStart::At(0), 4).unwrap().unwrap();
        assert_eq!((chunk.text.as_str(), chunk.next_offset), ("\u{fffd}\u{fffd}\u{fffd}\u{fffd}", 4));
    }

    #[test]
    fn invalid_names_are_refused() {
        for name in [
            "",
            "stdout",
            "attempt-1.master-0.log",
            "attempt-1.master-1.stdout",
            "attempt-01.master-0.stdout",
            "attempt-1.../../x.stdout",
            "trial-1.attempt-1.worker-0/..stdout",
            "trial-1.attempt-1.unknown-0.stdout",
            "trial-1.trial-1.attempt-1.master-0.stdout",
        ] {
            assert!(name.parse::<LogName>().is_err(), "{name}");
        }
    }
}
