//! `fields` of a request: the fields of the response to return, in Google's grammar of partial responses.
//!
//! `a,b` selects two fields, `a/b` a field of a field, `a(b,c/d)` several fields of a field, and `*` every field. A list
//! is selected element by element.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::str::FromStr;

use serde_json::{Map, Value};

/// Maximum depth of a mask. A guess: deeper than any message.
const MAX_DEPTH: usize = 32;

/// Maximum number of fields: a response of many messages is compared with all of them.
const MAX_FIELDS: usize = 500;

/// A selection of fields of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct FieldMask {
    /// Whether the whole value is selected.
    is_whole: bool,
    /// The selected fields by name; `*` is any field.
    fields: BTreeMap<String, FieldMask>,
}

impl FromStr for FieldMask {
    /// What is wrong.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parser = Parser { text, position: 0, fields: 0 };
        let mask = parser.mask(0)?;
        match parser.next() {
            None => Ok(mask),
            Some(found) => Err(parser.unexpected(found)),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    position: usize,
    /// Number of fields that were read.
    fields: usize,
}

impl Parser<'_> {
    fn next(&self) -> Option<char> {
        self.text[self.position..].chars().next()
    }

    fn unexpected(&self, found: char) -> String {
        format!("unexpected {found:?} at character {}", self.text[..self.position].chars().count() + 1)
    }

    /// Parses fields separated by commas.
    fn mask(&mut self, depth: usize) -> Result<FieldMask, String> {
        if depth > MAX_DEPTH {
            return Err(format!("more than {MAX_DEPTH} fields are nested"));
        }
        let mut mask = FieldMask::default();
        loop {
            self.path(depth, &mut mask)?;
            if self.next() != Some(',') {
                return Ok(mask);
            }
            self.position += 1;
        }
    }

    /// Parses `a/b(c,d)` into `parent`.
    fn path(&mut self, depth: usize, parent: &mut FieldMask) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!("more than {MAX_DEPTH} fields are nested"));
        }
        let rest = &self.text[self.position..];
        let name = &rest[..rest.find([',', '/', '(', ')']).unwrap_or(rest.len())];
        if name.is_empty() {
            return Err(match self.next() {
                Some(found) => self.unexpected(found),
                None => "a field's name is missing at the end".to_owned(),
            });
        }
        self.fields += 1;
        if self.fields > MAX_FIELDS {
            return Err(format!("more than {MAX_FIELDS} fields are selected"));
        }
        self.position += name.len();
        let field = parent.fields.entry(name.to_owned()).or_default();
        match self.next() {
            Some('/') => {
                self.position += 1;
                self.path(depth + 1, field)?;
            }
            Some('(') => {
                self.position += 1;
                let inner = self.mask(depth + 1)?;
                if self.next() != Some(')') {
                    return Err(self.next().map_or_else(|| "\")\" is missing".to_owned(), |c| self.unexpected(c)));
                }
                self.position += 1;
                field.add(inner);
            }
            _ => field.is_whole = true,
        }
        Ok(())
    }
}

impl FieldMask {
    /// Whether the whole value is selected.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole || self.fields.get("*").is_some_and(|any| any.is_whole)
    }

    /// The selection in the field `name`; `None` if the field is not selected.
    pub(super) fn of(&self, name: &str) -> Option<Cow<'_, Self>> {
        match (self.fields.get(name), self.fields.get("*")) {
            (None, None) => None,
            (Some(only), None) | (None, Some(only)) => Some(Cow::Borrowed(only)),
            (Some(named), Some(any)) => {
                let mut both = named.clone();
                both.add(any.clone());
                Some(Cow::Owned(both))
            }
        }
    }

    fn add(&mut self, other: Self) {
        self.is_whole |= other.is_whole;
        for (name, mask) in other.fields {
            self.fields.entry(name).or_default().add(mask);
        }
    }

    /// Checks that messages with the JSON `schema` have the selected fields. `schema` has its definitions in `$defs`.
    ///
    /// # Errors
    /// The first field that does not exist, as a path.
    pub(super) fn check(&self, schema: &Value) -> Result<(), String> {
        self.check_at(&[schema], &schema["$defs"], "")
    }

    fn check_at(&self, schemas: &[&Value], definitions: &Value, path: &str) -> Result<(), String> {
        for (name, mask) in &self.fields {
            let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            let mut found = Vec::new();
            let is_open = schemas.iter().any(|schema| fields_named(schema, definitions, name, &mut found));
            if !is_open {
                if found.is_empty() {
                    return Err(path);
                }
                mask.check_at(&found, definitions, &path)?;
            }
        }
        Ok(())
    }
}

