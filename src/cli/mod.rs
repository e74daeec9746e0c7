//! Command line.
//!
//! Exit codes: 0 success; 1 the job failed or was cancelled; 2 invalid input (arguments, configuration, data folder);
//! 74 the disk is rejecting writes; 130 interrupted. `local train` returns the exit code of the trainer instead.

mod backup;
#[cfg(feature = "bench")]
mod bench;
mod busy;
pub(crate) mod client;
mod completions;
#[cfg(feature = "console")]
mod console;
mod continuation;
mod doctor;
mod executor_args;
mod explain;
mod folder_args;
mod help;
mod import;
mod init;
mod instances;
mod isolation_args;
mod job_output;
mod local;
mod local_predict;
mod log_args;
mod logging;
mod man_pages;
mod no_counterpart;
mod output;
mod output_file;
mod progress;
mod report;
mod results;
mod run;
mod run_again;
mod run_gcloud;
mod run_input;
mod run_logs;
mod run_tracking;
mod self_signed;
mod serve;
mod study_view;
mod table;
mod tokens;
#[cfg(feature = "otlp")]
mod traces;
mod train;
mod trial_count;
mod trial_view;
mod validate;
mod version;
mod webhooks;

use std::io;
use std::process::ExitCode;

use clap::{FromArgMatches, Parser, Subcommand};
use tunesmith_agent::AgentArgs;
use tunesmith_files::use_private_umask;

use self::logging::LogFormat;
use self::output::notice;
use crate::allocator::keep_free_memory;
pub(crate) use study_view::recommended;
use tunesmith_store::StoreFault;

/// Exit code for invalid input.
const BAD_INPUT: u8 = 2;
/// Exit code if the disk of the data folder is rejecting writes, or another program changed the store (`EX_IOERR`).
const STORE_FAILED: u8 = 74;
/// Exit code after Ctrl-C, as in shells.
const INTERRUPTED: u8 = 130;
/// Exit code after the reader of the output has exited, as in shells: 128 plus the number of SIGPIPE.
const CLOSED_OUTPUT: u8 = 141;

/// Tune hyperparameters. Works with the hptuning_config.yaml, trainers and REST clients of AI Platform unchanged.
#[derive(Debug, Parser)]
#[command(name = "tunesmith", version = version::version(), propagate_version = true)]
#[command(after_help = "Exit codes: 0 success, 1 the job failed, 2 invalid input, 74 the disk takes no writes, \
                        130 interrupted.")]
struct Cli {
    /// Format of the log on standard error.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    log_format: LogFormat,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a training job on this machine, trial by trial, and print the best hyperparameters.
    Run(Box<run::RunArgs>),
    /// Serve AI Platform's API over HTTP: jobs, studies, suggestions, reports.
    Serve(Box<serve::ServeArgs>),
    /// Show the jobs and studies of a data folder in a browser, read-only, even while `tunesmith run` works in it.
    #[cfg(feature = "console")]
    Console(console::ConsoleArgs),
    /// Manage the access tokens of a server.
    #[command(subcommand)]
    Tokens(tokens::TokensCommand),
    /// Check the webhooks of a server.
    #[command(subcommand)]
    Webhooks(webhooks::WebhooksCommand),
    /// Back up a data folder, even while a server uses its SQLite store.
    Backup(backup::BackupArgs),
    /// Restore a backup to a new data folder.
    Restore(backup::RestoreArgs),
    /// Manage the store of a data folder.
    #[command(subcommand)]
    Store(backup::StoreCommand),
    /// Train a model from a CSV file with a built-in algorithm, and tune it.
    Train(train::TrainArgs),
    /// Run a trainer or a model once on this machine, without a server.
    #[command(subcommand)]
    Local(local::LocalCommand),
    /// Write a commented configuration, from the flags of a trainer or from answers.
    Init(init::InitArgs),
    /// Check a configuration and print its search space.
    Validate(validate::Args),
    /// Make a configuration or a study from what another tool has.
    #[command(subcommand)]
    Import(import::ImportCommand),
    /// Check this machine for the requirements of jobs, and suggest remedies.
    Doctor(doctor::DoctorArgs),
    /// Submit, inspect, change and cancel jobs of a server or data folder.
    #[command(subcommand)]
    Jobs(client::JobsCommand),
    /// Create, inspect and delete studies whose trials you run yourself.
    #[command(subcommand)]
    Studies(client::StudiesCommand),
    /// Create, inspect and delete models for prediction.
    #[command(subcommand)]
    Models(client::ModelsCommand),
    /// Create, inspect and delete versions of models.
    #[command(subcommand)]
    Versions(client::VersionsCommand),
    /// Predict with a model.
    #[command(disable_version_flag = true)]
    Predict(client::PredictArgs),
    /// Request trials, report their results, and export them.
    #[command(subcommand)]
    Trials(client::TrialsCommand),
    /// Send a job or study with its trials to MLflow, or write it for TensorBoard.
    #[command(subcommand)]
    Export(client::ExportCommand),
    /// Analyse a job or study, even while it runs: the importance of its hyperparameters, the predicted optimum, and
    /// how reliable both are.
    Explain(explain::ExplainArgs),
    /// Write the summary, plots and trials of a job or study as a single HTML page that needs no server or internet
    /// access.
    Report(report::ReportArgs),
    /// Serve tools for agents over the Model Context Protocol, on standard input and output.
    ///
    /// Hosts of agents start this command. With a server, tools are requests of its API with the access token. With a data
    /// folder, this process also runs the jobs until the input ends; programs of trials that still run go on, and the next
    /// process on the folder adopts them. A server also has these tools itself, at /mcp.
    #[cfg(feature = "mcp")]
    Mcp(client::mcp::McpArgs),
    /// Compare search algorithms offline, on problems with known optima.
    #[cfg(feature = "bench")]
    Bench(Box<bench::BenchArgs>),
    /// Run one attempt of a trial for a server; started by engines. See docs/reference/agent.md.
    #[command(hide = true)]
    Agent(AgentArgs),
    /// Print a completion script for a shell.
    Completions(completions::CompletionsArgs),
    /// Write the man pages of all commands to a folder.
    #[command(hide = true)]
    ManPages(man_pages::ManPagesArgs),
    #[command(flatten)]
    NoCounterpart(no_counterpart::NoCounterpart),
}

