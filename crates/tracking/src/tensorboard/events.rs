//! Event files as bytes.
//!
//! The bytes depend on the study, the trial and its reports alone. So a file of an unfinished trial is a prefix of the
//! file of the same trial later.

use prost::Message;
use prost_types::value::Kind;
use prost_types::{ListValue, Value};
use tunesmith_algorithms::problem::{Goal, ParameterKind, ParameterSpec, ParameterValue, SearchSpace};
use tunesmith_api::ai_platform::optimizer::PublishedNames;
use tunesmith_domain::{Measurement, Study, Trial};

use super::messages::{
    DataType, Dimension, Domain, Event, Experiment, HParamInfo, HParamsData, HParamsPluginData, Interval, MetricInfo,
    MetricName, PluginData, SessionEnd, SessionStart, SessionStatus, Shape, Summary, SummaryContent, SummaryMetadata,
    SummaryValue, Tensor, What,
};
use crate::Subject;
use crate::destination::{report_time, seconds};

/// Added to the rotated checksum; from TensorFlow, `tensorflow/core/lib/hash/crc32c.h`.
const MASK_DELTA: u32 = 0xa282_ead8;
/// First event of a file, with the version of the format.
const FILE_VERSION: &str = "brain.Event:2";
/// Name of the plug-in.
const PLUGIN: &str = "hparams";

/// An event file in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EventBytes(pub(super) Vec<u8>);

impl EventBytes {
    /// A file without content.
    pub(super) fn new(wall_time: f64) -> Self {
        let mut bytes = Self(Vec::new());
        bytes.add(&Event { wall_time, step: 0, what: Some(What::FileVersion(FILE_VERSION.to_owned())) });
        bytes
    }

    /// Appends a record: length, checksum of the length, data, checksum of the data.
    fn add(&mut self, event: &Event) {
        let data = event.encode_to_vec();
        let length = (data.len() as u64).to_le_bytes();
        for part in [&length[..], &masked_crc(&length), &data, &masked_crc(&data)] {
            self.0.extend_from_slice(part);
        }
    }

    fn add_plugin_data(&mut self, wall_time: f64, tag: &str, data: HParamsData) {
        let content = HParamsPluginData { version: 0, data: Some(data) }.encode_to_vec();
        let plugin_data = Some(PluginData { plugin_name: PLUGIN.to_owned(), content });
        // The plug-in requires a tensor, and ignores it.
        let tensor = Tensor { dtype: 1, shape: Some(Shape { dim: vec![Dimension { size: 0 }] }) };
        let value = SummaryValue {
            tag: tag.to_owned(),
            metadata: Some(SummaryMetadata { plugin_data }),
            content: Some(SummaryContent::Tensor(tensor)),
        };
        self.add(&Event { wall_time, step: 0, what: Some(What::Summary(Summary { value: vec![value] })) });
    }

    pub(super) fn add_experiment(&mut self, subject: &Subject, study: &Study) {
        let created = seconds(subject.created);
        let problem = &study.problem;
        let metrics = problem.metrics().iter().map(|metric| (&metric.name, goal_text(metric.goal).to_owned()));
        let constraints = problem.constraints().iter().map(|constraint| {
            let sign = if constraint.goal == Goal::Minimize { "at most" } else { "at least" };
            (&constraint.name, format!("constraint: {sign} {}", constraint.threshold))
        });
        let infos = metrics.chain(constraints).map(|(name, description)| MetricInfo {
            name: Some(MetricName { group: String::new(), tag: name.clone() }),
            description,
        });
        let experiment = Experiment {
            description: format!(
                "{} {}, searched with {}",
                subject.kind.as_str(),
                subject.id,
                study.algorithm.as_str()
            ),
            time_created_secs: created,
            hparam_infos: parameter_infos(problem.search_space()),
            metric_infos: infos.collect(),
            name: subject.name.clone(),
        };
        self.add_plugin_data(created, "_hparams_/experiment", HParamsData::Experiment(experiment));
    }

