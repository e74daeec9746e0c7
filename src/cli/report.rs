//! `tunesmith report`: writes a study, possibly of a job, as a self-contained HTML page.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::client::{self, LocationArgs, TargetArgs};
use super::output::print;
use super::output_file;
use super::results::replace_file;
use tunesmith_domain::JobId;

#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// Name of the job, or a unique prefix.
    #[arg(required_unless_present = "study", conflicts_with = "study")]
    job: Option<JobId>,
    /// Name of a study, instead of a job.
    #[arg(long, value_name = "STUDY")]
    study: Option<String>,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    location: LocationArgs,
    /// HTML file to write, replacing an existing one. By default, NAME.html in the current folder.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    out: Option<PathBuf>,
}

pub(super) fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    if let Some(out) = &args.out {
        output_file::check("--out", out)?;
    }
    // Requests to a data folder are handled in this process.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let read = async {
        match (&args.job, &args.study) {
            (Some(job), _) => {
                client::job_report(&args.target, &args.location, job).await.map(|(id, page)| ("job", id, page))
            }
            (None, study) => {
                let study = study.clone().unwrap_or_default();
                let page = client::study_report(&args.target, &args.location, &study).await?;
                Ok(("study", study, page))
            }
        }
    };
    let (what, name, page) = match runtime.block_on(read) {
        Ok(report) => report,
        Err(error) => return client::report(error),
    };
    runtime.shutdown_background();
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.html")));
    output_file::check("--out", &out)?;
    replace_file(&out, |file| Ok(file.write_all(&page)?))?;
    print(&format!("report of {what} {name}: {}\n", out.display()))?;
    Ok(ExitCode::SUCCESS)
}
