//! The command line.
//!
//! Exit codes: 0 success; 1 the job failed or was cancelled; 2 bad input (arguments, configuration, data folder);
//! 130 interrupted. `local train` passes on the exit code of the trainer instead.

mod bench;
mod client;
mod completions;
mod explain;
mod folder_args;
mod local;
mod logging;
mod output;
mod progress;
mod results;
mod run;
mod serve;
mod tokens;
#[cfg(feature = "otlp")]
mod traces;
mod validate;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::logging::LogFormat;
use self::progress::say;

/// Exit code for bad input.
const BAD_INPUT: u8 = 2;
/// Exit code after Ctrl-C, as shells have it.
const INTERRUPTED: u8 = 130;

/// Tunes hyperparameters: AI Platform's hptuning_config.yaml, trainers and REST clients, unchanged.
#[derive(Debug, Parser)]
#[command(name = "tunesmith", version, propagate_version = true)]
#[command(after_help = "Exit codes: 0 success, 1 the job failed, 2 bad input, 130 interrupted.")]
struct Cli {
    /// Form of the log on standard error.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    log_format: LogFormat,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a training job on this machine, trial by trial, and print the best hyperparameters.
    Run(Box<run::RunArgs>),
    /// Answer AI Platform's requests over HTTP: jobs, studies, suggestions, reports.
    Serve(Box<serve::ServeArgs>),
    /// Say who may use a server.
    #[command(subcommand)]
    Tokens(tokens::TokensCommand),
    /// Run a trainer on this machine as it is, without a service around it.
    #[command(subcommand)]
    Local(local::LocalCommand),
    /// Check a configuration and print its search space.
    Validate(validate::Args),
    /// Submit, look at, change and cancel jobs, of a server or of a data folder.
    #[command(subcommand)]
    Jobs(client::JobsCommand),
    /// Create, look at and remove studies whose trials you run yourself.
    #[command(subcommand)]
    Studies(client::StudiesCommand),
    /// Ask for trials, say what came of them, and export them.
    #[command(subcommand)]
    Trials(client::TrialsCommand),
    /// Say what a job's trials tell of its hyperparameters: which matter, where the optimum lies, how sure that is.
    Explain(explain::ExplainArgs),
    /// Compare search algorithms on problems whose answers are known, offline.
    Bench(Box<bench::BenchArgs>),
    /// Print a completion script for a shell.
    Completions(completions::CompletionsArgs),
}

/// Parses the process's arguments, carries the command out, and tells the exit code.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let _logging = match logging::init(cli.log_format) {
        Ok(logging) => logging,
        Err(error) => {
            say(&format!("error: {error:#}"));
            return ExitCode::from(BAD_INPUT);
        }
    };
    let outcome = match cli.command {
        Command::Run(args) => run::run(*args, cli.log_format),
        Command::Serve(args) => serve::serve(&args),
        Command::Tokens(command) => tokens::tokens(&command),
        Command::Local(local::LocalCommand::Train(args)) => local::train(&args),
        Command::Validate(args) => {
            validate::run(&args, &mut std::io::stdout(), &mut std::io::stderr()).map_err(anyhow::Error::from)
        }
        Command::Jobs(command) => client::run(client::Command::Jobs(command)),
        Command::Studies(command) => client::run(client::Command::Studies(command)),
        Command::Trials(command) => client::run(client::Command::Trials(command)),
        Command::Explain(args) => explain::run(&args),
        Command::Bench(args) => bench::run(*args),
        Command::Completions(args) => completions::run(&args),
    };
    outcome.unwrap_or_else(|error| {
        say(&format!("error: {error:#}"));
        ExitCode::from(BAD_INPUT)
    })
}
