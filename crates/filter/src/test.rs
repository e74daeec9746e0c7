//! What a value is tested for.

use regex::{Regex, RegexBuilder};

use super::Comparison;

/// Maximum size of a compiled regular expression in bytes, and of its cache. A guess: some thousand characters.
const MAX_PATTERN_BYTES: usize = 256 << 10;

/// A regular expression. Two are equal if they are written alike.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl Pattern {
    /// The regular expression `text`, in the language of the crate `regex`: its time is linear in the text that is searched.
    ///
    /// # Errors
    /// The fault, in one line.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let compiled = RegexBuilder::new(text).size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES).build();
        compiled.map(Self).map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => "is too large when compiled".to_owned(),
            // The last line states the fault, after a picture of its place.
            error => error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned(),
        })
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

/// What the value of a field is tested for.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// That there is a value.
    Present,
    /// That it is this text.
    Text {
        /// The text.
        text: String,
        /// Whether it is only the beginning of the value.
        is_prefix: bool,
    },
    /// That it has a match for a regular expression.
    Pattern(Pattern),
    /// That it compares so with a number.
    Number {
        /// The comparison; [`Comparison::Has`] is equality.
        comparison: Comparison,
        /// The number. NaN is equal to NaN, and neither less nor greater than any number.
        value: f64,
    },
    /// That it compares so with a span of time, in microseconds since 1970.
    Time {
        /// The comparison; [`Comparison::Has`] and [`Comparison::Equal`] mean: within the span.
        comparison: Comparison,
        /// The beginning of the span.
        start: i64,
        /// Its end, exclusive.
        end: i64,
    },
    /// That it is this.
    Flag(bool),
}

impl Test {
    /// Whether the text `value` passes.
    pub fn accepts_text(&self, value: &str) -> bool {
        match self {
            Self::Present => true,
            Self::Text { text, is_prefix: true } => value.starts_with(text),
            Self::Text { text, is_prefix: false } => value == text,
            Self::Pattern(pattern) => pattern.0.is_match(value),
            Self::Number { .. } | Self::Time { .. } | Self::Flag(_) => false,
        }
    }

    /// Whether the number `value` passes.
    pub fn accepts_number(&self, value: f64) -> bool {
        let Self::Number { comparison, value: bound } = self else { return *self == Self::Present };
        match comparison {
            Comparison::Has | Comparison::Equal => value == *bound || (value.is_nan() && bound.is_nan()),
            Comparison::NotEqual => value != *bound && !(value.is_nan() && bound.is_nan()),
            Comparison::Less => value < *bound,
            Comparison::LessOrEqual => value <= *bound,
            Comparison::Greater => value > *bound,
            Comparison::GreaterOrEqual => value >= *bound,
            Comparison::Matches | Comparison::NotMatches => false,
        }
    }

    /// Whether the time `value`, in microseconds since 1970, passes.
    pub fn accepts_time(&self, value: i64) -> bool {
        let Self::Time { comparison, start, end } = self else { return *self == Self::Present };
        match comparison {
            Comparison::Has | Comparison::Equal => (*start..*end).contains(&value),
            Comparison::NotEqual => !(*start..*end).contains(&value),
            Comparison::Less => value < *start,
            Comparison::LessOrEqual => value < *end,
            Comparison::Greater => value >= *end,
            Comparison::GreaterOrEqual => value >= *start,
            Comparison::Matches | Comparison::NotMatches => false,
        }
    }

    /// Whether the flag `value` passes.
    pub fn accepts_flag(&self, value: bool) -> bool {
        matches!(self, Self::Present) || *self == Self::Flag(value)
    }
}
