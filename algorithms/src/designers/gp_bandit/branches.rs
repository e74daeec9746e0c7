//! Exploration of the branches of a conditional space that look worse than the best one.
//!
//! One model covers all branches. The structure they share and the few trials elsewhere can make the model certain that
//! another branch is worse, so that a branch whose own parameters need tuning is abandoned after one or two trials.
//! Every third trial therefore searches another branch, in rotation, for improvement over the best point of that branch
//! (measured, see docs/experiments/013).

use crate::encoding::Encoding;
use crate::problem::TrialId;

/// One in this many trials explores a branch other than the incumbent's (measured, see docs/experiments/013).
const EVERY: u64 = 3;

pub(super) fn explores_branch(encoding: &Encoding, trial: TrialId) -> bool {
    encoding.is_conditional() && trial.0.is_multiple_of(EVERY)
}

/// Best point of the branch explored by `trial`; `None` if it explores none. The branches are those of `anchors`,
/// sorted best first, except the branch of the first anchor.
pub(super) fn branch_to_explore<'a>(encoding: &Encoding, anchors: &'a [Vec<f64>], trial: TrialId) -> Option<&'a [f64]> {
    if !explores_branch(encoding, trial) {
        return None;
    }
    let mut seen: Vec<Vec<bool>> = Vec::new();
    let mut first_of_branch = Vec::new();
    for anchor in anchors {
        let active = encoding.active(anchor);
        if !seen.contains(&active) {
            seen.push(active);
            first_of_branch.push(anchor);
        }
    }
    let others = first_of_branch.get(1..).filter(|others| !others.is_empty())?;
    let place = (trial.0 / EVERY) % others.len() as u64;
    Some(others[place as usize])
}
