use super::*;

/// `a - b step^-c` at steps 1 to 50.
fn power(a: f64, b: f64, c: f64) -> Vec<CurvePoint> {
    (1..=50).map(|step| CurvePoint { step, value: a - b * (step as f64).powf(-c) }).collect()
}

fn prepared(goal: Goal, curves: &[Vec<CurvePoint>]) -> PreparedDecayCurveRule {
    let completed = curves.iter().map(|points| CompletedCurve { points, stopped_early: false });
    conservative().prepare(goal, completed)
}

fn conservative() -> DecayCurveRule {
    DecayCurveRule::new(10, Some(4), 0.1, 0.01).unwrap()
}

/// Curves with limits 0.80, 0.81, ... 0.91, different rises, exponent 1 and a small bend.
fn twelve() -> Vec<Vec<CurvePoint>> {
    let bent = |i: usize| {
        let mut curve = power(0.8 + 0.01 * i as f64, 0.3 + 0.02 * ((i * 5) % 12) as f64, 1.0);
        for point in &mut curve {
            point.value += 0.002 * ((point.step as f64) / 9.0 + i as f64).sin();
        }
        curve
    };
    (0..12).map(bent).collect()
}

#[test]
fn exact_power_laws_are_extrapolated_exactly() {
    let curves: Vec<_> =
        (0..12).map(|i| power(0.8 + 0.01 * f64::from(i), 0.3 + 0.02 * f64::from((i * 5) % 12), 1.0)).collect();
    let rule = prepared(Goal::Maximize, &curves);
    let candidate = power(0.7, 0.5, 1.0);
    let end = candidate[49].value;
    let EarlyStopDecision::Stop(StopEvidence::DecayCurve { probability, predicted, best, .. }) =
        rule.decide(&candidate[..10])
    else {
        panic!("expected a stop")
    };
    assert!((predicted - end).abs() < 1e-12, "{predicted} {end}");
    assert!(probability < 1e-30 && best == curves[11][49].value, "{probability} {best}");
    // A slow starter that ends above the best continues, though every other trial was better at that step.
    let late = power(0.98, 2.5, 1.0);
    assert!(curves.iter().all(|curve| curve[9].value > late[9].value));
    let EarlyStopDecision::Continue(StopEvidence::DecayCurve { probability, .. }) = rule.decide(&late[..10]) else {
        panic!("expected no stop")
    };
    assert!(probability > 1.0 - 1e-12, "{probability}");
}

