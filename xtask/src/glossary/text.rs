//! Splits source files into identifiers, comments and text, and these into words.

/// A language that [`pieces`] can split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Rust,
    Python,
    /// One piece of text.
    Markdown,
}

/// The role of a piece of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An identifier or keyword.
    Name,
    /// The content of a comment.
    Comment,
    /// The content of a string literal, or Markdown.
    Text,
}

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) kind: Kind,
    /// The line where it starts, counted from 1.
    pub(super) line: usize,
    pub(super) text: String,
}

/// One word of a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// In lower case.
    pub(super) text: String,
    /// Counted from 1.
    pub(super) line: usize,
    /// Whether no punctuation separates it from the word before it. Hyphens and apostrophes are not punctuation.
    pub(super) joined: bool,
}

/// The identifiers, comments and string literals of a file. Comments on consecutive lines are one piece.
pub(super) fn pieces(language: Language, text: &str) -> Vec<Piece> {
    if language == Language::Markdown {
        return vec![Piece { kind: Kind::Text, line: 1, text: text.to_owned() }];
    }
    let mut scanner = Scanner { language, rest: text, line: 1, found: Vec::new() };
    while !scanner.rest.is_empty() {
        scanner.advance();
    }
    let mut merged: Vec<Piece> = Vec::new();
    for piece in scanner.found {
        match merged.last_mut() {
            Some(last)
                if last.kind == Kind::Comment
                    && piece.kind == Kind::Comment
                    && last.line + last.text.matches('\n').count() + 1 == piece.line =>
            {
                last.text.push('\n');
                last.text.push_str(&piece.text);
            }
            _ => merged.push(piece),
        }
    }
    merged
}

/// The words of `piece`. Identifiers within comments are split like names. Identifiers within text are not split: they
/// are fields and constants of wire formats and stored records.
pub(super) fn words(piece: &Piece) -> Vec<Word> {
    let mut found = Vec::new();
    let (mut line, mut joined) = (piece.line, true);
    let mut rest = piece.text.as_str();
    while let Some(first) = rest.chars().next() {
        if is_identifier(first) {
            let token;
            (token, rest) = split(rest, |letter| !is_identifier(letter));
            let parts = if piece.kind == Kind::Text && is_compound(token) { vec![token] } else { subwords(token) };
            for part in parts {
                found.push(Word { text: part.to_lowercase(), line, joined });
                joined = true;
            }
        } else {
            line += usize::from(first == '\n');
            joined &= first.is_whitespace() || matches!(first, '-' | '\'' | '’' | '`' | '*');
            rest = &rest[first.len_utf8()..];
        }
    }
    found
}

/// The unread rest of a file and the pieces found before it.
struct Scanner<'a> {
    language: Language,
    rest: &'a str,
    line: usize,
    found: Vec<Piece>,
}

impl<'a> Scanner<'a> {
    /// Reads one lexical element.
    fn advance(&mut self) {
        let rust = self.language == Language::Rust;
        let rest = self.rest;
        let comment = if rust { "//" } else { "#" };
        if rest.starts_with(comment) {
            let (text, _) = split(rest, |letter| letter == '\n');
            self.take(text.len(), Kind::Comment, text.trim_start_matches(['/', '!', '#']));
        } else if rust && rest.starts_with("/*") {
            let length = block_comment(rest);
            self.take(length, Kind::Comment, rest[2..length].trim_end_matches("*/"));
        } else if rest.starts_with('"') || !rust && rest.starts_with('\'') {
            self.string(false, 0);
        } else if rest.starts_with('\'') {
            self.skip(character_or_quote(rest));
        } else if rest.starts_with(is_identifier) {
            self.word();
        } else {
            self.skip(rest.chars().next().map_or(0, char::len_utf8));
        }
    }

    /// Reads an identifier, a number, or a string literal with a prefix.
    fn word(&mut self) {
        let (word, after) = split(self.rest, |letter| !is_identifier(letter));
        let prefix = word.to_ascii_lowercase();
        let raw = prefix.contains('r');
        if self.language == Language::Python {
            if after.starts_with(['"', '\''])
                && prefix.len() <= 2
                && prefix.chars().all(|letter| "rbfut".contains(letter))
            {
                self.skip(word.len());
                return self.string(raw, 0);
            }
        } else if matches!(word, "r" | "b" | "br" | "c" | "cr") {
            let (hashes, quote) = split(after, |letter| letter != '#');
            if quote.starts_with('"') && (raw || hashes.is_empty()) {
                self.skip(word.len() + hashes.len());
                return self.string(raw, hashes.len());
            }
        }
        let number = word.starts_with(|letter: char| letter.is_ascii_digit());
        if number { self.skip(word.len()) } else { self.take(word.len(), Kind::Name, word) }
    }

    /// Reads a string literal from its opening quote on. `hashes` is the number of `#` around a raw literal of Rust.
    fn string(&mut self, raw: bool, hashes: usize) {
        let rest = self.rest;
        let quote = &rest[..1];
        let triple = self.language == Language::Python && rest.starts_with(&quote.repeat(3));
        let end = if triple { quote.repeat(3) } else { format!("{quote}{}", "#".repeat(hashes)) };
        let start = if triple { 3 } else { 1 };
        let mut text = String::new();
        let mut position = start;
        while position < rest.len() && !rest[position..].starts_with(&end) {
            let mut letters = rest[position..].chars();
            let letter = letters.next().unwrap_or_default();
            position += letter.len_utf8();
            if letter == '\\' {
                // In raw literals of Python a backslash still protects a quote.
                let escaped = letters.next().filter(|_| !raw || self.language == Language::Python);
                position += escaped.map_or(0, char::len_utf8);
                text.push(if escaped == Some('\n') { '\n' } else { ' ' });
            } else {
                text.push(letter);
            }
        }
        self.take((position + end.len()).min(rest.len()), Kind::Text, &text);
    }

