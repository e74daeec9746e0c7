//! Rules and value semantics of `tunesmith.priors` and `tunesmith.initialTrials`.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use tunesmith_algorithms::problem::{self, ParameterValue, ParameterValues, SMALLEST_SPREAD};

use super::algorithm::without_priors;
use super::condition_rules::parent_value;
use super::violations::Violations;
use super::{Additions, HyperparameterSpec, ParameterPrior, ParameterSpec, ParameterType, ParentValue, nearest};

/// Checks the priors and initial trials of `additions` against the parameters of `spec`.
pub(super) fn check_prior_knowledge(spec: &HyperparameterSpec, additions: &Additions, violations: &mut Violations) {
    let mut first_use: HashMap<&str, usize> = HashMap::new();
    for (index, prior) in additions.priors.iter().enumerate() {
        let path = format!("tunesmith.priors[{index}]");
        let first = *first_use.entry(&prior.parameter).or_insert(index);
        if first != index {
            violations.error(
                format_args!("{path}.parameter"),
                format_args!("{:?} already has a prior, priors[{first}]", prior.parameter),
                "one prior for each parameter",
            );
        }
        match find(spec, &prior.parameter) {
            Some(parameter) => check_prior(&path, parameter, prior, violations),
            None => unknown(spec, format_args!("{path}.parameter"), &prior.parameter, violations),
        }
    }
    if let Some(reason) = without_priors(spec.algorithm).filter(|_| !additions.priors.is_empty()) {
        violations.warning("tunesmith.priors", reason, "only with another algorithm");
    }
    for (index, values) in additions.initial_trials.iter().enumerate() {
        for (name, written) in values {
            let field = format!("tunesmith.initialTrials[{index}].{name}");
            match find(spec, name) {
                Some(parameter) => check_value(field, parameter, written, violations),
                None => unknown(spec, field, name, violations),
            }
        }
        check_active(index, values, (spec, additions), violations);
    }
}

fn check_prior(path: &str, parameter: &ParameterSpec, prior: &ParameterPrior, violations: &mut Violations) {
    let is_categorical = parameter.parameter_type == ParameterType::Categorical;
    let has_values = is_categorical || parameter.parameter_type == ParameterType::Discrete;
    if prior.mode.is_some() != prior.weights.is_empty() {
        violations.error(
            path,
            format_args!("{:?} needs either a mode or weights", prior.parameter),
            "mode for INTEGER, DOUBLE and DISCRETE, weights for DISCRETE and CATEGORICAL",
        );
        return;
    }
    if prior.mode.is_none() && (prior.confidence.is_some() || prior.spread.is_some()) {
        violations.error(path, "confidence and spread require a mode", "weights alone, or a mode");
    }
    if let Some(mode) = &prior.mode {
        if is_categorical {
            let message = format_args!("{:?} has no order around a mode", prior.parameter);
            violations.error(format_args!("{path}.mode"), message, "weights, one for each value");
        } else {
            check_value(format!("{path}.mode"), parameter, mode, violations);
        }
        if prior.confidence.is_some() && prior.spread.is_some() {
            let field = format_args!("{path}.spread");
            violations.error(field, "cannot be combined with confidence", "confidence or spread");
        }
        if let Some(spread) = prior.spread
            && !(SMALLEST_SPREAD..=1.0).contains(&spread.0)
        {
            let allowed = format_args!("a fraction of the range from {SMALLEST_SPREAD} to 1");
            violations.error(format_args!("{path}.spread"), format_args!("{spread} is out of range"), allowed);
        }
        return;
    }
    if !has_values {
        let message = format_args!("{:?} has no listed values to weigh", prior.parameter);
        violations.error(format_args!("{path}.weights"), message, "a mode");
        return;
    }
    for (value, weight) in &prior.weights {
        check_value(format!("{path}.weights.{value}"), parameter, &ParentValue(value.clone()), violations);
        if !(weight.0.is_finite() && weight.0 > 0.0) {
            let field = format_args!("{path}.weights.{value}");
            violations.error(field, format_args!("{weight} is not a weight"), "a finite number above 0");
        }
    }
    let weighed = weighed(parameter, prior);
    if weighed.len() < prior.weights.len() || weighed.len() == value_count(parameter) {
        return;
    }
    let message = format_args!("{} of {} values have a weight", weighed.len(), value_count(parameter));
    violations.error(format_args!("{path}.weights"), message, "a weight for each value");
}

fn value_count(parameter: &ParameterSpec) -> usize {
    parameter.categorical_values.len().max(parameter.discrete_values.len())
}

