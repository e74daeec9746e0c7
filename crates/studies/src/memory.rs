//! Eviction from the study caches, whose contents can be reread from the store.

use super::Studies;

impl Studies {
    /// Evicts the caches (histories with models, early-stopping curves, results, summaries, columns) of studies unused
    /// during the last `calls` calls. Returns the number of evicted values.
    pub fn drop_idle(&self, calls: u32) -> usize {
        self.policy.histories.drop_idle(calls)
            + self.stopping.rules.drop_idle(calls)
            + self.ends.drop_idle(calls)
            + self.summaries.0.drop_idle(calls)
            + self.views.columns.drop_idle(calls)
            + self.views.models.drop_idle(calls)
    }

    /// Evicts cached values while `is_over` returns true: first those unused since the last [`Self::drop_idle`], then
    /// the least recently used columns and histories. Spares values in use or used last, since the next request would
    /// reread them. Returns the number of evicted values.
    pub fn drop_while(&self, mut is_over: impl FnMut() -> bool) -> usize {
        let mut dropped = 0;
        while is_over() && (self.views.columns.drop_unused() || self.policy.histories.drop_unused()) {
            dropped += 1;
        }
        if is_over() {
            let (rules, ends, summaries) = (&self.stopping.rules, &self.ends, &self.summaries.0);
            while rules.drop_unused() || ends.drop_unused() || summaries.drop_unused() {
                dropped += 1;
            }
        }
        while is_over() && (self.views.columns.drop_oldest() || self.policy.histories.drop_oldest()) {
            dropped += 1;
        }
        dropped
    }
}
