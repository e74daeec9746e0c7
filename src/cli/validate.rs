//! `tunesmith validate`: checks a configuration and prints its search space.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use super::BAD_INPUT;
use super::client::TRAINING_FLAGS;
use crate::composition;
#[cfg(feature = "vizier")]
use crate::vertex_file::{Additions, VertexFile};
use tunesmith_config::{Completion, HptuningConfig};

/// Check a configuration and print its search space.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The hptuning_config.yaml, in YAML or JSON.
    #[arg(long, value_name = "FILE", required_unless_present = "schema")]
    config: Option<PathBuf>,
    /// Print the JSON Schema of configurations instead.
    #[arg(long, conflicts_with = "config")]
    schema: bool,
}

/// Writes the search space to `out`, warnings and errors to `err`. The exit code is 0 for a valid configuration,
/// otherwise 2.
///
/// # Errors
/// If `out` or `err` is not writable.
pub(super) fn run(args: &Args, out: &mut impl Write, err: &mut impl Write) -> io::Result<ExitCode> {
    let Some(path) = &args.config else {
        writeln!(out, "{:#}", tunesmith_config::json_schema().to_value())?;
        return Ok(ExitCode::SUCCESS);
    };
    #[cfg(feature = "vizier")]
    if let Some(file) = VertexFile::load(path, Additions::default()) {
        let read = file.map_err(anyhow::Error::from).and_then(|file| Ok((file.config()?, file.format())));
        return match read {
            Ok((config, format)) => valid(&config, format, out, err),
            Err(errors) => {
                writeln!(err, "{errors}")?;
                Ok(ExitCode::from(BAD_INPUT))
            }
        };
    }
    // The command that submits the job may add fields.
    let completion = Completion { flags: TRAINING_FLAGS, is_open: true, ..Completion::default() };
    match tunesmith_config::load_completed(path, &completion) {
        Ok(config) => valid(&config, "training input of AI Platform", out, err),
        Err(errors) => {
            writeln!(err, "{errors}")?;
            Ok(ExitCode::from(BAD_INPUT))
        }
    }
}

fn valid(config: &HptuningConfig, format: &str, out: &mut impl Write, err: &mut impl Write) -> io::Result<ExitCode> {
    for warning in &config.warnings {
        writeln!(err, "{warning}\n")?;
    }
    write!(out, "{}", tunesmith_config::describe(config))?;
    writeln!(out, "{:<15} {format}", "format")?;
    for hint in tunesmith_config::hints(config, composition::processors().get(), None) {
        writeln!(err, "hint: {hint}")?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn validate(config: &str) -> (String, String, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.yaml");
        std::fs::write(&path, config).unwrap();
        let cli = Cli::try_parse_from(["validate", "--config", path.to_str().unwrap()]).unwrap();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let code = run(&cli.args, &mut out, &mut err).unwrap();
        (format!("{code:?}"), String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    #[test]
    fn a_valid_config_prints_its_search_space() {
        let params = "[{parameterName: x, type: INTEGER, minValue: 1, maxValue: 3}]";
        let (code, out, err) =
            validate(&format!("hyperparameters: {{goal: MAXIMIZE, maxTrials: 3, params: {params}}}"));
        assert_eq!(code, format!("{:?}", ExitCode::SUCCESS));
        assert!(out.contains("1 to 3"), "{out}");
        assert_eq!(err, "");
        let (code, _, err) = validate(&format!("hyperparameters: {{goal: MAXIMIZE, maxTrials: 4, params: {params}}}"));
        assert_eq!(code, format!("{:?}", ExitCode::SUCCESS));
        assert!(err.starts_with("hint: maxTrials is 4, but the search space has only 3 points"), "{err}");
    }

    #[test]
    fn an_invalid_config_prints_its_errors_and_exits_with_2() {
        let (code, out, err) = validate("hyperparameters: {goal: UP, params: []}");
        assert_eq!(code, format!("{:?}", ExitCode::from(2)));
        assert_eq!(out, "");
        assert!(err.contains("2 errors in"), "{err}");
    }
}
