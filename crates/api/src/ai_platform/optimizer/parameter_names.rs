//! Names of conditional parameters. Siblings may share a name if they are active for different values of their
//! parent. Search space names are unique: the second is stored as `name#2`, the third as `name#3`.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use tunesmith_algorithms::problem::{ParameterSpec, SearchSpace};

use super::study_config::{StudyConfig, StudyParameterSpec};

/// Published names that differ from the search space's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PublishedNames<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> PublishedNames<'a> {
    /// Published names for `space`: `name#2` becomes `name` if both have the same parent.
    pub fn of(space: &'a SearchSpace) -> Self {
        fn parent(spec: &ParameterSpec) -> Option<&str> {
            spec.condition().map(|condition| condition.parent())
        }
        let parents: LazyCell<HashMap<&str, Option<&str>>, _> =
            LazyCell::new(|| space.parameters().iter().map(|spec| (spec.name(), parent(spec))).collect());
        let published = |spec: &'a ParameterSpec| {
            let (name, number) = spec.name().rsplit_once('#')?;
            let is_renamed = parent(spec).is_some() && number.parse::<u32>().is_ok_and(|number| number >= 2);
            let has_sibling = || parents.get(name).is_some_and(|of_sibling| *of_sibling == parent(spec));
            (is_renamed && has_sibling()).then_some((spec.name(), name))
        };
        Self(space.parameters().iter().filter_map(published).collect())
    }

    /// Published name of the parameter `stored`.
    pub fn published<'b>(&self, stored: &'b str) -> &'b str
    where
        'a: 'b,
    {
        self.0.get(stored).copied().unwrap_or(stored)
    }
}

/// Search space names of a study configuration's parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParameterNames {
    /// Search space name by index path.
    inner: BTreeMap<Vec<usize>, String>,
    /// Configured name by search space name.
    outer: BTreeMap<String, String>,
}

impl ParameterNames {
    pub fn of(config: &StudyConfig) -> Self {
        let mut given = BTreeSet::new();
        visit(&config.parameters, &mut Vec::new(), &mut |_, spec| {
            given.insert(spec.parameter.clone());
        });
        let mut names = Self::default();
        // Children of different parents may be active in the same trial, so a repeated name is an error there.
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

    /// Pairs of search space name and configured name.
    pub(super) fn stored(&self) -> impl Iterator<Item = (&str, &str)> {
        self.outer.iter().map(|(stored, given)| (stored.as_str(), given.as_str()))
    }

    /// Search space name of the parameter at `path`.
    pub fn internal(&self, path: &[usize]) -> &str {
        self.inner.get(path).map_or("", String::as_str)
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
