//! Parameters of the best trials of the compared jobs, side by side.

use std::collections::HashSet;

use super::super::format::Value;
use tunesmith_algorithms::problem::ParameterValue;
use tunesmith_domain::{Study, Trial};

/// Maximum number of parameters in the table. A guess: more are read in an export.
const MOST: usize = 200;

/// Parameters of the best trial of each job: those that differ first.
#[derive(Default)]
pub(super) struct Parameters {
    pub(super) rows: Vec<Row>,
    /// Number of parameters without a row.
    pub(super) more: usize,
}

pub(super) struct Row {
    pub(super) name: String,
    /// Value in each job; `None` without a result or without the parameter.
    pub(super) values: Vec<Option<Value>>,
    /// Whether all jobs have the same value.
    pub(super) is_same: bool,
}

impl Parameters {
    /// Parameters of `jobs`: studies with their best trials.
    pub(super) fn of(jobs: &[(&Study, Option<Trial>)]) -> Self {
        let mut known = HashSet::new();
        let names = jobs.iter().flat_map(|(study, _)| study.problem.search_space().parameters());
        let names = names.map(|parameter| parameter.name()).filter(|name| known.insert(*name));
        let mut rows: Vec<Row> = names.map(|name| Row::of(name, jobs)).collect();
        rows.sort_by_key(|row| row.is_same);
        let more = rows.len().saturating_sub(MOST);
        rows.truncate(MOST);
        Self { rows, more }
    }
}

impl Row {
    fn of(name: &str, jobs: &[(&Study, Option<Trial>)]) -> Self {
        let values: Vec<Option<&ParameterValue>> =
            jobs.iter().map(|(_, best)| best.as_ref()?.parameters.get(name)).collect();
        Self {
            name: name.to_owned(),
            is_same: values.iter().all(|value| value.is_some() && *value == values[0]),
            values: values.into_iter().map(|value| value.cloned().map(Value)).collect(),
        }
    }
}
