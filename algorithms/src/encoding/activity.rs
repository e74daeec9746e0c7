//! Which features are active, decided from parents down to children.

/// The values of another feature for which a feature is active.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Gate {
    /// Index of the parent's feature.
    pub(super) parent: usize,
    /// Ordinals of the parent's values, strictly increasing, at least one.
    pub(super) ordinals: Vec<u64>,
}

/// The gates of all features. Parents of one value are no features: their children stand under the next parent above
/// that has a choice.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Activity {
    /// One per feature; `None` if it is always active.
    pub(super) gates: Vec<Option<Gate>>,
    /// All features, parents before their children, otherwise in order.
    pub(super) top_down: Vec<usize>,
}

impl Activity {
    /// Whether any feature may be inactive.
    pub(super) fn is_conditional(&self) -> bool {
        self.gates.iter().any(Option::is_some)
    }

    /// Whether a feature with this gate is active, where `active` tells it of the features above, and `ordinal` gives
    /// the ordinal of an active one's value.
    pub(super) fn opens(gate: Option<&Gate>, active: &[bool], ordinal: impl Fn(usize) -> u64) -> bool {
        gate.is_none_or(|gate| active[gate.parent] && gate.ordinals.binary_search(&ordinal(gate.parent)).is_ok())
    }

    /// Fills [`Self::top_down`] from the gates, which go round no circle.
    pub(super) fn sort_top_down(&mut self) {
        let parent = |feature: &usize| self.gates[*feature].as_ref().map(|gate| gate.parent);
        let depth = |feature: &usize| std::iter::successors(Some(*feature), parent).count();
        let mut order: Vec<usize> = (0..self.gates.len()).collect();
        order.sort_by_cached_key(depth);
        self.top_down = order;
    }
}
