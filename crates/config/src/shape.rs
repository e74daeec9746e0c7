//! Shape of a value: the subset of JSON Schema that the wire types generate.
//!
//! Shapes are derived from the schema, the only definition of the format.

use std::collections::BTreeMap;

use schemars::Schema;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    /// Message with these fields, some of them required.
    Message {
        fields: BTreeMap<String, Shape>,
        required: Vec<String>,
        /// Field whose presence makes no field required.
        instead: Option<String>,
    },
    /// Map with arbitrary keys and values of one shape.
    Map(Box<Shape>),
    List(Box<Shape>),
    Choice(Vec<String>),
    Text,
    Bool,
    /// Seconds followed by `s`.
    Duration,
    /// RFC 3339 time stamp.
    Time,
    /// Integer within inclusive bounds.
    Integer {
        min: i128,
        max: i128,
    },
    Double,
    /// Value in a foreign format.
    Any,
}

/// Maximum nesting of a message in itself, such as parameters in their parents. Deeper values are refused.
const MAX_NESTED: usize = 12;

#[derive(Clone, Copy)]
struct Definitions<'a> {
    all: &'a Value,
    /// Names of the enclosing definitions.
    open: &'a [&'a str],
}

impl Shape {
    /// Shape of `schema`, which must be generated from the wire types.
    pub(super) fn of(schema: &Schema) -> Self {
        let root = schema.as_value();
        Self::of_value(root, &Definitions { all: root.get("$defs").unwrap_or(&Value::Null), open: &[] })
    }

    fn of_value(schema: &Value, definitions: &Definitions<'_>) -> Self {
        if *schema == Value::Bool(true) {
            return Self::Any;
        }
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let name = reference.rsplit('/').next().unwrap_or_default();
            if definitions.open.iter().filter(|open| **open == name).count() == MAX_NESTED {
                return Self::Message { fields: BTreeMap::new(), required: Vec::new(), instead: None };
            }
            let open = [definitions.open, &[name]].concat();
            return Self::of_value(&definitions.all[name], &Definitions { open: &open, ..*definitions });
        }
        // An optional message is "a message or null"; null is handled the same for all fields.
        if let Some(variants) = schema.get("anyOf").and_then(Value::as_array)
            && let Some(variant) = variants.iter().find(|variant| variant["type"] != "null")
        {
            return Self::of_value(variant, definitions);
        }
        if let Some(names) = choices(schema) {
            return Self::Choice(names);
        }
        match (first_type(schema), schema["format"].as_str()) {
            ("object", _) if schema.get("properties").is_some() => Self::message(schema, definitions),
            ("object", _) => Self::Map(Box::new(Self::of_value(&schema["additionalProperties"], definitions))),
            ("array", _) => Self::List(Box::new(Self::of_value(&schema["items"], definitions))),
            ("boolean", _) => Self::Bool,
            ("number", _) => Self::Double,
            ("integer", format) => {
                let (min, max) = match format {
                    Some("int32") => (i32::MIN.into(), i32::MAX.into()),
                    Some("uint32") => (0, u32::MAX.into()),
                    Some("uint64") => (0, u64::MAX.into()),
                    _ => (i64::MIN.into(), i64::MAX.into()),
                };
                let narrower = |name: &str| schema[name].as_i64().map(i128::from);
                Self::Integer { min: narrower("minimum").unwrap_or(min), max: narrower("maximum").unwrap_or(max) }
            }
            ("string", Some("protobuf-duration")) => Self::Duration,
            ("string", Some("date-time")) => Self::Time,
            _ => Self::Text,
        }
    }

    fn message(schema: &Value, definitions: &Definitions<'_>) -> Self {
        let properties = schema["properties"].as_object();
        let fields = properties.into_iter().flatten();
        let required = schema["required"].as_array().or_else(|| schema["else"]["required"].as_array());
        Self::Message {
            instead: schema["if"]["required"][0].as_str().map(str::to_owned),
            fields: fields.map(|(name, field)| (name.clone(), Self::of_value(field, definitions))).collect(),
            required: required.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    }

    pub(super) fn describe(&self) -> String {
        match self {
            Self::Message { .. } => "fields, as `name: value`".to_owned(),
            Self::Map(_) => "names and values, as `name: value`".to_owned(),
            Self::List(_) => "a list".to_owned(),
            Self::Choice(names) => format!("one of {}", names.join(", ")),
            Self::Text => "text".to_owned(),
            Self::Bool => "true or false".to_owned(),
            Self::Duration => "seconds followed by an s, such as 3600s".to_owned(),
            Self::Time => "a time such as 2030-01-31T12:00:00Z".to_owned(),
            Self::Integer { min, max } => format!("a whole number from {min} to {max}"),
            Self::Double => "a number".to_owned(),
            Self::Any => "any value".to_owned(),
        }
    }
}

/// First type other than null. The types are a name or a list of names.
fn first_type(schema: &Value) -> &str {
    match &schema["type"] {
        Value::String(name) => name,
        Value::Array(names) => names.iter().filter_map(Value::as_str).find(|name| *name != "null").unwrap_or_default(),
        _ => "",
    }
}

/// Names of an enum. Documented variants are `const` schemas, others are plain names; both may occur.
fn choices(schema: &Value) -> Option<Vec<String>> {
    if let Some(names) = schema.get("enum").and_then(Value::as_array) {
        return Some(names.iter().filter_map(Value::as_str).map(str::to_owned).collect());
    }
    let variants = schema.get("oneOf").and_then(Value::as_array)?;
    let mut names = Vec::new();
    for variant in variants {
        if let Some(name) = variant.get("const").and_then(Value::as_str) {
            names.push(name.to_owned());
        } else if let Some(more) = choices(variant) {
            names.extend(more);
        }
    }
    Some(names)
}
