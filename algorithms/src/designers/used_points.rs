//! Which points of a finite space were given out, and drawing one of the others.

use std::collections::HashSet;

use rand::RngExt;

use crate::designer::{DesignerError, History};
use crate::encoding::{Encoding, Key, PointNumbering};
use crate::problem::{ParameterValues, TrialId};
use crate::rng::stream;

/// How many proposals are tried before an unused point is looked for among all. With half of the space used, all of
/// them fail once in 2^64 times, so this only happens when the space is nearly used up or a scale prefers few points.
const PROPOSALS: usize = 64;

/// The points of a history.
///
/// In a space with a double, independently drawn points do not coincide: keys tell apart about 2^40 values. There
/// nothing is recorded, and a suggestion costs the same whatever the length of the history.
pub struct UsedPoints<'a> {
    encoding: &'a Encoding,
    /// `None` in a space with a double.
    finite: Option<Finite>,
}

/// The used points of a space without doubles.
struct Finite {
    numbering: PointNumbering,
    used: HashSet<Key>,
}

impl<'a> UsedPoints<'a> {
    /// The points of all trials, completed and pending, whatever came of them.
    ///
    /// # Errors
    /// [`DesignerError::ForeignTrial`] for a trial that is no point of the space (not noticed in a space with a
    /// double).
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

    /// Whether every point of the space was used.
    pub fn is_exhausted(&self) -> bool {
        self.finite.as_ref().is_some_and(|finite| finite.unused() == Some(0))
    }

    /// Takes the first unused one of the `proposals` (each of shape `[dimensions]`), or else any unused point, all
    /// equally likely; `None` when the space is exhausted. The point counts as used from then on.
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

    /// Marks `point`, which belongs to the space, as used. Returns whether it was unused; in a space with a double,
    /// always.
    fn insert(&mut self, point: &ParameterValues) -> bool {
        let Some(finite) = &mut self.finite else { return true };
        let key = self.encoding.key(point);
        key.is_ok_and(|key| finite.used.insert(key))
    }
}

impl Finite {
    /// How many points are left; `None` if there are too many to count.
    fn unused(&self) -> Option<u128> {
        self.numbering.size().map(|size| size.saturating_sub(self.used.len() as u128))
    }

    /// One of the unused points, all equally likely. There must be one.
    fn uniform_unused(&self, encoding: &Encoding, seed: u64, trial: TrialId) -> ParameterValues {
        let mut numbers = stream(seed, trial, "unused");
        let Some(unused) = self.unused() else {
            // Of so many points no history uses more than a vanishing part: the first draw is as good as certain.
            loop {
                // Below 2^64, so an ordinal fits u64.
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
        // The n-th unused number is n plus the count of used numbers below it.
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
    fn when_all_proposals_are_used_every_other_point_is_equally_likely() {
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
        // 1000 expected, standard deviation 26.
        assert!(counts.values().all(|count| (922..=1078).contains(count)), "{counts:?}");
    }

    #[test]
    fn spaces_too_large_to_count_have_no_repeats_either() {
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
