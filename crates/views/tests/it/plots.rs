use proptest::prelude::*;
use tunesmith_algorithms::problem::{ConstraintSpec, Goal, TrialOutcome};
use tunesmith_domain::TrialState;
use tunesmith_views::{
    Columns, Density, Points, Rows, contour, curves, distribution, history, modelled, parallel_coordinates,
    pareto_front, rank, slice, table, trials_of_curves,
};

use crate::any_samples;
use crate::sample::{Sample, columns, columns_with_limit, measurement};

/// Numbers and results of trials with a result, by number.
fn measured(columns: &Columns, rows: &Rows) -> Vec<(u64, f64)> {
    rows.iter().filter_map(|row| Some((columns.number(row), columns.metric(0, row)?))).collect()
}

/// Numbers of the trials with the lowest loss, best first; ties by highest speed, then by number.
fn best(columns: &Columns, rows: &Rows, count: usize) -> Vec<u64> {
    let mut all: Vec<(f64, f64, u64)> = rows
        .iter()
        .filter_map(|row| {
            let slowness = columns.metric(1, row).map_or(f64::INFINITY, |speed| -speed);
            Some((columns.metric(0, row)?, slowness, columns.number(row)))
        })
        .collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
    all.into_iter().take(count).map(|(.., number)| number).collect()
}

/// Rows with an even number, or all.
fn some_rows(columns: &Columns, all: bool) -> Rows {
    Rows::of(columns.len(), |row| columns.state(row).is_some() && (all || row % 2 == 1))
}

/// Checks that `points` and `density` reduce `all`: each listed point is one of them, and each is counted.
fn check_reduction(
    points: &Points,
    density: Option<&Density>,
    all: &[(u64, f64, f64)],
    limit: usize,
) -> Result<(), TestCaseError> {
    for ((trial, x), y) in points.trials.iter().zip(&points.x).zip(&points.y) {
        prop_assert!(all.contains(&(*trial, *x, *y)), "{trial} {x} {y}");
    }
    let Some(Density { x_edges, y_edges, counts }) = density else {
        prop_assert_eq!(points.trials.len(), all.len());
        return Ok(());
    };
    prop_assert!(all.len() > limit && points.trials.len() <= limit, "{} points", points.trials.len());
    prop_assert!(counts.len() <= limit.max(16), "{} cells", counts.len());
    prop_assert_eq!(counts.len(), (x_edges.len() - 1) * (y_edges.len() - 1));
    for edges in [x_edges, y_edges] {
        prop_assert!(edges.windows(2).all(|pair| pair[0] < pair[1]), "{edges:?}");
    }
    for row in 0..y_edges.len() - 1 {
        for column in 0..x_edges.len() - 1 {
            let is_within = |edges: &[f64], cell: usize, value: f64| {
                let is_last = cell == edges.len() - 2;
                edges[cell] <= value && (value < edges[cell + 1] || (is_last && value <= edges[cell + 1]))
            };
            let inside = all.iter().filter(|(_, x, y)| is_within(x_edges, column, *x) && is_within(y_edges, row, *y));
            prop_assert_eq!(counts[row * (x_edges.len() - 1) + column] as usize, inside.count());
        }
    }
    let highest = all.iter().map(|point| point.2).fold(f64::NEG_INFINITY, f64::max);
    prop_assert!(points.y.contains(&highest));
    Ok(())
}

