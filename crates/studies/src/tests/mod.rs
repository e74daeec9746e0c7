mod cancellation;
mod contexts;

use std::num::NonZeroUsize;

use jiff::{SignedDuration, Timestamp};
use tunesmith_algorithms::problem::{
    AlgorithmName, Goal, MetricSpec, ParameterKind, ParameterSpec, ParameterValue, ProblemStatement, ScaleType,
    SearchSpace, TrialId,
};

use super::*;
use crate::clock::ManualClock;
use crate::early_stopping::EarlyStopping;
use tunesmith_domain::{
    Algorithm, CurveAxis, FinalMeasurement, Measurement, MetricValue, ReportKey, StoppingRuleKind, StudyFields,
    StudyState, TrialState,
};
use tunesmith_store::MemoryStore;

fn studies() -> (Studies, Arc<ManualClock>) {
    let store = Arc::new(MemoryStore::new());
    let clock = Arc::new(ManualClock::new(Timestamp::UNIX_EPOCH));
    let policy = Arc::new(SearchPolicy::new(store.clone(), 2));
    (Studies::new(store, policy, clock.clone()), clock)
}

pub(super) fn study(id: &str) -> StudyFields {
    let kind = ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear };
    let space = SearchSpace::new(vec![ParameterSpec::new("x", kind).unwrap()]).unwrap();
    let metrics = vec![MetricSpec { name: "loss".to_owned(), goal: Goal::Minimize }];
    let problem = ProblemStatement::new(space, metrics).unwrap();
    StudyFields {
        algorithm: Algorithm::Automatic,
        seed: 7,
        ..StudyFields::new(id.parse().unwrap(), problem, Timestamp::UNIX_EPOCH)
    }
}

pub(super) fn request(client: &str) -> SuggestionRequest {
    SuggestionRequest { client_id: client.to_owned(), count: NonZeroUsize::MIN, lease: None }
}

pub(super) fn loss(step: i64, elapsed_secs: f64, value: f64) -> Measurement {
    Measurement {
        step,
        wall_time_secs: 0.0,
        elapsed_secs: Some(elapsed_secs),
        key: ReportKey::Http,
        metrics: vec![MetricValue { metric: "loss".to_owned(), value }],
    }
}

pub(super) fn key(study: &StudyId, trial: &Trial) -> TrialRef {
    TrialRef { study: study.clone(), trial: trial.id, attempt: None }
}

#[tokio::test]
async fn failing_algorithm_is_replaced_and_finally_deactivates_only_its_study() {
    let (studies, _) = studies();
    // A grid of doubles without a resolution, rejected by the interfaces.
    let grid = Algorithm::GridSearch { double_resolution: Default::default() };
    let bad = Study::restore(StudyFields { algorithm: grid, ..study("p/l/bad") });
    let good = Study::restore(study("p/l/good"));
    for study in [&bad, &good] {
        studies.create_study(study.clone()).await.unwrap();
    }
    for number in 1..=4 {
        let suggested = studies.suggest(&bad.id, &request(&format!("c{number}"))).await.unwrap();
        assert_eq!(suggested.trials[0].origin.unwrap().algorithm, AlgorithmName::RandomSearch);
        let reason = suggested.trials[0].fallback_reason.as_deref().unwrap();
        assert!(reason.starts_with("study p/l/bad: the search algorithm failed: "), "{reason}");
    }
    let suggested = studies.suggest(&bad.id, &request("c5")).await.unwrap();
    assert_eq!((suggested.trials.len(), suggested.study.state), (0, StudyState::Inactive));
    let reason = studies.study(&bad.id).await.unwrap().state_reason.clone();
    assert!(reason.starts_with("the search algorithm failed 5 times in a row: "), "{reason}");
    assert_eq!(studies.suggest(&good.id, &request("c")).await.unwrap().study.state, StudyState::Active);
}

