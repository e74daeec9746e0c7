//! Numbers as printed by trainers.

use super::name::is_separator;

/// Value after an equals sign or colon.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Value(f64),
    /// Number that continues after a comma, blank or apostrophe: `0,93`, `1,234`, `1'000`.
    Grouped,
    None,
}

/// Maximum number of brackets, quotes and calls around a number: `"tensor([0.5])"` has three. A guess.
const MAX_WRAPPERS: usize = 4;

/// Parses the number at the start of `after`, as printed by Python and C, including `nan` and `inf`. It may be followed
/// by a percent sign or full stop, and enclosed in quotes, brackets or a call such as `tensor(…)`.
pub(super) fn read_number(after: &str) -> Number {
    let mut rest = after.trim_start();
    let mut closing: Vec<char> = Vec::new();
    while let Some((length, close)) = opened(rest) {
        if closing.len() == MAX_WRAPPERS {
            return Number::None;
        }
        closing.push(close);
        rest = rest[length..].trim_start();
    }
    let (token, mut rest) = split_token(rest);
    let Some((value, is_sentence_end)) = parse_token(token) else { return Number::None };
    if continues(token, rest) {
        return Number::Grouped;
    }
    let mut is_percentage = token.contains('%');
    if let Some(after) = rest.trim_start().strip_prefix('%') {
        (is_percentage, rest) = (true, after);
    }
    if is_percentage && rest.starts_with('|') {
        // Percentage of a progress bar.
        return Number::None;
    }
    for close in closing.into_iter().rev() {
        let inner = rest.trim_start();
        // Further arguments of a call are named: `tensor(0.5, device='cuda:0')`.
        let inner = match (close, inner.strip_prefix(',')) {
            (')', Some(arguments)) => match named_arguments_end(arguments) {
                Some(end) => &arguments[end..],
                None => return Number::None,
            },
            _ => inner,
        };
        match inner.strip_prefix(close) {
            Some(outer) => rest = outer,
            None => return Number::None,
        }
    }
    let Some(next) = rest.chars().next() else { return Number::Value(value) };
    let ends = is_separator(next) && !"([{<".contains(next);
    let ends_sentence = !is_sentence_end || next.is_whitespace() || "\"')]}".contains(next);
    if ends && ends_sentence { Number::Value(value) } else { Number::None }
}

/// Parses the step at the start of `after`: `3/10` (the third of ten) and `3.0` are 3. Returns the text of a number
/// that is not a step; `None` without a number.
pub(super) fn read_step(after: &str) -> Option<Result<i64, &str>> {
    /// 2^53; up to it, every integer is exact as `f64`.
    const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;
    let after = after.trim_start().trim_start_matches(['"', '\'']);
    let (token, rest) = split_token(after);
    let number = token.split('/').next().unwrap_or(token);
    let (value, _) = parse_token(number)?;
    if !continues(token, rest) {
        if let Ok(step @ 0..) = number.parse::<i64>() {
            return Some(Ok(step));
        }
        if value.fract() == 0.0 && (0.0..=LARGEST_EXACT).contains(&value) {
            return Some(Ok(value as i64));
        }
    }
    Some(Err(after.split_whitespace().next().unwrap_or(token)))
}

/// Length of the opening of an enclosed number at the start of `text`, and the closing character.
fn opened(text: &str) -> Option<(usize, char)> {
    match text.chars().next()? {
        '[' => Some((1, ']')),
        '(' => Some((1, ')')),
        quote @ ('"' | '\'') => Some((1, quote)),
        first if first.is_ascii_alphabetic() || first == '_' => {
            let name = text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(byte)).count();
            text[name..].starts_with('(').then_some((name + 1, ')'))
        }
        _ => None,
    }
}

/// Offset of the bracket that closes a call with the arguments `text`, if all of them are named.
fn named_arguments_end(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let end = text.find(|character: char| {
        depth += usize::from(character == '(');
        let is_end = character == ')' && depth == 0;
        depth -= usize::from(character == ')' && depth > 0);
        is_end
    })?;
    let name =
        text[..end].trim_start().bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    (name > 0 && text[..end].trim_start()[name..].starts_with('=')).then_some(end)
}

fn split_token(text: &str) -> (&str, &str) {
    text.split_at(text.find(is_separator).unwrap_or(text.len()))
}

/// Parses a number with an optional percent sign or full stop; returns whether there is a full stop.
fn parse_token(token: &str) -> Option<(f64, bool)> {
    let parse = |text: &str| text.parse::<f64>().ok();
    if let Some(value) = parse(token.strip_suffix('%').unwrap_or(token)) {
        return Some((value, false));
    }
    let sentence = token.strip_suffix('.')?;
    parse(sentence.strip_suffix('%').unwrap_or(sentence)).map(|value| (value, true))
}

/// Whether the number `token` continues in `rest` after a decimal or thousands separator.
fn continues(token: &str, rest: &str) -> bool {
    let mut characters = rest.chars();
    let Some(sign) = characters.next() else { return false };
    let digits = characters.take_while(char::is_ascii_digit).count();
    match sign {
        ',' | '\'' | '\u{a0}' | '\u{2009}' | '\u{202f}' => digits > 0,
        // Group of thousands: `1 234`.
        ' ' => {
            let is_group =
                token.len() <= 4 && token.trim_start_matches(['+', '-']).bytes().all(|byte| byte.is_ascii_digit());
            is_group && digits == 3 && rest[4..].chars().next().is_none_or(is_separator)
        }
        _ => false,
    }
}
