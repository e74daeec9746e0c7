//! Quantiles of latencies, from counts in ranges of equal ratio.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Ranges of each octave: a quantile is exact to within 9%.
const PER_OCTAVE: f64 = 4.0;

/// Ranges from 1 µs to 268 s. The last one also has longer latencies.
const RANGES: usize = 112;

/// Counts of latencies, which many threads raise.
#[derive(Debug)]
pub(crate) struct LatencyCounter([AtomicU64; RANGES]);

impl Default for LatencyCounter {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; RANGES])
    }
}

impl LatencyCounter {
    pub(crate) fn count(&self, latency: Duration) {
        let micros = latency.as_secs_f64() * 1e6;
        let range = (micros.max(1.0).log2() * PER_OCTAVE) as usize;
        self.0[range.min(RANGES - 1)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Latencies {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        Latencies(counts.collect())
    }
}

/// Counts of latencies at one time; none by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Latencies(Vec<u64>);

impl Latencies {
    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        for (count, more) in self.0.iter_mut().zip(&other.0) {
            *count += more;
        }
    }

    /// Latency below which the `share` of the requests lies, from 0 to 1; `None` without requests.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let total: u64 = self.0.iter().sum();
        let rank = ((total as f64 * share).ceil() as u64).max(1);
        let mut below = 0;
        let range = self.0.iter().position(|count| {
            below += count;
            below >= rank
        })?;
        let middle = ((range as f64 + 0.5) / PER_OCTAVE).exp2();
        Some(Duration::from_secs_f64(middle / 1e6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_tenth() {
        let counter = LatencyCounter::default();
        for millis in 1..=100 {
            counter.count(Duration::from_millis(millis));
        }
        let mut read = counter.read();
        for (share, expected) in [(0.5, 0.05), (0.95, 0.095), (0.0, 0.001), (1.0, 0.1)] {
            let found = read.quantile(share).unwrap().as_secs_f64();
            assert!((found / expected - 1.0).abs() < 0.1, "{share}: {found}");
        }
        let slow = LatencyCounter::default();
        slow.count(Duration::ZERO);
        slow.count(Duration::from_secs(100_000));
        read.add(&slow.read());
        assert!(read.quantile(1.0).unwrap() > Duration::from_secs(200));
        assert_eq!(Latencies::default().quantile(0.5), None);
        let mut none = Latencies::default();
        none.add(&read);
        assert_eq!(none, read);
    }
}
