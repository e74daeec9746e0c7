//! `tunesmith doctor`: checks the requirements of jobs on this machine and names remedies.

mod checks;
mod programs;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::folder_args::DEFAULT_DATA_DIR;
use super::output::print;

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Data folder to check. It need not exist, and is not created.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DATA_DIR)]
    data_dir: PathBuf,
    /// Address a server would listen on.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: std::net::SocketAddr,
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    Ok,
    /// Some jobs cannot run, or run with limitations.
    Warning,
    /// No job can run.
    Error,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    check: &'static str,
    severity: Severity,
    found: String,
    /// Remedy; empty if the check passed.
    #[serde(skip_serializing_if = "String::is_empty")]
    advice: String,
}

impl Finding {
    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, severity: Severity::Ok, found: found.into(), advice: String::new() }
    }

    fn warning(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { check, severity: Severity::Warning, found: found.into(), advice: advice.into() }
    }

    fn error(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { severity: Severity::Error, ..Self::warning(check, found, advice) }
    }
}

/// Exits with 1 if no job can run.
pub(super) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut findings = vec![checks::processors()];
    findings.push(programs::python());
    findings.push(programs::installer());
    findings.push(programs::container_engine());
    findings.push(programs::gpus());
    findings.push(checks::space(&args.data_dir));
    findings.push(checks::locks(&args.data_dir));
    findings.push(checks::clock(&args.data_dir));
    findings.push(checks::report_port());
    findings.push(checks::listen_port(args.listen));
    findings.push(runtime.block_on(checks::store(&args.data_dir)));
    runtime.shutdown_background();
    let text = if args.json {
        format!("{}\n", serde_json::to_string_pretty(&findings)?)
    } else {
        findings.iter().map(line).collect()
    };
    print(&text)?;
    let worst = findings.iter().map(|finding| finding.severity).max();
    Ok(if worst == Some(Severity::Error) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn line(finding: &Finding) -> String {
    let severity = match finding.severity {
        Severity::Ok => "ok",
        Severity::Warning => "warning",
        Severity::Error => "error",
    };
    let advice = if finding.advice.is_empty() { String::new() } else { format!("{:<18}-> {}\n", "", finding.advice) };
    format!("{severity:<8}{:<10}{}\n{advice}", finding.check, finding.found)
}
