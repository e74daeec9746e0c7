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
    /// Returns the newest records that `accepts` selects, at most `limit`, from the last `bytes` of the file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn newest(
        &self,
        limit: usize,
        bytes: u64,
        mut accepts: impl FnMut(&AuditRecord) -> bool,
    ) -> io::Result<NewestRecords> {
        let mut file = File::open(&self.path)?;
        let mut start = file.seek(SeekFrom::End(0))?;
        let first = start.saturating_sub(bytes);
        let mut found = NewestRecords::default();
        let mut oldest = None;
        // Start of the earliest, partially read line.
        let mut rest: Vec<u8> = Vec::new();
        while start > first && found.records.len() < limit {
            let size = CHUNK.min(start - first);
            start -= size;
            file.seek(SeekFrom::Start(start))?;
            let mut chunk = Vec::new();
            (&mut file).take(size).read_to_end(&mut chunk)?;
            chunk.append(&mut rest);
            let mut lines = chunk.split(|byte| *byte == b'\n');
            if start > 0 {
                rest = lines.next().unwrap_or_default().to_vec();
            }
            for line in lines.rev().filter(|line| !line.is_empty()) {
                if found.records.len() == limit {
                    break;
                }
                match serde_json::from_slice::<AuditRecord>(line) {
                    Ok(record) => {
                        oldest = Some(record.time);
                        found.records.extend(accepts(&record).then_some(record));
                    }
                    Err(_) => found.unreadable += 1,
                }
            }
        }
        if start > 0 || found.records.len() == limit {
            found.read_back_to = oldest;
        }
        Ok(found)
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
