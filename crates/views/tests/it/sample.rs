use std::sync::Arc;

use jiff::Timestamp;
use tunesmith_algorithms::problem::{
    AlgorithmName, ConstraintSpec, Goal, MetricSpec, Origin, ParameterKind, ParameterSpec, ParameterValue,
    ParameterValues, ProblemStatement, ScaleType, SearchSpace, TrialId,
};
use tunesmith_domain::{
    Measurement, Metadata, MetricValue, ReportKey, Study, StudyFields, Trial, TrialFields, TrialState,
};
use tunesmith_views::Columns;

pub(crate) const LEVELS: [&str; 3] = ["adam", "sgd", "<b>"];

/// Study with the metrics `loss` (minimised) and `speed` (maximised), and one parameter of each kind.
pub(crate) fn study() -> Study {
    let linear = ScaleType::UnitLinear;
    let kinds = [
        ("rate", ParameterKind::Double { min: 1e-4, max: 1.0, scale: ScaleType::UnitLog }),
        ("layers", ParameterKind::Integer { min: 1, max: 8, scale: linear }),
        ("batch size", ParameterKind::Discrete { values: vec![16.0, 32.0, 64.0], scale: linear }),
        ("optimizer", ParameterKind::Categorical { values: LEVELS.map(str::to_owned).to_vec() }),
    ];
    let parameters = kinds.map(|(name, kind)| ParameterSpec::new(name, kind).expect("a parameter"));
    let space = SearchSpace::new(parameters.to_vec()).expect("a search space");
    let metric = |name: &str, goal| MetricSpec { name: name.to_owned(), goal };
    let metrics = vec![metric("loss", Goal::Minimize), metric("speed", Goal::Maximize)];
    let problem = ProblemStatement::new(space, metrics).expect("a problem");
    Study::restore(StudyFields::new("p/l/s".parse().expect("an ID"), problem, Timestamp::UNIX_EPOCH))
}

/// Properties that vary between test trials.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) state: TrialState,
    pub(crate) loss: f64,
    pub(crate) speed: f64,
    pub(crate) rate: f64,
    pub(crate) layers: i64,
    pub(crate) level: Option<usize>,
    pub(crate) client: u8,
    /// Start and duration in seconds.
    pub(crate) time: (i64, i64),
}

impl Sample {
    /// Succeeded trial with this loss.
    pub(crate) fn of_loss(loss: f64) -> Self {
        let state = TrialState::Succeeded;
        Self { state, loss, speed: -loss, rate: 0.01, layers: 2, level: Some(0), client: 0, time: (0, 1) }
    }
}

pub(crate) fn measurement(step: i64, loss: f64, speed: f64) -> Measurement {
    let value = |metric: &str, value| MetricValue { metric: metric.to_owned(), value };
    Measurement {
        step,
        wall_time_secs: 0.0,
        elapsed_secs: None,
        key: ReportKey::Http,
        metrics: vec![value("loss", loss), value("speed", speed)],
    }
}

pub(crate) fn trial(number: usize, sample: &Sample) -> Trial {
    let mut parameters = ParameterValues::new();
    parameters.insert("rate".to_owned(), ParameterValue::Double(sample.rate));
    parameters.insert("layers".to_owned(), ParameterValue::Integer(sample.layers));
    parameters.insert("batch size".to_owned(), ParameterValue::Discrete([16.0, 32.0, 64.0][number % 3]));
    if let Some(level) = sample.level {
        parameters.insert("optimizer".to_owned(), ParameterValue::Categorical(LEVELS[level].to_owned()));
    }
    let time = |second: i64| Timestamp::from_second(second).expect("a time");
    let (start, duration) = sample.time;
    let is_measured = sample.state == TrialState::Succeeded;
    Trial::restore(TrialFields {
        id: TrialId(number as u64),
        parameters,
        origin: Some(Origin::of(AlgorithmName::RandomSearch)),
        state: sample.state,
        client_id: format!("worker {}", sample.client),
        attempt: 1,
        lost_attempts: 0,
        preempted_attempts: 0,
        lost_time: std::time::Duration::ZERO,
        places: Vec::new(),
        delivered: 0,
        lease: None,
        expired_leases: 0,
        create_time: time(start),
        start_time: Some(time(start)),
        attempt_start_time: Some(time(start)),
        end_time: sample.state.is_final().then(|| time(start + duration)),
        measurement_count: 5,
        metric_folders: Default::default(),
        final_measurement: is_measured.then(|| measurement(5, sample.loss, sample.speed)),
        infeasible_reason: (sample.state == TrialState::Infeasible).then(|| "no result".to_owned()),
        stopped_early: false,
        predicted_final: None,
        fallback_reason: None,
        fixed_parameters: Vec::new(),
        request_keys: Vec::new(),
        metadata: Metadata::default(),
        last_note: None,
        revision: number as u64,
    })
}

/// Columns of trials numbered from 1.
pub(crate) fn columns(samples: &[Sample]) -> Columns {
    let mut columns = Columns::new(&study());
    for (index, sample) in samples.iter().enumerate() {
        columns.apply(&trial(index + 1, sample));
    }
    columns
}

/// Like [`columns`], with the constraint `limit`, whose values equal `speed`.
pub(crate) fn columns_with_limit(samples: &[Sample], limit: ConstraintSpec) -> Columns {
    let study = study();
    let name = limit.name.clone();
    let problem = ProblemStatement::clone(&study.problem).with_constraints(vec![limit]).expect("a problem");
    let mut columns = Columns::new(&Study::restore(StudyFields { problem: Arc::new(problem), ..(*study).clone() }));
    for (index, sample) in samples.iter().enumerate() {
        let mut fields = (*trial(index + 1, sample)).clone();
        if let Some(result) = &mut fields.final_measurement {
            result.metrics.push(MetricValue { metric: name.clone(), value: sample.speed });
        }
        columns.apply(&Trial::restore(fields));
    }
    columns
}
