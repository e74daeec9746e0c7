//! A study in memory, for tests.

use jiff::Timestamp;
use tunesmith_algorithms::problem::{
    ConstraintSpec, Goal, MetricSpec, ParameterKind, ParameterSpec, ParameterValue, ProblemStatement, ScaleType,
    SearchSpace,
};
use tunesmith_domain::{
    Completion, Measurement, MetricValue, NewTrial, ReportKey, Study, StudyFields, StudyId, Trial, TrialChange,
    TrialId, TrialStart,
};
use tunesmith_store::{MemoryStore, Store};

/// `second` seconds after the start of all studies.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1000 + second).unwrap()
}

pub(crate) fn study_id() -> StudyId {
    "p/l/s".parse().unwrap()
}

/// The parameter `x`, the metric `loss` to be minimised, and the constraint that `size` is at most 10.
pub(crate) fn problem() -> ProblemStatement {
    let kind = ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear };
    let space = SearchSpace::new(vec![ParameterSpec::new("x", kind).unwrap()]).unwrap();
    let metrics = vec![MetricSpec { name: "loss".into(), goal: Goal::Minimize }];
    let problem = ProblemStatement::new(space, metrics).unwrap();
    problem.with_constraints(vec![ConstraintSpec::new("size", Goal::Minimize, 10.0)]).unwrap()
}

/// A store with the study [`study_id`].
pub(crate) async fn store() -> MemoryStore {
    let store = MemoryStore::new();
    store.create_study(Study::restore(StudyFields::new(study_id(), problem(), at(0)))).await.unwrap();
    store
}

/// Adds a trial, which starts at the start of the study.
pub(crate) async fn start_trial(store: &dyn Store, id: u64) -> Trial {
    let trial = NewTrial {
        id: TrialId(id),
        parameters: [("x".to_owned(), ParameterValue::Double(0.5))].into_iter().collect(),
        origin: None,
        fallback_reason: None,
        fixed_parameters: Vec::new(),
        client_id: "c".into(),
        start: TrialStart::Started { lease: None },
        create_time: at(0),
        request_key: None,
    };
    store.create_trial(&study_id(), trial).await.unwrap()
}

/// A report of `attempt` with a loss that equals `step`, and the size 1.
pub(crate) fn report(attempt: u64, step: i64) -> Measurement {
    measurement(attempt, step, step as f64, 1.0)
}

pub(crate) fn measurement(attempt: u64, step: i64, loss: f64, size: f64) -> Measurement {
    let value = |metric: &str, value| MetricValue { metric: metric.into(), value };
    Measurement {
        step,
        wall_time_secs: 1000.0 + step as f64,
        elapsed_secs: None,
        key: ReportKey::MetricFile { attempt },
        metrics: vec![value("loss", loss), value("size", size)],
    }
}

/// The end of a trial with the result `measurement`.
pub(crate) fn succeed(attempt: u64, measurement: Measurement, second: i64) -> TrialChange {
    TrialChange::Complete {
        attempt,
        measurements: vec![measurement.clone()],
        completion: Completion::Succeeded { final_measurement: measurement },
        at: at(second),
    }
}
