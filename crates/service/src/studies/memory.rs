//! Giving memory back: what the studies keep can be read from the store again.

use super::Studies;

impl Studies {
    /// Drops what was kept for studies that were not used during the last `calls` calls of this function: histories with
    /// their models, curves for early stopping, results for the end of the study, optimal trials, figures, and columns of trials. Returns the number of dropped
    /// values.
    pub fn drop_idle(&self, calls: u32) -> usize {
        self.policy.drop_idle(calls)
            + self.stopping.drop_idle(calls)
            + self.ends.drop_idle(calls)
            + self.optimal.drop_idle(calls)
            + self.views.drop_idle(calls)
            + self.figures.drop_idle(calls)
    }

    /// Drops what was kept for studies, as long as `is_over` returns true and something is left: columns of trials, then
    /// histories, the least recently used ones first, then the rest. Returns the number of dropped values.
    pub fn drop_while(&self, mut is_over: impl FnMut() -> bool) -> usize {
        let mut dropped = 0;
        while is_over() {
            if !self.views.drop_oldest() && !self.policy.drop_oldest() {
                let kept = self.stopping.clear() + self.ends.clear() + self.optimal.clear() + self.figures.clear();
                return dropped + kept;
            }
            dropped += 1;
        }
        dropped
    }
}
