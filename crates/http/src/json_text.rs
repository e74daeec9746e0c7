//! Transformations of JSON text that keep the order of fields and the digits of numbers. The text must be valid JSON
//! without white space between tokens, as the server renders it.

use super::field_mask::FieldMask;

/// The fields of the value `json` that `mask` selects; `None` if `json` is not such a text.
pub(super) fn selected(json: &[u8], mask: &FieldMask) -> Option<Vec<u8>> {
    let mut selection = Selection { json, position: 0, output: Vec::with_capacity(json.len()) };
    selection.value(mask)?;
    (selection.position == json.len()).then_some(selection.output)
}

struct Selection<'a> {
    json: &'a [u8],
    position: usize,
    output: Vec<u8>,
}

impl<'a> Selection<'a> {
    fn next(&self) -> Option<u8> {
        self.json.get(self.position).copied()
    }

    fn take(&mut self, token: u8) -> Option<()> {
        (self.next()? == token).then(|| self.position += 1)
    }

    /// Copies the selected part of the value at the current position. A number, text or word is its own part.
    fn value(&mut self, mask: &FieldMask) -> Option<()> {
        if mask.is_whole() {
            let value = self.skip()?;
            self.output.extend_from_slice(value);
            return Some(());
        }
        match self.next()? {
            b'{' => self.object(mask),
            b'[' => self.list(mask),
            _ => {
                let value = self.skip()?;
                self.output.extend_from_slice(value);
                Some(())
            }
        }
    }

    fn object(&mut self, mask: &FieldMask) -> Option<()> {
        self.take(b'{')?;
        self.output.push(b'{');
        let mut is_first = true;
        while self.next()? != b'}' {
            let key = self.skip()?;
            self.take(b':')?;
            let name: String = serde_json::from_slice(key).ok()?;
            match mask.of(&name) {
                Some(mask) => {
                    if !is_first {
                        self.output.push(b',');
                    }
                    is_first = false;
                    self.output.extend_from_slice(key);
                    self.output.push(b':');
                    self.value(&mask)?;
                }
                None => {
                    self.skip()?;
                }
            }
            if self.next()? == b',' {
                self.position += 1;
            }
        }
        self.output.push(b'}');
        self.take(b'}')
    }

    fn list(&mut self, mask: &FieldMask) -> Option<()> {
        self.take(b'[')?;
        self.output.push(b'[');
        while self.next()? != b']' {
            self.value(mask)?;
            if self.next()? == b',' {
                self.position += 1;
                self.output.push(b',');
            }
        }
        self.output.push(b']');
        self.take(b']')
    }

    /// Moves behind the value at the current position, and returns its text.
    fn skip(&mut self) -> Option<&'a [u8]> {
        let start = self.position;
        let mut depth = 0_usize;
        loop {
            match self.next()? {
                b'"' => self.position = end_of_text(self.json, self.position)?,
                b'{' | b'[' => {
                    depth += 1;
                    self.position += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.position += 1;
                }
                b',' | b':' => self.position += 1,
                _ => {
                    let rest = &self.json[self.position..];
                    let length = rest.iter().position(|byte| b",:]}".contains(byte)).unwrap_or(rest.len());
                    self.position += length;
                }
            }
            if depth == 0 {
                return Some(&self.json[start..self.position]);
            }
        }
    }
}

/// The position behind the text in quotation marks that starts at `start`.
fn end_of_text(json: &[u8], start: usize) -> Option<usize> {
    let mut position = start + 1;
    loop {
        match json.get(position)? {
            b'"' => return Some(position + 1),
            b'\\' => position += 2,
            _ => position += 1,
        }
    }
}

/// Adds line breaks and an indentation of two spaces to a JSON text, as Google's services answer. The text may come in parts,
/// which are divided anywhere.
#[derive(Debug, Default)]
pub(super) struct Indenter {
    depth: usize,
    is_in_text: bool,
    /// Whether the former byte in a text in quotation marks is a backslash that escapes the next.
    is_escaped: bool,
    /// Whether the former byte opens an object or a list, which may be empty.
    is_open: bool,
    has_output: bool,
}

impl Indenter {
    /// The indented form of the next part.
    pub(super) fn part(&mut self, json: &[u8]) -> Vec<u8> {
        let mut output = Vec::with_capacity(json.len() * 3 / 2);
        for &byte in json {
            self.byte(byte, &mut output);
        }
        self.has_output |= !output.is_empty();
        output
    }

    /// What follows the last part: a line break, unless there was no text.
    pub(super) fn end(&self) -> &'static [u8] {
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
    use serde_json::{Value, json};

    use super::{Indenter, selected};

    fn part(json: &Value, mask: &str) -> String {
        String::from_utf8(selected(json.to_string().as_bytes(), &mask.parse().unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn only_selected_fields_remain() {
        let list = json!({
            "jobs": [
                {"id": "a", "labels": {"team": "x", "owner": "y"}, "state": "RUNNING", "trials": [[1, 2], []]},
                {"id": "b", "note": "\"}],{\\", "labels": {}},
                {},
            ],
            "token": "t",
        });
        for (mask, expected) in [
            ("token", r#"{"token":"t"}"#),
            ("jobs/id", r#"{"jobs":[{"id":"a"},{"id":"b"},{}]}"#),
            (
                "jobs(id,labels/team),token",
                r#"{"jobs":[{"id":"a","labels":{"team":"x"}},{"id":"b","labels":{}},{}],"token":"t"}"#,
            ),
            ("jobs/note", r#"{"jobs":[{},{"note":"\"}],{\\"},{}]}"#),
            ("jobs/trials", r#"{"jobs":[{"trials":[[1,2],[]]},{},{}]}"#),
            ("other", "{}"),
        ] {
            assert_eq!(part(&list, mask), expected, "{mask}");
        }
        assert_eq!(part(&list, "*"), list.to_string());
        assert_eq!(part(&list, "*/state"), r#"{"jobs":[{"state":"RUNNING"},{},{}],"token":"t"}"#);
        for bad in ["", "{", "{\"a\"", "[1,", "{\"a\":1}}"] {
            assert_eq!(selected(bad.as_bytes(), &"a".parse().unwrap()), None, "{bad}");
        }
    }

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
