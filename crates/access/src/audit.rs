//! The audit log: one line of JSON per request.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use serde::Serialize;

/// The record of one request.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Record<'a> {
    /// Time of the response.
    pub time: Timestamp,
    /// The principal of the caller.
    pub principal: &'a str,
    /// Address of the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller_ip: Option<String>,
    /// Name of the method in the API's discovery document, such as `ml.projects.jobs.create`.
    pub method: &'a str,
    /// Resource name: the path without the version.
    pub resource: &'a str,
    /// The required permission; `None` for public methods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission: Option<&'a str>,
    /// HTTP status of the response.
    pub status: u16,
    /// ID of the request, which is also in the server's log.
    pub request_id: &'a str,
}

/// A file of records. If the file is moved away, as by `logrotate`, the next record is written to a new file.
#[derive(Debug)]
pub struct AuditLog {
    path: PathBuf,
    file: Mutex<Option<File>>,
}

impl AuditLog {
    /// Opens the file `path`, creating it if absent, with access for the owner only.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let log = Self { path: path.to_owned(), file: Mutex::default() };
        *log.file.lock().unwrap_or_else(PoisonError::into_inner) = Some(log.append()?);
        Ok(log)
    }

    /// Appends `record`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, record: &Record<'_>) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let is_current = match &*file {
            Some(open) => fs::metadata(&self.path)
                .is_ok_and(|now| open.metadata().is_ok_and(|then| (now.dev(), now.ino()) == (then.dev(), then.ino()))),
            None => false,
        };
        let open = match file.take() {
            Some(open) if is_current => open,
            _ => self.append()?,
        };
        // A single write, so that concurrent lines are not mixed.
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
    fn records_are_appended_to_a_new_file_after_a_rotation() {
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
