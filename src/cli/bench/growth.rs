//! `tunesmith bench growth`: measures how time and memory of a server grow.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use super::service::open_store;
use crate::cli::output::{notice, print};
use crate::cli::table::{Column, Layout, Table};
use tunesmith_harness::load::{Growth, GrowthRow};

/// Measure how time and memory of a server grow, each figure beside a reference of the same run.
#[derive(Debug, clap::Args)]
pub(super) struct GrowthArgs {
    /// Number of reports to one trial.
    #[arg(long, value_name = "N", default_value = "2000", value_parser = clap::value_parser!(u32).range(2..))]
    reports: u32,
    /// Number of pending trials that were suggested in batches, before a suggestion of the model.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(21..))]
    batched: u32,
    /// Number of trials of the study whose lists are read.
    #[arg(long, value_name = "N", default_value = "20000", value_parser = clap::value_parser!(u32).range(1..))]
    listed: u32,
    /// Number of readers of the list at once.
    #[arg(long, value_name = "N", default_value = "30", value_parser = clap::value_parser!(u32).range(1..))]
    readers: u32,
    /// Number of studies with models.
    #[arg(long, value_name = "N", default_value = "20")]
    studies: u32,
    /// Program whose `serve` is measured, to compare versions. This one by default.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Also write the rows to this file as JSON.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the table as Markdown.
    #[arg(long)]
    markdown: bool,
    /// Print all columns of a table, also if they do not fit the terminal.
    #[arg(long, conflicts_with = "markdown")]
    wide: bool,
}

pub(super) fn run(args: &GrowthArgs) -> anyhow::Result<ExitCode> {
    let folder = tempfile::tempdir()?;
    let growth = Growth {
        open_store: Box::new(|folder| Box::pin(open_store(folder))),
        program: args.program.clone().map_or_else(std::env::current_exe, Ok)?,
        folder: folder.path().to_owned(),
        reports: args.reports as usize,
        batched: args.batched as usize,
        listed: args.listed as usize,
        readers: args.readers as usize,
        studies: args.studies as usize,
    };
    let report = |row: &GrowthRow| notice(&format!("{}: {:.1} {}", row.what, row.value, row.unit));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let rows = runtime.block_on(growth.run(report))?;
    if let Some(path) = &args.out {
        let mut text = serde_json::to_string_pretty(&rows)?;
        text.push('\n');
        std::fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    let table = table(&rows);
    print(&if args.markdown { table.to_markdown() } else { table.render(&Layout::of_all_columns(args.wide))? })?;
    Ok(ExitCode::SUCCESS)
}

fn table(rows: &[GrowthRow]) -> Table {
    let mut table = Table::new(vec![
        Column::text(""),
        Column::text("VALUE").may_be_left_out(0),
        Column::text("REFERENCE").may_be_left_out(2),
        Column::text("VALUE").may_be_left_out(1),
        Column::number("RATIO"),
    ]);
    for row in rows {
        let figure = |value: f64| format!("{value:.1} {}", row.unit);
        let (value, reference) = (figure(row.value), figure(row.reference_value));
        table.add_row(vec![row.what.clone(), value, row.reference.clone(), reference, format!("{:.2}", row.ratio())]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_fits_the_terminal() {
        let row = GrowthRow {
            what: "a report to a trial with 2000 reports".to_owned(),
            value: 12.5,
            reference: "a report to a trial without any".to_owned(),
            reference_value: 10.0,
            unit: "ms",
        };
        let text = table(&[row]).render(&Layout { width: Some(80), ..Layout::default() }).unwrap();
        assert!(text.lines().take(2).all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("12.5 ms") && text.contains("1.25") && text.contains("not fit: REFERENCE"), "{text}");
    }
}
