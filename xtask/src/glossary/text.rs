//! Splits source files into identifiers, comments and text, and these into words.

use std::sync::LazyLock;

use anyhow::{Context, Result};
use regex::Regex;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Rust,
    Python,
    /// A single piece of text.
    Markdown,
}

/// Role of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Name,
    Comment,
    /// A string literal, or Markdown.
    Text,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) kind: Kind,
    /// Line of its start, counted from 1.
    pub(super) line: usize,
    pub(super) text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// Lower case.
    pub(super) text: String,
    /// Counted from 1.
    pub(super) line: usize,
    /// Whether no punctuation separates it from the previous word. Hyphens and apostrophes do not count.
    pub(super) joined: bool,
}

/// Lexical elements of Rust. Characters and numbers are in no group. Comments are not nested.
const RUST: &str = r##"(?xs)
    //[/!]*(?<comment>[^\n]*) | /\*(?<block>.*?)\*/
    | (?<text>(?:br|cr|r)\#\#".*?"\#\# | (?:br|cr|r)\#".*?"\# | (?:br|cr|r)"[^"]*" | [bc]?"(?:\\.|[^"\\])*")
    | '(?:\\.[^']*|[^\\'])'
    | [0-9]\w* | (?<name>\w+)"##;

const PYTHON: &str = r##"(?xs)
    \#[\#!]*(?<comment>[^\n]*)
    | (?<text>(?i:[rbfut]{0,2})(?: """(?:\\.|[^\\])*?""" | '''(?:\\.|[^\\])*?''' | "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*'))
    | [0-9]\w* | (?<name>\w+)"##;

static LEXERS: LazyLock<Result<[Regex; 2], regex::Error>> =
    LazyLock::new(|| Ok([Regex::new(RUST)?, Regex::new(PYTHON)?]));

/// Identifiers, comments and string literals of a file. Comments on consecutive lines are one piece.
///
/// # Errors
///
/// If the patterns of this file are invalid.
pub(super) fn pieces(language: Language, text: &str) -> Result<Vec<Piece>> {
    let [rust, python] = LEXERS.as_ref().context("the patterns of the languages are invalid")?;
    let lexer = match language {
        Language::Rust => rust,
        Language::Python => python,
        Language::Markdown => return Ok(vec![Piece { kind: Kind::Text, line: 1, text: text.to_owned() }]),
    };
    let mut found: Vec<Piece> = Vec::new();
    let (mut line, mut read) = (1, 0);
    for element in lexer.captures_iter(text) {
        let groups = [("name", Kind::Name), ("text", Kind::Text), ("comment", Kind::Comment), ("block", Kind::Comment)];
        let Some((part, kind)) = groups.iter().find_map(|(name, kind)| Some((element.name(name)?, *kind))) else {
            continue;
        };
        line += text[read..part.start()].matches('\n').count();
        read = part.start();
        let part = if kind == Kind::Text { without_escapes(part.as_str()) } else { part.as_str().to_owned() };
        match found.last_mut() {
            Some(last)
                if [last.kind, kind] == [Kind::Comment; 2]
                    && last.line + last.text.matches('\n').count() + 1 == line =>
            {
                last.text.push('\n');
                last.text.push_str(&part);
            }
            _ => found.push(Piece { kind, line, text: part }),
        }
    }
    Ok(found)
}

/// Replaces each escape sequence with a space, or with its line break.
fn without_escapes(literal: &str) -> String {
    let (mut text, mut letters) = (String::with_capacity(literal.len()), literal.chars());
    while let Some(letter) = letters.next() {
        text.push(match letter {
            '\\' if letters.next() == Some('\n') => '\n',
            '\\' => ' ',
            letter => letter,
        });
    }
    text
}

/// Words of `piece`. Identifiers in comments are split like names; those in text are not, being fields and constants
/// of wire formats and stored records.
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

/// Splits `text` before the first letter satisfying `end`.
fn split(text: &str, end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(end).unwrap_or(text.len()))
}

fn is_identifier(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn is_compound(token: &str) -> bool {
    token.trim_matches('_').contains('_') || subwords(token).len() > 1
}

/// Words of an identifier, split at underscores, digits and capitals: `HTTPServer_2b` is `HTTP`, `Server`, `b`.
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
        pieces(language, text).unwrap().into_iter().map(|piece| (piece.kind, piece.line, piece.text)).collect()
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
        assert_eq!(texts, ["b\"by te\"", "r#\"raw \"x\"  #"]);
    }

    #[test]
    fn comments_on_consecutive_lines_are_one_piece() {
        let found = of(Language::Rust, "//! one\n//! two\n\n/* three\n*/ x // four\n");
        let comments: Vec<(usize, &str)> = found
            .iter()
            .filter(|(kind, ..)| *kind == Kind::Comment)
            .map(|(_, line, text)| (*line, text.trim()))
            .collect();
        assert_eq!(comments, [(1, "one\n two"), (4, "three"), (5, "four")]);
    }

    #[test]
    fn literals_of_python_may_have_prefixes_and_triple_quotes() {
        let text = "x = f'a{b}' + rb\"c\\\"\" # d\ny = '''e\n'f' ''' if z else ''\n";
        assert_eq!(names(Language::Python, text), ["x", "y", "if", "z", "else"]);
        assert_eq!(of(Language::Python, text)[5], (Kind::Text, 2, "'''e\n'f' '''".to_owned()));
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
