//! JSON indentation that preserves field order and digits. The input must be valid JSON without white space between
//! tokens, as the server renders it.

/// Streaming JSON formatter: line breaks and two spaces per level, like Google's services. Chunks may end anywhere.
#[derive(Debug, Default)]
pub(crate) struct Indenter {
    depth: usize,
    is_in_text: bool,
    /// Whether the previous byte is a backslash that escapes the next one, within a string.
    is_escaped: bool,
    /// Whether the previous byte opens an object or list, which may be empty.
    is_open: bool,
    has_output: bool,
}

impl Indenter {
    /// Formats the next chunk.
    pub(crate) fn part(&mut self, json: &[u8]) -> Vec<u8> {
        let mut output = Vec::with_capacity(json.len() * 3 / 2);
        for &byte in json {
            self.byte(byte, &mut output);
        }
        self.has_output |= !output.is_empty();
        output
    }

    /// Text after the last chunk: a line break, unless there was no input.
    pub(crate) fn end(&self) -> &'static [u8] {
        if self.has_output { b"\n" } else { b"" }
    }

    fn byte(&mut self, byte: u8, output: &mut Vec<u8>) {
        if self.is_in_text {
            output.push(byte);
            self.is_in_text = byte != b'"' || self.is_escaped;
            self.is_escaped = byte == b'\\' && !self.is_escaped;
            return;
        }
        let closes = matches!(byte, b'}' | b']');
        if closes {
            self.depth = self.depth.saturating_sub(1);
        }
        if self.is_open != closes {
            new_line(output, self.depth);
        }
        self.is_open = matches!(byte, b'{' | b'[');
        output.push(byte);
        match byte {
            b'{' | b'[' => self.depth += 1,
            b',' => new_line(output, self.depth),
            b':' => output.push(b' '),
            b'"' => self.is_in_text = true,
            _ => {}
        }
    }
}

fn new_line(output: &mut Vec<u8>, depth: usize) {
    output.push(b'\n');
    output.resize(output.len() + 2 * depth, b' ');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Indenter;

    #[test]
    fn indented_text_is_that_of_serde_json() {
        let value = json!({
            "a": [1, -2.5e-7, "x,y:{}[]\"\\", null, true, [], {}, [[{}]]],
            "b": {"c": {"d": "é\n"}},
            "e": [],
        });
        let expected = format!("{value:#}\n");
        let json = value.to_string();
        for size in [1, 2, 3, 7, json.len()] {
            let mut indenter = Indenter::default();
            let mut indented = Vec::new();
            for part in json.as_bytes().chunks(size) {
                indented.extend(indenter.part(part));
            }
            indented.extend(indenter.end());
            assert_eq!(String::from_utf8(indented).unwrap(), expected, "in parts of {size} bytes");
        }
        assert_eq!(Indenter::default().end(), b"", "an empty body stays empty");
    }
}
