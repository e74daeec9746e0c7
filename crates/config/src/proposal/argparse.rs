//! Flags of a Python script, from its calls of argparse's `add_argument`. The script is read, never run.

use std::iter::Peekable;
use std::str::Chars;

use serde_json::Value;

use super::Flag;

/// Maximum size of a script in bytes.
pub const MAX_SCRIPT_BYTES: usize = 1 << 20;

/// Part of a Python script, as far as calls with literal arguments need it.
#[derive(Debug, Clone, PartialEq)]
enum Token {
    Name(String),
    Text(String),
    Number(String),
    Sign(char),
    /// Text that is computed when the script runs: an f-string.
    Computed,
}

/// Flags of `script` in order, and the number of calls of `add_argument` that cannot be read: their
/// names are computed when it runs, or the call has no end.
pub fn parse_script(script: &str) -> (Vec<Flag>, usize) {
    let tokens = tokens(script);
    let (mut flags, mut unread) = (Vec::new(), 0);
    for (index, token) in tokens.iter().enumerate() {
        let is_call = *token == Token::Name("add_argument".to_owned())
            && tokens.get(index + 1) == Some(&Token::Sign('('))
            && index.checked_sub(1).is_none_or(|before| tokens[before] != Token::Name("def".to_owned()));
        if !is_call {
            continue;
        }
        match arguments(&tokens[index + 2..]).and_then(|arguments| flag(&arguments)) {
            Some(flag) if !flag.flags.is_empty() => flags.push(flag),
            // A positional argument.
            Some(_) => {}
            None => unread += 1,
        }
    }
    (flags, unread)
}

fn tokens(script: &str) -> Vec<Token> {
    let mut characters = script.chars().peekable();
    let mut tokens = Vec::new();
    while let Some(&next) = characters.peek() {
        match next {
            '#' => while characters.next_if(|c| *c != '\n').is_some() {},
            '"' | '\'' => tokens.push(Token::Text(text(&mut characters, false))),
            c if c.is_ascii_digit() => tokens.push(Token::Number(number(&mut characters))),
            c if c.is_alphabetic() || c == '_' => {
                let mut name = String::new();
                while let Some(c) = characters.next_if(|c| c.is_alphanumeric() || *c == '_') {
                    name.push(c);
                }
                let prefix = name.to_ascii_lowercase();
                let is_prefix = prefix.len() <= 2 && prefix.chars().all(|c| "rbuf".contains(c));
                if is_prefix && matches!(characters.peek(), Some('"' | '\'')) {
                    let literal = text(&mut characters, prefix.contains('r'));
                    tokens.push(if prefix.contains(['f', 'b']) { Token::Computed } else { Token::Text(literal) });
                } else {
                    tokens.push(Token::Name(name));
                }
            }
            c => {
                characters.next();
                if !c.is_whitespace() && c != '\\' {
                    tokens.push(Token::Sign(c));
                }
            }
        }
    }
    tokens
}

/// Reads a number, with the sign of its exponent.
fn number(characters: &mut Peekable<Chars<'_>>) -> String {
    let mut number = String::new();
    loop {
        let is_exponent = number.ends_with(['e', 'E']) && !number.starts_with("0x");
        match characters.next_if(|c| {
            c.is_ascii_alphanumeric() || ".".contains(*c) || *c == '_' || (is_exponent && "+-".contains(*c))
        }) {
            Some('_') => {}
            Some(c) => number.push(c),
            None => return number,
        }
    }
}

/// Reads a string literal from its opening quote.
fn text(characters: &mut Peekable<Chars<'_>>, is_raw: bool) -> String {
    let Some(quote) = characters.next() else { return String::new() };
    let mut text = String::new();
    let mut is_long = false;
    if characters.next_if_eq(&quote).is_some() {
        if characters.next_if_eq(&quote).is_none() {
            return text;
        }
        is_long = true;
    }
    let mut quotes = 0;
    while let Some(c) = characters.next() {
        if c == quote {
            quotes += 1;
            if !is_long || quotes == 3 {
                text.truncate(text.len() - (quotes - 1));
                return text;
            }
            text.push(c);
            continue;
        }
        quotes = 0;
        match c {
            '\\' if is_raw => {
                text.push('\\');
                text.extend(characters.next());
            }
            '\\' => match characters.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some('\n') | None => {}
                Some(other) => text.push(other),
            },
            // An unterminated literal.
            '\n' if !is_long => return text,
            _ => text.push(c),
        }
    }
    text
}

