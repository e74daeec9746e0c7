//! Giving memory back: what the studies keep can be read from the store again.

use super::Studies;

impl Studies {
    /// Drops what was kept for studies that were not used during the last `calls` calls of this function: histories with
    /// their models, curves for early stopping, optimal trials, and figures. Returns the number of dropped values.
    pub fn drop_idle(&self, calls: u32) -> usize {
        self.policy.drop_idle(calls)
            + self.stopping.drop_idle(calls)
            + self.optimal.drop_idle(calls)
            + self.figures.drop_idle(calls)
    }

    /// Drops what was kept for studies, the least recently used history first, as long as `is_over` returns true and
    /// something is left. Returns the number of dropped values.
    pub fn drop_while(&self, mut is_over: impl FnMut() -> bool) -> usize {
        let mut dropped = 0;
        while is_over() {
            if !self.policy.drop_oldest() {
                return dropped + self.stopping.clear() + self.optimal.clear() + self.figures.clear();
            }
            dropped += 1;
        }
        dropped
    }
}
