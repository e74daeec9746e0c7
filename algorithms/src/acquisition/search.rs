//! The inputs of one search for the maximum of an acquisition function.

use std::collections::HashSet;

use super::region::Region;
use crate::encoding::{Encoding, Key};
use crate::problem::TrialId;

/// Everything but the function that one search needs.
#[derive(Debug, Clone, Copy)]
pub struct Search<'a> {
    /// The whole space.
    pub encoding: &'a Encoding,
    /// Where to search; inside the space.
    pub region: &'a Region,
    /// A natural step of each feature, all above zero.
    pub scales: &'a [f64],
    /// The best observed points, best first; in a conditional space also the best ones of other branches, from which
    /// parameters start that become active.
    pub anchors: &'a [Vec<f64>],
    /// Points never to be proposed.
    pub used: &'a HashSet<Key>,
    /// Study seed and the trial to be proposed: they fix all candidates.
    pub seed: u64,
    /// See `seed`.
    pub trial: TrialId,
}
