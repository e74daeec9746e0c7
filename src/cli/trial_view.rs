//! Trials as displayed in tables and exports, from a store or from responses.

use std::io::Write;

use jiff::Timestamp;
use tunesmith_algorithms::problem::{Origin, ParameterValue, ParameterValues};
use tunesmith_algorithms::rounded::{Rounded, RoundedValue};

use super::progress::duration_text;
use super::table::{Column, Table};
use tunesmith_api::ai_platform::optimizer::{
    MeasurementMessage, PublishedNames, TrialMessage, TrialParameter, TrialStateName, trial_and_attempt,
};
use tunesmith_domain::{MetricValue, RankedFields, RankedTrial, Study, Trial, TrialId, TrialState};
use tunesmith_tracking::{Column as TypedColumn, Values as ColumnValues, parquet};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct TrialView {
    pub(super) id: TrialId,
    /// Last name segment: the number, with the attempt after an expired lease, as in `7~2`.
    pub(super) name: String,
    pub(super) state: TrialState,
    pub(super) parameters: ParameterValues,
    pub(super) client_id: String,
    pub(super) origin: Option<Origin>,
    /// Parameters whose values the caller fixed.
    pub(super) fixed_parameters: Vec<String>,
    pub(super) result: Option<Values>,
    /// Last measurement of a trial without a result.
    last: Option<Values>,
    pub(super) measurement_count: usize,
    pub(super) stopped_early: bool,
    pub(super) infeasible_reason: Option<String>,
    /// Note of a person.
    pub(super) note: Option<String>,
    /// Constraints violated by the result.
    pub(super) violated: Vec<String>,
    start_time: Option<Timestamp>,
    end_time: Option<Timestamp>,
}

/// Values of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Values {
    pub(super) step: i64,
    pub(super) metrics: Vec<MetricValue>,
}

impl Values {
    fn of(message: &MeasurementMessage) -> Self {
        let metrics = message.metrics.iter();
        let metrics = metrics.map(|entry| MetricValue { metric: entry.metric.clone(), value: entry.value.0 });
        Self { step: message.step_count.0, metrics: metrics.collect() }
    }
}

impl TrialView {
    /// Trial in `message` at the point `parameters`.
    pub(super) fn new(message: &TrialMessage, parameters: ParameterValues) -> Self {
        let name = message.name.rsplit('/').next().unwrap_or_default();
        let omitted = message.tunesmith.omitted_measurements.and_then(|count| usize::try_from(count.0).ok());
        Self {
            id: trial_and_attempt(name).map_or(TrialId(0), |(id, _)| id),
            name: name.to_owned(),
            state: match message.state {
                TrialStateName::Requested => TrialState::Requested,
                TrialStateName::Active => TrialState::Active,
                TrialStateName::Stopping => TrialState::Stopping,
                TrialStateName::Completed if message.trial_infeasible => TrialState::Infeasible,
                TrialStateName::Completed => TrialState::Succeeded,
            },
            parameters,
            client_id: message.client_id.clone(),
            origin: message.tunesmith.origin,
            fixed_parameters: message.tunesmith.fixed_parameters.clone(),
            result: message.final_measurement.as_ref().map(Values::of),
            last: message.measurements.last().filter(|_| !message.trial_infeasible).map(Values::of),
            measurement_count: message.measurements.len() + omitted.unwrap_or(0),
            stopped_early: message.tunesmith.stopped_early,
            infeasible_reason: message.infeasible_reason.clone(),
            note: message.tunesmith.note.as_ref().map(|note| note.text.clone()),
            violated: message.tunesmith.violated_constraints.clone(),
            start_time: message.start_time,
            end_time: message.end_time,
        }
    }

    /// Trial in `message` of an unknown study.
    pub(super) fn of_message(message: &TrialMessage) -> Self {
        let value = |parameter: &TrialParameter| match (parameter.float_value, parameter.int_value) {
            (Some(number), _) => ParameterValue::Discrete(number.0),
            (None, Some(number)) => ParameterValue::Integer(number.0),
            (None, None) => ParameterValue::Categorical(parameter.string_value.clone().unwrap_or_default()),
        };
        let parameters = message.parameters.iter().map(|parameter| (parameter.parameter.clone(), value(parameter)));
        Self::new(message, parameters.collect())
    }

    pub(super) fn of_store(study: &Study, names: &PublishedNames<'_>, trial: &Trial) -> Self {
        let message = TrialMessage::without_curve(study, names, trial);
        Self { state: trial.state, ..Self::new(&message, trial.parameters.clone()) }
    }

