//! Writer of Thrift's compact protocol, as far as Parquet needs it.

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// A structure whose fields are added in the order of their numbers.
#[derive(Debug, Default)]
pub(super) struct Writer {
    bytes: Vec<u8>,
    last: u8,
}

impl Writer {
    fn field(&mut self, number: u8, kind: u8) {
        // All numbers are below 16, and so are their differences.
        self.bytes.push((number - self.last) << 4 | kind);
        self.last = number;
    }

    pub(super) fn flag(&mut self, number: u8, value: bool) {
        self.field(number, if value { TRUE } else { FALSE });
    }

    /// A number of 32 bits, or an enumeration.
    pub(super) fn integer(&mut self, number: u8, value: i64) {
        self.field(number, I32);
        self.bytes.extend(zigzag(value));
    }

    pub(super) fn long(&mut self, number: u8, value: i64) {
        self.field(number, I64);
        self.bytes.extend(zigzag(value));
    }

    pub(super) fn text(&mut self, number: u8, text: &str) {
        self.field(number, BINARY);
        self.binary(text);
    }

    pub(super) fn texts(&mut self, number: u8, texts: &[&str]) {
        self.list(number, BINARY, texts.len());
        texts.iter().for_each(|text| self.binary(text));
    }

    pub(super) fn integers(&mut self, number: u8, values: &[i64]) {
        self.list(number, I32, values.len());
        self.bytes.extend(values.iter().flat_map(|value| zigzag(*value)));
    }

    pub(super) fn structure(&mut self, number: u8, fill: impl FnOnce(&mut Self)) {
        self.field(number, STRUCT);
        let mut inner = Self::default();
        fill(&mut inner);
        self.bytes.extend(inner.end());
    }

    pub(super) fn structures(&mut self, number: u8, count: usize, fill: impl Fn(usize, &mut Self)) {
        self.list(number, STRUCT, count);
        for index in 0..count {
            let mut inner = Self::default();
            fill(index, &mut inner);
            self.bytes.extend(inner.end());
        }
    }

    /// The complete structure.
    pub(super) fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }

    fn list(&mut self, number: u8, kind: u8, count: usize) {
        self.field(number, LIST);
        match u8::try_from(count) {
            Ok(count @ ..15) => self.bytes.push(count << 4 | kind),
            _ => {
                self.bytes.push(0xf0 | kind);
                self.bytes.extend(varint(count as u64));
            }
        }
    }

    fn binary(&mut self, text: &str) {
        self.bytes.extend(varint(text.len() as u64));
        self.bytes.extend(text.as_bytes());
    }
}

fn zigzag(value: i64) -> Vec<u8> {
    varint((value << 1 ^ value >> 63) as u64)
}

/// Seven bits a byte, the lowest first.
pub(super) fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Examples of the specification of Protocol Buffers, whose varints are the same.
    #[test]
    fn numbers_have_as_few_bytes_as_possible() {
        assert_eq!((varint(1), varint(150), varint(u64::MAX).len()), (vec![1], vec![0x96, 1], 10));
        assert_eq!(zigzag(0), [0]);
        assert_eq!(zigzag(-1), [1]);
        assert_eq!(zigzag(-64), [127]);
        assert_eq!(zigzag(64), [0x80, 1]);
    }

    #[test]
    fn long_lists_have_a_length_of_their_own() {
        let mut writer = Writer::default();
        writer.integers(2, &[0; 15]);
        assert_eq!(writer.end()[..3], [0x29, 0xf5, 15]);
    }
}
