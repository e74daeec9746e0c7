//! The commands of the measuring tool and their common output.

#![expect(clippy::print_stderr, reason = "a tool reports its progress")]

mod bare_store;
mod clients;
mod growth;
mod latency;
mod prefill;
pub(crate) mod problem;
mod server;
mod service;
mod workload;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Parser;
use serde::Serialize;
use tunesmith_data_dir::{DataDir, StoreKind};
use tunesmith_store::Store;

/// Measures time and memory of suggestions and of a server.
#[derive(Debug, Parser)]
#[command(name = "measure")]
enum Command {
    /// Time and memory of a suggestion for several numbers of completed trials.
    Latency(latency::LatencyArgs),
    /// Pairs of suggestion and completion over HTTP and on the store alone, and the start of a server.
    Service(service::ServiceArgs),
    /// Growth of a server's time and memory with its studies, each figure beside a reference of the same run.
    Growth(growth::GrowthArgs),
}

/// Runs a command line, whose first word is the name of the program; returns its tables as Markdown.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> Result<String> {
    let command = Command::try_parse_from(arguments)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match command {
        Command::Latency(args) => latency::run(&args),
        Command::Service(args) => runtime.block_on(service::run(&args)),
        Command::Growth(args) => runtime.block_on(growth::run(&args)),
    }
}

/// The program whose server is measured.
fn this_program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_tunesmith"))
}

/// An open store together with the lock on its folder, which is released after the store is closed.
struct OpenStore {
    store: Arc<dyn Store>,
    _lock: DataDir,
}

impl OpenStore {
    async fn open(folder: &Path) -> Result<Self> {
        let data_dir = DataDir::open(folder, StoreKind::Sqlite, "measure").context("the data folder of the run")?;
        Ok(Self { store: data_dir.store().await?, _lock: data_dir })
    }
}

fn write_json(path: Option<&Path>, result: &impl Serialize) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let text = format!("{}\n", serde_json::to_string_pretty(result)?);
    std::fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
}

/// A Markdown table; columns but the first are right-aligned.
fn markdown(header: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule = format!("|---|{}\n", "---:|".repeat(header.len().saturating_sub(1)));
    let rows: String = rows.iter().map(|row| line(row)).collect();
    format!("{}{rule}{rows}", line(header))
}

/// The middle value, or the mean of the two middle ones; NaN if there is none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = &values[values.len().saturating_sub(1) / 2..(values.len() / 2 + 1).min(values.len())];
    middle.iter().sum::<f64>() / middle.len() as f64
}
