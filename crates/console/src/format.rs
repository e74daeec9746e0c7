//! Numbers, times and durations as HTML with the exact value.
//!
//! These types write HTML themselves; templates escape everything else.

use std::fmt;
use std::time::Duration;

use askama::filters::HtmlSafe;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tunesmith_algorithms::problem::ParameterValue;
use tunesmith_algorithms::rounded::{Rounded, RoundedValue};
use tunesmith_domain::{JobState, StudyState, TrialState};
use tunesmith_prediction::VersionState;

/// Rounded number, with the exact one as its title.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Number(pub(crate) f64);

impl HtmlSafe for Number {}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rounded, exact) = (Rounded(self.0).to_string(), self.0.to_string());
        if rounded == exact {
            write!(f, r#"<span class="number">{rounded}</span>"#)
        } else {
            write!(f, r#"<span class="number" title="{exact}">{rounded}</span>"#)
        }
    }
}

/// Rounded parameter value, with the exact one as its title.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Value(pub(crate) ParameterValue);

impl HtmlSafe for Value {}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ParameterValue::Double(number) | ParameterValue::Discrete(number) => Number(*number).fmt(f),
            ParameterValue::Integer(_) => write!(f, r#"<span class="number">{}</span>"#, RoundedValue(&self.0)),
            ParameterValue::Categorical(text) => write!(f, "{}", Escaped(text)),
        }
    }
}

/// Time. A script converts it to the visitor's time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) Timestamp);

impl HtmlSafe for Time {}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = self.0;
        let shown = exact.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M UTC");
        write!(f, r#"<time datetime="{exact}" title="{exact}">{shown}</time>"#)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

impl HtmlSafe for Span {}

impl Span {
    /// Time from `begin` to `end`; zero if `end` is earlier.
    pub(crate) fn between(begin: Timestamp, end: Timestamp) -> Self {
        Self(Duration::try_from(end.duration_since(begin)).unwrap_or_default())
    }

    /// Formats the span without markup.
    pub(crate) fn text(self) -> String {
        span_text(self.0)
    }

    /// Truncates to whole seconds, so that a running time does not flicker.
    pub(crate) fn whole(self) -> Self {
        Self(Duration::from_secs(self.0.as_secs()))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, r#"<span class="number" title="{} s">{}</span>"#, self.0.as_secs_f64(), span_text(self.0))
    }
}

/// `850 ms`, `12.3 s`, `4 min 5 s`, `2 h 7 min`, `3 d 4 h`.
fn span_text(span: Duration) -> String {
    let seconds = span.as_secs();
    let two = |first: u64, unit: &str, second: u64, small: &str| match second {
        0 => format!("{first} {unit}"),
        _ => format!("{first} {unit} {second} {small}"),
    };
    match seconds {
        0 => format!("{} ms", span.as_millis()),
        1..60 => format!("{} s", Rounded((span.as_secs_f64() * 10.0).floor() / 10.0)),
        60..3600 => two(seconds / 60, "min", seconds % 60, "s"),
        3600..86_400 => two(seconds / 3600, "h", seconds % 3600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

impl HtmlSafe for Size {}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        let (scaled, unit) = match self.0 {
            0..1024 => (bytes, "bytes"),
            1024..1_048_576 => (bytes / 1024.0, "KiB"),
            1_048_576..1_073_741_824 => (bytes / 1_048_576.0, "MiB"),
            _ => (bytes / 1_073_741_824.0, "GiB"),
        };
        let rounded = Rounded((scaled * 10.0).round() / 10.0);
        write!(f, r#"<span class="number" title="{} bytes">{rounded} {unit}</span>"#, self.0)
    }
}

/// State badge: a word and a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Badge {
    word: &'static str,
    class: &'static str,
}

impl HtmlSafe for Badge {}

impl fmt::Display for Badge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, r#"<span class="badge {}">{}</span>"#, self.class, self.word)
    }
}

impl From<JobState> for Badge {
    fn from(state: JobState) -> Self {
        let (word, class) = match state {
            JobState::Queued => ("Queued", "is-waiting"),
            JobState::Preparing => ("Preparing", "is-running"),
            JobState::Running => ("Running", "is-running"),
            JobState::Succeeded => ("Succeeded", "is-good"),
            JobState::Failed => ("Failed", "is-bad"),
            JobState::Cancelling => ("Cancelling", "is-ending"),
            JobState::Cancelled => ("Cancelled", "is-ending"),
        };
        Self { word, class }
    }
}

