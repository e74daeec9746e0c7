//! Conversion of a tree to JSON, validated against the shape of a config.
//!
//! Invalid values are reported and omitted, so that one pass finds all errors and the rules apply to the rest.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::diagnostic::{Finding, MAX_FINDINGS};
use super::free_form;
use super::schema::ConfigFile;
use super::shape::Shape;
use super::yaml::{Content, Entry, Node};
use tunesmith_api::ai_platform::{Number, ProtoDuration, is_time, nearest};

static PLAIN: LazyLock<Shape> = LazyLock::new(|| ConfigFile::shape(false));
static WRAPPED: LazyLock<Shape> = LazyLock::new(|| ConfigFile::shape(true));

/// Locations of a file's fields, and the fields with a reported error.
#[derive(Debug, Default)]
pub(super) struct Locations {
    spans: HashMap<String, Range<usize>>,
    broken: HashSet<String>,
}

impl Locations {
    /// Span of `field`, or of the innermost enclosing field in the file.
    pub(super) fn span(&self, field: &str) -> Range<usize> {
        let mut field = field;
        loop {
            if let Some(span) = self.spans.get(field) {
                return span.clone();
            }
            field = parent(field);
            if field.is_empty() {
                return self.spans.get("").cloned().unwrap_or(0..0);
            }
        }
    }

    /// Whether an error of `field` or an enclosing field has been reported.
    pub(super) fn is_broken(&self, field: &str) -> bool {
        let mut field = field;
        while !field.is_empty() {
            if self.broken.contains(field) {
                return true;
            }
            field = parent(field);
        }
        false
    }
}

fn parent(field: &str) -> &str {
    &field[..field.rfind(['.', '[']).unwrap_or(0)]
}

fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

pub(super) struct Conversion<'a> {
    findings: &'a mut Vec<Finding>,
    root: &'static Shape,
    locations: Locations,
}

impl<'a> Conversion<'a> {
    /// Converts a file with the key `trainingInput` if `wrapped`, otherwise a plain training input.
    pub(super) fn new(findings: &'a mut Vec<Finding>, wrapped: bool) -> Self {
        Self::of_shape(findings, if wrapped { &WRAPPED } else { &PLAIN })
    }

    pub(super) fn of_shape(findings: &'a mut Vec<Finding>, root: &'static Shape) -> Self {
        Self { findings, root, locations: Locations::default() }
    }

    /// Returns the file as JSON without invalid values.
    pub(super) fn file(mut self, tree: &Node) -> (Value, Locations) {
        let value = self.value("", tree, self.root).unwrap_or_else(|| Value::Object(Map::new()));
        (value, self.locations)
    }

    fn value(&mut self, path: &str, node: &Node, shape: &Shape) -> Option<Value> {
        self.locations.spans.entry(path.to_owned()).or_insert_with(|| node.span.clone());
        match (shape, &node.content) {
            (Shape::Message { fields, required, instead }, Content::Mapping(entries)) => {
                // An empty text is the same as an absent field.
                let is_given =
                    |entry: &Entry| !matches!(&entry.value.content, Content::Scalar { text, .. } if text.is_empty());
                let replaces =
                    |entry: &Entry| Some(&entry.key) == instead.as_ref() && !entry.value.is_null() && is_given(entry);
                let required = if entries.iter().any(replaces) { &[] } else { required.as_slice() };
                Some(self.message(path, node, entries, fields, required))
            }
            (Shape::Duration, Content::Mapping(entries)) => {
                let duration = duration(entries);
                if duration.is_none() {
                    let message = "is not a duration".to_owned();
                    self.report(path, node.span.clone(), message, shape.describe(), None);
                }
                duration
            }
            (Shape::Map(values), Content::Mapping(entries)) => {
                let mut map = Map::new();
                for entry in entries {
                    let value = self.value(&child(path, &entry.key), &entry.value, values);
                    map.insert(entry.key.clone(), value.unwrap_or_else(|| placeholder(values)));
                }
                Some(Value::Object(map))
            }
            (Shape::List(item), Content::List(items)) => {
                // A placeholder replaces an invalid item, so that the other items keep their index.
                let values = items.iter().enumerate().map(|(index, node)| {
                    self.value(&format!("{path}[{index}]"), node, item).unwrap_or_else(|| placeholder(item))
                });
                Some(Value::Array(values.collect()))
            }
            (Shape::Any, _) => Some(free_form::value(node)),
            (_, Content::Scalar { text, plain }) if !node.is_null() => match scalar(text, *plain, shape) {
                Ok(value) => Some(value),
                Err(mismatch) => {
                    let message = mismatch.message.unwrap_or_else(|| format!("`{text}` is not {}", noun(shape)));
                    self.report(path, node.span.clone(), message, shape.describe(), mismatch.help);
                    None
                }
            },
            _ => {
                let message = match &node.content {
                    Content::Scalar { .. } => "has no value",
                    Content::List(_) => "is a list",
                    Content::Mapping(_) => "is a mapping",
                };
                let message = if path.is_empty() { format!("the file {message}") } else { message.to_owned() };
                self.report(path, node.span.clone(), message, shape.describe(), None);
                None
            }
        }
    }

