//! Compares reductions with naive computations over all trials.

mod columns;
mod plots;
mod sample;
mod table;
mod timeline;

use proptest::prelude::*;
use tunesmith_domain::TrialState;

use sample::Sample;

/// Arbitrary trials: results with and without ties, failures, conditional parameters.
fn any_samples(most: usize) -> impl Strategy<Value = Vec<Sample>> {
    let state = prop::sample::select(vec![
        TrialState::Succeeded,
        TrialState::Succeeded,
        TrialState::Succeeded,
        TrialState::Infeasible,
        TrialState::Active,
        TrialState::Deleted,
    ]);
    let value = || {
        prop_oneof![
            (0..20_i32).prop_map(f64::from),
            -1e3..1e3,
            Just(1e300),
            Just(f64::MAX),
            Just(f64::MIN),
            Just(f64::NAN)
        ]
    };
    let parameters = (1e-4..1.0, 1..=8_i64, prop::option::of(0..3_usize));
    let sample = (state, value(), value(), parameters, 0..3_u8, (0..1000_i64, 0..100_i64)).prop_map(
        |(state, loss, speed, (rate, layers, level), client, time)| Sample {
            state,
            loss,
            speed,
            rate,
            layers,
            level,
            client,
            time,
        },
    );
    prop::collection::vec(sample, 0..most)
}
