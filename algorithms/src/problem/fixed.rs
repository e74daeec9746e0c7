//! Parameters whose values the caller of a suggestion fixes.

use std::collections::HashSet;

use super::{ParameterKind, ParameterSpec, ParameterValue, ParameterValues, ProblemStatement, SearchSpace, ValueError};

/// Values of some parameters of a space. The search chooses the values of the others.
///
/// The points with these values are a search space of their own, [`Self::part_of`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FixedParameters {
    values: ParameterValues,
}

impl FixedParameters {
    /// Fixes `values` in `space`. A conditional parameter requires a fixed parent with a value that activates it.
    ///
    /// # Errors
    /// The first unknown, infeasible or inactive parameter.
    pub fn new(space: &SearchSpace, values: ParameterValues) -> Result<Self, ValueError> {
        for (name, value) in &values {
            let parameter = || name.clone();
            let Some(spec) = space.parameters().iter().find(|spec| spec.name() == name) else {
                return Err(ValueError::Unknown { parameter: parameter() });
            };
            if !spec.contains(value) {
                return Err(ValueError::Infeasible { parameter: parameter(), value: value.clone() });
            }
            if let Some(condition) = spec.condition()
                && !values.get(condition.parent()).is_some_and(|value| condition.values().contains(value))
            {
                return Err(ValueError::Inactive { parameter: parameter(), parent: condition.parent().to_owned() });
            }
        }
        Ok(Self { values })
    }

    /// Fixed values by parameter; empty if all points agree.
    pub fn values(&self) -> &ParameterValues {
        &self.values
    }

    /// Whether a point has the fixed values.
    pub fn agrees_with(&self, point: &ParameterValues) -> bool {
        self.values.iter().all(|(name, value)| point.get(name) == Some(value))
    }

    /// `problem` on the points with the fixed values, which are a single value each. Parameters that these values
    /// deactivate are left out. Without a fixed value, the repeated parameter has its first one: repetition
    /// concerns the best points of the whole space.
    pub fn part_of(&self, problem: &ProblemStatement) -> ProblemStatement {
        let space = problem.search_space();
        let mut values = self.values.clone();
        if let (Some(repeats), Some(spec)) = (problem.repeats(), problem.repeated_parameter())
            && let Some(first) = repeats.values(spec).into_iter().next()
        {
            values.entry(spec.name().to_owned()).or_insert(first);
        }
        let mut inactive: HashSet<&str> = HashSet::new();
        let mut parameters = Vec::with_capacity(space.parameters().len());
        for &index in space.top_down() {
            let spec = &space.parameters()[index];
            let condition = spec.condition();
            let is_inactive = condition.is_some_and(|condition| {
                let is_excluded = |value| !condition.values().contains(value);
                inactive.contains(condition.parent()) || values.get(condition.parent()).is_some_and(is_excluded)
            });
            if is_inactive {
                inactive.insert(spec.name());
                continue;
            }
            let part = match values.get(spec.name()) {
                Some(value) => ParameterSpec::new(spec.name(), only(spec.kind(), value)),
                None => Ok(spec.clone().without_condition()),
            };
            let part = part.expect("a feasible value is a valid range");
            // A condition on a fixed parent holds.
            let condition = condition.filter(|condition| !values.contains_key(condition.parent())).cloned();
            parameters.push(match condition {
                Some(condition) => part.with_condition(condition),
                None => part,
            });
        }
        let part = SearchSpace::new(parameters).expect("parents of the remaining parameters remain, with their values");
        problem.clone().with_space_without_repeats(part)
    }
}

/// `kind` with the feasible `value` alone.
fn only(kind: &ParameterKind, value: &ParameterValue) -> ParameterKind {
    match (kind, value) {
        (ParameterKind::Double { scale, .. }, ParameterValue::Double(value)) => {
            ParameterKind::Double { min: *value, max: *value, scale: *scale }
        }
        (ParameterKind::Integer { scale, .. }, ParameterValue::Integer(value)) => {
            ParameterKind::Integer { min: *value, max: *value, scale: *scale }
        }
        (ParameterKind::Discrete { scale, .. }, ParameterValue::Discrete(value)) => {
            ParameterKind::Discrete { values: vec![*value], scale: *scale }
        }
        (_, ParameterValue::Categorical(value)) => ParameterKind::Categorical { values: vec![value.clone()] },
        (kind, _) => kind.clone(),
    }
}

