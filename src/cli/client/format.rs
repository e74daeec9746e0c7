//! Prints responses in the selected format.

use clap::ValueEnum;
use serde_json::Value;

use crate::cli::output::print;
use crate::cli::table::{Column, Layout, Table};

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
    show_table(format, answer, || Ok(table()))
}

/// As [`show`], with a table that may not exist in the selected layout.
pub(super) fn show_table(
    format: Format,
    answer: &Value,
    table: impl FnOnce() -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let text = match format {
        Format::Table => table()?,
        Format::Yaml => yaml_serde::to_string(answer)?,
        Format::Json => format!("{}\n", serde_json::to_string_pretty(answer)?),
    };
    Ok(print(&text)?)
}

/// Formats rows as columns of plain text. The last column is wrapped where it does not fit.
///
/// # Errors
/// If the layout selects a column that does not exist.
pub(super) fn columns(
    header: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
    layout: &Layout,
) -> anyhow::Result<String> {
    let last = header.len().saturating_sub(1);
    let column = |(index, name): (usize, &&str)| if index == last { Column::prose(*name) } else { Column::text(*name) };
    let mut table = Table::new(header.iter().enumerate().map(column).collect()).without_borders();
    for row in rows {
        table.add_row(row);
    }
    table.render(layout)
}
