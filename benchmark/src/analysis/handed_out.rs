//! Quality of the trial a user would pick on noisy problems: the true best is unknown, and the best observed one is
//! lucky.

use serde::Serialize;

use super::groups::{Cells, GroupKey};
use super::runs::{Run, RunSet};
use crate::record::CHECKPOINTS;
use tunesmith_statistics::summary::median;

/// Median gaps over the runs of one optimizer on one noisy problem after a number of evaluations.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HandedOut {
    pub problem: String,
    #[serde(rename = "contestant")]
    pub optimizer: usize,
    pub evaluations: usize,
    pub runs: usize,
    /// Gap of the best point tried, unknown to the user.
    pub found: f64,
    /// Gap of the trial with the best observed value.
    pub observed: f64,
    /// Gap of the recommended trial; `None` if a run has none.
    pub recommended: Option<f64>,
}

/// Gaps by problem, optimizer and number of evaluations; empty if no run has recorded a choice.
pub(super) fn handed_out(set: &RunSet<'_>, cells: &Cells<'_>, group: &GroupKey) -> Vec<HandedOut> {
    let mut found = Vec::new();
    for (position, problem) in group.problems.iter().enumerate() {
        for optimizer in 0..set.optimizers.len() {
            for evaluations in CHECKPOINTS {
                let runs = cells.at(optimizer, position, evaluations);
                let gaps: Vec<Gaps> = runs.values().filter_map(|run| gaps(run, evaluations)).collect();
                if gaps.is_empty() {
                    continue;
                }
                let of = |gap: &dyn Fn(&Gaps) -> f64| median(&gaps.iter().map(gap).collect::<Vec<f64>>());
                let recommended: Option<Vec<f64>> = gaps.iter().map(|gaps| gaps.recommended).collect();
                found.push(HandedOut {
                    problem: set.problems[*problem].name.clone(),
                    optimizer,
                    evaluations,
                    runs: gaps.len(),
                    found: of(&|gaps| gaps.found),
                    observed: of(&|gaps| gaps.observed),
                    recommended: recommended.map(|gaps| median(&gaps)),
                });
            }
        }
    }
    found
}

struct Gaps {
    found: f64,
    observed: f64,
    recommended: Option<f64>,
}

fn gaps(run: &Run<'_>, evaluations: usize) -> Option<Gaps> {
    let record = run.record;
    let chosen = record.chosen.iter().find(|chosen| chosen.after == evaluations)?;
    let gap = |index: usize| record.gap(record.results.get(index)?);
    let recommended = chosen.recommended.and_then(gap);
    Some(Gaps { found: *run.losses.get(evaluations - 1)?, observed: gap(chosen.observed)?, recommended })
}

#[cfg(test)]
mod tests {
    use super::super::groups::groups;
    use super::super::options::AnalysisOptions;
    use super::super::synthetic_fixture::record;
    use super::*;
    use crate::record::{Chosen, RunRecord};

    #[test]
    fn gaps_of_found_observed_and_recommended_trials_are_medians_over_runs() {
        let run = |optimizer: &str, seed: u64, recommended: Option<usize>| {
            // Results are 30, 29 .. 1; the best is 0.
            let values: Vec<f64> = (1..=30).rev().map(f64::from).collect();
            let chosen = vec![Chosen { after: 25, observed: 10 + seed as usize, recommended }];
            RunRecord { chosen, ..record(optimizer, "f1", seed, &values) }
        };
        let mut records =
            vec![run("gp", 1, Some(20)), run("gp", 2, Some(21)), run("gp", 3, Some(24)), run("tpe", 1, None)];
        records.push(record("random", "f1", 1, &[1.0; 30]));
        let set = RunSet::new(&records, &AnalysisOptions::default()).unwrap();
        let groups = groups(&set);
        let found = handed_out(&set, &Cells::new(&set, &groups[0]), &groups[0]);
        let row = |optimizer, runs, observed, recommended| HandedOut {
            problem: "f1".to_owned(),
            optimizer,
            evaluations: 25,
            runs,
            found: 6.0,
            observed,
            recommended,
        };
        assert_eq!(found, [row(0, 3, 18.0, Some(9.0)), row(1, 1, 19.0, None)]);
    }
}
