use proptest::prelude::*;
use tunesmith_domain::TrialState;
use tunesmith_views::{most_at_once, timeline};

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

proptest! {
    #[test]
    fn most_at_once_is_the_highest_number_at_any_time(
        spans in prop::collection::vec((0_i32..60, 0_i32..20), 0..30),
        bins in 1_usize..8,
    ) {
        let spans: Vec<(f64, f64)> =
            spans.iter().map(|(start, length)| (f64::from(*start), f64::from(start + length))).collect();
        let (first, width) = (10.0, 40.0 / bins as f64);
        let edges: Vec<f64> = (0..=bins).map(|bin| first + bin as f64 * width).collect();
        let most = most_at_once(&edges, spans.iter().copied());
        // The number changes only at whole times, so its maximum is at one of them or at the start of a bin.
        let runs = |time: f64| {
            let runs = |(start, end): &&(f64, f64)| *start <= time && (time < *end || (start == end && time == *start));
            spans.iter().filter(runs).count()
        };
        for (bin, found) in most.iter().enumerate() {
            let (begin, end) = (edges[bin], edges[bin + 1]);
            let last = bin + 1 == bins;
            let times = (0..=80).map(f64::from).filter(|time| begin <= *time && (*time < end || (last && *time <= end)));
            let expected = times.chain([begin]).map(runs).max().unwrap_or(0);
            prop_assert_eq!(*found, expected as f64, "bin {} of {:?} with {:?}", bin, edges, spans);
        }
    }
}