proptest! {
    #[test]
    fn history_shows_the_best_and_counts_all(samples in any_samples(200), limit in 10..60_usize, all in any::<bool>()) {
        let columns = columns(&samples);
        let rows = some_rows(&columns, all);
        let history = history(&columns, &rows, 0, limit);
        let measured = measured(&columns, &rows);
        prop_assert_eq!(history.measured, measured.len());
        let points: Vec<_> = measured.iter().map(|(number, value)| (*number, *number as f64, *value)).collect();
        check_reduction(&history.points, history.density.as_ref(), &points, limit)?;
        for number in best(&columns, &rows, limit / 10) {
            prop_assert!(history.points.trials.contains(&number), "best trial {number}");
        }
        let mut lowest = f64::INFINITY;
        let improvements: Vec<_> = measured.into_iter().filter(|(_, value)| {
            let improves = *value < lowest;
            lowest = lowest.min(*value);
            improves
        }).collect();
        prop_assert_eq!(history.improvements.total, improvements.len());
        if improvements.len() <= limit / 4 {
            let shown: Vec<_> = history.improvements.trials.into_iter().zip(history.improvements.values).collect();
            prop_assert_eq!(shown, improvements);
        } else {
            prop_assert_eq!(history.improvements.trials.last(), improvements.last().map(|(number, _)| number));
            prop_assert_eq!(history.improvements.values.first(), improvements.first().map(|(_, value)| value));
        }
    }

    #[test]
    fn slice_shows_the_best_and_counts_all(samples in any_samples(200), limit in 10..60_usize, parameter in 0..4_usize) {
        let columns = columns(&samples);
        let rows = some_rows(&columns, true);
        let slice = slice(&columns, &rows, 0, parameter, limit);
        let points: Vec<_> = measured(&columns, &rows).into_iter().filter_map(|(number, value)| {
            Some((number, columns.coordinate(parameter, number as usize - 1)?, value))
        }).collect();
        prop_assert_eq!(slice.measured, points.len());
        check_reduction(&slice.points, slice.density.as_ref(), &points, limit)?;
    }

    #[test]
    fn contour_has_counts_means_and_best_results(samples in any_samples(120), limit in 10..200_usize) {
        let columns = columns(&samples);
        let rows = some_rows(&columns, true);
        let contour = contour(&columns, &rows, 0, [0, 3], limit);
        let width = contour.x_edges.len() - 1;
        prop_assert!(contour.counts.len() <= limit.max(3), "{} cells", contour.counts.len());
        for (cell, count) in contour.counts.iter().enumerate() {
            let (column, level) = (cell % width, cell / width);
            let is_last = column == width - 1;
            let inside: Vec<f64> = samples.iter().filter(|sample| {
                sample.state == TrialState::Succeeded
                    && sample.loss.is_finite()
                    && sample.level == Some(level)
                    && contour.x_edges[column] <= sample.rate
                    && (sample.rate < contour.x_edges[column + 1] || is_last)
            }).map(|sample| sample.loss).collect();
            prop_assert_eq!(*count as usize, inside.len());
            let lowest = inside.iter().copied().min_by(f64::total_cmp);
            prop_assert_eq!(contour.best[cell], lowest);
            let mean = inside.iter().map(|value| value / inside.len() as f64).sum::<f64>().clamp(f64::MIN, f64::MAX);
            match contour.means[cell] {
                Some(found) => prop_assert!((found - mean).abs() <= 1e-9 * inside.iter().fold(1.0, |most: f64, value| most.max(value.abs()))),
                None => prop_assert!(inside.is_empty()),
            }
        }
        prop_assert_eq!(contour.measured, contour.counts.iter().map(|count| *count as usize).sum::<usize>());
    }

    #[test]
    fn pareto_front_is_what_nothing_dominates(samples in any_samples(120), limit in 10..40_usize) {
        let columns = columns(&samples);
        let rows = some_rows(&columns, true);
        let found = pareto_front(&columns, &rows, [0, 1], limit);
        let all: Vec<(u64, f64, f64)> = rows
            .iter()
            .filter_map(|row| Some((columns.number(row), columns.metric(0, row)?, columns.metric(1, row)?)))
            .collect();
        let dominates = |a: &(u64, f64, f64), b: &(u64, f64, f64)| a.1 <= b.1 && a.2 >= b.2 && (a.1, a.2) != (b.1, b.2);
        let front: Vec<u64> =
            all.iter().filter(|b| !all.iter().any(|a| dominates(a, b))).map(|(number, ..)| *number).collect();
        prop_assert_eq!((found.measured, found.front_size), (all.len(), front.len()));
        prop_assert!(found.front.iter().all(|number| front.contains(number)));
        prop_assert_eq!(found.front.len(), front.len().min(limit));
        check_reduction(&found.points, found.density.as_ref(), &all, limit)?;
    }

    #[test]
    fn distribution_counts_all(samples in any_samples(200), limit in 10..60_usize, is_maximized in any::<bool>()) {
        let columns = columns(&samples);
        let rows = some_rows(&columns, true);
        let metric = usize::from(is_maximized);
        let found = distribution(&columns, &rows, metric, limit);
        let values: Vec<f64> = rows.iter().filter_map(|row| columns.metric(metric, row)).collect();
        prop_assert_eq!(found.measured, values.len());
        prop_assert!(found.values.len() <= limit);
        prop_assert!(found.values.windows(2).all(|pair| pair[0] < pair[1]));
        for (value, share) in found.values.iter().zip(&found.shares) {
            let at_most = values.iter().filter(|other| *other <= value).count();
            prop_assert_eq!(*share, at_most as f64 / values.len() as f64);
        }
        let highest = values.iter().copied().max_by(f64::total_cmp);
        let lowest = values.iter().copied().min_by(f64::total_cmp);
        prop_assert_eq!(found.values.last().copied(), highest);
        prop_assert_eq!(found.values.first().copied(), lowest);
    }

    #[test]
    fn samples_have_the_best_and_stand_for_all(samples in any_samples(200), limit in 10..60_usize) {
        let columns = columns(&samples);
        let rows = some_rows(&columns, true);
        let total = measured(&columns, &rows).len();
        let lines = parallel_coordinates(&columns, &rows, 0, limit);
        prop_assert_eq!(lines.measured, total);
        prop_assert!(lines.trials.len() <= limit);
        prop_assert_eq!(lines.stands_for.iter().map(|count| *count as usize).sum::<usize>(), total);
        let exact = if total <= limit { total } else { limit / 10 };
        prop_assert_eq!(&lines.trials[..exact], &best(&columns, &rows, exact)[..]);
        prop_assert_eq!(lines.dimensions.len(), 6);
        for dimension in &lines.dimensions {
            prop_assert_eq!(dimension.values.len(), lines.trials.len());
        }
        let loss: Vec<f64> = lines.dimensions[4].values.iter().map(|value| value.unwrap()).collect();
        prop_assert!(loss.windows(2).all(|pair| pair[0] <= pair[1]));
        let ranks = rank(&columns, &rows, 0, [0, 3], limit);
        for ((trial, share), x) in ranks.points.trials.iter().zip(&ranks.ranks).zip(&ranks.points.x) {
            let row = *trial as usize - 1;
            let better = samples.iter().filter(|other| {
                other.state == TrialState::Succeeded && other.loss < samples[row].loss
            }).count();
            prop_assert!(*share >= better as f64 / total as f64 && *share < 1.0);
            prop_assert_eq!(*x, samples[row].rate);
        }
        let model = modelled(&columns, &rows, 0, limit);
        prop_assert_eq!(model.len(), total.min(limit));
        prop_assert!(model.windows(2).all(|pair| pair[0].id < pair[1].id));
    }

    #[test]
    fn curves_keep_their_ends_and_extremes(values in prop::collection::vec(-100.0..100.0, 1..400), limit in 50..120_usize) {
        let columns = columns(&[Sample::of_loss(1.0)]);
        let rows = some_rows(&columns, true);
        let chosen = trials_of_curves(&columns, &rows, 0, limit);
        prop_assert_eq!(chosen.len(), 1);
        let mut measurements: Vec<_> =
            (0..).zip(&values).map(|(step, value)| measurement(step, *value, 0.0)).collect();
        measurements.reverse();
        let read = vec![(chosen[0].0, chosen[0].1, measurements)];
        let found = curves(&columns, &rows, 0, &read, limit);
        let curve = &found.curves[0];
        prop_assert_eq!((curve.trial, curve.measurements), (1, values.len()));
        prop_assert!(curve.steps.len() <= limit.max(4) && curve.steps.windows(2).all(|pair| pair[0] < pair[1]));
        for (step, value) in curve.steps.iter().zip(&curve.values) {
            prop_assert_eq!(values[*step as usize], *value);
        }
        for expected in [values[0], values[values.len() - 1], values.iter().copied().fold(f64::INFINITY, f64::min)] {
            prop_assert!(curve.values.contains(&expected), "{expected}");
        }
    }
}

