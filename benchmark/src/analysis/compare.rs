//! Comparison of old and new records of the same optimizers, to measure the effect of a change.
//!
//! Only runs whose key (suite, problem, seed, budget and schedule) is in both sets count. If each set has a single
//! optimizer, these two are compared under any names; otherwise names must match.

use std::collections::{BTreeSet, HashSet};

use serde::Serialize;

use super::groups::{Cells, GroupKey, groups};
use super::log_gap::{log_gap, mean_over};
use super::options::{AnalysisError, AnalysisOptions};
use super::pairwise::DifferenceTest;
use super::runs::RunSet;
use super::significance::assess_comparisons;
use crate::record::{Failure, RunKey, RunRecord, Schedule};
use tunesmith_statistics::decision::{Assessment, Decision};

/// Differences between new and old records.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// Number of paired runs.
    pub pairs: usize,
    /// Number of unpaired old runs.
    pub only_old: usize,
    /// Number of unpaired new runs.
    pub only_new: usize,
    /// Failures among the paired old runs.
    pub failed_old: usize,
    /// Failures among the paired new runs.
    pub failed_new: usize,
    /// [`AnalysisOptions::floor`].
    pub floor: f64,
    /// [`AnalysisOptions::significance`].
    pub significance: f64,
    /// By optimizer, then by suite: first the whole suite, then each dimension.
    pub rows: Vec<ChangeRow>,
    /// Acceptance check: [`Decision::Worse`] if any optimizer is worse on any whole suite; otherwise
    /// [`Decision::Better`] if one is better; otherwise [`Decision::NoDifference`].
    pub overall: Decision,
}

/// Change of one optimizer on one group of problems.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChangeRow {
    /// Optimizer name; `old -> new` if the names differ.
    #[serde(rename = "contestant")]
    pub optimizer: String,
    pub suite: String,
    /// Number of parameters; `None` for all problems of a suite with several dimensions.
    pub dimension: Option<usize>,
    /// Whether the group is the whole suite, and thus part of the acceptance check.
    pub is_whole_suite: bool,
    /// Largest budget of these runs.
    pub evaluations: usize,
    /// Number of paired runs.
    pub pairs: usize,
    /// Statistics of new minus old, corrected over all optimizers and either all whole suites or all dimensions.
    #[serde(flatten)]
    pub test: DifferenceTest,
}

/// Compares `new` records with `old` ones.
///
/// # Errors
/// [`AnalysisError`] if there are no runs, none in common, or a setting is out of range. [`AnalysisOptions::baseline`]
/// is ignored.
pub fn compare_records(
    old: &[RunRecord],
    new: &[RunRecord],
    options: &AnalysisOptions,
) -> Result<Change, AnalysisError> {
    if old.is_empty() || new.is_empty() {
        return Err(AnalysisError::NoRuns);
    }
    let (old, new) = same_names(wanted(old, options), wanted(new, options));
    let keys = |records: &[RunRecord]| records.iter().map(|record| record.key.clone()).collect::<HashSet<RunKey>>();
    let (old_keys, new_keys) = (keys(&old), keys(&new));
    let pairs = old_keys.intersection(&new_keys).count();
    if pairs == 0 {
        return Err(AnalysisError::NothingShared { difference: difference(&old_keys, &new_keys) });
    }
    let kept = |records: Vec<RunRecord>, others: &HashSet<RunKey>, prefix: &str| -> Vec<RunRecord> {
        let mut records: Vec<RunRecord> = records.into_iter().filter(|record| others.contains(&record.key)).collect();
        for record in &mut records {
            record.key.optimizer.insert_str(0, prefix);
        }
        records
    };
    let mut records = kept(old, &new_keys, OLD);
    let first_new = records.len();
    records.extend(kept(new, &old_keys, NEW));
    let failed = |records: &[RunRecord]| {
        records.iter().filter(|record| matches!(record.failure, Some(Failure::Failed(_)))).count()
    };
    let rows = rows(&records, options)?;
    let has = |finding: Decision| rows.iter().any(|row| row.is_whole_suite && row.test.finding == finding);
    let overall =
        [Decision::Worse, Decision::Better].into_iter().find(|&finding| has(finding)).unwrap_or(Decision::NoDifference);
    Ok(Change {
        pairs,
        only_old: old_keys.len() - pairs,
        only_new: new_keys.len() - pairs,
        failed_old: failed(&records[..first_new]),
        failed_new: failed(&records[first_new..]),
        floor: options.floor,
        significance: options.significance,
        rows,
        overall,
    })
}

const OLD: &str = "old ";
const NEW: &str = "new ";

/// Records of the compared optimizers, without their points, which are large.
fn wanted(records: &[RunRecord], options: &AnalysisOptions) -> Vec<RunRecord> {
    let requested = &options.optimizers;
    records
        .iter()
        .filter(|record| requested.is_empty() || requested.contains(&record.key.optimizer))
        .map(|record| RunRecord { points: Vec::new(), ..record.clone() })
        .collect()
}