    fn take(&mut self, length: usize, kind: Kind, text: &str) {
        self.found.push(Piece { kind, line: self.line, text: text.to_owned() });
        self.skip(length);
    }

    fn skip(&mut self, length: usize) {
        let (skipped, rest) = self.rest.split_at(length);
        self.line += skipped.matches('\n').count();
        self.rest = rest;
    }
}

/// `text` up to the first letter that is `end`, and the rest.
fn split(text: &str, end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(end).unwrap_or(text.len()))
}

fn is_identifier(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The length of the block comment at the start of `text`, with nested ones.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut position) = (0_usize, 0);
    while position < text.len() {
        if text[position..].starts_with("/*") {
            depth += 1;
            position += 2;
        } else if text[position..].starts_with("*/") {
            depth -= 1;
            position += 2;
            if depth == 0 {
                break;
            }
        } else {
            position += text[position..].chars().next().map_or(1, char::len_utf8);
        }
    }
    position
}

/// The length of the character literal at the start of `text`, or 1 for the quote of a lifetime.
fn character_or_quote(text: &str) -> usize {
    let mut letters = text[1..].chars();
    match letters.next() {
        // The character after the backslash may be a quote.
        Some('\\') => text.get(3..).and_then(|rest| rest.find('\'')).map_or(1, |end| end + 4),
        Some(letter) if letters.next() == Some('\'') => letter.len_utf8() + 2,
        _ => 1,
    }
}

/// Whether an identifier consists of several words.
fn is_compound(token: &str) -> bool {
    token.trim_matches('_').contains('_') || subwords(token).len() > 1
}

/// The words of an identifier, split at underscores, digits and capitals: `HTTPServer_2b` is `HTTP`, `Server`, `b`.
fn subwords(token: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for part in token.split(|letter: char| letter == '_' || letter.is_numeric()) {
        let letters: Vec<(usize, char)> = part.char_indices().collect();
        let mut start = 0;
        for (index, (position, letter)) in letters.iter().enumerate().skip(1) {
            let after_lower = !letters[index - 1].1.is_uppercase();
            let before_lower = letters.get(index + 1).is_some_and(|(_, next)| next.is_lowercase());
            if letter.is_uppercase() && (after_lower || before_lower) {
                found.push(&part[start..*position]);
                start = *position;
            }
        }
        if start < part.len() {
            found.push(&part[start..]);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(language: Language, text: &str) -> Vec<(Kind, usize, String)> {
        pieces(language, text).into_iter().map(|piece| (piece.kind, piece.line, piece.text)).collect()
    }

    fn names(language: Language, text: &str) -> Vec<String> {
        of(language, text).into_iter().filter(|(kind, ..)| *kind == Kind::Name).map(|(.., text)| text).collect()
    }

    #[test]
    fn identifiers_are_split_at_every_word_border() {
        assert_eq!(subwords("snake_case"), ["snake", "case"]);
        assert_eq!(subwords("HTTPServer_2b"), ["HTTP", "Server", "b"]);
        assert_eq!(subwords("MOST_LINES"), ["MOST", "LINES"]);
        assert_eq!(subwords("camelCase"), ["camel", "Case"]);
    }

    #[test]
    fn literals_of_rust_are_not_code() {
        let text = "a('\"', '\\'', 'é', b'x', b\"by\\\"te\", r#\"raw \"x\" \\\"#, &'life str, 1e3f64, '\\u{41}') z";
        assert_eq!(names(Language::Rust, text), ["a", "b", "life", "str", "z"]);
        let texts: Vec<String> = of(Language::Rust, text)
            .into_iter()
            .filter(|(kind, ..)| *kind == Kind::Text)
            .map(|(.., text)| text)
            .collect();
        assert_eq!(texts, ["by te", "raw \"x\"  "]);
    }

    #[test]
    fn comments_on_consecutive_lines_are_one_piece() {
        let found = of(Language::Rust, "//! one\n//! two\n\n/* three /* 3 */\n*/ x // four\n");
        let comments: Vec<(usize, &str)> = found
            .iter()
            .filter(|(kind, ..)| *kind == Kind::Comment)
            .map(|(_, line, text)| (*line, text.trim()))
            .collect();
        assert_eq!(comments, [(1, "one\n two"), (4, "three /* 3 */"), (5, "four")]);
    }

    #[test]
    fn literals_of_python_may_have_prefixes_and_triple_quotes() {
        let text = "x = f'a{b}' + rb\"c\\\"\" # d\ny = '''e\n'f' ''' if z else ''\n";
        assert_eq!(names(Language::Python, text), ["x", "y", "if", "z", "else"]);
        assert_eq!(of(Language::Python, text)[5], (Kind::Text, 2, "e\n'f' ".to_owned()));
    }

    #[test]
    fn punctuation_separates_words() {
        let piece = Piece { kind: Kind::Comment, line: 3, text: "It's well-known:\nUnitLog x".to_owned() };
        let found: Vec<(String, usize, bool)> =
            words(&piece).into_iter().map(|word| (word.text, word.line, word.joined)).collect();
        let expected = [("it", 3, true), ("s", 3, true), ("well", 3, true), ("known", 3, true), ("unit", 4, false)];
        assert_eq!(found[..5], expected.map(|(text, line, joined)| (text.to_owned(), line, joined)));
    }
}
