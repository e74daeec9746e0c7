//! Children of one parent may share a name if they exist for different values; in a search space every parameter has a
//! name of its own.

use std::collections::{BTreeMap, BTreeSet};

use super::study_config::{StudyConfig, StudyParameterSpec};

/// What the parameters of a study are called inside: each as its user calls it, the second of a name and those after it
/// with a number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParameterNames {
    /// The inner name by the indices that lead to a parameter.
    inner: BTreeMap<Vec<usize>, String>,
    /// The user's name by the inner one.
    outer: BTreeMap<String, String>,
}

impl ParameterNames {
    /// The names of a study's parameters.
    pub fn of(config: &StudyConfig) -> Self {
        let mut given = BTreeSet::new();
        visit(&config.parameters, &mut Vec::new(), &mut |_, spec| {
            given.insert(spec.parameter.clone());
        });
        let mut names = Self::default();
        // Children of different parents may exist together, so there a name that comes twice stays an error.
        let mut homes: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        visit(&config.parameters, &mut Vec::new(), &mut |path, spec| {
            let home = path[..path.len() - 1].to_vec();
            let sibling = !home.is_empty() && homes.get(&spec.parameter).is_some_and(|first| *first == home);
            let inner = if sibling && names.outer.contains_key(&spec.parameter) {
                (2..)
                    .map(|number: u32| format!("{}#{number}", spec.parameter))
                    .find(|name| !given.contains(name) && !names.outer.contains_key(name))
                    .unwrap_or_default()
            } else {
                spec.parameter.clone()
            };
            homes.entry(spec.parameter.clone()).or_insert(home);
            names.outer.insert(inner.clone(), spec.parameter.clone());
            names.inner.insert(path.to_vec(), inner);
        });
        names
    }

    /// The inner name of the parameter that the indices of `path` lead to.
    pub fn internal(&self, path: &[usize]) -> &str {
        self.inner.get(path).map_or("", String::as_str)
    }

    /// The user's name of the parameter `inner`.
    pub fn external<'a>(&'a self, inner: &'a str) -> &'a str {
        self.outer.get(inner).map_or(inner, String::as_str)
    }
}

fn visit(specs: &[StudyParameterSpec], path: &mut Vec<usize>, each: &mut impl FnMut(&[usize], &StudyParameterSpec)) {
    for (index, spec) in specs.iter().enumerate() {
        path.push(index);
        each(path, spec);
        visit(&spec.child_parameter_specs, path, each);
        path.pop();
    }
}
