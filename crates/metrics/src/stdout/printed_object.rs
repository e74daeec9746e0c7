//! Detection of JSON objects and arrays printed over several lines, such as an indented `TF_CONFIG`.
//!
//! A line opens one if it ends with `{`, `[` or `,` inside brackets, and its text from the outermost bracket on is the
//! beginning of a JSON value; Python literals are accepted. Following lines belong to it as long as JSON's grammar
//! allows them there. The first line that it does not allow ends the object and is read normally, so that a bracket
//! that is never closed cannot hide later reports.

/// Maximum nesting depth; a guess. Deeper objects are read as normal lines.
const MAX_DEPTH: usize = 32;

/// Object or array whose end has not been read yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PrintedObject {
    /// Closing brackets, innermost last.
    closing: Vec<u8>,
    next: Next,
}

/// Token expected next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// First key or value of a container, or its end.
    FirstItem,
    /// Key or value, or the end of the container: a trailing comma is allowed.
    Item,
    Colon,
    /// Value of a key.
    Value,
    /// Comma, or the end of the container.
    Comma,
}

/// Position of the object's end relative to a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// After the text, all of which belongs to it.
    Inside,
    /// Before this offset.
    Closed(usize),
    /// Before the text, none of which belongs to it.
    Foreign,
}

impl PrintedObject {
    /// Object opened by `line`, with its offset.
    pub(super) fn opened_by(line: &[u8]) -> Option<(usize, Self)> {
        if !matches!(line.trim_ascii_end().last(), Some(b'{' | b'[' | b',')) {
            return None;
        }
        let mut start = 0;
        while let Some(found) = line[start..].iter().position(|byte| matches!(byte, b'{' | b'[')) {
            start += found;
            let mut object = Self { closing: Vec::new(), next: Next::Value };
            match object.read(&line[start..]) {
                Progress::Inside => return Some((start, object)),
                Progress::Closed(length) => start += length,
                Progress::Foreign => start += 1,
            }
        }
        None
    }

    /// Reads the next line, or the rest of one.
    pub(super) fn read(&mut self, text: &[u8]) -> Progress {
        let mut at = 0;
        while let Some(byte) = text.get(at) {
            let length = match byte {
                b' ' | b'\t' => 1,
                b',' | b':' | b'{' | b'[' | b'}' | b']' => {
                    if !self.takes_sign(*byte) {
                        return Progress::Foreign;
                    }
                    1
                }
                _ => match scalar(&text[at..]) {
                    Some((length, is_text)) if self.takes_scalar(is_text) => length,
                    _ => return Progress::Foreign,
                },
            };
            at += length;
            if self.closing.is_empty() {
                return Progress::Closed(at);
            }
        }
        Progress::Inside
    }

    fn is_in_object(&self) -> bool {
        self.closing.last() == Some(&b'}')
    }

    fn takes_sign(&mut self, sign: u8) -> bool {
        let is_item = matches!(self.next, Next::FirstItem | Next::Item);
        match sign {
            b',' if self.next == Next::Comma => self.next = Next::Item,
            b':' if self.next == Next::Colon => self.next = Next::Value,
            b'{' | b'[' if self.next == Next::Value || (is_item && !self.is_in_object()) => {
                if self.closing.len() == MAX_DEPTH {
                    return false;
                }
                self.closing.push(if sign == b'{' { b'}' } else { b']' });
                self.next = Next::FirstItem;
            }
            b'}' | b']' if (is_item || self.next == Next::Comma) && self.closing.last() == Some(&sign) => {
                self.closing.pop();
                self.next = Next::Comma;
            }
            _ => return false,
        }
        true
    }

    fn takes_scalar(&mut self, is_text: bool) -> bool {
        self.next = match self.next {
            Next::Value => Next::Comma,
            Next::FirstItem | Next::Item if !self.is_in_object() => Next::Comma,
            Next::FirstItem | Next::Item if is_text => Next::Colon,
            _ => return false,
        };
        true
    }
}

/// Length of the quoted text, number or constant at the start of `text`, and whether it is quoted.
fn scalar(text: &[u8]) -> Option<(usize, bool)> {
    const CONSTANTS: [&str; 6] = ["true", "false", "null", "True", "False", "None"];
    if let quote @ (b'"' | b'\'') = *text.first()? {
        let mut at = 1;
        loop {
            match *text.get(at)? {
                b'\\' => at += 2,
                byte if byte == quote => return Some((at + 1, true)),
                _ => at += 1,
            }
        }
    }
    let end = text.iter().position(|byte| matches!(byte, b',' | b':' | b']' | b'}' | b' ' | b'\t'));
    let word = &text[..end.unwrap_or(text.len())];
    let word_text = std::str::from_utf8(word).ok()?;
    (CONSTANTS.contains(&word_text) || word_text.parse::<f64>().is_ok()).then_some((word.len(), false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(line: &str) -> Option<usize> {
        PrintedObject::opened_by(line.as_bytes()).map(|(start, _)| start)
    }

    #[test]
    fn only_beginnings_of_objects_and_arrays_open_them() {
        for (line, start) in [
            ("{", 0),
            ("  [ ", 2),
            ("TF_CONFIG: {", 11),
            ("INFO [12:30] {\"a\": {\"b\": [", 13),
            ("config={'cluster': {'master': ['127.0.0.1:2222'],", 7),
            ("{\"a\": 1} {\"a\": \"}\", ", 9),
        ] {
            assert_eq!(opened(line), Some(start), "{line}");
        }
        let deep = "[".repeat(MAX_DEPTH + 1);
        for line in
            ["", "acc=1,", "{}", "[1, 2],", "{acc: 1,", "{\"acc\": 0.5}", "[INFO] a,", "for x in list(", "{\"a\" 1,"]
        {
            assert_eq!(opened(line), None, "{line}");
        }
        assert_eq!(opened(&deep), Some(1));
    }

    #[test]
    fn lines_are_read_up_to_the_end_and_foreign_ones_are_found() {
        let read = |lines: &[&str]| {
            let (_, mut object) = PrintedObject::opened_by(lines[0].as_bytes()).unwrap();
            lines[1..].iter().map(|line| object.read(line.as_bytes())).last().unwrap()
        };
        assert_eq!(read(&["{", "  \"a\": -1.5e3,", "", "\t\"b\": [true, None],"]), Progress::Inside);
        assert_eq!(read(&["{", "\"a\\\"}\": {", "} ", "} acc=1"]), Progress::Closed(1));
        assert_eq!(read(&["[", "{\"a\": 1},", "]"]), Progress::Closed(1));
        for line in ["acc: 1", "acc=1", "{\"acc\": 1}", "]", "\"acc\" 1", "\"acc\": x", "1", ",", "\"acc", "\"acc\\"] {
            assert_eq!(read(&["{", line]), Progress::Foreign, "{line}");
        }
        // Items have a comma between them.
        assert_eq!(read(&["{", "\"acc\": 1", "\"acc\": 2"]), Progress::Foreign);
        assert_eq!(read(&["[", "{\"acc\": 1}", "{\"acc\": 2}"]), Progress::Foreign);
    }
}
