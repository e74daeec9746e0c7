//! `tunesmith report`: writes a study, possibly of a job, as a self-contained HTML page.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::client::{self, SubjectArgs};
use super::output::print;
use super::output_file;
use super::results::replace_file;

#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    #[command(flatten)]
    subject: SubjectArgs,
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
        let SubjectArgs { job, study, target, location } = &args.subject;
        match job {
            Some(job) => client::job_report(target, location, job).await.map(|(id, page)| ("job", id, page)),
            None => {
                let study = study.clone().unwrap_or_default();
                let page = client::study_report(target, location, &study).await?;
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
