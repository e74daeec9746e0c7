use super::evidence::Evidence;

pub(super) struct Violations {
    /// Sum over the constraints of the distance to the threshold, in standard deviations; 0 where all hold. One entry
    /// per measured row.
    pub(super) sums: Vec<f64>,
}

impl Violations {
    pub(super) fn new(measured: usize, constraints: &[Evidence]) -> Self {
        let violation = |row: usize| {
            let one = |evidence: &Evidence| (evidence.threshold - evidence.data.values[row]).max(0.0);
            constraints.iter().map(one).sum()
        };
        Self { sums: (0..measured).map(violation).collect() }
    }

    /// Rows of `rows` where every constraint holds.
    pub(super) fn feasible(&self, rows: &[usize]) -> Vec<usize> {
        rows.iter().copied().filter(|&row| self.sums[row] == 0.0).collect()
    }

    /// All of `rows`, sorted by increasing violation.
    pub(super) fn least(&self, mut rows: Vec<usize>) -> Vec<usize> {
        rows.sort_by(|&a, &b| self.sums[a].total_cmp(&self.sums[b]).then(a.cmp(&b)));
        rows
    }
}
