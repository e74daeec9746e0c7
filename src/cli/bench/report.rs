//! `tunesmith bench report` and `tunesmith bench compare`: report on result folders.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use tunesmith_benchmark::analysis::{AnalysisOptions, Decision, compare_optimizers, compare_records};
use tunesmith_benchmark::record::RunRecord;

use crate::cli::output::{notice, print};
use crate::cli::table::{Column, Layout, Table};
use tunesmith_harness::report::{ReportMeta, change_markdown, change_terminal, html, markdown, terminal};
use tunesmith_harness::suites::remark;
use tunesmith_harness::{Invocation, read_results};

const PAGE: &str = "report.html";
const MARKDOWN: &str = "report.md";
/// Exit code of `compare` for a regression.
const WORSE: u8 = 1;

/// Arguments of `tunesmith bench report`.
#[derive(Debug, clap::Args)]
pub(super) struct ReportArgs {
    /// Result folders. If an optimizer, problem and seed ran several times, the last run counts.
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Folder for report.html and report.md.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    options: ReportOptions,
}

/// Content of a report.
#[derive(Debug, Default, Clone, clap::Args)]
pub(super) struct ReportOptions {
    /// Only these optimizers, in this order.
    #[arg(long = "contestants", value_name = "NAME,...", value_delimiter = ',')]
    optimizers: Vec<String>,
    /// Optimizer against which the others are tested [default: the first].
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    /// Only these suites.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    suites: Vec<String>,
    /// Heading of the report.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Remark in a separate paragraph. May be repeated.
    #[arg(long, value_name = "TEXT")]
    note: Vec<String>,
    /// Print all columns of the tables, even if they do not fit the terminal. The files always contain all of them.
    #[arg(long)]
    wide: bool,
}

impl ReportOptions {
    /// Options for a report on all results. The default baseline is the first optimizer by name.
    pub(super) fn against(baseline: Option<String>, wide: bool) -> Self {
        Self { baseline, wide, ..Self::default() }
    }
}

/// Arguments of `tunesmith bench compare`.
#[derive(Debug, clap::Args)]
pub(super) struct CompareArgs {
    /// Results before a change.
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// Results after the change.
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Print Markdown.
    #[arg(long)]
    markdown: bool,
    /// Only these optimizers.
    #[arg(long = "contestants", value_name = "NAME,...", value_delimiter = ',')]
    optimizers: Vec<String>,
    /// Print all columns of the table, even if they do not fit the terminal.
    #[arg(long, conflicts_with = "markdown")]
    wide: bool,
}

pub(super) fn report(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    write(&args.folders, &args.out, &args.options)?;
    Ok(ExitCode::SUCCESS)
}

/// Compares the optimizers of `folders`: prints a summary and writes HTML and Markdown to `out`.
pub(super) fn write(folders: &[PathBuf], out: &Path, options: &ReportOptions) -> anyhow::Result<()> {
    let (mut records, invocations) = read_results(folders)?;
    records.retain(|record| options.suites.is_empty() || options.suites.contains(&record.key.suite));
    if records.is_empty() {
        bail!("there are no runs to report on in {}", listed(folders));
    }
    let analysis = AnalysisOptions {
        optimizers: options.optimizers.clone(),
        baseline: options.baseline.clone(),
        ..AnalysisOptions::default()
    };
    let comparison = compare_optimizers(&records, &analysis)?;
    let title =
        options.title.clone().unwrap_or_else(|| format!("Search algorithms on {}", suites(&records).join(", ")));
    let remarks = suites(&records).into_iter().filter_map(remark).map(str::to_owned);
    let notes = options.note.iter().cloned().chain(remarks).collect();
    let meta = meta(title, &records, &invocations, notes);
    std::fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    for (name, text) in [(PAGE, html(&comparison, &meta)?), (MARKDOWN, markdown(&comparison, &meta))] {
        let path = out.join(name);
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    print(&terminal(&comparison, &meta, &|header, rows| drawn(header, rows, options.wide))?)?;
    notice(&format!("the whole report: {}", out.join(PAGE).display()));
    Ok(())
}

pub(super) fn compare(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let (old, _) = read_results(std::slice::from_ref(&args.old))?;
    let (new, invocations) = read_results(std::slice::from_ref(&args.new))?;
    let analysis = AnalysisOptions { optimizers: args.optimizers.clone(), ..AnalysisOptions::default() };
    let change = compare_records(&old, &new, &analysis)?;
    let title = format!("From {} to {}", args.old.display(), args.new.display());
    let meta = meta(title, &new, &invocations, Vec::new());
    print(&if args.markdown {
        change_markdown(&change, &meta)
    } else {
        change_terminal(&change, &meta, &|header, rows| drawn(header, rows, args.wide))?
    })?;
    Ok(match change.overall {
        Decision::Worse => ExitCode::from(WORSE),
        _ => ExitCode::SUCCESS,
    })
}

/// Renders a table for the terminal, dropping columns from the right.
fn drawn(header: &[String], rows: Vec<Vec<String>>, wide: bool) -> anyhow::Result<String> {
    let column = |(index, name): (usize, &String)| match (index, name.as_str()) {
        (0, _) => Column::text(name.to_uppercase()),
        (_, "reason") => Column::prose(name.to_uppercase()),
        _ => Column::number(name.to_uppercase()).may_be_left_out(index),
    };
    let mut table = Table::new(header.iter().enumerate().map(column).collect());
    for row in rows {
        table.add_row(row);
    }
    table.render(&Layout::of_all_columns(wide))
}

fn meta(title: String, records: &[RunRecord], invocations: &[Invocation], notes: Vec<String>) -> ReportMeta {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for record in records {
        let known = versions.entry(&record.key.optimizer).or_default();
        let version = record.version.as_deref().filter(|version| !known.contains(version));
        known.extend(version);
    }
    let mut machine = Vec::new();
    for entry in invocations.iter().flat_map(|invocation| &invocation.machine) {
        let entry = (entry.0.clone(), entry.1.clone());
        if !machine.contains(&entry) {
            machine.push(entry);
        }
    }
    let mut commands: Vec<String> = Vec::new();
    for invocation in invocations {
        let command = invocation.command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    let versions = versions.into_iter().filter(|(_, known)| !known.is_empty());
    let versions = versions.map(|(optimizer, known)| (optimizer.to_owned(), known.join(", "))).collect();
    ReportMeta { title, commands, versions, machine, notes }
}

fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "-_=./:,+@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn suites(records: &[RunRecord]) -> Vec<&str> {
    let mut suites: Vec<&str> = records.iter().map(|record| record.key.suite.as_str()).collect();
    suites.sort_unstable();
    suites.dedup();
    suites
}

fn listed(folders: &[PathBuf]) -> String {
    folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")
}
