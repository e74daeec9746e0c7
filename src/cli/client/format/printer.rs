//! Rendering of projections.

use std::cmp::Ordering;

use comfy_table::{CellAlignment, Table as TextTable, presets};
use serde_json::{Map, Value};

use super::expression::{Field, Kind, Projection};
use super::transform::plain;
use crate::cli::table::plain_lines;

/// Renders the projected `resources` as text. List commands print JSON as an array.
pub(super) fn text(projection: &Projection, resources: &[Value], is_list: bool) -> anyhow::Result<String> {
    let mut resources: Vec<&Value> = resources.iter().collect();
    sort(projection, &mut resources);
    let rows = || resources.iter().map(|resource| row(projection, resource));
    let messages = || resources.iter().map(|resource| message(projection, resource)).collect::<Vec<Value>>();
    Ok(match projection.kind {
        Kind::None => String::new(),
        Kind::Json => {
            let messages = messages();
            let shown = match messages.first() {
                Some(one) if !is_list => serde_json::to_string_pretty(one)?,
                _ => serde_json::to_string_pretty(&messages)?,
            };
            format!("{shown}\n")
        }
        Kind::Yaml => yaml_documents(&messages())?,
        Kind::Value => {
            let separator = projection.attribute("separator").unwrap_or("\t");
            let terminator = projection.attribute("terminator").unwrap_or("\n");
            rows().map(|row| row.join(separator) + terminator).collect()
        }
        Kind::Csv => csv(projection, rows())?,
        Kind::Table => table(projection, rows()),
        Kind::List => messages().iter().map(listed).collect(),
        Kind::Flattened => messages().iter().map(flattened).collect(),
    })
}

pub(super) fn yaml_documents(resources: &[Value]) -> anyhow::Result<String> {
    let documents: Result<Vec<String>, _> = resources.iter().map(yaml_serde::to_string).collect();
    Ok(documents?.join("---\n"))
}

fn value(field: &Field, resource: &Value) -> Option<Value> {
    field.transforms.iter().fold(field.path.find(resource), |value, transform| transform.apply(value))
}

fn row(projection: &Projection, resource: &Value) -> Vec<String> {
    let cell = |field: &Field| value(field, resource).map(|value| plain(&value)).unwrap_or_default();
    projection.fields.iter().map(cell).collect()
}

/// Message with only the selected fields, or the whole resource.
fn message(projection: &Projection, resource: &Value) -> Value {
    if projection.fields.is_empty() {
        return resource.clone();
    }
    let mut message = Map::new();
    for field in &projection.fields {
        if let Some(found) = value(field, resource) {
            field.path.insert(&mut message, found);
        }
    }
    Value::Object(message)
}

/// Sorts by the fields with a `sort` modifier.
fn sort(projection: &Projection, resources: &mut [&Value]) {
    let mut keys: Vec<(u32, bool, &Field)> =
        projection.fields.iter().filter_map(|field| field.sort.map(|(place, down)| (place, down, field))).collect();
    keys.sort_by_key(|(place, ..)| *place);
    // Last key first, since the sort is stable.
    for (_, is_descending, field) in keys.into_iter().rev() {
        resources.sort_by(|one, other| {
            let order = order(value(field, one).as_ref(), value(field, other).as_ref());
            if is_descending { order.reverse() } else { order }
        });
    }
}

/// Orders numbers, including numeric text, numerically and other values as text. Missing values come last.
pub(super) fn order(one: Option<&Value>, other: Option<&Value>) -> Ordering {
    let (Some(one), Some(other)) = (one, other) else { return one.is_none().cmp(&other.is_none()) };
    let (one, other) = (plain(one), plain(other));
    match (one.parse::<f64>(), other.parse::<f64>()) {
        (Ok(one), Ok(other)) => one.total_cmp(&other),
        _ => one.cmp(&other),
    }
}

