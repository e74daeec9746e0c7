//! Audit log: one line of JSON per request.
//!
//! Records that cannot be written are kept in memory and written before later ones. Before a change, the log can
//! reserve disk space, so that its record will fit. Records of refused unauthenticated requests are rate-limited.
//! A log with a [`Rotation`] consists of the current file and of earlier ones beside it.

mod newest;
mod rotation;
mod strangers;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{AtFlags, CWD, FallocateFlags, Statx, StatxFlags, fallocate, statx};
use rustix::io::Errno;
use serde::Serialize;

pub use newest::{AuditRecord, NewestRecords};
pub use rotation::Rotation;
use strangers::Strangers;

/// Maximum length of a resource name in a record, in bytes; above that of any valid one.
const MAX_RESOURCE_LENGTH: usize = 2048;

/// Maximum number of records kept while the file is not writable.
const MAX_UNWRITTEN: usize = 1000;

/// Disk space per reservation in bytes, enough for many records.
const RESERVE: u64 = 256 << 10;

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Record<'a> {
    /// Time of the response.
    pub time: Timestamp,
    pub principal: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller_ip: Option<String>,
    /// Method name in the API's discovery document, such as `ml.projects.jobs.create`.
    pub method: &'a str,
    /// Resource name: the path without the version. The file contains at most its first 2048 bytes.
    pub resource: &'a str,
    /// Required permission; `None` for public methods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission: Option<&'a str>,
    pub status: u16,
    /// Request ID, as in the server's log.
    pub request_id: &'a str,
    /// Number of requests, if the record summarizes several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// Log file. If it is moved away, as by `logrotate`, the next record goes to a new file.
#[derive(Debug)]
pub struct AuditLog {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    rotation: Rotation,
    file: Option<Arc<File>>,
    /// Device and inode of the file.
    identity: (u32, u32, u64),
    /// End of the reserved space.
    reserved_to: u64,
    /// Lines not written yet, oldest first.
    unwritten: VecDeque<Vec<u8>>,
    /// Whether the file may end within a line, after a failed write.
    is_torn: bool,
    strangers: Strangers,
}

impl AuditLog {
    /// Opens or creates the file `path`, accessible only to its owner.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let log = Self { path: path.to_owned(), state: Mutex::default() };
        log.current(&mut log.state())?;
        Ok(log)
    }

    /// Rotates the log from now on, which only one process may do: others find the new file at their next record.
    pub fn set_rotation(&self, rotation: Rotation) {
        self.state().rotation = rotation;
    }

    /// Writes pending records, checks that another one can be written, and reserves space for it.
    ///
    /// # Errors
    /// If the file cannot be written or the disk is full.
    pub fn prepare(&self) -> io::Result<()> {
        let mut state = self.state();
        self.flush(&mut state)?;
        let (file, length) = self.current(&mut state)?;
        if length + RESERVE / 2 <= state.reserved_to {
            return Ok(());
        }
        match fallocate(file, FallocateFlags::KEEP_SIZE, length, RESERVE) {
            // Some file systems cannot reserve space.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => state.reserved_to = length + RESERVE,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Appends `record`. On failure, keeps it and writes it before the next one.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, record: &Record<'_>) -> io::Result<()> {
        let mut state = self.state();
        if let Some(summary) = state.strangers.summary(record.time) {
            state.keep(&summary)?;
        }
        state.keep(record)?;
        self.flush(&mut state)
    }

    /// Like [`Self::write`], for a refused request of an unauthenticated caller. Writes a limited number and counts the
    /// others for a later summary. Returns whether `record` was written.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_of_stranger(&self, record: &Record<'_>) -> io::Result<bool> {
        let mut state = self.state();
        if let Some(summary) = state.strangers.summary(record.time) {
            state.keep(&summary)?;
        }
        let is_written = state.strangers.admit(record.time);
        if is_written {
            state.keep(record)?;
        }
        self.flush(&mut state)?;
        Ok(is_written)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn flush(&self, state: &mut State) -> io::Result<()> {
        while !state.unwritten.is_empty() {
            let (mut file, length) = self.current(state)?;
            if length >= state.rotation.max_bytes {
                self.rotate(state, Timestamp::now())?;
                (file, _) = self.current(state)?;
            }
            let State { unwritten, is_torn, .. } = &mut *state;
            let (mut file, Some(line)) = (&*file, unwritten.front()) else { break };
            // A single write, so that concurrent lines are not interleaved.
            let written =
                if *is_torn { file.write_all(&[b"\n", line.as_slice()].concat()) } else { file.write_all(line) };
            *is_torn = written.is_err();
            written?;
            unwritten.pop_front();
        }
        Ok(())
    }

    /// File at the path of the log, reopened if replaced, and its length.
    fn current(&self, state: &mut State) -> io::Result<(Arc<File>, u64)> {
        // Does not request the times of the file: the next write would then update them, which costs more.
        let mask = StatxFlags::INO | StatxFlags::SIZE;
        let identity = |found: &Statx| (found.stx_dev_major, found.stx_dev_minor, found.stx_ino);
        if let Some(file) = &state.file
            && let Ok(now) = statx(CWD, &self.path, AtFlags::empty(), mask)
            && identity(&now) == state.identity
        {
            return Ok((Arc::clone(file), now.stx_size));
        }
        state.file = None;
        let file = Arc::new(File::options().append(true).create(true).mode(0o600).open(&self.path)?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let now = statx(&*file, c"", AtFlags::EMPTY_PATH, mask)?;
        (state.identity, state.reserved_to, state.is_torn) = (identity(&now), 0, false);
        state.file = Some(Arc::clone(&file));
        Ok((file, now.stx_size))
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        let state = &mut *self.state();
        if let Some(summary) = state.strangers.last_summary() {
            // There is nowhere left to report a lost record.
            let _ = state.keep(&summary);
        }
        let _ = self.flush(state);
    }
}

impl State {
    /// Keeps the line of `record` until it is written.
    fn keep(&mut self, record: &Record<'_>) -> io::Result<()> {
        let mut end = record.resource.len().min(MAX_RESOURCE_LENGTH);
        while !record.resource.is_char_boundary(end) {
            end -= 1;
        }
        let resource = &record.resource[..end];
        let mut line = serde_json::to_vec(&Record { resource, ..record.clone() })?;
        line.push(b'\n');
        if self.unwritten.len() == MAX_UNWRITTEN {
            self.unwritten.pop_front();
        }
        self.unwritten.push_back(line);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
