//! Parameters: `ParameterSpec` of Vertex AI and of a `StudyConfig`.

use std::collections::BTreeMap;

use tunesmith_api::ai_platform::optimizer::{
    DoubleValueSpec, DoubleValues, IntegerValueSpec, IntegerValues, ParameterNames, StudyConfig, StudyParameterSpec,
    StudyScaleType, TextValues,
};
use tunesmith_api::ai_platform::rpc::FieldViolation;
use tunesmith_api::ai_platform::{Algorithm, Double, Int64, Number, ParameterType, ParentValue};

use crate::messages::vertex::study_spec::ParameterSpec;
use crate::messages::vertex::study_spec::parameter_spec::conditional_parameter_spec::{
    CategoricalValueCondition, DiscreteValueCondition, IntValueCondition, ParentValueCondition,
};
use crate::messages::vertex::study_spec::parameter_spec::{
    self as value_spec, ConditionalParameterSpec, ParameterValueSpec, ScaleType,
};

/// Maximum depth of conditional parameters. Deeper ones are refused before they are read.
const MAX_DEPTH: usize = 16;

/// Starting values of parameters by search space name.
pub(super) type Defaults = BTreeMap<String, ParentValue>;

/// Converts the parameters of a request. `field` is their path.
pub(super) fn parameters(
    specs: &[ParameterSpec],
    field: &str,
    violations: &mut Vec<FieldViolation>,
) -> Vec<StudyParameterSpec> {
    specs.iter().enumerate().map(|(index, spec)| parameter(spec, &format!("{field}[{index}]"), 1, violations)).collect()
}

fn parameter(
    spec: &ParameterSpec,
    field: &str,
    depth: usize,
    violations: &mut Vec<FieldViolation>,
) -> StudyParameterSpec {
    if spec.parameter_id.contains(char::is_whitespace) {
        let text = format!("{:?} has whitespace; allowed: a name without", spec.parameter_id);
        violations.push(FieldViolation::new(format!("{field}.parameterId"), text));
    }
    let scale_type = match ScaleType::try_from(spec.scale_type) {
        Ok(ScaleType::Unspecified) => StudyScaleType::ScaleTypeUnspecified,
        Ok(ScaleType::UnitLinearScale) => StudyScaleType::UnitLinearScale,
        Ok(ScaleType::UnitLogScale) => StudyScaleType::UnitLogScale,
        Ok(ScaleType::UnitReverseLogScale) => StudyScaleType::UnitReverseLogScale,
        Err(_) => {
            violations.push(unknown(format!("{field}.scaleType"), spec.scale_type, "0 to 3"));
            StudyScaleType::ScaleTypeUnspecified
        }
    };
    let mut message =
        StudyParameterSpec { parameter: spec.parameter_id.clone(), scale_type, ..StudyParameterSpec::default() };
    match &spec.parameter_value_spec {
        None => {
            let text = "needs one of doubleValueSpec, integerValueSpec, categoricalValueSpec and discreteValueSpec";
            violations.push(FieldViolation::new(field, text));
        }
        Some(ParameterValueSpec::DoubleValueSpec(range)) => {
            message.parameter_type = ParameterType::Double;
            let (min_value, max_value) = (Double(range.min_value), Double(range.max_value));
            message.double_value_spec = Some(DoubleValueSpec { min_value, max_value });
        }
        Some(ParameterValueSpec::IntegerValueSpec(range)) => {
            message.parameter_type = ParameterType::Integer;
            let (min_value, max_value) = (Int64(range.min_value), Int64(range.max_value));
            message.integer_value_spec = Some(IntegerValueSpec { min_value, max_value });
        }
        Some(ParameterValueSpec::CategoricalValueSpec(levels)) => {
            message.parameter_type = ParameterType::Categorical;
            message.categorical_value_spec = Some(TextValues { values: levels.values.clone() });
        }
        Some(ParameterValueSpec::DiscreteValueSpec(levels)) => {
            message.parameter_type = ParameterType::Discrete;
            message.discrete_value_spec = Some(numbers(&levels.values));
        }
    }
    if depth == MAX_DEPTH && !spec.conditional_parameter_specs.is_empty() {
        let text = format!("is {} levels deep; allowed: at most {MAX_DEPTH}", MAX_DEPTH + 1);
        violations.push(FieldViolation::new(format!("{field}.conditionalParameterSpecs"), text));
        return message;
    }
    for (index, conditional) in spec.conditional_parameter_specs.iter().enumerate() {
        let field = format!("{field}.conditionalParameterSpecs[{index}]");
        let Some(child) = &conditional.parameter_spec else {
            violations.push(FieldViolation::new(format!("{field}.parameterSpec"), "is required"));
            continue;
        };
        let mut child = parameter(child, &format!("{field}.parameterSpec"), depth + 1, violations);
        match &conditional.parent_value_condition {
            Some(ParentValueCondition::ParentDiscreteValues(condition)) => {
                child.parent_discrete_values = Some(numbers(&condition.values));
            }
            Some(ParentValueCondition::ParentIntValues(condition)) => {
                let values = condition.values.iter().copied().map(Int64).collect();
                child.parent_int_values = Some(IntegerValues { values });
            }
            Some(ParentValueCondition::ParentCategoricalValues(condition)) => {
                child.parent_categorical_values = Some(TextValues { values: condition.values.clone() });
            }
            // Refused by the rules of a `StudyConfig`.
            None => {}
        }
        message.child_parameter_specs.push(child);
    }
    message
}

