//! Flags of a trainer, from a Python argument parser or the text of `--help`.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Deserialize;

/// Module that Python imports on start-up.
const READER: &str = include_str!("read_flags.py");
/// Timeout of `--help`. Importing a large library takes long.
const HELP_LIMIT: Duration = Duration::from_secs(120);
/// Polling interval for the end of the program.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Flag {
    /// Spellings, such as `-l` and `--learning-rate`.
    pub(super) flags: Vec<String>,
    /// Parsing function, such as `int` or `float`.
    pub(super) kind: Option<String>,
    pub(super) default: Option<serde_json::Value>,
    pub(super) choices: Option<Vec<String>>,
    /// Whether `--flag=value` is accepted.
    pub(super) takes_one_value: bool,
    pub(super) required: bool,
    pub(super) help: Option<String>,
}

impl Flag {
    /// Parameter name: the long spelling without dashes.
    pub(super) fn name(&self) -> Option<&str> {
        self.flags.iter().find_map(|flag| flag.strip_prefix("--")).filter(|name| !name.is_empty())
    }
}

/// Runs `command --help` and returns its flags.
///
/// # Errors
/// If the program cannot be started, does not end, fails, or prints no flags.
pub(super) fn read(command: &[String]) -> anyhow::Result<Vec<Flag>> {
    let folder = tempfile::TempDir::with_prefix("tunesmith-init-").context("a temporary folder cannot be created")?;
    std::fs::write(folder.path().join("sitecustomize.py"), READER)?;
    let mut output = run(command, folder.path(), false)?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() && text.contains("ModuleNotFoundError") {
        // The flags do not depend on the trainer's libraries.
        output = run(command, folder.path(), true)?;
    }
    if let Ok(json) = std::fs::read_to_string(folder.path().join("flags.json")) {
        return serde_json::from_str(&json).context("the flags of the program cannot be read");
    }
    let help = String::from_utf8_lossy(&output.stdout);
    let flags = parse_help(&help);
    if flags.is_empty() {
        let lines: Vec<&str> = text.trim().lines().collect();
        let quote = lines[lines.len().saturating_sub(5)..].join("\n  ");
        let quote = if quote.is_empty() { "it printed nothing on standard error".to_owned() } else { quote };
        bail!("`{} --help` printed no flags ({}):\n  {quote}", command.join(" "), output.status);
    }
    Ok(flags)
}

fn run(command: &[String], folder: &Path, replaces_absent: bool) -> anyhow::Result<Output> {
    let Some((program, arguments)) = command.split_first() else { bail!("the command is empty") };
    let inherited = std::env::var_os("PYTHONPATH").filter(|paths| !paths.is_empty());
    let paths = std::iter::once(folder.to_owned()).chain(inherited.iter().flat_map(std::env::split_paths));
    let mut process = Command::new(program);
    process.args(arguments).arg("--help");
    process.env("PYTHONPATH", std::env::join_paths(paths)?).env("PYTHONDONTWRITEBYTECODE", "1").env("COLUMNS", "200");
    process.env("TUNESMITH_INIT_FLAGS", folder.join("flags.json"));
    if replaces_absent {
        process.env("TUNESMITH_INIT_ABSENT", "1");
    }
    let (stdout, stderr) = (folder.join("stdout"), folder.join("stderr"));
    process.stdin(Stdio::null()).stdout(std::fs::File::create(&stdout)?).stderr(std::fs::File::create(&stderr)?);
    let mut child = process.spawn().with_context(|| format!("`{program}` cannot be started"))?;
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() > HELP_LIMIT {
            child.kill()?;
            child.wait()?;
            bail!("`{} --help` did not end within {} s", command.join(" "), HELP_LIMIT.as_secs());
        }
        std::thread::sleep(POLL_INTERVAL);
    };
    Ok(Output { status, stdout: std::fs::read(stdout)?, stderr: std::fs::read(stderr)? })
}

/// Parses help text in argparse's layout: flags at the beginning of a line, followed by a placeholder or choices in
/// braces. Defaults are read from `(default: X)` or `[default: X]`.
fn parse_help(text: &str) -> Vec<Flag> {
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
