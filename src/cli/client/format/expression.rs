//! Parser of gcloud format expressions.
//!
//! ```text
//! format     = name [ "[" attribute { "," attribute } "]" ] [ "(" field { "," field } ")" ]
//! attribute  = name [ "=" text ]
//! field      = path { "." transform "(" [ argument { "," argument } ] ")" } { ":" modifier }
//! path       = key { "." key | "[" [ index ] "]" }
//! modifier   = "label=" text | "sort=" number [ ":reverse" ] | "align=" side | "wrap" | "optional"
//! ```

use super::field::{Key, Path};
use super::transform::Transform;

/// Formats by their gcloud names.
const KINDS: [(&str, Kind); 12] = [
    ("value", Kind::Value),
    ("get", Kind::Value),
    ("csv", Kind::Csv),
    ("table", Kind::Table),
    ("json", Kind::Json),
    ("yaml", Kind::Yaml),
    ("list", Kind::List),
    ("flattened", Kind::Flattened),
    ("text", Kind::Flattened),
    ("none", Kind::None),
    ("disable", Kind::None),
    ("default", Kind::Yaml),
];

/// Accepted attributes; some only affect how gcloud draws a table.
const ATTRIBUTES: [&str; 8] =
    ["no-heading", "separator", "terminator", "delimiter", "quote", "box", "all-box", "title"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Value,
    Csv,
    Table,
    Json,
    Yaml,
    List,
    Flattened,
    None,
}

/// A format and its selected fields.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cli::client) struct Projection {
    pub(super) kind: Kind,
    pub(super) attributes: Vec<(String, String)>,
    /// Empty for all fields.
    pub(super) fields: Vec<Field>,
}

impl Projection {
    /// Value of an attribute; `true` if it has none.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }
}

/// A selected field and its presentation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    pub(super) path: Path,
    pub(super) transforms: Vec<Transform>,
    pub(super) label: Option<String>,
    /// Sort key position, and whether the order is descending.
    pub(super) sort: Option<(u32, bool)>,
    pub(super) is_right: bool,
}

/// Parses any format except the plain `table`, `yaml` and `json`.
pub(super) fn parse(text: &str) -> Result<Projection, String> {
    let mut parser = Parser { rest: text, text };
    let name = parser.word();
    let Some((_, kind)) = KINDS.iter().find(|(known, _)| *known == name) else {
        let mut known: Vec<&str> = KINDS.iter().map(|(known, _)| *known).collect();
        known.retain(|known| !["get", "text", "disable", "default"].contains(known));
        return Err(format!("unknown format {name:?}; expected one of {}", known.join(", ")));
    };
    let attributes = if parser.takes('[') { parser.attributes()? } else { Vec::new() };
    let fields = if parser.takes('(') { parser.fields(name == "get")? } else { Vec::new() };
    parser.space();
    if !parser.rest.is_empty() {
        return Err(parser.expected("the end"));
    }
    if fields.is_empty() && matches!(kind, Kind::Value | Kind::Csv | Kind::Table) {
        return Err(format!("{name} needs fields, such as {name}(jobId,state)"));
    }
    Ok(Projection { kind: *kind, attributes, fields })
}

