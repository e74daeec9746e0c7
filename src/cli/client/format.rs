//! Answers, as they are printed.

use clap::ValueEnum;
use comfy_table::{Table, presets};
use serde_json::Value;

use crate::cli::output::print;

/// Form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people.
    Table,
    /// The service's answer as YAML.
    Yaml,
    /// The service's answer as JSON.
    Json,
}

/// Prints `answer`, or what `table` makes of it.
pub(super) fn show(format: Format, answer: &Value, table: impl FnOnce() -> String) -> anyhow::Result<()> {
    let text = match format {
        Format::Table => table(),
        Format::Yaml => yaml_serde::to_string(answer)?,
        Format::Json => format!("{}\n", serde_json::to_string_pretty(answer)?),
    };
    Ok(print(&text)?)
}

/// Columns of plain text.
pub(super) fn columns(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    for row in rows {
        table.add_row(row);
    }
    format!("{table}\n")
}
