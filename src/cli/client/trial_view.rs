//! Formats the trials in responses as tables and as CSV.

use std::collections::BTreeSet;

use serde_json::Value;

use super::format::sort_by;
use super::request::{last_segment, list, text};
use crate::cli::table::{Column, Layout, Table, natural_order};
use tunesmith_algorithms::rounded::Rounded;

/// The first columns of an exported study, as in `tunesmith run --export`. The parameters follow, and then the metrics
/// if there are several.
const EXPORT_COLUMNS: [&str; 9] = [
    "trial_id",
    "state",
    "objective_value",
    "training_step",
    "stopped_early",
    "reason",
    "start_time",
    "end_time",
    "recommended",
];

/// The metrics and parameters of a set of trials.
struct Columns<'a> {
    metrics: Vec<&'a str>,
    /// A trial lacks the conditional parameters that are inactive.
    parameters: Vec<&'a str>,
}

impl<'a> Columns<'a> {
    fn of(trials: &'a [Value]) -> Self {
        let mut metrics: Vec<&str> = Vec::new();
        let mut parameters: BTreeSet<&str> = BTreeSet::new();
        for trial in trials {
            for metric in measured(trial) {
                let name = text(metric, "metric");
                if !metrics.contains(&name) {
                    metrics.push(name);
                }
            }
            parameters.extend(list(trial, "parameters").iter().map(|parameter| text(parameter, "parameter")));
        }
        Self { metrics, parameters: parameters.into_iter().collect() }
    }

    /// Puts the parameters into the order of the configuration of `study`.
    fn sort_parameters(&mut self, study: &Value) {
        let mut configured = Vec::new();
        names_in_order(list(&study["studyConfig"], "parameters"), &mut configured);
        let place = |name: &str| configured.iter().position(|one| *one == name).unwrap_or(usize::MAX);
        self.parameters.sort_by(|a, b| place(a).cmp(&place(b)).then_with(|| natural_order(a, b)));
    }
}

/// Appends the names of `parameters`, each before those of its conditional parameters.
fn names_in_order<'a>(parameters: &'a [Value], names: &mut Vec<&'a str>) {
    for parameter in parameters {
        names.push(text(parameter, "parameter"));
        names_in_order(list(parameter, "childParameterSpecs"), names);
    }
}

/// Formats trials as a table, with their clients unless they belong to a job. The parameters stand in the order of
/// `study`, and those that it lacks in the natural order of their names.
///
/// # Errors
/// If the layout selects a column that does not exist.
pub(super) fn table(trials: &[Value], study: &Value, layout: &Layout) -> anyhow::Result<String> {
    let mut columns = Columns::of(trials);
    columns.sort_parameters(study);
    let is_of_job = trials.iter().all(|trial| text(trial, "name").contains("/locations/jobs/"));
    let any_reason = trials.iter().any(|trial| !reason(trial).is_empty());
    let mut header = vec![Column::text("TRIAL")];
    header.extend(columns.metrics.iter().map(|name| Column::number(*name)));
    header.extend(columns.parameters.iter().enumerate().map(|(rank, name)| Column::value(*name).may_be_left_out(rank)));
    header.extend((!is_of_job).then(|| Column::text("CLIENT")));
    header.push(Column::text("STATE"));
    header.extend(any_reason.then(|| Column::prose("REASON")));
    let mut table = Table::new(header);
    for trial in trials {
        let mut row = vec![last_segment(text(trial, "name")).to_owned()];
        row.extend(columns.metrics.iter().map(|name| rounded_metric(trial, name).unwrap_or_else(|| "-".to_owned())));
        row.extend(columns.parameters.iter().map(|name| rounded_parameter(trial, name).unwrap_or_default()));
        row.extend((!is_of_job).then(|| text(trial, "clientId").to_owned()));
        row.push(state(trial).to_owned());
        row.extend(any_reason.then(|| reason(trial)));
        table.add_row(row);
    }
    table.render(layout)
}