#[test]
fn a_study_without_results_has_empty_plots() {
    for samples in [vec![], vec![Sample { state: TrialState::Infeasible, ..Sample::of_loss(1.0) }]] {
        let columns = columns(&samples);
        let rows = some_rows(&columns, true);
        assert_eq!(history(&columns, &rows, 0, 100).measured, 0);
        assert_eq!(slice(&columns, &rows, 0, 0, 100).points.trials.len(), 0);
        assert_eq!(contour(&columns, &rows, 0, [0, 1], 100).measured, 0);
        assert_eq!(pareto_front(&columns, &rows, [0, 1], 100).front.len(), 0);
        assert_eq!(distribution(&columns, &rows, 0, 100).shares.len(), 0);
        assert_eq!(parallel_coordinates(&columns, &rows, 0, 100).trials.len(), 0);
        assert_eq!(rank(&columns, &rows, 0, [0, 1], 100).ranks.len(), 0);
        assert_eq!(modelled(&columns, &rows, 0, 100).len(), 0);
    }
}

#[test]
fn outliers_do_not_widen_the_cells_of_others() {
    let mut samples: Vec<Sample> = (0..1000).map(|index| Sample::of_loss(f64::from(index) / 1000.0)).collect();
    samples.push(Sample::of_loss(1e30));
    let columns = columns(&samples);
    let history = history(&columns, &some_rows(&columns, true), 0, 100);
    let density = history.density.unwrap();
    assert!(density.y_edges.iter().filter(|edge| **edge < 1.0).count() >= 4, "{:?}", density.y_edges);
    assert_eq!(density.counts.iter().sum::<u32>(), 1001);
    assert!(history.points.y.contains(&1e30));
}

