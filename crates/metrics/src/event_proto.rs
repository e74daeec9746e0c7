//! Parser of TensorFlow's `Event` messages, restricted to scalar summaries.
//!
//! Field numbers from TensorFlow, `tensorflow/core/util/event.proto` and `tensorflow/core/framework/{summary,tensor,
//! tensor_shape,types}.proto`.

use half::{bf16, f16};

use super::protobuf::{FieldValue, Fields, MalformedMessage, take_array, take_varint};

/// One record of an event file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Event<'a> {
    /// Time stamp in seconds since 1970.
    pub wall_time_secs: f64,
    /// Training step; 0 if absent.
    pub step: i64,
    /// Scalars of the summary.
    pub scalars: Vec<Scalar<'a>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scalar<'a> {
    /// Not necessarily UTF-8.
    pub tag: &'a [u8],
    /// Floats of lower precision are converted exactly.
    pub value: f64,
}

impl<'a> Event<'a> {
    /// Parses an event, skipping other fields and non-scalar values.
    ///
    /// # Errors
    /// [`MalformedMessage`] if `bytes`, the summary or one of its scalars is not a valid message.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, MalformedMessage> {
        let mut event = Event { wall_time_secs: 0.0, step: 0, scalars: Vec::new() };
        for field in Fields::new(bytes) {
            match field? {
                (1, FieldValue::Fixed64(bits)) => event.wall_time_secs = f64::from_bits(bits),
                (2, FieldValue::Varint(step)) => event.step = step.cast_signed(),
                (5, FieldValue::Bytes(summary)) => event.read_summary(summary)?,
                _ => {}
            }
        }
        Ok(event)
    }

    fn read_summary(&mut self, summary: &'a [u8]) -> Result<(), MalformedMessage> {
        for field in Fields::new(summary) {
            if let (1, FieldValue::Bytes(value)) = field?
                && let Some(scalar) = parse_summary_value(value)?
            {
                self.scalars.push(scalar);
            }
        }
        Ok(())
    }
}

/// Parses a `Summary.Value`; `None` if it is not a scalar.
fn parse_summary_value(bytes: &[u8]) -> Result<Option<Scalar<'_>>, MalformedMessage> {
    let mut tag: &[u8] = b"";
    let mut simple_value = None;
    let mut tensor = None;
    let mut metadata: &[u8] = b"";
    for field in Fields::new(bytes) {
        match field? {
            (1, FieldValue::Bytes(bytes)) => tag = bytes,
            (2, FieldValue::Fixed32(bits)) => simple_value = Some(f64::from(f32::from_bits(bits))),
            (8, FieldValue::Bytes(bytes)) => tensor = Some(bytes),
            (9, FieldValue::Bytes(bytes)) => metadata = bytes,
            _ => {}
        }
    }
    let value = match (simple_value, tensor) {
        (Some(value), _) => Some(value),
        (None, Some(tensor)) if is_of_scalars(metadata)? => parse_tensor(tensor)?,
        (None, _) => None,
    };
    Ok(value.map(|value| Scalar { tag, value }))
}

/// Whether `SummaryMetadata` declares a scalar, or nothing. Other plugins, such as `hparams`, store non-metric data in
/// numeric tensors of one element.
fn is_of_scalars(metadata: &[u8]) -> Result<bool, MalformedMessage> {
    const DATA_CLASS_SCALAR: u64 = 1;
    let mut plugin_name: &[u8] = b"";
    for field in Fields::new(metadata) {
        match field? {
            (1, FieldValue::Bytes(plugin_data)) => {
                for field in Fields::new(plugin_data) {
                    if let (1, FieldValue::Bytes(name)) = field? {
                        plugin_name = name;
                    }
                }
            }
            (4, FieldValue::Varint(DATA_CLASS_SCALAR)) => return Ok(true),
            _ => {}
        }
    }
    Ok(matches!(plugin_name, b"" | b"scalars"))
}

/// Supported element types of tensors.
#[derive(Debug, Clone, Copy)]
enum DataType {
    Float,
    Double,
    Int32,
    Int64,
    BFloat16,
    Half,
}

impl DataType {
    fn from_number(number: u64) -> Option<Self> {
        Some(match number {
            1 => Self::Float,
            2 => Self::Double,
            3 => Self::Int32,
            9 => Self::Int64,
            14 => Self::BFloat16,
            19 => Self::Half,
            _ => return None,
        })
    }

