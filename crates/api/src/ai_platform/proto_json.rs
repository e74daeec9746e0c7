//! Parser for proto3 JSON that reports the path of an invalid field.
//!
//! Extends the types' `Deserialize`: `null` is an absent field, fields may have their protocol buffer names
//! (`study_config`), numbers may be text, messages must be objects, and fields must not be repeated.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::de::value::{MapDeserializer, SeqDeserializer, StringDeserializer};
use serde::de::{self, DeserializeOwned, DeserializeSeed, Error as _, IntoDeserializer, Unexpected, Visitor};
use serde::{Deserializer, forward_to_deserialize_any};
use serde_json::{Map, Number, Value};

use super::Double;

type Error = serde_json::Error;

/// Error for text that is not the expected message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    #[error("the body is not JSON: {0}")]
    Syntax(String),
    /// Valid JSON, but not the message.
    #[error("the body does not match the schema: {0}")]
    Whole(String),
    #[error("{field}: {description}")]
    Field {
        /// Path such as `studyConfig.parameters[0].type`.
        field: String,
        description: String,
    },
}

/// Parses a message from `bytes`.
///
/// # Errors
/// The first error, by line and column for syntax errors, otherwise by field.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, MessageError> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Unique.deserialize(&mut deserializer).map_err(|error| MessageError::Syntax(error.to_string()))?;
    deserializer.end().map_err(|error| MessageError::Syntax(error.to_string()))?;
    from_value(value)
}

/// Parses a message from the fields of `object`.
///
/// # Errors
/// The first invalid field.
pub fn from_object<T: DeserializeOwned>(object: Map<String, Value>) -> Result<T, MessageError> {
    from_value(Value::Object(object))
}

/// Parses the known part of a message, ignoring fields of newer versions.
///
/// # Errors
/// The first invalid field.
pub fn known<T: DeserializeOwned>(value: Value) -> Result<T, MessageError> {
    parse(Proto { value, only_known: true })
}

fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, MessageError> {
    parse(Proto { value, only_known: false })
}

fn parse<T: DeserializeOwned>(message: Proto) -> Result<T, MessageError> {
    serde_path_to_error::deserialize(message).map_err(|error| {
        let field = error.path().to_string();
        let description = in_words_of_json(&error.into_inner().to_string());
        if field == "." { MessageError::Whole(description) } else { MessageError::Field { field, description } }
    })
}

/// Rewrites a serde `description` in JSON terms.
fn in_words_of_json(description: &str) -> String {
    let Some((found, expected)) = description.split_once(", expected ") else { return description.to_owned() };
    let expected = match expected {
        "i32" => "a 32-bit integer",
        "i64" => "a 64-bit integer",
        "u32" | "u64" | "usize" | "u8" | "u16" => "an integer from 0",
        "f32" | "f64" => "a number",
        "a sequence" => "a list",
        "a map" => "an object",
        name if name.starts_with("struct ") => "an object",
        name if name.starts_with("a nonzero ") => "an integer from 1",
        other => other,
    };
    let found = found
        .replace("invalid type: sequence", "invalid type: list")
        .replace("invalid type: map", "invalid type: object");
    format!("{found}, expected {expected}")
}

/// Decodes base64 in either alphabet, with or without padding.
pub fn bytes(text: &str) -> Option<Vec<u8>> {
    STANDARD_NO_PAD.decode(text.trim_end_matches('=').replace('-', "+").replace('_', "/")).ok()
}

/// Deserializes any JSON without repeated keys.
struct Unique;

impl<'de> DeserializeSeed<'de> for Unique {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Unique {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = items.next_element_seed(Unique)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(Unique)?;
            if object.contains_key(&key) {
                return Err(A::Error::custom(format_args!("the key {key:?} is given twice")));
            }
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

/// Deserializes a value by proto3's rules.
struct Proto {
    value: Value,
    /// Whether unknown fields are ignored.
    only_known: bool,
}

impl<'de> IntoDeserializer<'de, Error> for Proto {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Whole numbers may be text, or have a zero fraction.
fn whole(value: Value) -> Value {
    let read = |text: &str| text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from));
    match &value {
        Value::String(text) if !text.starts_with('+') => read(text).map_or(value, Value::Number),
        Value::Number(number) if number.is_f64() => {
            let exact = number.as_f64().and_then(|float| super::Number::of_float(Double(float)).as_exact_integer());
            exact.map_or(value, Value::from)
        }
        _ => value,
    }
}

macro_rules! whole_numbers {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            let only_known = self.only_known;
            Proto { value: whole(self.value), only_known }.deserialize_any(visitor)
        })*
    };
}

