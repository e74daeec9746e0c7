//! Constraint violations of measured trials.

use super::evidence::Evidence;

/// Where trials violate constraints, row by row of the evidence.
pub(super) struct Violations {
    /// Sum over the constraints of what is lacking to the threshold, in standard deviations; 0 where all hold. One per
    /// measured row.
    pub(super) sums: Vec<f64>,
}

impl Violations {
    pub(super) fn new(measured: usize, constraints: &[Evidence]) -> Self {
        let lacking = |row: usize| {
            let one = |evidence: &Evidence| (evidence.threshold - evidence.data.values[row]).max(0.0);
            constraints.iter().map(one).sum()
        };
        Self { sums: (0..measured).map(lacking).collect() }
    }

    /// Those of `rows` where every constraint holds.
    pub(super) fn feasible(&self, rows: &[usize]) -> Vec<usize> {
        rows.iter().copied().filter(|&row| self.sums[row] == 0.0).collect()
    }

    /// All of `rows`, the least violation first.
    pub(super) fn least(&self, mut rows: Vec<usize>) -> Vec<usize> {
        rows.sort_by(|&a, &b| self.sums[a].total_cmp(&self.sums[b]).then(a.cmp(&b)));
        rows
    }
}
