//! Spool file of measurements not yet confirmed by the server.
//!
//! One line per measurement of the attempt, in order. The file remains until the end, so that a server restored from a
//! backup can receive all of them again.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;

use tunesmith_api::agent::NumberedMeasurement;
use tunesmith_domain::Measurement;

/// Measurements of one attempt.
#[derive(Debug)]
pub(super) struct Spool {
    file: File,
    /// Number of measurements in the file, and its size.
    written: (u64, u64),
    /// Number of measurements confirmed by the server, and offset of the next one.
    confirmed: (u64, u64),
}

impl Spool {
    /// Opens the spool in `folder`, keeping complete lines of an earlier agent.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let path = folder.join("measurements.jsonl");
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let (mut count, mut size) = (0, 0);
        let mut reader = BufReader::new(&file);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
            count += 1;
            size += line.len() as u64;
            line.clear();
        }
        file.set_len(size)?;
        Ok(Self { file, written: (count, size), confirmed: (0, 0) })
    }

    /// All measurements of the attempt number `attempt`, including those of an earlier agent.
    pub(super) fn all(&self, attempt: u64) -> io::Result<Vec<Measurement>> {
        let mut measurements = Vec::new();
        for (index, line) in self.reader(0)?.lines().enumerate() {
            let one: NumberedMeasurement = serde_json::from_str(&line?)?;
            let read = one.into_measurement(index, attempt);
            measurements
                .push(read.map_err(|refused| io::Error::other(format!("{}: {}", refused.field, refused.description)))?);
        }
        Ok(measurements)
    }

    pub(super) fn append(&mut self, measurements: &[Measurement]) -> io::Result<()> {
        let mut text = Vec::new();
        for measurement in measurements {
            serde_json::to_writer(&mut text, &NumberedMeasurement::from(measurement))?;
            text.push(b'\n');
        }
        self.file.write_all(&text)?;
        self.written = (self.written.0 + measurements.len() as u64, self.written.1 + text.len() as u64);
        Ok(())
    }

    /// Records that the server has the measurements before index `next`.
    pub(super) fn confirm(&mut self, next: u64) -> io::Result<()> {
        if next < self.confirmed.0 {
            self.confirmed = (0, 0);
        }
        let (mut number, mut offset) = self.confirmed;
        let mut reader = self.reader(offset)?;
        let mut line = Vec::new();
        while number < next.min(self.written.0) {
            line.clear();
            offset += reader.read_until(b'\n', &mut line)? as u64;
            number += 1;
        }
        self.confirmed = (number, offset);
        Ok(())
    }

    /// Index of the next unconfirmed measurement, and up to `limit` measurements from it on.
    pub(super) fn next(&self, limit: usize) -> io::Result<(u64, Vec<NumberedMeasurement>)> {
        let (number, offset) = self.confirmed;
        let lines = self.reader(offset)?.lines().take(limit);
        let measurements = lines.map(|line| Ok(serde_json::from_str(&line?)?)).collect::<io::Result<_>>()?;
        Ok((number, measurements))
    }

    fn reader(&self, offset: u64) -> io::Result<BufReader<&File>> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(offset))?;
        Ok(BufReader::new(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tunesmith_domain::ReportKey;

    fn measurement(step: i64) -> Measurement {
        Measurement {
            step,
            wall_time_secs: 0.0,
            elapsed_secs: None,
            key: ReportKey::MetricFile { attempt: 1 },
            metrics: Vec::new(),
        }
    }

    fn steps(spool: &Spool, limit: usize) -> (u64, Vec<i64>) {
        let (number, measurements) = spool.next(limit).unwrap();
        (number, measurements.iter().map(|one| one.step.0).collect())
    }

    #[test]
    fn measurements_are_given_until_they_are_confirmed() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(folder.path()).unwrap();
        assert_eq!(steps(&spool, 9), (0, vec![]));
        spool.append(&[measurement(10), measurement(11), measurement(12)]).unwrap();
        assert_eq!(steps(&spool, 2), (0, vec![10, 11]));
        spool.confirm(2).unwrap();
        assert_eq!(steps(&spool, 9), (2, vec![12]));
        // A server restored from a backup lacks some.
        spool.confirm(1).unwrap();
        assert_eq!(steps(&spool, 9), (1, vec![11, 12]));
        drop(spool);
        let mut file = OpenOptions::new().append(true).open(folder.path().join("measurements.jsonl")).unwrap();
        file.write_all(b"{\"half").unwrap();
        let mut spool = Spool::open(folder.path()).unwrap();
        assert_eq!(spool.all(1).unwrap(), [10, 11, 12].map(measurement), "known to the next agent");
        spool.append(&[measurement(13)]).unwrap();
        spool.confirm(3).unwrap();
        assert_eq!(steps(&spool, 9), (3, vec![13]));
        spool.confirm(9).unwrap();
        assert_eq!(steps(&spool, 9), (4, vec![]), "a number beyond the last one");
    }
}
