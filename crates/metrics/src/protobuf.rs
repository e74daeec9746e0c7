//! Reader of the protocol buffers wire format: numbered fields of four wire types.
//!
//! Not generated code: images and graphs are skipped without copying, and unknown fields do not affect others. Source:
//! <https://protobuf.dev/programming-guides/encoding/>.

/// Fields of one message, in byte order.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum FieldValue<'a> {
    /// Integers and booleans.
    Varint(u64),
    /// `double`, `fixed64`.
    Fixed64(u64),
    /// Strings, bytes, messages, packed numbers.
    Bytes(&'a [u8]),
    /// `float`, `fixed32`.
    Fixed32(u32),
}

/// Reason for bytes not to be a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MalformedMessage(pub &'static str);

const CUT_SHORT: MalformedMessage = MalformedMessage("a field is cut short");

impl<'a> Fields<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn next_field(&mut self) -> Result<(u64, FieldValue<'a>), MalformedMessage> {
        let key = take_varint(&mut self.rest)?;
        let value = match key & 7 {
            0 => FieldValue::Varint(take_varint(&mut self.rest)?),
            1 => FieldValue::Fixed64(u64::from_le_bytes(take_array(&mut self.rest)?)),
            2 => {
                let length = usize::try_from(take_varint(&mut self.rest)?).map_err(|_| CUT_SHORT)?;
                let (bytes, rest) = self.rest.split_at_checked(length).ok_or(CUT_SHORT)?;
                self.rest = rest;
                FieldValue::Bytes(bytes)
            }
            5 => FieldValue::Fixed32(u32::from_le_bytes(take_array(&mut self.rest)?)),
            _ => return Err(MalformedMessage("a field has an unknown wire type")),
        };
        Ok((key >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    /// Field number and value; iteration ends after an error.
    type Item = Result<(u64, FieldValue<'a>), MalformedMessage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.next_field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// Consumes a variable-length integer of at most 10 bytes.
pub(super) fn take_varint(bytes: &mut &[u8]) -> Result<u64, MalformedMessage> {
    let mut value = 0;
    for index in 0..10 {
        let (byte, rest) = bytes.split_first().ok_or(CUT_SHORT)?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(MalformedMessage("an integer has more than 10 bytes"))
}

/// Consumes `N` bytes.
pub(super) fn take_array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], MalformedMessage> {
    let (array, rest) = bytes.split_first_chunk().ok_or(CUT_SHORT)?;
    *bytes = rest;
    Ok(*array)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_the_encoding_guide_are_read() {
        assert_eq!(Fields::new(&[0x08, 0x96, 0x01]).next(), Some(Ok((1, FieldValue::Varint(150)))));
        let text = [&[0x12, 0x07][..], b"testing"].concat();
        assert_eq!(Fields::new(&text).next(), Some(Ok((2, FieldValue::Bytes(b"testing")))));
    }

    #[test]
    fn truncated_or_unknown_field_is_an_error_and_ends_the_iteration() {
        for bytes in [&[0x08][..], &[0x08, 0x80], &[0x09, 1, 2], &[0x12, 5, b'a'], &[0x0d, 1], &[0x0b], &[0x80; 12]] {
            let mut fields = Fields::new(bytes);
            assert!(fields.next().unwrap().is_err(), "{bytes:?}");
            assert_eq!(fields.next(), None);
        }
        let longest = [0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Fields::new(&longest).next(), Some(Err(CUT_SHORT)));
    }

    #[test]
    fn negative_integers_are_read() {
        let bytes = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Fields::new(&bytes).next(), Some(Ok((1, FieldValue::Varint(u64::MAX)))));
    }
}
