use super::synthetic_fixture::record;
use super::*;
use crate::problem::Quality;
use crate::record::{Failure, RunKey, RunRecord};

/// Six problems on which `gp` ends at 0.001, `tpe` at 0.1 and `random` at 1; all start at 10.
fn records() -> Vec<RunRecord> {
    let mut records = Vec::new();
    for problem in 1..=6 {
        for seed in [1, 2] {
            for (name, last) in [("gp", 0.001), ("tpe", 0.1), ("random", 1.0)] {
                records.push(record(name, &format!("f{problem}"), seed, &[10.0, last]));
            }
        }
    }
    records
}

fn options() -> AnalysisOptions {
    AnalysisOptions { checkpoints: vec![1, 50], ..AnalysisOptions::default() }
}

#[test]
fn standings_contain_gaps_scores_and_ranks() {
    let comparison = compare_optimizers(&records(), &options()).unwrap();
    assert_eq!(comparison.optimizers, ["gp", "tpe", "random"]);
    assert_eq!((comparison.runs, comparison.groups.len()), (36, 1));
    let group = &comparison.groups[0];
    assert_eq!((group.suite.as_str(), group.dimension, group.problems), ("synthetic", Some(2), 6));
    let evaluations: Vec<usize> = group.checkpoints.iter().map(|checkpoint| checkpoint.evaluations).collect();
    assert_eq!(evaluations, [1, 2]);

    let first = &group.checkpoints[0];
    let close = |one: f64, other: f64| assert!((one - other).abs() < 1e-9, "{one} is not {other}");
    for standing in &first.standings {
        close(standing.mean_rank, 2.0);
        close(standing.mean_log_gap, 1.0);
    }
    assert!(first.standings.iter().all(|standing| standing.normalised_score == Some(0.0)));
    assert!(first.pairs.iter().all(|pair| pair.test.finding == Decision::NoDifference && pair.test.p_value == 1.0));

    let last = &group.checkpoints[1];
    let expected = [(0, -3.0, 99.9, 1.0), (1, -1.0, 90.0, 2.0), (2, 0.0, 0.0, 3.0)];
    for (standing, (optimizer, gap, score, rank)) in last.standings.iter().zip(expected) {
        assert_eq!((standing.optimizer, standing.runs), (optimizer, 12));
        close(standing.mean_log_gap, gap);
        close(standing.normalised_score.unwrap(), score);
        close(standing.mean_rank, rank);
    }
    // Six problems with equal ranks: chi squared is 12 with 2 degrees of freedom, whose tail is exp(-6).
    let ranking = last.ranking.as_ref().unwrap();
    close(ranking.friedman_p, (-6.0f64).exp());
    // q = 2.343 for three optimizers (Demsar 2006, table 5), times sqrt(3 * 4 / (6 * 6)).
    assert!((ranking.critical_difference - 2.343 / 3f64.sqrt()).abs() < 1e-3);
    assert_eq!(ranking.cliques, [[0, 1], [1, 2]]);

    let pair = &last.pairs[0];
    assert_eq!((pair.optimizer, pair.test.problems, pair.wins, pair.losses), (1, 6, 0, 6));
    close(pair.test.difference, 2.0);
    // Six differences of one sign: 2 / 2^6; two tested optimizers.
    close(pair.test.p_value, 2.0 / 64.0);
    close(pair.test.adjusted_p, 4.0 / 64.0);
    assert_eq!((pair.test.effect, pair.test.finding), (1.0, Decision::NoDifference));
    let lenient = AnalysisOptions { significance: 0.1, ..options() };
    let comparison = compare_optimizers(&records(), &lenient).unwrap();
    assert_eq!(comparison.groups[0].checkpoints[1].pairs[0].test.finding, Decision::Worse);
}

#[test]
fn the_coarse_floor_bounds_gaps_and_applies_to_unknown_optima() {
    let mut records = records();
    for record in &mut records {
        record.results[1] = Some(crate::record::ResultValue::One(1e-12));
    }
    let standing = |records: &[RunRecord]| {
        compare_optimizers(records, &options()).unwrap().groups[0].checkpoints[1].standings[0].clone()
    };
    let exact = standing(&records);
    assert!((exact.mean_log_gap + 8.0).abs() < 1e-9 && (exact.coarse_mean_log_gap + 3.0).abs() < 1e-9);
    for record in &mut records {
        record.quality = Quality::Value { best_known: None };
    }
    assert!((standing(&records).mean_log_gap + 3.0).abs() < 1e-9);
}