#[tokio::test]
async fn prepared_suggestion_equals_the_one_computed_on_demand() {
    let (prepared, _) = studies();
    let (on_demand, _) = studies();
    let id: StudyId = "p/l/s".parse().unwrap();
    for studies in [&prepared, &on_demand] {
        studies.create_study(Study::restore(study("p/l/s"))).await.unwrap();
    }
    for number in 0..12 {
        let trial = prepared.suggest(&id, &request("c")).await.unwrap().trials.remove(0);
        let other = on_demand.suggest(&id, &request("c")).await.unwrap().trials.remove(0);
        assert_eq!(trial.parameters, other.parameters, "trial {number}");
        let ParameterValue::Double(x) = trial.parameters["x"] else { panic!("{trial:?}") };
        for (studies, is_forgetful) in [(&prepared, false), (&on_demand, true)] {
            let outcome = ReportedOutcome::Measured(loss(1, 1.0, (x - 0.3).powi(2)));
            studies.complete(&key(&id, &trial), outcome).await.unwrap();
            if is_forgetful {
                studies.policy.forget(&id);
            }
        }
    }
}

#[tokio::test]
async fn curves_are_compared_by_elapsed_time_if_configured() {
    for (axis, expected) in [(CurveAxis::Step, false), (CurveAxis::ElapsedTime, true)] {
        let (studies, _) = studies();
        let fields =
            StudyFields { stopping_rule: Some(StoppingRuleKind::Median.into()), stopping_axis: axis, ..study("p/l/s") };
        let study = studies.create_study(Study::restore(fields)).await.unwrap();
        // All others were worse up to step 4, but better up to the time of the last report.
        for _ in 0..6 {
            let trial = studies.suggest(&study.id, &request("c")).await.unwrap().trials.remove(0);
            for (step, value) in (1..=8).map(|step| (step, if step <= 4 { 9.0 } else { 0.1 })) {
                studies.add_measurement(&key(&study.id, &trial), loss(step, step as f64, value), None).await.unwrap();
            }
            studies.complete(&key(&study.id, &trial), ReportedOutcome::FromCurve).await.unwrap();
        }
        let slow = studies.suggest(&study.id, &request("c")).await.unwrap().trials.remove(0);
        let key = key(&study.id, &slow);
        for step in 1..=4 {
            studies.add_measurement(&key, loss(step, 2.0 * step as f64, 6.0), None).await.unwrap();
        }
        assert_eq!(studies.should_stop(&key).await.unwrap(), expected, "{axis:?}");
        let state = studies.trial(&study.id, slow.id).await.unwrap().state;
        assert_eq!(state == TrialState::Stopping, expected);
        if expected {
            let done = studies.complete(&key, ReportedOutcome::FromCurve).await.unwrap();
            assert!(done.trial.stopped_early);
        }
    }
}

#[tokio::test]
async fn decay_curve_rule_stops_after_one_report_and_keeps_its_prediction() {
    let (studies, _) = studies();
    let fields = StudyFields { stopping_rule: Some(StoppingRuleKind::DecayCurve.into()), ..study("p/l/s") };
    let study = studies.create_study(Study::restore(fields)).await.unwrap();
    let run = async |end: f64, steps: i64| {
        let trial = studies.suggest(&study.id, &request("c")).await.unwrap().trials.remove(0);
        let key = key(&study.id, &trial);
        for step in 1..=steps {
            let value = end + (3 - step) as f64;
            studies.add_measurement(&key, loss(step, step as f64, value), None).await.unwrap();
        }
        key
    };
    for end in 1..=5 {
        let key = run(f64::from(end), 3).await;
        assert!(!studies.should_stop(&key).await.unwrap(), "trial {end}");
        studies.complete(&key, ReportedOutcome::FromCurve).await.unwrap();
    }
    let key = run(50.0, 1).await;
    assert!(studies.should_stop(&key).await.unwrap());
    let done = studies.complete(&key, ReportedOutcome::FromCurve).await.unwrap().trial;
    // All others ended 2 below their first report.
    let predicted = done.predicted_final.unwrap();
    assert!((predicted.value - 50.0).abs() < 1e-9 && predicted.deviation < 1e-6, "{predicted:?}");
    assert!(done.final_measurement.as_ref().unwrap().metrics.iter().all(|metric| metric.value == 52.0));
}

