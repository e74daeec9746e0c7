//! Groups of problems analysed together, and their runs by optimizer, problem and seed.

use std::collections::BTreeMap;

use super::runs::{Run, RunSet};

/// Minimum number of problems of one dimension for a group of their own; with fewer no test can find a difference.
const LEAST_PROBLEMS: usize = 3;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct GroupKey {
    pub(super) suite: String,
    /// `None` for the whole suite.
    pub(super) dimension: Option<usize>,
    /// Indices into [`RunSet::problems`], increasing.
    pub(super) problems: Vec<usize>,
    pub(super) is_whole_suite: bool,
}

/// Groups by suite: all its problems, then each dimension. A suite with one dimension is one group.
pub(super) fn groups(set: &RunSet<'_>) -> Vec<GroupKey> {
    let mut suites: BTreeMap<&str, BTreeMap<usize, Vec<usize>>> = BTreeMap::new();
    for (index, problem) in set.problems.iter().enumerate() {
        suites.entry(&problem.suite).or_default().entry(problem.parameters).or_default().push(index);
    }
    let mut groups = Vec::new();
    for (suite, dimensions) in suites {
        let has_one_dimension = dimensions.len() == 1;
        if !has_one_dimension {
            let problems = dimensions.values().flatten().copied().collect();
            groups.push(GroupKey { suite: suite.to_owned(), dimension: None, problems, is_whole_suite: true });
        }
        for (dimension, problems) in dimensions {
            if has_one_dimension || problems.len() >= LEAST_PROBLEMS {
                let suite = suite.to_owned();
                let dimension = Some(dimension);
                groups.push(GroupKey { suite, dimension, problems, is_whole_suite: has_one_dimension });
            }
        }
    }
    groups
}

pub(super) struct Cells<'a> {
    /// By optimizer, then by position of the problem in the group.
    by_optimizer: Vec<Vec<BTreeMap<u64, &'a Run<'a>>>>,
}

impl<'a> Cells<'a> {
    pub(super) fn new(set: &'a RunSet<'_>, group: &GroupKey) -> Self {
        let mut by_optimizer = vec![vec![BTreeMap::new(); group.problems.len()]; set.optimizers.len()];
        for run in &set.runs {
            if let Ok(position) = group.problems.binary_search(&run.problem) {
                by_optimizer[run.optimizer][position].insert(run.record.key.seed, run);
            }
        }
        Self { by_optimizer }
    }

    pub(super) fn runs(&self, optimizer: usize) -> impl Iterator<Item = &'a Run<'a>> {
        self.by_optimizer[optimizer].iter().flat_map(|seeds| seeds.values().copied())
    }

    /// Runs of an optimizer on a problem with at least `budget` evaluations, by seed.
    pub(super) fn at(&self, optimizer: usize, problem: usize, budget: usize) -> BTreeMap<u64, &'a Run<'a>> {
        let seeds = &self.by_optimizer[optimizer][problem];
        seeds.iter().filter(|(_, run)| run.losses.len() >= budget).map(|(&seed, &run)| (seed, run)).collect()
    }

    /// Problems on which each of `optimizers` has a run with at least `budget` evaluations.
    pub(super) fn common_problems(&self, optimizers: &[usize], budget: usize) -> Vec<usize> {
        let count = self.by_optimizer.first().map_or(0, Vec::len);
        let has = |optimizer: usize, problem: usize| {
            self.by_optimizer[optimizer][problem].values().any(|run| run.losses.len() >= budget)
        };
        (0..count).filter(|&problem| optimizers.iter().all(|&optimizer| has(optimizer, problem))).collect()
    }

    /// Splits the optimizers by coverage at `budget`: those with runs on at least half of the problems with any run,
    /// and the others with their number of problems.
    pub(super) fn coverage(&self, budget: usize) -> (Vec<usize>, Vec<(usize, usize)>) {
        let counts: Vec<usize> =
            (0..self.by_optimizer.len()).map(|optimizer| self.common_problems(&[optimizer], budget).len()).collect();
        let problems = self.by_optimizer.first().map_or(0, Vec::len);
        let all = (0..problems)
            .filter(|&problem| {
                self.by_optimizer.iter().any(|row| row[problem].values().any(|run| run.losses.len() >= budget))
            })
            .count();
        let (mut whole, mut partial) = (Vec::new(), Vec::new());
        for (optimizer, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            if 2 * count >= all {
                whole.push(optimizer);
            } else {
                partial.push((optimizer, count));
            }
        }
        (whole, partial)
    }

