//! Finite spaces: enumeration, and a scan for an unused point.

use std::collections::HashSet;

use nalgebra::DMatrix;
use rand::RngExt;

use crate::acquisition::Region;
use crate::encoding::{Encoding, Key, PointNumbering};
use crate::problem::TrialId;
use crate::rng::stream;

/// Largest space whose points are all scored.
const LARGEST_LISTED: u128 = 65_536;

/// Numbered points of a finite space.
#[derive(Debug, Clone)]
pub(super) struct FinitePoints {
    numbering: PointNumbering,
    size: u128,
    /// Canonical vectors of all points, ordered by number; `None` if the space is too large to list.
    listed: Option<Vec<Vec<f64>>>,
}

impl FinitePoints {
    /// Numbers the points; `None` if a feature is continuous or the number of points overflows.
    pub(super) fn new(encoding: &Encoding) -> Option<Self> {
        let numbering = encoding.numbering()?;
        let size = numbering.size()?;
        let point = |index: u128| {
            let ordinals = numbering.ordinals(index).into_iter().enumerate();
            ordinals.map(|(feature, ordinal)| encoding.coordinate_at(feature, ordinal)).collect()
        };
        let listed = (size <= LARGEST_LISTED).then(|| (0..size).map(point).collect());
        Some(Self { numbering, size, listed })
    }

    pub(super) fn exhausted(&self, used: &HashSet<Key>) -> bool {
        used.len() as u128 >= self.size
    }

    /// Unused points inside `region`, one per row; `None` if the space is too large to list.
    pub(super) fn unused_inside(
        &self,
        encoding: &Encoding,
        used: &HashSet<Key>,
        region: &Region,
    ) -> Option<DMatrix<f64>> {
        let listed = self.listed.as_ref()?;
        let mut is_used = vec![false; listed.len()];
        for index in used.iter().filter_map(|key| self.numbering.index(key.ordinals())) {
            is_used[index as usize] = true;
        }
        let unused = listed.iter().zip(is_used).filter(|(_, used)| !used).map(|(point, _)| point);
        let inside: Vec<&[f64]> = unused.filter(|point| region.contains(encoding, point)).map(Vec::as_slice).collect();
        Some(DMatrix::from_row_slice(inside.len(), region.axes.len(), &inside.concat()))
    }

    /// Ordinals of the first unused point from a random number on; `None` if all points are used.
    pub(super) fn any_unused(&self, used: &HashSet<Key>, seed: u64, trial: TrialId) -> Option<Vec<u64>> {
        let indices: HashSet<u128> = used.iter().filter_map(|key| self.numbering.index(key.ordinals())).collect();
        // The stream name is fixed: it determines the suggestions of existing studies.
        let start = stream(seed, trial, "walk").random_range(0..self.size);
        // One point more than the used ones includes an unused one.
        let steps = (indices.len() as u128 + 1).min(self.size);
        (0..steps)
            .map(|step| (start + step) % self.size)
            .find(|index| !indices.contains(index))
            .map(|index| self.numbering.ordinals(index))
    }
}
