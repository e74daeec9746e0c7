//! Prints responses in the selected format.

use clap::ValueEnum;
use comfy_table::{Table, presets};
use serde_json::Value;

use crate::cli::output::print;

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A table.
    Table,
    /// The response of the service as YAML.
    Yaml,
    /// The response of the service as JSON.
    Json,
}

/// Prints `answer` in `format`; `table` returns the text of the table.
pub(super) fn show(format: Format, answer: &Value, table: impl FnOnce() -> String) -> anyhow::Result<()> {
    let text = match format {
        Format::Table => table(),
        Format::Yaml => yaml_serde::to_string(answer)?,
        Format::Json => format!("{}\n", serde_json::to_string_pretty(answer)?),
    };
    Ok(print(&text)?)
}

/// Formats rows as columns of plain text.
pub(super) fn columns(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    for row in rows {
        table.add_row(row);
    }
    format!("{table}\n")
}