/// Why `trial` is infeasible, or which constraints its result violates; empty otherwise.
fn reason(trial: &Value) -> String {
    let violated = list(&trial["tunesmith"], "violatedConstraints").iter().filter_map(Value::as_str);
    let violated: Vec<&str> = violated.collect();
    if violated.is_empty() {
        text(trial, "infeasibleReason").to_owned()
    } else {
        format!("violates {}", violated.join(", "))
    }
}

/// Formats one trial, with its exact parameters as flags of a program.
pub(super) fn describe(trial: &Value) -> String {
    let reason_of_state = match text(trial, "infeasibleReason") {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    let mut lines = vec![format!("trial {} is {}{reason_of_state}", last_segment(text(trial, "name")), state(trial))];
    let flags = list(trial, "parameters").iter().map(|parameter| {
        let flag = format!("--{}={}", text(parameter, "parameter"), exact_value(parameter));
        crate::cli::results::shell_word(&flag)
    });
    lines.push(format!("  {}", flags.collect::<Vec<_>>().join(" ")));
    for one in list(&trial["finalMeasurement"], "metrics") {
        lines.push(format!("  {} {}", text(one, "metric"), rounded(&one["value"])));
    }
    lines.extend(
        Some(reason(trial)).filter(|reason| reason.starts_with("violates ")).map(|reason| format!("  {reason}")),
    );
    lines.extend(list(&trial["tunesmith"], "metricFolders").iter().map(metric_folder));
    lines.extend(list(&trial["tunesmith"], "attempts").iter().map(attempt));
    lines.join("\n") + "\n"
}

/// Formats which of several folders of event files has the curve of a metric.
fn metric_folder(choice: &Value) -> String {
    let others: Vec<&str> = list(choice, "others").iter().filter_map(Value::as_str).collect();
    format!("  {} is read from {:?}, not from {:?}", text(choice, "metric"), text(choice, "taken"), others)
}

/// Formats where an attempt ran.
fn attempt(attempt: &Value) -> String {
    let nodes = list(attempt, "nodes").iter().map(|node| match text(node, "task") {
        "" => text(node, "node").to_owned(),
        task => format!("{} ({task})", text(node, "node")),
    });
    let nodes: Vec<String> = nodes.collect();
    let executor = match text(attempt, "executor") {
        "" => String::new(),
        name => format!(", executor {name}"),
    };
    format!("  attempt {} on {}{executor}", text(attempt, "attempt"), nodes.join(", "))
}

/// Formats trials as CSV for `tunesmith bench --replay`. The trial numbered `recommended` is marked.
pub(super) fn csv(trials: &[Value], recommended: Option<u64>) -> anyhow::Result<String> {
    let columns = Columns::of(trials);
    let several = if columns.metrics.len() > 1 { columns.metrics.as_slice() } else { &[] };
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(EXPORT_COLUMNS.iter().chain(&columns.parameters).chain(several))?;
    for trial in trials {
        let first = columns.metrics.first().and_then(|name| metric(trial, name)).unwrap_or_default();
        let step = match &trial["finalMeasurement"] {
            Value::Null => "",
            measurement => text(measurement, "stepCount"),
        };
        let number = last_segment(text(trial, "name")).split('~').next().unwrap_or_default();
        let stopped_early = if trial["tunesmith"]["stoppedEarly"] == true { "true" } else { "false" };
        let reason = reason(trial);
        let fixed = [number, state(trial), &first, step, stopped_early, &reason];
        let mut row: Vec<String> = fixed.map(str::to_owned).to_vec();
        row.extend([text(trial, "startTime").to_owned(), text(trial, "endTime").to_owned()]);
        row.push((recommended.is_some() && recommended == number.parse().ok()).to_string());
        row.extend(columns.parameters.iter().map(|name| parameter(trial, name).unwrap_or_default()));
        row.extend(several.iter().map(|name| metric(trial, name).unwrap_or_default()));
        writer.write_record(row)?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

fn metric(trial: &Value, name: &str) -> Option<String> {
    let metrics = list(&trial["finalMeasurement"], "metrics");
    let found = metrics.iter().find(|metric| text(metric, "metric") == name)?;
    Some(plain(&found["value"]))
}

fn parameter(trial: &Value, name: &str) -> Option<String> {
    list(trial, "parameters").iter().find(|parameter| text(parameter, "parameter") == name).map(value)
}

fn rounded_metric(trial: &Value, name: &str) -> Option<String> {
    let found = measured(trial).iter().find(|metric| text(metric, "metric") == name)?;
    Some(rounded(&found["value"]))
}

/// Returns the metrics of the result of a trial, or of its last measurement while it runs.
fn measured(trial: &Value) -> &[Value] {
    let last = || list(trial, "measurements").last().map(|measurement| list(measurement, "metrics"));
    match &trial["finalMeasurement"] {
        Value::Null if trial["trialInfeasible"] != true => last().unwrap_or_default(),
        result => list(result, "metrics"),
    }
}

/// Sorts trials by `fields`, as in a filter: `metric.loss`, `parameters.lr`, `id`, or a field of the resource.
///
/// # Errors
/// If no trial has one of the fields.
pub(super) fn sort(trials: &mut Vec<Value>, fields: &[String]) -> anyhow::Result<()> {
    let sortable = |trial: &Value| {
        let metrics = measured(trial).iter().map(|metric| (text(metric, "metric").to_owned(), metric["value"].clone()));
        let parameters = list(trial, "parameters").iter();
        let parameters = parameters.map(|one| (text(one, "parameter").to_owned(), Value::from(value(one))));
        let mut fields = trial.clone();
        fields["metric"] = Value::Object(metrics.collect());
        fields["parameters"] = Value::Object(parameters.collect());
        fields["id"] = Value::from(last_segment(text(trial, "name")));
        fields["state"] = Value::from(state(trial));
        fields["trial"] = trial.clone();
        fields
    };
    let mut sorted: Vec<Value> = trials.iter().map(sortable).collect();
    sort_by(&mut sorted, fields, "trial")?;
    *trials = sorted.iter_mut().map(|fields| fields["trial"].take()).collect();
    Ok(())
}

fn rounded_parameter(trial: &Value, name: &str) -> Option<String> {
    list(trial, "parameters").iter().find(|parameter| text(parameter, "parameter") == name).map(rounded_value)
}

/// Returns the value of a parameter for people.
fn rounded_value(parameter: &Value) -> String {
    if parameter["floatValue"].is_null() { value(parameter) } else { rounded(&parameter["floatValue"]) }
}

/// Returns the value of a parameter with every digit, and whole numbers without a decimal point.
fn exact_value(parameter: &Value) -> String {
    let text = value(parameter);
    match parameter["floatValue"].is_null() {
        true => text,
        false => text.strip_suffix(".0").unwrap_or(&text).to_owned(),
    }
}

/// Rounds a number for people; other values are unchanged.
fn rounded(value: &Value) -> String {
    value.as_f64().map_or_else(|| plain(value), |number| Rounded(number).to_string())
}

/// Returns the value of a parameter of any type.
fn value(parameter: &Value) -> String {
    ["floatValue", "intValue", "stringValue"].iter().map(|field| plain(&parameter[*field])).collect()
}

/// Returns a text without quotes, a number unchanged, and an empty text for null.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Returns the state of a trial in the words of jobs and exports: the Optimizer's `COMPLETED` is either of two.
fn state(trial: &Value) -> &str {
    match (text(trial, "state"), &trial["trialInfeasible"]) {
        ("COMPLETED", Value::Bool(true)) => "INFEASIBLE",
        ("COMPLETED", _) => "SUCCEEDED",
        (state, _) => state,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn description_names_the_nodes_of_each_attempt() {
        let trial = json!({"name": "projects/p/locations/jobs/studies/j/trials/1", "state": "ACTIVE", "tunesmith": {"attempts": [
            {"attempt": "1", "nodes": [{"node": "n1"}]},
            {"attempt": "2", "executor": "gpu", "nodes": [{"task": "master-0", "node": "n1"}, {"task": "worker-0", "node": "n2"}]},
        ]}});
        let shown = describe(&trial);
        let lines: Vec<&str> = shown.lines().skip(2).collect();
        assert_eq!(lines, ["  attempt 1 on n1", "  attempt 2 on n1 (master-0), n2 (worker-0), executor gpu"]);
    }

    #[test]
    fn csv_has_a_column_for_each_parameter_of_any_type() {
        let trials = [
            json!({
                "name": "projects/p/locations/l/studies/s/trials/1", "state": "COMPLETED", "startTime": "t1", "endTime": "t2",
                "parameters": [{"parameter": "x", "floatValue": 0.5}, {"parameter": "n", "intValue": "3"}],
                "finalMeasurement": {"stepCount": "7", "metrics": [{"metric": "loss", "value": 0.25}]},
            }),
            json!({
                "name": "projects/p/locations/l/studies/s/trials/2~3", "state": "COMPLETED", "trialInfeasible": true,
                "infeasibleReason": "out of memory", "parameters": [{"parameter": "x", "floatValue": 1.0},
                {"parameter": "kind", "stringValue": "a,b"}],
            }),
        ];
        let expected = "trial_id,state,objective_value,training_step,stopped_early,reason,start_time,end_time,recommended,kind,n,x\n\
                        1,SUCCEEDED,0.25,7,false,,t1,t2,true,,3,0.5\n\
                        2,INFEASIBLE,,,false,out of memory,,,false,\"a,b\",,1.0\n";
        assert_eq!(csv(&trials, Some(1)).unwrap(), expected);
        let study = json!({"studyConfig": {"parameters": [{"parameter": "x"}, {"parameter": "n"}]}});
        let shown = table(&trials, &study, &Layout::default()).unwrap();
        let header = shown.lines().find(|line| line.contains("TRIAL")).unwrap();
        let words: Vec<&str> = header.split_whitespace().collect();
        assert_eq!(words, ["TRIAL", "loss", "x", "n", "kind", "CLIENT", "STATE", "REASON"]);
        assert!(
            shown.contains("INFEASIBLE")
                && shown.contains("out of memory")
                && shown.contains("2~3")
                && shown.contains("CLIENT")
        );
        let of_job = json!({"name": "projects/p/locations/jobs/studies/s/trials/1", "state": "COMPLETED", "parameters": [
            {"parameter": "x", "floatValue": 0.123456789}]});
        let shown = table(&[of_job], &Value::Null, &Layout::default()).unwrap();
        assert!(shown.contains("0.123457 ") && !shown.contains("CLIENT"), "{shown}");
        assert!(describe(&trials[1]).contains("--x=1 --kind=a,b"), "{}", describe(&trials[1]));
    }

    #[test]
    fn flags_are_exact_and_whole_numbers_have_no_point() {
        let trial = |state: &str| {
            json!({"name": "t/1", "state": state, "parameters": [
                {"parameter": "batch", "floatValue": 32.0}, {"parameter": "lr", "floatValue": 0.010000000000000004},
                {"parameter": "tag", "stringValue": "1.0"},
            ]})
        };
        let arguments = |state: &str| describe(&trial(state)).lines().nth(1).unwrap().to_owned();
        for state in ["ACTIVE", "COMPLETED"] {
            assert_eq!(arguments(state), "  --batch=32 --lr=0.010000000000000004 --tag=1.0");
        }
        let shown = table(&[trial("COMPLETED")], &Value::Null, &Layout::default()).unwrap();
        assert!(shown.contains(" 32 ") && shown.contains(" 0.01 ") && !shown.contains("32.0"), "{shown}");
    }

    #[test]
    fn csv_has_a_column_for_each_of_several_metrics() {
        let metrics = json!([{"metric": "loss", "value": 1}, {"metric": "size", "value": 2}]);
        let trial =
            json!({"name": "t/1", "state": "COMPLETED", "finalMeasurement": {"stepCount": "0", "metrics": metrics}});
        let text = csv(&[trial], None).unwrap();
        assert!(text.lines().next().unwrap().ends_with("end_time,recommended,loss,size"), "{text}");
        assert!(text.lines().nth(1).unwrap().ends_with(",1,2"), "{text}");
    }
}