#[test]
fn probability_follows_the_distribution_of_one_more_error() {
    // Flat curves with a jump at the end: the errors of the last value are the jumps, and no law explains them.
    let jumps = [-0.03, 0.01, 0.02, -0.01, 0.0, 0.03, -0.02, 0.01, 0.02, -0.03, 0.0, 0.0];
    let jumped = |jump: &f64| {
        let mut curve = power(0.5, 0.0, 1.0);
        curve[49].value += jump;
        curve
    };
    let curves: Vec<_> = jumps.iter().map(jumped).collect();
    let rule = prepared(Goal::Maximize, &curves);
    let n = 12.0_f64;
    let mean = jumps.iter().sum::<f64>() / n;
    let variance = jumps.iter().map(|jump| (jump - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let deviation = (variance * (1.0 + 1.0 / n)).sqrt();
    // Student's quantile for 0.99 and 11 degrees of freedom is 2.718 (any table).
    let at = |t: f64| power(0.53 - mean - t * deviation, 0.0, 1.0);
    assert!(rule.decide(&at(2.72)[..20]).is_stop());
    let decision = rule.decide(&at(2.71)[..20]);
    let EarlyStopDecision::Continue(evidence) = decision else { panic!("{decision:?}") };
    let StopEvidence::DecayCurve { probability, .. } = evidence else { panic!("{evidence:?}") };
    assert!((probability - 0.010_1).abs() < 1e-4, "{probability}");
    let predicted = rule.predictor().predicted_final(&at(2.71)[..20]).unwrap();
    assert!((predicted.value - (0.53 - 2.71 * deviation)).abs() < 1e-12, "{predicted:?}");
    assert!((predicted.deviation - deviation).abs() < 1e-12, "{predicted:?}");
}

#[test]
fn negated_values_and_goal_give_the_same_decisions() {
    let negate = |curve: &Vec<CurvePoint>| -> Vec<CurvePoint> {
        curve.iter().map(|point| CurvePoint { value: -point.value, ..*point }).collect()
    };
    let (up, down) = (twelve(), twelve().iter().map(negate).collect::<Vec<_>>());
    let (up, down) = (prepared(Goal::Maximize, &up), prepared(Goal::Minimize, &down));
    let mut stops = 0;
    for (limit, steps) in [(0.5, 8), (0.7, 20), (0.8, 30), (0.9, 30), (1.0, 30)] {
        let candidate = &power(limit, 0.4, 1.0)[..steps];
        let one = up.decide(candidate);
        assert_eq!(one.is_stop(), down.decide(&negate(&candidate.to_vec())).is_stop());
        stops += usize::from(one.is_stop());
    }
    assert_eq!(stops, 3);
}

#[test]
fn too_little_evidence_does_not_stop() {
    let bad = power(0.1, 0.1, 1.0);
    let nine = &twelve()[..9];
    assert_eq!(prepared(Goal::Maximize, nine).decide(&bad[..20]), EarlyStopDecision::TooEarly);
    assert_eq!(prepared(Goal::Maximize, &[]).decide(&bad[..20]), EarlyStopDecision::TooEarly);
    let rule = prepared(Goal::Maximize, &twelve());
    assert!(rule.decide(&bad[..20]).is_stop());
    assert_eq!(rule.decide(&bad[..3]), EarlyStopDecision::TooEarly);
    assert_eq!(rule.decide(&bad[..4]), EarlyStopDecision::TooEarly, "less than a tenth of the usual length");
    assert!(rule.decide(&bad[..5]).is_stop());
    assert_eq!(rule.decide(&bad), EarlyStopDecision::TooEarly, "the trial is at its end");
    assert_eq!(rule.decide(&[]), EarlyStopDecision::TooEarly);
    // Trials that were stopped early are not finished.
    let curves = twelve();
    let completed = curves.iter().enumerate();
    let completed = completed.map(|(i, points)| CompletedCurve { points, stopped_early: i < 3 });
    let rule = conservative().prepare(Goal::Maximize, completed);
    assert_eq!(rule.decide(&bad[..20]), EarlyStopDecision::TooEarly);
}

#[test]
fn three_trials_and_one_report_are_enough_by_default() {
    let curves = twelve();
    let after = |count: usize| {
        let completed = curves[..count].iter().map(|points| CompletedCurve { points, stopped_early: false });
        DecayCurveRule::default().prepare(Goal::Maximize, completed)
    };
    let bad: Vec<CurvePoint> = power(0.1, 0.1, 1.0).into_iter().filter(|point| point.step % 10 == 0).collect();
    assert_eq!(after(2).decide(&bad[..2]), EarlyStopDecision::TooEarly);
    assert_eq!(after(3).decide(&bad[..0]), EarlyStopDecision::TooEarly);
    assert!(after(3).decide(&bad[..1]).is_stop());
}

#[test]
fn values_that_are_not_finite_are_ignored() {
    let mut curves = twelve();
    curves.push(power(f64::NAN, 0.0, 1.0));
    curves.push(Vec::new());
    curves[4][10].value = f64::INFINITY;
    let with = prepared(Goal::Maximize, &curves);
    let without = prepared(Goal::Maximize, &twelve());
    let mut candidate = power(0.5, 0.4, 1.0)[..20].to_vec();
    assert!(with.decide(&candidate).is_stop() && without.decide(&candidate).is_stop());
    candidate.iter_mut().for_each(|point| point.value = f64::NAN);
    assert_eq!(with.decide(&candidate), EarlyStopDecision::TooEarly);
}

#[test]
fn decisions_do_not_depend_on_the_unit_and_origin_of_steps() {
    let moved = |curve: &[CurvePoint]| -> Vec<CurvePoint> {
        curve.iter().map(|point| CurvePoint { step: (point.step - 1) * 250, ..*point }).collect()
    };
    let rule = prepared(Goal::Maximize, &twelve());
    let other = prepared(Goal::Maximize, &twelve().iter().map(|curve| moved(curve)).collect::<Vec<_>>());
    for (limit, steps) in [(0.5, 8), (0.8, 30), (0.9, 30)] {
        let candidate = &power(limit, 0.4, 1.0)[..steps];
        assert_eq!(rule.decide(candidate), other.decide(&moved(candidate)));
    }
}

#[test]
fn settings_out_of_range_are_rejected() {
    assert_eq!(DecayCurveRule::new(1, None, 0.1, 0.01), Err(StoppingRuleError::NoEvidence));
    assert_eq!(DecayCurveRule::new(10, None, 2.0, 0.01), Err(StoppingRuleError::Progress { min_progress: 2.0 }));
    assert_eq!(DecayCurveRule::new(10, None, 0.1, 0.0), Err(StoppingRuleError::Probability { probability: 0.0 }));
    assert!(DecayCurveRule::new(10, None, 0.1, f64::NAN).is_err());
    assert_eq!(DecayCurveRule::new(3, None, 0.1, 0.05), Ok(DecayCurveRule::default()));
}

#[test]
fn three_reports_are_enough_to_stop_after_the_first() {
    let three =
        |start: f64| (1..=3).map(|step| CurvePoint { step, value: start + 0.1 * step as f64 }).collect::<Vec<_>>();
    let completed: Vec<_> = (0..10).map(|index| three(f64::from(index))).collect();
    let curves = || completed.iter().map(|points| CompletedCurve { points, stopped_early: false });
    let rule = DecayCurveRule::default().prepare(Goal::Maximize, curves());
    assert!(rule.decide(&three(2.0)[..1]).is_stop());
    assert!(!rule.decide(&three(9.5)[..1]).is_stop());
    let given = DecayCurveRule::new(5, Some(2), 0.1, 0.05).unwrap().prepare(Goal::Maximize, curves());
    assert_eq!(given.decide(&three(2.0)[..1]), EarlyStopDecision::TooEarly);
    assert!(given.decide(&three(2.0)[..2]).is_stop());
    let short: Vec<_> = completed.iter().map(|points| points[..2].to_vec()).collect();
    let short = short.iter().map(|points| CompletedCurve { points, stopped_early: false });
    assert!(DecayCurveRule::default().prepare(Goal::Maximize, short).decide(&three(2.0)[..1]).is_stop());
}
