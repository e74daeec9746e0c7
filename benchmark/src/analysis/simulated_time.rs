//! Simulated time: the time until an optimizer reaches the baseline's final loss, results at equal times, and total run
//! durations.
//!
//! Early stopping and parallel trials save time; at equal numbers of evaluations they cannot improve results.

use serde::Serialize;

use super::groups::Cells;
use super::runs::Run;

/// Shares of the simulated time of the baseline's run at which results of finished trials are compared.
pub const TIME_SHARES: [f64; 3] = [0.25, 0.5, 1.0];

/// Simulated time of an optimizer relative to the baseline, over all pairs of runs with the same problem and seed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SimulatedTime {
    #[serde(rename = "contestant")]
    pub optimizer: usize,
    /// Number of paired runs.
    pub pairs: usize,
    /// Number of pairs that reached the baseline's final loss.
    pub reached: usize,
    /// Upper median over all pairs of the time to that loss divided by the baseline's; below 1 is faster. `None` if at
    /// most half of the pairs reached it.
    pub median_time_ratio: Option<f64>,
    /// Mean simulated duration of a run, in seconds.
    pub mean_total_secs: f64,
    /// Mean simulated duration of the baseline's runs in the same pairs, in seconds.
    pub baseline_total_secs: f64,
    /// Share of trials stopped early that did not resume, in [0, 1].
    pub stopped_early: f64,
    /// For each of [`TIME_SHARES`], the mean over all pairs of the log10 gap of the best trial finished by that share
    /// of the baseline's run time. A run that has spent its budget keeps its gap. `None` if a run has no finished trial
    /// by then, or if the best value of a problem is unknown.
    pub finished_log10_gaps: [Option<f64>; TIME_SHARES.len()],
}

/// Times of each optimizer with common problems and seeds, including the baseline itself. Gaps below `floor` are not
/// distinguished.
pub(super) fn simulated_times(cells: &Cells<'_>, optimizers: usize, baseline: usize, floor: f64) -> Vec<SimulatedTime> {
    let mut found = Vec::new();
    for optimizer in 0..optimizers {
        let mut ratios = Vec::new();
        let (mut total, mut baseline_total, mut stopped, mut trials) = (0.0, 0.0, 0, 0);
        let mut gaps = [Some(0.0); TIME_SHARES.len()];
        for problem in cells.common_problems(&[optimizer, baseline], 1) {
            let others = cells.at(optimizer, problem, 1);
            for (seed, reference) in cells.at(baseline, problem, 1) {
                let Some(run) = others.get(&seed) else { continue };
                let Some(&goal) = reference.losses.last() else { continue };
                let own = reached_secs(reference, goal);
                let Some(own) = own.filter(|secs| *secs > 0.0) else { continue };
                let time = reached_secs(run, goal);
                ratios.push(time.map_or(f64::INFINITY, |secs| secs / own));
                let whole = reference.record.ended_secs.last().copied().unwrap_or(0.0);
                for (sum, share) in gaps.iter_mut().zip(TIME_SHARES) {
                    let gap = finished_gap(run, share * whole);
                    *sum = sum.zip(gap).map(|(sum, gap): (f64, f64)| sum + gap.max(floor).log10());
                }
                total += run.record.ended_secs.last().copied().unwrap_or(0.0);
                baseline_total += whole;
                stopped += run.record.stopped_early.len().saturating_sub(run.record.resumed.len());
                trials += run.record.trials();
            }
        }
        if ratios.is_empty() {
            continue;
        }
        ratios.sort_unstable_by(f64::total_cmp);
        // Upper median: for a finite ratio, more than half of the pairs must reach the loss.
        let middle = ratios[ratios.len() / 2];
        let pairs = ratios.len();
        found.push(SimulatedTime {
            optimizer,
            pairs,
            reached: ratios.iter().filter(|ratio| ratio.is_finite()).count(),
            median_time_ratio: Some(middle).filter(|ratio| ratio.is_finite()),
            mean_total_secs: total / pairs as f64,
            baseline_total_secs: baseline_total / pairs as f64,
            stopped_early: if trials == 0 { 0.0 } else { stopped as f64 / trials as f64 },
            finished_log10_gaps: gaps.map(|sum| sum.map(|sum| sum / pairs as f64)),
        });
    }
    found
}

/// Time at which the loss first drops to `goal` or below; `None` if it never does.
fn reached_secs(run: &Run<'_>, goal: f64) -> Option<f64> {
    run.losses_by_result().iter().zip(&run.record.ended_secs).find(|(loss, _)| **loss <= goal).map(|(_, &secs)| secs)
}

