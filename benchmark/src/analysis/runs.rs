//! Conversion of records to runs with losses.
//!
//! - The best value of a problem is its optimum, or, if a record has none, the best value of any run of any optimizer
//!   and seed on it.
//! - Before its first feasible result, the loss of a run is the worst gap of any feasible result on the problem.
//!   Problems without feasible results are left out.
//! - Of runs that differ only in budget, the longest counts; of runs with the same key, the last.
//! - Runs on unsupported problems are left out. Failed runs keep their last loss up to the budget.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::label::Varying;
use super::loss::RawRun;
use super::options::{AnalysisError, AnalysisOptions};
use crate::record::{Failure, RunKey, RunRecord};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ProblemInfo {
    pub(super) suite: String,
    pub(super) name: String,
    pub(super) parameters: usize,
    /// Whether all its records contain the best value.
    pub(super) is_exact: bool,
}

/// Suite, number of parameters and problem name.
type ProblemKey<'a> = (&'a str, usize, &'a str);

#[derive(Debug, Clone)]
pub(super) struct Run<'a> {
    pub(super) record: &'a RunRecord,
    /// Index into [`RunSet::problems`].
    pub(super) problem: usize,
    /// Index into [`RunSet::optimizers`].
    pub(super) optimizer: usize,
    /// Loss after each evaluation, one per evaluation of the budget, at least one.
    pub(super) losses: Vec<f64>,
    /// Loss after each result if trials resumed, so that there are more results than evaluations.
    by_result: Option<Vec<f64>>,
}

impl Run<'_> {
    /// Loss after each result of the record.
    pub(super) fn losses_by_result(&self) -> &[f64] {
        self.by_result.as_ref().unwrap_or(&self.losses)
    }
}

#[derive(Debug, Clone)]
pub(super) struct RunSet<'a> {
    pub(super) problems: Vec<ProblemInfo>,
    pub(super) optimizers: Vec<String>,
    pub(super) baseline: usize,
    /// Index of random search, if it has runs.
    pub(super) random: Option<usize>,
    pub(super) runs: Vec<Run<'a>>,
    /// Failed and unsupported runs, with the label of the optimizer.
    pub(super) failed: Vec<(String, &'a RunRecord)>,
    /// Problems without feasible results, as `suite/problem`.
    pub(super) without_result: Vec<String>,
}

impl<'a> RunSet<'a> {
    pub(super) fn new(records: &'a [RunRecord], options: &AnalysisOptions) -> Result<Self, AnalysisError> {
        options.check()?;
        let records = longest(records);
        let varying = Varying::among(records.iter().copied());
        let labels: Vec<String> = records.iter().map(|record| varying.label(record)).collect();
        let optimizers = chosen(&records, &labels, &options.optimizers)?;
        if optimizers.is_empty() {
            return Err(AnalysisError::NoRuns);
        }
        let find = |name: &str| {
            optimizers.iter().position(|label| label == name).or_else(|| {
                let of_optimizer = |label: &String| {
                    labels.iter().zip(&records).any(|(other, record)| other == label && record.key.optimizer == name)
                };
                optimizers.iter().position(of_optimizer)
            })
        };
        let baseline = match &options.baseline {
            None => 0,
            Some(name) => find(name)
                .ok_or_else(|| AnalysisError::UnknownOptimizer { name: name.clone(), known: optimizers.clone() })?,
        };
        let mut set = Self {
            problems: Vec::new(),
            baseline,
            random: find(&options.random),
            runs: Vec::new(),
            failed: Vec::new(),
            without_result: Vec::new(),
            optimizers,
        };
        set.add(&records, &labels);
        Ok(set)
    }