    /// Runs of each of `optimizers` on a problem: those with common seeds, or all of them without a common seed.
    pub(super) fn paired(&self, optimizers: &[usize], problem: usize, budget: usize) -> Vec<Vec<&'a Run<'a>>> {
        let runs: Vec<BTreeMap<u64, &Run<'_>>> =
            optimizers.iter().map(|&optimizer| self.at(optimizer, problem, budget)).collect();
        let is_shared = |seed: &u64| runs.iter().all(|of| of.contains_key(seed));
        let any_shared = runs.first().is_some_and(|first| first.keys().any(is_shared));
        runs.iter()
            .map(|of| of.iter().filter(|(seed, _)| !any_shared || is_shared(seed)).map(|(_, &run)| run).collect())
            .collect()
    }

    /// Largest budget of any run, and the largest shared by two optimizers.
    pub(super) fn budgets(&self) -> (usize, usize) {
        let mut budgets: Vec<usize> = (0..self.by_optimizer.len())
            .filter_map(|optimizer| self.runs(optimizer).map(|run| run.losses.len()).max())
            .collect();
        budgets.sort_unstable_by(|one, other| other.cmp(one));
        let largest = budgets.first().copied().unwrap_or(0);
        (largest, budgets.get(1).copied().unwrap_or(largest))
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::AnalysisOptions;
    use super::super::synthetic_fixture::record;
    use super::*;
    use crate::record::RunRecord;

    fn of_dimension(problem: &str, parameters: usize) -> RunRecord {
        RunRecord { parameters, ..record("gp", problem, 1, &[1.0]) }
    }

    #[test]
    fn a_suite_of_several_dimensions_has_a_whole_group_and_one_per_dimension_with_three_problems() {
        let records: Vec<RunRecord> =
            [("f1/d02", 2), ("f2/d02", 2), ("f3/d02", 2), ("f1/d05", 5)].map(|(name, d)| of_dimension(name, d)).into();
        let set = RunSet::new(&records, &AnalysisOptions::default()).unwrap();
        let found: Vec<(Option<usize>, usize)> =
            groups(&set).iter().map(|group| (group.dimension, group.problems.len())).collect();
        assert_eq!(found, [(None, 4), (Some(2), 3)]);
        let set = RunSet::new(&records[3..], &AnalysisOptions::default()).unwrap();
        assert_eq!(groups(&set)[0].dimension, Some(5));
    }

    #[test]
    fn paired_runs_have_common_seeds_or_all_seeds_if_none_is_common() {
        let records = vec![
            record("gp", "f1", 1, &[1.0, 1.0]),
            record("gp", "f1", 2, &[2.0, 1.0]),
            record("tpe", "f1", 2, &[4.0]),
            record("tpe", "f1", 3, &[3.0]),
            record("hebo", "f1", 7, &[3.0]),
        ];
        let set = RunSet::new(&records, &AnalysisOptions::default()).unwrap();
        let cells = Cells::new(&set, &groups(&set)[0]);
        let first = |optimizers: &[usize]| -> Vec<Vec<f64>> {
            let paired = cells.paired(optimizers, 0, 1);
            paired.iter().map(|runs| runs.iter().map(|run| run.losses[0]).collect()).collect()
        };
        assert_eq!(first(&[0, 1]), [[2.0], [4.0]]);
        assert_eq!(first(&[1, 2]), [vec![4.0, 3.0], vec![3.0]]);
        assert_eq!(cells.budgets(), (2, 1));
        assert_eq!(cells.common_problems(&[0, 1], 2), Vec::<usize>::new());
    }

    #[test]
    fn an_optimizer_on_less_than_half_of_the_problems_is_partial() {
        let mut records: Vec<RunRecord> =
            (1..=3).map(|problem| record("gp", &format!("f{problem}"), 1, &[1.0])).collect();
        records.push(record("hebo", "f1", 1, &[1.0]));
        records.push(record("tpe", "f1", 1, &[1.0]));
        records.push(record("tpe", "f3", 1, &[1.0]));
        let set = RunSet::new(&records, &AnalysisOptions::default()).unwrap();
        let cells = Cells::new(&set, &groups(&set)[0]);
        assert_eq!(cells.coverage(1), (vec![0, 2], vec![(1, 1)]));
        assert_eq!(cells.common_problems(&[0, 2], 1), [0, 2]);
    }
}
