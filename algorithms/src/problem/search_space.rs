//! Search space: all parameters of a study.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::{Condition, ParameterKind, ParameterSpec, ParameterValue};

/// Values of the active parameters of one trial, by name.
pub type ParameterValues = BTreeMap<String, ParameterValue>;

/// One or more parameters with unique names. The parent of each [condition](super::Condition) is a parameter of the
/// same space.
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
    /// Checks that names are unique, and that conditions refer to feasible values of other parameters without cycles.
    ///
    /// # Errors
    /// The first violation; see [`SearchSpaceError`].
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

    /// Parameters, in the order given.
    pub fn parameters(&self) -> &[ParameterSpec] {
        &self.parameters
    }

    /// Whether any parameter has a condition.
    pub fn is_conditional(&self) -> bool {
        self.parents.iter().any(Option::is_some)
    }

    /// Index of the parent of the parameter at `index`; `None` if the parameter is always active.
    ///
    /// # Panics
    /// If `index` is out of range.
    pub fn parent(&self, index: usize) -> Option<usize> {
        self.parents[index]
    }

    /// Indices of all parameters, each parent before its children.
    pub fn top_down(&self) -> &[usize] {
        &self.top_down
    }

    /// Number of distinct points, compared by their active parameters. `None` if it is infinite or above `u64::MAX`.
    pub fn cardinality(&self) -> Option<u64> {
        // For each parent and each value of a condition, the number of choices of the children.
        let mut below: Vec<Vec<(&ParameterValue, u64)>> = vec![Vec::new(); self.parameters.len()];
        let mut total = 1_u64;
        for &index in self.top_down.iter().rev() {
            let parameter = &self.parameters[index];
            let mut choices = parameter.cardinality()?;
            for (_, product) in &below[index] {
                // The value itself is already counted.
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

    /// Checks that `values` contains a feasible value for each active parameter and nothing else.
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

/// Checks the condition of `parameter`. `parent` is `None` if it is missing in the space.
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

/// Reason why a list of parameters does not form a search space.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchSpaceError {
    /// The list is empty.
    #[error("a search space needs at least one parameter")]
    Empty,
    /// Two parameters share a name.
    #[error("parameter {name:?} at index {index} is defined twice")]
    RepeatedName {
        /// Repeated name.
        name: String,
        /// Index of the second definition.
        index: usize,
    },
    /// The parent of a condition is not a parameter of the space.
    #[error("parameter {parameter:?} is conditional on {parent:?}, which is not a parameter of the search space")]
    UnknownParent {
        /// Name of the child.
        parameter: String,
        /// Name of the parent.
        parent: String,
    },
    /// A parameter is conditional on itself.
    #[error("parameter {parameter:?} is conditional on itself")]
    OwnParent {
        /// Name of the parameter.
        parameter: String,
    },
    /// The conditions form a cycle.
    #[error("parameter {parameter:?} is conditional on {parent:?}, which leads to a cycle of conditions")]
    Cycle {
        /// First parameter whose chain of parents does not end.
        parameter: String,
        /// Name of its parent.
        parent: String,
    },
    /// The parent is a double. A search practically never hits single values of a double.
    #[error(
        "parameter {parameter:?} is conditional on {parent:?}, a double; a parent must be an integer, discrete or categorical"
    )]
    DoubleParent {
        /// Name of the child.
        parameter: String,
        /// Name of the parent.
        parent: String,
    },
    /// A condition lists no values, so it never holds.
    #[error("parameter {parameter:?} is conditional on {parent:?} but lists none of its values")]
    NoParentValue {
        /// Name of the child.
        parameter: String,
        /// Name of the parent.
        parent: String,
    },
    /// A condition lists a value that is infeasible for the parent.
    #[error("parameter {parameter:?} is conditional on value {value} of {parent:?}, which that parameter cannot have")]
    InfeasibleParentValue {
        /// Name of the child.
        parameter: String,
        /// Name of the parent.
        parent: String,
        /// Infeasible value.
        value: ParameterValue,
    },
}

/// Reason why some values do not form a point of a search space.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// An active parameter has no value.
    #[error("parameter {parameter:?} has no value")]
    Missing {
        /// Name of the parameter.
        parameter: String,
    },
    /// A value is of the wrong kind or out of range.
    #[error("value {value} of parameter {parameter:?} lies outside the search space")]
    Infeasible {
        /// Name of the parameter.
        parameter: String,
        /// Its value.
        value: ParameterValue,
    },
    /// An inactive parameter has a value.
    #[error(
        "parameter {parameter:?} has a value but is inactive: its parent {parent:?} has none of the values that activate it"
    )]
    Inactive {
        /// Name of the parameter.
        parameter: String,
        /// Name of the parent in its condition.
        parent: String,
    },
    /// The space does not have the parameter.
    #[error("the search space has no parameter {parameter:?}")]
    Unknown {
        /// Name of the parameter.
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