/// Gap of the best trial of `run` finished by `secs`.
fn finished_gap(run: &Run<'_>, secs: f64) -> Option<f64> {
    let record = run.record;
    let in_time = record.results.iter().zip(&record.ended_secs).enumerate().filter(|(_, (_, ended))| **ended <= secs);
    let gaps = in_time.filter(|(index, _)| !record.stopped_early.contains(index));
    gaps.filter_map(|(_, (result, _))| record.gap(result)).min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::super::groups::groups;
    use super::super::options::AnalysisOptions;
    use super::super::runs::RunSet;
    use super::super::synthetic_fixture::record;
    use super::*;

    #[test]
    fn the_time_to_the_final_loss_of_the_baseline_is_compared_by_run() {
        let mut slow = record("gp", "f1", 1, &[4.0, 2.0, 1.0, 3.0]);
        slow.ended_secs = vec![10.0, 20.0, 30.0, 40.0];
        let mut fast = record("stopping", "f1", 1, &[4.0, 1.0, 2.0, 0.5]);
        fast.ended_secs = vec![5.0, 15.0, 20.0, 25.0];
        fast.stopped_early = vec![2];
        let never = record("random", "f1", 1, &[4.0, 4.0, 4.0, 4.0]);
        let records = [slow, fast, never];
        let set = RunSet::new(&records, &AnalysisOptions::default()).unwrap();
        let times = simulated_times(&Cells::new(&set, &groups(&set)[0]), 3, 0, 1e-3);
        assert_eq!(times[0].median_time_ratio, Some(1.0));
        assert_eq!(times[1].median_time_ratio, Some(0.5));
        assert_eq!((times[1].reached, times[1].mean_total_secs, times[1].baseline_total_secs), (1, 25.0, 40.0));
        assert_eq!(times[1].stopped_early, 0.25);
        assert_eq!((times[2].reached, times[2].median_time_ratio), (0, None));
    }

    #[test]
    fn a_trial_that_resumes_reaches_the_loss_at_its_last_end() {
        let mut whole = record("gp", "f1", 1, &[4.0, 2.0, 1.0]);
        whole.ended_secs = vec![10.0, 20.0, 30.0];
        let mut resuming = record("resuming", "f1", 1, &[4.0, 5.0, 6.0, 1.0]);
        (resuming.key.budget, resuming.stopped_early, resuming.resumed) = (3, vec![1, 2], vec![3]);
        resuming.ended_secs = vec![10.0, 12.0, 14.0, 18.0];
        let records = [whole, resuming];
        let set = RunSet::new(&records, &AnalysisOptions::default()).unwrap();
        let times = simulated_times(&Cells::new(&set, &groups(&set)[0]), 2, 0, 1e-3);
        assert_eq!(times[1].median_time_ratio, Some(0.6), "18 of 30 seconds");
        // One of three trials was stopped and has not resumed.
        assert_eq!(times[1].stopped_early, 1.0 / 3.0);
        assert_eq!(times[1].finished_log10_gaps[2], Some(0.0));
    }

    #[test]
    fn results_of_equal_times_are_those_of_trials_that_ran_to_their_end() {
        let mut slow = record("gp", "f1", 1, &[4.0, 2.0, 1.0, 3.0]);
        slow.ended_secs = vec![10.0, 20.0, 30.0, 40.0];
        let mut stopping = record("stopping", "f1", 1, &[0.1, 4.0, 0.01, 0.0]);
        stopping.ended_secs = vec![5.0, 10.0, 15.0, 41.0];
        stopping.stopped_early = vec![0, 2];
        let mut stopped = record("i_epoch", "f1", 1, &[0.5, 0.4]);
        stopped.ended_secs = vec![5.0, 25.0];
        stopped.stopped_early = vec![0];
        let records = [slow, stopping, stopped];
        let set = RunSet::new(&records, &AnalysisOptions::default()).unwrap();
        let times = simulated_times(&Cells::new(&set, &groups(&set)[0]), 3, 0, 0.4);
        let gaps_of = |gaps: [Option<f64>; 3]| gaps.map(|gap| gap.map(|gap| 10_f64.powf(gap)));
        let close = |gaps: [Option<f64>; 3], expected: [Option<f64>; 3]| {
            let near = |(gap, expected): (&Option<f64>, &Option<f64>)| match (gap, expected) {
                (Some(gap), Some(expected)) => (gap - expected).abs() < 1e-12,
                (gap, expected) => gap == expected,
            };
            assert!(gaps.iter().zip(&expected).all(near), "{gaps:?} {expected:?}");
        };
        close(gaps_of(times[0].finished_log10_gaps), [Some(4.0), Some(2.0), Some(1.0)]);
        // The trial at 41 seconds is too late; those at 5 and 15 seconds were stopped.
        close(gaps_of(times[1].finished_log10_gaps), [Some(4.0), Some(4.0), Some(4.0)]);
        // Nothing has finished by 10 and 20 seconds; the budget is spent after 25.
        close(gaps_of(times[2].finished_log10_gaps), [None, None, Some(0.4)]);
    }
}
