//! `tunesmith report`: writes a job's study as one page that needs no server.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::client::{self, TargetArgs};
use super::output::print;
use super::output_file;
use super::results::replace_file;
use tunesmith_domain::JobId;

#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// Name of the job, or the start of it.
    job: JobId,
    #[command(flatten)]
    target: TargetArgs,
    /// File to write, as HTML. An existing file is replaced.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    out: PathBuf,
}

/// Runs the command.
pub(super) fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    output_file::check("--out", &args.out)?;
    // Requests to a data folder are handled in this process.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (job, page) = match runtime.block_on(client::job_report(&args.target, &args.job)) {
        Ok(report) => report,
        Err(error) => return client::report(error),
    };
    runtime.shutdown_background();
    replace_file(&args.out, |file| Ok(file.write_all(&page)?))?;
    print(&format!("report of job {job}: {}\n", args.out.display()))?;
    Ok(ExitCode::SUCCESS)
}