/// `point` moved to `part`, a space of single values for the fixed parameters; `None` if a parameter that is active
/// there has no value.
pub(crate) fn moved_to_part(part: &SearchSpace, point: &ParameterValues) -> Option<ParameterValues> {
    let mut moved = ParameterValues::new();
    for &index in part.top_down() {
        let spec = &part.parameters()[index];
        let is_active = spec.condition().is_none_or(|condition| {
            moved.get(condition.parent()).is_some_and(|value| condition.values().contains(value))
        });
        if is_active {
            let value = single_value(spec.kind()).or_else(|| point.get(spec.name()).cloned())?;
            moved.insert(spec.name().to_owned(), value);
        }
    }
    Some(moved)
}

fn single_value(kind: &ParameterKind) -> Option<ParameterValue> {
    match kind {
        ParameterKind::Double { min, max, .. } => (min == max).then_some(ParameterValue::Double(*min)),
        ParameterKind::Integer { min, max, .. } => (min == max).then_some(ParameterValue::Integer(*min)),
        ParameterKind::Discrete { values, .. } => match values[..] {
            [value] => Some(ParameterValue::Discrete(value)),
            _ => None,
        },
        ParameterKind::Categorical { values } => match &values[..] {
            [value] => Some(ParameterValue::Categorical(value.clone())),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Condition, Goal, MetricSpec, ScaleType};

    fn problem() -> ProblemStatement {
        let double = ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear };
        let levels = ParameterKind::Categorical { values: vec!["sgd".into(), "adam".into()] };
        let with = |level: &str| Condition::new("optimizer", vec![ParameterValue::Categorical(level.into())]);
        let specs = vec![
            ParameterSpec::new("optimizer", levels).unwrap(),
            ParameterSpec::new("momentum", double.clone()).unwrap().with_condition(with("sgd")),
            ParameterSpec::new("beta", double.clone()).unwrap().with_condition(with("adam")),
            ParameterSpec::new("rate", double).unwrap(),
        ];
        let metric = MetricSpec { name: "loss".into(), goal: Goal::Minimize };
        ProblemStatement::new(SearchSpace::new(specs).unwrap(), vec![metric]).unwrap()
    }

    fn values(given: &[(&str, ParameterValue)]) -> ParameterValues {
        given.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    #[test]
    fn part_has_the_active_parameters_and_single_values() {
        let problem = problem();
        let adam = ("optimizer", ParameterValue::Categorical("adam".into()));
        let fixed = FixedParameters::new(
            problem.search_space(),
            values(&[adam.clone(), ("beta", ParameterValue::Double(0.25))]),
        );
        let part = fixed.unwrap().part_of(&problem);
        let space = part.search_space();
        let mut names: Vec<&str> = space.parameters().iter().map(ParameterSpec::name).collect();
        names.sort_unstable();
        assert_eq!(names, ["beta", "optimizer", "rate"]);
        assert!(space.parameters().iter().all(|spec| spec.condition().is_none()));
        let beta = ("beta", ParameterValue::Double(0.25));
        let rate = ("rate", ParameterValue::Double(0.5));
        assert_eq!(space.check(&values(&[adam.clone(), beta.clone(), rate.clone()])), Ok(()));
        let other = values(&[adam.clone(), ("beta", ParameterValue::Double(0.5)), rate.clone()]);
        assert!(space.check(&other).is_err());
        let sgd = ("optimizer", ParameterValue::Categorical("sgd".into()));
        let moved = moved_to_part(space, &values(&[sgd, ("momentum", ParameterValue::Double(0.9)), rate.clone()]));
        assert_eq!(moved, Some(values(&[adam, beta, rate])));
    }

    #[test]
    fn values_outside_the_space_are_refused() {
        let problem = problem();
        let refused = |given: &[(&str, ParameterValue)]| {
            FixedParameters::new(problem.search_space(), values(given)).unwrap_err().to_string()
        };
        assert_eq!(
            refused(&[("rate", ParameterValue::Double(2.0))]),
            "value 2.0 of parameter \"rate\" lies outside the search space"
        );
        assert_eq!(refused(&[("speed", ParameterValue::Double(2.0))]), "the search space has no parameter \"speed\"");
        assert!(refused(&[("beta", ParameterValue::Double(0.5))]).contains("is inactive"), "without its parent");
    }
}