    fn message(
        &mut self,
        path: &str,
        node: &Node,
        entries: &[Entry],
        fields: &BTreeMap<String, Shape>,
        required: &[String],
    ) -> Value {
        let mut map = Map::new();
        let mut guessed = HashSet::new();
        for entry in entries {
            let field = child(path, &entry.key);
            let Some(shape) = fields.get(&entry.key) else {
                if self.findings.len() >= MAX_FINDINGS {
                    // Counted but not shown, so no help is needed.
                    self.report(&field, entry.key_span.clone(), "unknown field".to_owned(), String::new(), None);
                    continue;
                }
                let guess = nearest(&entry.key, fields.keys().map(String::as_str));
                self.unknown(path, entry, fields, guess);
                if let Some(guess) = guess {
                    // The misspelled field counts as present, so that rules do not report it as missing.
                    self.locations.broken.insert(child(path, guess));
                    guessed.insert(guess.to_owned());
                }
                continue;
            };
            // Null is the default, as in proto3's JSON; required fields are checked below.
            if entry.value.is_null() && !required.contains(&entry.key) {
                continue;
            }
            // Collections report errors at the key, since the value may begin on the next line.
            let span = match &entry.value.content {
                Content::Scalar { .. } if !entry.value.is_null() => entry.value.span.clone(),
                _ => entry.key_span.clone(),
            };
            self.locations.spans.insert(field.clone(), span.clone());
            let value = Node { span, content: entry.value.content.clone() };
            if let Some(value) = self.value(&field, &value, shape) {
                map.insert(entry.key.clone(), value);
            }
        }
        for name in required {
            if !guessed.contains(name) && entries.iter().all(|entry| entry.key != *name) {
                let allowed =
                    fields.get(name).map_or_else(String::new, |shape| format!("{name}: {}", shape.describe()));
                let span = self.locations.spans.get(path).cloned().unwrap_or_else(|| node.span.clone());
                self.report(&child(path, name), span, "is missing".to_owned(), allowed, None);
            }
        }
        Value::Object(map)
    }

    fn unknown(&mut self, path: &str, entry: &Entry, fields: &BTreeMap<String, Shape>, guess: Option<&str>) {
        let root = self.root;
        let elsewhere = || {
            let found = path_of_field(root, "", &entry.key)?;
            Some(format!("`{}` belongs to `{found}`", entry.key))
        };
        let exact = if path.is_empty() || guess.is_none() { elsewhere() } else { None };
        let help = exact.or_else(|| guess.map(|guess| format!("did you mean `{guess}`?"))).or_else(elsewhere);
        let names: Vec<&str> = fields.keys().map(String::as_str).collect();
        let allowed = format!("one of {}", names.join(", "));
        let field = child(path, &entry.key);
        self.report(&field, entry.key_span.clone(), "unknown field".to_owned(), allowed, help);
    }

