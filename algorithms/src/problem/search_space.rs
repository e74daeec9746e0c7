//! The set of all parameters of a study.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ParameterSpec, ParameterValue};

/// The values of one trial, by parameter name.
pub type ParameterValues = BTreeMap<String, ParameterValue>;

/// Parameters with different names, at least one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<ParameterSpec>", into = "Vec<ParameterSpec>")]
pub struct SearchSpace {
    parameters: Vec<ParameterSpec>,
}

impl SearchSpace {
    /// Checks that there are parameters and that no name comes twice.
    ///
    /// # Errors
    /// [`SearchSpaceError::Empty`] or [`SearchSpaceError::RepeatedName`].
    pub fn new(parameters: Vec<ParameterSpec>) -> Result<Self, SearchSpaceError> {
        if parameters.is_empty() {
            return Err(SearchSpaceError::Empty);
        }
        for (index, parameter) in parameters.iter().enumerate() {
            if parameters[..index].iter().any(|other| other.name() == parameter.name()) {
                return Err(SearchSpaceError::RepeatedName { name: parameter.name().to_owned(), index });
            }
        }
        Ok(Self { parameters })
    }

    /// The parameters, in the order they were given.
    pub fn parameters(&self) -> &[ParameterSpec] {
        &self.parameters
    }

    /// The number of different points; `None` if it is infinite or above `u64::MAX`.
    pub fn cardinality(&self) -> Option<u64> {
        self.parameters.iter().try_fold(1_u64, |product, parameter| product.checked_mul(parameter.cardinality()?))
    }

    /// Checks that `values` gives each parameter a feasible value, and nothing else.
    ///
    /// # Errors
    /// The first missing, infeasible or unknown parameter.
    pub fn check(&self, values: &ParameterValues) -> Result<(), ValueError> {
        for parameter in &self.parameters {
            let value = values
                .get(parameter.name())
                .ok_or_else(|| ValueError::Missing { parameter: parameter.name().to_owned() })?;
            if !parameter.contains(value) {
                return Err(ValueError::Infeasible { parameter: parameter.name().to_owned(), value: value.clone() });
            }
        }
        match values.keys().find(|name| self.parameters.iter().all(|parameter| parameter.name() != *name)) {
            Some(name) => Err(ValueError::Unknown { parameter: name.clone() }),
            None => Ok(()),
        }
    }
}

/// Why a list of parameters is not a search space.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchSpaceError {
    /// There is nothing to search.
    #[error("a search space needs at least one parameter")]
    Empty,
    /// Two parameters share a name.
    #[error("parameter {name:?} at index {index} is defined twice")]
    RepeatedName {
        /// The name.
        name: String,
        /// Index of the second definition.
        index: usize,
    },
}

/// Why some values are not a point of a search space.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// A parameter of the space has no value.
    #[error("parameter {parameter:?} has no value")]
    Missing {
        /// The parameter.
        parameter: String,
    },
    /// A value is of the wrong kind or out of range.
    #[error("value {value} of parameter {parameter:?} lies outside the search space")]
    Infeasible {
        /// The parameter.
        parameter: String,
        /// Its value.
        value: ParameterValue,
    },
    /// A value for a parameter that the space does not have.
    #[error("the search space has no parameter {parameter:?}")]
    Unknown {
        /// The parameter.
        parameter: String,
    },
}

impl TryFrom<Vec<ParameterSpec>> for SearchSpace {
    type Error = SearchSpaceError;

    fn try_from(parameters: Vec<ParameterSpec>) -> Result<Self, Self::Error> {
        Self::new(parameters)
    }
}

impl From<SearchSpace> for Vec<ParameterSpec> {
    fn from(space: SearchSpace) -> Self {
        space.parameters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{ParameterKind, ScaleType};

    fn integer(name: &str, max: i64) -> ParameterSpec {
        ParameterSpec::new(name, ParameterKind::Integer { min: 1, max, scale: ScaleType::UnitLinear }).unwrap()
    }

    #[test]
    fn a_point_names_each_parameter_once_and_no_other() {
        let space = SearchSpace::new(vec![integer("a", 3), integer("b", 4)]).unwrap();
        assert_eq!(space.cardinality(), Some(12));
        let mut values = ParameterValues::from([("a".to_owned(), ParameterValue::Integer(3))]);
        assert_eq!(space.check(&values), Err(ValueError::Missing { parameter: "b".into() }));
        values.insert("b".into(), ParameterValue::Integer(5));
        assert!(matches!(space.check(&values), Err(ValueError::Infeasible { .. })));
        values.insert("b".into(), ParameterValue::Integer(4));
        assert_eq!(space.check(&values), Ok(()));
        values.insert("c".into(), ParameterValue::Integer(4));
        assert_eq!(space.check(&values), Err(ValueError::Unknown { parameter: "c".into() }));
    }

    #[test]
    fn names_are_unique() {
        let error = SearchSpace::new(vec![integer("a", 3), integer("a", 4)]).unwrap_err();
        assert_eq!(error, SearchSpaceError::RepeatedName { name: "a".into(), index: 1 });
        assert_eq!(SearchSpace::new(vec![]), Err(SearchSpaceError::Empty));
    }
}