#[tokio::test]
async fn stopped_trial_is_promising_once_the_rule_would_not_stop_it() {
    let (studies, _) = studies();
    let fields = StudyFields { stopping_rule: Some(StoppingRuleKind::Asha.into()), ..study("p/l/s") };
    let study = studies.create_study(Study::restore(fields)).await.unwrap();
    let rule = EarlyStopping::new(StoppingRuleKind::Asha.into(), &study);
    // Losses at step 1. Trials 1 to 3 run to step 2; of three trials one passes, of six two.
    let mut found = Vec::new();
    for (number, value) in (1..).zip([9.0, 8.0, 1.0, 2.0, 7.0, 6.0]) {
        let trial = studies.suggest(&study.id, &request("c")).await.unwrap().trials.remove(0);
        let key = key(&study.id, &trial);
        studies.add_measurement(&key, loss(1, 1.0, value), None).await.unwrap();
        let stops = studies.should_stop(&key).await.unwrap();
        assert_eq!(stops, number > 3, "trial {number}");
        if !stops {
            studies.add_measurement(&key, loss(2, 2.0, value), None).await.unwrap();
        }
        let ended = studies.complete(&key, ReportedOutcome::FromCurve).await.unwrap().trial;
        rule.learn(&*studies.store, &ended).await.unwrap();
        found.push(rule.promising());
    }
    assert_eq!(found, [None, None, None, None, None, Some(TrialId(4))]);
    // It goes on: its result is withdrawn, and trial 6 is not among the two best of the other five.
    rule.forget(TrialId(4));
    assert_eq!(rule.promising(), None);
    // The best of all so far, but a user has stopped it.
    let trial = studies.suggest(&study.id, &request("c")).await.unwrap().trials.remove(0);
    let key = key(&study.id, &trial);
    studies.add_measurement(&key, loss(1, 1.0, 0.5), None).await.unwrap();
    studies.stop(&key).await.unwrap();
    let ended = studies.complete(&key, ReportedOutcome::FromCurve).await.unwrap().trial;
    assert!(ended.stopped_early);
    rule.learn(&*studies.store, &ended).await.unwrap();
    assert_eq!(rule.promising(), None);
}

#[tokio::test]
async fn early_stopping_check_renews_the_lease_of_the_owner_only() {
    let (studies, clock) = studies();
    let fields = StudyFields { trial_lease: Some(std::time::Duration::from_secs(60)), ..study("p/l/s") };
    let study = studies.create_study(Study::restore(fields)).await.unwrap();
    let count = NonZeroUsize::new(2).unwrap();
    let trials = studies.suggest(&study.id, &SuggestionRequest { count, ..request("c") }).await.unwrap().trials;
    let [alive, silent] = &trials[..] else { panic!("{trials:?}") };
    let ask = async |trial: &Trial| studies.should_stop(&key(&study.id, trial)).await;
    studies.stop(&key(&study.id, alive)).await.unwrap();
    for seconds in [50, 100, 150] {
        clock.set(Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds));
        assert!(ask(alive).await.unwrap(), "it is stopping, and has time to end");
        studies.sweep().await.unwrap();
    }
    let late = ask(silent).await.unwrap_err().to_string();
    assert!(late.contains("lease"), "{late}");
    studies.suggest(&study.id, &request("next")).await.unwrap();
    let late = ask(silent).await.unwrap_err().to_string();
    assert!(late.contains("attempt 2"), "{late}");
}