/// Adds the schemas of the fields `name` of messages with `schema` to `found`. Returns true if the schema allows any
/// value.
fn fields_named<'a>(schema: &'a Value, definitions: &'a Value, name: &str, found: &mut Vec<&'a Value>) -> bool {
    let Some(object) = schema.as_object() else { return schema == &Value::Bool(true) };
    if let Some(definition) = object.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next()) {
        return fields_named(&definitions[definition], definitions, name, found);
    }
    if let Some(items) = object.get("items") {
        return fields_named(items, definitions, name, found);
    }
    let properties = object.get("properties").and_then(Value::as_object);
    match name {
        "*" => found.extend(properties.into_iter().flat_map(Map::values)),
        _ => found.extend(properties.and_then(|properties| properties.get(name))),
    }
    let values = object.get("additionalProperties").filter(|values| *values != &Value::Bool(false));
    found.extend(values);
    let mut choices = ["oneOf", "anyOf", "allOf"].iter().filter_map(|key| object.get(*key)?.as_array()).flatten();
    let is_open_choice = choices.any(|choice| fields_named(choice, definitions, name, found));
    let is_typed = ["type", "properties", "oneOf", "anyOf", "allOf", "enum", "const"];
    is_open_choice || !is_typed.iter().any(|key| object.contains_key(*key))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::FieldMask;

    fn mask(text: &str) -> FieldMask {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn forms_of_one_selection_are_equal() {
        assert_eq!(mask("a/b,a/c"), mask("a(b,c)"));
        assert_eq!(mask("a(b/c,b/d)"), mask("a/b(c,d)"));
        assert!(mask("a").of("a").unwrap().is_whole());
        assert!(mask("a,a/b").of("a").unwrap().is_whole());
        assert!(mask("*").is_whole());
        assert!(!mask("*/a").is_whole());
        let both = mask("*/a,b/c");
        let both = both.of("b").unwrap();
        assert!(both.of("a").is_some() && both.of("c").is_some() && both.of("d").is_none());
    }

    #[test]
    fn errors_name_the_place() {
        for (text, expected) in [
            ("", "a field's name is missing at the end"),
            ("a,", "a field's name is missing at the end"),
            (",a", "unexpected ',' at character 1"),
            ("a//b", "unexpected '/' at character 3"),
            ("a(b", "\")\" is missing"),
            ("a(b))", "unexpected ')' at character 5"),
            ("a()", "unexpected ')' at character 3"),
            ("a(b)c", "unexpected 'c' at character 5"),
            ("a(b)/c", "unexpected '/' at character 5"),
        ] {
            assert_eq!(text.parse::<FieldMask>(), Err(expected.to_owned()), "{text}");
        }
        for deep in ["a/".repeat(1000), "a(".repeat(1000)] {
            assert_eq!(deep.parse::<FieldMask>(), Err("more than 32 fields are nested".to_owned()));
        }
        let many = |count: usize| vec!["a"; count].join(",").parse::<FieldMask>();
        assert!(many(500).is_ok());
        assert_eq!(many(501), Err("more than 500 fields are selected".to_owned()));
    }

    #[test]
    fn selected_fields_must_exist() {
        let schema = json!({
            "type": "object",
            "properties": {
                "jobs": {"type": "array", "items": {"$ref": "#/$defs/Job"}},
                "token": {"type": "string"},
                "any": true,
            },
            "$defs": {"Job": {"type": "object", "properties": {
                "id": {"type": "string"},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "metadata": {"oneOf": [
                    {"type": "object", "properties": {"study": {"type": "string"}}},
                    {"type": "object", "properties": {"trial": {"type": "string"}}},
                ]},
            }}},
        });
        for good in
            ["*", "token", "jobs/id", "jobs(id,labels/team)", "jobs/*", "*/id", "any/thing", "jobs/metadata/trial"]
        {
            assert_eq!(mask(good).check(&schema), Ok(()), "{good}");
        }
        for (bad, path) in [
            ("tokn", "tokn"),
            ("token/x", "token/x"),
            ("jobs(id,nam)", "jobs/nam"),
            ("jobs/labels/a/b", "jobs/labels/a/b"),
            ("jobs/metadata/job", "jobs/metadata/job"),
        ] {
            assert_eq!(mask(bad).check(&schema), Err(path.to_owned()), "{bad}");
        }
    }
}
