//! Values of a foreign format, such as Kubernetes fields: plain scalars have YAML types.

use serde_json::{Number, Value};

use super::yaml::{Content, Node};

/// Converts `node` to JSON. Plain scalars are typed as in YAML 1.2, plus octal numbers with a leading zero as in
/// Kubernetes: a mode such as 0644.
pub(super) fn value(node: &Node) -> Value {
    match &node.content {
        Content::Mapping(entries) => entries
            .iter()
            .map(|entry| (entry.key.clone(), value(&entry.value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Content::List(items) => items.iter().map(value).collect(),
        _ if node.is_null() => Value::Null,
        Content::Scalar { text, plain: false } => Value::from(text.as_str()),
        Content::Scalar { text, plain: true } => match text.as_str() {
            "true" | "True" | "TRUE" => Value::Bool(true),
            "false" | "False" | "FALSE" => Value::Bool(false),
            _ => number(text).map_or_else(|| Value::from(text.as_str()), Value::Number),
        },
    }
}

fn number(text: &str) -> Option<Number> {
    let (sign, digits) =
        text.strip_prefix('-').map_or(("", text.strip_prefix('+').unwrap_or(text)), |rest| ("-", rest));
    // Rust also parses names such as "inf".
    if !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return None;
    }
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x', ..] => (16, &digits[2..]),
        [b'0', b'o', ..] => (8, &digits[2..]),
        [b'0', _, ..] if digits.bytes().all(|digit| digit.is_ascii_digit()) => (8, digits),
        _ => (10, digits),
    };
    let signed = format!("{sign}{digits}");
    if let Ok(integer) = i64::from_str_radix(&signed, radix) {
        return Some(integer.into());
    }
    if radix != 10 { None } else { signed.parse().ok().and_then(Number::from_f64) }
}