    fn add(&mut self, records: &[&'a RunRecord], labels: &[String]) {
        let mut by_problem: BTreeMap<ProblemKey<'_>, Vec<(usize, &'a RunRecord)>> = BTreeMap::new();
        for (record, label) in records.iter().zip(labels) {
            let Some(optimizer) = self.optimizers.iter().position(|name| name == label) else { continue };
            if record.failure.is_some() {
                self.failed.push((label.clone(), record));
            }
            if record.key.budget == 0 || matches!(record.failure, Some(Failure::Unsupported(_))) {
                continue;
            }
            let problem = (record.key.suite.as_str(), record.parameters, record.key.problem.as_str());
            by_problem.entry(problem).or_default().push((optimizer, record));
        }
        for ((suite, parameters, name), runs) in by_problem {
            let raw: Vec<RawRun> = runs.iter().map(|(_, record)| RawRun::of(record)).collect();
            let found = raw.iter().filter_map(RawRun::best).reduce(f64::min);
            let bests: Option<Vec<f64>> = raw.iter().map(|run| run.best_known.or(found)).collect();
            let worst_gap = bests.as_ref().and_then(|bests| {
                let gaps = raw.iter().zip(bests).filter_map(|(run, best)| Some((run.worst? - best).max(0.0)));
                gaps.reduce(f64::max)
            });
            let (Some(bests), Some(worst_gap)) = (bests, worst_gap) else {
                self.without_result.push(format!("{suite}/{name}"));
                continue;
            };
            let problem = self.problems.len();
            for (((optimizer, record), raw), best) in runs.iter().zip(&raw).zip(bests) {
                let losses = raw.losses(record.key.budget, best, worst_gap);
                let by_result =
                    (!record.resumed.is_empty()).then(|| raw.losses_by_result(record.results.len(), best, worst_gap));
                self.runs.push(Run { record, problem, optimizer: *optimizer, losses, by_result });
            }
            self.problems.push(ProblemInfo {
                suite: suite.to_owned(),
                name: name.to_owned(),
                parameters,
                is_exact: raw.iter().all(|run| run.best_known.is_some()),
            });
        }
    }
}

/// Drops records superseded by a longer or later one; keeps the order of the first record of each key.
fn longest(records: &[RunRecord]) -> Vec<&RunRecord> {
    let mut positions: HashMap<RunKey, usize> = HashMap::new();
    let mut kept: Vec<&RunRecord> = Vec::new();
    for record in records {
        let key = RunKey { budget: 0, ..record.key.clone() };
        match positions.get(&key) {
            None => {
                positions.insert(key, kept.len());
                kept.push(record);
            }
            Some(&position) if record.key.budget >= kept[position].key.budget => kept[position] = record,
            Some(_) => {}
        }
    }
    kept
}

