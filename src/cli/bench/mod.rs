//! `tunesmith bench`: compares search algorithms offline.

mod growth;
mod latency;
mod list;
mod report;
mod run;
mod service;

use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Compare search algorithms on problems with known optima.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct BenchArgs {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    #[command(flatten)]
    run: run::RunArgs,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Measure the time and memory of a suggestion for several numbers of completed trials.
    Latency(latency::LatencyArgs),
    /// Measure the speed of a server over HTTP, and its start.
    Service(service::ServiceArgs),
    /// Measure how time and memory of a server grow with its studies.
    Growth(growth::GrowthArgs),
    /// Write one report on several result folders.
    Report(report::ReportArgs),
    /// Compare two result folders. Exit code 1 if the results became worse.
    Compare(report::CompareArgs),
    /// List suites, algorithms, and the problems of a suite.
    List(list::ListArgs),
    /// Act as an external optimizer: answer the requests of a benchmark on standard input, one JSON object per line.
    #[command(name = "contestant")]
    Optimizer {
        /// Built-in algorithm with options, such as gp or grid:doubles=5.
        algorithm: String,
    },
}

/// Runs the command.
pub(super) fn run(args: BenchArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        None => run::run(&args.run),
        Some(BenchCommand::Latency(args)) => latency::run(&args),
        Some(BenchCommand::Service(args)) => service::run(&args),
        Some(BenchCommand::Growth(args)) => growth::run(&args),
        Some(BenchCommand::Report(args)) => report::report(&args),
        Some(BenchCommand::Compare(args)) => report::compare(&args),
        Some(BenchCommand::List(args)) => list::run(&args),
        Some(BenchCommand::Optimizer { algorithm }) => {
            tunesmith_harness::serve(&algorithm, std::io::stdin().lock(), std::io::stdout().lock())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
