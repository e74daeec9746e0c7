//! Doubles in JSON, which has no NaN and no infinity.

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A double that keeps every bit: a finite value is a number, any other the hexadecimal text of its bits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Float(pub(super) f64);

impl Serialize for Float {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_finite() {
            serializer.serialize_f64(self.0)
        } else {
            serializer.collect_str(&format_args!("{:016x}", self.0.to_bits()))
        }
    }
}

impl<'de> Deserialize<'de> for Float {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FloatVisitor;

        impl Visitor<'_> for FloatVisitor {
            type Value = Float;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or the 16 hexadecimal digits of one")
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Float, E> {
                Ok(Float(value))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Float, E> {
                Ok(Float(value as f64))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Float, E> {
                Ok(Float(value as f64))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Float, E> {
                match u64::from_str_radix(text, 16) {
                    Ok(bits) if text.len() == 16 => Ok(Float(f64::from_bits(bits))),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
        }

        deserializer.deserialize_any(FloatVisitor)
    }
}
