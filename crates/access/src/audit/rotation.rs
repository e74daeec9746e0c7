//! Rotation of the audit log: the current file is renamed, and the next record goes to a new one.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::{AuditLog, State};

/// Form of the time in the name of a rotated file. In UTC, so that the order of names is that of times.
const TIME_FORMAT: &str = "%Y%m%dT%H%M%S.%6fZ";

/// Conditions for rotating a log, and for removing its earlier files. By default, neither happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// Size from which the current file is rotated, in bytes.
    pub max_bytes: u64,
    /// Age of the first record from which the current file is rotated.
    pub max_age: SignedDuration,
    /// Time after its rotation for which a file is kept.
    pub retention: SignedDuration,
}

impl Default for Rotation {
    fn default() -> Self {
        Self { max_bytes: u64::MAX, max_age: SignedDuration::MAX, retention: SignedDuration::MAX }
    }
}

/// First field of a record.
#[derive(Deserialize)]
struct Begin {
    time: Timestamp,
}

impl AuditLog {
    /// Rotates the current file if it is too old at `now`, and removes files past their retention. Returns the removed
    /// ones.
    ///
    /// # Errors
    /// If a file cannot be read, renamed or removed.
    pub fn maintain(&self, now: Timestamp) -> io::Result<Vec<PathBuf>> {
        let retention = {
            let mut state = self.state();
            let Rotation { max_age, retention, .. } = state.rotation;
            let begin = begin(&self.path)?;
            if begin.is_some_and(|begin| now.duration_since(begin) >= max_age) {
                self.rotate(&mut state, now)?;
            }
            retention
        };
        let mut removed = Vec::new();
        for (time, path) in self.rotated()? {
            if now.duration_since(time) >= retention {
                fs::remove_file(&path)?;
                removed.push(path);
            }
        }
        Ok(removed)
    }

    /// Renames the current file to one with the time `now`, or the next free one, and begins a new one.
    pub(super) fn rotate(&self, state: &mut State, now: Timestamp) -> io::Result<()> {
        let (stem, extension) = self.name_parts();
        let mut time = now;
        let target = loop {
            let shown = time.to_zoned(TimeZone::UTC).strftime(TIME_FORMAT);
            let target = self.path.with_file_name(format!("{stem}-{shown}{extension}"));
            if !target.try_exists()? {
                break target;
            }
            time += SignedDuration::from_micros(1);
        };
        fs::rename(&self.path, target)?;
        state.file = None;
        self.current(state)?;
        Ok(())
    }

    /// Earlier files with the times of their rotation, newest first.
    pub(super) fn rotated(&self) -> io::Result<Vec<(Timestamp, PathBuf)>> {
        let (stem, extension) = self.name_parts();
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let mut found = Vec::new();
        for entry in fs::read_dir(folder)? {
            let name = entry?.file_name();
            let shown =
                name.to_str().and_then(|name| name.strip_prefix(&*stem)?.strip_prefix('-')?.strip_suffix(&*extension));
            let time = shown.and_then(|shown| jiff::civil::DateTime::strptime(TIME_FORMAT, shown).ok());
            if let Some(time) = time.and_then(|time| time.to_zoned(TimeZone::UTC).ok()) {
                found.push((time.timestamp(), folder.join(&name)));
            }
        }
        found.sort_unstable_by(|a, b| b.cmp(a));
        Ok(found)
    }

    /// Name of the file without its extension, and the extension with its dot.
    fn name_parts(&self) -> (String, String) {
        let part = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        (part(self.path.file_stem()), format!(".{}", part(self.path.extension())))
    }
}

/// Time of the first record; `None` if there is none, or if it cannot be read.
fn begin(path: &Path) -> io::Result<Option<Timestamp>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut line = Vec::new();
    BufReader::new(file).read_until(b'\n', &mut line)?;
    Ok(serde_json::from_slice(&line).ok().map(|Begin { time }| time))
}