fn csv(projection: &Projection, rows: impl Iterator<Item = Vec<String>>) -> anyhow::Result<String> {
    let mut builder = csv::WriterBuilder::new();
    if projection.attribute("quote").is_some() {
        builder.quote_style(csv::QuoteStyle::Always);
    }
    let separator = projection.attribute("separator").unwrap_or(",");
    let [delimiter] = separator.as_bytes() else {
        anyhow::bail!("--format: the separator of csv is one character, not {separator:?}");
    };
    let mut writer = builder.delimiter(*delimiter).from_writer(Vec::new());
    if projection.attribute("no-heading").is_none() {
        let label = |field: &Field| field.label.clone().unwrap_or_else(|| field.path.csv_label());
        writer.write_record(projection.fields.iter().map(label))?;
    }
    for row in rows {
        writer.write_record(row)?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

fn table(projection: &Projection, rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = TextTable::new();
    let is_boxed = projection.attribute("box").or(projection.attribute("all-box")).is_some();
    table.load_style(if is_boxed { presets::ASCII_FULL_CONDENSED } else { presets::NOTHING });
    if projection.attribute("no-heading").is_none() {
        table.set_header(
            projection.fields.iter().map(|field| field.label.clone().unwrap_or_else(|| field.path.label())),
        );
    }
    table.add_rows(rows);
    for (position, field) in projection.fields.iter().enumerate() {
        if let (true, Some(column)) = (field.is_right, table.column_mut(position)) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let title = projection.attribute("title").map(|title| format!("{title}\n")).unwrap_or_default();
    let text = if table.is_empty() && projection.attribute("no-heading").is_some() {
        String::new()
    } else if is_boxed {
        format!("{table}\n")
    } else {
        plain_lines(&table)
    };
    title + &text
}

/// Renders a resource as a list item, one line per field.
fn listed(message: &Value) -> String {
    let lines: Vec<String> = leaves(message).into_iter().map(|(path, value)| format!("{path}: {value}")).collect();
    format!(" - {}\n", lines.join("\n   "))
}

/// Renders a resource as one `path: value` line per value.
fn flattened(message: &Value) -> String {
    let leaves = leaves(message);
    let width = leaves.iter().map(|(path, _)| path.chars().count()).max().unwrap_or_default() + 1;
    let lines = leaves.into_iter().map(|(path, value)| format!("{:width$} {value}\n", format!("{path}:")));
    format!("---\n{}", lines.collect::<String>())
}

fn leaves(value: &Value) -> Vec<(String, String)> {
    fn add(path: String, value: &Value, found: &mut Vec<(String, String)>) {
        match value {
            Value::Object(fields) => {
                let separator = if path.is_empty() { "" } else { "." };
                for (name, value) in fields {
                    add(format!("{path}{separator}{name}"), value, found);
                }
            }
            Value::Array(elements) => {
                for (index, value) in elements.iter().enumerate() {
                    add(format!("{path}[{index}]"), value, found);
                }
            }
            leaf => found.push((path, plain(leaf))),
        }
    }
    let mut found = Vec::new();
    add(String::new(), value, &mut found);
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::expression::parse;
    use super::*;

    fn shown(format: &str, is_list: bool) -> String {
        let jobs = [
            json!({"jobId": "b", "state": "FAILED", "trainingOutput": {"completedTrialCount": "9"}, "done": true}),
            json!({"jobId": "a", "state": "SUCCEEDED", "labels": {"k": "v,w"}, "trainingOutput": {"completedTrialCount": "10"}}),
        ];
        let jobs = if is_list { &jobs[..] } else { &jobs[..1] };
        text(&parse(format).unwrap(), jobs, is_list).unwrap()
    }

    #[test]
    fn selected_fields_are_printed_as_by_gcloud() {
        assert_eq!(shown("value(state)", false), "FAILED\n");
        assert_eq!(shown("value(jobId,done,labels.k)", true), "b\tTrue\t\na\t\tv,w\n");
        assert_eq!(shown("value[separator=';',terminator='|'](jobId,state)", true), "b;FAILED|a;SUCCEEDED|");
        assert_eq!(
            shown("csv(jobId,trainingOutput.completedTrialCount:label=n,labels.k)", true),
            "job_id,n,k\nb,9,\na,10,\"v,w\"\n"
        );
        assert_eq!(shown("csv[no-heading](jobId)", true), "b\na\n");
        assert_eq!(shown("table(jobId,state:label=STATE)", true), "JOB_ID  STATE\nb       FAILED\na       SUCCEEDED\n");
        assert_eq!(shown("table[no-heading](jobId:sort=1,state)", true), "a  SUCCEEDED\nb  FAILED\n");
        let by_count = "value(trainingOutput.completedTrialCount:sort=1:reverse)";
        assert_eq!(shown(by_count, true), "10\n9\n", "numbers in texts are numbers");
        assert_eq!(
            shown("json(trainingOutput.completedTrialCount)", false),
            "{\n  \"trainingOutput\": {\n    \"completedTrialCount\": \"9\"\n  }\n}\n"
        );
        assert_eq!(
            serde_json::from_str::<Value>(&shown("json(jobId)", true)).unwrap(),
            json!([{"jobId": "b"}, {"jobId": "a"}])
        );
        assert_eq!(shown("yaml(jobId)", true), "jobId: b\n---\njobId: a\n");
        assert_eq!(shown("flattened(jobId,labels)", true), "---\njobId: b\n---\njobId:    a\nlabels.k: v,w\n");
        assert_eq!(shown("list(jobId,state)", false), " - jobId: b\n   state: FAILED\n");
        assert_eq!(shown("none", true), "");
        assert!(shown("table[box,title=Jobs](jobId)", true).starts_with("Jobs\n+-"));
    }
}
