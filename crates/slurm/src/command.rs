//! Slurm commands: environment, timeout and output.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Command timeout. A command that cannot reach the controller gives up after about 10 s; `sbatch` waits longer while
/// the controller is overloaded.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Prefixes of removed variables, which change the behaviour or output of commands. The server may itself run in a
/// Slurm job.
const REMOVED_PREFIXES: [&str; 5] = ["SLURM_", "SQUEUE_", "SCANCEL_", "SCONTROL_", "SINFO_"];

/// Exceptions: variables that select the cluster and the credentials.
const KEPT: [&str; 3] = ["SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT"];

/// `sbatch` variables that contradict options of every submission.
const REMOVED: [&str; 6] =
    ["SBATCH_ARRAY_INX", "SBATCH_REQUEUE", "SBATCH_NO_REQUEUE", "SBATCH_WAIT", "SBATCH_EXPORT", "SBATCH_TEST_ONLY"];

/// Slurm programs: paths, or names to look up on `PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlurmCommands {
    pub sbatch: PathBuf,
    pub squeue: PathBuf,
    pub scancel: PathBuf,
    pub scontrol: PathBuf,
}

impl Default for SlurmCommands {
    fn default() -> Self {
        let [sbatch, squeue, scancel, scontrol] = ["sbatch", "squeue", "scancel", "scontrol"].map(PathBuf::from);
        Self { sbatch, squeue, scancel, scontrol }
    }
}

/// A failed command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error("{} cannot be started: {source}", program.display())]
    NotStarted {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Timed out and killed. The operation may have taken effect.
    #[error("{} did not end within {} s", program.display(), TIMEOUT.as_secs())]
    TimedOut { program: PathBuf },
    #[error("{message}")]
    Failed {
        /// Standard error, or standard output if that is empty, without the program prefix.
        message: String,
    },
}

/// Runs a Slurm command with `input` and returns its standard output. Dropping the future kills it.
///
/// `config_file` is the path of Slurm's configuration; `None` for the environment's.
pub(crate) async fn run(
    program: &PathBuf,
    arguments: &[String],
    input: &str,
    config_file: Option<&Path>,
) -> Result<String, CommandError> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A new process group, so that Ctrl-C cannot kill the command between submission and response.
    command.process_group(0).kill_on_drop(true);
    for (name, _) in std::env::vars_os() {
        let Some(text) = name.to_str() else { continue };
        let is_removed = REMOVED.contains(&text)
            || (REMOVED_PREFIXES.iter().any(|prefix| text.starts_with(prefix)) && !KEPT.contains(&text));
        if is_removed {
            command.env_remove(&name);
        }
    }
    if let Some(file) = config_file {
        command.env("SLURM_CONF", file).env_remove("SLURM_CLUSTERS");
    }
    let not_started = |source| CommandError::NotStarted { program: program.clone(), source };
    let mut child = command.spawn().map_err(not_started)?;
    let mut stdin = child.stdin.take();
    let talk = async {
        if let Some(stdin) = &mut stdin {
            // A program that ignores its input reports errors through its exit code.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        drop(stdin);
        child.wait_with_output().await
    };
    let output = match tokio::time::timeout(TIMEOUT, talk).await {
        Ok(output) => output.map_err(not_started)?,
        Err(_) => return Err(CommandError::TimedOut { program: program.clone() }),
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    // `scontrol` writes some messages to standard output.
    let [errors, text] = [&output.stderr, &output.stdout].map(|bytes| String::from_utf8_lossy(bytes));
    let text = if errors.trim().is_empty() { text } else { errors };
    let lines: Vec<&str> = text.lines().map(without_prefix).filter(|line| !line.is_empty()).collect();
    let message = if lines.is_empty() { output.status.to_string() } else { lines.join("; ") };
    Err(CommandError::Failed { message })
}

/// Strips the program name and level from a Slurm message.
fn without_prefix(line: &str) -> &str {
    let line = line.trim();
    ["error: ", "fatal: "].iter().find_map(|level| line.split_once(level)).map_or(line, |(_, message)| message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn message_of_a_failed_command_has_no_prefix() {
        let script = "cat; echo 'sbatch: error: a b' >&2; echo >&2; echo 'see c' >&2; exit 1".to_owned();
        let result = run(&"sh".into(), &["-c".to_owned(), script], "input", None).await;
        let Err(CommandError::Failed { message }) = result else { panic!("{result:?}") };
        assert_eq!(message, "a b; see c");
    }

    #[tokio::test]
    async fn missing_program_is_named() {
        let error = run(&"/no/such/sbatch".into(), &[], "", None).await.unwrap_err();
        assert!(error.to_string().starts_with("/no/such/sbatch cannot be started: "), "{error}");
    }

    #[tokio::test]
    async fn configuration_file_is_that_of_the_cluster() {
        let script = "echo \"$SLURM_CONF ${SLURM_CLUSTERS-none}\"".to_owned();
        let file = Path::new("/etc/a/slurm.conf");
        let output = run(&"sh".into(), &["-c".to_owned(), script], "", Some(file)).await.unwrap();
        assert_eq!(output, "/etc/a/slurm.conf none\n");
    }
}