/// Extracts a part of a key as text.
type Part = fn(&RunKey) -> String;

/// Maximum number of values of one part of a key in a message.
const LISTED: usize = 5;

/// Describes the parts of the keys without a common value, with the values in both sets.
fn difference(old: &HashSet<RunKey>, new: &HashSet<RunKey>) -> String {
    let parts: [(&str, Part); 6] = [
        ("optimizer", |key| key.optimizer.clone()),
        ("suite", |key| key.suite.clone()),
        ("problem", |key| key.problem.clone()),
        ("seed", |key| key.seed.to_string()),
        ("budget", |key| key.budget.to_string()),
        ("schedule", |key| schedule_text(&key.schedule)),
    ];
    let values = |keys: &HashSet<RunKey>, part: Part| keys.iter().map(part).collect::<BTreeSet<_>>();
    let listed = |values: &BTreeSet<String>| {
        let mut listed: Vec<&str> = values.iter().take(LISTED).map(String::as_str).collect();
        listed.extend((values.len() > LISTED).then_some("..."));
        listed.join(", ")
    };
    let mut differences = Vec::new();
    for (name, part) in parts {
        let (old, new) = (values(old, part), values(new, part));
        if old.is_disjoint(&new) {
            differences.push(format!("{name} is {} in the old set and {} in the new one", listed(&old), listed(&new)));
        }
    }
    if differences.is_empty() {
        return "no combination of optimizer, suite, problem, seed, budget and schedule is in both".to_owned();
    }
    differences.join("; ")
}

fn schedule_text(schedule: &Schedule) -> String {
    let Schedule { parallel, mode, initial_points, early_stopping, time_limit_secs } = schedule;
    let mut text = format!("{parallel} parallel, {mode:?}").to_lowercase();
    if *initial_points > 0 {
        text.push_str(&format!(", {initial_points} initial points"));
    }
    if let Some(rule) = early_stopping {
        text.push_str(&format!(", early stopping {rule}"));
    }
    if let Some(limit) = time_limit_secs {
        text.push_str(&format!(", time limit {limit} s"));
    }
    text
}

fn same_names(mut old: Vec<RunRecord>, mut new: Vec<RunRecord>) -> (Vec<RunRecord>, Vec<RunRecord>) {
    let names = |records: &[RunRecord]| -> BTreeSet<String> {
        records.iter().map(|record| record.key.optimizer.clone()).collect()
    };
    let (old_names, new_names) = (names(&old), names(&new));
    if let (Some(one), Some(other)) = (old_names.first(), new_names.first())
        && one != other
        && (old_names.len(), new_names.len()) == (1, 1)
    {
        let name = format!("{one} -> {other}");
        for record in old.iter_mut().chain(&mut new) {
            record.key.optimizer.clone_from(&name);
        }
    }
    (old, new)
}

fn rows(records: &[RunRecord], options: &AnalysisOptions) -> Result<Vec<ChangeRow>, AnalysisError> {
    let set_options = AnalysisOptions { optimizers: Vec::new(), baseline: None, ..options.clone() };
    let set = RunSet::new(records, &set_options)?;
    let groups = groups(&set);
    let mut rows = Vec::new();
    for (old, label) in set.optimizers.iter().enumerate() {
        let Some(name) = label.strip_prefix(OLD) else { continue };
        let Some(new) = set.optimizers.iter().position(|other| other.strip_prefix(NEW) == Some(name)) else {
            continue;
        };
        for group in &groups {
            if let Some(found) = paired(&set, group, (old, new), options) {
                rows.push((name, group, found));
            }
        }
    }
    let mut assessments = vec![None; rows.len()];
    for is_whole_suite in [true, false] {
        let family: Vec<usize> = (0..rows.len()).filter(|&row| rows[row].1.is_whole_suite == is_whole_suite).collect();
        let differences: Vec<Vec<f64>> = family.iter().map(|&row| rows[row].2.differences.clone()).collect();
        for (&row, assessment) in family.iter().zip(assess_comparisons(&differences, options)?) {
            assessments[row] = Some(assessment);
        }
    }
    let row = |((name, group, found), assessment): ((&str, &GroupKey, Paired), Option<Assessment>)| {
        Some(ChangeRow {
            optimizer: name.to_owned(),
            suite: group.suite.clone(),
            dimension: group.dimension,
            is_whole_suite: group.is_whole_suite,
            evaluations: found.evaluations,
            pairs: found.pairs,
            test: DifferenceTest::new(&found.differences, &assessment?),
        })
    };
    Ok(rows.into_iter().zip(assessments).filter_map(row).collect())
}

/// Paired new and old runs of one optimizer on one group.
struct Paired {
    /// New log10 gap minus old, one per problem, at least one.
    differences: Vec<f64>,
    pairs: usize,
    evaluations: usize,
}

