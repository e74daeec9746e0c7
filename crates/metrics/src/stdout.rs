//! Reader of reports in the log of standard output.
//!
//! Lines end with a line feed or a carriage return, so that each state of a progress bar is a line. A line without a
//! step gets the highest previous step of its metric plus one, or 1: the reports of a trainer without steps are
//! numbered 1, 2, 3, and a final line without a step follows the others. Reports are keyed by the byte offset of their
//! line. Steps and offsets depend only on the text, so that rereading it gives the same measurements. Lines of an
//! object or array printed over several lines are not reports.

mod printed_object;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use self::printed_object::{PrintedObject, Progress};
use super::CollectError;
use super::files::{self, FileId};
use super::intake::{Intake, Report};
use super::report_line;
use tunesmith_domain::ReportKey;
use tunesmith_files::RootedPath;

/// Maximum length of a report in bytes; a guess. Longer lines are skipped without buffering.
const MAX_LINE_BYTES: usize = 64 << 10;

/// Maximum number of log bytes read; a guess, far above any trainer's output. Bounds the time for a log that a program
/// extended without writing it.
const MAX_LOG_BYTES: u64 = 4 << 30;

/// Read size in bytes, a multiple of the maximum line length.
const CHUNK_BYTES: usize = 4 * MAX_LINE_BYTES;

/// Incremental reader of one log.
#[derive(Debug)]
pub(super) struct StandardOutput {
    place: RootedPath,
    attempt: u64,
    position: Position,
}

#[derive(Debug, Default)]
struct Position {
    id: Option<FileId>,
    /// End of the processed text: the start of a line, or an offset within an overlong line.
    offset: u64,
    /// Log size at the last complete read.
    size_read: u64,
    /// Whether `offset` is within an overlong line.
    is_in_long_line: bool,
    /// Object or array opened by an earlier line.
    printed: Option<PrintedObject>,
    /// Highest step per tag index.
    highest_steps: BTreeMap<usize, i64>,
}

impl StandardOutput {
    pub(super) fn new(place: RootedPath, attempt: u64) -> Self {
        Self { place, attempt, position: Position::default() }
    }

    /// Reads the lines completed since the last call.
    pub(super) fn read(&mut self, intake: &mut Intake) {
        self.read_lines(false, intake);
    }

    /// Reads all remaining lines, including an unterminated last one.
    pub(super) fn finish(&mut self, intake: &mut Intake) {
        self.position.size_read = 0;
        self.read_lines(true, intake);
        intake.note_unread_lines();
    }

    fn read_lines(&mut self, with_unended: bool, intake: &mut Intake) {
        if intake.is_full() {
            return;
        }
        let Some(metadata) = files::stat(&self.place, intake) else { return };
        if self.position.id == Some(files::file_id(&metadata)) && metadata.len() == self.position.size_read {
            return;
        }
        let Some((file, metadata)) = files::open(&self.place, intake) else { return };
        let id = files::file_id(&metadata);
        if self.position.id.is_some_and(|known| known != id) || metadata.len() < self.position.offset {
            intake.note_problem(CollectError::Restarted { path: self.place.path() });
            self.position = Position::default();
        }
        self.position.id = Some(id);
        if metadata.len() > MAX_LOG_BYTES {
            intake.note_problem(CollectError::TooLong { path: self.place.path(), read_bytes: MAX_LOG_BYTES });
        }
        if let Err(error) = self.read_chunks(file, metadata.len().min(MAX_LOG_BYTES), with_unended, intake) {
            files::note_error(&self.place, error, intake);
        }
    }

    /// Reads `file` up to `end`, or until the batch is full.
    fn read_chunks(&mut self, mut file: File, end: u64, with_unended: bool, intake: &mut Intake) -> io::Result<()> {
        file.seek(SeekFrom::Start(self.position.offset))?;
        let mut input = file.take(end.saturating_sub(self.position.offset));
        let mut pending: Vec<u8> = Vec::with_capacity(CHUNK_BYTES);
        loop {
            let capacity = CHUNK_BYTES - pending.len();
            let is_at_end = input.by_ref().take(capacity as u64).read_to_end(&mut pending)? < capacity;
            let taken = self.take_ended_lines(&pending, intake);
            pending.drain(..taken);
            if intake.is_full() {
                return Ok(());
            }
            if pending.len() > MAX_LINE_BYTES {
                self.skip(pending.len(), intake);
                pending.clear();
            }
            if is_at_end {
                break;
            }
        }
        if with_unended {
            self.take_line(&pending, intake);
            self.position.offset += pending.len() as u64;
        }
        self.position.size_read = end;
        Ok(())
    }

