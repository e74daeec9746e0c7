//! Flags of a trainer, from a run with `--help`.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tunesmith_config::proposal::{Flag, parse_help};

/// Module that Python imports on start-up.
const READER: &str = include_str!("read_flags.py");
/// Timeout of `--help`. Importing a large library takes long.
const HELP_LIMIT: Duration = Duration::from_secs(120);
/// Polling interval for the end of the program.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

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
