//! Giving memory back: what the studies keep can be read from the store again.

use super::Studies;

impl Studies {
    /// Drops what was kept for studies that were not used during the last `calls` calls of this function: histories with
    /// their models, curves for early stopping, results for the end of the study, summaries, and columns of trials. Returns
    /// the number of dropped values.
    pub fn drop_idle(&self, calls: u32) -> usize {
        self.policy.drop_idle(calls)
            + self.stopping.drop_idle(calls)
            + self.ends.drop_idle(calls)
            + self.summaries.drop_idle(calls)
            + self.views.drop_idle(calls)
    }

    /// Drops what was kept for studies, as long as `is_over` returns true: what was not used since the last
    /// [`Self::drop_idle`], then the least recently used columns of trials and histories. What is in use, or was used last,
    /// remains: the next request would read it again. Returns the number of dropped values.
    pub fn drop_while(&self, mut is_over: impl FnMut() -> bool) -> usize {
        let mut dropped = 0;
        while is_over() && (self.views.drop_unused() || self.policy.drop_unused()) {
            dropped += 1;
        }
        if is_over() {
            dropped += self.stopping.drop_unused() + self.ends.drop_unused() + self.summaries.drop_unused();
        }
        while is_over() && (self.views.drop_oldest() || self.policy.drop_oldest()) {
            dropped += 1;
        }
        dropped
    }
}