#[test]
fn curves_have_bands_and_shares_of_reached_targets() {
    let mut records = vec![record("gp", "f1", 1, &[100.0, 1.0]), record("gp", "f1", 2, &[100.0, 1e-8])];
    records.push(record("gp", "f2", 1, &[100.0, 1e-3]));
    let group = compare_optimizers(&records, &options()).unwrap().groups.remove(0);
    let curve = &group.curves[0];
    let means: Vec<f64> = curve.points.iter().map(|point| point.mean).collect();
    // The second point is the mean of -4, the mean of 0 and -8, and of -3.
    assert!((means[0] - 2.0).abs() < 1e-9 && (means[1] + 3.5).abs() < 1e-9, "{means:?}");
    // Resampled seeds give -5.5, -3.5 or -1.5.
    assert!((curve.points[1].low + 5.5).abs() < 1e-9 && (curve.points[1].high + 1.5).abs() < 1e-9);
    // One of 51 targets after the first evaluation; 11, 51 and 26 after the last.
    let shares = &group.target_curves[0].points;
    assert!((shares[0].1 - 1.0 / 51.0).abs() < 1e-12);
    assert!((shares[1].1 - 88.0 / 153.0).abs() < 1e-12, "{shares:?}");
    // The problems have 2 parameters.
    assert_eq!(shares.iter().map(|(effort, _)| *effort).collect::<Vec<f64>>(), [0.5, 1.0]);
}

#[test]
fn target_curves_count_evaluations_per_parameter() {
    // The gap of 1, which is 11 of 51 targets, is reached at 4 / 2 = 2 and at 4 / 4 = 1 evaluations per parameter.
    let values = [100.0, 100.0, 100.0, 1.0];
    let wide = |name: &str| RunRecord { parameters: 4, ..record(name, "f2", 1, &values) };
    let mut records = vec![record("gp", "f1", 1, &values), wide("gp"), record("tpe", "f1", 1, &[100.0; 3])];
    records.push(RunRecord { key: RunKey { problem: "f2".to_owned(), ..records[2].key.clone() }, ..wide("tpe") });
    records[3].key.budget = 3;
    let curves = compare_optimizers(&records, &options()).unwrap().groups.remove(0).target_curves;
    let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
    let efforts = |curve: &TargetCurve| curve.points.iter().map(|(effort, _)| *effort).collect::<Vec<f64>>();
    assert_eq!(efforts(&curves[0]), [0.25, 0.5, 0.75, 1.0, 1.5, 2.0]);
    for ((_, share), reached) in curves[0].points.iter().zip([1.0, 2.0, 2.0, 12.0, 12.0, 22.0]) {
        close(*share, reached / 102.0);
    }
    // The other curve ends at 3 / 2, so the areas are over the logarithm from 1/4 to 3/2.
    assert_eq!(efforts(&curves[1]), [0.25, 0.5, 0.75, 1.0, 1.5]);
    let part = |low: f64, high: f64| (high / low).ln() / 6f64.ln() / 102.0;
    close(curves[0].area.unwrap(), part(0.25, 0.5) + 2.0 * part(0.5, 1.0) + 12.0 * part(1.0, 1.5));
    close(curves[1].area.unwrap(), part(0.25, 0.5) + 2.0 * part(0.5, 1.5));
}

#[test]
fn an_optimizer_that_does_not_support_a_problem_is_compared_on_the_others() {
    let mut records = records();
    for record in records.iter_mut().filter(|record| record.key.optimizer == "tpe" && record.key.problem == "f1") {
        record.failure = Some(Failure::Unsupported("no categories".to_owned()));
        record.results.clear();
    }
    let comparison = compare_optimizers(&records, &options()).unwrap();
    let last = &comparison.groups[0].checkpoints[1];
    assert_eq!((last.problems, last.pairs[0].test.problems, last.pairs[1].test.problems), (5, 5, 6));
    let failure = &comparison.failures[0];
    assert_eq!((failure.optimizer.as_str(), failure.is_unsupported, failure.runs), ("tpe", true, 2));
}

#[test]
fn an_optimizer_on_few_problems_is_tested_only_in_pairs() {
    let mut records = records();
    records.push(record("hebo", "f3", 1, &[10.0, 0.5]));
    let last = compare_optimizers(&records, &options()).unwrap().groups[0].checkpoints[1].clone();
    assert_eq!((last.problems, last.standings.len()), (6, 3));
    assert_eq!(last.partial, [Partial { optimizer: 3, problems: 1 }]);
    assert_eq!((last.pairs[2].optimizer, last.pairs[2].test.problems), (3, 1));
}

#[test]
fn a_setting_out_of_range_is_an_error_that_names_it() {
    let wrong = AnalysisOptions { floor: 0.0, ..options() };
    let error = compare_optimizers(&records(), &wrong).unwrap_err();
    assert_eq!(error.to_string(), "floor is 0; it must be positive and finite");
}
