//! The set of all parameters of a study.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::{Condition, ParameterKind, ParameterSpec, ParameterValue};

/// The values of one trial, by the names of the active parameters.
pub type ParameterValues = BTreeMap<String, ParameterValue>;

/// Parameters with different names, at least one, each under a parent of the same space if it has a
/// [condition](super::Condition).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<ParameterSpec>", into = "Vec<ParameterSpec>")]
pub struct SearchSpace {
    parameters: Vec<ParameterSpec>,
    /// Index of each parameter's parent.
    parents: Vec<Option<usize>>,
    /// All indices, parents before their children, otherwise increasing.
    top_down: Vec<usize>,
}

impl SearchSpace {
    /// Checks the names, and that conditions speak of other parameters' feasible values without going round in
    /// circles.
    ///
    /// # Errors
    /// The first [`SearchSpaceError`] that is found.
    pub fn new(parameters: Vec<ParameterSpec>) -> Result<Self, SearchSpaceError> {
        if parameters.is_empty() {
            return Err(SearchSpaceError::Empty);
        }
        let mut indices = HashMap::with_capacity(parameters.len());
        for (index, parameter) in parameters.iter().enumerate() {
            if indices.insert(parameter.name(), index).is_some() {
                return Err(SearchSpaceError::RepeatedName { name: parameter.name().to_owned(), index });
            }
        }
        let mut parents = Vec::with_capacity(parameters.len());
        for parameter in &parameters {
            let Some(condition) = parameter.condition() else {
                parents.push(None);
                continue;
            };
            let parent = indices.get(condition.parent()).copied();
            check_condition(parameter, condition, parent.map(|index| &parameters[index]))?;
            parents.push(parent);
        }
        let top_down = top_down(&parameters, &parents)?;
        Ok(Self { parameters, parents, top_down })
    }

    /// The parameters, in the order they were given.
    pub fn parameters(&self) -> &[ParameterSpec] {
        &self.parameters
    }

    /// Whether some parameter is active only for some values of another one.
    pub fn is_conditional(&self) -> bool {
        self.parents.iter().any(Option::is_some)
    }

    /// Index of the parent of the parameter at `index`; `None` if that is always active.
    ///
    /// # Panics
    /// If there is no parameter at `index`.
    pub fn parent(&self, index: usize) -> Option<usize> {
        self.parents[index]
    }

    /// The indices of all parameters, each parent before its children.
    pub fn top_down(&self) -> &[usize] {
        &self.top_down
    }

    /// The number of different points, where points that differ in active parameters alone are different; `None` if
    /// it is infinite or above `u64::MAX`.
    pub fn cardinality(&self) -> Option<u64> {
        // Choices below each value of each parent, by the index of the parent and of the condition's value.
        let mut below: Vec<Vec<(&ParameterValue, u64)>> = vec![Vec::new(); self.parameters.len()];
        let mut total = 1_u64;
        for &index in self.top_down.iter().rev() {
            let parameter = &self.parameters[index];
            let mut choices = parameter.cardinality()?;
            for (_, product) in &below[index] {
                // The value itself has been counted.
                choices = choices.checked_add(product - 1)?;
            }
            let (Some(parent), Some(condition)) = (self.parents[index], parameter.condition()) else {
                total = total.checked_mul(choices)?;
                continue;
            };
            for value in condition.values() {
                match below[parent].iter_mut().find(|(other, _)| *other == value) {
                    Some((_, product)) => *product = product.checked_mul(choices)?,
                    None => below[parent].push((value, choices)),
                }
            }
        }
        Some(total)
    }

    /// Checks that `values` gives each active parameter a feasible value, and nothing else.
    ///
    /// # Errors
    /// The first missing, infeasible, inactive or unknown parameter.
    pub fn check(&self, values: &ParameterValues) -> Result<(), ValueError> {
        let mut active = vec![true; self.parameters.len()];
        for &index in &self.top_down {
            let parameter = &self.parameters[index];
            let name = parameter.name();
            if let (Some(parent), Some(condition)) = (self.parents[index], parameter.condition()) {
                let holds = values.get(condition.parent()).is_some_and(|value| condition.values().contains(value));
                active[index] = active[parent] && holds;
            }
            match (active[index], values.get(name)) {
                (true, None) => return Err(ValueError::Missing { parameter: name.to_owned() }),
                (true, Some(value)) if !parameter.contains(value) => {
                    return Err(ValueError::Infeasible { parameter: name.to_owned(), value: value.clone() });
                }
                (false, Some(_)) => {
                    let parent = parameter.condition().map_or("", |condition| condition.parent()).to_owned();
                    return Err(ValueError::Inactive { parameter: name.to_owned(), parent });
                }
                _ => {}
            }
        }
        match values.keys().find(|name| self.parameters.iter().all(|parameter| parameter.name() != *name)) {
            Some(name) => Err(ValueError::Unknown { parameter: name.clone() }),
            None => Ok(()),
        }
    }
}

