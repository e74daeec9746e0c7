//! The used points of a finite space, and random draws of unused ones.

use std::collections::HashSet;

use rand::RngExt;

use crate::designer::{DesignerError, History};
use crate::encoding::{Encoding, Key, PointNumbering};
use crate::problem::{ParameterValues, TrialId};
use crate::rng::stream;

/// The number of proposals that are tried before all points are searched for an unused one. With half of the space
/// used, all proposals fail with a probability of 2^-64, so a search happens only if the space is nearly exhausted or a
/// scale prefers few points. A guess.
const PROPOSALS: usize = 64;

/// The points of a history.
///
/// In a space with a double of a wide range, independently drawn points do not coincide, because keys distinguish about 2^40
/// values. Used points are then not recorded, and the cost of a suggestion does not depend on the length of the history.
pub struct UsedPoints<'a> {
    encoding: &'a Encoding,
    /// `None` in a space with a double of a wide range.
    finite: Option<Finite>,
}

/// The used points of a finite space.
struct Finite {
    numbering: PointNumbering,
    used: HashSet<Key>,
}

impl<'a> UsedPoints<'a> {
    /// Returns the points of all trials, completed and pending, with any outcome.
    ///
    /// # Errors
    /// [`DesignerError::ForeignTrial`] for a trial that is not a point of the space. Not detected in a space with a
    /// double.
    pub fn new(encoding: &'a Encoding, history: History<'_>) -> Result<Self, DesignerError> {
        let Some(numbering) = encoding.numbering() else {
            return Ok(Self { encoding, finite: None });
        };
        let completed = history.completed.iter().map(|trial| (trial.id, &trial.parameters));
        let pending = history.pending.iter().map(|trial| (trial.id, &trial.parameters));
        let mut used = HashSet::with_capacity(history.completed.len() + history.pending.len());
        for (trial, parameters) in completed.chain(pending) {
            let key = encoding
                .key(parameters)
                .map_err(|error| DesignerError::ForeignTrial { trial, reason: error.to_string() })?;
            used.insert(key);
        }
        Ok(Self { encoding, finite: Some(Finite { numbering, used }) })
    }

    /// Whether every point of the space is used.
    pub fn is_exhausted(&self) -> bool {
        self.finite.as_ref().is_some_and(|finite| finite.unused() == Some(0))
    }

    /// Takes the first unused one of the `proposals` (each of shape `[dimensions]`), or else a uniformly drawn unused
    /// point; `None` if the space is exhausted. The point is used from then on.
    pub fn take_unused(
        &mut self,
        proposals: impl IntoIterator<Item = Vec<f64>>,
        seed: u64,
        trial: TrialId,
    ) -> Option<ParameterValues> {
        if self.is_exhausted() {
            return None;
        }
        for proposal in proposals.into_iter().take(PROPOSALS) {
            let point = self.encoding.decode(&proposal);
            if self.insert(&point) {
                return Some(point);
            }
        }
        let point = self.finite.as_ref()?.uniform_unused(self.encoding, seed, trial);
        self.insert(&point);
        Some(point)
    }

    /// Marks `point`, which must belong to the space, as used. Returns whether it was unused; always true in a space
    /// with a double.
    fn insert(&mut self, point: &ParameterValues) -> bool {
        let Some(finite) = &mut self.finite else { return true };
        let key = self.encoding.key(point);
        key.is_ok_and(|key| finite.used.insert(key))
    }
}

impl Finite {
    /// The number of unused points; `None` if it is too large to count.
    fn unused(&self) -> Option<u128> {
        self.numbering.size().map(|size| size.saturating_sub(self.used.len() as u128))
    }

    /// A uniformly drawn unused point. There must be one.
    fn uniform_unused(&self, encoding: &Encoding, seed: u64, trial: TrialId) -> ParameterValues {
        let mut numbers = stream(seed, trial, "unused");
        let Some(unused) = self.unused() else {
            // A history uses only a vanishing part of so many points: the first draw practically always succeeds.
            loop {
                // The radix is at most 2^64, so an ordinal fits `u64`.
                let ordinal = |radix: u128| numbers.random_range(0..radix) as u64;
                let ordinals: Vec<u64> = self.numbering.radices().map(ordinal).collect();
                let point = encoding.point_at(&ordinals);
                if encoding.key(&point).is_ok_and(|key| !self.used.contains(&key)) {
                    return point;
                }
            }
        };
        let number = |key: &Key| self.numbering.index(key.ordinals());
        let mut used: Vec<u128> = self.used.iter().filter_map(number).collect();
        used.sort_unstable();
        // The n-th unused number is n plus the number of used numbers below it.
        let mut index = numbers.random_range(0..unused);
        for used in used {
            if used > index {
                break;
            }
            index += 1;
        }
        encoding.point_at(&self.numbering.ordinals(index))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::iter::repeat;

    use super::*;
    use crate::problem::{ParameterKind, ParameterSpec, PendingTrial, ScaleType, SearchSpace};

    fn integers(count: usize, max: i64) -> Encoding {
        let kind = ParameterKind::Integer { min: 1, max, scale: ScaleType::UnitLinear };
        let spec = |index| ParameterSpec::new(format!("k{index}"), kind.clone()).unwrap();
        Encoding::new(&SearchSpace::new((0..count).map(spec).collect()).unwrap())
    }

    fn pending(encoding: &Encoding, vectors: &[Vec<f64>]) -> Vec<PendingTrial> {
        let trial =
            |(vector, id): (&Vec<f64>, u64)| PendingTrial { id: TrialId(id), parameters: encoding.decode(vector) };
        vectors.iter().zip(1..).map(trial).collect()
    }

    #[test]
    fn unused_points_are_drawn_uniformly_if_all_proposals_are_used() {
        let encoding = integers(1, 10);
        let unit = |k: f64| vec![(k - 1.0) / 9.0];
        let pending = pending(&encoding, &[1.0, 2.0, 3.0, 5.0, 6.0, 8.0, 10.0].map(unit));
        let mut counts = BTreeMap::<String, u32>::new();
        for id in 8..3_008 {
            let mut used = UsedPoints::new(&encoding, History { completed: &[], pending: &pending }).unwrap();
            let point = used.take_unused(repeat(unit(5.0)), 1, TrialId(id)).unwrap();
            *counts.entry(point["k0"].to_string()).or_default() += 1;
        }
        assert_eq!(counts.keys().collect::<Vec<_>>(), ["4", "7", "9"]);
        // 1000 expected, with a standard deviation of 26.
        assert!(counts.values().all(|count| (922..=1078).contains(count)), "{counts:?}");
    }

    #[test]
    fn spaces_too_large_to_count_have_no_repeats() {
        let encoding = integers(3, i64::MAX);
        let used_vector = vec![0.5, 0.0, 1.0];
        let pending = pending(&encoding, std::slice::from_ref(&used_vector));
        let mut used = UsedPoints::new(&encoding, History { completed: &[], pending: &pending }).unwrap();
        assert!(!used.is_exhausted());
        let other = used.take_unused(repeat(used_vector), 1, TrialId(2)).unwrap();
        for name in ["k0", "k1", "k2"] {
            assert_ne!(other[name], pending[0].parameters[name]);
        }
    }
}