    /// Adds the start of a session of `trial`, at `start` in seconds since 1970.
    pub(super) fn add_start(&mut self, study: &Study, trial: &Trial, start: f64) {
        let names = PublishedNames::of(study.problem.search_space());
        let values = trial.parameters.iter();
        let hparams = values.map(|(name, value)| (names.published(name).to_owned(), parameter_value(value)));
        let session =
            SessionStart { hparams: hparams.collect(), group_name: trial.id.to_string(), start_time_secs: start };
        self.add_plugin_data(start, "_hparams_/session_start_info", HParamsData::SessionStart(session));
    }

    pub(super) fn add_measurement(&mut self, trial: &Trial, measurement: &Measurement) {
        let value = measurement.metrics.iter().map(|metric| SummaryValue {
            tag: metric.metric.clone(),
            metadata: None,
            // TensorBoard keeps scalars in single precision.
            content: Some(SummaryContent::SimpleValue(metric.value as f32)),
        });
        let summary = Summary { value: value.collect() };
        let wall_time = report_time(trial, measurement);
        self.add(&Event { wall_time, step: measurement.step, what: Some(What::Summary(summary)) });
    }

    /// Adds the end of a session, after which the plug-in accepts no other.
    pub(super) fn add_end(&mut self, status: SessionStatus, end: f64) {
        let session = SessionEnd { status: status.into(), end_time_secs: end };
        self.add_plugin_data(end, "_hparams_/session_end_info", HParamsData::SessionEnd(session));
    }
}

fn goal_text(goal: Goal) -> &'static str {
    match goal {
        Goal::Maximize => "maximised",
        Goal::Minimize => "minimised",
    }
}

/// Parameters of `space`. Siblings with one name, of which a trial has one, are one parameter without a domain.
pub(super) fn parameter_infos(space: &SearchSpace) -> Vec<HParamInfo> {
    let names = PublishedNames::of(space);
    let mut infos: Vec<HParamInfo> = Vec::new();
    for parameter in space.parameters() {
        let name = names.published(parameter.name());
        match infos.iter_mut().find(|info| info.name == name) {
            Some(sibling) => {
                sibling.domain = None;
                sibling.description = String::new();
                sibling.data_type = DataType::Unset.into();
            }
            None => infos.push(HParamInfo { name: name.to_owned(), ..parameter_info(parameter) }),
        }
    }
    infos
}

fn parameter_info(parameter: &ParameterSpec) -> HParamInfo {
    let interval = |min, max| Domain::Interval(Interval { min_value: min, max_value: max });
    let list = |values: Vec<Value>| Domain::Discrete(ListValue { values });
    let (data_type, domain) = match parameter.kind() {
        ParameterKind::Double { min, max, .. } => (DataType::Float64, interval(*min, *max)),
        ParameterKind::Integer { min, max, .. } => (DataType::Float64, interval(*min as f64, *max as f64)),
        ParameterKind::Discrete { values, .. } => {
            (DataType::Float64, list(values.iter().map(|value| number(*value)).collect()))
        }
        ParameterKind::Categorical { values } => {
            (DataType::Text, list(values.iter().map(|value| text(value)).collect()))
        }
    };
    let description = parameter.condition().map(|condition| {
        let values: Vec<String> = condition.values().iter().map(ToString::to_string).collect();
        format!("only if {} is {}", condition.parent(), values.join(" or "))
    });
    HParamInfo {
        name: parameter.name().to_owned(),
        description: description.unwrap_or_default(),
        data_type: data_type.into(),
        domain: Some(domain),
    }
}

fn parameter_value(value: &ParameterValue) -> Value {
    match value {
        ParameterValue::Double(value) | ParameterValue::Discrete(value) => number(*value),
        ParameterValue::Integer(value) => number(*value as f64),
        ParameterValue::Categorical(value) => text(value),
    }
}

fn number(value: f64) -> Value {
    Value { kind: Some(Kind::NumberValue(value)) }
}

fn text(value: &str) -> Value {
    Value { kind: Some(Kind::StringValue(value.to_owned())) }
}

/// Masked CRC-32C, as in TensorFlow's record format.
fn masked_crc(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(MASK_DELTA).to_le_bytes()
}
