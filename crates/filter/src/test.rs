use regex::{Regex, RegexBuilder};

use super::Comparison;

/// Maximum size of a compiled regular expression and of its cache, in bytes. A guess: some thousand characters.
const MAX_PATTERN_BYTES: usize = 256 << 10;

/// Regular expression. Equality compares the source.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl Pattern {
    /// Compiles `text`, in the syntax of the crate `regex`, with search time linear in the searched text.
    ///
    /// # Errors
    /// The fault, in one line.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let compiled = RegexBuilder::new(text).size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES).build();
        compiled.map(Self).map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => "is too large when compiled".to_owned(),
            // The last line states the fault, after an excerpt.
            error => error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned(),
        })
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// Any value.
    Present,
    Text {
        text: String,
        /// Whether `text` is a prefix.
        is_prefix: bool,
    },
    Pattern(Pattern),
    /// Comparison with a number.
    Number {
        /// [`Comparison::Has`] is equality.
        comparison: Comparison,
        /// NaN equals NaN, and is neither less nor greater than any number.
        value: f64,
    },
    /// Comparison with a time span, in microseconds since 1970.
    Time {
        /// [`Comparison::Has`] and [`Comparison::Equal`] mean: within the span.
        comparison: Comparison,
        start: i64,
        /// Exclusive.
        end: i64,
    },
    Flag(bool),
}

impl Test {
    pub fn accepts_text(&self, value: &str) -> bool {
        match self {
            Self::Present => true,
            Self::Text { text, is_prefix: true } => value.starts_with(text),
            Self::Text { text, is_prefix: false } => value == text,
            Self::Pattern(pattern) => pattern.0.is_match(value),
            Self::Number { .. } | Self::Time { .. } | Self::Flag(_) => false,
        }
    }

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

    /// Whether `value`, in microseconds since 1970, passes.
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

    pub fn accepts_flag(&self, value: bool) -> bool {
        matches!(self, Self::Present) || *self == Self::Flag(value)
    }
}
