//! Field transforms, such as `createTime.date('%Y-%m-%d')`.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

/// Default format of `date()`, as in gcloud.
const DATE: &str = "%Y-%m-%dT%H:%M:%S";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Transform {
    /// Last segment of a path.
    Basename,
    /// strftime format, in UTC or local time.
    Date { format: String, is_local: bool },
    /// List elements joined by a separator.
    Join(String),
    /// Number of elements, fields or characters.
    Len,
    /// Path segment; negative indices count from the end.
    Segment(i64),
    /// Text for a present value, and for a missing one.
    YesNo(String, String),
}

impl Transform {
    /// Creates a transform from its unparsed arguments.
    pub(super) fn new(name: &str, arguments: &[String]) -> Result<Self, String> {
        let named = |key: &str| arguments.iter().find_map(|argument| argument.strip_prefix(key)?.strip_prefix('='));
        let at = |index: usize| arguments.get(index).map(String::as_str);
        let plain = |index: usize| at(index).filter(|argument| !argument.contains('=') || argument.contains('%'));
        match name {
            "basename" => Ok(Self::Basename),
            "len" => Ok(Self::Len),
            "list" => Ok(Self::Join(named("separator").or(plain(0)).unwrap_or(",").to_owned())),
            "join" => Ok(Self::Join(named("sep").or(plain(0)).unwrap_or("/").to_owned())),
            "date" => {
                let format = named("format").or(plain(0)).unwrap_or(DATE).to_owned();
                // An invalid format fails for every timestamp.
                let text = jiff::fmt::strtime::format(&format, &Timestamp::UNIX_EPOCH.to_zoned(TimeZone::UTC));
                text.map_err(|error| format!("date: {format:?} is not a format: {error}"))?;
                match named("tz") {
                    None | Some("UTC" | "utc") => Ok(Self::Date { format, is_local: false }),
                    Some("LOCAL" | "local") => Ok(Self::Date { format, is_local: true }),
                    Some(other) => Err(format!("date: unknown zone {other:?}; expected UTC or LOCAL")),
                }
            }
            "segment" => match at(0).map_or(Ok(-1), str::parse) {
                Ok(index) => Ok(Self::Segment(index)),
                Err(_) => Err(format!("segment: {:?} is not a number", arguments[0])),
            },
            "yesno" => Ok(Self::YesNo(
                named("yes").or(plain(0)).unwrap_or("Yes").to_owned(),
                named("no").or(plain(1)).unwrap_or("No").to_owned(),
            )),
            _ => Err(format!(
                "unknown transform {name:?}; expected one of basename(), date(), join(), len(), list(), segment(), yesno()"
            )),
        }
    }

    /// Applies the transform. Values of an unexpected kind are unchanged.
    pub(super) fn apply(&self, value: Option<Value>) -> Option<Value> {
        match (self, value) {
            (Self::YesNo(yes, no), value) => {
                let is_set = !matches!(value, None | Some(Value::Null | Value::Bool(false)));
                Some(Value::from(if is_set { yes.as_str() } else { no.as_str() }))
            }
            (_, None) => None,
            (Self::Len, Some(Value::Array(elements))) => Some(Value::from(elements.len())),
            (Self::Len, Some(Value::Object(fields))) => Some(Value::from(fields.len())),
            (Self::Len, Some(Value::String(text))) => Some(Value::from(text.chars().count())),
            (Self::Join(separator), Some(Value::Array(elements))) => {
                Some(Value::from(elements.iter().map(plain).collect::<Vec<_>>().join(separator)))
            }
            (Self::Join(separator), Some(Value::Object(fields))) => {
                let pairs = fields.iter().map(|(key, value)| format!("{key}={}", plain(value)));
                Some(Value::from(pairs.collect::<Vec<_>>().join(separator)))
            }
            (Self::Basename, Some(Value::String(text))) => Some(Value::from(segment(&text, -1))),
            (Self::Segment(index), Some(Value::String(text))) => Some(Value::from(segment(&text, *index))),
            (Self::Date { format, is_local }, Some(Value::String(text))) => match text.parse::<Timestamp>() {
                Ok(time) => {
                    let zone = if *is_local { TimeZone::system() } else { TimeZone::UTC };
                    let shown = jiff::fmt::strtime::format(format, &time.to_zoned(zone));
                    Some(Value::from(shown.unwrap_or(text)))
                }
                Err(_) => Some(Value::from(text)),
            },
            (_, value) => value,
        }
    }
}

fn segment(text: &str, index: i64) -> String {
    let segments: Vec<&str> = text.split('/').collect();
    let length = i64::try_from(segments.len()).unwrap_or(i64::MAX);
    let index = usize::try_from(if index < 0 { length + index } else { index });
    index.ok().and_then(|index| segments.get(index)).copied().unwrap_or_default().to_owned()
}

/// Formats a value like gcloud: unquoted text, `True`/`False`, semicolons between list and message items.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(flag) => if *flag { "True" } else { "False" }.to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(elements) => elements.iter().map(plain).collect::<Vec<_>>().join(";"),
        Value::Object(fields) => {
            let pairs = fields.iter().map(|(key, value)| format!("{key}={}", plain(value)));
            pairs.collect::<Vec<_>>().join(";")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn applied(name: &str, arguments: &[&str], value: Value) -> Value {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Transform::new(name, &arguments).unwrap().apply(Some(value)).unwrap()
    }

    #[test]
    fn values_are_transformed() {
        assert_eq!(applied("basename", &[], json!("projects/p/jobs/j")), "j");
        assert_eq!(applied("segment", &["1"], json!("projects/p/jobs/j")), "p");
        assert_eq!(applied("len", &[], json!([1, 2])), 2);
        assert_eq!(applied("list", &[], json!(["a", "b"])), "a,b");
        assert_eq!(applied("list", &["separator=; "], json!({"a": "b", "c": 1})), "a=b; c=1");
        assert_eq!(applied("date", &[], json!("2026-11-25T10:20:30.5Z")), "2026-11-25T10:20:30");
        assert_eq!(applied("date", &["format=%d.%m.%y"], json!("2026-11-25T10:20:30Z")), "25.11.26");
        assert_eq!(applied("date", &["%H"], json!("no time")), "no time");
        assert_eq!(applied("yesno", &[], json!(false)), "No");
        assert_eq!(Transform::new("yesno", &["no=-".to_owned()]).unwrap().apply(None), Some(json!("-")));
        assert_eq!(
            Transform::new("date", &["tz=Mars".to_owned()]).unwrap_err(),
            "date: unknown zone \"Mars\"; expected UTC or LOCAL"
        );
    }
}
