//! Boundaries of names in a line.

/// Words before a message in log lines, or between two pairs, without a separator after them.
const FREE_WORDS: [&str; 21] = [
    "TRACE", "DEBUG", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "CRITICAL", "FATAL", "AM", "PM", "UTC", "GMT",
    "True", "False", "None", "true", "false", "null", "nan", "inf",
];

/// Words whose number belongs to the name: `top 5 accuracy` is a different metric than `accuracy`.
const NUMBERED_WORDS: [&str; 5] = ["top", "class", "fold", "label", "layer"];

/// Maximum number of further words that belong to a name; a guess.
const MAX_FURTHER_WORDS: usize = 3;

/// Whether `character` separates names and values.
pub(super) fn is_separator(character: char) -> bool {
    character.is_whitespace() || character.is_control() || ",;|()[]{}\"'<>".contains(character)
}

/// Start of the name that continues at `at`; `at` itself if no text before it belongs to the name.
pub(super) fn name_start(line: &str, at: usize) -> usize {
    let before = &line[..at];
    let Some(last) = before.chars().next_back() else { return at };
    if last.is_whitespace() {
        return words_start(before).unwrap_or(at);
    }
    if is_separator(last) {
        return at;
    }
    let start = before.rfind(is_separator).map_or(0, |index| index + char_len(before, index));
    match before[start..].strip_suffix(':') {
        Some(prefix) if is_log_prefix(&before[..start], prefix) => at,
        _ => start,
    }
}

/// Whether `prefix`, which directly follows `before` and precedes a colon, is a log prefix: `INFO:root:`,
/// `task.py:57:`, `[1,0]<stdout>:`.
pub(super) fn is_log_prefix(before: &str, prefix: &str) -> bool {
    let first = prefix.split(':').next().unwrap_or(prefix);
    let last = prefix.rsplit(':').next().unwrap_or(prefix);
    let follows_bracket = || before.ends_with([']', ')', '>', '}']);
    if last.is_empty() {
        return follows_bracket();
    }
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit());
    is_number || [first, last].iter().any(|word| FREE_WORDS.contains(word))
}

/// Start of the words at the end of `before` that belong to the following name; `None` if there are none. `before` ends
/// with a blank.
fn words_start(before: &str) -> Option<usize> {
    let mut start = None;
    let mut text = before;
    for _ in 0..MAX_FURTHER_WORDS {
        match word_start(text) {
            Some(word) => start = Some(word),
            None => break,
        }
        text = &before[..start?];
        if !text.ends_with(char::is_whitespace) {
            break;
        }
    }
    start
}

/// Start of the last word of `before`, if it belongs to the following name: not a number, a pair, a log level, or text
/// that ends with a separator.
fn word_start(before: &str) -> Option<usize> {
    // Cursor movements used as line breaks are control characters.
    let text = before.trim_end_matches(|blank: char| blank.is_whitespace());
    let last = text.chars().next_back()?;
    if !(last.is_alphanumeric() || "_.!?\"'%".contains(last)) {
        return None;
    }
    let token = text.trim_end_matches(['"', '\'']);
    let start = token
        .rfind(|character: char| is_separator(character) && character != '\'')
        .map_or(0, |index| index + char_len(token, index));
    let word = &token[start..];
    let (start, word) = match word.rsplit_once(':') {
        Some((prefix, rest)) => (start + prefix.len() + 1, rest),
        None => (start, word),
    };
    let is_of_pair = word.contains('=') || token[..start].trim_end().ends_with('=');
    if is_of_pair || FREE_WORDS.contains(&word) || !word.contains(char::is_alphabetic) && !is_numbered(token, start) {
        return None;
    }
    let digits = word.trim_start_matches(['+', '-', '.']);
    if digits.starts_with(|first: char| first.is_ascii_digit()) && !is_numbered(token, start) {
        return None;
    }
    Some(start)
}

/// Whether the number at `start` follows one of [`NUMBERED_WORDS`].
fn is_numbered(text: &str, start: usize) -> bool {
    let word = text[..start].trim_end().rsplit(|character: char| !character.is_alphanumeric()).next();
    let word = word.unwrap_or_default();
    text[start..].starts_with(|first: char| first.is_ascii_digit())
        && NUMBERED_WORDS.iter().any(|numbered| numbered.eq_ignore_ascii_case(word))
}

fn char_len(text: &str, index: usize) -> usize {
    text[index..].chars().next().map_or(0, char::len_utf8)
}