#[test]
fn answers_about_many_trials_are_small() {
    let samples: Vec<Sample> = (0..100_000_u32)
        .map(|index| {
            let loss = f64::from(index.wrapping_mul(2_654_435_761)) / 1e9;
            Sample {
                rate: f64::from(index % 997 + 1) / 1000.0,
                level: Some(index as usize % 3),
                ..Sample::of_loss(loss)
            }
        })
        .collect();
    let columns = columns(&samples);
    let rows = some_rows(&columns, true);
    let size = |view: serde_json::Result<String>| view.unwrap().len();
    let sizes = [
        size(serde_json::to_string(&history(&columns, &rows, 0, 2000))),
        size(serde_json::to_string(&slice(&columns, &rows, 0, 0, 2000))),
        size(serde_json::to_string(&contour(&columns, &rows, 0, [0, 1], 2000))),
        size(serde_json::to_string(&pareto_front(&columns, &rows, [0, 1], 2000))),
        size(serde_json::to_string(&distribution(&columns, &rows, 0, 2000))),
        size(serde_json::to_string(&rank(&columns, &rows, 0, [0, 1], 2000))),
    ];
    assert!(sizes.iter().all(|size| *size < 200_000), "{sizes:?}");
    assert!(columns.bytes() < 15 << 20, "{} bytes", columns.bytes());
}

#[test]
fn trials_that_violate_a_constraint_are_neither_best_nor_on_the_front() {
    let samples = [3.0, 1.0, 2.0, 0.5].map(|loss| Sample { speed: 10.0 - loss, ..Sample::of_loss(loss) });
    let columns = columns_with_limit(&samples, ConstraintSpec::new("speed limit", Goal::Minimize, 8.5));
    let rows = columns.live();
    assert_eq!(columns.best_first(0), [2, 0, 3, 1]);
    assert_eq!(columns.violated(1).collect::<Vec<_>>(), ["speed limit"]);
    assert!(columns.is_feasible(2) && columns.violated(2).next().is_none());
    assert_eq!(history(&columns, &rows, 0, 100).improvements.trials, [1, 3]);
    assert_eq!(pareto_front(&columns, &rows, [0, 1], 100).front, [3]);
    let by_number = columns.order("").unwrap();
    let table = table(&columns, &rows, by_number, 0, 10);
    assert_eq!(table.rows[1].constraints["speed limit"], 9.0);
    assert_eq!(table.rows[1].violated_constraints, ["speed limit"]);
    let values: Vec<usize> = modelled(&columns, &rows, 0, 10)
        .iter()
        .map(|trial| match &trial.outcome {
            TrialOutcome::Measured { values, .. } => values.len(),
            TrialOutcome::Infeasible => 0,
        })
        .collect();
    assert_eq!(values, [3; 4]);
}
