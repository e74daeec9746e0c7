//! `tunesmith bench service`: measures the speed of a server.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use crate::cli::output::{notice, print};
use crate::cli::table::{Column, Layout, Table};
use crate::data_dir::{DataDir, StoreKind};
use tunesmith_harness::load::{Load, LoadResult, OpenedStore, Row};

/// Measure pairs of suggestion and completion over HTTP, and on the store alone.
#[derive(Debug, clap::Args)]
pub(super) struct ServiceArgs {
    /// Numbers of concurrent clients.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,8,64")]
    clients: Vec<NonZeroUsize>,
    /// Number of pairs in each measurement, of all clients together.
    #[arg(long, value_name = "N", default_value = "2000")]
    pairs: NonZeroUsize,
    /// Numbers of completed trials in the study, to measure the growth of costs.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "100,100000")]
    grown: Vec<usize>,
    /// Numbers of completed trials at which Bayesian optimisation is measured.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "50,100,1000,5000")]
    history: Vec<usize>,
    /// Number of suggestions of Bayesian optimisation at each, both on demand and prepared.
    #[arg(long, value_name = "N", default_value = "30")]
    suggestions: NonZeroUsize,
    /// Number of further completed trials in the store, to measure start time and memory.
    #[arg(long, value_name = "N", default_value_t = 0)]
    stored: usize,
    /// Folder for temporary data folders, on the disk to be measured. The system's temporary folder by default.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Also write the result to this file as JSON.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the tables as Markdown.
    #[arg(long)]
    markdown: bool,
    /// Print all columns of the tables, also if they do not fit the terminal.
    #[arg(long, conflicts_with = "markdown")]
    wide: bool,
}

pub(super) fn run(args: &ServiceArgs) -> anyhow::Result<ExitCode> {
    let folder = match &args.folder {
        Some(folder) => tempfile::tempdir_in(folder).with_context(|| format!("{} cannot be used", folder.display()))?,
        None => tempfile::tempdir()?,
    };
    let load = Load {
        open_store: Box::new(|folder| Box::pin(open_store(folder))),
        program: std::env::current_exe()?,
        folder: folder.path().to_owned(),
        clients: args.clients.clone(),
        pairs: args.pairs,
        grown: args.grown.clone(),
        history: args.history.clone(),
        suggestions: args.suggestions,
        stored: args.stored,
    };
    let report = |row: &Row| {
        notice(&format!(
            "{}, {} clients, {} completed: {:.0} pairs/s",
            row.what, row.clients, row.completed_before, row.pairs_per_second
        ));
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(load.run(report))?;
    if let Some(path) = &args.out {
        let mut text = serde_json::to_string_pretty(&result)?;
        text.push('\n');
        std::fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    let layout = Layout::of_all_columns(args.wide);
    let drawn = |table: &Table| if args.markdown { Ok(table.to_markdown()) } else { table.render(&layout) };
    let (loads, starts) = tables(&result);
    print(&format!("{}\n{}", drawn(&loads)?, drawn(&starts)?))?;
    Ok(ExitCode::SUCCESS)
}

/// Opens the store of a data folder of a run.
pub(super) async fn open_store(folder: PathBuf) -> anyhow::Result<OpenedStore> {
    let data_dir = DataDir::open(&folder, StoreKind::Sqlite, "tunesmith bench service")?;
    Ok(OpenedStore { store: data_dir.store().await?, lock: Box::new(data_dir) })
}

fn tables(result: &LoadResult) -> (Table, Table) {
    let mut loads = Table::new(vec![
        Column::text(""),
        Column::number("CLIENTS"),
        Column::number("COMPLETED BEFORE"),
        Column::number("PAIRS/S"),
        Column::number("SUGGEST P50 MS").may_be_left_out(0),
        Column::number("SUGGEST P99 MS").may_be_left_out(1),
    ]);
    for row in &result.rows {
        let (clients, completed) = (row.clients.to_string(), row.completed_before.to_string());
        let numbers =
            [row.pairs_per_second, row.suggest_p50_ms, row.suggest_p99_ms].map(|number| format!("{number:.1}"));
        loads.add_row([row.what.clone(), clients, completed].into_iter().chain(numbers).collect());
    }
    let mut starts = Table::new(["STORED TRIALS", "READY AFTER MS", "RESIDENT MIB"].map(Column::number).into());
    for start in &result.starts {
        let numbers = [start.ready_ms, start.resident_mib].map(|number| format!("{number:.0}"));
        starts.add_row([start.stored_trials.to_string()].into_iter().chain(numbers).collect());
    }
    (loads, starts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_fit_the_terminal() {
        let row = Row {
            what: "suggest and complete".to_owned(),
            clients: 64,
            completed_before: 100_000,
            pairs: 2000,
            seconds: 4.0,
            pairs_per_second: 500.0,
            suggest_p50_ms: 1.0,
            suggest_p99_ms: 25.0,
        };
        let (loads, starts) = tables(&LoadResult { starts: Vec::new(), rows: vec![row] });
        let narrow = Layout { width: Some(70), ..Layout::default() };
        let text = loads.render(&narrow).unwrap();
        assert!(text.lines().take(2).all(|line| line.chars().count() <= 70), "{text}");
        assert!(text.contains("500") && text.contains("not fit: SUGGEST P50 MS, SUGGEST P99 MS"), "{text}");
        assert!(starts.to_markdown().starts_with("| STORED TRIALS |"));
    }
}
