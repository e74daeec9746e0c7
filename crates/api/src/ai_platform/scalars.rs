//! Scalars whose proto3 JSON form differs from serde's.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Largest magnitude up to which every whole number is a double.
pub(super) const LARGEST_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

/// A 64-bit integer: parsed from a JSON number or decimal text, written as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Int64(pub i64);

impl fmt::Display for Int64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Int64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Int64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IntegerVisitor;

        impl Visitor<'_> for IntegerVisitor {
            type Value = Int64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a 64-bit integer, as a number or as decimal text")
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Int64, E> {
                Ok(Int64(value))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Int64, E> {
                i64::try_from(value).map(Int64).map_err(|_| E::invalid_value(Unexpected::Unsigned(value), &self))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Int64, E> {
                let whole = super::Number::of_float(Double(value)).as_exact_integer().map(Int64);
                whole.ok_or_else(|| E::invalid_value(Unexpected::Float(value), &self))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Int64, E> {
                let digits = Some(text).filter(|text| !text.starts_with('+')).and_then(|text| text.parse().ok());
                digits.map(Int64).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_any(IntegerVisitor)
    }
}

impl JsonSchema for Int64 {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Int64".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        if generator.contract().is_serialize() {
            return json_schema!({ "type": "string", "format": "int64", "pattern": "^-?[0-9]+$" });
        }
        json_schema!({ "type": ["integer", "string"], "format": "int64", "pattern": "^-?[0-9]+$" })
    }
}

/// Whether `text` is an RFC 3339 time, such as `2030-01-31T12:00:00Z`.
pub fn is_time(text: &str) -> bool {
    text.parse::<jiff::Timestamp>().is_ok()
}

/// Parses an optional 32-bit integer from a JSON number or decimal text.
pub(super) fn int32_or_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i32>, D::Error> {
    let Some(Int64(value)) = Option::deserialize(deserializer)? else { return Ok(None) };
    i32::try_from(value).map(Some).map_err(|_| D::Error::invalid_value(Unexpected::Signed(value), &"a 32-bit integer"))
}

/// Double: parsed from a JSON number or from text such as `"1e-4"`, written as a number, without a decimal point if it
/// is whole.
///
/// May be NaN or infinite (`"NaN"`, `"Infinity"`, `"-Infinity"`), as in proto3; the rules reject such values.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Double(pub f64);

impl fmt::Display for Double {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_exact_integer() {
            Some(whole) => whole.fmt(f),
            None => write!(f, "{:?}", self.0),
        }
    }
}

impl Double {
    /// Parses text in proto3's JSON form.
    pub(super) fn of_text(text: &str) -> Option<Self> {
        let number = match text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            // Rust's other spellings of NaN and infinity are rejected.
            _ => text.parse().ok().filter(|number: &f64| number.is_finite()),
        };
        number.map(Self)
    }

    /// The value as an integer, if it is whole and at most 2^53 in magnitude, where doubles are exact.
    pub fn as_exact_integer(self) -> Option<i64> {
        (self.0.fract() == 0.0 && self.0.abs() <= LARGEST_EXACT_INTEGER).then_some(self.0 as i64)
    }
}

impl FromStr for Double {
    type Err = std::num::ParseFloatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl Serialize for Double {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_nan() {
            return serializer.serialize_str("NaN");
        }
        if self.0.is_infinite() {
            return serializer.serialize_str(if self.0 > 0.0 { "Infinity" } else { "-Infinity" });
        }
        match self.as_exact_integer() {
            Some(whole) => serializer.serialize_i64(whole),
            None => serializer.serialize_f64(self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Double {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DoubleVisitor;

        impl Visitor<'_> for DoubleVisitor {
            type Value = Double;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or a number as text")
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Double, E> {
                Ok(Double(value))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Double, E> {
                Ok(Double(value as f64))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Double, E> {
                Ok(Double(value as f64))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Double, E> {
                Double::of_text(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_any(DoubleVisitor)
    }
}

/// Pattern of the text of a finite number.
pub(super) const FINITE: &str = r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?";

/// Pattern of the text of other numbers.
pub(super) const NOT_FINITE: &str = "NaN|-?Infinity";

impl JsonSchema for Double {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Double".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        if generator.contract().is_serialize() {
            return json_schema!({
                "type": ["number", "string"],
                "format": "double",
                "pattern": format!("^({NOT_FINITE})$"),
            });
        }
        json_schema!({
            "type": ["number", "string"],
            "format": "double",
            "pattern": format!("^{FINITE}$"),
        })
    }
}

/// Longest protocol buffer duration in seconds: about 10,000 years.
const MAX_DURATION_SECS: u64 = 315_576_000_000;

/// Non-negative duration: seconds with up to nine decimals and an `s`, such as `"3600s"`, at most `"315576000000s"`.
/// Also parsed from the fields of the message, `{"seconds": 3600}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ProtoDuration(pub Duration);

impl fmt::Display for ProtoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.subsec_nanos();
        if nanos == 0 {
            return write!(f, "{}s", self.0.as_secs());
        }
        let decimals = format!("{nanos:09}");
        write!(f, "{}.{}s", self.0.as_secs(), decimals.trim_end_matches('0'))
    }
}

/// Error for text that is not a [`ProtoDuration`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a duration such as \"3600s\"")]
pub struct DurationError {
    pub text: String,
}

impl FromStr for ProtoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_duration(text).map(Self).ok_or_else(|| DurationError { text: text.to_owned() })
    }
}

fn parse_duration(text: &str) -> Option<Duration> {
    let (whole, decimals) = match text.strip_suffix('s')?.split_once('.') {
        Some((whole, decimals)) if !decimals.is_empty() => (whole, decimals),
        Some(_) => return None,
        None => (text.strip_suffix('s')?, "0"),
    };
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits(whole) || !all_digits(decimals) || decimals.len() > 9 {
        return None;
    }
    let duration = Duration::new(whole.parse().ok()?, format!("{decimals:0<9}").parse().ok()?);
    (duration <= Duration::from_secs(MAX_DURATION_SECS)).then_some(duration)
}

impl Serialize for ProtoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ProtoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DurationVisitor;

        /// Fields of the message, which some clients send instead of text.
        #[derive(Default, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        struct Fields {
            seconds: Option<Int64>,
            nanos: Option<Int64>,
        }

