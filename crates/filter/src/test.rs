//! What a value is tested for.

use super::Comparison;

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
        }
    }

    /// Whether the flag `value` passes.
    pub fn accepts_flag(&self, value: bool) -> bool {
        matches!(self, Self::Present) || *self == Self::Flag(value)
    }
}