fn paired(set: &RunSet<'_>, group: &GroupKey, (old, new): (usize, usize), options: &AnalysisOptions) -> Option<Paired> {
    let cells = Cells::new(set, group);
    let evaluations = cells.runs(new).map(|run| run.losses.len()).max()?;
    let mut differences = Vec::new();
    let mut pairs = 0;
    for problem in cells.common_problems(&[old, new], 1) {
        let runs = cells.paired(&[old, new], problem, 1);
        pairs += runs[0].len();
        let of = |index: usize| mean_over(&runs[index], |run| log_gap(run, set, run.losses.len(), options));
        differences.push(of(1) - of(0));
    }
    (!differences.is_empty()).then_some(Paired { differences, pairs, evaluations })
}

#[cfg(test)]
mod tests {
    use super::super::synthetic_fixture::record;
    use super::*;

    /// Eight problems with two seeds each and gaps of `factor` times 2, 3, 4 ...
    fn records(optimizer: &str, factor: impl Fn(usize) -> f64) -> Vec<RunRecord> {
        (1..=8)
            .flat_map(|problem| [1, 2].map(|seed| (problem, seed)))
            .map(|(problem, seed)| {
                let gap = factor(problem) * (problem + 1) as f64;
                record(optimizer, &format!("f{problem}"), seed, &[50.0, gap])
            })
            .collect()
    }

    #[test]
    fn a_tenth_of_the_gap_is_a_difference_of_minus_one_and_better() {
        let change =
            compare_records(&records("gp", |_| 1.0), &records("gp", |_| 0.1), &AnalysisOptions::default()).unwrap();
        assert_eq!((change.pairs, change.only_old, change.only_new, change.overall), (16, 0, 0, Decision::Better));
        let row = &change.rows[0];
        assert_eq!((row.optimizer.as_str(), row.evaluations, row.test.problems, row.pairs), ("gp", 2, 8, 16));
        assert!((row.test.difference + 1.0).abs() < 1e-12 && row.test.standard_error.unwrap() < 1e-12);
        assert!((row.test.low + 1.0).abs() < 1e-12 && (row.test.high + 1.0).abs() < 1e-12);
        // All eight differences have the same sign: 2 / 2^8.
        assert!((row.test.p_value - 2.0 / 256.0).abs() < 1e-9, "{}", row.test.p_value);
        assert_eq!(row.test.effect, -1.0);
    }

    #[test]
    fn a_worse_result_fails_the_acceptance_check_and_mixed_differences_do_not() {
        let old = records("gp", |_| 1.0);
        let options = AnalysisOptions::default();
        let worse = compare_records(&old, &records("gp", |problem| 1.5 + problem as f64 / 10.0), &options).unwrap();
        assert_eq!(worse.overall, Decision::Worse);
        let mixed = records("gp", |problem| if problem % 2 == 0 { 2.0 } else { 0.5 });
        let mixed = compare_records(&old, &mixed, &options).unwrap();
        assert_eq!((mixed.overall, mixed.rows[0].test.finding), (Decision::NoDifference, Decision::NoDifference));
    }

    #[test]
    fn single_optimizers_are_paired_despite_their_names_and_unpaired_runs_are_ignored() {
        let mut new = records("gp-2", |_| 0.1);
        new.truncate(12);
        let change = compare_records(&records("gp-1", |_| 1.0), &new, &AnalysisOptions::default()).unwrap();
        assert_eq!((change.pairs, change.only_old, change.rows[0].test.problems), (12, 4, 6));
        assert_eq!(change.rows[0].optimizer, "gp-1 -> gp-2");

        let mut both = records("gp", |_| 1.0);
        both.extend(records("tpe", |_| 1.0));
        let error = compare_records(&both, &records("other", |_| 1.0), &AnalysisOptions::default()).unwrap_err();
        let difference = "optimizer is gp, tpe in the old set and other in the new one".to_owned();
        assert_eq!(error, AnalysisError::NothingShared { difference });
    }

    #[test]
    fn sets_of_another_budget_or_schedule_are_refused_with_the_difference() {
        let mut new = records("gp", |_| 1.0);
        for record in &mut new {
            record.key.budget += 5;
            record.key.schedule.parallel = 3;
        }
        let old = records("gp", |_| 1.0);
        let (budget, schedule) = (old[0].key.budget, schedule_text(&old[0].key.schedule));
        let error = compare_records(&old, &new, &AnalysisOptions::default()).unwrap_err().to_string();
        let expected = format!(
            "no run of one set has the same key as a run of the other: budget is {budget} in the old set and {} in the \
             new one; schedule is {schedule} in the old set and {} in the new one",
            budget + 5,
            schedule.replace("1 parallel", "3 parallel"),
        );
        assert_eq!(error, expected);
    }
}
