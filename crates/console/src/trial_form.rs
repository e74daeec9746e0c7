//! The form of a trial whose parameters a person chooses.

use tunesmith_algorithms::problem::{ParameterKind, ParameterSpec};
use tunesmith_algorithms::rounded::Rounded;
use tunesmith_domain::Study;
use tunesmith_http::pages::names_in_requests;

/// Maximum number of discrete values that are offered as a list. With more, a field shows their range.
const MOST_OPTIONS: usize = 60;

/// The fields of a new trial.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TrialForm {
    pub(crate) parameters: Vec<ParameterField>,
    /// The names of the metrics, and those of the constraints.
    pub(crate) metrics: Vec<String>,
}

/// The field of one parameter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ParameterField {
    /// The name in requests, and the name in the space, which is unique.
    pub(crate) name: String,
    pub(crate) label: String,
    /// The field of the request with the value.
    pub(crate) field: &'static str,
    /// The values that can be chosen, as JSON, and as text.
    pub(crate) options: Vec<(String, String)>,
    /// What is allowed.
    pub(crate) hint: String,
    /// Whether every trial has a value.
    pub(crate) is_required: bool,
}

impl TrialForm {
    /// The form for a trial of `study` whose result its program gives.
    pub(crate) fn without_result(study: &Study) -> Self {
        Self { metrics: Vec::new(), ..Self::of(study) }
    }

    /// The form for a trial of `study`.
    pub(crate) fn of(study: &Study) -> Self {
        let space = study.problem.search_space();
        let names = names_in_requests(space);
        let metrics = study.problem.metrics().iter().map(|metric| metric.name.clone());
        let constraints = study.problem.constraints().iter().map(|constraint| constraint.name.clone());
        Self {
            parameters: space
                .parameters()
                .iter()
                .zip(names)
                .map(|(spec, name)| ParameterField::of(spec, name))
                .collect(),
            metrics: metrics.chain(constraints).collect(),
        }
    }
}

impl ParameterField {
    fn of(spec: &ParameterSpec, name: String) -> Self {
        let json = |text: &str| serde_json::Value::from(text).to_string();
        let (field, options, range) = match spec.kind() {
            ParameterKind::Double { min, max, .. } => {
                ("floatValue", Vec::new(), format!("{} to {}", Rounded(*min), Rounded(*max)))
            }
            ParameterKind::Integer { min, max, .. } => ("intValue", Vec::new(), format!("{min} to {max}")),
            ParameterKind::Discrete { values, .. } if values.len() > MOST_OPTIONS => {
                let range =
                    format!("one of {} values from {:?} to {:?}", values.len(), values[0], values[values.len() - 1]);
                ("floatValue", Vec::new(), range)
            }
            ParameterKind::Discrete { values, .. } => {
                let options = values.iter().map(|value| (format!("{value:?}"), format!("{value}")));
                ("floatValue", options.collect(), String::new())
            }
            ParameterKind::Categorical { values } => {
                let options = values.iter().map(|value| (json(value), value.clone()));
                ("stringValue", options.collect(), String::new())
            }
        };
        let condition = spec.condition().map(|condition| {
            let values: Vec<String> = condition.values().iter().map(ToString::to_string).collect();
            format!("only with {} = {}", condition.parent(), values.join(", "))
        });
        let hints: Vec<String> = [range].into_iter().filter(|text| !text.is_empty()).chain(condition).collect();
        Self {
            name,
            label: spec.name().to_owned(),
            field,
            options,
            hint: hints.join("; "),
            is_required: spec.condition().is_none(),
        }
    }
}