    /// `TensorProto` field with elements of this type.
    fn value_field(self) -> u64 {
        match self {
            Self::Float => 5,
            Self::Double => 6,
            Self::Int32 => 7,
            Self::Int64 => 10,
            Self::BFloat16 | Self::Half => 13,
        }
    }

    /// Element in `tensor_content`; `None` if there is not exactly one.
    fn read_content(self, mut content: &[u8]) -> Option<f64> {
        let content = &mut content;
        let value = match self {
            Self::Float => f64::from(f32::from_le_bytes(take_array(content).ok()?)),
            Self::Double => f64::from_le_bytes(take_array(content).ok()?),
            Self::Int32 => f64::from(i32::from_le_bytes(take_array(content).ok()?)),
            Self::Int64 => i64_to_f64(i64::from_le_bytes(take_array(content).ok()?)),
            Self::BFloat16 => f64::from(bf16::from_le_bytes(take_array(content).ok()?)),
            Self::Half => f64::from(f16::from_le_bytes(take_array(content).ok()?)),
        };
        content.is_empty().then_some(value)
    }

    fn read_varint(self, bits: u64) -> Option<f64> {
        match self {
            // 32-bit varints are sign-extended to 64 bits; the low half is the number.
            Self::Int32 => Some(f64::from(bits as i32)),
            Self::Int64 => Some(i64_to_f64(bits.cast_signed())),
            Self::BFloat16 => u16::try_from(bits).ok().map(|bits| f64::from(bf16::from_bits(bits))),
            Self::Half => u16::try_from(bits).ok().map(|bits| f64::from(f16::from_bits(bits))),
            Self::Float | Self::Double => None,
        }
    }

    /// Consumes the first element of a packed field.
    fn take_packed(self, bytes: &mut &[u8]) -> Result<Option<f64>, MalformedMessage> {
        Ok(match self {
            Self::Float => Some(f64::from(f32::from_le_bytes(take_array(bytes)?))),
            Self::Double => Some(f64::from_le_bytes(take_array(bytes)?)),
            _ => self.read_varint(take_varint(bytes)?),
        })
    }
}

/// Parses a `TensorProto`; `None` unless it holds exactly one element of a numeric type.
fn parse_tensor(bytes: &[u8]) -> Result<Option<f64>, MalformedMessage> {
    let mut data_type = None;
    let mut has_one_element = true;
    let mut content: &[u8] = b"";
    for field in Fields::new(bytes) {
        match field? {
            (1, FieldValue::Varint(number)) => data_type = DataType::from_number(number),
            (2, FieldValue::Bytes(shape)) => has_one_element = is_shape_of_one(shape)?,
            (4, FieldValue::Bytes(bytes)) => content = bytes,
            _ => {}
        }
    }
    let Some(data_type) = data_type.filter(|_| has_one_element) else { return Ok(None) };
    if !content.is_empty() {
        return Ok(data_type.read_content(content));
    }
    let mut element = None;
    for field in Fields::new(bytes) {
        let (number, value) = field?;
        if number != data_type.value_field() {
            continue;
        }
        let (next, is_last) = match value {
            FieldValue::Fixed32(bits) if matches!(data_type, DataType::Float) => {
                (Some(f64::from(f32::from_bits(bits))), true)
            }
            FieldValue::Fixed64(bits) if matches!(data_type, DataType::Double) => (Some(f64::from_bits(bits)), true),
            FieldValue::Varint(bits) => (data_type.read_varint(bits), true),
            FieldValue::Bytes(mut packed) if !packed.is_empty() => {
                (data_type.take_packed(&mut packed)?, packed.is_empty())
            }
            _ => continue,
        };
        if element.is_some() || !is_last {
            return Ok(None);
        }
        element = next;
    }
    Ok(element)
}

/// Whether a `TensorShapeProto` has rank 0, or size 1 in every dimension.
fn is_shape_of_one(shape: &[u8]) -> Result<bool, MalformedMessage> {
    for field in Fields::new(shape) {
        match field? {
            (2, FieldValue::Bytes(dimension)) => {
                let mut size = 0;
                for field in Fields::new(dimension) {
                    if let (1, FieldValue::Varint(number)) = field? {
                        size = number;
                    }
                }
                if size != 1 {
                    return Ok(false);
                }
            }
            (3, FieldValue::Varint(unknown_rank)) if unknown_rank != 0 => return Ok(false),
            _ => {}
        }
    }
    Ok(true)
}

/// Rounds integers beyond 2^53.
fn i64_to_f64(value: i64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests;