/// Violation for an enum number that is not published.
pub(super) fn unknown(field: impl Into<String>, number: i32, allowed: &str) -> FieldViolation {
    FieldViolation::new(field, format!("{number} is not a published value; allowed: {allowed}"))
}

fn numbers(values: &[f64]) -> DoubleValues {
    DoubleValues { values: values.iter().copied().map(Number::from).collect() }
}

/// Default values of the parameters in `specs`, which `config` describes, and of the children that exist for them.
pub(super) fn defaults(
    specs: &[ParameterSpec],
    config: &StudyConfig,
    field: &str,
    violations: &mut Vec<FieldViolation>,
) -> Defaults {
    let mut reading = DefaultReading { names: ParameterNames::of(config), found: Defaults::new(), violations };
    for (index, spec) in specs.iter().enumerate() {
        reading.read(spec, &mut vec![index], &format!("{field}[{index}]"), true);
    }
    reading.found
}

struct DefaultReading<'a> {
    names: ParameterNames,
    found: Defaults,
    violations: &'a mut Vec<FieldViolation>,
}

impl DefaultReading<'_> {
    /// Reads the default of `spec`, whose indexes are `path`. It is used if the parameter `is_active` for the defaults of
    /// its parents.
    fn read(&mut self, spec: &ParameterSpec, path: &mut Vec<usize>, field: &str, is_active: bool) {
        let default = spec.parameter_value_spec.as_ref().and_then(|of| self.default(of, field));
        if let Some(value) = default.as_ref().filter(|_| is_active) {
            self.found.insert(self.names.internal(path).to_owned(), ParentValue(value.to_string()));
        }
        for (index, conditional) in spec.conditional_parameter_specs.iter().enumerate() {
            let Some(child) = &conditional.parameter_spec else { continue };
            let condition = conditional.parent_value_condition.as_ref();
            let exists = is_active && default.as_ref().zip(condition).is_some_and(|(value, of)| value.satisfies(of));
            path.push(index);
            self.read(child, path, &format!("{field}.conditionalParameterSpecs[{index}].parameterSpec"), exists);
            path.pop();
        }
    }

    fn default(&mut self, spec: &ParameterValueSpec, field: &str) -> Option<DefaultValue> {
        let mut refuse = |of: &str, value: &dyn std::fmt::Display, allowed: String| {
            let text = format!("{value} is outside of the range; allowed: {allowed}");
            self.violations.push(FieldViolation::new(format!("{field}.{of}.defaultValue"), text));
            None
        };
        match spec {
            ParameterValueSpec::DoubleValueSpec(range) => {
                let value = range.default_value?;
                match check_range(value, range.min_value, range.max_value) {
                    Ok(()) => Some(DefaultValue::Number(value)),
                    Err(allowed) => refuse("doubleValueSpec", &value, allowed),
                }
            }
            ParameterValueSpec::IntegerValueSpec(range) => {
                let value = range.default_value?;
                match check_range(value, range.min_value, range.max_value) {
                    Ok(()) => Some(DefaultValue::Integer(value)),
                    Err(allowed) => refuse("integerValueSpec", &value, allowed),
                }
            }
            ParameterValueSpec::CategoricalValueSpec(levels) => {
                let value = levels.default_value.as_ref()?;
                if levels.values.contains(value) {
                    return Some(DefaultValue::Text(value.clone()));
                }
                refuse("categoricalValueSpec", &format_args!("{value:?}"), format!("one of {:?}", levels.values))
            }
            // Rounded to the nearest value, as published.
            ParameterValueSpec::DiscreteValueSpec(levels) => {
                let value = levels.default_value.filter(|value| value.is_finite())?;
                let distance = |level: &f64| (level - value).abs();
                let nearest = levels.values.iter().copied().min_by(|a, b| distance(a).total_cmp(&distance(b)));
                nearest.map(DefaultValue::Number)
            }
        }
    }
}

enum DefaultValue {
    Number(f64),
    Integer(i64),
    Text(String),
}

impl std::fmt::Display for DefaultValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            Self::Text(value) => value.fmt(f),
        }
    }
}

