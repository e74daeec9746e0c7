//! Parser of one line of output as a report: `tag=value` or `tag: value`, with or without a step.
//!
//! The grammar is documented in `docs/reference/standard-output.md`, whose table of examples is a test of this module.
//! For a line with the tag but no readable value, the parser gives the reason, for the error message of a trial without
//! a metric.

mod name;
mod number;
mod plain_text;
#[cfg(test)]
mod tests;

pub(super) use self::plain_text::plain_text;

use self::name::{is_log_prefix, is_separator, name_start};
use self::number::{Number, read_number, read_step};

/// Content of a line with respect to one tag.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct LineReading {
    pub report: Option<LineReport>,
    /// First unreadable value of the tag; relevant only without a report.
    pub unread: Option<Unread>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct LineReport {
    /// The last of several values.
    pub value: f64,
    /// The last of several steps; `global_step` takes precedence over `step`.
    pub step: Option<i64>,
    /// Text of a step that is not a whole number of at least 0.
    pub bad_step: Option<String>,
}

/// Reason for an unreadable value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    /// No equals sign or colon between tag and number.
    NoSign,
    /// The number continues after a comma, blank or apostrophe.
    Grouped,
    NotNumber,
}

impl Unread {
    pub(super) fn cure(self) -> &'static str {
        match self {
            Self::NoSign => "print an equals sign or a colon between the name and the value",
            Self::Grouped => "print the number with a decimal point and without separators of thousands",
            Self::NotNumber => "print one number after the sign, such as 0.93",
        }
    }
}

/// Parses `line`, a [`plain_text()`], as a report of `tag`. Calls `note_name` for every name with a numeric value. If
/// the tag is `step`, its pair is the metric, not the step.
pub(super) fn parse(line: &str, tag: &str, mut note_name: impl FnMut(&str)) -> LineReading {
    let mut reading = LineReading::default();
    if is_cluster_specification(line.as_bytes()) {
        return reading;
    }
    let (mut value, mut step, mut global_step, mut bad_step) = (None, None, None, None);
    for sign in memchr::memchr2_iter(b'=', b':', line.as_bytes()) {
        let after = &line[sign + 1..];
        let before = line[..sign].trim_end();
        let before = before.strip_suffix(['"', '\'']).unwrap_or(before);
        if ends_with_tag(before, tag) {
            match read_number(after) {
                Number::Value(number) => {
                    value = Some(number);
                    note_name(tag);
                }
                Number::Grouped => _ = reading.unread.get_or_insert(Unread::Grouped),
                Number::None => _ = reading.unread.get_or_insert(Unread::NotNumber),
            }
            continue;
        }
        let word = last_word(before);
        // Words before the name of a step are ignored: `train step=3`, `trainer:step=3`.
        let counter = match word.rsplit([':', '=']).next() {
            Some("step") => &mut step,
            Some("global_step") => &mut global_step,
            _ => {
                if is_metric_name(word) && !is_position(line, sign) && matches!(read_number(after), Number::Value(_)) {
                    note_name(before[name_start(before, before.len() - word.len())..].trim_start());
                }
                continue;
            }
        };
        match read_step(after) {
            Some(Ok(number)) => *counter = Some(number),
            Some(Err(text)) => bad_step = Some(text.to_owned()),
            None => {}
        }
    }
    let step = global_step.or(step);
    reading.report = value.map(|value| LineReport { value, step, bad_step: bad_step.filter(|_| step.is_none()) });
    if reading.report.is_none() && reading.unread.is_none() && has_number_without_sign(line, tag) {
        reading.unread = Some(Unread::NoSign);
    }
    reading
}

/// Whether `line` is a printed `TF_CONFIG` or `CLUSTER_SPEC`, which contain an index for every task.
fn is_cluster_specification(line: &[u8]) -> bool {
    /// Keys with object values.
    const KEYS: [&[u8]; 2] = [b"cluster", b"task"];
    let opens_object = |after: &[u8]| {
        let after = after.strip_prefix(b"\\").unwrap_or(after);
        let after = after.strip_prefix(b"\"").or_else(|| after.strip_prefix(b"'"));
        let after = after.and_then(|after| after.trim_ascii_start().strip_prefix(b":"));
        after.is_some_and(|after| after.trim_ascii_start().starts_with(b"{"))
    };
    let has_key = |key: &[u8]| memchr::memmem::find_iter(line, key).any(|at| opens_object(&line[at + key.len()..]));
    KEYS.iter().all(|key| has_key(key))
}

/// Whether `text` ends with `tag` as a whole name.
fn ends_with_tag(text: &str, tag: &str) -> bool {
    text.strip_suffix(tag).is_some_and(|before| name_start(text, before.len()) == before.len())
}

/// Whether `line` contains the tag as a whole name, followed by a number without an equals sign or colon between them:
/// `acc 0.5`, or table cells.
fn has_number_without_sign(line: &str, tag: &str) -> bool {
    memchr::memmem::find_iter(line.as_bytes(), tag).any(|at| {
        let after = line[at + tag.len()..].trim_start_matches(['"', '\'']);
        let value = after.trim_start_matches(|sign: char| sign.is_whitespace() || "|->".contains(sign));
        value.len() < after.len()
            && value.starts_with(|first: char| first.is_ascii_digit() || first == '.')
            && matches!(read_number(value), Number::Value(_))
            && name_start(line, at) == at
    })
}

/// Whether `name` can be a metric's name; a printed argument such as `--lr=0.1` cannot.
fn is_metric_name(name: &str) -> bool {
    !name.starts_with('-') && name.contains(|character: char| character.is_ascii_alphabetic())
}

/// Whether the colon at `sign` precedes the line number of a file or the port of a host, such as `task.py:57`.
fn is_position(line: &str, sign: usize) -> bool {
    let after = &line[sign + 1..];
    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
    line.as_bytes()[sign] == b':' && digits > 0 && after[digits..].chars().next().is_none_or(is_separator)
}

/// Last word of `text`, without a log prefix.
fn last_word(text: &str) -> &str {
    let word = text.rsplit(is_separator).next().unwrap_or(text);
    match word.rsplit_once(':') {
        Some((prefix, rest)) if is_log_prefix(&text[..text.len() - word.len()], prefix) => rest,
        _ => word,
    }
}
