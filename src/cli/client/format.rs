//! Prints responses in the format that `--format` selects: as tables for people, or in the formats of gcloud.

mod expression;
mod field;
mod printer;
mod transform;

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use self::expression::Projection;
use super::request::list;
use crate::cli::output::print;
use crate::cli::table::{Column, Layout, Table};

/// Output format.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Format {
    /// The table of the command.
    Table,
    /// The resources as YAML.
    Yaml,
    /// The resources as JSON.
    Json,
    /// Selected fields of the resources, in a format of gcloud.
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
    /// The formats that are defaults of commands.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Table | Self::Projection(_) => "table",
            Self::Yaml => "yaml",
            Self::Json => "json",
        })
    }
}

/// Prints the resource `answer` in `format`; `table` returns the text of the table.
pub(super) fn show(format: &Format, answer: &Value, table: impl FnOnce() -> String) -> anyhow::Result<()> {
    let text = match format {
        Format::Table => table(),
        Format::Yaml => yaml_serde::to_string(answer)?,
        Format::Json => format!("{}\n", serde_json::to_string_pretty(answer)?),
        Format::Projection(projection) => printer::text(projection, std::slice::from_ref(answer), false)?,
    };
    Ok(print(&text)?)
}

/// Prints the resources in the field `key` of `answer`, as gcloud prints lists: JSON as an array, YAML as documents.
///
/// # Errors
/// If `table` fails, because its layout selects a column that does not exist.
pub(super) fn show_list(
    format: &Format,
    answer: &Value,
    key: &str,
    table: impl FnOnce() -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let resources = list(answer, key);
    let text = match format {
        Format::Table => table()?,
        Format::Yaml => printer::yaml_documents(resources)?,
        Format::Json => format!("{}\n", serde_json::to_string_pretty(resources)?),
        Format::Projection(projection) => printer::text(projection, resources, true)?,
    };
    Ok(print(&text)?)
}

/// Sorts resources by fields, in descending order by those that start with `~`. Resources without a field are last.
///
/// # Errors
/// If no resource has one of the fields. `what` names the kind of resource.
pub(super) fn sort_by(resources: &mut [Value], fields: &[String], what: &str) -> anyhow::Result<()> {
    // The last field first: sorting is stable.
    for key in fields.iter().rev() {
        let (field, is_descending) = key.strip_prefix('~').map_or((key.as_str(), false), |field| (field, true));
        let field = expression::path(field).map_err(|error| anyhow::anyhow!("--sort-by: {error}"))?;
        if !resources.is_empty() && resources.iter().all(|resource| field.find(resource).is_none()) {
            anyhow::bail!("--sort-by: no {what} has a field {:?}", key.trim_start_matches('~'));
        }
        resources.sort_by(|one, other| match (field.find(one), field.find(other)) {
            (Some(one), Some(other)) if is_descending => printer::order(Some(&other), Some(&one)),
            (one, other) => printer::order(one.as_ref(), other.as_ref()),
        });
    }
    Ok(())
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
    let mut table = Table::new(header.iter().enumerate().map(column).collect());
    for row in rows {
        table.add_row(row);
    }
    table.render(layout)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::request::text;
    use super::*;

    #[test]
    fn jobs_are_sorted_by_nested_fields_numbers_and_in_descending_order() {
        let job = |id: &str, count: &str| json!({"jobId": id, "trainingOutput": {"completedTrialCount": count}});
        let mut jobs = vec![job("b", "9"), json!({"jobId": "c"}), job("a", "10")];
        let ids = |jobs: &[Value]| jobs.iter().map(|job| text(job, "jobId").to_owned()).collect::<String>();
        let mut sort = |fields: &str| sort_by(&mut jobs, &[fields.to_owned()], "job").map(|()| ids(&jobs));
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
