//! Work for a suggestion is bounded in the number of pending trials; counted, not timed.

use super::super::*;
use super::{cube, problem, suggest, trial};
use crate::gp::work;
use crate::problem::{CompletedTrial, Goal, ParameterValue, ParameterValues, PendingTrial};

const COMPLETED: u64 = 20;

fn coordinate(id: u64, j: usize) -> f64 {
    (0.1 + 0.618 * id as f64 * (j as f64 + 1.0).sqrt()).fract()
}

fn completed() -> Vec<CompletedTrial> {
    let one = |id: u64| {
        let (a, b) = (coordinate(id, 0), coordinate(id, 1));
        trial(id, &[("x00", a), ("x01", b)], Some(-(a - 0.3).powi(2) - (b - 0.6).powi(2)))
    };
    (1..=COMPLETED).map(one).collect()
}

fn pending(count: u64) -> Vec<PendingTrial> {
    let parameters = |id: u64| -> ParameterValues {
        (0..2).map(|j| (format!("x{j:02}"), ParameterValue::Double(coordinate(id, j)))).collect()
    };
    (COMPLETED + 1..=COMPLETED + count).map(|id| PendingTrial { id: TrialId(id), parameters: parameters(id) }).collect()
}

/// Factor entries for `count` suggestions besides `pending` trials.
fn entries(pending: &[PendingTrial], count: usize) -> usize {
    let bandit = GpBandit::new(problem(cube(2), Goal::Maximize), 7).unwrap();
    work::entries(|| {
        let suggested = suggest(&bandit, &completed(), pending, count);
        assert_eq!(suggested.len(), count);
        let keys = suggested.iter().map(|point| bandit.encoding.key(point).unwrap());
        let others = pending.iter().map(|trial| bandit.encoding.key(&trial.parameters).unwrap());
        assert_eq!(keys.chain(others).collect::<HashSet<_>>().len(), pending.len() + count, "no point is given twice");
    })
}

#[test]
fn suggestion_beside_thousands_of_pending_trials_is_no_more_work_than_beside_128() {
    let most: usize = (0..=fantasies::MOST).map(|rows| (COMPLETED as usize + rows).pow(2)).sum();
    // One result is far below the others, whose model predicts it.
    let most = most + (COMPLETED as usize - 1).pow(2);
    assert_eq!(entries(&pending(128), 1), most);
    for count in [129, 1000, 3000] {
        assert!(entries(&pending(count), 1) <= most, "{count}");
    }
}

#[test]
fn batch_beside_thousands_of_pending_trials_is_linear_in_its_size() {
    let pending = pending(2000);
    let of_one = entries(&pending, 1);
    let largest = (COMPLETED as usize + fantasies::MOST + 1).pow(2);
    for count in [10, 70, 150] {
        let models = 2 + 2 * count / fantasies::MOST;
        assert!(entries(&pending, count) <= models * of_one + count * largest, "{count}");
    }
}