        impl<'de> Visitor<'de> for DurationVisitor {
            type Value = ProtoDuration;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as \"3600s\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ProtoDuration, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<ProtoDuration, A::Error> {
                let (seconds, nanos) = match Fields::deserialize(MapAccessDeserializer::new(fields))? {
                    Fields { seconds: None, nanos: None } => {
                        return Err(A::Error::custom("{} is not a duration such as \"3600s\""));
                    }
                    Fields { seconds, nanos } => (seconds.unwrap_or_default().0, nanos.unwrap_or_default().0),
                };
                let duration =
                    u64::try_from(seconds).ok().filter(|seconds| *seconds <= MAX_DURATION_SECS).and_then(|seconds| {
                        let nanos = u32::try_from(nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
                        Some(ProtoDuration(Duration::new(seconds, nanos)))
                    });
                duration.ok_or_else(|| {
                    A::Error::custom(format_args!(
                        "{seconds} seconds and {nanos} nanos are not a duration such as \"3600s\""
                    ))
                })
            }
        }

        deserializer.deserialize_any(DurationVisitor)
    }
}

impl JsonSchema for ProtoDuration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let pattern = r"^[0-9]+(\.[0-9]{1,9})?s$";
        if generator.contract().is_serialize() {
            return json_schema!({ "type": "string", "format": "protobuf-duration", "pattern": pattern });
        }
        let whole = |most: u64| json_schema!({ "type": ["integer", "string"], "minimum": 0, "maximum": most, "pattern": "^[0-9]+$" });
        json_schema!({
            "type": ["string", "object"],
            "format": "protobuf-duration",
            "pattern": pattern,
            "properties": { "seconds": whole(MAX_DURATION_SECS), "nanos": whole(999_999_999) },
            "additionalProperties": false,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json, to_value};

    use super::*;

    #[test]
    fn integers_are_parsed_from_numbers_or_text_and_written_as_text() {
        for value in [json!(-3), json!("-3")] {
            assert_eq!(from_value::<Int64>(value).unwrap(), Int64(-3));
        }
        for value in [json!(u64::MAX), json!("3.5"), json!(true), json!("")] {
            assert!(from_value::<Int64>(value).is_err());
        }
        assert_eq!(to_value(Int64(i64::MIN)).unwrap(), json!("-9223372036854775808"));
    }

    #[test]
    fn small_integers_are_parsed_from_numbers_or_text() {
        let read = |value| int32_or_text(value).map_err(|error: serde_json::Error| error.to_string());
        assert_eq!(read(json!(7)), Ok(Some(7)));
        assert_eq!(read(json!("-7")), Ok(Some(-7)));
        assert_eq!(read(json!(null)), Ok(None));
        assert!(read(json!(3_000_000_000_u32)).is_err());
    }

    #[test]
    fn doubles_are_parsed_from_numbers_or_text_and_whole_ones_written_without_a_point() {
        assert_eq!(from_value::<Double>(json!("1e-4")).unwrap(), Double(1e-4));
        assert_eq!(from_value::<Double>(json!(7)).unwrap(), Double(7.0));
        assert!(from_value::<Double>(json!("seven")).is_err());
        assert_eq!(serde_json::to_string(&[Double(32.0), Double(0.5)]).unwrap(), "[32,0.5]");
        assert_eq!(to_value(Double(f64::NEG_INFINITY)).unwrap(), json!("-Infinity"));
    }

    #[test]
    fn durations_are_seconds_with_an_s() {
        for (text, nanos) in [("0s", 0), ("3.5s", 3_500_000_000), ("0.000000001s", 1), ("604800s", 604_800_000_000_000)]
        {
            let duration: ProtoDuration = text.parse().unwrap();
            assert_eq!(duration.0.as_nanos(), nanos);
            assert_eq!(duration.to_string(), text);
        }
        for text in [
            "",
            "s",
            "3",
            "3.s",
            ".5s",
            "-1s",
            "+1s",
            "1m",
            "1.0000000001s",
            "99999999999999999999s",
            "315576000000.1s",
        ] {
            assert!(text.parse::<ProtoDuration>().is_err(), "{text}");
        }
        for (message, text) in [
            (json!({"seconds": 0}), "0s"),
            (json!({"seconds": "3600", "nanos": 0}), "3600s"),
            (json!({"seconds": 1, "nanos": 500_000_000}), "1.5s"),
        ] {
            assert_eq!(from_value::<ProtoDuration>(message).unwrap().to_string(), text);
        }
        for message in [
            json!({}),
            json!({"seconds": -1}),
            json!({"nanos": 1_000_000_000}),
            json!({"secs": 1}),
            json!(5),
            json!(null),
        ] {
            assert!(from_value::<ProtoDuration>(message.clone()).is_err(), "{message}");
        }
    }
}
