//! `tunesmith init`: writes a commented configuration, from the flags of a trainer or from answers.

mod dialogue;
mod flags;

use std::fs::OpenOptions;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};

use self::dialogue::Dialogue;
use super::output::notice;
use super::results::shell_word;
use tunesmith_algorithms::problem::Goal;
use tunesmith_config::proposal::{self, Draft, Parameter, Proposal, usual_goal};

#[derive(Debug, Args)]
pub(super) struct InitArgs {
    /// File to write.
    #[arg(long, value_name = "FILE", default_value = "hptuning_config.yaml")]
    output: PathBuf,
    /// Overwrite an existing file.
    #[arg(long)]
    force: bool,
    /// Name of the metric reported by the trainer.
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    /// Goal of the metric. Inferred from its name by default: losses and errors are minimized.
    #[arg(long, value_enum, ignore_case = true)]
    goal: Option<GoalChoice>,
    /// Total number of trials. By default, ten per parameter.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    trials: Option<u32>,
    /// Number of concurrent trials. By default, 1.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    parallel: Option<u32>,
    /// Ask about the metric, each range, conditions and numbers of trials. The default if standard input is a terminal.
    #[arg(long)]
    interactive: bool,
    /// Never ask.
    #[arg(long, conflicts_with = "interactive")]
    no_input: bool,
    /// Command of the trainer, such as `python3 -m trainer.task`. It is run with --help to read its flags, with empty
    /// stand-ins for modules that are not installed.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum GoalChoice {
    Maximize,
    Minimize,
}

pub(super) fn run(args: &InitArgs) -> anyhow::Result<ExitCode> {
    if !args.force && args.output.try_exists()? {
        bail!("{} exists; give --force to replace it, or another file with --output", args.output.display());
    }
    let asks = !args.no_input && (args.interactive || io::stdin().is_terminal());
    let mut input = io::stdin().lock();
    let mut dialogue = asks.then(|| Dialogue::new(&mut input as &mut dyn BufRead));
    let draft = draft(args, dialogue.as_mut())?;
    let text = draft.text();
    // Validate before writing: `tunesmith validate` must accept the output of this command.
    if let Err(errors) = tunesmith_config::parse(&args.output.display().to_string(), &text) {
        bail!("the answers do not make a valid configuration\n{errors}");
    }
    write(args, &text)?;
    let file = shell_word(&args.output.display().to_string());
    let command = draft.command_text();
    notice(&format!("wrote {file} with {} parameters; check the ranges, then:", draft.parameters.len()));
    notice(&format!("  tunesmith validate --config {file}"));
    notice(&format!("  tunesmith run --config {file} -- {command}"));
    Ok(ExitCode::SUCCESS)
}

fn draft(args: &InitArgs, mut dialogue: Option<&mut Dialogue<'_>>) -> anyhow::Result<Draft> {
    if args.command.is_empty() && dialogue.is_none() {
        bail!(
            "give the command of the trainer after `--`, such as `tunesmith init -- python3 train.py`, or --interactive"
        );
    }
    let proposals = match args.command.is_empty() {
        true => Vec::new(),
        false => proposal::propose(&flags::read(&args.command)?),
    };
    let metric = match (&args.metric, dialogue.as_deref_mut()) {
        (Some(metric), _) => metric.clone(),
        (None, Some(dialogue)) => dialogue.text("name of the metric that the trainer reports", Some("accuracy"))?,
        (None, None) => bail!("give --metric, the name of the metric that the trainer reports, such as accuracy"),
    };
    let usual = usual_goal(&metric);
    let goal = match (args.goal, dialogue.as_deref_mut()) {
        (Some(GoalChoice::Maximize), _) => Goal::Maximize,
        (Some(GoalChoice::Minimize), _) => Goal::Minimize,
        (None, Some(dialogue)) => dialogue.goal(&metric, usual)?,
        (None, None) => usual,
    };
    let (mut parameters, mut left_out): (Vec<Parameter>, Vec<(String, String)>) = (Vec::new(), Vec::new());
    for proposal in proposals {
        match (proposal, dialogue.as_deref_mut()) {
            (Proposal::LeftOut { name, reason }, _) => left_out.push((name, reason)),
            (Proposal::Parameter(parameter), None) => parameters.push(parameter),
            (Proposal::Parameter(parameter), Some(dialogue)) => match dialogue.confirm(parameter.clone())? {
                Some(parameter) => parameters.push(parameter),
                None => left_out.push((parameter.name, "left out by you".to_owned())),
            },
        }
    }
    if let Some(dialogue) = dialogue.as_deref_mut() {
        while let Some(parameter) = dialogue.parameter(parameters.is_empty())? {
            parameters.push(parameter);
        }
        proposal::drop_impossible(&mut parameters);
        dialogue.conditions(&mut parameters)?;
    }
    proposal::drop_impossible(&mut parameters);
    if parameters.is_empty() {
        let reasons: Vec<String> = left_out.iter().map(|(name, reason)| format!("--{name}: {reason}")).collect();
        bail!("the trainer has no flag with a range to search ({})", reasons.join("; "));
    }
    let usual = u32::try_from(10 * parameters.len()).unwrap_or(u32::MAX);
    let trials = match (args.trials, dialogue.as_deref_mut()) {
        (Some(trials), _) => trials,
        (None, Some(dialogue)) => dialogue.count("number of trials", usual)?,
        (None, None) => usual,
    };
    let parallel = match (args.parallel, dialogue) {
        (Some(parallel), _) => parallel,
        (None, Some(dialogue)) => {
            let processors = crate::composition::processors();
            dialogue.count(&format!("trials at once; this machine has {processors} processors"), 1)?
        }
        (None, None) => 1,
    };
    Ok(Draft { command: args.command.clone(), metric, goal, trials, parallel, parameters, left_out })
}

fn write(args: &InitArgs, text: &str) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).create_new(!args.force);
    let written = options.open(&args.output).and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("{} cannot be written", args.output.display()))
}
