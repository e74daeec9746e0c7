//! The inputs of one search for the maximum of an acquisition function.

use std::collections::HashSet;

use super::region::Region;
use crate::encoding::{Encoding, Key};
use crate::prior::PriorDensity;
use crate::problem::TrialId;

/// The inputs of one search, except the acquisition function.
#[derive(Debug, Clone, Copy)]
pub struct Search<'a> {
    /// The whole space.
    pub encoding: &'a Encoding,
    /// The part of the space to search.
    pub region: &'a Region,
    /// A natural step of each feature, above 0.
    pub scales: &'a [f64],
    /// The best observed points, best first. In a conditional space also the best points of other branches, which give
    /// start values for parameters that become active.
    pub anchors: &'a [Vec<f64>],
    /// A prior density of the optimum, from which a share of the candidates is drawn.
    pub prior: Option<&'a PriorDensity>,
    /// Points that are never proposed.
    pub used: &'a HashSet<Key>,
    /// The study seed. All candidates are a function of it and of `trial`.
    pub seed: u64,
    /// The trial to propose a point for.
    pub trial: TrialId,
}
