//! Used points of a finite space, and random draws of unused ones.

use std::collections::{HashMap, HashSet};

use rand::RngExt;
use sha2::{Digest, Sha256};

use crate::designer::{DesignerError, History};
use crate::encoding::{Encoding, EncodingError, PointNumbering};
use crate::problem::{ParameterValues, TrialId};
use crate::rng::stream;

/// Number of proposals to try before scanning all points for an unused one. With half of the space used, all proposals
/// fail with a probability of 2^-64, so a scan happens only if the space is nearly exhausted or a scale prefers few
/// points. A guess.
const PROPOSALS: usize = 64;

/// Points of trials by number, with their trial counts: 17 to 39 bytes per point.
#[derive(Debug, Clone, Default)]
pub struct UsedPoints {
    points: HashSet<u128>,
    /// Number of further trials for points with more than one.
    repeats: HashMap<u128, u32>,
}

impl UsedPoints {
    /// Adds a trial with this point. Returns whether the point was unused.
    pub fn insert(&mut self, point: u128) -> bool {
        let is_new = self.points.insert(point);
        if !is_new {
            *self.repeats.entry(point).or_default() += 1;
        }
        is_new
    }

    /// Removes a trial with this point, which becomes unused if no other trial has it.
    pub fn remove(&mut self, point: u128) {
        match self.repeats.get_mut(&point) {
            None => {
                self.points.remove(&point);
            }
            Some(1) => {
                self.repeats.remove(&point);
            }
            Some(repeats) => *repeats -= 1,
        }
    }

    /// Whether a trial has this point.
    pub fn contains(&self, point: u128) -> bool {
        self.points.contains(&point)
    }

    /// Number of used points.
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// Whether no point is used.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Adds the points of all trials of `history`, completed and pending, with any outcome. `number` returns the number
    /// of a point, `None` for one that need not be known.
    ///
    /// # Errors
    /// [`DesignerError::ForeignTrial`] for a trial that has no number because it is not a point of the space.
    pub(super) fn add_history(
        &mut self,
        history: History<'_>,
        number: impl Fn(&ParameterValues) -> Result<Option<u128>, EncodingError>,
    ) -> Result<(), DesignerError> {
        for (trial, parameters) in history.points() {
            if let Some(number) = number(parameters).map_err(DesignerError::foreign(trial))? {
                self.insert(number);
            }
        }
        Ok(())
    }
}

/// Points of a space by number, for a search that must avoid used ones.
///
/// In a space with a double of a wide range, independently drawn points do not coincide: keys distinguish about 2^40
/// values. Points then have no numbers, and the cost of a suggestion does not depend on the length of the history.
pub struct NumberedPoints<'a> {
    encoding: &'a Encoding,
    /// `None` in a space with a double of a wide range.
    numbering: Option<PointNumbering>,
}

impl<'a> NumberedPoints<'a> {
    /// Numbers the points of the space of `encoding`.
    pub fn new(encoding: &'a Encoding) -> Self {
        Self { encoding, numbering: encoding.numbering() }
    }

    /// Whether the space is finite, so that a search has to know the used points.
    pub fn is_finite(&self) -> bool {
        self.numbering.is_some()
    }

    /// Number of a point; `None` in a space with a double of a wide range, where no errors are detected. A digest in a
    /// space of more points than there are numbers.
    ///
    /// # Errors
    /// The values are not a point of the space.
    pub fn number(&self, parameters: &ParameterValues) -> Result<Option<u128>, EncodingError> {
        let Some(numbering) = &self.numbering else { return Ok(None) };
        let key = self.encoding.key(parameters)?;
        let index = numbering.size().and_then(|_| numbering.index(key.ordinals()));
        Ok(Some(index.unwrap_or_else(|| digest(key.ordinals()))))
    }

    /// Points of all trials of `history`.
    ///
    /// # Errors
    /// As [`UsedPoints::add_history`].
    pub(super) fn used_by(&self, history: History<'_>) -> Result<UsedPoints, DesignerError> {
        let mut used = UsedPoints::default();
        if self.is_finite() {
            used.add_history(history, |parameters| self.number(parameters))?;
        }
        Ok(used)
    }

