//! A double that knows whether it is the number as written.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Double;

/// A [`Double`] that remembers the whole number that was written, if no double equals it: 2^53 + 1 is read as 2^53.
///
/// Such bounds are an error for an `INTEGER`, and allowed for a `DOUBLE`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Number {
    value: Double,
    rounded_from: Option<i128>,
}

impl Number {
    /// Whether the value is a rounded whole number.
    pub fn is_rounded(self) -> bool {
        self.rounded_from.is_some()
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Self { value: Double(value), rounded_from: None }
    }
}

impl From<i128> for Number {
    fn from(whole: i128) -> Self {
        let value = whole as f64;
        Self { value: Double(value), rounded_from: (value as i128 != whole).then_some(whole) }
    }
}

impl Deref for Number {
    type Target = Double;

    fn deref(&self) -> &Double {
        &self.value
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.value.partial_cmp(&other.value)
    }
}

/// The number as it was written.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rounded_from {
            Some(whole) => whole.fmt(f),
            None => self.value.fmt(f),
        }
    }
}

impl FromStr for Number {
    type Err = std::num::ParseFloatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // A fraction of zeros does not make a number less whole.
        let whole = text.split_once('.').filter(|(_, fraction)| fraction.bytes().all(|digit| digit == b'0'));
        match whole.map_or(text, |(whole, _)| whole).parse::<i128>() {
            Ok(whole) => Ok(whole.into()),
            Err(_) => text.parse::<Double>().map(|value| value.0.into()),
        }
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.rounded_from {
            Some(whole) => serializer.collect_str(&whole),
            None => self.value.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberVisitor;

        impl Visitor<'_> for NumberVisitor {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or a number as text")
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Number, E> {
                Ok(value.into())
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Number, E> {
                Ok(i128::from(value).into())
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Number, E> {
                Ok(i128::from(value).into())
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Number, E> {
                let value =
                    Double::of_text(text).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))?;
                Ok(text.parse().unwrap_or_else(|_| value.0.into()))
            }
        }

        deserializer.deserialize_any(NumberVisitor)
    }
}

impl JsonSchema for Number {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Double::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Double::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json, to_value};

    use super::*;

    #[test]
    fn whole_numbers_that_no_double_equals_are_kept() {
        for (json, written) in [
            (json!(9_007_199_254_740_993_i64), "9007199254740993"),
            (json!("9007199254740993"), "9007199254740993"),
            (json!("9007199254740993.0"), "9007199254740993"),
            (json!(-9_007_199_254_740_993_i64), "-9007199254740993"),
            (json!(u64::MAX), "18446744073709551615"),
            (json!("123456789012345678901234567890"), "123456789012345678901234567890"),
        ] {
            let number: Number = from_value(json).unwrap();
            assert!(number.is_rounded(), "{written}");
            assert_eq!(number.to_string(), written);
            assert_eq!(to_value(number).unwrap(), json!(written));
        }
        for (json, written) in [
            (json!(9_007_199_254_740_992_i64), "9007199254740992"),
            (json!("9007199254740994"), "9007199254740994.0"),
            (json!(0.1), "0.1"),
            (json!("1e-4"), "0.0001"),
            (json!("1e300"), "1e300"),
            (json!("Infinity"), "inf"),
        ] {
            let number: Number = from_value(json).unwrap();
            assert!(!number.is_rounded(), "{written}");
            assert_eq!(number.to_string(), written);
        }
        assert!(from_value::<Number>(json!("inf")).is_err());
        assert!(from_value::<Number>(json!("1.")).is_ok());
    }
}
