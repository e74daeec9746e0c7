//! Rendering of trials in responses as tables, text and CSV.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::format::sort_by;
use super::trial_create::with_children;
use crate::cli::results::flags;
use crate::cli::table::{Layout, natural_order};
use crate::cli::trial_view::{TableKind, TrialColumns, TrialView};
use tunesmith_algorithms::rounded::Rounded;
use tunesmith_api::ai_platform::Double;
use tunesmith_api::ai_platform::optimizer::{
    AttemptMessage, MetricFolderChoice, NodeMessage, StudyConfig, TrialMessage,
};
use tunesmith_client::Resource;
use tunesmith_domain::{RankedTrial, TrialId};

fn views(trials: &[Resource<TrialMessage>]) -> Vec<TrialView> {
    trials.iter().map(|trial| TrialView::of_message(trial)).collect()
}

/// Metrics and parameters of `trials`, metrics in order of occurrence.
fn columns(trials: &[TrialView], kind: TableKind) -> TrialColumns<'_> {
    let mut metrics: Vec<&str> = Vec::new();
    for entry in trials.iter().flat_map(TrialView::measured) {
        if !metrics.contains(&entry.metric.as_str()) {
            metrics.push(&entry.metric);
        }
    }
    let parameters: BTreeSet<&str> =
        trials.iter().flat_map(|trial| trial.parameters.keys()).map(String::as_str).collect();
    TrialColumns { metrics, parameters: parameters.into_iter().collect(), kind }
}

/// Renders trials as a table, with their clients unless they belong to a job. Parameters are in the order of `config`,
/// followed by others in natural order.
///
/// # Errors
/// If the layout selects an unknown column.
pub(super) fn table(
    trials: &[Resource<TrialMessage>],
    config: &StudyConfig,
    layout: &Layout,
) -> anyhow::Result<String> {
    let is_of_job = trials.iter().all(|trial| trial.name.contains("/locations/jobs/"));
    let views = views(trials);
    let mut columns = columns(&views, if is_of_job { TableKind::OfJob } else { TableKind::OfStudy });
    let specs = with_children(&config.parameters);
    let place = |name: &str| specs.iter().position(|spec| spec.parameter == name).unwrap_or(usize::MAX);
    columns.parameters.sort_by(|a, b| place(a).cmp(&place(b)).then_with(|| natural_order(a, b)));
    columns.table(views.iter(), views.iter().any(|trial| !trial.reason().is_empty())).render(layout)
}

/// Renders one trial, with its exact parameters as flags of a program.
pub(super) fn describe(message: &TrialMessage) -> String {
    let trial = TrialView::of_message(message);
    let reason_of_state = trial.infeasible_reason.as_ref().map(|reason| format!(": {reason}"));
    let mut lines = vec![
        format!("trial {} is {}{}", trial.name, trial.state, reason_of_state.unwrap_or_default()),
        format!(
            "  {}",
            flags(message.parameters.iter().filter_map(|parameter| {
                let (name, value) = trial.parameters.get_key_value(&parameter.parameter)?;
                Some((name, value))
            }))
        ),
    ];
    let result = trial.ranked().result.unwrap_or_default();
    lines.extend(result.iter().map(|entry| format!("  {} {}", entry.metric, Rounded(entry.value))));
    if !trial.violated.is_empty() {
        lines.push(format!("  violates {}", trial.violated.join(", ")));
    }
    lines.extend(message.tunesmith.note.as_ref().map(|note| {
        let author = note.author.as_ref().map(|author| format!(" of {author}")).unwrap_or_default();
        format!("  note{author}: {}", note.text.replace('\n', "\n    "))
    }));
    lines.extend(message.tunesmith.metric_folders.iter().map(metric_folder));
    lines.extend(message.tunesmith.attempts.iter().map(attempt));
    lines.join("\n") + "\n"
}

/// Describes which of several event file folders contains the curve of a metric.
fn metric_folder(MetricFolderChoice { metric, taken, others }: &MetricFolderChoice) -> String {
    format!("  {metric} is read from {taken:?}, not from {others:?}")
}

/// Describes the location of an attempt.
fn attempt(AttemptMessage { attempt, executor, nodes }: &AttemptMessage) -> String {
    let nodes = nodes.iter().map(|NodeMessage { task, node }| match task {
        None => node.clone(),
        Some(task) => format!("{node} ({task})"),
    });
    let nodes: Vec<String> = nodes.collect();
    let executor = executor.as_ref().map(|name| format!(", executor {name}")).unwrap_or_default();
    format!("  attempt {attempt} on {}{executor}", nodes.join(", "))
}

/// Renders trials as CSV for `tunesmith bench --replay`, marking the trial numbered `recommended`.
pub(super) fn csv(trials: &[Resource<TrialMessage>], recommended: Option<u64>) -> anyhow::Result<String> {
    let views = views(trials);
    let mut text = Vec::new();
    let number = |value| Double(value).to_string();
    columns(&views, TableKind::OfStudy).write_csv(&views, recommended.map(TrialId), number, &mut text)?;
    Ok(String::from_utf8(text)?)
}

/// Trials as a Parquet file, with the columns of [`csv()`].
pub(super) fn parquet(trials: &[Resource<TrialMessage>], recommended: Option<u64>) -> anyhow::Result<Vec<u8>> {
    let views = views(trials);
    columns(&views, TableKind::OfStudy).parquet(&views, recommended.map(TrialId))
}

