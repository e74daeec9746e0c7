//! When a parameter exists: conditions on the value of another one, its parent.
//!
//! Parents may have conditions of their own, to any depth; the parameters of a space then form a forest. A parameter
//! is *active* in a trial if it has no condition, or if its parent is active and has one of the condition's values.
//! Only active parameters have values. A name comes once in a space: a child of two parents, or one with another range
//! under another value of its parent, is two parameters.

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
    /// Different from one another.
    values: Vec<ParameterValue>,
}

impl Condition {
    /// The condition that the parameter `parent` has one of `values`; values given twice count once. Whether there is
    /// such a parent, and whether it has such values, is checked with the whole space
    /// ([`SearchSpace::new`](super::SearchSpace::new)).
    pub fn new(parent: impl Into<String>, values: Vec<ParameterValue>) -> Self {
        let mut different: Vec<ParameterValue> = Vec::with_capacity(values.len());
        for value in values {
            if !different.contains(&value) {
                different.push(value);
            }
        }
        Self { parent: parent.into(), values: different }
    }

    /// Name of the parameter that decides.
    pub fn parent(&self) -> &str {
        &self.parent
    }

    /// The values of the parent for which the child is active, in the order they were given.
    pub fn values(&self) -> &[ParameterValue] {
        &self.values
    }
}

/// The serialised form of [`Condition`].
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