/// Checks the condition of `parameter`, whose parent is `parent` if the space has it.
fn check_condition(
    parameter: &ParameterSpec,
    condition: &Condition,
    parent: Option<&ParameterSpec>,
) -> Result<(), SearchSpaceError> {
    let (name, parent_name) = (parameter.name().to_owned(), condition.parent().to_owned());
    let Some(parent) = parent else {
        return Err(SearchSpaceError::UnknownParent { parameter: name, parent: parent_name });
    };
    if name == parent_name {
        return Err(SearchSpaceError::OwnParent { parameter: name });
    }
    if let ParameterKind::Double { .. } = parent.kind() {
        return Err(SearchSpaceError::DoubleParent { parameter: name, parent: parent_name });
    }
    if condition.values().is_empty() {
        return Err(SearchSpaceError::NoParentValue { parameter: name, parent: parent_name });
    }
    match condition.values().iter().find(|value| !parent.contains(value)) {
        Some(value) => {
            let value = value.clone();
            Err(SearchSpaceError::InfeasibleParentValue { parameter: name, parent: parent_name, value })
        }
        None => Ok(()),
    }
}

/// All indices, parents first.
fn top_down(parameters: &[ParameterSpec], parents: &[Option<usize>]) -> Result<Vec<usize>, SearchSpaceError> {
    let mut depths = Vec::with_capacity(parents.len());
    for (start, parameter) in parameters.iter().enumerate() {
        let (mut depth, mut at) = (0, start);
        while let Some(parent) = parents[at] {
            (depth, at) = (depth + 1, parent);
            if depth > parents.len() {
                let parent = parameter.condition().map_or("", |condition| condition.parent()).to_owned();
                return Err(SearchSpaceError::Cycle { parameter: parameter.name().to_owned(), parent });
            }
        }
        depths.push(depth);
    }
    let mut indices: Vec<usize> = (0..parents.len()).collect();
    indices.sort_by_key(|&index| depths[index]);
    Ok(indices)
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
    /// A condition names a parent that is not there.
    #[error("parameter {parameter:?} is conditional on {parent:?}, which is no parameter of the search space")]
    UnknownParent {
        /// The child.
        parameter: String,
        /// The name that the condition gives.
        parent: String,
    },
    /// A parameter is its own parent.
    #[error("parameter {parameter:?} is conditional on itself")]
    OwnParent {
        /// The parameter.
        parameter: String,
    },
    /// Parents go round in a circle.
    #[error(
        "parameter {parameter:?} is conditional on {parent:?}, and that in the end on a parameter conditional on itself"
    )]
    Cycle {
        /// The first parameter whose parents never end.
        parameter: String,
        /// Its parent.
        parent: String,
    },
    /// The parent is a double, whose single values a search would never meet.
    #[error(
        "parameter {parameter:?} is conditional on {parent:?}, a double; a parent must be an integer, discrete or categorical"
    )]
    DoubleParent {
        /// The child.
        parameter: String,
        /// The parent.
        parent: String,
    },
    /// A condition without values never holds.
    #[error("parameter {parameter:?} is conditional on {parent:?} without any of its values")]
    NoParentValue {
        /// The child.
        parameter: String,
        /// The parent.
        parent: String,
    },
    /// A value that the parent cannot have.
    #[error("parameter {parameter:?} is conditional on value {value} of {parent:?}, which that parameter cannot have")]
    InfeasibleParentValue {
        /// The child.
        parameter: String,
        /// The parent.
        parent: String,
        /// The value.
        value: ParameterValue,
    },
}

/// Why some values are not a point of a search space.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// An active parameter of the space has no value.
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
    /// A value for a parameter that is not active beside the values of the others.
    #[error(
        "parameter {parameter:?} has a value but is inactive: its parent {parent:?} has none of the values that need it"
    )]
    Inactive {
        /// The parameter.
        parameter: String,
        /// The parameter that it is conditional on.
        parent: String,
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
mod tests;
