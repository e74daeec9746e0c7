//! Filter parser.
//!
//! ```text
//! filter      = [ expression ]
//! expression  = group { group }
//! group       = factor { "AND" factor } | factor { "OR" factor }
//! factor      = "NOT" factor | "(" expression ")" | restriction
//! restriction = field comparison ( value | "(" value { [ "," | "OR" ] value } ")" )
//! field       = word [ "." ( word | quoted ) ]
//! comparison  = ":" | "=" | "!=" | "<" | "<=" | ">" | ">=" | "~" | "!~"
//! value       = ( word | quoted ) [ "*" ]
//! ```
//!
//! All groups must hold, as in gcloud. Mixing `AND` and `OR` requires parentheses: AIP-160 and most languages disagree
//! on their precedence. A value after `:` may have several words and contain parentheses, as in the original filters of
//! `jobs.list`: it ends before the next restriction.

use std::cell::Cell;

use super::{Comparison, Expression, Field, Filter, FilterError, Restriction, Value};

/// Maximum length of a filter in bytes. A guess: far more than a person or a page writes.
const MAX_BYTES: usize = 16 << 10;

/// Maximum number of restrictions: each is evaluated for every resource of a list.
const MAX_RESTRICTIONS: usize = 100;

/// Maximum number of regular expressions. A guess: each costs some 100 times as much as another restriction.
const MAX_PATTERNS: usize = 10;

/// Maximum depth of parentheses and negations: evaluation is recursive.
const MAX_DEPTH: usize = 50;

/// Maximum number of quoted characters in an error.
const QUOTED: usize = 30;

/// Whether a field may contain `c` without quotation marks.
pub(super) fn is_of_field(c: char) -> bool {
    !c.is_whitespace() && !matches!(c, ':' | '=' | '<' | '>' | '!' | '~' | '(' | ')' | '"' | '\\' | '*')
}

/// Whether a value needs no quotation marks.
pub(super) fn is_plain_value(text: &str) -> bool {
    let is_plain = |c: char| is_of_field(c) || c == ':';
    !text.is_empty() && text.chars().all(is_plain) && !text.starts_with(':') && !is_keyword(text)
}

fn is_keyword(word: &str) -> bool {
    matches!(word, "AND" | "OR" | "NOT")
}

pub(super) fn parse(text: &str) -> Result<Filter, FilterError> {
    if text.len() > MAX_BYTES {
        let message = format!("the filter has {} bytes; at most {MAX_BYTES} are allowed", text.len());
        return Err(FilterError { column: 1, message });
    }
    let mut parser = Parser { text, at: 0, depth: 0, restrictions: 0, patterns: 0, counted: Cell::new((0, 0)) };
    parser.skip_space();
    if parser.rest().is_empty() {
        return Ok(Filter::default());
    }
    let expression = parser.expression()?;
    parser.skip_space();
    if !parser.rest().is_empty() {
        return Err(parser.expected("AND, OR or the end"));
    }
    Ok(Filter { expression })
}