/// Parses a single field path.
pub(super) fn path(text: &str) -> Result<Path, String> {
    let mut parser = Parser { rest: text, text };
    let field = parser.field()?;
    if parser.rest.is_empty() && field.transforms.is_empty() { Ok(field.path) } else { Err(parser.expected("a field")) }
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn expected(&self, what: &str) -> String {
        let at = self.text.len() - self.rest.len();
        let found = self.rest.chars().next().map_or_else(|| "the end".to_owned(), |c| format!("{c:?}"));
        format!("position {}: found {found}; expected {what}", self.text[..at].chars().count() + 1)
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Consumes `c` if it is next.
    fn takes(&mut self, c: char) -> bool {
        self.space();
        let after = self.rest.strip_prefix(c);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    /// Consumes letters, digits, `_`, `-` and `/`: the characters of metric names.
    fn word(&mut self) -> &'a str {
        self.space();
        let end = self.rest.find(|c: char| !(c.is_alphanumeric() || "_-/".contains(c))).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// Consumes a quoted text, or everything up to a character in `ends`.
    fn value(&mut self, ends: &[char]) -> Result<String, String> {
        self.space();
        let Some(mark) = self.rest.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
            let end = self.rest.find(ends).unwrap_or(self.rest.len());
            let (value, rest) = self.rest.split_at(end);
            self.rest = rest;
            return Ok(value.trim_end().to_owned());
        };
        let Some(length) = self.rest[1..].find(mark) else { return Err(self.expected("a closing quotation mark")) };
        let value = self.rest[1..=length].to_owned();
        self.rest = &self.rest[length + 2..];
        Ok(value)
    }

    fn attributes(&mut self) -> Result<Vec<(String, String)>, String> {
        let mut attributes = Vec::new();
        while !self.takes(']') {
            let name = self.word().to_owned();
            if !ATTRIBUTES.contains(&name.as_str()) {
                return Err(format!("unknown attribute {name:?}; expected one of {}", ATTRIBUTES.join(", ")));
            }
            let value = if self.takes('=') { self.value(&[',', ']'])? } else { "true".to_owned() };
            attributes.push((name, value));
            if !self.takes(',') && !self.rest.starts_with(']') {
                return Err(self.expected("a comma or ]"));
            }
        }
        Ok(attributes)
    }

    /// Consumes fields up to the closing parenthesis. `is_plain` ignores transforms, as `get` does.
    fn fields(&mut self, is_plain: bool) -> Result<Vec<Field>, String> {
        let mut fields = Vec::new();
        while !self.takes(')') {
            let mut field = self.field()?;
            if is_plain {
                field.transforms.clear();
            }
            fields.push(field);
            if !self.takes(',') && !self.rest.starts_with(')') {
                return Err(self.expected("a comma or )"));
            }
        }
        Ok(fields)
    }

    fn field(&mut self) -> Result<Field, String> {
        let (mut keys, mut transforms) = (Vec::new(), Vec::new());
        loop {
            self.space();
            if self.rest.starts_with('"') {
                keys.push(Key::Name(self.value(&[])?));
            } else if self.rest.starts_with('[') && keys.is_empty() {
                // Slice of the resource itself.
            } else {
                let word = self.word();
                if word.is_empty() {
                    return Err(self.expected("the name of a field"));
                }
                if self.takes('(') {
                    transforms.push(Transform::new(word, &self.arguments()?)?);
                } else if transforms.is_empty() {
                    keys.push(Key::Name(word.to_owned()));
                } else {
                    return Err(format!("{word:?} follows a transform; only transforms such as basename() may"));
                }
            }
            while self.takes('[') {
                keys.push(match self.value(&[']'])?.as_str() {
                    "" => Key::All,
                    index => match index.parse() {
                        Ok(index) => Key::Index(index),
                        Err(_) => return Err(format!("[{index}] is not an index; expected [0], [-1] or []")),
                    },
                });
                if !self.takes(']') {
                    return Err(self.expected("]"));
                }
            }
            if !self.takes('.') {
                break;
            }
        }
        let mut field = Field { path: Path(keys), transforms, label: None, sort: None, is_right: false };
        while self.takes(':') {
            self.modifier(&mut field)?;
        }
        Ok(field)
    }

    fn arguments(&mut self) -> Result<Vec<String>, String> {
        let mut arguments = Vec::new();
        while !self.takes(')') {
            arguments.push(self.argument()?);
            if !self.takes(',') && !self.rest.starts_with(')') {
                return Err(self.expected("a comma or )"));
            }
        }
        Ok(arguments)
    }

    /// Consumes an argument: `value` or `name=value`.
    fn argument(&mut self) -> Result<String, String> {
        let first = self.value(&[',', ')', '='])?;
        Ok(if self.takes('=') { format!("{first}={}", self.value(&[',', ')'])?) } else { first })
    }

    fn modifier(&mut self, field: &mut Field) -> Result<(), String> {
        let name = self.word().to_owned();
        let value = if self.takes('=') { self.value(&[',', ')', ':'])? } else { String::new() };
        match name.as_str() {
            "label" => field.label = Some(value),
            "sort" => match value.parse() {
                Ok(place) => field.sort = Some((place, false)),
                Err(_) => return Err(format!("sort={value} is not a position; expected sort=1")),
            },
            "reverse" => field.sort = field.sort.map(|(place, _)| (place, true)),
            "align" if ["left", "center", "right"].contains(&value.as_str()) => field.is_right = value == "right",
            "wrap" | "optional" => {}
            _ => {
                return Err(format!(
                    "unknown modifier {name:?}; expected one of label=TEXT, sort=N, reverse, align=left|center|right, \
                     wrap, optional"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_of_published_scripts_are_parsed() {
        for text in [
            "value(state)",
            "value[separator=\",\"](jobId,state)",
            "table(jobId,state:label=STATE)",
            "table[no-heading](jobId, state)",
            "table[box,title=\"My jobs\"](jobId:label='THE JOB':sort=1:reverse, createTime.date(tz=LOCAL))",
            "csv[no-heading](jobId,trainingOutput.trials[0].finalMetric.objectiveValue)",
            "json(jobId, trainingOutput.trials[].trialId)",
            "get(state)",
            "flattened",
            "none",
            "list(jobId)",
            "yaml(labels.\"my key\")",
            "value(createTime.date('%Y-%m-%d'))",
        ] {
            parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
    }

    #[test]
    fn what_is_not_supported_is_named_with_what_is() {
        for (text, error) in [
            ("diff", "unknown format \"diff\"; expected one of value, csv, table, json, yaml, list, flattened, none"),
            ("value", "value needs fields, such as value(jobId,state)"),
            ("value()", "value needs fields, such as value(jobId,state)"),
            ("value(state", "position 12: found the end; expected a comma or )"),
            ("value(a b)", "position 9: found 'b'; expected a comma or )"),
            ("value(a))", "position 9: found ')'; expected the end"),
            (
                "table[pager](a)",
                "unknown attribute \"pager\"; expected one of no-heading, separator, terminator, delimiter, quote, box, all-box, title",
            ),
            (
                "value(a.encode(base64))",
                "unknown transform \"encode\"; expected one of basename(), date(), join(), len(), list(), segment(), yesno()",
            ),
            ("value(a[x])", "[x] is not an index; expected [0], [-1] or []"),
            ("value(a.len().b)", "\"b\" follows a transform; only transforms such as basename() may"),
        ] {
            assert_eq!(parse(text).unwrap_err(), error, "{text}");
        }
        assert!(
            parse("table(a:shout)").unwrap_err().starts_with("unknown modifier \"shout\"; expected one of label=TEXT")
        );
    }
}
