//! `tunesmith bench`: compares search algorithms offline.

mod list;
mod report;
mod run;

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
    /// Write one report about several result folders.
    Report(report::ReportArgs),
    /// Compare two result folders. Exit code 1 if the results got worse.
    Compare(report::CompareArgs),
    /// List suites, algorithms, and the problems of a suite.
    List(list::ListArgs),
    /// Act as an external optimizer: answer the requests of a benchmark on standard input, one JSON object per line.
    #[command(name = "contestant")]
    Optimizer {
        /// Built-in algorithm, such as gp or grid:doubles=5.
        algorithm: String,
    },
}

pub(super) fn run(args: BenchArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        None => run::run(&args.run),
        Some(BenchCommand::Report(args)) => report::report(&args),
        Some(BenchCommand::Compare(args)) => report::compare(&args),
        Some(BenchCommand::List(args)) => list::run(&args),
        Some(BenchCommand::Optimizer { algorithm }) => {
            tunesmith_harness::serve(&algorithm, std::io::stdin().lock(), std::io::stdout().lock())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