impl<'de> Deserializer<'de> for Proto {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let only_known = self.only_known;
        let inner = move |value| Proto { value, only_known };
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(value),
            Value::Number(number) => number.deserialize_any(visitor),
            Value::String(text) => visitor.visit_string(text),
            Value::Array(items) => {
                let mut items = SeqDeserializer::new(items.into_iter().map(inner));
                let value = visitor.visit_seq(&mut items)?;
                items.end()?;
                Ok(value)
            }
            Value::Object(entries) => {
                let mut entries = MapDeserializer::new(entries.into_iter().map(|(key, value)| (key, inner(value))));
                let value = visitor.visit_map(&mut entries)?;
                entries.end()?;
                Ok(value)
            }
        }
    }

    whole_numbers! { deserialize_i32 deserialize_i64 deserialize_u32 deserialize_u64 }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let Self { value, only_known } = self;
        let Value::Object(given) = value else { return Err(Error::invalid_type(unexpected(&value), &visitor)) };
        let mut object = Map::new();
        for (name, value) in given {
            if value.is_null() && (fields.contains(&name.as_str()) || fields.contains(&camel_case(&name).as_str())) {
                continue;
            }
            let camel = camel_case(&name);
            let name = if fields.contains(&name.as_str()) || !fields.contains(&camel.as_str()) { name } else { camel };
            if object.contains_key(&name) {
                return Err(Error::custom(format_args!("the field {name:?} is given twice")));
            }
            if !only_known || fields.contains(&name.as_str()) {
                object.insert(name, value);
            }
        }
        Proto { value: Value::Object(object), only_known }.deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.value {
            Value::String(text) => {
                let name: StringDeserializer<Error> = text.into_deserializer();
                visitor.visit_enum(name)
            }
            other => Err(Error::invalid_type(unexpected(&other), &"the name of a value")),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i128 u8 u16 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map
        identifier ignored_any
    }
}

/// Converts `study_config` to `studyConfig`.
fn camel_case(name: &str) -> String {
    let mut parts = name.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |mut name, part| {
        let mut letters = part.chars();
        name.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        name.push_str(letters.as_str());
        name
    })
}

fn unexpected(value: &Value) -> Unexpected<'_> {
    match value {
        Value::Null => Unexpected::Unit,
        Value::Bool(value) => Unexpected::Bool(*value),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(value), ..) => Unexpected::Signed(value),
            (_, Some(value), _) => Unexpected::Unsigned(value),
            (.., value) => Unexpected::Float(value.unwrap_or(f64::NAN)),
        },
        Value::String(text) => Unexpected::Str(text),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;
    use crate::ai_platform::{GoalType, Int64};

    #[derive(Debug, PartialEq, Default, Deserialize)]
    #[serde(default, deny_unknown_fields, rename_all = "camelCase")]
    struct Message {
        trial_count: i32,
        step_count: Int64,
        goal: GoalType,
        is_done: bool,
        names: Vec<String>,
        labels: BTreeMap<String, String>,
        inner: Option<Box<Message>>,
    }

    fn message(text: &str) -> Result<Message, String> {
        read(text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn null_is_absent_and_numbers_may_be_text() {
        let empty = r#"{"trialCount": null, "stepCount": null, "goal": null, "isDone": null, "names": null, "labels": null,
            "inner": null}"#;
        assert_eq!(message(empty), Ok(Message::default()));
        let expected = Message { trial_count: 7, step_count: Int64(1 << 50), ..Message::default() };
        for text in [
            r#"{"trialCount": "7", "stepCount": "1125899906842624"}"#,
            r#"{"trialCount": 7.0, "stepCount": 1125899906842624}"#,
            r#"{"trial_count": 0.7e1, "step_count": 1.125899906842624e15}"#,
        ] {
            assert_eq!(message(text).as_ref(), Ok(&expected), "{text}");
        }
    }

    #[test]
    fn base64_is_decoded_in_both_alphabets() {
        for text in ["-_8", "+/8=", "+/8"] {
            assert_eq!(bytes(text), Some(vec![0xfb, 0xff]), "{text}");
        }
        assert_eq!(bytes("a"), None);
        assert_eq!(bytes("*"), None);
    }

    #[test]
    fn errors_name_the_field() {
        for (text, error) in [
            ("{\n \"goal\": }", "the body is not JSON: expected value at line 2 column 10"),
            ("{} {}", "the body is not JSON: trailing characters at line 1 column 4"),
            ("[]", "the body does not match the schema: invalid type: list, expected an object"),
            (r#"{"inner": []}"#, "inner: invalid type: list, expected an object"),
            (r#"{"inner": {"goal": "MAX"}}"#, "inner.goal: unknown variant `MAX`"),
            (r#"{"goal": 1}"#, "goal: invalid type: integer `1`, expected the name of a value"),
            (r#"{"names": ["a", null]}"#, "names[1]: invalid type"),
            (r#"{"labels": {"a": null}}"#, "labels.a: invalid type"),
            (r#"{"isDone": "true"}"#, "isDone: invalid type: string \"true\", expected a boolean"),
            (r#"{"trialCount": 1.5}"#, "trialCount: invalid type: floating point `1.5`, expected a 32-bit integer"),
            (
                r#"{"trialCount": 3000000000}"#,
                "trialCount: invalid value: integer `3000000000`, expected a 32-bit integer",
            ),
            (r#"{"stepCount": "9223372036854775808"}"#, "stepCount: invalid value"),
            // Not every whole number of this size is a double.
            (r#"{"stepCount": 1.8014398509481985e16}"#, "stepCount: invalid value"),
            (r#"{"colour": null}"#, "colour: unknown field `colour`"),
        ] {
            let actual = message(text).unwrap_err();
            assert!(actual.starts_with(error), "{text}: {actual}");
        }
        assert!(
            message(r#"{"goal": "MAXIMIZE", "goal": "MINIMIZE"}"#).unwrap_err().contains("\"goal\" is given twice")
        );
        assert!(message(r#"{"isDone": true, "is_done": true}"#).unwrap_err().contains("\"isDone\" is given twice"));
        assert!(matches!(read::<Message>(b"{\"names\": [\"\xff\"]}"), Err(MessageError::Syntax(_))));
    }
}
