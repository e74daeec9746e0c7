//! Hyperband without rounds: each trial draws a bracket and is compared at the rungs of its bracket with the trials that
//! reached them before.
//!
//! Source of the brackets: Li et al. 2018, "Hyperband: A Novel Bandit-Based Approach to Hyperparameter Optimization", JMLR
//! 18(185), algorithm 1. As in `HyperbandPruner` of Optuna 5.0.0, trials do not wait for each other, and the share of a
//! bracket is proportional to its number of trials in one round.
//!
//! Notation: `R` number of reports of a whole trial, `eta` reduction factor, `s` bracket from 0 (all trials start) to
//! `floor(log_eta R)` (no trial is stopped before most of its reports). The rungs of bracket `s` are after `eta^s`,
//! `eta^(s + 1)`, ... reports.

use std::collections::BTreeMap;

use rand::RngExt;
use tunesmith_algorithms::rng;

use crate::problem::Draw;

/// Reduction factor: the default of Hyperband and of Optuna.
const ETA: usize = 3;

/// Losses at each rung.
#[derive(Debug, Default)]
pub(super) struct Hyperband {
    /// By bracket and number of reports.
    rungs: BTreeMap<(u32, usize), Vec<f64>>,
}

impl Hyperband {
    /// Whether to stop a trial whose report number `reported` has the value `loss`, which is to be minimised. A whole trial
    /// has `whole` reports.
    pub(super) fn stops(&mut self, draw: Draw, reported: usize, whole: usize, loss: f64) -> bool {
        let bracket = bracket(draw, whole);
        let is_rung = (bracket..=largest_bracket(whole)).any(|exponent| ETA.pow(exponent) == reported);
        if !is_rung {
            return false;
        }
        let rung = self.rungs.entry((bracket, reported)).or_default();
        rung.push(loss);
        let passing = (rung.len() / ETA).max(1);
        rung.iter().filter(|other| **other < loss).count() >= passing
    }
}

fn largest_bracket(whole: usize) -> u32 {
    whole.max(1).ilog(ETA)
}

/// Bracket of a trial, drawn with the probability of its number of trials in one round, `(S + 1) eta^(S - s) / (S - s + 1)`
/// for the largest bracket `S`.
fn bracket(draw: Draw, whole: usize) -> u32 {
    let largest = largest_bracket(whole);
    let trials = |bracket: u32| {
        let halvings = largest - bracket;
        ((largest as usize + 1) * ETA.pow(halvings)).div_ceil(halvings as usize + 1)
    };
    let total: usize = (0..=largest).map(trials).sum();
    let mut drawn = rng::stream(draw.seed, draw.trial, "bracket of Hyperband").random_range(0..total);
    for bracket in 0..largest {
        match drawn.checked_sub(trials(bracket)) {
            Some(rest) => drawn = rest,
            None => return bracket,
        }
    }
    largest
}

#[cfg(test)]
mod tests {
    use tunesmith_algorithms::problem::TrialId;

    use super::*;

    fn draw(trial: u64) -> Draw {
        Draw { seed: 1, trial: TrialId(trial) }
    }

    #[test]
    fn brackets_have_the_shares_of_one_round() {
        let mut counts = [0_usize; 3];
        for trial in 1..=1700 {
            counts[bracket(draw(trial), 10) as usize] += 1;
        }
        // 9, 5 and 3 of 17 trials, with ten reports.
        for (count, expected) in counts.into_iter().zip([900_usize, 500, 300]) {
            assert!(count.abs_diff(expected) < 70, "{counts:?}");
        }
        assert_eq!(bracket(draw(1), 2), 0, "two reports have one bracket");
    }

    #[test]
    fn one_in_three_passes_a_rung_of_its_bracket() {
        let of_bracket = |wanted: u32| (1..).filter(move |trial| bracket(draw(*trial), 10) == wanted);
        let mut hyperband = Hyperband::default();
        let first: Vec<u64> = of_bracket(0).take(7).collect();
        let mut stops = |trial: u64, reported, loss| hyperband.stops(draw(trial), reported, 10, loss);
        assert!(!stops(first[0], 1, 5.0), "the first trial passes");
        assert!(stops(first[1], 1, 6.0));
        assert!(!stops(first[2], 1, 4.0));
        assert!(!stops(first[2], 2, 9.0), "two reports are no rung");
        assert!(!stops(first[2], 3, 9.0), "the first trial there");
        assert!(stops(first[3], 1, 5.0), "one of four passes");
        let last = of_bracket(2).next().unwrap();
        assert!((1..9).all(|reported| !stops(last, reported, 99.0)), "the last bracket stops after nine reports");
    }
}
