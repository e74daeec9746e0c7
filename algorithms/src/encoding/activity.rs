//! Active features, computed from parents to children.

/// Values of a parent feature that activate a feature.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ParentCondition {
    pub(super) parent: usize,
    /// Ordinals of the parent's values: strictly increasing, at least one.
    pub(super) ordinals: Vec<u64>,
}

/// Conditions of all features. Parameters with one value are not features: their children refer to the nearest ancestor
/// that is a feature.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Activity {
    /// One per feature; `None` if it is always active.
    pub(super) conditions: Vec<Option<ParentCondition>>,
    /// All features, parents before their children, otherwise in order.
    pub(super) top_down: Vec<usize>,
}

impl Activity {
    pub(super) fn is_conditional(&self) -> bool {
        self.conditions.iter().any(Option::is_some)
    }

    /// Whether a feature with this condition is active. `active` contains the state of the features above it, and
    /// `ordinal` returns the ordinal of an active feature's value.
    pub(super) fn is_active(
        condition: Option<&ParentCondition>,
        active: &[bool],
        ordinal: impl Fn(usize) -> u64,
    ) -> bool {
        condition.is_none_or(|condition| {
            active[condition.parent] && condition.ordinals.binary_search(&ordinal(condition.parent)).is_ok()
        })
    }

    /// Computes [`Self::top_down`] from the conditions, which have no cycles.
    pub(super) fn sort_top_down(&mut self) {
        let parent = |feature: &usize| self.conditions[*feature].as_ref().map(|condition| condition.parent);
        let depth = |feature: &usize| std::iter::successors(Some(*feature), parent).count();
        let mut order: Vec<usize> = (0..self.conditions.len()).collect();
        order.sort_by_cached_key(depth);
        self.top_down = order;
    }
}