impl DefaultValue {
    fn satisfies(&self, condition: &ParentValueCondition) -> bool {
        match (self, condition) {
            (Self::Number(value), ParentValueCondition::ParentDiscreteValues(of)) => of.values.contains(value),
            (Self::Integer(value), ParentValueCondition::ParentIntValues(of)) => of.values.contains(value),
            (Self::Text(value), ParentValueCondition::ParentCategoricalValues(of)) => of.values.contains(value),
            _ => false,
        }
    }
}

/// Renders the parameters of `config`, whose search space names are `names`, with `defaults`.
pub(super) fn messages(
    config: &[StudyParameterSpec],
    path: &mut Vec<usize>,
    names: &ParameterNames,
    defaults: Option<&Defaults>,
) -> Vec<ParameterSpec> {
    let mut messages = Vec::with_capacity(config.len());
    for (index, spec) in config.iter().enumerate() {
        path.push(index);
        messages.push(message(spec, path, names, defaults));
        path.pop();
    }
    messages
}

fn message(
    spec: &StudyParameterSpec,
    path: &mut Vec<usize>,
    names: &ParameterNames,
    defaults: Option<&Defaults>,
) -> ParameterSpec {
    let default = defaults.and_then(|defaults| defaults.get(names.internal(path))).map(|value| value.0.as_str());
    let values = |values: &DoubleValues| values.values.iter().map(|value| value.0).collect();
    let value_spec = if let Some(range) = &spec.double_value_spec {
        Some(ParameterValueSpec::DoubleValueSpec(value_spec::DoubleValueSpec {
            min_value: range.min_value.0,
            max_value: range.max_value.0,
            default_value: default.and_then(|value| value.parse().ok()),
        }))
    } else if let Some(range) = &spec.integer_value_spec {
        Some(ParameterValueSpec::IntegerValueSpec(value_spec::IntegerValueSpec {
            min_value: range.min_value.0,
            max_value: range.max_value.0,
            default_value: default.and_then(|value| value.parse().ok()),
        }))
    } else if let Some(levels) = &spec.categorical_value_spec {
        Some(ParameterValueSpec::CategoricalValueSpec(value_spec::CategoricalValueSpec {
            values: levels.values.clone(),
            default_value: default.map(str::to_owned),
        }))
    } else {
        spec.discrete_value_spec.as_ref().map(|levels| {
            ParameterValueSpec::DiscreteValueSpec(value_spec::DiscreteValueSpec {
                values: values(levels),
                default_value: default.and_then(|value| value.parse().ok()),
            })
        })
    };
    let scale_type = match spec.scale_type {
        StudyScaleType::ScaleTypeUnspecified => ScaleType::Unspecified,
        StudyScaleType::UnitLinearScale => ScaleType::UnitLinearScale,
        StudyScaleType::UnitLogScale => ScaleType::UnitLogScale,
        StudyScaleType::UnitReverseLogScale => ScaleType::UnitReverseLogScale,
    };
    let children = messages(&spec.child_parameter_specs, path, names, defaults);
    let children = spec.child_parameter_specs.iter().zip(children).map(|(child, message)| ConditionalParameterSpec {
        parameter_spec: Some(message),
        parent_value_condition: condition(child),
    });
    ParameterSpec {
        parameter_id: spec.parameter.clone(),
        scale_type: scale_type.into(),
        conditional_parameter_specs: children.collect(),
        parameter_value_spec: value_spec,
    }
}

fn condition(child: &StudyParameterSpec) -> Option<ParentValueCondition> {
    if let Some(values) = &child.parent_int_values {
        let values = values.values.iter().map(|value| value.0).collect();
        return Some(ParentValueCondition::ParentIntValues(IntValueCondition { values }));
    }
    if let Some(values) = &child.parent_categorical_values {
        let values = values.values.clone();
        return Some(ParentValueCondition::ParentCategoricalValues(CategoricalValueCondition { values }));
    }
    let values = child.parent_discrete_values.as_ref()?.values.iter().map(|value| value.0).collect();
    Some(ParentValueCondition::ParentDiscreteValues(DiscreteValueCondition { values }))
}

/// Algorithm of Vertex AI for `algorithm`; unspecified for one that Vertex AI has not.
pub(super) fn algorithm_message(algorithm: Algorithm) -> crate::messages::vertex::study_spec::Algorithm {
    use crate::messages::vertex::study_spec::Algorithm as Message;
    match algorithm {
        Algorithm::GridSearch => Message::GridSearch,
        Algorithm::RandomSearch => Message::RandomSearch,
        Algorithm::AlgorithmUnspecified
        | Algorithm::GaussianProcessBandit
        | Algorithm::QuasiRandomSearch
        | Algorithm::Tpe
        | Algorithm::CmaEs => Message::Unspecified,
    }
}

/// Fails with the allowed range for a value outside of it.
fn check_range<T: PartialOrd + std::fmt::Display>(value: T, min: T, max: T) -> Result<(), String> {
    if min <= value && value <= max { Ok(()) } else { Err(format!("from {min} to {max}")) }
}