    fn report(&mut self, field: &str, span: Range<usize>, message: String, allowed: String, help: Option<String>) {
        self.locations.broken.insert(field.to_owned());
        self.findings.push(Finding { help, ..Finding::error(field, span, message, allowed) });
    }
}

/// Path of the first message in `shape` with a field `name`.
fn path_of_field(shape: &Shape, path: &str, name: &str) -> Option<String> {
    match shape {
        Shape::Message { fields, .. } if !path.is_empty() && fields.contains_key(name) => Some(path.to_owned()),
        Shape::Message { fields, .. } => {
            fields.iter().find_map(|(field, shape)| path_of_field(shape, &child(path, field), name))
        }
        Shape::List(item) => path_of_field(item, &format!("{path}[]"), name),
        _ => None,
    }
}

/// Valid placeholder of `shape` for an invalid value.
fn placeholder(shape: &Shape) -> Value {
    match shape {
        Shape::Message { .. } | Shape::Map(_) => Value::Object(Map::new()),
        Shape::List(_) => Value::Array(Vec::new()),
        Shape::Integer { min, .. } => Value::from(i64::try_from(*min).unwrap_or(0).max(0)),
        // NaN compares as neither greater nor smaller, so ordering checks accept it.
        Shape::Double => Value::from("NaN"),
        Shape::Bool => Value::Bool(false),
        Shape::Duration => Value::from("0s"),
        Shape::Time => Value::from("1970-01-01T00:00:00Z"),
        Shape::Text | Shape::Choice(_) => Value::from(""),
        Shape::Any => Value::Null,
    }
}

/// Name of `shape` for the message "`x` is not ...".
fn noun(shape: &Shape) -> &'static str {
    match shape {
        Shape::Message { .. } | Shape::Map(_) => "a mapping",
        Shape::List(_) => "a list",
        Shape::Choice(_) => "a known name",
        Shape::Text => "text",
        Shape::Bool => "a truth value",
        Shape::Duration => "a duration",
        Shape::Time => "a time",
        Shape::Integer { .. } => "a whole number",
        Shape::Double => "a number",
        Shape::Any => "a value",
    }
}

/// Error of a scalar of another shape. Has a default message.
#[derive(Default)]
struct Mismatch {
    message: Option<String>,
    help: Option<String>,
}

fn scalar(text: &str, plain: bool, shape: &Shape) -> Result<Value, Mismatch> {
    match shape {
        // Unquoted numbers remain text: version 1.10 is not 1.1.
        Shape::Text => Ok(Value::from(text)),
        Shape::Bool => match text {
            "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" if plain => Ok(Value::Bool(true)),
            "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" if plain => Ok(Value::Bool(false)),
            _ => Err(Mismatch::default()),
        },
        Shape::Choice(names) if names.iter().any(|name| name == text) => Ok(Value::from(text)),
        Shape::Choice(names) => {
            let guess = synonym(text, names).or_else(|| nearest(text, names.iter().map(String::as_str)));
            Err(Mismatch { help: guess.map(|name| format!("did you mean `{name}`?")), message: None })
        }
        Shape::Duration => match text.parse::<ProtoDuration>() {
            Ok(duration) => Ok(Value::from(duration.to_string())),
            Err(_) => {
                let with_unit = format!("{text}s");
                let help = with_unit.parse::<ProtoDuration>().ok().map(|_| format!("did you mean `{with_unit}`?"));
                Err(Mismatch { message: None, help })
            }
        },
        Shape::Time if is_time(text) => Ok(Value::from(text)),
        Shape::Time => Err(Mismatch::default()),
        Shape::Integer { min, max } => {
            let value = integer(text).ok_or_else(Mismatch::default)?;
            let out_of_range = || Mismatch { message: Some(format!("{text} is out of range")), help: None };
            if value < *min || value > *max {
                return Err(out_of_range());
            }
            // The ranges of all shapes are within i64 or u64.
            i64::try_from(value)
                .map(Value::from)
                .or_else(|_| u64::try_from(value).map(Value::from))
                .map_err(|_| out_of_range())
        }
        Shape::Double => {
            let value = double(text).ok_or_else(Mismatch::default)?;
            serde_json::to_value(value).map_err(|_| Mismatch::default())
        }
        Shape::Message { .. } | Shape::Map(_) | Shape::List(_) | Shape::Any => Err(Mismatch::default()),
    }
}