    /// Processes complete lines of `bytes` until the batch is full, and returns the number of bytes consumed.
    fn take_ended_lines(&mut self, bytes: &[u8], intake: &mut Intake) -> usize {
        let mut start = 0;
        for end in memchr::memchr2_iter(b'\n', b'\r', bytes) {
            if intake.is_full() {
                break;
            }
            let line = &bytes[start..end];
            if line.len() > MAX_LINE_BYTES {
                self.skip(0, intake);
            } else {
                self.take_line(line, intake);
            }
            self.position.is_in_long_line = false;
            self.position.offset += (end + 1 - start) as u64;
            start = end + 1;
        }
        start
    }

    /// Processes the line at the current offset.
    fn take_line(&mut self, line: &[u8], intake: &mut Intake) {
        if self.position.is_in_long_line {
            return;
        }
        let line = report_line::plain_text(line);
        let Some(text) = self.usual_text(&line) else {
            self.note_if_report(&line, intake);
            return;
        };
        let mut reports = intake.read_line(text);
        if reports.is_empty() {
            return;
        }
        if let Some(step) = reports.iter_mut().find_map(|(_, report)| report.bad_step.take()) {
            self.note_bad_step(step, intake);
        }
        let stated = reports.iter().find_map(|(_, report)| report.step);
        let highest = |index: &usize| self.position.highest_steps.get(index).copied().unwrap_or(0);
        let next = reports.iter().map(|(index, _)| highest(index).saturating_add(1)).max();
        let step = stated.or(next).unwrap_or(1);
        for (index, _) in &reports {
            let highest = self.position.highest_steps.entry(*index).or_insert(0);
            *highest = (*highest).max(step);
        }
        let values = reports.into_iter().map(|(index, report)| (index, report.value)).collect();
        let key = ReportKey::StandardOutput { attempt: self.attempt, offset: self.position.offset };
        intake.add(Report { step, wall_time_secs: 0.0, key, values });
    }

    /// Part of `line` outside objects and arrays printed over several lines.
    fn usual_text<'a>(&mut self, line: &'a str) -> Option<&'a str> {
        let mut text = line;
        if let Some(mut printed) = self.position.printed.take() {
            match printed.read(line.as_bytes()) {
                Progress::Inside => {
                    self.position.printed = Some(printed);
                    return None;
                }
                Progress::Closed(end) => text = &line[end..],
                Progress::Foreign => {}
            }
        }
        if let Some((start, printed)) = PrintedObject::opened_by(text.as_bytes()) {
            self.position.printed = Some(printed);
            text = &text[..start];
        }
        Some(text)
    }

    /// Records a problem if the line at the current offset, within a printed object, looks like a report.
    fn note_if_report(&self, line: &str, intake: &mut Intake) {
        let is_noted = |problem: &CollectError| matches!(problem, CollectError::PrintedObject { .. });
        if intake.problems().iter().any(is_noted) {
            return;
        }
        let named = intake.tags().iter().find(|tag| report_line::parse(line, tag, |_| {}).report.is_some());
        if let Some(tag) = named.cloned() {
            let path = self.place.path();
            intake.note_problem(CollectError::PrintedObject { path, tag, offset: self.position.offset });
        }
    }

    /// Records the first invalid step.
    fn note_bad_step(&self, step: String, intake: &mut Intake) {
        let is_noted = |problem: &CollectError| matches!(problem, CollectError::BadStep { .. });
        if !intake.problems().iter().any(is_noted) {
            intake.note_problem(CollectError::BadStep { step });
        }
    }

    /// Advances by `bytes` within an overlong line.
    fn skip(&mut self, bytes: usize, intake: &mut Intake) {
        let is_noted = intake.problems().iter().any(|problem| matches!(problem, CollectError::LongLine { .. }));
        if !self.position.is_in_long_line && !is_noted {
            intake.note_problem(CollectError::LongLine {
                path: self.place.path(),
                offset: self.position.offset,
                limit: MAX_LINE_BYTES,
            });
        }
        self.position.is_in_long_line = true;
        self.position.printed = None;
        self.position.offset += bytes as u64;
    }
}

#[cfg(test)]
mod tests;
