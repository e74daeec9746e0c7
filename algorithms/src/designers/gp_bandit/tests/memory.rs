//! The cache of fits changes no suggestion.

use super::super::*;
use super::{bowl, next, problem, square, suggest, trial};
use crate::problem::{CompletedTrial, Goal};

/// Results not sorted by trial number, with failures and repeated points.
fn results(count: u32) -> Vec<CompletedTrial> {
    let one = |place: u32| {
        // Groups of five, each in another order than by number.
        let number = place / 5 * 5 + (place % 5 * 3 + 2) % 5;
        let i = f64::from(if number % 11 == 6 { number - 3 } else { number });
        let (a, b) = ((0.1 + 0.37 * i + 0.011 * i * i).fract(), (0.3 + 0.61 * i).fract());
        let value = (number % 7 != 4).then(|| bowl(a, b) + 0.01 * f64::from(number % 3));
        trial(u64::from(number) + 1, &[("a", a), ("b", b)], value)
    };
    (0..count).map(one).collect()
}

fn bandit() -> GpBandit {
    GpBandit::new(problem(square(), Goal::Maximize), 7).unwrap()
}

#[test]
fn rebuilt_designer_returns_the_suggestions_of_a_long_lived_one() {
    let all = results(260);
    let old = bandit();
    for n in (2..50).chain([79, 80, 81, 160, 199, 200, 201, 207, 208, 209, 255, 256, 257, 259]) {
        let expected = next(&old, &all[..n]);
        assert_eq!(expected, next(&bandit(), &all[..n]), "{n}");
        assert_eq!(expected, next(&old, &all[..n]), "{n}");
    }
    // Shorter histories again, as of another study of the same problem.
    for n in [12, 47, 208] {
        assert_eq!(next(&old, &all[..n]), next(&bandit(), &all[..n]), "{n}");
    }
}

#[test]
fn batches_do_not_depend_on_memory_or_history_order() {
    let all = results(60);
    let old = bandit();
    for n in [15, 37, 60] {
        let mut reversed = all[..n].to_vec();
        reversed.reverse();
        let expected = suggest(&old, &all[..n], &[], 3);
        assert_eq!(expected, suggest(&old, &reversed, &[], 3), "{n}");
        assert_eq!(expected, suggest(&bandit(), &reversed, &[], 3), "{n}");
    }
}

#[test]
fn changed_result_invalidates_remembered_fits() {
    let mut all = results(30);
    let old = bandit();
    let before = next(&old, &all);
    // The changed trial is one of the last checkpoint.
    all[3] = trial(all[3].id.0, &[("a", 0.9), ("b", 0.9)], Some(5.0));
    let after = next(&old, &all);
    assert_ne!(before, after);
    assert_eq!(after, next(&bandit(), &all));
}
