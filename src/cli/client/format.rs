//! Output formats of `--format`: tables, YAML, JSON and gcloud projections.

mod expression;
mod field;
mod printer;
mod transform;

use std::fmt;
use std::str::FromStr;

use clap::Args;
use serde_json::Value;

use self::expression::Projection;
use crate::cli::output::print;
use crate::cli::table::{Column, Layout, Table, TableArgs};
use tunesmith_client::Resource;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Format {
    Table,
    Yaml,
    Json,
    /// Selected fields, in a gcloud format.
    Projection(Projection),
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "table" | "default" => Ok(Self::Table),
            "yaml" => Ok(Self::Yaml),
            "json" => Ok(Self::Json),
            other => expression::parse(other).map(Self::Projection),
        }
    }
}

impl fmt::Display for Format {
    /// Only the formats that are defaults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Table | Self::Projection(_) => "table",
            Self::Yaml => "yaml",
            Self::Json => "json",
        })
    }
}

/// Prints the resource `answer`; `table` renders the table.
pub(super) fn show(format: &Format, answer: &Value, table: impl FnOnce() -> String) -> anyhow::Result<()> {
    let text = match format {
        Format::Table => table(),
        Format::Yaml => yaml_serde::to_string(answer)?,
        Format::Json => format!("{}\n", serde_json::to_string_pretty(answer)?),
        Format::Projection(projection) => printer::text(projection, std::slice::from_ref(answer), false)?,
    };
    Ok(print(&text)?)
}

/// Flags of commands that list resources.
#[derive(Debug, Args)]
pub(super) struct ListOutputArgs {
    /// Maximum number of entries.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Output format: table, yaml, json, or a gcloud format such as "value(state)".
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Table)]
    pub(super) format: Format,
    #[command(flatten)]
    table: TableArgs,
}

impl ListOutputArgs {
    /// The first of `resources`, up to the limit.
    pub(super) fn first<T>(&self, mut resources: Vec<T>) -> Vec<T> {
        resources.truncate(self.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX));
        resources
    }

    /// Prints `resources` as gcloud prints lists: JSON as an array, YAML as documents.
    ///
    /// # Errors
    /// If the table layout selects an unknown column.
    pub(super) fn show<T>(
        &self,
        resources: &[Resource<T>],
        table: impl FnOnce(&Layout) -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        let values = || -> Vec<Value> { resources.iter().map(|resource| resource.json.clone()).collect() };
        let text = match &self.format {
            Format::Table => table(&self.table.layout())?,
            Format::Yaml => printer::yaml_documents(&values())?,
            Format::Json => format!("{}\n", serde_json::to_string_pretty(&values())?),
            Format::Projection(projection) => printer::text(projection, &values(), true)?,
        };
        Ok(print(&text)?)
    }

    /// Prints the first of `resources`, as a table with a row for each by default.
    ///
    /// # Errors
    /// As [`Self::show`].
    pub(super) fn show_rows<T>(
        &self,
        resources: Vec<Resource<T>>,
        header: &[&str],
        row: impl FnMut(&Resource<T>) -> Vec<String>,
    ) -> anyhow::Result<()> {
        let resources = self.first(resources);
        self.show(&resources, |layout| columns(header, resources.iter().map(row), layout))
    }
}

/// Sorts `items` by `fields`, descending for fields with the prefix `~`. Missing values come last.
///
/// # Errors
/// If no resource has a field; `what` names the kind of resource in the message.
pub(super) fn sort_by<T>(
    items: &mut [T],
    fields: &[String],
    what: &str,
    resource: impl Fn(&T) -> &Value,
) -> anyhow::Result<()> {
    // Last field first, since the sort is stable.
    for key in fields.iter().rev() {
        let (field, is_descending) = key.strip_prefix('~').map_or((key.as_str(), false), |field| (field, true));
        let field = expression::path(field).map_err(|error| anyhow::anyhow!("--sort-by: {error}"))?;
        if !items.is_empty() && items.iter().all(|item| field.find(resource(item)).is_none()) {
            anyhow::bail!("--sort-by: no {what} has a field {:?}", key.trim_start_matches('~'));
        }
        items.sort_by(|one, other| match (field.find(resource(one)), field.find(resource(other))) {
            (Some(one), Some(other)) if is_descending => printer::order(Some(&other), Some(&one)),
            (one, other) => printer::order(one.as_ref(), other.as_ref()),
        });
    }
    Ok(())
}

/// Formats rows as plain columns, wrapping the last one if it does not fit.
///
/// # Errors
/// If the layout selects an unknown column.
pub(super) fn columns(
    header: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
    layout: &Layout,
) -> anyhow::Result<String> {
    let last = header.len().saturating_sub(1);
    let column = |(index, name): (usize, &&str)| if index == last { Column::prose(*name) } else { Column::text(*name) };
    let mut table = Table::new(header.iter().enumerate().map(column).collect());
    for row in rows {
        table.add_row(row);
    }
    table.render(layout)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn jobs_are_sorted_by_nested_fields_numbers_and_in_descending_order() {
        let job = |id: &str, count: &str| json!({"jobId": id, "trainingOutput": {"completedTrialCount": count}});
        let mut jobs = vec![job("b", "9"), json!({"jobId": "c"}), job("a", "10")];
        let ids = |jobs: &[Value]| jobs.iter().filter_map(|job| job["jobId"].as_str()).collect::<String>();
        let mut sort = |fields: &str| sort_by(&mut jobs, &[fields.to_owned()], "job", |job| job).map(|()| ids(&jobs));
        assert_eq!(sort("trainingOutput.completedTrialCount").unwrap(), "bac");
        assert_eq!(sort("~trainingOutput.completedTrialCount").unwrap(), "abc");
        assert_eq!(sort("~jobId").unwrap(), "cba");
        assert_eq!(sort("jobID").unwrap_err().to_string(), "--sort-by: no job has a field \"jobID\"");
    }

    #[test]
    fn formats_are_parsed() {
        assert_eq!("table".parse(), Ok(Format::Table));
        assert_eq!("json".parse(), Ok(Format::Json));
        assert!(matches!("value(state)".parse(), Ok(Format::Projection(_))));
        assert!("tabel".parse::<Format>().is_err());
    }
}