/// Weights of values that the parameter has.
fn weighed(parameter: &ParameterSpec, prior: &ParameterPrior) -> Vec<(ParameterValue, f64)> {
    let weights = prior.weights.iter();
    weights.filter_map(|(value, weight)| Some((value_of(parameter, &ParentValue(value.clone()))?, weight.0))).collect()
}

/// Reports given values of parameters that are inactive for the given value of their parent.
fn check_active(
    index: usize,
    values: &BTreeMap<String, ParentValue>,
    (spec, additions): (&HyperparameterSpec, &Additions),
    violations: &mut Violations,
) {
    for condition in additions.conditions.iter().filter(|condition| values.contains_key(&condition.parameter)) {
        let field = format!("tunesmith.initialTrials[{index}].{}", condition.parameter);
        match values.get(&condition.parent) {
            None => violations.error(
                field,
                format_args!("{:?} exists only for some values of {:?}", condition.parameter, condition.parent),
                format_args!("together with a value of {:?}", condition.parent),
            ),
            Some(value) if !is_among(spec, &condition.parent, value, &condition.values) => violations.error(
                field,
                format_args!("{:?} does not exist where {:?} is {:?}", condition.parameter, condition.parent, value.0),
                "only parameters that exist for the other values",
            ),
            Some(_) => {}
        }
    }
}

/// Whether `value` of the parameter `parent` is one of `values`. True for an invalid value, which is already reported.
fn is_among(spec: &HyperparameterSpec, parent: &str, value: &ParentValue, values: &[ParentValue]) -> bool {
    let meaning = |value: &ParentValue| find(spec, parent).and_then(|parent| parent_value(parent, value));
    meaning(value).is_none_or(|value| values.iter().any(|other| meaning(other).as_ref() == Some(&value)))
}

fn check_value(field: String, parameter: &ParameterSpec, written: &ParentValue, violations: &mut Violations) {
    if parameter.parameter_type == ParameterType::ParameterTypeUnspecified || value_of(parameter, written).is_some() {
        return;
    }
    let allowed = match parameter.parameter_type {
        ParameterType::Discrete => {
            parameter.discrete_values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        }
        ParameterType::Categorical => parameter.categorical_values.join(", "),
        _ => parameter.bounds().map_or("within its bounds".to_owned(), |(min, max)| format!("from {min} to {max}")),
    };
    let name = &parameter.parameter_name;
    let levels = parameter.categorical_values.iter().map(String::as_str);
    violations.error_with_help(
        field,
        format_args!("{name:?} cannot have the value {:?}", written.0),
        format_args!("values of {name:?}: {allowed}"),
        nearest(&written.0, levels).map(|level| format!("did you mean `{level}`?")),
    );
}

pub(super) fn unknown(spec: &HyperparameterSpec, field: impl fmt::Display, name: &str, violations: &mut Violations) {
    let names: Vec<&str> = spec.params.iter().map(|parameter| parameter.parameter_name.as_str()).collect();
    violations.error_with_help(
        field,
        format_args!("{name:?} is not a parameter of this config"),
        format_args!("names of parameters: {}", names.join(", ")),
        nearest(name, names.iter().copied()).map(|name| format!("did you mean `{name}`?")),
    );
}

pub(super) fn find<'a>(spec: &'a HyperparameterSpec, name: &str) -> Option<&'a ParameterSpec> {
    spec.params.iter().find(|parameter| parameter.parameter_name == name)
}

/// Value of `parameter` denoted by `written`; `None` if the parameter does not have it.
fn value_of(parameter: &ParameterSpec, written: &ParentValue) -> Option<ParameterValue> {
    if parameter.parameter_type != ParameterType::Double {
        return parent_value(parameter, written);
    }
    let value: f64 = written.0.parse().ok()?;
    let (min, max) = parameter.bounds()?;
    (min.0..=max.0).contains(&value).then_some(ParameterValue::Double(value))
}

/// Prior described by `prior`; `None` if it violates a rule.
pub(super) fn parameter_prior(parameter: &ParameterSpec, prior: &ParameterPrior) -> Option<problem::ParameterPrior> {
    Some(match &prior.mode {
        Some(mode) => {
            let spread = prior.spread.map_or_else(|| prior.confidence.unwrap_or_default().spread(), |spread| spread.0);
            problem::ParameterPrior::Normal { mode: value_of(parameter, mode)?, spread }
        }
        None => problem::ParameterPrior::Weights(weighed(parameter, prior)),
    })
}

/// Values of an initial trial; `None` if one is infeasible or belongs to no parameter.
pub(super) fn initial_values(
    spec: &HyperparameterSpec,
    values: &BTreeMap<String, ParentValue>,
) -> Option<ParameterValues> {
    let value = |(name, written): (&String, &ParentValue)| Some((name.clone(), value_of(find(spec, name)?, written)?));
    values.iter().map(value).collect()
}
