//! Properties of all rules, on synthetic curves.

use proptest::prelude::*;

use super::*;
use crate::problem::Goal;

/// Curves of 1 to 27 reports from step 1 on: rising, falling or noisy, with some values missing.
fn curves(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<(Vec<CurvePoint>, bool)>> {
    let curve =
        (0.0..1.0, -0.3..1.0, 0.2..2.0, prop::collection::vec(-0.05..0.05, 27), 1_usize..28, prop::bool::weighted(0.2))
            .prop_map(|(a, b, c, noise, length, stopped): (f64, f64, f64, Vec<f64>, usize, bool)| {
                let length = if stopped { length } else { 27 };
                let point = |(step, noise): (usize, &f64)| CurvePoint {
                    step: step as i64 + 1,
                    value: if *noise > 0.049 { f64::NAN } else { a - b * (step as f64 + 1.0).powf(-c) + noise },
                };
                (noise.iter().take(length).enumerate().map(point).collect(), stopped)
            });
    prop::collection::vec(curve, count)
}

fn decide(
    rule: StoppingRule,
    goal: Goal,
    completed: &[(Vec<CurvePoint>, bool)],
    running: &[(Vec<CurvePoint>, bool)],
    candidate: &[CurvePoint],
) -> EarlyStopDecision {
    let curves = completed.iter().map(|(points, stopped)| CompletedCurve { points, stopped_early: *stopped });
    rule.prepare(goal, curves).decide(candidate, running.iter().map(|(points, _)| &points[..]))
}

fn changed(curve: &[CurvePoint], change: impl Fn(f64) -> f64) -> Vec<CurvePoint> {
    curve.iter().map(|point| CurvePoint { value: change(point.value), ..*point }).collect()
}

fn all_changed(curves: &[(Vec<CurvePoint>, bool)], change: impl Fn(f64) -> f64) -> Vec<(Vec<CurvePoint>, bool)> {
    curves.iter().map(|(curve, stopped)| (changed(curve, &change), *stopped)).collect()
}

fn rules() -> Vec<StoppingRule> {
    StoppingRuleKind::ALL.map(StoppingRule::from).to_vec()
}

#[test]
fn kinds_and_names_match() {
    for (kind, rule) in StoppingRuleKind::ALL.into_iter().zip(rules()) {
        assert_eq!((rule.kind(), kind.as_str().parse()), (kind, Ok(kind)));
    }
    let error = "Median".parse::<StoppingRuleKind>().unwrap_err();
    assert_eq!(error.to_string(), "unknown stopping rule \"Median\"; the rules are median, decay_curve, asha");
}

#[test]
fn every_rule_predicts_the_end_by_the_finished_trials() {
    // The finished trials rise by 2 after the second report, on average.
    let curve = |values: &[f64]| -> Vec<CurvePoint> {
        values.iter().zip(1..).map(|(&value, step)| CurvePoint { step, value }).collect()
    };
    let completed = [
        (curve(&[0.0, 0.0, 1.0, 1.0]), false),
        (curve(&[0.0, 0.0, 3.0, 3.0]), false),
        // Stopped early: its last value is no end.
        (curve(&[0.0, 9.0]), true),
    ];
    for rule in rules() {
        let prepared = |completed: &[(Vec<CurvePoint>, bool)]| {
            let curves = completed.iter().map(|(points, stopped)| CompletedCurve { points, stopped_early: *stopped });
            rule.prepare(Goal::Maximize, curves)
        };
        // Two errors of 1 around their mean: variance 2, times 1 + 1/2 for another sample.
        let predicted = prepared(&completed).predicted_final(&curve(&[-1.0, -1.0])).unwrap();
        assert_eq!(predicted.value, 1.0, "{rule:?}");
        assert!((predicted.deviation - 3.0_f64.sqrt()).abs() < 1e-12, "{rule:?} {predicted:?}");
        assert_eq!(prepared(&completed).predicted_final(&[]), None, "without reports");
        assert_eq!(prepared(&completed).predicted_final(&completed[0].0), None, "at the end");
        assert_eq!(prepared(&completed[..1]).predicted_final(&curve(&[-1.0, -1.0])), None, "by one trial");
    }
}

#[test]
fn reasons_state_the_compared_values() {
    let reason = StopEvidence::Asha { rung: 9, value: 0.5, cutoff: 0.75, compared: 7 };
    assert_eq!(
        reason.explain("accuracy").to_string(),
        "its best accuracy 0.5 is not among the best at step 9, where 7 trials needed 0.75"
    );
    let reason = StopEvidence::DecayCurve { probability: 0.001_5, predicted: 0.5, deviation: 0.1, best: 0.75 };
    assert_eq!(
        reason.explain("loss").to_string(),
        "its loss is expected to end at 0.5, with a chance of 0.15% to beat the best, 0.75"
    );
}

proptest! {
    #[test]
    fn best_trial_so_far_continues(
        completed in curves(0..16), running in curves(0..4), mut candidate in curves(1..2), place in 0_usize..27,
    ) {
        let mut candidate = candidate.remove(0).0;
        let all = completed.iter().chain(&running).flat_map(|(curve, _)| curve);
        let best = all.map(|point| point.value).filter(|value| value.is_finite()).fold(0.0, f64::max);
        let place = place % candidate.len();
        candidate[place].value = best;
        for rule in rules() {
            prop_assert!(!decide(rule, Goal::Maximize, &completed, &running, &candidate).is_stop(), "{:?}", rule);
        }
    }

    #[test]
    fn decisions_do_not_depend_on_order_units_and_sign(
        completed in curves(5..16), running in curves(0..4), candidate in curves(1..2), shift in 0_usize..16,
        scale in prop::sample::select(vec![1e-3, 0.5, 4.0, 1e6]), offset in prop::sample::select(vec![-8.0, 0.0, 1000.0]),
    ) {
        let candidate = &candidate[0].0;
        for rule in rules() {
            let plain = decide(rule, Goal::Maximize, &completed, &running, candidate);
            let (mut turned, mut others) = (completed.clone(), running.clone());
            turned.rotate_left(shift % completed.len());
            others.reverse();
            turned.iter_mut().for_each(|(curve, _)| curve.reverse());
            let other = decide(rule, Goal::Maximize, &turned, &others, candidate);
            prop_assert_eq!(plain.is_stop(), other.is_stop(), "{:?}", rule);

            let affine = |value: f64| scale * value + offset;
            let (curves, others) = (all_changed(&completed, affine), all_changed(&running, affine));
            let other = decide(rule, Goal::Maximize, &curves, &others, &changed(candidate, affine));
            prop_assert_eq!(plain.is_stop(), other.is_stop(), "{:?}", rule);

            let negated = |value: f64| -value;
            let (curves, others) = (all_changed(&completed, negated), all_changed(&running, negated));
            let other = decide(rule, Goal::Minimize, &curves, &others, &changed(candidate, negated));
            prop_assert_eq!(plain.is_stop(), other.is_stop(), "{:?}", rule);
        }
    }

    #[test]
    fn equal_curves_never_stop(value in prop::sample::select(vec![0.1, 1.0 / 3.0, -1e300, 5e-324]), steps in 1_usize..27) {
        let curve: Vec<_> = (1..=27).map(|step| CurvePoint { step, value }).collect();
        let completed = vec![(curve.clone(), false); 15];
        for rule in rules() {
            for goal in [Goal::Maximize, Goal::Minimize] {
                prop_assert!(!decide(rule, goal, &completed, &completed[..3], &curve[..steps]).is_stop());
            }
        }
    }
}
