//! Stored forms of types of other crates, also within containers.
//!
//! serde derives a form with `remote`, which has the fields of its type in the order of the record. [`As`] applies forms
//! to a field: `#[serde(with = "As::<Option<LeaseRecord>>")]`.

use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::{DeserializeOwned, Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The stored form of `T`.
pub(crate) trait Form<T> {
    /// Serialises `value`.
    fn write<S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error>;

    /// Deserialises the result of [`Self::write`].
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error>;
}

/// Implements [`Form`] for types that serde derives with `remote`.
macro_rules! forms {
    ($($record:ty => $type:ty),+ $(,)?) => {
        $(
            impl $crate::record::form::Form<$type> for $record {
                fn write<S: serde::Serializer>(value: &$type, serializer: S) -> Result<S::Ok, S::Error> {
                    Self::serialize(value, serializer)
                }

                fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                    Self::deserialize(deserializer)
                }
            }
        )+
    };
}
pub(super) use forms;

/// The form `F` as the module of a field.
pub(super) struct As<F>(PhantomData<F>);

impl<F> As<F> {
    pub(super) fn serialize<T, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error>
    where
        F: Form<T>,
    {
        F::write(value, serializer)
    }

    pub(super) fn deserialize<'de, T, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error>
    where
        F: Form<T>,
    {
        F::read(deserializer)
    }
}

/// A value that is serialised in the form `F`.
pub(super) struct Written<'a, T, F>(&'a T, PhantomData<F>);

impl<'a, T, F> Written<'a, T, F> {
    pub(super) fn new(value: &'a T) -> Self {
        Self(value, PhantomData)
    }
}

impl<T, F: Form<T>> Serialize for Written<'_, T, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        F::write(self.0, serializer)
    }
}

/// A value that was deserialised from the form `F`.
pub(super) struct Read<T, F>(pub(super) T, PhantomData<F>);

impl<'de, T, F: Form<T>> Deserialize<'de> for Read<T, F> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        F::read(deserializer).map(|value| Self(value, PhantomData))
    }
}

impl<T, F: Form<T>> Form<Option<T>> for Option<F> {
    fn write<S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        value.as_ref().map(Written::<T, F>::new).serialize(serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
        Ok(Option::<Read<T, F>>::deserialize(deserializer)?.map(|read| read.0))
    }
}

impl<T, F: Form<T>> Form<Vec<T>> for Vec<F> {
    fn write<S: Serializer>(value: &Vec<T>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(value.iter().map(Written::<T, F>::new))
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
        Ok(Vec::<Read<T, F>>::deserialize(deserializer)?.into_iter().map(|read| read.0).collect())
    }
}

/// The form of a shared value whose type defines its own.
pub(super) struct Shared;

impl<T: Serialize + DeserializeOwned> Form<Arc<T>> for Shared {
    fn write<S: Serializer>(value: &Arc<T>, serializer: S) -> Result<S::Ok, S::Error> {
        value.as_ref().serialize(serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<T>, D::Error> {
        T::deserialize(deserializer).map(Arc::new)
    }
}

/// The form of a value by its text.
pub(super) struct Text;

impl<T: Display + FromStr<Err: Display>> Form<T> for Text {
    fn write<S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(Error::custom)
    }
}

/// The form of a shared text.
pub(super) struct SharedText;

impl Form<Arc<str>> for SharedText {
    fn write<S: Serializer>(value: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(value)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
        String::deserialize(deserializer).map(Arc::from)
    }
}

/// The form of a double that keeps every bit: a finite value is a number, any other the hexadecimal text of its bits. JSON has
/// no NaN and no infinity.
pub(super) struct Float;

impl Form<f64> for Float {
    fn write<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        if value.is_finite() {
            serializer.serialize_f64(*value)
        } else {
            serializer.collect_str(&format_args!("{:016x}", value.to_bits()))
        }
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        deserializer.deserialize_any(FloatVisitor)
    }
}

struct FloatVisitor;

impl Visitor<'_> for FloatVisitor {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or the 16 hexadecimal digits of one")
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<f64, E> {
        Ok(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<f64, E> {
        Ok(value as f64)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<f64, E> {
        Ok(value as f64)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<f64, E> {
        match u64::from_str_radix(text, 16) {
            Ok(bits) if text.len() == 16 => Ok(f64::from_bits(bits)),
            _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }
}

/// Whether a field has its default value, and is left out of a record.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
