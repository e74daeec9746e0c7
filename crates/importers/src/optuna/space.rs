//! The space of a study, which Optuna has in its trials only.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::OptunaTrial;
use super::distribution::Distribution;

/// Parameters of a study.
pub(super) struct Space {
    /// `StudyParameterSpec`s.
    pub(super) parameters: Vec<Value>,
    /// Parameters that some trials lack for no reason known here, with the number of these trials.
    pub(super) excluded: BTreeMap<String, usize>,
    pub(super) notes: Vec<String>,
    distributions: BTreeMap<String, Distribution>,
}

/// A parent, and the values for which a parameter is there.
type Condition = (String, Vec<String>);

impl Space {
    /// Space of `trials`, whose parameters may depend on categories of others.
    ///
    /// # Errors
    /// A parameter that has distributions of different kinds, or no parameters.
    pub(super) fn of(trials: &[&OptunaTrial]) -> Result<Self, String> {
        let mut all: BTreeMap<&str, Distribution> = BTreeMap::new();
        for (name, (_, distribution)) in trials.iter().flat_map(|trial| &trial.parameters) {
            let known = all.get(name.as_str());
            let union = known.map_or_else(|| Some(distribution.clone()), |known| known.union(distribution));
            let union = union.ok_or_else(|| format!("parameter {name} has distributions of different kinds"))?;
            all.insert(name, union);
        }
        if all.is_empty() {
            return Err(
                "the study has no finished trial with parameters, and Optuna keeps its space nowhere else".to_owned()
            );
        }
        let lacking = |name: &str| trials.iter().filter(|trial| !trial.parameters.contains_key(name)).count();
        let (mut roots, mut children, mut excluded, mut notes) = (Vec::new(), Vec::new(), BTreeMap::new(), Vec::new());
        for (name, distribution) in &all {
            let (spec, note) = distribution.spec(name);
            notes.extend(note);
            match lacking(name) {
                0 => roots.push(spec),
                count => match condition(trials, &all, name) {
                    Some(condition) => {
                        notes.push(format!("{name} depends on {}: {}", condition.0, condition.1.join(", ")));
                        children.push((condition, spec));
                    }
                    None => {
                        excluded.insert((*name).to_owned(), count);
                        roots.push(spec);
                    }
                },
            }
        }
        for ((parent, values), mut spec) in children {
            spec["parentCategoricalValues"] = json!({ "values": values });
            let parent = roots.iter_mut().find(|root| root["parameter"] == parent.as_str());
            if let Some(parent) = parent {
                match &mut parent["childParameterSpecs"] {
                    Value::Array(specs) => specs.push(spec),
                    empty => *empty = json!([spec]),
                }
            }
        }
        let distributions = all.into_iter().map(|(name, distribution)| (name.to_owned(), distribution)).collect();
        Ok(Self { parameters: roots, excluded, notes, distributions })
    }

    /// Body of the request that queues a trial with the values `fixed`; `None` if one is missing or outside the space.
    pub(super) fn queued(&self, fixed: &Map<String, Value>) -> Option<Value> {
        let mut parameters = Vec::new();
        self.queue(&self.parameters, fixed, &mut parameters)?;
        (parameters.len() == fixed.len()).then(|| json!({ "parameters": parameters }))
    }

    /// Adds the values of the active `specs` to `parameters`.
    fn queue(&self, specs: &[Value], fixed: &Map<String, Value>, parameters: &mut Vec<Value>) -> Option<()> {
        for spec in specs {
            let name = spec["parameter"].as_str()?;
            let parameter = self.distributions.get(name)?.given(name, fixed.get(name)?)?;
            let is_active = |child: &&Value| {
                let values = child["parentCategoricalValues"]["values"].as_array();
                values.is_some_and(|values| values.contains(&parameter["stringValue"]))
            };
            let children = spec["childParameterSpecs"].as_array().into_iter().flatten().filter(is_active);
            let children: Vec<Value> = children.cloned().collect();
            parameters.push(parameter);
            self.queue(&children, fixed, parameters)?;
        }
        Some(())
    }
}

/// The category of which the presence of `name` is a function: a parameter of all trials.
fn condition(trials: &[&OptunaTrial], all: &BTreeMap<&str, Distribution>, name: &str) -> Option<Condition> {
    let candidates = all.iter().filter(|(_, distribution)| matches!(distribution, Distribution::Categorical(_)));
    candidates.map(|(parent, _)| *parent).find_map(|parent| {
        let (mut with, mut without) = (BTreeSet::new(), BTreeSet::new());
        for trial in trials {
            let (stored, distribution) = trial.parameters.get(parent)?;
            let value = distribution.category(*stored)?;
            if trial.parameters.contains_key(name) {
                with.insert(value)
            } else {
                without.insert(value)
            };
        }
        with.is_disjoint(&without).then(|| (parent.to_owned(), with.into_iter().collect()))
    })
}