    /// Infeasibility reason or violated constraints; empty otherwise.
    pub(super) fn reason(&self) -> String {
        match (&self.infeasible_reason, &self.violated[..]) {
            (Some(reason), _) => reason.clone(),
            (None, []) => String::new(),
            (None, violated) => format!("violates {}", violated.join(", ")),
        }
    }

    /// Metrics of the result, or of the last measurement while the trial runs.
    pub(super) fn measured(&self) -> &[MetricValue] {
        let shown = self.result.as_ref().or(self.last.as_ref());
        shown.map(|values| values.metrics.as_slice()).unwrap_or_default()
    }

    fn duration(&self) -> String {
        match (self.start_time, self.end_time) {
            (Some(start), Some(end)) => duration_text(end.duration_since(start).as_secs_f64()),
            _ => "-".to_owned(),
        }
    }
}

impl RankedTrial for TrialView {
    fn ranked(&self) -> RankedFields<'_> {
        let Self { id, ref parameters, state, stopped_early, ref result, .. } = *self;
        let result = result.as_ref().map(|values| values.metrics.as_slice());
        RankedFields { id, parameters, state, stopped_early, result }
    }
}

/// Columns of a trial table or export.
pub(super) struct TrialColumns<'a> {
    /// Metrics and constraints.
    pub(super) metrics: Vec<&'a str>,
    /// Parameters. Trials lack inactive conditional ones.
    pub(super) parameters: Vec<&'a str>,
    pub(super) kind: TableKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableKind {
    /// Trials of a finished run, with steps and durations.
    Results,
    /// Trials of a job.
    OfJob,
    /// Trials of a study, with their clients.
    OfStudy,
}

