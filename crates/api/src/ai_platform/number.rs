//! A double that remembers how it was written.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Double;
use super::scalars::LARGEST_EXACT_INTEGER;

/// A [`Double`] that records loss of precision: 2^53 + 1 is read as 2^53.
///
/// Such bounds are an error for an `INTEGER`, but allowed for a `DOUBLE`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Number {
    value: Double,
    written: Written,
}

/// Notation of a number.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
enum Written {
    /// Identical to the value.
    #[default]
    Exactly,
    /// A whole number that no double equals.
    Rounded(i128),
    /// With a fraction or exponent, and a magnitude of at least 2^53. JSON parsers round such numbers.
    LargeFloat,
}

impl Number {
    /// A number written with a fraction or exponent.
    pub(super) fn of_float(value: Double) -> Self {
        let is_large = value.0.is_finite() && value.0.abs() >= LARGEST_EXACT_INTEGER;
        Self { value, written: if is_large { Written::LargeFloat } else { Written::Exactly } }
    }

    /// Whether the value is finite and inexact: above 2^53 in magnitude, or possibly rounded.
    pub fn is_too_large(self) -> bool {
        self.value.0.is_finite() && (self.written != Written::Exactly || self.value.0.abs() > LARGEST_EXACT_INTEGER)
    }

    /// The whole number as written, if at most 2^53 in magnitude.
    pub fn as_exact_integer(self) -> Option<i64> {
        self.value.as_exact_integer().filter(|_| !self.is_too_large())
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Self { value: Double(value), written: Written::Exactly }
    }
}

impl From<i128> for Number {
    fn from(whole: i128) -> Self {
        let value = whole as f64;
        let written = if value as i128 == whole { Written::Exactly } else { Written::Rounded(whole) };
        Self { value: Double(value), written }
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

/// The number as written; large floats keep an exponent, so as not to be read as whole numbers.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.written {
            Written::Rounded(whole) => whole.fmt(f),
            Written::LargeFloat => write!(f, "{:e}", self.value.0),
            Written::Exactly => self.value.fmt(f),
        }
    }
}

impl FromStr for Number {
    type Err = std::num::ParseFloatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // A zero fraction does not make a number less whole.
        let whole = text.split_once('.').filter(|(_, fraction)| fraction.bytes().all(|digit| digit == b'0'));
        match whole.map_or(text, |(whole, _)| whole).parse::<i128>() {
            // A rounded float is printed with a zero fraction.
            Ok(exact) if whole.is_some() && exact as f64 as i128 == exact => Ok(Self::of_float(Double(exact as f64))),
            Ok(whole) => Ok(whole.into()),
            Err(_) => text.parse().map(Self::of_float),
        }
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.written {
            Written::Rounded(whole) => serializer.collect_str(&whole),
            // As text: a JSON number would lose its exponent.
            Written::LargeFloat if self.value.as_exact_integer().is_some() => serializer.collect_str(self),
            Written::LargeFloat | Written::Exactly => self.value.serialize(serializer),
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
                Ok(Number::of_float(Double(value)))
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
            assert!(number.is_too_large(), "{written}");
            assert_eq!(number.to_string(), written);
            assert_eq!(to_value(number).unwrap(), json!(written));
        }
        for (json, written) in [
            (json!(9_007_199_254_740_992_i64), "9007199254740992"),
            (json!(0.1), "0.1"),
            (json!("1e-4"), "0.0001"),
            (json!("1e3"), "1000"),
            (json!(1e15), "1000000000000000"),
            (json!("Infinity"), "inf"),
        ] {
            let number: Number = from_value(json).unwrap();
            assert!(!number.is_too_large(), "{written}");
            assert_eq!(number.to_string(), written);
        }
        // The parser may have rounded a float of this size.
        for (json, written) in [
            (json!(9_007_199_254_740_993.0), "9.007199254740992e15"),
            (json!(-9_007_199_254_740_992.0), "-9.007199254740992e15"),
            (json!("9.007199254740993e15"), "9.007199254740992e15"),
            (json!("9007199254740993e0"), "9.007199254740992e15"),
            (json!("9007199254740992.5"), "9.007199254740992e15"),
            (json!("9007199254740992.0"), "9.007199254740992e15"),
            (json!("1e300"), "1e300"),
            (json!(1e16), "1e16"),
        ] {
            let number: Number = from_value(json).unwrap();
            assert!(number.is_too_large(), "{written}");
            assert_eq!((number.to_string().as_str(), number.as_exact_integer()), (written, None));
            // Unchanged by a round trip.
            let again: Number = from_value(to_value(number).unwrap()).unwrap();
            assert_eq!(again, number);
            assert_eq!(written.parse::<Number>().unwrap(), number);
        }
        assert!(from_value::<Number>(json!("inf")).is_err());
        assert!(from_value::<Number>(json!("1.")).is_ok());
    }
}
