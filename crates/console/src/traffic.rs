//! Workers and requests of versions on this server.

use std::fmt;
use std::time::Duration;

use askama::filters::HtmlSafe;
use tunesmith_algorithms::rounded::Rounded;
use tunesmith_prediction::{Latencies, PoolStatus, Version};

use super::format::{Number, Time};

/// Workers and requests of one version, or of all versions of a model, since the start of this server.
#[derive(Default)]
pub(crate) struct Traffic {
    /// Workers that have loaded the model.
    pub(crate) ready: usize,
    pub(crate) starting: usize,
    pub(crate) min: usize,
    pub(crate) max: usize,
    pub(crate) waiting: usize,
    /// Requests, with those that had no answer of the model.
    pub(crate) requests: u64,
    /// Requests with an error of the model, or without an answer.
    pub(crate) errors: u64,
    pub(crate) last_use: Option<Time>,
    latencies: Latencies,
}

impl Traffic {
    /// `limit` is the maximum number of workers of all versions.
    pub(crate) fn of(version: &Version, status: &PoolStatus, limit: usize) -> Self {
        let scaling = version.spec.scaling;
        Self {
            ready: status.ready,
            starting: status.starting,
            min: scaling.min_nodes(),
            max: scaling.max_nodes(limit).min(limit),
            waiting: status.waiting,
            requests: status.requests + status.failures,
            errors: status.errors + status.failures,
            last_use: version.last_use_time.max(status.last_use).map(Time),
            latencies: status.latencies.clone(),
        }
    }

    /// Adds another version of the same model.
    pub(crate) fn add(&mut self, other: &Self, limit: usize) {
        self.ready += other.ready;
        self.starting += other.starting;
        self.min += other.min;
        self.max = (self.max + other.max).min(limit);
        self.waiting += other.waiting;
        self.requests += other.requests;
        self.errors += other.errors;
        self.last_use = self.last_use.map(|time| time.0).max(other.last_use.map(|time| time.0)).map(Time);
        self.latencies.add(&other.latencies);
    }

    /// Number of workers that may run: `0–4`, or `2` for a constant number.
    pub(crate) fn range(&self) -> String {
        if self.min == self.max { self.min.to_string() } else { format!("{}–{}", self.min, self.max) }
    }

    /// Share of the requests with an error, in percent; `None` without requests.
    pub(crate) fn error_share(&self) -> Option<Number> {
        let share = self.errors as f64 / self.requests as f64;
        (self.requests > 0).then(|| Number((share * 1000.0).round() / 10.0))
    }

    pub(crate) fn median(&self) -> Option<Latency> {
        self.latencies.quantile(0.5).map(Latency)
    }

    /// Latency of the slowest of 20 requests.
    pub(crate) fn p95(&self) -> Option<Latency> {
        self.latencies.quantile(0.95).map(Latency)
    }
}

/// Latency with two significant digits, since it is known to within 9%.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Latency(Duration);

impl HtmlSafe for Latency {}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        let (value, unit) = if seconds < 1.0 { (seconds * 1e3, "ms") } else { (seconds, "s") };
        let digit = 10f64.powf(value.max(1e-3).log10().floor() - 1.0);
        write!(f, r#"<span class="number">{} {unit}</span>"#, Rounded((value / digit).round() * digit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_has_two_digits() {
        let cases =
            [(0.000_412_3, "0.41 ms"), (0.012_34, "12 ms"), (0.996, "1000 ms"), (1.26, "1.3 s"), (83.0, "83 s")];
        for (seconds, expected) in cases {
            let shown = Latency(Duration::from_secs_f64(seconds)).to_string();
            assert_eq!(shown, format!(r#"<span class="number">{expected}</span>"#));
        }
    }
}