/// Sorts trials by `fields` as named in filters: `metric.loss`, `parameters.lr`, `id`, or a field of the resource.
///
/// # Errors
/// If no trial has one of the fields.
pub(super) fn sort(
    trials: Vec<Resource<TrialMessage>>,
    fields: &[String],
) -> anyhow::Result<Vec<Resource<TrialMessage>>> {
    let sortable = |trial: Resource<TrialMessage>| {
        let view = TrialView::of_message(&trial);
        let metrics = view.measured().iter().map(|entry| (entry.metric.clone(), json!(entry.value)));
        let parameters = view.parameters.iter().map(|(name, value)| (name.clone(), json!(value.to_string())));
        let mut fields = trial.json.clone();
        fields["metric"] = Value::Object(metrics.collect());
        fields["parameters"] = Value::Object(parameters.collect());
        fields["id"] = json!(view.name);
        fields["state"] = json!(view.state.to_string());
        (fields, trial)
    };
    let mut sorted: Vec<(Value, Resource<TrialMessage>)> = trials.into_iter().map(sortable).collect();
    sort_by(&mut sorted, fields, "trial", |(fields, _)| fields)?;
    Ok(sorted.into_iter().map(|(_, trial)| trial).collect())
}

#[cfg(test)]
mod tests {
    use tunesmith_api::ai_platform::proto_json::known;

    use super::*;

    fn trial(message: Value) -> Resource<TrialMessage> {
        serde_json::from_value(message).unwrap()
    }

    #[test]
    fn description_names_the_nodes_of_each_attempt() {
        let trial = trial(
            json!({"name": "projects/p/locations/jobs/studies/j/trials/1", "state": "ACTIVE", "parameters": [], "tunesmith": {"attempts": [
                {"attempt": "1", "nodes": [{"node": "n1"}]},
                {"attempt": "2", "executor": "gpu", "nodes": [{"task": "master-0", "node": "n1"}, {"task": "worker-0", "node": "n2"}]},
            ]}}),
        );
        let shown = describe(&trial);
        let lines: Vec<&str> = shown.lines().skip(2).collect();
        assert_eq!(lines, ["  attempt 1 on n1", "  attempt 2 on n1 (master-0), n2 (worker-0), executor gpu"]);
    }

    #[test]
    fn csv_has_a_column_for_each_parameter_of_any_type() {
        let trials = [
            json!({
                "name": "projects/p/locations/l/studies/s/trials/1", "state": "COMPLETED", "startTime": "2026-11-26T10:00:00Z",
                "endTime": "2026-11-26T10:00:01.5Z",
                "parameters": [{"parameter": "x", "floatValue": 0.5}, {"parameter": "n", "intValue": "3"}],
                "finalMeasurement": {"stepCount": "7", "metrics": [{"metric": "loss", "value": 0.25}]},
            }),
            json!({
                "name": "projects/p/locations/l/studies/s/trials/2~3", "state": "COMPLETED", "trialInfeasible": true,
                "infeasibleReason": "out of memory", "parameters": [{"parameter": "x", "floatValue": 1.0},
                {"parameter": "kind", "stringValue": "a,b"}],
            }),
        ]
        .map(trial);
        let expected = "trial_id,state,objective_value,training_step,stopped_early,reason,start_time,end_time,recommended,kind,n,x\n\
                        1,SUCCEEDED,0.25,7,false,,2026-11-26T10:00:00Z,2026-11-26T10:00:01.5Z,true,,3,0.5\n\
                        2,INFEASIBLE,,,false,out of memory,,,false,\"a,b\",,1\n";
        assert_eq!(csv(&trials, Some(1)).unwrap(), expected);
        let parameter = |name: &str| json!({"parameter": name, "type": "DOUBLE"});
        let study: StudyConfig = known(json!({"parameters": [parameter("x"), parameter("n")]})).unwrap();
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
        let of_job =
            trial(json!({"name": "projects/p/locations/jobs/studies/s/trials/1", "state": "COMPLETED", "parameters": [
            {"parameter": "x", "floatValue": 0.123456789}]}));
        let shown = table(&[of_job], &StudyConfig::default(), &Layout::default()).unwrap();
        assert!(shown.contains("0.123457 ") && !shown.contains("CLIENT"), "{shown}");
        assert!(describe(&trials[1]).contains("--x=1 --kind=a,b"), "{}", describe(&trials[1]));
    }

    #[test]
    fn flags_are_exact_and_whole_numbers_have_no_point() {
        let in_state = |state: &str| {
            trial(json!({"name": "t/1", "state": state, "parameters": [
                {"parameter": "batch", "floatValue": 32.0}, {"parameter": "lr", "floatValue": 0.010000000000000004},
                {"parameter": "tag", "stringValue": "1.0"},
            ]}))
        };
        let arguments = |state: &str| describe(&in_state(state)).lines().nth(1).unwrap().to_owned();
        for state in ["ACTIVE", "COMPLETED"] {
            assert_eq!(arguments(state), "  --batch=32 --lr=0.010000000000000004 --tag=1.0");
        }
        let shown = table(&[in_state("COMPLETED")], &StudyConfig::default(), &Layout::default()).unwrap();
        assert!(shown.contains(" 32 ") && shown.contains(" 0.01 ") && !shown.contains("32.0"), "{shown}");
    }

    #[test]
    fn csv_has_a_column_for_each_of_several_metrics() {
        let metrics = json!([{"metric": "loss", "value": 1}, {"metric": "size", "value": 2}]);
        let measurement = json!({"stepCount": "0", "metrics": metrics});
        let trial =
            trial(json!({"name": "t/1", "state": "COMPLETED", "parameters": [], "finalMeasurement": measurement}));
        let text = csv(&[trial], None).unwrap();
        assert!(text.lines().next().unwrap().ends_with("end_time,recommended,loss,size"), "{text}");
        assert!(text.lines().nth(1).unwrap().ends_with(",1,2"), "{text}");
    }
}
