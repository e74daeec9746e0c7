//! Instances of lines, and predictions as lines.

use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::lines::Line;
use super::plan::{InputFormat, OutputFormat};

/// The instance of a line, in JSON.
pub(super) fn instance(line: &Line, format: InputFormat) -> Result<String, String> {
    let text = line.text.clone()?;
    match (serde_json::from_str::<IgnoredAny>(&text), format) {
        (Ok(_), _) => Ok(text),
        (Err(_), InputFormat::Text) => Ok(Value::from(text).to_string()),
        (Err(error), InputFormat::Json) => Err(format!("the line is not JSON: {error}")),
    }
}

/// Line for a prediction.
pub(super) fn prediction(prediction: &RawValue, format: OutputFormat) -> Vec<u8> {
    let json = prediction.get();
    match format {
        OutputFormat::Json => json.as_bytes().to_vec(),
        OutputFormat::Csv => {
            // A worker's response was parsed before.
            let value = serde_json::from_str(json).unwrap_or(Value::Null);
            let fields: Vec<String> = match &value {
                Value::Array(values) => values.iter().map(field).collect(),
                Value::Object(values) => values.values().map(field).collect(),
                value => vec![field(value)],
            };
            fields.join(",").into_bytes()
        }
    }
}

fn field(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, format: InputFormat) -> Result<String, String> {
        instance(&Line { offset: 0, text: Ok(text.to_owned()) }, format)
    }

    #[test]
    fn lines_are_instances() {
        for json in ["[1, 2]", "{\"x\": 1}", "7", "\"a\"", " [1] ", "1e400", "123456789012345678901234567890"] {
            assert_eq!(of(json, InputFormat::Json), Ok(json.to_owned()));
            assert_eq!(of(json, InputFormat::Text), Ok(json.to_owned()));
        }
        assert_eq!(of("5.1,3.5", InputFormat::Text), Ok("\"5.1,3.5\"".to_owned()));
        for wrong in ["5.1,3.5", "{", "NaN", "[1] [2]"] {
            let error = of(wrong, InputFormat::Json).unwrap_err();
            assert!(error.starts_with("the line is not JSON: "), "{error}");
        }
        let unreadable = Line { offset: 0, text: Err("too long".to_owned()) };
        assert_eq!(instance(&unreadable, InputFormat::Text), Err("too long".to_owned()));
    }

    #[test]
    fn predictions_are_lines() {
        let line = |json: &str, format| {
            let raw: Box<RawValue> = serde_json::from_str(json).unwrap();
            String::from_utf8(prediction(&raw, format)).unwrap()
        };
        assert_eq!(line("{\"b\": 1.0, \"a\": [2]}", OutputFormat::Json), "{\"b\": 1.0, \"a\": [2]}");
        assert_eq!(line("0.30000000000000004", OutputFormat::Csv), "0.30000000000000004");
        assert_eq!(line("[1, null, \"a,\\\"b\\\"\", [2, 3]]", OutputFormat::Csv), "1,,\"a,\"\"b\"\"\",\"[2,3]\"");
        assert_eq!(line("{\"b\": 1.0, \"a\": \"x\"}", OutputFormat::Csv), "x,1.0");
        assert_eq!(line("\"two\\nlines\"", OutputFormat::Csv), "\"two\nlines\"");
    }
}