#[tokio::test]
async fn dropping_cached_histories_does_not_change_suggestions() {
    let mut suggested = Vec::new();
    for memory in [usize::MAX, 0] {
        let store = Arc::new(MemoryStore::new());
        let policy = Arc::new(SearchPolicy::with_memory(store.clone(), 2, memory));
        let studies = Studies::new(store, policy, Arc::new(ManualClock::new(Timestamp::UNIX_EPOCH)));
        let ids: Vec<StudyId> = ["p/l/a", "p/l/b", "p/l/c"].map(|id| id.parse().unwrap()).into();
        for id in &ids {
            studies.create_study(Study::restore(study(id.as_str()))).await.unwrap();
        }
        let mut points = Vec::new();
        for _ in 0..8 {
            for id in &ids {
                let trial = studies.suggest(id, &request("c")).await.unwrap().trials.remove(0);
                let ParameterValue::Double(x) = trial.parameters["x"] else { panic!("{trial:?}") };
                points.push(x);
                let outcome = ReportedOutcome::Measured(loss(1, 1.0, (x - 0.3).powi(2)));
                studies.complete(&key(id, &trial), outcome).await.unwrap();
            }
        }
        suggested.push(points);
    }
    assert_eq!(suggested[0], suggested[1]);
    let distinct: std::collections::BTreeSet<u64> = suggested[0].iter().map(|x| x.to_bits()).collect();
    assert!(distinct.len() >= 8, "{suggested:?}");
}

#[tokio::test]
async fn repeated_request_has_one_effect() {
    let (studies, _) = studies();
    let study = studies.create_study(Study::restore(study("p/l/s"))).await.unwrap();
    let create = async |key: &str| {
        let point = [("x".to_owned(), ParameterValue::Double(0.5))].into();
        studies.create_trial(&study.id, point, None, Some(key.to_owned())).await.unwrap().trial.id
    };
    assert_eq!((create("a").await, create("a").await, create("b").await), (TrialId(1), TrialId(1), TrialId(2)));
    let trial = studies.suggest(&study.id, &request("c")).await.unwrap().trials.remove(0);
    assert_eq!((trial.id, create("a").await), (TrialId(1), TrialId(1)), "also after it was given out");
    let add = async |measurement, key: Option<&str>| {
        let request_key = key.map(str::to_owned);
        studies
            .add_measurement(&self::key(&study.id, &trial), measurement, request_key)
            .await
            .unwrap()
            .trial
            .measurement_count
    };
    assert_eq!(add(loss(1, 1.0, 0.5), Some("m1")).await, 1);
    assert_eq!(add(loss(2, 2.0, 0.4), Some("m2")).await, 2);
    assert_eq!(add(loss(1, 1.0, 0.5), Some("m1")).await, 2, "its key is known");
    assert_eq!(add(loss(2, 2.0, 0.4), None).await, 2, "it is the latest one again");
    assert_eq!(add(loss(2, 2.0, 0.3), None).await, 3, "another report");
    for number in 0..100 {
        add(loss(10 + number, 3.0, 0.2), Some(&format!("n{number}"))).await;
    }
    assert_eq!(add(loss(1, 1.0, 0.5), Some("m1")).await, 103, "its key is known after a hundred reports");
    assert_eq!(create("a").await, TrialId(1));
}

