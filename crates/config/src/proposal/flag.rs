//! Flags of a program, and their reading from the text of `--help`.

use serde::Deserialize;

/// A command-line flag.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Flag {
    /// Spellings, such as `-l` and `--learning-rate`.
    pub flags: Vec<String>,
    /// Parsing function, such as `int` or `float`.
    pub kind: Option<String>,
    pub default: Option<serde_json::Value>,
    pub choices: Option<Vec<String>>,
    /// Whether `--flag=value` is accepted.
    pub takes_one_value: bool,
    pub required: bool,
    pub help: Option<String>,
}

impl Flag {
    /// Parameter name: the long spelling without dashes.
    pub fn name(&self) -> Option<&str> {
        self.flags.iter().find_map(|flag| flag.strip_prefix("--")).filter(|name| !name.is_empty())
    }
}

/// Parses help text in argparse's layout: flags at the beginning of a line, followed by a placeholder or choices in
/// braces. Defaults are read from `(default: X)` or `[default: X]`.
pub fn parse_help(text: &str) -> Vec<Flag> {
    let mut found: Vec<Flag> = Vec::new();
    for line in text.lines() {
        let line = line.trim_start_matches('\t');
        let trimmed = line.trim();
        let is_flag = line.starts_with(' ') && trimmed.starts_with('-');
        if !is_flag {
            // Description of the previous flag.
            if let (true, Some(flag)) = (line.starts_with("    "), found.last_mut()) {
                describe(flag, trimmed);
            }
            continue;
        }
        let (usage, help) = trimmed.split_once("  ").unwrap_or((trimmed, ""));
        let mut flag = Flag {
            flags: Vec::new(),
            kind: None,
            default: None,
            choices: None,
            takes_one_value: false,
            required: false,
            help: None,
        };
        for form in
            usage.split(", -").enumerate().map(|(at, form)| if at == 0 { form.to_owned() } else { format!("-{form}") })
        {
            let (name, value) = form.split_once([' ', '=']).unwrap_or((&form, ""));
            flag.flags.push(name.to_owned());
            let value = value.trim();
            if let Some(choices) = value.strip_prefix('{').and_then(|value| value.strip_suffix('}')) {
                flag.choices = Some(choices.split(',').map(str::to_owned).collect());
            }
            flag.takes_one_value = !value.is_empty() && !value.contains([' ', '[']);
        }
        describe(&mut flag, help);
        found.push(flag);
    }
    found
}

/// Appends a line to the description and parses a default in it.
fn describe(flag: &mut Flag, line: &str) {
    let line = line.trim();
    if line.is_empty() {
        return;
    }
    let help = flag.help.get_or_insert_default();
    if !help.is_empty() {
        help.push(' ');
    }
    help.push_str(line);
    for (start, end) in [("(default: ", ')'), ("[default: ", ']')] {
        let Some(value) = help.split_once(start).and_then(|(_, rest)| Some(rest.split_once(end)?.0)) else { continue };
        flag.kind = match value {
            _ if value.parse::<i64>().is_ok() => Some("int".to_owned()),
            _ if value.parse::<f64>().is_ok_and(f64::is_finite) => Some("float".to_owned()),
            _ => None,
        };
        flag.default = Some(serde_json::from_str(value).unwrap_or_else(|_| serde_json::json!(value)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_text_of_any_program_is_read() {
        let text = "Usage: train [OPTIONS]\n\nOptions:\n  -h, --help            show this help\n  \
                    -l RATE, --learning-rate RATE\n                        step of the descent\n                        \
                    (default: 0.01)\n  --layers N  number of layers [default: 3]\n  --optimizer {adam,sgd}  (default: adam)\n  \
                    --verbose             print more\n  --sizes N [N ...]     several\n  --name NAME\n";
        let flags = parse_help(text);
        let names: Vec<&str> = flags.iter().filter_map(Flag::name).collect();
        assert_eq!(names, ["help", "learning-rate", "layers", "optimizer", "verbose", "sizes", "name"]);
        let kinds: Vec<Option<&str>> = flags.iter().map(|flag| flag.kind.as_deref()).collect();
        assert_eq!(kinds, [None, Some("float"), Some("int"), None, None, None, None]);
        assert_eq!(flags[1].default, Some(serde_json::json!(0.01)));
        assert_eq!(flags[3].choices, Some(vec!["adam".to_owned(), "sgd".to_owned()]));
        let one: Vec<bool> = flags.iter().map(|flag| flag.takes_one_value).collect();
        assert_eq!(one, [false, true, true, true, false, false, true]);
        assert!(parse_help("no flags here\n").is_empty());
    }
}
