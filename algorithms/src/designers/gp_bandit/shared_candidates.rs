//! Screened candidates shared by several suggestions of one request.

use crate::acquisition::{Acquisition, Candidates, Search};

/// Number of searches of a batch that share candidates (a guess: a usual batch size).
const SEARCHES_PER_CANDIDATES: usize = 8;

/// Candidates of the trust region and of the whole space.
#[derive(Debug, Default)]
pub(super) struct RegionCandidates {
    pub(super) local: SharedCandidates,
    pub(super) global: SharedCandidates,
}

/// Candidates, with the number of searches that have used them.
#[derive(Debug, Default)]
pub(super) struct SharedCandidates(Option<(Candidates, usize)>);

impl SharedCandidates {
    /// Runs `search` from these candidates, or from new ones if these belong to another region or have been used often
    /// enough.
    pub(super) fn maximize(&mut self, search: &Search<'_>, acquisition: &dyn Acquisition) -> Option<Vec<f64>> {
        let (mut candidates, uses) = match self.0.take() {
            Some((candidates, uses)) if uses < SEARCHES_PER_CANDIDATES && search.accepts(&candidates) => {
                (candidates, uses)
            }
            _ => (search.candidates(acquisition), 0),
        };
        let found = search.maximize_among(acquisition, &mut candidates);
        self.0 = Some((candidates, uses + 1));
        found
    }
}