#[tokio::test]
async fn reused_key_with_another_content_is_refused() {
    let (studies, _) = studies();
    let study = studies.create_study(Study::restore(study("p/l/s"))).await.unwrap();
    let create = async |x: f64, key: &str| {
        let point = [("x".to_owned(), ParameterValue::Double(x))].into();
        studies.create_trial(&study.id, point, None, Some(key.to_owned())).await
    };
    let trial = create(0.5, "a").await.unwrap().trial;
    let reused = "the idempotency key a was used for another request to trial 1: use a new key for each request";
    assert_eq!(create(0.25, "a").await.unwrap_err().to_string(), reused);
    let key = key(&study.id, &trial);
    let add = async |measurement, key_of_request: &str| {
        studies.add_measurement(&key, measurement, Some(key_of_request.to_owned())).await
    };
    assert_eq!(add(loss(1, 1.0, 0.5), "a").await.unwrap_err().to_string(), reused, "it named another kind of request");
    add(loss(1, 1.0, 0.5), "m").await.unwrap();
    add(loss(2, 2.0, 0.5), "n").await.unwrap();
    for other in [loss(1, 1.0, 0.25), loss(3, 1.0, 0.5), loss(1, 2.0, 0.5), loss(2, 2.0, 0.5)] {
        let refused = add(other, "m").await.unwrap_err().to_string();
        assert!(refused.contains("the idempotency key m was used for another request"), "{refused}");
    }
    assert_eq!(studies.trial(&study.id, trial.id).await.unwrap().measurement_count, 2);
}

#[tokio::test]
async fn jumps_of_the_system_clock_do_not_move_leases() {
    const HOUR: SignedDuration = SignedDuration::from_hours(1);
    let (studies, clock) = studies();
    let fields = StudyFields { trial_lease: Some(std::time::Duration::from_secs(60)), ..study("p/l/s") };
    let study = studies.create_study(Study::restore(fields)).await.unwrap();
    let at = |seconds| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds);
    clock.set(at(10_000));
    let trial = studies.suggest(&study.id, &request("c")).await.unwrap().trials.remove(0);
    clock.set(at(10_002));
    studies.add_measurement(&key(&study.id, &trial), loss(1, 1.0, 0.5), None).await.unwrap();
    // Forward: a client that has just reported keeps its trial.
    clock.jump(at(10_003) + HOUR);
    assert_eq!(studies.sweep().await.unwrap(), 0);
    let again = studies.suggest(&study.id, &request("c")).await.unwrap().trials.remove(0);
    assert_eq!((again.id, again.attempt), (trial.id, 1));
    // Backward: a silent client loses its trial when its lease expires, and no sooner.
    clock.set(at(10_061));
    clock.jump(at(10_061) - HOUR);
    assert_eq!(studies.sweep().await.unwrap(), 0);
    clock.set(at(10_063));
    clock.jump(at(10_063) - HOUR);
    assert_eq!(studies.sweep().await.unwrap(), 1);
}

#[tokio::test]
async fn time_stamps_of_a_trial_do_not_run_backwards() {
    let (studies, clock) = studies();
    let study = studies.create_study(Study::restore(study("p/l/s"))).await.unwrap();
    let at = |seconds| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds);
    clock.set(at(10_000));
    let trial = studies.suggest(&study.id, &request("c")).await.unwrap().trials.remove(0);
    let queued = [("x".to_owned(), ParameterValue::Double(0.5))].into();
    let queued = studies.create_trial(&study.id, queued, None, None).await.unwrap().trial;
    clock.jump(at(6_400));
    let outcome = ReportedOutcome::Measured(loss(1, 1.0, 0.5));
    let done = studies.complete(&key(&study.id, &trial), outcome).await.unwrap().trial;
    assert_eq!((done.start_time, done.end_time), (Some(at(10_000)), Some(at(10_000))));
    let reported = studies.add_measurement(&key(&study.id, &queued), loss(1, 1.0, 0.5), None).await.unwrap().trial;
    assert_eq!((reported.create_time, reported.start_time), (at(10_000), Some(at(10_000))));
}

