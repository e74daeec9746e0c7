//! The record of who did what, as lines of JSON.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use serde::Serialize;

/// One request, as it is recorded.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Record<'a> {
    /// When it was answered.
    pub time: Timestamp,
    /// Who made it.
    pub principal: &'a str,
    /// From where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller_ip: Option<String>,
    /// The method, as the API's discovery document names it: `ml.projects.jobs.create`.
    pub method: &'a str,
    /// What it is about: the path without its version.
    pub resource: &'a str,
    /// The permission it needs; none for what the public may do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission: Option<&'a str>,
    /// The status of the answer.
    pub status: u16,
    /// The request's ID, which the server's log has as well.
    pub request_id: &'a str,
}

/// A file of records. It may be moved away at any time (as `logrotate` does): the next record begins a new one.
#[derive(Debug)]
pub struct AuditLog {
    path: PathBuf,
    file: Mutex<Option<File>>,
}

impl AuditLog {
    /// The file `path`, made if it is not there, readable for its owner alone.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let log = Self { path: path.to_owned(), file: Mutex::default() };
        *log.file.lock().unwrap_or_else(PoisonError::into_inner) = Some(log.append()?);
        Ok(log)
    }

    /// Adds `record`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, record: &Record<'_>) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = match &*file {
            Some(open) => fs::metadata(&self.path)
                .is_ok_and(|now| open.metadata().is_ok_and(|then| (now.dev(), now.ino()) == (then.dev(), then.ino()))),
            None => false,
        };
        let open = match file.take() {
            Some(open) if is_there => open,
            _ => self.append()?,
        };
        // One write for the whole line: a line is never split by another one.
        file.insert(open).write_all(&line)
    }

    fn append(&self) -> io::Result<File> {
        File::options().append(true).create(true).mode(0o600).open(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::{AuditLog, Record};

    #[test]
    fn records_are_added_also_after_the_file_was_moved_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit/admin.jsonl");
        let log = AuditLog::open(&path).unwrap();
        let write = |request_id| {
            log.write(&Record {
                time: Timestamp::UNIX_EPOCH,
                principal: "user:ada@example.com",
                caller_ip: None,
                method: "ml.projects.jobs.cancel",
                resource: "projects/p/jobs/j",
                permission: Some("ml.jobs.cancel"),
                status: 200,
                request_id,
            })
            .unwrap();
        };
        write("1");
        write("2");
        let moved = path.with_extension("1");
        std::fs::rename(&path, &moved).unwrap();
        write("3");
        let lines = |path| -> Vec<Value> {
            let text = std::fs::read_to_string(path).unwrap();
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        assert_eq!(lines(&moved).len(), 2);
        let expected = json!({
            "time": "1970-01-01T00:00:00Z", "principal": "user:ada@example.com", "method": "ml.projects.jobs.cancel",
            "resource": "projects/p/jobs/j", "permission": "ml.jobs.cancel", "status": 200, "requestId": "3",
        });
        assert_eq!(lines(&path), [expected]);
    }
}
