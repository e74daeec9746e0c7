//! `tunesmith bench`: compares search algorithms, offline.

mod latency;
mod list;
mod report;
mod run;
mod service;

use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Compare search algorithms on problems whose answers are known.
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
    /// Measure the time and memory of a suggestion against the number of completed trials.
    Latency(latency::LatencyArgs),
    /// Measure how fast a server answers over HTTP, and how it starts.
    Service(service::ServiceArgs),
    /// Write the report on some folders of results, merged.
    Report(report::ReportArgs),
    /// Report what became better or worse between two folders of results; exit code 1 if something became worse.
    Compare(report::CompareArgs),
    /// List suites, algorithms, and the problems of a suite.
    List(list::ListArgs),
    /// Be an optimizer: answer the requests of a benchmark on standard input, a JSON object a line.
    #[command(name = "contestant")]
    Optimizer {
        /// One of our algorithms, with options: gp, grid:doubles=5.
        algorithm: String,
    },
}

/// Carries the command out.
pub(super) fn run(args: BenchArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        None => run::run(&args.run),
        Some(BenchCommand::Latency(args)) => latency::run(&args),
        Some(BenchCommand::Service(args)) => service::run(&args),
        Some(BenchCommand::Report(args)) => report::report(&args),
        Some(BenchCommand::Compare(args)) => report::compare(&args),
        Some(BenchCommand::List(args)) => list::run(&args),
        Some(BenchCommand::Optimizer { algorithm }) => {
            tunesmith_harness::serve(&algorithm, std::io::stdin().lock(), std::io::stdout().lock())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
