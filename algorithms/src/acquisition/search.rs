//! Inputs of one search for the maximum of an acquisition function.

use std::collections::HashSet;

use super::interface::Acquisition;
use super::region::Region;
use super::trust_region::TrustRegion;
use crate::encoding::{Encoding, Key};
use crate::prior::PriorDensity;
use crate::problem::TrialId;

/// Inputs of one search, except the acquisition function.
#[derive(Debug, Clone, Copy)]
pub struct Search<'a> {
    /// Encoding of the whole space.
    pub encoding: &'a Encoding,
    /// Part of the space to search.
    pub region: &'a Region,
    /// Natural step of each feature, above 0.
    pub scales: &'a [f64],
    /// Best observed points, best first. In a conditional space also the best points of other branches, as start values
    /// for newly active parameters.
    pub anchors: &'a [Vec<f64>],
    /// Prior density of the optimum, from which a share of the candidates is drawn.
    pub prior: Option<&'a PriorDensity>,
    /// Points never to propose.
    pub used: &'a HashSet<Key>,
    /// Study seed. All candidates are a function of it and of `trial`.
    pub seed: u64,
    /// Trial that needs a point.
    pub trial: TrialId,
}

/// Best point of the whole space found by a search near `anchors`, always the same one. `lengthscales` are those of the
/// model of `acquisition`.
pub fn maximum_of_space(
    acquisition: &dyn Acquisition,
    encoding: &Encoding,
    lengthscales: &[f64],
    anchors: &[Vec<f64>],
) -> Option<Vec<f64>> {
    let ordered: Vec<bool> = encoding.categorical().into_iter().map(|is_categorical| !is_categorical).collect();
    let search = Search {
        encoding,
        region: &Region::whole(encoding),
        scales: &TrustRegion::UNIT.sides(lengthscales, &ordered),
        anchors,
        prior: None,
        used: &HashSet::new(),
        seed: 0,
        trial: TrialId(0),
    };
    search.maximize(acquisition)
}