    /// Whether every point of the space is used.
    pub fn is_exhausted(&self, used: &UsedPoints) -> bool {
        self.numbering.is_some() && self.unused(used) == Some(0)
    }

    /// Takes the first unused one of the `proposals` (each of shape `[dimensions]`), or else a uniformly drawn unused
    /// point; `None` if the space is exhausted. Marks the point as used.
    pub fn take_unused(
        &self,
        used: &mut UsedPoints,
        proposals: impl IntoIterator<Item = Vec<f64>>,
        seed: u64,
        trial: TrialId,
    ) -> Option<ParameterValues> {
        if self.is_exhausted(used) {
            return None;
        }
        for proposal in proposals.into_iter().take(PROPOSALS) {
            let point = self.encoding.decode(&proposal);
            match self.number(&point) {
                Ok(None) => return Some(point),
                Ok(Some(number)) if !used.contains(number) => {
                    used.insert(number);
                    return Some(point);
                }
                Ok(Some(_)) | Err(_) => {}
            }
        }
        let point = self.uniform_unused(used, seed, trial)?;
        if let Ok(Some(number)) = self.number(&point) {
            used.insert(number);
        }
        Some(point)
    }

    /// Number of unused points; `None` if it is too large to count.
    fn unused(&self, used: &UsedPoints) -> Option<u128> {
        let size = self.numbering.as_ref()?.size()?;
        Some(size.saturating_sub(used.len() as u128))
    }

    /// Draws an unused point of a finite space uniformly. There must be one.
    fn uniform_unused(&self, used: &UsedPoints, seed: u64, trial: TrialId) -> Option<ParameterValues> {
        let numbering = self.numbering.as_ref()?;
        let mut numbers = stream(seed, trial, "unused");
        let Some(unused) = self.unused(used) else {
            // A history uses only a vanishing part of so many points: the first draw practically always succeeds.
            loop {
                // The radix is at most 2^64, so an ordinal fits `u64`.
                let ordinal = |radix: u128| numbers.random_range(0..radix) as u64;
                let ordinals: Vec<u64> = numbering.radices().map(ordinal).collect();
                let point = self.encoding.point_at(&ordinals);
                if self.number(&point).is_ok_and(|number| number.is_some_and(|number| !used.contains(number))) {
                    return Some(point);
                }
            }
        };
        let mut used: Vec<u128> = used.points.iter().copied().collect();
        used.sort_unstable();
        // The n-th unused number is n plus the number of used numbers below it.
        let mut index = numbers.random_range(0..unused);
        for used in used {
            if used > index {
                break;
            }
            index += 1;
        }
        Some(self.encoding.point_at(&numbering.ordinals(index)))
    }
}

/// 128 bits of the SHA-256 of `ordinals`. Two points of a history collide with a probability of about 2^-88.
fn digest(ordinals: &[u64]) -> u128 {
    let mut hash = Sha256::new();
    ordinals.iter().for_each(|ordinal| hash.update(ordinal.to_le_bytes()));
    let bytes: [u8; 32] = hash.finalize().into();
    bytes[..16].iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
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
            let points = NumberedPoints::new(&encoding);
            let mut used = points.used_by(History { completed: &[], pending: &pending }).unwrap();
            let point = points.take_unused(&mut used, repeat(unit(5.0)), 1, TrialId(id)).unwrap();
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
        let points = NumberedPoints::new(&encoding);
        let mut used = points.used_by(History { completed: &[], pending: &pending }).unwrap();
        assert!(!points.is_exhausted(&used));
        let other = points.take_unused(&mut used, repeat(used_vector), 1, TrialId(2)).unwrap();
        for name in ["k0", "k1", "k2"] {
            assert_ne!(other[name], pending[0].parameters[name]);
        }
    }

    #[test]
    fn point_is_used_until_its_last_trial_is_removed() {
        let mut used = UsedPoints::default();
        assert_eq!([7, 7, 7, 8].map(|point| used.insert(point)), [true, false, false, true]);
        for expected in [true, true, false] {
            used.remove(7);
            assert_eq!(used.contains(7), expected);
        }
        assert_eq!((used.contains(8), used.len()), (true, 1));
    }
}