struct Parser<'a> {
    text: &'a str,
    /// Position of the next character in bytes.
    at: usize,
    /// Number of open parentheses and negations.
    depth: usize,
    restrictions: usize,
    /// Number of restrictions with a regular expression.
    patterns: usize,
    /// Last position whose column was computed, in bytes and in characters. Later columns are counted from there, in
    /// one pass over the filter.
    counted: Cell<(usize, usize)>,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn next(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip_space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// Column of the byte `position`, from 1.
    fn column(&self, position: usize) -> usize {
        let (from, before) = Some(self.counted.get()).filter(|(from, _)| *from <= position).unwrap_or_default();
        let characters = before + self.text[from..position].chars().count();
        self.counted.set((position, characters));
        characters + 1
    }

    fn error(&self, position: usize, message: String) -> FilterError {
        FilterError { column: self.column(position), message }
    }

    fn expected(&self, allowed: &str) -> FilterError {
        let word = self.rest().split_whitespace().next().unwrap_or_default();
        let message = match word {
            "" => format!("found the end; expected {allowed}"),
            "and" | "or" | "not" => {
                format!("found {word:?}; expected {allowed}: write {} in upper case", word.to_uppercase())
            }
            _ => format!("found {:?}; expected {allowed}", shortened(word)),
        };
        self.error(self.at, message)
    }

    /// Consumes `keyword` if it follows as a whole word.
    fn takes_keyword(&mut self, keyword: &str) -> bool {
        let is_next = starts_with_keyword(self.rest(), keyword);
        if is_next {
            self.at += keyword.len();
        }
        is_next
    }

    fn expression(&mut self) -> Result<Expression<Restriction>, FilterError> {
        let mut groups = vec![self.group()?];
        while begins_factor(self.rest().trim_start(), true) {
            groups.push(self.group()?);
        }
        Ok(if groups.len() == 1 { groups.remove(0) } else { Expression::All(groups) })
    }

    fn group(&mut self) -> Result<Expression<Restriction>, FilterError> {
        let first = self.factor()?;
        let mut parts = vec![first];
        let mut joined_by = None;
        loop {
            self.skip_space();
            let start = self.at;
            let Some(word) = ["AND", "OR"].into_iter().find(|word| self.takes_keyword(word)) else { break };
            if let Some(other) = joined_by.filter(|other| *other != word) {
                let message = format!("found {word} after {other}; use parentheses, as in a {other} (b {word} c)");
                return Err(self.error(start, message));
            }
            joined_by = Some(word);
            parts.push(self.factor()?);
        }
        Ok(match joined_by {
            Some("AND") => Expression::All(parts),
            Some(_) => Expression::Any(parts),
            None => parts.remove(0),
        })
    }

    fn factor(&mut self) -> Result<Expression<Restriction>, FilterError> {
        self.skip_space();
        let start = self.at;
        if self.depth > MAX_DEPTH {
            let message = format!("more than {MAX_DEPTH} parentheses and negations are nested");
            return Err(self.error(start, message));
        }
        if self.takes_keyword("NOT") {
            self.depth += 1;
            let part = self.factor()?;
            self.depth -= 1;
            return Ok(Expression::Not(Box::new(part)));
        }
        if self.next() != Some('(') {
            return self.restriction();
        }
        self.at += 1;
        self.depth += 1;
        let expression = self.expression()?;
        self.depth -= 1;
        self.skip_space();
        if self.next() != Some(')') {
            let column = self.column(start);
            return Err(self.expected(&format!("AND, OR or ) for the parenthesis of column {column}")));
        }
        self.at += 1;
        Ok(expression)
    }

    fn restriction(&mut self) -> Result<Expression<Restriction>, FilterError> {
        let start = self.at;
        let word = self.word(is_of_field);
        if word.is_empty() || is_keyword(word) {
            self.at = start;
            return Err(self.expected("a field, NOT or ("));
        }
        self.count(start)?;
        let field = self.field(word, start)?;
        self.skip_space();
        let symbol = Comparison::SYMBOLS.into_iter().find(|(symbol, _)| self.rest().starts_with(symbol));
        let Some((symbol, comparison)) = symbol else {
            return Err(self.expected(&format!("one of : = != < <= > >= ~ !~ after {field}")));
        };
        self.at += symbol.len();
        if matches!(comparison, Comparison::Matches | Comparison::NotMatches) {
            self.patterns += 1;
            if self.patterns > MAX_PATTERNS {
                return Err(self.error(start, format!("the filter has more than {MAX_PATTERNS} regular expressions")));
            }
        }
        let column = self.column(start);
        let leaf = |value: Value, value_column: usize| {
            let field = field.clone();
            Expression::Leaf(Restriction { field, comparison, value, column, value_column })
        };
        if let Some(values) = self.list(comparison)? {
            let any: Vec<_> = values.into_iter().map(|(value, at)| leaf(value, at)).collect();
            return Ok(match any {
                mut one if one.len() == 1 => one.remove(0),
                all if comparison == Comparison::NotEqual => Expression::All(all),
                any => Expression::Any(any),
            });
        }
        let (value, value_start) = self.value(&field, comparison)?;
        let value_column = self.column(value_start);
        Ok(leaf(value, value_column))
    }

    /// Counts a restriction that begins at `start`.
    fn count(&mut self, start: usize) -> Result<(), FilterError> {
        self.restrictions += 1;
        if self.restrictions > MAX_RESTRICTIONS {
            return Err(self.error(start, format!("the filter has more than {MAX_RESTRICTIONS} restrictions")));
        }
        Ok(())
    }

    /// Parses a list of values in parentheses after `comparison`, with their columns. Returns `None` without consuming
    /// anything if there is no list.
    fn list(&mut self, comparison: Comparison) -> Result<Option<Vec<(Value, usize)>>, FilterError> {
        let start = self.at;
        self.skip_space();
        if !matches!(comparison, Comparison::Has | Comparison::Equal | Comparison::NotEqual) || self.next() != Some('(')
        {
            self.at = start;
            return Ok(None);
        }
        self.at += 1;
        // After a colon, a single value in parentheses is text, for compatibility with filters that predate lists.
        let fewest = if comparison == Comparison::Has { 2 } else { 1 };
        let mut values = Vec::new();
        loop {
            self.at +=
                self.rest().len() - self.rest().trim_start_matches(|c: char| c.is_whitespace() || c == ',').len();
            if !values.is_empty() {
                self.takes_keyword("OR");
                self.skip_space();
            }
            let from = self.at;
            match self.next() {
                Some(')') if values.len() >= fewest => {
                    self.at += 1;
                    if self.is_at_boundary() {
                        return Ok(Some(values));
                    }
                    break;
                }
                Some('"') => {
                    let Ok(text) = self.quoted() else { break };
                    let is_prefix = self.next() == Some('*');
                    self.at += usize::from(is_prefix);
                    values.push((Value { text, is_prefix }, self.column(from)));
                }
                _ => {
                    let word = self.word(|c| (is_of_field(c) || c == ':') && c != ',');
                    let is_prefix = self.next() == Some('*');
                    if word.is_empty() && !is_prefix {
                        break;
                    }
                    let text = word.to_owned();
                    self.at += usize::from(is_prefix);
                    values.push((Value { text, is_prefix }, self.column(from)));
                }
            }
            if values.len() > 1 {
                self.count(from)?;
            }
        }
        self.at = start;
        Ok(None)
    }

    fn word(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Parses the rest of the field that begins with `word` at `start`.
    fn field(&mut self, word: &str, start: usize) -> Result<Field, FilterError> {
        let Some((root, name)) = word.split_once('.') else {
            return Ok(Field { root: word.to_owned(), name: None });
        };
        let name = if name.is_empty() && self.next() == Some('"') { self.quoted()? } else { name.to_owned() };
        if root.is_empty() || name.is_empty() {
            let message = format!("found {:?}; expected a name before and behind the point", shortened(word));
            return Err(self.error(start, message));
        }
        Ok(Field { root: root.to_owned(), name: Some(name) })
    }

    /// Parses the value after `comparison`. Returns it with its column.
    fn value(&mut self, field: &Field, comparison: Comparison) -> Result<(Value, usize), FilterError> {
        let before = self.at;
        self.skip_space();
        let start = self.at;
        if self.next() == Some('"') {
            let text = self.quoted()?;
            let is_prefix = self.next() == Some('*');
            self.at += usize::from(is_prefix);
            if comparison != Comparison::Has || self.is_at_boundary() {
                return Ok((Value { text, is_prefix }, start));
            }
        }
        let text = if comparison == Comparison::Has {
            self.at = before;
            self.words()
        } else {
            let length = raw_length(self.rest(), 1, char::is_whitespace);
            self.at += length;
            &self.text[start..start + length]
        };
        if text.is_empty() && comparison != Comparison::Has {
            return Err(self.expected(&format!("a value, as in {field} {} 0.5", comparison.symbol())));
        }
        let (text, is_prefix) = text.strip_suffix('*').map_or((text, false), |prefix| (prefix, true));
        Ok((Value { text: text.to_owned(), is_prefix }, start))
    }

    fn is_at_boundary(&self) -> bool {
        let rest = self.rest();
        let trimmed = rest.trim_start();
        let is_spaced = trimmed.len() < rest.len();
        trimmed.is_empty() || (self.depth > 0 && trimmed.starts_with(')')) || (is_spaced && ends_words(trimmed))
    }

    /// Consumes words up to the end of the restriction.
    fn words(&mut self) -> &'a str {
        let rest = self.rest();
        let ends = |tail: &str| ends_words(tail.trim_start());
        // Checks the space before a keyword only from its beginning, and so once.
        let mut is_in_space = false;
        let end = rest.char_indices().find(|(at, c)| {
            let begins_space = c.is_whitespace() && !is_in_space;
            is_in_space = c.is_whitespace();
            begins_space && ends(&rest[*at..])
        });
        let end = end.map_or(rest.len(), |(at, _)| at);
        let length = raw_length(&rest[..end], self.depth, |_| false);
        self.at += length;
        rest[..length].trim()
    }

    /// Parses a quoted text. `\"` and `\\` are escapes.
    fn quoted(&mut self) -> Result<String, FilterError> {
        let start = self.at;
        let mut text = String::new();
        let mut characters = self.rest().char_indices().skip(1);
        while let Some((at, c)) = characters.next() {
            match c {
                '"' => {
                    self.at += at + 1;
                    return Ok(text);
                }
                '\\' => match characters.next() {
                    Some((_, escaped @ ('"' | '\\'))) => text.push(escaped),
                    other => {
                        let found = other.map_or_else(|| "the end".to_owned(), |(_, c)| format!("{c:?}"));
                        let message = format!("found {found} after a backslash; allowed are \\\" and \\\\");
                        return Err(self.error(start + at, message));
                    }
                },
                other => text.push(other),
            }
        }
        Err(self.error(start, "found an opening quotation mark; the closing one is missing".to_owned()))
    }
}