#[tokio::test]
async fn leases_of_a_former_process_are_measured_anew() {
    const SILENT: i64 = 60;
    for jump_secs in [-3600, 0, 3600] {
        let store = Arc::new(MemoryStore::new());
        let process = |now| {
            let clock = Arc::new(ManualClock::new(now));
            let policy = Arc::new(SearchPolicy::new(store.clone(), 2));
            (Studies::new(store.clone(), policy, clock.clone()), clock)
        };
        let at = |seconds| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds);
        let (former, _) = process(at(10_000));
        let fields = StudyFields { trial_lease: Some(std::time::Duration::from_secs(SILENT as u64)), ..study("p/l/s") };
        let study = former.create_study(Study::restore(fields)).await.unwrap();
        former.suggest(&study.id, &request("c")).await.unwrap();
        let start = 10_001 + jump_secs;
        let (studies, clock) = process(at(start));
        assert_eq!(studies.check_leases().await.unwrap(), 0, "{jump_secs}: its owner has time to report");
        clock.set(at(start + SILENT));
        assert_eq!(studies.check_leases().await.unwrap(), 1, "{jump_secs}: its owner was silent");
    }
}

#[tokio::test]
async fn expired_trials_are_taken_back_and_stopping_ones_completed() {
    let (studies, clock) = studies();
    let fields = StudyFields { trial_lease: Some(std::time::Duration::from_secs(60)), ..study("p/l/s") };
    let study = studies.create_study(Study::restore(fields)).await.unwrap();
    let count = NonZeroUsize::new(3).unwrap();
    let trials = studies.suggest(&study.id, &SuggestionRequest { count, ..request("c") }).await.unwrap().trials;
    let [silent, stopping, alive] = &trials[..] else { panic!("{trials:?}") };
    studies.add_measurement(&key(&study.id, stopping), loss(1, 1.0, 0.5), None).await.unwrap();
    studies.stop(&key(&study.id, stopping)).await.unwrap();
    clock.set(Timestamp::UNIX_EPOCH + SignedDuration::from_secs(59));
    studies.add_measurement(&key(&study.id, alive), loss(1, 1.0, 0.5), None).await.unwrap();
    assert_eq!(studies.sweep().await.unwrap(), 0);
    clock.set(Timestamp::UNIX_EPOCH + SignedDuration::from_secs(61));
    assert_eq!(studies.sweep().await.unwrap(), 2);
    assert_eq!(studies.sweep().await.unwrap(), 0);

    let stopped = studies.trial(&study.id, stopping.id).await.unwrap();
    assert_eq!((stopped.state, stopped.stopped_early), (TrialState::Succeeded, true));
    let next = studies.suggest(&study.id, &request("next")).await.unwrap().trials.remove(0);
    assert_eq!((next.id, next.attempt, next.expired_leases), (silent.id, 2, 1));
    let late = studies.complete(&key(&study.id, silent), ReportedOutcome::Measured(loss(1, 1.0, 0.1))).await;
    assert!(late.unwrap_err().to_string().contains("attempt 2"));
    let owned = TrialRef { attempt: Some(2), ..key(&study.id, silent) };
    studies.complete(&owned, ReportedOutcome::Measured(loss(1, 1.0, 0.2))).await.unwrap();
    let still = studies.suggest(&study.id, &request("c")).await.unwrap().trials.remove(0);
    assert_eq!(still.id, alive.id);
}

#[tokio::test]
async fn best_final_measurement_skips_values_that_are_not_finite_and_names_them_if_there_is_no_other() {
    let (studies, _) = studies();
    let fields = StudyFields { final_measurement: FinalMeasurement::Best, ..study("p/l/s") };
    let study = studies.create_study(Study::restore(fields)).await.unwrap();
    let complete = async |values: &[f64]| {
        let trial = studies.suggest(&study.id, &request("c")).await.unwrap().trials.remove(0);
        let key = key(&study.id, &trial);
        for (step, value) in (1..).zip(values) {
            studies.add_measurement(&key, loss(step, 0.0, *value), None).await.unwrap();
        }
        studies.complete(&key, ReportedOutcome::FromCurve).await.unwrap().trial
    };
    let trial = complete(&[f64::NEG_INFINITY, 0.0, -0.0, f64::NAN]).await;
    assert_eq!(trial.final_measurement.as_ref().map(|measurement| measurement.step), Some(2));
    let trial = complete(&[f64::INFINITY, f64::NAN]).await;
    assert_eq!(trial.infeasible_reason.as_deref(), Some("the final value of \"loss\" is NaN, at step 2"));
}