/// Finds the choice in `names` that other tools call `text`.
fn synonym<'a>(text: &str, names: &'a [String]) -> Option<&'a str> {
    let plain = text.to_uppercase().replace(['-', ' '], "_");
    let published = match plain.as_str() {
        "FLOAT" | "FLOAT32" | "FLOAT64" | "REAL" | "NUMBER" | "UNIFORM" | "RANGE" | "CONTINUOUS" => "DOUBLE",
        "INT" | "INT32" | "INT64" | "LONG" | "RANDINT" | "QUANTITATIVE" => "INTEGER",
        "STRING" | "STR" | "TEXT" | "CATEGORY" | "CHOICE" | "ENUM" | "BOOL" | "BOOLEAN" | "NOMINAL" => "CATEGORICAL",
        "ORDINAL" | "VALUES" | "LIST" | "NUMBERS" => "DISCRETE",
        "LOG" | "LOGARITHMIC" | "LOG_SCALE" | "LOGUNIFORM" | "LOG_UNIFORM" => "UNIT_LOG_SCALE",
        "REVERSE_LOG" | "REVERSE_LOG_SCALE" => "UNIT_REVERSE_LOG_SCALE",
        "LINEAR" | "LINEAR_SCALE" => "UNIT_LINEAR_SCALE",
        "MAX" => "MAXIMIZE",
        "MIN" => "MINIMIZE",
        "GRID" => "GRID_SEARCH",
        "RANDOM" => "RANDOM_SEARCH",
        "BAYES" | "BAYESIAN" | "BAYESIAN_OPTIMIZATION" => "GAUSSIAN_PROCESS_BANDIT",
        _ => return None,
    };
    names.iter().map(String::as_str).find(|name| *name == published)
}

/// Parses a duration written as a message with the fields `seconds` and `nanos`.
fn duration(fields: &[Entry]) -> Option<Value> {
    let mut message = Map::new();
    for Entry { key, value, .. } in fields {
        let Content::Scalar { text, .. } = &value.content else { return None };
        message.insert(key.clone(), Value::from(i64::try_from(integer(text)?).ok()?));
    }
    let duration: ProtoDuration = serde_json::from_value(Value::Object(message)).ok()?;
    Some(Value::from(duration.to_string()))
}

/// Parses an integer: `10`, `1e3`, `10.0`, `1_000`.
fn integer(text: &str) -> Option<i128> {
    let text = without_separators(text);
    if let Ok(value) = text.parse() {
        return Some(value);
    }
    double(&text)?.as_exact_integer().map(i128::from)
}

/// Parses a number: `1e-4`, `.5`, `1_000`, and YAML's `.inf` and `.nan`.
fn double(text: &str) -> Option<Number> {
    let text = without_separators(text);
    match text.as_str() {
        ".inf" | ".Inf" | ".INF" | "+.inf" | "Infinity" => return Some(f64::INFINITY.into()),
        "-.inf" | "-.Inf" | "-.INF" | "-Infinity" => return Some(f64::NEG_INFINITY.into()),
        ".nan" | ".NaN" | ".NAN" | "NaN" => return Some(f64::NAN.into()),
        _ => {}
    }
    // Rust also parses "inf" and "nan", which are text in YAML.
    if !text.bytes().any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Removes underscores between digits, which YAML 1.1 allows.
fn without_separators(text: &str) -> String {
    let between_digits = |index: usize| {
        let bytes = text.as_bytes();
        index > 0 && bytes[index - 1].is_ascii_digit() && bytes.get(index + 1).is_some_and(u8::is_ascii_digit)
    };
    text.char_indices().filter(|(index, c)| *c != '_' || !between_digits(*index)).map(|(_, c)| c).collect()
}
