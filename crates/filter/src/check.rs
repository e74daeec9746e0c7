//! Compilation of filters for the fields of a resource.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::relative_time::{is_duration, relative_time};
use super::test::Pattern;
use super::{Comparison, Expression, Filter, FilterError, Restriction, Test};

pub trait Fields {
    type Field;

    /// Finds the field `root` or `root.name` and its kind; `None` if it does not exist.
    fn find(&self, root: &str, name: Option<&str>) -> Option<(Self::Field, Kind)>;

    /// Lists the fields, for the error about an unknown `root`, or an unknown `root.name` with a known root.
    fn allowed(&self, root: &str) -> String;
}

/// Kind of a field's values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One of these words; `:` accepts any text.
    OpenWord(&'static [&'static str]),
    /// Possibly NaN.
    Number,
    Time,
    Flag,
}

/// Field of a resource with a test of its value. A field without a value passes no test.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition<F> {
    pub field: F,
    pub test: Test,
}

impl Filter {
    /// Whether the filter has a time relative to now, so that its matches change over time.
    pub fn is_relative(&self) -> bool {
        fn any(expression: &Expression<Restriction>) -> bool {
            match expression {
                Expression::Leaf(restriction) => is_duration(&restriction.value.text),
                Expression::Not(part) => any(part),
                Expression::All(parts) | Expression::Any(parts) => parts.iter().any(any),
            }
        }
        any(&self.expression)
    }

    /// Compiles the filter for a resource with `fields`.
    ///
    /// Resolves times relative to now. `!=` and `!~` become the negation of `=` and `~`, which holds for a resource
    /// without a value of that field.
    ///
    /// # Errors
    /// If a field does not exist, or a value is of the wrong kind.
    pub fn check<F: Fields>(&self, fields: &F) -> Result<Expression<Condition<F::Field>>, FilterError> {
        self.expression.try_map(&mut |restriction: &Restriction| {
            let Restriction { field, comparison, .. } = restriction;
            let Some((found, kind)) = fields.find(&field.root, field.name.as_deref()) else {
                let message = format!("found the field {field}; allowed: {}", fields.allowed(&field.root));
                return Err(FilterError { column: restriction.column, message });
            };
            let leaf = Expression::Leaf(Condition { field: found, test: test(restriction, &kind)? });
            let is_negated = matches!(comparison, Comparison::NotEqual | Comparison::NotMatches);
            Ok(if is_negated { Expression::Not(Box::new(leaf)) } else { leaf })
        })
    }
}

/// Compiles `restriction` for `kind`, without the negation in `!=` and `!~`.
fn test(restriction: &Restriction, kind: &Kind) -> Result<Test, FilterError> {
    let Restriction { field, comparison, value, value_column, .. } = restriction;
    let error = |column: usize, message: String| Err(FilterError { column, message });
    let refuse = |expected: String| error(*value_column, format!("found {value}; {field} {expected}"));
    if matches!(comparison, Comparison::Matches | Comparison::NotMatches) {
        let is_text = matches!(kind, Kind::Text | Kind::Word(_) | Kind::OpenWord(_));
        if !is_text {
            return refuse(format!("has no text, which {} searches", comparison.symbol()));
        }
        // The star belongs to the regular expression.
        let text = format!("{}{}", value.text, if value.is_prefix { "*" } else { "" });
        let pattern = Pattern::new(&text).map(Test::Pattern);
        return pattern.or_else(|fault| refuse(format!("needs a regular expression: {fault}")));
    }
    let comparison = if *comparison == Comparison::NotEqual { Comparison::Equal } else { *comparison };
    let is_equality = matches!(comparison, Comparison::Has | Comparison::Equal);
    if comparison == Comparison::Has && value.is_prefix && value.text.is_empty() {
        return Ok(Test::Present);
    }
    let is_ordered = matches!(kind, Kind::Number | Kind::Time);
    if !is_equality && !is_ordered {
        let message =
            format!("found {} after {field}, whose values have no order; allowed are : = !=", comparison.symbol());
        return error(restriction.column, message);
    }
    if value.is_prefix && (is_ordered || *kind == Kind::Flag) {
        return refuse("has no text, so * is allowed only alone, after a colon, for any value".to_owned());
    }
    match kind {
        Kind::OpenWord(_) if comparison == Comparison::Has => {}
        Kind::Text => {}
        Kind::Word(words) | Kind::OpenWord(words) => {
            let is_known =
                |word: &&str| if value.is_prefix { word.starts_with(&value.text) } else { **word == value.text };
            if !words.iter().any(is_known) {
                return refuse(format!("is one of {}", words.join(", ")));
            }
        }
        Kind::Number => {
            let Ok(number) = value.text.parse() else {
                return refuse("needs a number, as in 0.001, 1e-3, inf or NaN".to_owned());
            };
            return Ok(Test::Number { comparison, value: number });
        }
        Kind::Time => {
            let Some((start, end)) = time(&value.text, Timestamp::now()) else {
                let expected = "needs a time, as in 2026-11-23T08:00:00Z, a day, as in 2026-11-23, or a time before now, as in -P7D";
                return refuse(expected.to_owned());
            };
            return Ok(Test::Time { comparison, start, end });
        }
        Kind::Flag => {
            let Ok(flag) = value.text.parse() else { return refuse("is true or false".to_owned()) };
            return Ok(Test::Flag(flag));
        }
    }
    Ok(Test::Text { text: value.text.clone(), is_prefix: value.is_prefix })
}

/// Start and exclusive end of a time or day, in microseconds since 1970.
fn time(text: &str, now: Timestamp) -> Option<(i64, i64)> {
    if let Some(time) = text.parse::<Timestamp>().ok().or_else(|| relative_time(text, now)) {
        let start = time.as_microsecond();
        return Some((start, start.saturating_add(1)));
    }
    // Days have no time zone and are in UTC.
    let day: Date = text.parse().ok().filter(|_| text.len() == "2026-11-23".len())?;
    let microsecond = |day: Date| Some(day.to_zoned(TimeZone::UTC).ok()?.timestamp().as_microsecond());
    Some((microsecond(day)?, day.tomorrow().ok().and_then(microsecond)?))
}