/// Length in bytes of the value at the start of `text`: up to a character that `ends` it or, if `depth` is above 0, an
/// unbalanced closing parenthesis.
fn raw_length(text: &str, depth: usize, ends: impl Fn(char) -> bool) -> usize {
    let mut opened = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => opened += 1,
            ')' if opened > 0 => opened -= 1,
            ')' if depth > 0 => return at,
            c if ends(c) => return at,
            _ => {}
        }
    }
    text.len()
}

/// Whether `text` begins with a delimiter of a multi-word value.
fn ends_words(text: &str) -> bool {
    ["AND", "OR"].into_iter().any(|word| starts_with_keyword(text, word)) || begins_factor(text, false)
}

/// Whether `text` begins with a restriction, possibly in parentheses or negated: a field name and a comparison. With
/// `may_be_spaced`, white space may surround the comparison.
fn begins_factor(text: &str, may_be_spaced: bool) -> bool {
    let mut rest = text;
    // Deeper nesting is refused. Without a limit, words before many parentheses would take quadratic time.
    for _ in 0..MAX_DEPTH {
        let inner = rest.strip_prefix('(').or_else(|| rest.strip_prefix("NOT ")).or_else(|| {
            // The parenthesis remains.
            rest.strip_prefix("NOT").filter(|after| after.starts_with('('))
        });
        let Some(inner) = inner else { break };
        rest = inner.trim_start();
    }
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let name = &rest[..rest.find(|c| !is_of_name(c)).unwrap_or(rest.len())];
    let mut after = &rest[name.len()..];
    if name.ends_with('.') && after.starts_with('"') {
        after = after[1..].split_once('"').map_or("", |(_, after)| after);
    }
    if may_be_spaced {
        after = after.trim_start();
    }
    let symbol = Comparison::SYMBOLS.into_iter().find(|(symbol, _)| after.starts_with(symbol));
    let has_value = |symbol: &str| after[symbol.len()..].starts_with(|c: char| !c.is_whitespace());
    name.starts_with(char::is_alphabetic)
        && !is_keyword(name)
        && symbol.is_some_and(|(symbol, _)| may_be_spaced || has_value(symbol))
}

fn starts_with_keyword(text: &str, keyword: &str) -> bool {
    text.strip_prefix(keyword)
        .is_some_and(|after| after.chars().next().is_none_or(|next| next.is_whitespace() || next == '('))
}

fn shortened(text: &str) -> String {
    text.chars().take(QUOTED).collect()
}
