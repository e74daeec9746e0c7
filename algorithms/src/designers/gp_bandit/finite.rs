//! Spaces of finitely many points: listing them, and walking to one that is unused.

use std::collections::HashSet;

use nalgebra::DMatrix;
use rand::RngExt;

use crate::acquisition::Region;
use crate::encoding::{Encoding, Key};
use crate::mixed_radix::MixedRadix;
use crate::problem::TrialId;
use crate::rng::stream;

/// Spaces up to this size are scored completely.
const LARGEST_LISTED: u128 = 65_536;

/// The numbered points of a space without doubles.
#[derive(Debug, Clone)]
pub(super) struct FinitePoints {
    numbering: MixedRadix,
    size: u128,
    /// Coordinates of each feature by ordinal; only if the space is small enough to list.
    coordinates: Option<Vec<Vec<f64>>>,
}

impl FinitePoints {
    /// `None` if some feature is continuous, or the points cannot be counted.
    pub(super) fn new(encoding: &Encoding) -> Option<Self> {
        let d = encoding.dimensions();
        let radices: Vec<u128> = (0..d).map(|j| encoding.feature_cardinality(j)).collect::<Option<_>>()?;
        let numbering = MixedRadix::new(radices.clone());
        let size = numbering.size()?;
        let listed = size <= LARGEST_LISTED;
        let coordinate = |j: usize, ordinal: u128| {
            let mut ordinals = vec![0_u64; d];
            // Only spaces small enough to list come here.
            ordinals[j] = ordinal as u64;
            encoding.encode(&encoding.point_at(&ordinals)).map_or(0.0, |point| point[j])
        };
        let axis = |(j, &radix): (usize, &u128)| (0..radix).map(|ordinal| coordinate(j, ordinal)).collect();
        Some(Self { numbering, size, coordinates: listed.then(|| radices.iter().enumerate().map(axis).collect()) })
    }

    /// Whether as many different points were used as there are.
    pub(super) fn exhausted(&self, used: &HashSet<Key>) -> bool {
        used.len() as u128 >= self.size
    }

    /// The unused points inside `region`, one per row; `None` if the space is too large to list.
    pub(super) fn unused_inside(&self, used: &HashSet<Key>, region: &Region) -> Option<DMatrix<f64>> {
        let coordinates = self.coordinates.as_ref()?;
        let mut is_used = vec![false; self.size as usize];
        for index in used.iter().filter_map(|key| self.numbering.index(key.ordinals())) {
            is_used[index as usize] = true;
        }
        let mut points: Vec<f64> = Vec::new();
        let mut count = 0;
        for (index, _) in is_used.iter().enumerate().filter(|(_, used)| !**used) {
            let digits = self.numbering.digits(index as u128);
            let point: Vec<f64> = digits.iter().zip(coordinates).map(|(digit, axis)| axis[*digit as usize]).collect();
            if region.contains(&point) {
                points.extend(point);
                count += 1;
            }
        }
        Some(DMatrix::from_row_slice(count, coordinates.len(), &points))
    }

    /// Some unused point, as ordinals: the first from a random place on. `None` if there is none.
    pub(super) fn any_unused(&self, used: &HashSet<Key>, seed: u64, trial: TrialId) -> Option<Vec<u64>> {
        let indices: HashSet<u128> = used.iter().filter_map(|key| self.numbering.index(key.ordinals())).collect();
        let start = stream(seed, trial, "walk").random_range(0..self.size);
        // Among one more place than there are used points, one is unused.
        let steps = (indices.len() as u128 + 1).min(self.size);
        (0..steps)
            .map(|step| (start + step) % self.size)
            .find(|index| !indices.contains(index))
            .map(|index| self.numbering.digits(index))
    }
}
