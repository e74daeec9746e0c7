//! The timeline.

use proptest::prelude::*;
use tunesmith_domain::TrialState;
use tunesmith_views::timeline;

use crate::any_samples;
use crate::sample::{Sample, columns};

const NOW: i64 = 2_000;

proptest! {
    #[test]
    fn every_trial_is_in_one_lane_and_counts_while_it_runs(samples in any_samples(80), limit in 10..100_usize) {
        let columns = columns(&samples);
        let timeline = timeline(&columns, &columns.live(), NOW * 1_000_000, limit);
        let live: Vec<&Sample> = samples.iter().filter(|sample| sample.state != TrialState::Deleted).collect();
        prop_assert_eq!(timeline.started, live.len());
        prop_assert_eq!(timeline.not_shown, 0);
        prop_assert_eq!(timeline.lanes.iter().map(|lane| lane.total).sum::<usize>(), live.len());
        for lane in &timeline.lanes {
            prop_assert_eq!(lane.counts.iter().map(|count| *count as usize).sum::<usize>(), lane.total);
            for index in 1..lane.starts.len() {
                let end = lane.ends[index - 1];
                prop_assert!(end.is_some_and(|end| end <= lane.starts[index]), "{lane:?}");
            }
        }
        let end = |sample: &Sample| if sample.state.is_final() { sample.time.0 + sample.time.1 } else { NOW.max(sample.time.0) };
        let busy: i64 = live.iter().map(|sample| end(sample) - sample.time.0).sum();
        let widths = timeline.edges.windows(2).map(|pair| pair[1] - pair[0]);
        let found: f64 = widths.zip(&timeline.running).map(|(width, running)| width * running).sum();
        prop_assert!((found - busy as f64).abs() < 1e-6 * (busy as f64).max(1.0), "{} {}", found, busy);
    }
}