impl From<StudyState> for Badge {
    fn from(state: StudyState) -> Self {
        let (word, class) = match state {
            StudyState::Active => ("Active", "is-running"),
            StudyState::Inactive => ("Inactive", "is-bad"),
            StudyState::Completed => ("Completed", "is-good"),
        };
        Self { word, class }
    }
}

impl From<VersionState> for Badge {
    fn from(state: VersionState) -> Self {
        let (word, class) = match state {
            VersionState::Creating => ("Creating", "is-running"),
            VersionState::Ready => ("Ready", "is-good"),
            VersionState::Failed => ("Failed", "is-bad"),
            VersionState::Deleting => ("Deleting", "is-ending"),
        };
        Self { word, class }
    }
}

impl Badge {
    pub(crate) fn of_trial(state: TrialState, stopped_early: bool) -> Self {
        let (word, class) = match state {
            TrialState::Requested => ("Requested", "is-waiting"),
            TrialState::Active => ("Running", "is-running"),
            TrialState::Stopping => ("Stopping", "is-ending"),
            TrialState::Succeeded if stopped_early => ("Stopped early", "is-ending"),
            TrialState::Succeeded => ("Succeeded", "is-good"),
            TrialState::Infeasible if stopped_early => ("Stopped", "is-ending"),
            TrialState::Infeasible => ("Infeasible", "is-bad"),
            TrialState::Deleted => ("Deleted", "is-waiting"),
        };
        Self { word, class }
    }
}

/// Trial name, linked if it has a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrialLink {
    pub(crate) address: Option<String>,
    pub(crate) text: String,
}

impl HtmlSafe for TrialLink {}

impl fmt::Display for TrialLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = Escaped(&self.text);
        match &self.address {
            Some(address) => write!(f, r#"<a href="{}">{text}</a>"#, Escaped(address)),
            None => text.fmt(f),
        }
    }
}

/// HTML-escaped text.
pub(crate) struct Escaped<'a>(pub(crate) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                letter => fmt::Write::write_char(f, letter)?,
            }
        }
        Ok(())
    }
}

/// Number with its noun: `1 job`, `20,000 jobs`.
pub(crate) fn counted(number: impl ToString, noun: &str) -> String {
    let text = count(number);
    let plural = if text == "1" { "" } else { "s" };
    format!("{text} {noun}{plural}")
}

/// Number of things, with thousands separated: `20,000`.
pub(crate) fn count(number: impl ToString) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Percent-encodes `text` as a query value or path segment.
pub(crate) fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounded_numbers_keep_the_exact_one_as_title() {
        assert_eq!(Number(0.25).to_string(), r#"<span class="number">0.25</span>"#);
        let rounded = r#"<span class="number" title="0.010000000000000004">0.01</span>"#;
        assert_eq!(Number(0.010000000000000004).to_string(), rounded);
        assert_eq!(Number(f64::NAN).to_string(), r#"<span class="number">NaN</span>"#);
    }

    #[test]
    fn text_of_parameters_is_escaped() {
        let value = Value(ParameterValue::Categorical("<script>'\"&".to_owned()));
        assert_eq!(value.to_string(), "&lt;script&gt;&#39;&quot;&amp;");
        assert_eq!(Value(ParameterValue::Integer(1_234_567)).to_string(), r#"<span class="number">1234567</span>"#);
    }

    #[test]
    fn thousands_are_separated() {
        let cases = [(0, "0"), (999, "999"), (1000, "1,000"), (20_000, "20,000"), (1_234_567, "1,234,567")];
        for (number, expected) in cases {
            assert_eq!(count(number), expected);
        }
    }

    #[test]
    fn durations_have_two_units_at_most() {
        let cases = [
            (0, "0 ms"),
            (850, "850 ms"),
            (12_340, "12.3 s"),
            (59_999, "59.9 s"),
            (60_000, "1 min"),
            (245_000, "4 min 5 s"),
            (7_625_000, "2 h 7 min"),
            (273_600_000, "3 d 4 h"),
        ];
        for (millis, expected) in cases {
            assert_eq!(span_text(Duration::from_millis(millis)), expected);
        }
    }

    #[test]
    fn time_has_its_exact_value() {
        let time = Time("2026-11-23T08:05:09.123Z".parse().unwrap()).to_string();
        let exact = "2026-11-23T08:05:09.123Z";
        assert_eq!(time, format!(r#"<time datetime="{exact}" title="{exact}">2026-11-23 08:05 UTC</time>"#));
    }
}
