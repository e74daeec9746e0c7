use tunesmith_algorithms::problem::{ParameterKind, ParameterSpec};
use tunesmith_algorithms::rounded::Rounded;
use tunesmith_api::ai_platform::optimizer::PublishedNames;
use tunesmith_domain::Study;

/// Maximum number of discrete values for a list. Above it, a field shows their range.
const MOST_OPTIONS: usize = 60;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TrialForm {
    pub(crate) parameters: Vec<ParameterField>,
    /// Names of the metrics, then the constraints.
    pub(crate) metrics: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ParameterField {
    /// Name in requests, and unique name in the search space.
    pub(crate) name: String,
    pub(crate) label: String,
    /// Request field for the value.
    pub(crate) field: &'static str,
    /// Selectable values, as JSON and as text.
    pub(crate) options: Vec<(String, String)>,
    pub(crate) hint: String,
    /// Whether every trial has a value.
    pub(crate) is_required: bool,
}

impl TrialForm {
    /// Form for a trial of `study` with a result from its program.
    pub(crate) fn without_result(study: &Study) -> Self {
        Self { metrics: Vec::new(), ..Self::of(study) }
    }

    pub(crate) fn of(study: &Study) -> Self {
        let space = study.problem.search_space();
        let published = PublishedNames::of(space);
        let parameters = space.parameters().iter();
        // Names in requests, which different conditions may share.
        let names: Vec<String> = parameters.map(|parameter| published.published(parameter.name()).to_owned()).collect();
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
