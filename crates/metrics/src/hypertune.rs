//! Reader of the `hypertune` package's metric file (PyPI `cloudml-hypertune`).
//!
//! On each report the package truncates the file and rewrites it in place with its latest 100 reports: one JSON object
//! per line, all values strings except the time stamp, and the metric's tag as the key of its value. A concurrent
//! reader may see a partial file, or the head of the old text joined to the tail of the new one, which can look like a
//! report. Two reads cannot contain the same spurious line, since the old text is gone by the second. A line therefore
//! counts once two reads contain it. Reports replaced between two polls are lost.

use serde_json::Value;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use super::CollectError;
use super::files::{self, ChangeWatch};
use super::intake::{Intake, Report};
use tunesmith_domain::ReportKey;
use tunesmith_files::RootedPath;

/// Maximum number of bytes read from the end of the file. The package's 100 reports take about 15 kB.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Maximum number of reads until two consecutive ones agree; a guess. If none agree, lines common to any two reads
/// count.
const MAX_READINGS: usize = 8;

/// Keys of a report that are not metrics.
const BOOKKEEPING: [&str; 4] = ["checkpoint_path", "global_step", "timestamp", "trial"];

/// Maximum length of the excerpt of an invalid line, in characters.
const EXCERPT_CHARS: usize = 60;

/// Rereads a metric file after changes.
#[derive(Debug)]
pub(super) struct MetricFile {
    place: RootedPath,
    attempt: u64,
    watch: ChangeWatch,
}

impl MetricFile {
    pub(super) fn new(place: RootedPath, attempt: u64) -> Self {
        Self { place, attempt, watch: ChangeWatch::default() }
    }

    /// Reads the file if it changed.
    pub(super) fn read(&mut self, intake: &mut Intake) {
        self.read_lines(false, intake);
    }

    /// Reads the file regardless of its time stamp, including an unterminated last line: the writer has ended, and a
    /// JSON object that parses is complete.
    pub(super) fn finish(&mut self, intake: &mut Intake) {
        self.watch.forget();
        self.read_lines(true, intake);
    }

    fn read_lines(&mut self, with_unended: bool, intake: &mut Intake) {
        // The batch may exceed its limit by the lines of this file, whose size is bounded.
        let Some(metadata) = files::stat(&self.place, intake) else { return };
        if !self.watch.must_read(&metadata) {
            return;
        }
        let Some((mut file, metadata)) = files::open(&self.place, intake) else { return };
        if metadata.len() > MAX_FILE_BYTES
            && !intake.problems().iter().any(|problem| matches!(problem, CollectError::TooLarge { .. }))
        {
            intake.note_problem(CollectError::TooLarge {
                path: self.place.path(),
                size_bytes: metadata.len(),
                read_bytes: MAX_FILE_BYTES,
            });
        }
        match read_settled(&mut file) {
            Ok(readings) => self.take_lines(&readings, with_unended, intake),
            Err(error) => {
                self.watch.forget();
                files::note_error(&self.place, error, intake);
            }
        }
    }

    /// Processes the last read if it equals the one before, otherwise the lines common to two reads.
    fn take_lines(&self, readings: &[Vec<u8>], with_unended: bool, intake: &mut Intake) {
        if let [.., before, last] = readings
            && before == last
        {
            for line in lines(last, with_unended) {
                self.take_line(line, intake);
            }
            return;
        }
        let mut seen = HashSet::new();
        for reading in readings {
            for line in lines(reading, with_unended).filter(|line| seen.contains(line)) {
                self.take_line(line, intake);
            }
            seen.extend(lines(reading, with_unended));
        }
    }

    fn take_line(&self, line: &[u8], intake: &mut Intake) {
        let line = line.trim_ascii();
        if line.is_empty() {
            return;
        }
        let Ok(Value::Object(fields)) = serde_json::from_slice::<Value>(line) else {
            if !intake.problems().iter().any(|problem| matches!(problem, CollectError::ForeignLine { .. })) {
                let excerpt = String::from_utf8_lossy(line).chars().take(EXCERPT_CHARS).collect();
                intake.note_problem(CollectError::ForeignLine { path: self.place.path(), excerpt });
            }
            return;
        };
        let mut values = Vec::new();
        for (key, value) in &fields {
            if BOOKKEEPING.contains(&key.as_str()) {
                continue;
            }
            if let Some(value) = number(value) {
                intake.note_tag(key);
                values.extend(intake.index_of(key).map(|index| (index, value)));
            }
        }
        if values.is_empty() {
            return;
        }
        values.sort_by_key(|(index, _)| *index);
        let wall_time_secs = fields.get("timestamp").and_then(number).unwrap_or(0.0);
        let step = fields.get("global_step").and_then(whole_number).unwrap_or(0);
        let key = ReportKey::MetricFile { attempt: self.attempt };
        intake.add(Report { step, wall_time_secs, key, values });
    }
}

/// Reads `file` until two consecutive reads agree, or [`MAX_READINGS`] times. Returns at least two reads.
fn read_settled(file: &mut File) -> io::Result<Vec<Vec<u8>>> {
    let mut readings = vec![read_end(file)?];
    while readings.len() < MAX_READINGS {
        let next = read_end(file)?;
        let settled = readings.last() == Some(&next);
        readings.push(next);
        if settled {
            break;
        }
    }
    Ok(readings)
}

/// Reads the last [`MAX_FILE_BYTES`] of `file`, without a truncated first line.
fn read_end(file: &mut File) -> io::Result<Vec<u8>> {
    let size_bytes = file.seek(SeekFrom::End(0))?;
    let start = size_bytes.saturating_sub(MAX_FILE_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
    if start > 0 {
        let first_line = memchr::memchr(b'\n', &bytes).map_or(bytes.len(), |end| end + 1);
        bytes.drain(..first_line);
    }
    Ok(bytes)
}

/// Splits `bytes` into terminated lines, plus an unterminated last one if `with_unended`.
fn lines(bytes: &[u8], with_unended: bool) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').filter(move |line| with_unended || line.ends_with(b"\n"))
}

/// Parses a number, or a string in the format of Python's `float`.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn whole_number(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
