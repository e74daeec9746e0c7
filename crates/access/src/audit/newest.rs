//! Reads the newest records of the audit log.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use jiff::Timestamp;
use serde::Deserialize;

use super::AuditLog;

/// Read size in bytes.
const CHUNK: u64 = 64 << 10;

/// Record as stored in the file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    /// Time of the response.
    pub time: Timestamp,
    pub principal: String,
    #[serde(default)]
    pub caller_ip: Option<String>,
    pub method: String,
    pub resource: String,
    #[serde(default)]
    pub permission: Option<String>,
    pub status: u16,
    #[serde(default)]
    pub request_id: String,
    /// Number of requests, if the record summarizes several.
    #[serde(default)]
    pub count: Option<u64>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct NewestRecords {
    /// Accepted records, newest first.
    pub records: Vec<AuditRecord>,
    /// Number of lines read that are not records.
    pub unreadable: usize,
    /// Time of the oldest record read, if earlier records may match.
    pub read_back_to: Option<Timestamp>,
}

impl AuditLog {
    /// Returns the newest records that `accepts` selects, at most `limit`, from the last `bytes` of the log, including
    /// rotated files.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn newest(
        &self,
        limit: usize,
        bytes: u64,
        mut accepts: impl FnMut(&AuditRecord) -> bool,
    ) -> io::Result<NewestRecords> {
        let (current, earlier) = {
            // A rotation in between would repeat the file.
            let _state = self.state();
            (File::open(&self.path)?, self.rotated()?)
        };
        let mut search = Search { found: NewestRecords::default(), oldest: None, limit, left: bytes };
        let mut is_whole = search.read_back(current, &mut accepts)?;
        for (_, path) in earlier {
            if !is_whole || search.is_full() {
                is_whole = false;
                break;
            }
            match File::open(path) {
                Ok(file) => is_whole = search.read_back(file, &mut accepts)?,
                // Removed since, past its retention.
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            }
        }
        if !is_whole || search.is_full() {
            search.found.read_back_to = search.oldest;
        }
        Ok(search.found)
    }
}

struct Search {
    found: NewestRecords,
    /// Time of the last record read.
    oldest: Option<Timestamp>,
    limit: usize,
    /// Number of bytes that may still be read.
    left: u64,
}

impl Search {
    fn is_full(&self) -> bool {
        self.found.records.len() == self.limit
    }

    /// Reads records from the end of `file` within the limits. Returns whether the whole file was read.
    fn read_back(&mut self, mut file: File, accepts: &mut impl FnMut(&AuditRecord) -> bool) -> io::Result<bool> {
        let mut start = file.seek(SeekFrom::End(0))?;
        // Start of the earliest, partially read line.
        let mut rest: Vec<u8> = Vec::new();
        while start > 0 && self.left > 0 && !self.is_full() {
            let size = CHUNK.min(start).min(self.left);
            start -= size;
            self.left -= size;
            file.seek(SeekFrom::Start(start))?;
            let mut chunk = Vec::new();
            (&mut file).take(size).read_to_end(&mut chunk)?;
            chunk.append(&mut rest);
            let mut lines = chunk.split(|byte| *byte == b'\n');
            if start > 0 {
                rest = lines.next().unwrap_or_default().to_vec();
            }
            for line in lines.rev().filter(|line| !line.is_empty()) {
                if self.is_full() {
                    break;
                }
                match serde_json::from_slice::<AuditRecord>(line) {
                    Ok(record) => {
                        self.oldest = Some(record.time);
                        self.found.records.extend(accepts(&record).then_some(record));
                    }
                    Err(_) => self.found.unreadable += 1,
                }
            }
        }
        Ok(start == 0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::Record;
    use super::*;

    fn write(log: &AuditLog, second: i64, principal: &str, resource: &str) {
        let time = Timestamp::from_second(second).unwrap();
        let record = Record {
            time,
            principal,
            caller_ip: None,
            method: "ml.projects.jobs.create",
            resource,
            permission: Some("ml.jobs.create"),
            status: 200,
            request_id: "r",
            count: None,
        };
        log.write(&record).unwrap();
    }

    #[test]
    fn newest_records_come_first_and_reading_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let log = AuditLog::open(&path).unwrap();
        assert_eq!(log.newest(10, 1 << 20, |_| true).unwrap(), NewestRecords::default());
        // Several chunks, and lines across their ends.
        let long = "x".repeat(700);
        for second in 0..500 {
            write(&log, second, if second % 100 == 0 { "user:rare@x" } else { "user:a@x" }, &long);
        }
        let seconds = |found: &NewestRecords| -> Vec<i64> {
            found.records.iter().map(|record| record.time.as_second()).collect()
        };
        let all = log.newest(1000, 1 << 20, |_| true).unwrap();
        assert_eq!(seconds(&all), (0..500).rev().collect::<Vec<_>>());
        assert_eq!((all.unreadable, all.read_back_to), (0, None));
        let some = log.newest(3, 1 << 20, |_| true).unwrap();
        assert_eq!(seconds(&some), [499, 498, 497]);
        assert_eq!(some.read_back_to, Some(Timestamp::from_second(497).unwrap()));
        let rare = log.newest(1000, 1 << 20, |record| record.principal == "user:rare@x").unwrap();
        assert_eq!(seconds(&rare), [400, 300, 200, 100, 0]);
        let part = log.newest(1000, 100_000, |record| record.principal == "user:rare@x").unwrap();
        assert_eq!(seconds(&part), [400]);
        assert!(part.read_back_to.unwrap() > Timestamp::from_second(350).unwrap());

        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"{\"torn\n").unwrap();
        write(&log, 500, "user:a@x", "short");
        let last = log.newest(1, 1 << 20, |_| true).unwrap();
        assert_eq!((seconds(&last), last.unreadable), (vec![500], 0));
        let last = log.newest(2, 1 << 20, |_| true).unwrap();
        assert_eq!((seconds(&last), last.unreadable), (vec![500, 499], 1));
    }
}
