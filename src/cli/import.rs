//! `tunesmith import`: writes a configuration from the file of another tool.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use tunesmith_config::{ConfigErrors, Document};
use tunesmith_files::RootedPath;
use tunesmith_importers::{Imported, Options};

use super::BAD_INPUT;
use super::client::OptunaArgs;
#[cfg(feature = "vizier")]
use super::client::VizierArgs;
use super::output::{notice, print};

/// Make a configuration or a study from what another tool has.
#[derive(Debug, Subcommand)]
pub(super) enum ImportCommand {
    /// Create a study with the trials of a study of Optuna.
    Optuna(Box<OptunaArgs>),
    /// Create a study with the trials of a study of OSS Vizier or Vertex AI.
    #[cfg(feature = "vizier")]
    Vizier(Box<VizierArgs>),
    /// Write a configuration from a sweep of Weights & Biases, in YAML or JSON.
    Wandb(ImportArgs),
    /// Write a configuration from an Experiment of Katib, in YAML or JSON.
    Katib(ImportArgs),
    /// Write a configuration from an OptimizationJob of Kubeflow, in YAML or JSON.
    Kubeflow(ImportArgs),
}

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// The file.
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    /// Configuration to write; `-` for standard output.
    #[arg(long, value_name = "FILE", default_value = "hptuning_config.yaml")]
    output: PathBuf,
    /// Replace the output if it exists.
    #[arg(long)]
    force: bool,
    /// Total number of trials; overrides that of the file.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    trials: Option<u32>,
    /// Accept the loss of fields without a counterpart that change the job. Without it, they are errors.
    #[arg(long)]
    accept_losses: bool,
}

type Importer = fn(&Document, Options) -> Result<Imported, ConfigErrors>;

/// # Errors
/// If the output cannot be written.
pub(super) fn wandb(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    run(args, "a sweep of Weights & Biases", tunesmith_importers::wandb)
}

/// # Errors
/// If the output cannot be written.
pub(super) fn katib(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    run(args, "an Experiment of Katib", tunesmith_importers::katib)
}

/// # Errors
/// If the output cannot be written.
pub(super) fn kubeflow(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    run(args, "an OptimizationJob of Kubeflow", tunesmith_importers::optimization_job)
}

fn run(args: &ImportArgs, tool: &str, import: Importer) -> anyhow::Result<ExitCode> {
    let (is_printed, name) = (args.output == Path::new("-"), args.output.display().to_string());
    if !is_printed && !args.force && args.output.try_exists()? {
        bail!("{name} exists; give --force to replace it, or another file with --output");
    }
    let read = Document::load(&args.source).and_then(|document| {
        let imported = import(&document, Options { max_trials: args.trials })?;
        if !imported.losses.is_empty() && !args.accept_losses {
            return Err(document.errors(imported.losses));
        }
        Ok((document.warnings(imported.losses.iter().cloned()), imported))
    });
    let (warnings, imported) = match read {
        Ok(read) => read,
        Err(errors) => {
            notice(&errors.to_string());
            if !args.accept_losses {
                notice("--accept-losses imports without fields whose loss changes the job");
            }
            return Ok(ExitCode::from(BAD_INPUT));
        }
    };
    let text = text(&args.source, tool, &imported)?;
    if let Err(errors) = tunesmith_config::parse(&name, &text) {
        notice(&format!("what was imported breaks a rule of configurations:\n\n{errors}"));
        return Ok(ExitCode::from(BAD_INPUT));
    }
    for warning in warnings {
        notice(&format!("{warning}\n"));
    }
    for note in &imported.notes {
        notice(&format!("note: {note}"));
    }
    if is_printed {
        print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let written = RootedPath::from(std::path::absolute(&args.output)?).replace(text.as_bytes(), false);
    written.with_context(|| format!("{name} cannot be written"))?;
    notice(&format!("wrote {name}; check it with `tunesmith validate`, and run it with `tunesmith run`"));
    Ok(ExitCode::SUCCESS)
}

/// The configuration, with what users should know as comments.
fn text(source: &Path, tool: &str, imported: &Imported) -> anyhow::Result<String> {
    let mut text = format!("# Imported from {tool}, {}.\n", source.display());
    for (path, loss) in &imported.losses {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "# Lost: {path} {loss}");
    }
    for note in &imported.notes {
        let _ = writeln!(text, "# {note}");
    }
    text.push_str(&yaml_serde::to_string(&imported.training_input)?);
    Ok(text)
}