impl TrialColumns<'_> {
    pub(super) fn table<'t>(&self, trials: impl Iterator<Item = &'t TrialView> + Clone, any_reason: bool) -> Table {
        let (is_results, has_client) = (self.kind == TableKind::Results, self.kind == TableKind::OfStudy);
        let rank = self.parameters.len();
        let parameters = self.parameters.iter().enumerate();
        let mut columns = vec![Column::text("TRIAL")];
        columns.extend(self.metrics.iter().map(|name| Column::number(*name)));
        columns.extend(is_results.then(|| Column::number("STEP").may_be_left_out(rank + 1)));
        columns.extend(parameters.map(|(rank, name)| Column::value(*name).may_be_left_out(rank)));
        columns.extend(is_results.then(|| Column::text("DURATION").may_be_left_out(rank)));
        columns.extend(has_client.then(|| Column::text("CLIENT")));
        columns.push(Column::text("STATE"));
        columns.extend(any_reason.then(|| Column::prose("REASON")));
        let mut table = Table::new(columns);
        for trial in trials {
            let measured = if is_results { trial.ranked().result.unwrap_or_default() } else { trial.measured() };
            let value = |name: &str| Some(measured.iter().find(|entry| entry.metric == name)?.value);
            let metric = |name: &&str| value(name).map_or_else(|| "-".to_owned(), |value| Rounded(value).to_string());
            let step = || trial.result.as_ref().map_or_else(|| "-".to_owned(), |values| values.step.to_string());
            let parameter = |name: &&str| trial.parameters.get(*name).map(|value| RoundedValue(value).to_string());
            let early = if is_results && trial.stopped_early { ", stopped early" } else { "" };
            let mut row = vec![trial.name.clone()];
            row.extend(self.metrics.iter().map(metric));
            row.extend(is_results.then(step));
            row.extend(self.parameters.iter().map(|name| parameter(name).unwrap_or_default()));
            row.extend(is_results.then(|| trial.duration()));
            row.extend(has_client.then(|| trial.client_id.clone()));
            row.push(format!("{}{early}", trial.state));
            row.extend(any_reason.then(|| trial.reason()));
            table.add_row(row);
        }
        table
    }

    /// Writes `trials` as CSV for `tunesmith bench --replay`, formatting metrics with `number` and marking
    /// `recommended`. Notes have a column if there are any. Additional metrics follow the parameters.
    pub(super) fn write_csv(
        &self,
        trials: &[TrialView],
        recommended: Option<TrialId>,
        number: fn(f64) -> String,
        output: impl Write,
    ) -> anyhow::Result<()> {
        let first = self.metrics.first().copied().unwrap_or_default();
        let several = if self.metrics.len() > 1 { self.metrics.as_slice() } else { &[] };
        let header = ["trial_id", "state", "objective_value", "training_step", "stopped_early", "reason"];
        let header = header.into_iter().chain(["start_time", "end_time", "recommended"]);
        let has_notes = trials.iter().any(|trial| trial.note.is_some());
        let header = header.chain(has_notes.then_some("note"));
        let mut writer = csv::Writer::from_writer(output);
        writer.write_record(header.chain(self.parameters.iter().chain(several).copied()))?;
        for trial in trials {
            let metric = |name: &str| trial.value(name).map(number).unwrap_or_default();
            let time = |time: Option<Timestamp>| time.map(|time| time.to_string()).unwrap_or_default();
            let parameter = |name: &&str| trial.parameters.get(*name).map(ToString::to_string).unwrap_or_default();
            let mut row = vec![
                trial.id.to_string(),
                trial.state.to_string(),
                metric(first),
                trial.result.as_ref().map(|values| values.step.to_string()).unwrap_or_default(),
                trial.stopped_early.to_string(),
                trial.reason(),
                time(trial.start_time),
                time(trial.end_time),
                (recommended == Some(trial.id)).to_string(),
            ];
            row.extend(has_notes.then(|| trial.note.clone().unwrap_or_default()));
            row.extend(self.parameters.iter().map(parameter));
            row.extend(several.iter().map(|name| metric(name)));
            writer.write_record(row)?;
        }
        Ok(writer.flush()?)
    }

    /// `trials` as a Parquet file with the columns of [`Self::write_csv`]. A parameter has integers or numbers if all its
    /// values are, and texts otherwise.
    pub(super) fn parquet(&self, trials: &[TrialView], recommended: Option<TrialId>) -> anyhow::Result<Vec<u8>> {
        let column = |name: &str, values: ColumnValues| TypedColumn { name: name.to_owned(), values };
        let texts =
            |text: &dyn Fn(&TrialView) -> Option<String>| ColumnValues::Texts(trials.iter().map(text).collect());
        let flags = |flag: &dyn Fn(&TrialView) -> bool| {
            ColumnValues::Flags(trials.iter().map(|trial| Some(flag(trial))).collect())
        };
        let times = |time: fn(&TrialView) -> Option<Timestamp>| {
            ColumnValues::Times(trials.iter().map(|trial| time(trial).map(Timestamp::as_microsecond)).collect())
        };
        let metric = |name: &str| ColumnValues::Numbers(trials.iter().map(|trial| trial.value(name)).collect());
        let number = |trial: &TrialView| i64::try_from(trial.id.0).ok();
        let step = |trial: &TrialView| trial.result.as_ref().map(|values| values.step);
        let mut table = vec![
            column("trial_id", ColumnValues::Integers(trials.iter().map(number).collect())),
            column("state", texts(&|trial| Some(trial.state.to_string()))),
            column("objective_value", metric(self.metrics.first().copied().unwrap_or_default())),
            column("training_step", ColumnValues::Integers(trials.iter().map(step).collect())),
            column("stopped_early", flags(&|trial| trial.stopped_early)),
            column("reason", texts(&|trial| Some(trial.reason()).filter(|reason| !reason.is_empty()))),
            column("start_time", times(|trial| trial.start_time)),
            column("end_time", times(|trial| trial.end_time)),
            column("recommended", flags(&|trial| recommended == Some(trial.id))),
        ];
        let has_notes = trials.iter().any(|trial| trial.note.is_some());
        table.extend(has_notes.then(|| column("note", texts(&|trial| trial.note.clone()))));
        table.extend(self.parameters.iter().map(|name| column(name, parameter_values(trials, name))));
        let several = if self.metrics.len() > 1 { self.metrics.as_slice() } else { &[] };
        table.extend(several.iter().map(|name| column(name, metric(name))));
        Ok(parquet(&table)?)
    }
}

fn parameter_values(trials: &[TrialView], name: &str) -> ColumnValues {
    let values: Vec<Option<&ParameterValue>> = trials.iter().map(|trial| trial.parameters.get(name)).collect();
    let integer = |value: &ParameterValue| match value {
        ParameterValue::Integer(value) => Some(*value),
        ParameterValue::Double(_) | ParameterValue::Discrete(_) | ParameterValue::Categorical(_) => None,
    };
    let number = |value: &ParameterValue| match value {
        ParameterValue::Double(value) | ParameterValue::Discrete(value) => Some(*value),
        ParameterValue::Integer(value) => Some(*value as f64),
        ParameterValue::Categorical(_) => None,
    };
    if values.iter().flatten().all(|value| integer(value).is_some()) {
        return ColumnValues::Integers(values.into_iter().map(|value| integer(value?)).collect());
    }
    if values.iter().flatten().all(|value| number(value).is_some()) {
        return ColumnValues::Numbers(values.into_iter().map(|value| number(value?)).collect());
    }
    ColumnValues::Texts(values.into_iter().map(|value| Some(value?.to_string())).collect())
}
