//! Selection of observations when there are too many for an exact model.
//!
//! Smaller histories are used whole: local models perform worse (measured, see docs/experiments/012).

use super::training_set::TrainingSet;

/// Selects at most `size` indices into `data`, ascending: a quarter the best values, a quarter the latest rows, half
/// spread evenly over the ranks of the rest, or, with `center` (length d), half of `size` nearest to it.
///
/// Distances are Euclidean over features; different categories count 1. Returns all indices if there are at most
/// `size`.
pub fn representative_subset(data: &TrainingSet, size: usize, center: Option<&[f64]>) -> Vec<usize> {
    let n = data.values.len();
    if n <= size {
        return (0..n).collect();
    }
    let mut by_value: Vec<usize> = (0..n).collect();
    by_value.sort_by(|&a, &b| data.values[b].total_cmp(&data.values[a]).then(a.cmp(&b)));
    let mut kept = vec![false; n];
    let mut keep = |candidates: &mut dyn Iterator<Item = usize>, count: usize| {
        for index in candidates.filter(|&index| !std::mem::replace(&mut kept[index], true)).take(count) {
            debug_assert!(index < n);
        }
    };
    keep(&mut by_value.iter().copied(), size / 4);
    match center {
        None => keep(&mut (0..n).rev(), size / 4),
        Some(center) => {
            let distances: Vec<f64> = (0..n).map(|index| squared_distance(data, index, center)).collect();
            let mut nearest: Vec<usize> = (0..n).collect();
            nearest.sort_by(|&a, &b| distances[a].total_cmp(&distances[b]).then(a.cmp(&b)));
            keep(&mut nearest.into_iter(), size / 2);
        }
    }
    let rest: Vec<usize> = by_value.into_iter().filter(|&index| !kept[index]).collect();
    let missing = size - kept.iter().filter(|kept| **kept).count();
    for step in 0..missing {
        kept[rest[step * rest.len() / missing]] = true;
    }
    (0..n).filter(|&index| kept[index]).collect()
}

fn squared_distance(data: &TrainingSet, index: usize, center: &[f64]) -> f64 {
    let one = |j: usize| {
        let difference = data.points[(index, j)] - center[j];
        if data.categorical[j] { f64::from(difference != 0.0) } else { difference * difference }
    };
    (0..center.len()).map(one).sum()
}
