//! Conditions that activate a parameter by the values of another parameter, its parent.
//!
//! Parents may have their own conditions, to any depth; the parameters of a space then form a forest. A parameter is
//! *active* in a trial if it has no condition, or if its parent is active and has one of the condition's values. Only
//! active parameters have values. Names are unique in a space: a child of two parents, or with a different range for
//! each value of its parent, becomes two parameters.

use serde::{Deserialize, Serialize};

use super::ParameterValue;

/// The values of a parent for which its child is active.
///
/// ```
/// use tunesmith_algorithms::problem::{Condition, ParameterKind, ParameterSpec, ParameterValue, ScaleType, SearchSpace};
///
/// let optimizer = ParameterKind::Categorical { values: vec!["adam".into(), "sgd".into()] };
/// let momentum = ParameterKind::Integer { min: 1, max: 9, scale: ScaleType::UnitLinear };
/// let sgd = ParameterValue::Categorical("sgd".into());
/// let space = SearchSpace::new(vec![
///     ParameterSpec::new("optimizer", optimizer)?,
///     ParameterSpec::new("momentum_tenths", momentum)?.with_condition(Condition::new("optimizer", vec![sgd])),
/// ])?;
/// // Adam, and SGD with nine momenta.
/// assert_eq!(space.cardinality(), Some(10));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "UncheckedCondition")]
pub struct Condition {
    parent: String,
    /// Pairwise different.
    values: Vec<ParameterValue>,
}

impl Condition {
    /// Requires the parameter `parent` to have one of `values`. Duplicate values are dropped.
    /// [`SearchSpace::new`](super::SearchSpace::new) checks that the parent exists and can take these values.
    pub fn new(parent: impl Into<String>, values: Vec<ParameterValue>) -> Self {
        let mut different: Vec<ParameterValue> = Vec::with_capacity(values.len());
        for value in values {
            if !different.contains(&value) {
                different.push(value);
            }
        }
        Self { parent: parent.into(), values: different }
    }

    /// Name of the parent.
    pub fn parent(&self) -> &str {
        &self.parent
    }

    /// Values of the parent that activate the child, in the order given.
    pub fn values(&self) -> &[ParameterValue] {
        &self.values
    }
}

#[derive(Deserialize)]
struct UncheckedCondition {
    parent: String,
    values: Vec<ParameterValue>,
}

impl From<UncheckedCondition> for Condition {
    fn from(unchecked: UncheckedCondition) -> Self {
        Self::new(unchecked.parent, unchecked.values)
    }
}
