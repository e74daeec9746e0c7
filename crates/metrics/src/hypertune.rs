//! The file of the `hypertune` package (PyPI `cloudml-hypertune`).
//!
//! At each report the package truncates the file and writes it anew, in place, with its newest 100 reports: one JSON
//! object per line, every value but the time stamp a string, the metric's tag as the key of its value. A reader that
//! comes in between sees a part of it, or the head of the old text joined to the tail of the new, which may look like
//! a report that never was. Two readings cannot agree on such a line, since the old text is gone by the second:
//! a line counts when two readings have it. Reports that come and go between two polls are lost to any reader.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use serde_json::Value;

use super::CollectError;
use super::files::{self, ChangeWatch};
use super::intake::{Intake, Report};
use tunesmith_domain::Source;

/// How much of the file's end is read. 100 reports take some 15 kB; more only if somebody writes the file on their own.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// How often the file is read at most to find it at rest. A guess; where the writer never rests, the lines that any
/// two of the readings share are taken.
const MAX_READINGS: usize = 8;

/// Keys of each report that are not the metric.
const BOOKKEEPING: [&str; 4] = ["checkpoint_path", "global_step", "timestamp", "trial"];

/// Longest part of a foreign line that is shown, in characters.
const EXCERPT_CHARS: usize = 60;

/// Reads one metric file again whenever it changed.
#[derive(Debug)]
pub(super) struct MetricFile {
    path: PathBuf,
    watch: ChangeWatch,
}

impl MetricFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, watch: ChangeWatch::default() }
    }

    /// Reads the file if it changed.
    pub(super) fn read(&mut self, intake: &mut Intake) {
        self.read_lines(false, intake);
    }

    /// Reads the file whatever its time stamp says, with its last line although it is not ended: by now nobody writes,
    /// and a JSON object that parses is whole.
    pub(super) fn finish(&mut self, intake: &mut Intake) {
        self.watch.forget();
        self.read_lines(true, intake);
    }

    fn read_lines(&mut self, with_unended: bool, intake: &mut Intake) {
        // The batch may pass its limit by the lines of this file, whose size is bounded.
        let Some(metadata) = files::stat(&self.path, intake) else { return };
        if !self.watch.must_read(&metadata) {
            return;
        }
        let Some((mut file, metadata)) = files::open(&self.path, intake) else { return };
        if metadata.len() > MAX_FILE_BYTES
            && !intake.problems().iter().any(|problem| matches!(problem, CollectError::TooLarge { .. }))
        {
            intake.note_problem(CollectError::TooLarge {
                path: self.path.clone(),
                size_bytes: metadata.len(),
                read_bytes: MAX_FILE_BYTES,
            });
        }
        match read_settled(&mut file) {
            Ok(readings) => self.take_lines(&readings, with_unended, intake),
            Err(error) => {
                self.watch.forget();
                files::note_io_error(&self.path, error, intake);
            }
        }
    }

    /// Takes the lines of the last reading and those that two readings share.
    fn take_lines(&self, readings: &[Vec<u8>], with_unended: bool, intake: &mut Intake) {
        if let [.., before, last] = readings
            && before == last
        {
            for line in lines(last, with_unended) {
                self.take_line(line, intake);
            }
            return;
        }
        let mut met = HashSet::new();
        for reading in readings {
            for line in lines(reading, with_unended).filter(|line| met.contains(line)) {
                self.take_line(line, intake);
            }
            met.extend(lines(reading, with_unended));
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
                intake.note_problem(CollectError::ForeignLine { path: self.path.clone(), excerpt });
            }
            return;
        };
        let mut metric_value = None;
        for (key, value) in &fields {
            if BOOKKEEPING.contains(&key.as_str()) {
                continue;
            }
            if let Some(value) = number(value) {
                intake.note_tag(key);
                if key == intake.tag() {
                    metric_value = Some(value);
                }
            }
        }
        let Some(value) = metric_value else { return };
        let timestamp = fields.get("timestamp").and_then(number).unwrap_or(0.0);
        let step = fields.get("global_step").and_then(whole_number).unwrap_or(0);
        let report = Report { step, wall_time_secs: timestamp, mark: timestamp.to_bits(), value };
        intake.add(Source::MetricFile, report);
    }
}

/// Reads `file` until two readings in a row agree, or [`MAX_READINGS`] times; returns at least two readings.
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

/// The last [`MAX_FILE_BYTES`] of `file`, from the first line that begins there.
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

/// The lines that end with a line feed, and the rest if `with_unended`.
fn lines(bytes: &[u8], with_unended: bool) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').filter(move |line| with_unended || line.ends_with(b"\n"))
}

/// A number, or a string that Python's `float` would have printed.
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