#[tokio::test]
async fn dropped_state_changes_no_answer() {
    let (studies, _) = studies();
    let study = studies.create_study(Study::restore(study("p/l/s"))).await.unwrap();
    let suggest = async |client: &str| studies.suggest(&study.id, &request(client)).await.unwrap().trials.remove(0);
    for number in 0..6 {
        let trial = suggest(&format!("c{number}")).await;
        let result = ReportedOutcome::Measured(loss(1, 1.0, f64::from((number - 3) * (number - 3))));
        studies.complete(&key(&study.id, &trial), result).await.unwrap();
        // By age for one, by memory for the other.
        let idle = studies.drop_idle(if number % 2 == 0 { 0 } else { 1 });
        assert!(idle + studies.drop_while(|| true) > 0);
        assert_eq!(studies.drop_idle(0) + studies.drop_while(|| true), 0);
        let best = studies.optimal_trials(&studies.study(&study.id).await.unwrap()).await.unwrap();
        assert_eq!(best, [TrialId(u64::from(number.min(3) as u8) + 1)]);
    }
}

#[tokio::test]
async fn least_recently_used_state_is_dropped_first() {
    let (studies, _) = studies();
    let ids: Vec<StudyId> = ["a", "b", "c"].iter().map(|name| format!("p/l/{name}").parse().unwrap()).collect();
    for id in &ids {
        studies.create_study(Study::restore(study(id.as_str()))).await.unwrap();
        studies.suggest(id, &request("one")).await.unwrap();
    }
    studies.suggest(&ids[0], &request("two")).await.unwrap();
    // Nothing is unused since the last idle count.
    assert!(!studies.policy.histories.drop_unused());
    assert!(studies.policy.histories.drop_oldest() && studies.policy.histories.drop_oldest());
    assert!(
        !studies.policy.histories.drop_oldest(),
        "the next request needs the history of the first study, which was used last"
    );
    assert_eq!(studies.drop_while(|| true), 0);
    studies.drop_idle(1);
    assert!(studies.drop_while(|| true) > 0, "it was not used for a while");
    assert!(!studies.policy.histories.drop_unused());
}

#[tokio::test]
async fn idle_studies_are_deleted_but_active_used_and_running_ones_are_kept() {
    let (studies, clock) = studies();
    for id in ["p/l/idle", "p/l/running", "p/l/recent", "p/l/used"] {
        studies.create_study(Study::restore(study(id))).await.unwrap();
    }
    let day = SignedDuration::from_hours(24);
    let running: StudyId = "p/l/running".parse().unwrap();
    studies.suggest(&running, &request("c")).await.unwrap();
    clock.set(clock.now() + day * 2);
    let recent: StudyId = "p/l/recent".parse().unwrap();
    let suggested = studies.suggest(&recent, &request("c")).await.unwrap();
    let outcome = ReportedOutcome::Measured(loss(1, 1.0, 0.5));
    studies.complete(&key(&recent, &suggested.trials[0]), outcome).await.unwrap();
    let deleted = studies.delete_idle_since(clock.now() - day, |id| id.as_str() == "p/l/used").await.unwrap();
    assert_eq!(deleted.iter().map(StudyId::as_str).collect::<Vec<_>>(), ["p/l/idle"]);
    clock.set(clock.now() + day * 2);
    let deleted = studies.delete_idle_since(clock.now() - day, |_| false).await.unwrap();
    assert_eq!(deleted.iter().map(StudyId::as_str).collect::<Vec<_>>(), ["p/l/recent", "p/l/used"]);
    assert!(studies.study(&running).await.is_ok(), "a trial of it still runs");
}