/// Arguments of a call, from the token after its opening bracket; `None` if the call has no end.
fn arguments(tokens: &[Token]) -> Option<Vec<&[Token]>> {
    let (mut arguments, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (index, token) in tokens.iter().enumerate() {
        match token {
            Token::Sign('(' | '[' | '{') => depth += 1,
            Token::Sign(')' | ']' | '}') if depth > 0 => depth -= 1,
            Token::Sign(')') => {
                arguments.push(&tokens[start..index]);
                arguments.retain(|argument| !argument.is_empty());
                return Some(arguments);
            }
            Token::Sign(',') if depth == 0 => {
                arguments.push(&tokens[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    None
}

/// Flag of a call; without spellings for a positional argument, `None` if the spellings are computed.
fn flag(arguments: &[&[Token]]) -> Option<Flag> {
    let mut flag = Flag {
        flags: Vec::new(),
        kind: None,
        default: None,
        choices: None,
        takes_one_value: true,
        required: false,
        help: None,
    };
    let mut has_computed_choices = false;
    for argument in arguments {
        let [Token::Name(name), Token::Sign('='), value @ ..] = argument else {
            let Some(Value::String(spelling)) = literal(argument) else { return None };
            if spelling.starts_with('-') {
                flag.flags.push(spelling);
            }
            continue;
        };
        match (name.as_str(), literal(value)) {
            ("default", value) => flag.default = value.filter(|value| !value.is_array()),
            ("help", Some(Value::String(help))) => flag.help = Some(help),
            ("required", value) => flag.required = value == Some(Value::Bool(true)),
            ("choices", Some(Value::Array(choices))) => {
                let text = |choice: &Value| choice.as_str().map_or_else(|| choice.to_string(), str::to_owned);
                flag.choices = Some(choices.iter().map(text).collect());
            }
            ("choices", _) => has_computed_choices = true,
            ("type", _) => flag.kind = name_of(value),
            ("action", Some(Value::String(action))) if action == "store" || action == "append" => {}
            ("nargs", Some(Value::Null)) => {}
            ("action" | "nargs", _) => flag.takes_one_value = false,
            _ => {}
        }
    }
    if has_computed_choices {
        // A range around the default could leave the choices.
        (flag.kind, flag.default) = (None, None);
    }
    Some(flag)
}

/// Last name of `module.name`.
fn name_of(value: &[Token]) -> Option<String> {
    match value {
        [.., Token::Name(name)] => Some(name.clone()),
        _ => None,
    }
}

/// Value of a literal; `None` for what is computed.
fn literal(tokens: &[Token]) -> Option<Value> {
    match tokens {
        [Token::Name(name)] => match name.as_str() {
            "None" => Some(Value::Null),
            "True" => Some(Value::Bool(true)),
            "False" => Some(Value::Bool(false)),
            _ => None,
        },
        [Token::Number(text)] => numeric(text),
        [Token::Sign('-'), Token::Number(text)] => numeric(&format!("-{text}")),
        [Token::Sign('[' | '('), items @ .., Token::Sign(']' | ')')] => {
            let items = [items, &[Token::Sign(')')]].concat();
            arguments(&items)?.into_iter().map(literal).collect::<Option<_>>().map(Value::Array)
        }
        [Token::Text(_), ..] => {
            let parts = tokens.iter().map(|token| match token {
                Token::Text(part) => Some(part.as_str()),
                _ => None,
            });
            parts.collect::<Option<String>>().map(Value::String)
        }
        _ => None,
    }
}

fn numeric(text: &str) -> Option<Value> {
    if let Ok(whole) = text.parse::<i64>() {
        return Some(Value::from(whole));
    }
    text.parse::<f64>().ok().filter(|number| number.is_finite()).map(Value::from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SCRIPT: &str = r##"
import argparse
# parser.add_argument("--commented", type=float)
DOC = """parser.add_argument("--quoted")"""
EPOCHS = 3
def add_argument(name): pass
parser = argparse.ArgumentParser()
parser.add_argument("data")
parser.add_argument("-l", "--learning-rate", type=float, default=1e-3,
                    help="step of the descent, "
                         'only for "sgd"')  # a comment, with (brackets
group.add_argument('--layers', type=int, default=EPOCHS)
parser.add_argument("--optimizer", choices=["adam", 'sgd'], default="adam", required=True)
parser.add_argument("--batch", type=int, choices=(16, 32, 64,), default=32)
parser.add_argument("--verbose", action="store_true")
parser.add_argument("--sizes", type=int, nargs="+", default=[1, 2])
parser.add_argument("--depth", type=int, choices=range(1, 5), default=2)
parser.add_argument(f"--{NAME}", type=float)
parser.add_argument("--shift", type=float, default=-1_000.5)
parser.add_argument("--cut", type=float, default=0.
"##;

    #[test]
    fn flags_are_read_from_literal_arguments() {
        let (flags, unread) = parse_script(SCRIPT);
        let names: Vec<&str> = flags.iter().filter_map(Flag::name).collect();
        let expected = ["learning-rate", "layers", "optimizer", "batch", "verbose", "sizes", "depth", "shift"];
        assert_eq!((names.as_slice(), unread), (expected.as_slice(), 2));
        assert_eq!(flags[0].flags, ["-l", "--learning-rate"]);
        assert_eq!((flags[0].kind.as_deref(), &flags[0].default), (Some("float"), &Some(json!(0.001))));
        assert_eq!(flags[0].help.as_deref(), Some("step of the descent, only for \"sgd\""));
        assert_eq!((flags[1].kind.as_deref(), &flags[1].default), (Some("int"), &None));
        assert_eq!((flags[2].required, &flags[2].choices), (true, &Some(vec!["adam".to_owned(), "sgd".to_owned()])));
        assert_eq!(flags[3].choices.as_deref().unwrap(), ["16", "32", "64"]);
        let one: Vec<bool> = flags.iter().map(|flag| flag.takes_one_value).collect();
        assert_eq!(one, [true, true, true, true, false, false, true, true]);
        assert_eq!((&flags[6].kind, &flags[6].default), (&None, &None), "its choices are computed");
        assert_eq!(flags[7].default, Some(json!(-1000.5)));
    }

    #[test]
    fn any_text_is_read() {
        for text in
            ["", "add_argument(", "x.add_argument('--a', default='", "\"\"\"", "'\\", "add_argument(((", "0x", "é'ü"]
        {
            let (flags, _) = parse_script(text);
            assert!(flags.is_empty(), "{text:?}: {flags:?}");
        }
    }
}
