//! JSON as Python's `json` module writes it: RFC 8259 plus `NaN`, `Infinity` and `-Infinity`.

/// Maximum nesting depth. Python's own parser fails above about a thousand.
const MAX_DEPTH: usize = 128;

/// A parsed value. Strings are kept as written: equal texts have equal escapes, since Python has one way to write them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json<'a> {
    Null,
    Bool(bool),
    Number(f64),
    /// Without the quotes, escapes included.
    Text(&'a str),
    List(Vec<Json<'a>>),
    Object(Vec<(&'a str, Json<'a>)>),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not JSON: {problem} at byte {position}")]
pub(crate) struct JsonError {
    problem: &'static str,
    position: usize,
}

impl<'a> Json<'a> {
    /// Parses the whole of `text`.
    ///
    /// # Errors
    /// The first position that is not JSON, or is nested too deeply.
    pub(crate) fn parse(text: &'a str) -> Result<Self, JsonError> {
        let mut parser = Parser { text, position: 0 };
        let value = parser.value(0)?;
        if parser.peek().is_some() {
            return Err(parser.error("text after the value"));
        }
        Ok(value)
    }

    /// Member `name` of an object; the last one, as in Python.
    pub(crate) fn member(&self, name: &str) -> Option<&Self> {
        let Self::Object(members) = self else { return None };
        members.iter().rev().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Equality as in Python, where `1 == 1.0 == True`, except that NaN equals NaN.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        if let (Some(one), Some(two)) = (self.number(), other.number()) {
            return one == two || (one.is_nan() && two.is_nan());
        }
        match (self, other) {
            (Self::List(one), Self::List(two)) => {
                one.len() == two.len() && one.iter().zip(two).all(|(one, two)| one.equals(two))
            }
            _ => self == other,
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Bool(value) => Some(f64::from(u8::from(*value))),
            _ => None,
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Parser<'a> {
    fn value(&mut self, depth: usize) -> Result<Json<'a>, JsonError> {
        const LITERALS: [(&str, Json<'static>); 6] = [
            ("null", Json::Null),
            ("true", Json::Bool(true)),
            ("false", Json::Bool(false)),
            ("NaN", Json::Number(f64::NAN)),
            ("Infinity", Json::Number(f64::INFINITY)),
            ("-Infinity", Json::Number(f64::NEG_INFINITY)),
        ];
        if depth > MAX_DEPTH {
            return Err(self.error("too deeply nested"));
        }
        match self.peek() {
            Some(b'"') => self.string().map(Json::Text),
            Some(b'[') => self.list(depth),
            Some(b'{') => self.object(depth),
            _ => {
                let rest = self.rest();
                if let Some((name, value)) = LITERALS.into_iter().find(|(name, _)| rest.starts_with(name)) {
                    self.position += name.len();
                    return Ok(value);
                }
                self.parse_number().map(Json::Number)
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Json<'a>, JsonError> {
        let mut items = Vec::new();
        self.position += 1;
        if self.take(b']') {
            return Ok(Json::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.take(b']') {
                return Ok(Json::List(items));
            }
            self.expect(b',', "',' or ']' is missing")?;
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json<'a>, JsonError> {
        let mut members = Vec::new();
        self.position += 1;
        if self.take(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.error("a member name is missing"));
            }
            let name = self.string()?;
            self.expect(b':', "':' is missing")?;
            members.push((name, self.value(depth + 1)?));
            if self.take(b'}') {
                return Ok(Json::Object(members));
            }
            self.expect(b',', "',' or '}' is missing")?;
        }
    }

    /// Content of the string at the current position.
    fn string(&mut self) -> Result<&'a str, JsonError> {
        let begin = self.position + 1;
        self.position = begin;
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.position) {
            match byte {
                b'"' => {
                    self.position += 1;
                    return Ok(&self.text[begin..self.position - 1]);
                }
                b'\\' => {
                    let length = match bytes.get(self.position + 1) {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
                        Some(b'u')
                            if bytes
                                .get(self.position + 2..self.position + 6)
                                .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) =>
                        {
                            6
                        }
                        _ => return Err(self.error("invalid escape")),
                    };
                    self.position += length;
                }
                0..=0x1f => return Err(self.error("control character in a string")),
                _ => self.position += 1,
            }
        }
        Err(self.error("the string has no end"))
    }

    fn parse_number(&mut self) -> Result<f64, JsonError> {
        let rest = self.rest();
        let is_part = |character: char| character.is_ascii_digit() || matches!(character, '-' | '+' | '.' | 'e' | 'E');
        let length = rest.find(|character| !is_part(character)).unwrap_or(rest.len());
        let text = &rest[..length];
        let digits = text.strip_prefix('-').unwrap_or(text);
        let starts_well = digits.starts_with(|first: char| first.is_ascii_digit())
            && !(digits.starts_with('0') && digits[1..].starts_with(|second: char| second.is_ascii_digit()));
        let ends_well =
            text.ends_with(|last: char| last.is_ascii_digit()) && !text.contains(".e") && !text.contains(".E");
        match text.parse() {
            Ok(number) if starts_well && ends_well => {
                self.position += length;
                Ok(number)
            }
            _ => Err(self.error("a value is missing or is no valid number")),
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.position..]
    }

    /// Next byte after spaces.
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = bytes.get(self.position) {
            self.position += 1;
        }
        bytes.get(self.position).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.position += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, byte: u8, problem: &'static str) -> Result<(), JsonError> {
        if self.take(byte) { Ok(()) } else { Err(self.error(problem)) }
    }

    fn error(&self, problem: &'static str) -> JsonError {
        JsonError { problem, position: self.position }
    }
}

#[cfg(test)]
mod tests {
    use super::Json::{self, Bool, List, Null, Number, Object, Text};

    #[test]
    fn text_of_python_is_parsed() {
        let text = r#" {"a": [NaN, -Infinity, Infinity, 1.5e-3, -0, null, true], "é\ud800\"": "", "b": {}} "#;
        let Object(members) = Json::parse(text).unwrap() else { panic!() };
        let [(a, List(values)), (key, Text("")), (b, Object(none))] = &members[..] else { panic!("{members:?}") };
        assert_eq!((*a, *key, *b, none.len()), ("a", r#"é\ud800\""#, "b", 0));
        assert!(matches!(values[0], Number(number) if number.is_nan()));
        let rest = [Number(f64::NEG_INFINITY), Number(f64::INFINITY), Number(0.0015), Number(-0.0), Null, Bool(true)];
        assert_eq!(values[1..], rest);
        assert_eq!(Json::parse(text).unwrap().member("b"), Some(&Object(Vec::new())));
    }

    #[test]
    fn other_text_is_refused_with_its_position() {
        for (text, position) in [
            ("", 0),
            ("nan", 0),
            ("[1,]", 3),
            ("[1 2]", 3),
            ("{\"a\" 1}", 5),
            ("{a: 1}", 1),
            ("\"a", 2),
            ("\"\\x\"", 1),
            ("\"\n\"", 1),
            ("01", 0),
            ("1.", 0),
            ("1.e5", 0),
            ("+1", 0),
            (".5", 0),
            ("1 1", 2),
            ("inf", 0),
        ] {
            let refused = Json::parse(text).unwrap_err();
            assert_eq!(refused.position, position, "{text}: {refused}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(Json::parse(&deep).unwrap_err().problem, "too deeply nested");
    }

    #[test]
    fn equality_is_that_of_python_with_nan_equal_to_itself() {
        let equal = |one: &str, two: &str| Json::parse(one).unwrap().equals(&Json::parse(two).unwrap());
        assert!(equal("[1, NaN, \"a\"]", "[true,NaN,\"a\"]"));
        assert!(equal("1.0", "1"));
        for (one, two) in [("[1, 2]", "[2, 1]"), ("[1]", "[1, 1]"), ("null", "false"), ("\"1\"", "1"), ("NaN", "0")] {
            assert!(!equal(one, two), "{one} {two}");
        }
    }
}
