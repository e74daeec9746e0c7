use serde::Serialize;

use super::groups::Cells;
use tunesmith_statistics::summary::median;

/// Lower ends of the evaluation bins.
const BINS: [usize; 12] = [0, 10, 25, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000];

/// Suggestion times of an optimizer with `from..to` results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SuggestionTime {
    #[serde(rename = "contestant")]
    pub optimizer: usize,
    /// Fewest results before the suggestion.
    pub from: usize,
    /// Exclusive upper end of the bin.
    pub to: usize,
    /// Number of timed suggestions; a batch counts as one.
    pub count: usize,
    /// Median, in milliseconds.
    pub median_ms: f64,
    /// 90th percentile (nearest rank), in milliseconds.
    pub p90_ms: f64,
}

/// Times by optimizer, then by bin, without empty bins.
pub(super) fn suggestion_times(cells: &Cells<'_>, optimizers: usize) -> Vec<SuggestionTime> {
    let mut found = Vec::new();
    for optimizer in 0..optimizers {
        let mut bins: [Vec<f64>; BINS.len()] = Default::default();
        for run in cells.runs(optimizer) {
            let initial = run.record.key.schedule.initial_points;
            let suggestions = run.record.suggest_ms.len();
            // A batch counts as one suggestion, so a suggestion may have several results.
            let each = run.record.trials().saturating_sub(initial) as f64 / suggestions.max(1) as f64;
            for (index, &time) in run.record.suggest_ms.iter().enumerate().filter(|(_, time)| time.is_finite()) {
                let evaluations = initial + (index as f64 * each.max(1.0)) as usize;
                bins[BINS.partition_point(|&from| from <= evaluations) - 1].push(time);
            }
        }
        for (bin, times) in bins.iter_mut().enumerate().filter(|(_, times)| !times.is_empty()) {
            times.sort_unstable_by(f64::total_cmp);
            found.push(SuggestionTime {
                optimizer,
                from: BINS[bin],
                to: BINS.get(bin + 1).copied().unwrap_or(usize::MAX),
                count: times.len(),
                median_ms: median(times),
                p90_ms: times[(times.len() * 9).div_ceil(10) - 1],
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::groups::groups;
    use super::super::options::AnalysisOptions;
    use super::super::runs::RunSet;
    use super::super::synthetic_fixture::record;
    use super::*;

    #[test]
    fn times_are_binned_by_the_number_of_earlier_results() {
        let mut run = record("gp", "f1", 1, &[1.0; 12]);
        run.suggest_ms = (1..=12).map(f64::from).collect();
        let records = [run];
        let set = RunSet::new(&records, &AnalysisOptions::default()).unwrap();
        let times = suggestion_times(&Cells::new(&set, &groups(&set)[0]), 1);
        let shape: Vec<(usize, usize, usize, f64, f64)> =
            times.iter().map(|time| (time.from, time.to, time.count, time.median_ms, time.p90_ms)).collect();
        assert_eq!(shape, [(0, 10, 10, 5.5, 9.0), (10, 25, 2, 11.5, 12.0)]);
    }

    #[test]
    fn a_batch_counts_its_results_and_initial_points_come_first() {
        let mut run = record("gp", "f1", 1, &[1.0; 20]);
        run.key.schedule.initial_points = 8;
        run.suggest_ms = vec![1.0, 5.0, 9.0];
        let records = [run];
        let set = RunSet::new(&records, &AnalysisOptions::default()).unwrap();
        let times = suggestion_times(&Cells::new(&set, &groups(&set)[0]), 1);
        // Requested after 8, 12 and 16 results.
        assert_eq!(times.iter().map(|time| (time.from, time.count)).collect::<Vec<_>>(), [(0, 1), (10, 2)]);
    }
}
