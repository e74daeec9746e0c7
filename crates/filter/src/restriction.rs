use std::fmt;
use std::str::FromStr;

use super::{Expression, FilterError, parser};

/// Parsed filter. Its [`fmt::Display`] form parses to an equal filter.
///
/// ```
/// use tunesmith_filter::Filter;
///
/// let filter: Filter = "state=SUCCEEDED AND NOT (metric.loss>=0.5 OR labels.team:vis*)".parse()?;
/// assert_eq!(filter.to_string(), "state = SUCCEEDED AND NOT (metric.loss >= 0.5 OR labels.team:vis*)");
/// let error = "metric.loss > ".parse::<Filter>().unwrap_err();
/// assert_eq!(error.to_string(), "column 15: found the end; expected a value, as in metric.loss > 0.5");
/// # Ok::<(), tunesmith_filter::FilterError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Restrictions and their combination; `All` without parts for the empty filter, which accepts everything.
    pub expression: Expression<Restriction>,
}

impl Default for Filter {
    /// The empty filter, which accepts everything.
    fn default() -> Self {
        Self { expression: Expression::All(Vec::new()) }
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        parser::parse(text)
    }
}

/// Field, comparison and value. Equality ignores the position in the text.
#[derive(Debug, Clone)]
pub struct Restriction {
    pub field: Field,
    pub comparison: Comparison,
    pub value: Value,
    /// Column of the field in characters, from 1.
    pub column: usize,
    /// Column of the value in characters, from 1.
    pub value_column: usize,
}

impl PartialEq for Restriction {
    fn eq(&self, other: &Self) -> bool {
        (&self.field, self.comparison, &self.value) == (&other.field, other.comparison, &other.value)
    }
}

impl Eq for Restriction {}

/// Field: `state`, or `parameters.learning_rate`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Part before the first dot.
    pub root: String,
    /// Part after the first dot, possibly with more dots.
    pub name: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `:`.
    Has,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// `~`: a regular expression matches the value.
    Matches,
    NotMatches,
}

impl Comparison {
    /// All symbols, each before its prefixes.
    pub(super) const SYMBOLS: [(&'static str, Self); 9] = [
        (":", Self::Has),
        ("=", Self::Equal),
        ("!=", Self::NotEqual),
        ("<=", Self::LessOrEqual),
        ("<", Self::Less),
        (">=", Self::GreaterOrEqual),
        (">", Self::Greater),
        ("~", Self::Matches),
        ("!~", Self::NotMatches),
    ];

    pub fn symbol(self) -> &'static str {
        Self::SYMBOLS.iter().find(|(_, comparison)| *comparison == self).map_or("", |(symbol, _)| symbol)
    }
}

/// Value as written. Its meaning depends on the field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// Text without quotation marks.
    pub text: String,
    /// Whether `*` follows, making the text a prefix.
    pub is_prefix: bool,
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_expression(&self.expression, true, f)
    }
}

fn write_expression(
    expression: &Expression<Restriction>,
    is_outermost: bool,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let (parts, word) = match expression {
        Expression::Leaf(restriction) => return write!(f, "{restriction}"),
        Expression::Not(part) => {
            f.write_str("NOT ")?;
            return write_expression(part, false, f);
        }
        Expression::All(parts) => (parts, " AND "),
        Expression::Any(parts) => (parts, " OR "),
    };
    if !is_outermost {
        f.write_str("(")?;
    }
    for (index, part) in parts.iter().enumerate() {
        f.write_str(if index == 0 { "" } else { word })?;
        write_expression(part, false, f)?;
    }
    f.write_str(if is_outermost { "" } else { ")" })
}

impl fmt::Display for Restriction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.comparison {
            Comparison::Has => write!(f, "{}:{}", self.field, self.value),
            other => write!(f, "{} {} {}", self.field, other.symbol(), self.value),
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.root)?;
        match &self.name {
            None => Ok(()),
            Some(name) if !name.is_empty() && name.chars().all(parser::is_of_field) => write!(f, ".{name}"),
            Some(name) => write!(f, ".{}", Quoted(name)),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if parser::is_plain_value(&self.text) || (self.text.is_empty() && self.is_prefix) {
            f.write_str(&self.text)?;
        } else {
            write!(f, "{}", Quoted(&self.text))?;
        }
        f.write_str(if self.is_prefix { "*" } else { "" })
    }
}

struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.replace('\\', "\\\\").replace('"', "\\\""))
    }
}
