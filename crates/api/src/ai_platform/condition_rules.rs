//! Rules and value semantics of `tunesmith.conditions`.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use tunesmith_algorithms::problem::ParameterValue;

use super::violations::Violations;
use super::{Additions, HyperparameterSpec, ParameterSpec, ParameterType, ParentValue, nearest};

pub(super) fn check_conditions(spec: &HyperparameterSpec, additions: &Additions, violations: &mut Violations) {
    let names: Vec<&str> = spec.params.iter().map(|parameter| parameter.parameter_name.as_str()).collect();
    // For duplicate names, which are reported elsewhere, the first parameter.
    let by_name: HashMap<&str, &ParameterSpec> = names.iter().copied().zip(&spec.params).rev().collect();
    // Condition index by conditional parameter.
    let mut conditions: HashMap<&str, usize> = HashMap::new();
    for (index, condition) in additions.conditions.iter().enumerate() {
        if violations.are_full() {
            break;
        }
        let path = format!("tunesmith.conditions[{index}]");
        for (field, name) in [("parameter", &condition.parameter), ("parent", &condition.parent)] {
            if !by_name.contains_key(name.as_str()) {
                violations.error_with_help(
                    format_args!("{path}.{field}"),
                    format_args!("{name:?} is not a parameter of this config"),
                    format_args!("names of parameters: {}", names.join(", ")),
                    nearest(name, names.iter().copied()).map(|name| format!("did you mean `{name}`?")),
                );
            }
        }
        let first = *conditions.entry(&condition.parameter).or_insert(index);
        if first != index {
            violations.error(
                format_args!("{path}.parameter"),
                format_args!("{:?} already has a condition, conditions[{first}]", condition.parameter),
                "one condition for each parameter",
            );
        }
        if condition.parameter == condition.parent {
            let message = format_args!("{:?} cannot be conditional on itself", condition.parent);
            violations.error(format_args!("{path}.parent"), message, "another parameter");
        }
        if condition.values.is_empty() {
            let field = format_args!("{path}.values");
            violations.error(field, "is empty", "at least one value of the parent");
        }
        if let Some(parent) = by_name.get(condition.parent.as_str()) {
            check_parent(&path, parent, &condition.values, violations);
        }
    }
    check_circles(additions, &conditions, violations);
}

fn check_parent(path: &str, parent: &ParameterSpec, values: &[ParentValue], violations: &mut Violations) {
    let name = &parent.parameter_name;
    let allowed = match parent.parameter_type {
        // Reported by the parameter rules.
        ParameterType::ParameterTypeUnspecified => return,
        ParameterType::Double => {
            violations.error(
                format_args!("{path}.parent"),
                format_args!("{name:?} is a DOUBLE, which cannot be a parent"),
                "an INTEGER, DISCRETE or CATEGORICAL parameter",
            );
            return;
        }
        ParameterType::Integer => {
            let Some((min, max)) = parent.bounds() else { return };
            format!("whole numbers from {min} to {max}")
        }
        ParameterType::Discrete => {
            parent.discrete_values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        }
        ParameterType::Categorical => parent.categorical_values.join(", "),
    };
    for (index, value) in values.iter().enumerate() {
        if !violations.are_full() && parent_value(parent, value).is_none() {
            let levels = parent.categorical_values.iter().map(String::as_str);
            let similar = nearest(&value.0, levels).filter(|_| parent.parameter_type == ParameterType::Categorical);
            violations.error_with_help(
                format_args!("{path}.values[{index}]"),
                format_args!("{name:?} cannot have the value {:?}", value.0),
                format_args!("values of {name:?}: {allowed}"),
                similar.map(|level| format!("did you mean `{level}`?")),
            );
        }
    }
}

/// Reports each parameter that is its own ancestor.
fn check_circles(additions: &Additions, conditions: &HashMap<&str, usize>, violations: &mut Violations) {
    let parent = |name: &str| conditions.get(name).map(|&index| additions.conditions[index].parent.as_str());
    let circular = circular(additions, parent);
    for (index, condition) in additions.conditions.iter().enumerate() {
        let (name, above) = (condition.parameter.as_str(), condition.parent.as_str());
        // Parameters that are their own parent and duplicate conditions are already reported.
        if name != above && circular.contains(name) && conditions.get(name) == Some(&index) {
            violations.error(
                format_args!("tunesmith.conditions[{index}].parent"),
                format_args!("{above:?} is itself conditional on {name:?}, directly or indirectly"),
                "a parameter that exists without this one",
            );
        }
    }
}

/// Parameters that are their own ancestors. Visits each once.
fn circular<'a>(additions: &'a Additions, parent: impl Fn(&'a str) -> Option<&'a str>) -> HashSet<&'a str> {
    let mut circular = HashSet::new();
    // Index of the traversal that first reached each parameter.
    let mut reached: HashMap<&str, usize> = HashMap::new();
    for (walk, condition) in additions.conditions.iter().enumerate() {
        let mut name = condition.parameter.as_str();
        while let Entry::Vacant(new) = reached.entry(name) {
            new.insert(walk);
            let Some(above) = parent(name) else { break };
            name = above;
        }
        if reached[name] == walk && parent(name).is_some() {
            // The traversal has returned to it.
            while circular.insert(name) {
                let Some(above) = parent(name) else { break };
                name = above;
            }
        }
    }
    circular
}

/// Value of `parent` denoted by `written`; `None` if `parent` does not have it.
pub(super) fn parent_value(parent: &ParameterSpec, written: &ParentValue) -> Option<ParameterValue> {
    let text = written.0.as_str();
    match parent.parameter_type {
        ParameterType::ParameterTypeUnspecified | ParameterType::Double => None,
        ParameterType::Integer => {
            let (min, max) = parent.bounds()?;
            let (min, max) = (min.as_exact_integer()?, max.as_exact_integer()?);
            let value = text.parse::<super::Number>().ok()?.as_exact_integer()?;
            (min..=max).contains(&value).then_some(ParameterValue::Integer(value))
        }
        ParameterType::Discrete => {
            let value = text.parse().ok().filter(|number: &super::Number| !number.is_too_large())?.0;
            let listed = parent.discrete_values.iter().any(|listed| listed.0 == value);
            listed.then_some(ParameterValue::Discrete(value))
        }
        ParameterType::Categorical => {
            let listed = parent.categorical_values.iter().any(|level| level == text);
            listed.then(|| ParameterValue::Categorical(text.to_owned()))
        }
    }
}
