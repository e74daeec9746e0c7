//! Text of an output line as displayed.

use std::borrow::Cow;
use std::iter::Peekable;
use std::str::Chars;

const ESCAPE: char = '\u{1b}';

/// One-character form of `ESC [`.
const CONTROL_SEQUENCE: char = '\u{9b}';

/// Removes terminal escape sequences from `line`; those that move the cursor or erase text become a control character.
/// Minus signs, colons and equals signs get their ASCII form. Invalid UTF-8 becomes U+FFFD.
pub(crate) fn plain_text(line: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(line);
    let is_special =
        |character: char| matches!(character, ESCAPE | CONTROL_SEQUENCE | '\u{2212}' | '\u{ff1a}' | '\u{ff1d}');
    if (line.is_ascii() && !line.contains(&(ESCAPE as u8))) || !text.contains(is_special) {
        return text;
    }
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            ESCAPE => plain.extend(skip_escape(&mut characters)),
            CONTROL_SEQUENCE => plain.extend(skip_control_sequence(&mut characters)),
            '\u{2212}' => plain.push('-'),
            '\u{ff1a}' => plain.push(':'),
            '\u{ff1d}' => plain.push('='),
            _ => plain.push(character),
        }
    }
    Cow::Owned(plain)
}

/// Skips the rest of an escape sequence (ECMA-48, section 5.3), and returns its replacement.
fn skip_escape(characters: &mut Peekable<Chars>) -> Option<char> {
    match characters.next()? {
        '[' => skip_control_sequence(characters),
        // Strings: an operating system command, such as a link or a title, ends with BEL or ESC \.
        ']' | 'P' | 'X' | '^' | '_' => {
            while let Some(character) = characters.next() {
                let is_end = character == ESCAPE && characters.next_if_eq(&'\\').is_some();
                if is_end || character == '\u{7}' {
                    break;
                }
            }
            None
        }
        mut character => {
            while (' '..='/').contains(&character) {
                character = characters.next()?;
            }
            None
        }
    }
}

/// Skips parameters and final character of a control sequence. Colours have no replacement.
fn skip_control_sequence(characters: &mut Peekable<Chars>) -> Option<char> {
    let last = characters.find(|character| !(' '..='?').contains(character))?;
    (last != 'm').then_some('\0')
}