/// Labels to compare. A requested name selects all labels of that optimizer.
fn chosen(records: &[&RunRecord], labels: &[String], requested: &[String]) -> Result<Vec<String>, AnalysisError> {
    let mut seen = HashSet::new();
    let all: Vec<(&String, &str)> = labels
        .iter()
        .zip(records)
        .filter(|(label, _)| seen.insert(label.as_str()))
        .map(|(label, record)| (label, record.key.optimizer.as_str()))
        .collect();
    if requested.is_empty() {
        return Ok(all.into_iter().map(|(label, _)| label.clone()).collect());
    }
    let mut chosen: Vec<String> = Vec::new();
    for name in requested {
        let found: Vec<&String> = all
            .iter()
            .filter(|(label, optimizer)| *label == name || optimizer == name)
            .map(|(label, _)| *label)
            .collect();
        if found.is_empty() {
            let known = all.iter().map(|(label, _)| (*label).clone()).collect();
            return Err(AnalysisError::UnknownOptimizer { name: name.clone(), known });
        }
        for label in found {
            if !chosen.contains(label) {
                chosen.push(label.clone());
            }
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::super::synthetic_fixture::record;
    use super::*;
    use crate::problem::Quality;

    fn losses(set: &RunSet<'_>) -> Vec<(String, u64, Vec<f64>)> {
        set.runs
            .iter()
            .map(|run| (set.optimizers[run.optimizer].clone(), run.record.key.seed, run.losses.clone()))
            .collect()
    }

    #[test]
    fn the_best_value_without_an_optimum_is_that_of_all_runs_and_seeds() {
        let mut records = vec![
            record("gp", "f1", 1, &[5.0, 4.0]),
            record("random", "f1", 1, &[9.0, 8.0]),
            record("random", "f1", 2, &[2.0, 7.0]),
        ];
        for record in &mut records {
            record.quality = Quality::Value { best_known: None };
        }
        let set = RunSet::new(&records, &AnalysisOptions::default()).unwrap();
        let expected = [("gp", 1, [3.0, 2.0]), ("random", 1, [7.0, 6.0]), ("random", 2, [0.0, 0.0])];
        let expected = expected.map(|(name, seed, losses)| (name.to_owned(), seed, losses.to_vec()));
        assert_eq!(losses(&set), expected);
        assert!(!set.problems[0].is_exact);
        assert_eq!(set.random, Some(1));
    }

    #[test]
    fn the_loss_before_the_first_feasible_result_is_the_worst_of_any_run_on_the_problem() {
        let mut records = vec![record("gp", "f1", 1, &[5.0, 4.0]), record("random", "f1", 1, &[6.0, 20.0])];
        records[0].results[0] = None;
        let set = RunSet::new(&records, &AnalysisOptions::default()).unwrap();
        assert_eq!(set.runs[0].losses, [20.0, 4.0]);
        for record in &mut records {
            record.results = vec![None, None];
        }
        let set = RunSet::new(&records, &AnalysisOptions::default()).unwrap();
        assert_eq!((set.runs.len(), set.without_result), (0, vec!["synthetic/f1".to_owned()]));
    }

    #[test]
    fn each_instance_has_its_own_optimum() {
        let mut records = vec![record("gp", "f1", 1, &[5.0]), record("gp", "f1", 2, &[105.0])];
        records[1].quality = Quality::Value { best_known: Some(101.0) };
        let set = RunSet::new(&records, &AnalysisOptions::default()).unwrap();
        assert_eq!(losses(&set)[0].2, [5.0]);
        assert_eq!(losses(&set)[1].2, [4.0]);
    }

    #[test]
    fn the_longest_of_runs_that_differ_only_in_budget_counts() {
        let records = vec![
            record("gp", "f1", 1, &[5.0, 4.0]),
            record("gp", "f1", 1, &[5.0, 4.0, 3.0]),
            record("gp", "f1", 1, &[5.0]),
        ];
        let set = RunSet::new(&records, &AnalysisOptions::default()).unwrap();
        assert_eq!(losses(&set), [("gp".to_owned(), 1, vec![5.0, 4.0, 3.0])]);
    }

    #[test]
    fn optimizers_are_selected_by_name_and_an_unknown_name_lists_the_known_ones() {
        let records = vec![record("gp", "f1", 1, &[5.0]), record("tpe", "f1", 1, &[5.0])];
        let choice = |names: &[&str], baseline: Option<&str>| AnalysisOptions {
            optimizers: names.iter().map(|&name| name.to_owned()).collect(),
            baseline: baseline.map(str::to_owned),
            ..AnalysisOptions::default()
        };
        let set = RunSet::new(&records, &choice(&["tpe", "gp"], Some("gp"))).unwrap();
        assert_eq!((set.optimizers, set.baseline), (vec!["tpe".to_owned(), "gp".to_owned()], 1));
        let error = RunSet::new(&records, &choice(&["tpe"], Some("gp"))).unwrap_err();
        assert_eq!(error.to_string(), "no run of optimizer \"gp\"; there are runs of tpe");
        let error = RunSet::new(&[], &AnalysisOptions::default()).unwrap_err();
        assert_eq!(error, AnalysisError::NoRuns);
    }

    #[test]
    fn a_failed_run_is_kept_and_an_unsupported_one_is_not() {
        let mut records = vec![record("gp", "f1", 1, &[5.0, 4.0, 9.0]), record("tpe", "f1", 1, &[5.0, 1.0, 1.0])];
        records[0].results.truncate(2);
        records[0].failure = Some(Failure::Failed("died".to_owned()));
        records[1].failure = Some(Failure::Unsupported("continuous only".to_owned()));
        let set = RunSet::new(&records, &AnalysisOptions::default()).unwrap();
        assert_eq!(losses(&set), [("gp".to_owned(), 1, vec![5.0, 4.0, 4.0])]);
        assert_eq!(set.failed.len(), 2);
    }
}
