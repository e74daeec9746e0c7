//! Best results over trial numbers in a bounded number of bins, for small pictures.

use tunesmith_algorithms::problem::TrialId;

/// Maximum number of bins: a sparkline is about 100 pixels wide.
const MOST_BINS: usize = 48;

/// Best value per range of trial numbers. Independent of the order in which results arrive.
///
/// A deleted trial remains included until all trials are reread.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Trend {
    /// Trial numbers per bin, a power of two.
    pub(super) width: u64,
    /// Best value per bin, to be maximised; negative infinity in an empty bin.
    pub(super) bins: Vec<f64>,
}

impl Default for Trend {
    fn default() -> Self {
        Self { width: 1, bins: Vec::new() }
    }
}

impl Trend {
    /// Adds a value to be maximised.
    pub(super) fn add(&mut self, id: TrialId, value: f64) {
        if !value.is_finite() {
            return;
        }
        while self.index(id) >= MOST_BINS {
            self.bins =
                self.bins.chunks(2).map(|pair| pair.iter().copied().fold(f64::NEG_INFINITY, f64::max)).collect();
            self.width = self.width.saturating_mul(2);
        }
        let index = self.index(id);
        if self.bins.len() <= index {
            self.bins.resize(index + 1, f64::NEG_INFINITY);
        }
        self.bins[index] = self.bins[index].max(value);
    }

    /// Best value up to each bin, from the first bin with a value.
    pub(super) fn best_so_far(&self) -> Vec<f64> {
        let mut best = f64::NEG_INFINITY;
        let so_far = self.bins.iter().map(|value| {
            best = best.max(*value);
            best
        });
        so_far.skip_while(|value| value.is_infinite()).collect()
    }

    fn index(&self, id: TrialId) -> usize {
        usize::try_from(id.0.saturating_sub(1) / self.width).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trend(values: impl IntoIterator<Item = (u64, f64)>) -> Trend {
        let mut trend = Trend::default();
        values.into_iter().for_each(|(id, value)| trend.add(TrialId(id), value));
        trend
    }

    #[test]
    fn best_so_far_starts_with_the_first_result_and_never_falls() {
        let results = [(2, 1.0), (3, f64::NAN), (4, 0.5), (6, 3.0)];
        assert_eq!(trend(results).best_so_far(), [1.0, 1.0, 1.0, 1.0, 3.0]);
        assert_eq!(trend([]).best_so_far(), [0.0; 0]);
        assert_eq!(trend([(1, f64::INFINITY)]).best_so_far(), [0.0; 0]);
    }

    #[test]
    fn bins_are_bounded_and_independent_of_the_order() {
        let results: Vec<(u64, f64)> = (1..=100_000).map(|id| (id, (id % 977) as f64)).collect();
        let in_order = trend(results.clone());
        assert!(in_order.bins.len() <= MOST_BINS && in_order.bins.len() > MOST_BINS / 2 - 1, "{}", in_order.bins.len());
        assert_eq!(in_order.width, 4096);
        let mut shuffled = results;
        shuffled.sort_by_key(|(id, _)| id.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        assert_eq!(trend(shuffled), in_order);
    }
}