impl Command {
    /// Whether the command writes files that other users of the machine must not read.
    fn writes_secrets(&self) -> bool {
        #[cfg(feature = "bench")]
        if matches!(self, Self::Bench(_)) {
            return false;
        }
        !matches!(self, Self::Validate(_) | Self::Completions(_) | Self::ManPages(_))
    }
}

/// Whether the reader of the output, such as `head`, has exited. Like a program killed by SIGPIPE, the command then
/// ends without a message.
fn is_closed_output(error: &anyhow::Error) -> bool {
    let is_pipe = |error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
    error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>()).any(is_pipe)
}

/// Parses the process arguments, runs the command, and returns the exit code.
pub fn main() -> ExitCode {
    keep_free_memory();
    let (command, arguments) = help::command_and_arguments(std::env::args_os());
    // The types are derived from the same command, so that every match has its fields.
    let cli = Cli::from_arg_matches(&command.get_matches_from(arguments)).unwrap_or_else(|error| error.exit());
    let _logging = match logging::init(cli.log_format) {
        Ok(logging) => logging,
        Err(error) => {
            notice(&format!("error: {error:#}"));
            return ExitCode::from(BAD_INPUT);
        }
    };
    if cli.command.writes_secrets() {
        use_private_umask();
    }
    let outcome = match cli.command {
        Command::Run(args) => run::run(*args, cli.log_format),
        Command::Train(args) => train::run(&args, cli.log_format),
        Command::Serve(args) => serve::serve(&args),
        #[cfg(feature = "console")]
        Command::Console(args) => console::run(&args),
        Command::Agent(args) => args.run().map_err(anyhow::Error::from),
        Command::Tokens(command) => tokens::tokens(&command),
        Command::Webhooks(command) => webhooks::run(&command),
        Command::Backup(args) => backup::back_up_folder(&args),
        Command::Restore(args) => backup::restore_folder(&args),
        Command::Store(command) => backup::store(&command),
        Command::Local(local::LocalCommand::Train(args)) => local::train(&args),
        Command::Local(local::LocalCommand::Predict(args)) => local_predict::predict(&args),
        Command::Init(args) => init::run(&args),
        Command::Import(import::ImportCommand::Optuna(args)) => client::run(client::Command::ImportOptuna(*args)),
        #[cfg(feature = "vizier")]
        Command::Import(import::ImportCommand::Vizier(args)) => client::run(client::Command::ImportVizier(*args)),
        Command::Import(import::ImportCommand::Wandb(args)) => import::wandb(&args),
        Command::Import(import::ImportCommand::Katib(args)) => import::katib(&args),
        Command::Import(import::ImportCommand::Kubeflow(args)) => import::kubeflow(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Validate(args) => {
            validate::run(&args, &mut std::io::stdout(), &mut std::io::stderr()).map_err(anyhow::Error::from)
        }
        Command::Jobs(command) => client::run(client::Command::Jobs(command)),
        Command::Studies(command) => client::run(client::Command::Studies(command)),
        Command::Models(command) => client::run(client::Command::Models(command)),
        Command::Versions(command) => client::run(client::Command::Versions(command)),
        Command::Predict(args) => client::run(client::Command::Predict(args)),
        Command::Trials(command) => client::run(client::Command::Trials(command)),
        Command::Export(command) => client::run(client::Command::Export(command)),
        Command::Explain(args) => explain::run(&args),
        Command::Report(args) => report::run(&args),
        #[cfg(feature = "mcp")]
        Command::Mcp(args) => client::mcp::run(&args),
        #[cfg(feature = "bench")]
        Command::Bench(args) => bench::run(*args),
        Command::Completions(args) => completions::run(&args),
        Command::ManPages(args) => man_pages::run(&args),
        Command::NoCounterpart(command) => no_counterpart::refuse(&command),
    };
    outcome.unwrap_or_else(|error| {
        if is_closed_output(&error) {
            return ExitCode::from(CLOSED_OUTPUT);
        }
        // The text of configuration errors already starts with `error:`.
        let errors = error.downcast_ref::<tunesmith_config::ConfigErrors>();
        notice(&errors.map_or_else(|| format!("error: {error:#}"), ToString::to_string));
        ExitCode::from(if is_of_the_medium(&error) { STORE_FAILED } else { BAD_INPUT })
    })
}

/// Whether `error` is due to a disk that is rejecting writes, or to a store changed by another program.
fn is_of_the_medium(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let of_system = cause.downcast_ref::<io::Error>().map(StoreFault::from);
        cause.is::<StoreFault>() || of_system.is_some_and(|fault| !matches!(fault, StoreFault::Failed { .. }))
    })
}
