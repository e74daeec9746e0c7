//! Parameters of OSS Vizier, which have types for clients and other field numbers than those of Vertex AI.

use std::collections::{BTreeMap, HashMap};

use prost::Message;
use tunesmith_api::ai_platform::optimizer::ParameterNames;

use crate::messages::oss::study_spec::ParameterSpec;
use crate::messages::oss::study_spec::parameter_spec::conditional_parameter_spec::ParentValueCondition;
use crate::messages::oss::study_spec::parameter_spec::{
    CategoricalValueSpec, ConditionalParameterSpec, DiscreteValueSpec, DoubleValueSpec, ExternalType, IntegerValueSpec,
    ParameterValueSpec,
};
use crate::messages::vertex::study_spec::{ParameterSpec as VertexSpec, parameter_spec as vertex};
use vertex::conditional_parameter_spec::ParentValueCondition as VertexCondition;

/// Parameters as those of Vertex AI. Children that differ only in the values of their parent become one: clients send one
/// for each value. Adds the types to `external_types`, by the indexes of the result.
pub(super) fn to_vertex(
    specs: &[ParameterSpec],
    path: &mut Vec<usize>,
    external_types: &mut Vec<(Vec<usize>, &'static str)>,
) -> Vec<VertexSpec> {
    let mut converted = Vec::with_capacity(specs.len());
    for (index, spec) in specs.iter().enumerate() {
        path.push(index);
        converted.push(parameter(spec, path, external_types));
        path.pop();
    }
    converted
}

fn parameter(
    spec: &ParameterSpec,
    path: &mut Vec<usize>,
    external_types: &mut Vec<(Vec<usize>, &'static str)>,
) -> VertexSpec {
    let external_type = ExternalType::try_from(spec.external_type).unwrap_or(ExternalType::AsInternal);
    if external_type != ExternalType::AsInternal {
        external_types.push((path.clone(), external_type.as_str_name()));
    }
    let value_spec = spec.parameter_value_spec.as_ref().map(|of| match of {
        ParameterValueSpec::DoubleValueSpec(range) => {
            vertex::ParameterValueSpec::DoubleValueSpec(vertex::DoubleValueSpec {
                min_value: range.min_value,
                max_value: range.max_value,
                default_value: range.default_value,
            })
        }
        ParameterValueSpec::IntegerValueSpec(range) => {
            vertex::ParameterValueSpec::IntegerValueSpec(vertex::IntegerValueSpec {
                min_value: range.min_value,
                max_value: range.max_value,
                default_value: range.default_value,
            })
        }
        ParameterValueSpec::CategoricalValueSpec(levels) => {
            vertex::ParameterValueSpec::CategoricalValueSpec(vertex::CategoricalValueSpec {
                values: levels.values.clone(),
                default_value: levels.default_value.clone(),
            })
        }
        ParameterValueSpec::DiscreteValueSpec(levels) => {
            vertex::ParameterValueSpec::DiscreteValueSpec(vertex::DiscreteValueSpec {
                values: levels.values.clone(),
                default_value: levels.default_value,
            })
        }
    });
    let mut children: Vec<(&ConditionalParameterSpec, Option<VertexCondition>)> = Vec::new();
    let mut latest: HashMap<Vec<u8>, usize> = HashMap::new();
    for child in &spec.conditional_parameter_specs {
        let condition = child.parent_value_condition.as_ref().map(to_condition);
        let content = child.parameter_spec.as_ref().map(Message::encode_to_vec).unwrap_or_default();
        let same = latest.get(&content).and_then(|index| children.get_mut(*index));
        let is_merged = same.is_some_and(|(_, merged)| merge(merged.as_mut(), condition.as_ref()));
        if !is_merged {
            latest.insert(content, children.len());
            children.push((child, condition));
        }
    }
    let mut conditional = Vec::with_capacity(children.len());
    for (index, (child, condition)) in children.into_iter().enumerate() {
        path.push(index);
        conditional.push(vertex::ConditionalParameterSpec {
            parameter_spec: child.parameter_spec.as_ref().map(|spec| parameter(spec, path, external_types)),
            parent_value_condition: condition,
        });
        path.pop();
    }
    VertexSpec {
        parameter_id: spec.parameter_id.clone(),
        scale_type: spec.scale_type,
        conditional_parameter_specs: conditional,
        parameter_value_spec: value_spec,
    }
}

/// Number of parameters in `specs`, including conditional ones.
pub(super) fn count(specs: &[ParameterSpec]) -> usize {
    let children = |spec: &ParameterSpec| -> usize {
        let specs = spec.conditional_parameter_specs.iter().filter_map(|child| child.parameter_spec.as_ref());
        specs.map(|spec| count(std::slice::from_ref(spec))).sum()
    };
    specs.iter().map(|spec| 1 + children(spec)).sum()
}

/// Maximum number of values in a merged condition, whose values are compared pairwise.
const MAX_MERGED: usize = 1_000;

/// Adds the values of `other` to `merged`. Returns whether both are of one kind, have no value in common, and are short.
fn merge(merged: Option<&mut VertexCondition>, other: Option<&VertexCondition>) -> bool {
    fn add<T: Clone + PartialEq>(merged: &mut Vec<T>, other: &[T]) -> bool {
        let is_disjoint = merged.len() + other.len() <= MAX_MERGED && !other.iter().any(|value| merged.contains(value));
        if is_disjoint {
            merged.extend_from_slice(other);
        }
        is_disjoint
    }
    match (merged, other) {
        (Some(VertexCondition::ParentIntValues(merged)), Some(VertexCondition::ParentIntValues(other))) => {
            add(&mut merged.values, &other.values)
        }
        (Some(VertexCondition::ParentDiscreteValues(merged)), Some(VertexCondition::ParentDiscreteValues(other))) => {
            add(&mut merged.values, &other.values)
        }
        (
            Some(VertexCondition::ParentCategoricalValues(merged)),
            Some(VertexCondition::ParentCategoricalValues(other)),
        ) => add(&mut merged.values, &other.values),
        _ => false,
    }
}

fn to_condition(condition: &ParentValueCondition) -> VertexCondition {
    match condition.clone() {
        ParentValueCondition::ParentDiscreteValues(values) => VertexCondition::ParentDiscreteValues(values),
        ParentValueCondition::ParentIntValues(values) => VertexCondition::ParentIntValues(values),
        ParentValueCondition::ParentCategoricalValues(values) => VertexCondition::ParentCategoricalValues(values),
    }
}

/// Parameters of Vertex AI, whose search space names are `names`, with `external_types` by search space name.
pub(super) fn of_vertex(
    specs: Vec<VertexSpec>,
    path: &mut Vec<usize>,
    names: &ParameterNames,
    external_types: &BTreeMap<String, String>,
) -> Vec<ParameterSpec> {
    let mut converted = Vec::with_capacity(specs.len());
    for (index, spec) in specs.into_iter().enumerate() {
        path.push(index);
        converted.push(of_parameter(spec, path, names, external_types));
        path.pop();
    }
    converted
}

fn of_parameter(
    spec: VertexSpec,
    path: &mut Vec<usize>,
    names: &ParameterNames,
    external_types: &BTreeMap<String, String>,
) -> ParameterSpec {
    let given = external_types.get(names.internal(path)).and_then(|name| ExternalType::from_str_name(name));
    let mut external_type = given.unwrap_or(ExternalType::AsInternal);
    let value_spec = spec.parameter_value_spec.map(|of| match of {
        vertex::ParameterValueSpec::DoubleValueSpec(range) => ParameterValueSpec::DoubleValueSpec(DoubleValueSpec {
            min_value: range.min_value,
            max_value: range.max_value,
            default_value: range.default_value,
        }),
        vertex::ParameterValueSpec::IntegerValueSpec(range) => {
            // Without a type, clients would read its values as floats.
            external_type = given.unwrap_or(ExternalType::AsInteger);
            ParameterValueSpec::IntegerValueSpec(IntegerValueSpec {
                min_value: range.min_value,
                max_value: range.max_value,
                default_value: range.default_value,
            })
        }
        vertex::ParameterValueSpec::CategoricalValueSpec(levels) => {
            ParameterValueSpec::CategoricalValueSpec(CategoricalValueSpec {
                values: levels.values,
                default_value: levels.default_value,
            })
        }
        vertex::ParameterValueSpec::DiscreteValueSpec(levels) => {
            ParameterValueSpec::DiscreteValueSpec(DiscreteValueSpec {
                values: levels.values,
                default_value: levels.default_value,
            })
        }
    });
    let mut children = Vec::with_capacity(spec.conditional_parameter_specs.len());
    for (index, child) in spec.conditional_parameter_specs.into_iter().enumerate() {
        path.push(index);
        children.push(ConditionalParameterSpec {
            parameter_spec: child.parameter_spec.map(|spec| of_parameter(spec, path, names, external_types)),
            parent_value_condition: child.parent_value_condition.map(|condition| match condition {
                VertexCondition::ParentDiscreteValues(values) => ParentValueCondition::ParentDiscreteValues(values),
                VertexCondition::ParentIntValues(values) => ParentValueCondition::ParentIntValues(values),
                VertexCondition::ParentCategoricalValues(values) => {
                    ParentValueCondition::ParentCategoricalValues(values)
                }
            }),
        });
        path.pop();
    }
    ParameterSpec {
        parameter_id: spec.parameter_id,
        scale_type: spec.scale_type,
        external_type: external_type.into(),
        conditional_parameter_specs: children,
        parameter_value_spec: value_spec,
    }
}
