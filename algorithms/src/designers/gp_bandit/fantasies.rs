//! Selection of the pending trials to condition a model on.
//!
//! Conditioning a model of `n` trials on one more costs O(n^2) time and memory, so on `p` pending ones O(p (n + p)^2):
//! with thousands of them, as after large batches, minutes per suggestion. Beyond [`MOST`], half of the selected trials
//! are those nearest to the incumbent, where the trust region searches, and half the latest, which the latest model
//! proposed. The others still count as used: their points are not proposed again.

use super::observations::Pending;
use crate::acquisition::{Axis, Region};
use crate::encoding::Encoding;

/// Maximum number of pending trials to condition a model on (chosen for time: a fifth of the largest model's trials).
pub(super) const MOST: usize = 128;

/// Indices, increasing, of the `pending` trials to condition a model on, at most [`MOST`]. `missing` is the number of
/// suggestions of the request that use the model; if there are too many pending trials, up to half of the slots are
/// reserved for them.
pub(super) fn fantasised(
    encoding: &Encoding,
    pending: &[Pending],
    incumbent: Option<&[f64]>,
    missing: usize,
) -> Vec<usize> {
    let count = pending.len();
    if count <= MOST {
        // A model that is full after the next suggestion is then replaced.
        return (0..count).collect();
    }
    let size = MOST - (missing - 1).min(MOST / 2);
    let latest = if incumbent.is_some() { size / 2 } else { size };
    let mut chosen: Vec<usize> = (count - latest..count).collect();
    if let Some(incumbent) = incumbent {
        let axes = Region::whole(encoding).axes;
        let distance = |index: usize| -> f64 {
            let differences = pending[index].point.iter().zip(incumbent).zip(&axes);
            let one = |((a, b), axis): ((&f64, &f64), &Axis)| match axis {
                Axis::Levels(_) => f64::from(a != b),
                _ => (a - b) * (a - b),
            };
            differences.map(one).sum()
        };
        let mut others: Vec<(f64, usize)> = (0..count - latest).map(|index| (distance(index), index)).collect();
        others.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        chosen.extend(others.into_iter().take(size - latest).map(|(_, index)| index));
    }
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::designers::gp_bandit::tests::{problem, square};
    use crate::problem::{Goal, TrialId};

    fn pending(encoding: &Encoding, points: &[[f64; 2]]) -> Vec<Pending> {
        let one = |(id, point): (u64, &[f64; 2])| {
            let key = encoding.key(&encoding.decode(point)).unwrap();
            Pending { id: TrialId(id), key, point: point.to_vec() }
        };
        (1..).zip(points).map(one).collect()
    }

    #[test]
    fn few_pending_trials_are_all_fantasised() {
        let encoding = Encoding::new(problem(square(), Goal::Maximize).search_space());
        let points: Vec<[f64; 2]> = (0..MOST).map(|i| [i as f64 / MOST as f64, 0.5]).collect();
        let pending = pending(&encoding, &points);
        for missing in [1, 2, 1000] {
            assert_eq!(fantasised(&encoding, &pending, Some(&[0.0, 0.0]), missing), (0..MOST).collect::<Vec<_>>());
        }
    }

    #[test]
    fn of_many_pending_trials_the_latest_and_the_nearest_are_fantasised() {
        let encoding = Encoding::new(problem(square(), Goal::Maximize).search_space());
        let points: Vec<[f64; 2]> = (0..1000).map(|i| [f64::from(i) / 1000.0, 0.5]).collect();
        let pending = pending(&encoding, &points);
        let nearest_to_300: Vec<usize> = (268..332).collect();
        let expected: Vec<usize> = nearest_to_300.iter().copied().chain(936..1000).collect();
        assert_eq!(fantasised(&encoding, &pending, Some(&[0.2999, 0.5]), 1), expected);
        assert_eq!(fantasised(&encoding, &pending, None, 1), (872..1000).collect::<Vec<_>>());
        // Half of the slots are reserved for the other suggestions of a large request.
        let expected: Vec<usize> = (284..316).chain(968..1000).collect();
        assert_eq!(fantasised(&encoding, &pending, Some(&[0.2999, 0.5]), 500), expected);
    }
}
