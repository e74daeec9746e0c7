//! Sample records with every field in use.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use tunesmith_algorithms::early_stopping::DecayCurveRule;
use tunesmith_algorithms::problem::{
    AlgorithmName, Condition, ConstraintSpec, Goal, MetricSpec, ObservationNoise, Origin, ParameterKind,
    ParameterPrior, ParameterSpec, ParameterValue, ParameterValues, ProblemStatement, ScaleType, SearchSpace, Step,
};

use tunesmith_domain::{
    Accelerators, Algorithm, Completion, CurveAxis, FinalMeasurement, Job, JobFields, JobPlan, Lease, LossCause,
    MachineNotice, MachinePlan, Measurement, Metadata, MetadataKey, MetadataValue, MetricValue, NewTrial, ProgramPlan,
    ReplicaPlan, ReportKey, RequestKey, Resources, Role, StoppingRule, StoppingRuleKind, Study, StudyFields,
    StudyState, StudyStopping, StudyTime, TrainerContract, TrialChange, TrialId, TrialStart,
};

/// The time `secs` seconds after a fixed start, with nanoseconds.
pub fn at(secs: i64) -> Timestamp {
    Timestamp::new(1_750_000_000 + secs, 123_456_789).unwrap()
}

/// A queued job with the study of the same name.
pub fn job(id: &str) -> Job {
    Job::restore(JobFields {
        study: Some(id.parse().unwrap()),
        training_input: serde_json::json!({"hyperparameters": {"maxTrials": 3, "goal": "MAXIMIZE"}, "x": 0.1}),
        fingerprint: "sha256:00".to_owned(),
        labels: BTreeMap::from([("owner".to_owned(), "someone".to_owned())]),
        policy: serde_json::json!({"bindings": []}),
        ..JobFields::new(id.parse().unwrap(), plan(), at(0))
    })
}

/// A plan with every field in use.
pub fn plan() -> JobPlan {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let container = ProgramPlan::Container {
        image: "image:1".to_owned(),
        command: texts(&["python"]),
        args: texts(&["-m", "é\n\u{0}"]),
    };
    JobPlan {
        max_trials: u64::MAX,
        max_parallel_trials: 2,
        max_failed_trials: 1,
        metric_tag: "accuracy".to_owned(),
        further_tags: vec!["loss".to_owned(), "latency".to_owned()],
        metric_from_stdout: true,
        metric_folder: Some("validation".to_owned()),
        job_dir_flag: Some("output-dir".to_owned()),
        program: ProgramPlan::PythonModule {
            package_uris: texts(&["trainer-1.0.tar.gz"]),
            package_path: Some("/source".into()),
            requirements: texts(&["numpy"]),
            module: "trainer.task".to_owned(),
            args: Vec::new(),
        },
        replicas: vec![
            ReplicaPlan { role: Role::Worker, count: 2, program: None, variables: Vec::new(), resources: resources() },
            ReplicaPlan {
                role: Role::ParameterServer,
                count: 1,
                program: Some(container),
                variables: Vec::new(),
                resources: Resources::default(),
            },
            ReplicaPlan {
                role: Role::Evaluator,
                count: 1,
                program: Some(ProgramPlan::Command { argv: texts(&["true"]) }),
                variables: Vec::new(),
                resources: Resources::default(),
            },
        ],
        args: texts(&["--data=d"]),
        working_directory: "/work".into(),
        job_dir: Some("gs://bucket/job".to_owned()),
        master_is_chief: true,
        contract: TrainerContract::default(),
        variables: Vec::new(),
        priority: -1,
        max_wait_time: Some(Duration::from_secs(60)),
        max_running_time: Some(Duration::new(3600, 500)),
        trial_time_limit: None,
        grace: Duration::from_secs(30),
        max_lost_attempts: 3,
        continues_from_checkpoints: false,
        machines: MachinePlan {
            resources: resources(),
            executor: Some("local".to_owned()),
            queue: Some("gpu".to_owned()),
            options: BTreeMap::from([("account".to_owned(), "ml".to_owned())]),
            python: Some("/opt/python3".into()),
            notices: vec![MachineNotice {
                field: "region".to_owned(),
                description: "has no effect on this service".to_owned(),
            }],
        },
        principal: Some("someone".to_owned()),
    }
}

/// Resources of every kind.
fn resources() -> Resources {
    let accelerators = Some(Accelerators { kind: Some("v100".to_owned()), count: 2 });
    Resources { milli_cpus: Some(1500), memory_bytes: Some(1 << 33), accelerators }
}

/// An active study without trials, with parameters of all kinds and scales.
pub fn study(id: &str) -> Study {
    study_over(id, parameters(), Vec::new())
}

/// [`study`] with a conditional parameter of each kind of condition, none of them active in [`new_trial`], a prior of each
/// kind, a user-supplied trial, a constraint, stated noise, thresholds of its stopping rule, and rules that end it.
pub fn conditional_study(id: &str) -> Study {
    let child = |name, parent, values| {
        let kind = ParameterKind::Integer { min: 1, max: 2, scale: ScaleType::UnitLinear };
        ParameterSpec::new(name, kind).unwrap().with_condition(Condition::new(parent, values))
    };
    let mut parameters = parameters();
    let normal = ParameterPrior::Normal { mode: ParameterValue::Double(0.1 / 3.0), spread: 0.25 };
    let weight = |level: &str, weight| (ParameterValue::Categorical(level.to_owned()), weight);
    let weights = ParameterPrior::Weights(vec![weight("ä b", 0.1), weight("c", 3.0)]);
    for (place, prior) in [(0, normal), (3, weights)] {
        parameters[place] = parameters[place].clone().with_prior(prior).unwrap();
    }
    parameters.push(child("depth", "kind", vec![ParameterValue::Categorical("c".to_owned())]));
    parameters.push(child("width", "size", vec![ParameterValue::Discrete(0.5)]));
    parameters.push(child("skip", "layers", [-1, 7].map(ParameterValue::Integer).to_vec()));
    let point = BTreeMap::from([
        ("rate".to_owned(), ParameterValue::Double(0.1 / 3.0)),
        ("layers".to_owned(), ParameterValue::Integer(i64::MAX)),
        ("size".to_owned(), ParameterValue::Discrete(32.0)),
        ("kind".to_owned(), ParameterValue::Categorical("ä b".to_owned())),
    ]);
    let study = study_over(id, parameters, vec![point]);
    let limit = ConstraintSpec { min_safe_fraction: 0.1 / 3.0, ..ConstraintSpec::new("latency", Goal::Minimize, -0.1) };
    let problem = ProblemStatement::clone(&study.problem).with_constraints(vec![limit]).unwrap();
    Study::restore(StudyFields {
        problem: problem.with_observation_noise(ObservationNoise::High).into(),
        algorithm: Algorithm::Tpe,
        stopping_rule: Some(StoppingRule::DecayCurve(DecayCurveRule::new(3, Some(2), 0.1 / 3.0, 0.05).unwrap())),
        study_stopping: StudyStopping {
            min_time: Some(StudyTime::After(Duration::new(1, 1))),
            max_time: Some(StudyTime::At(at(9))),
            min_trials: Some(2),
            max_trials_without_progress: Some(u64::MAX),
            max_time_without_progress: Some(Duration::from_millis(1)),
            min_expected_gain: Some(0.1 / 3.0),
        },
        ..(*study).clone()
    })
}

fn parameters() -> Vec<ParameterSpec> {
    let spec = |name, kind| ParameterSpec::new(name, kind).unwrap();
    vec![
        spec("rate", ParameterKind::Double { min: 1e-7, max: 0.1, scale: ScaleType::UnitLog }),
        spec("layers", ParameterKind::Integer { min: -1, max: i64::MAX, scale: ScaleType::UnitLinear }),
        spec("size", ParameterKind::Discrete { values: vec![0.5, 32.0], scale: ScaleType::UnitReverseLog }),
        spec("kind", ParameterKind::Categorical { values: vec!["ä b".to_owned(), "c".to_owned()] }),
    ]
}

fn study_over(id: &str, parameters: Vec<ParameterSpec>, initial_points: Vec<ParameterValues>) -> Study {
    let metrics = vec![
        MetricSpec { name: "accuracy".to_owned(), goal: Goal::Maximize },
        MetricSpec { name: "loss".to_owned(), goal: Goal::Minimize },
    ];
    Study::restore(StudyFields {
        id: id.parse().unwrap(),
        problem: ProblemStatement::new(SearchSpace::new(parameters).unwrap(), metrics).unwrap().into(),
        initial_points,
        algorithm: Algorithm::GridSearch { double_resolution: BTreeMap::from([("rate".to_owned(), 10)]) },
        seed: u64::MAX,
        stopping_rule: Some(StoppingRuleKind::Median.into()),
        stopping_axis: CurveAxis::ElapsedTime,
        study_stopping: StudyStopping::default(),
        final_measurement: FinalMeasurement::Best,
        continued_studies: vec!["earlier-1".parse().unwrap()],
        related_studies: Vec::new(),
        max_trials: Some(u64::MAX),
        trial_lease: Some(Duration::new(90, 500_000_000)),
        config: serde_json::json!({"metrics": [{"metric": "accuracy"}]}).into(),
        metadata: metadata("ä").into(),
        state: StudyState::Active,
        state_reason: String::new(),
        create_time: at(0),
        next_trial_id: TrialId::FIRST,
        revision: 0,
    })
}

/// A text with the key `key`, and a message.
pub fn metadata(name: &str) -> Metadata {
    let key = |namespace: &str, key: &str| MetadataKey { namespace: namespace.to_owned(), key: key.to_owned() };
    let message = MetadataValue::Message { type_url: "type/m".to_owned(), value: vec![0, 255] };
    [(key("", name), MetadataValue::Text("ü\n".to_owned())), (key(":a:b", name), message)].into_iter().collect()
}

/// Trial `id`, about to be created.
pub fn new_trial(id: u64) -> NewTrial {
    NewTrial {
        id: TrialId(id),
        parameters: BTreeMap::from([
            ("rate".to_owned(), ParameterValue::Double(0.1 / 3.0)),
            ("layers".to_owned(), ParameterValue::Integer(i64::MAX - 1)),
            ("size".to_owned(), ParameterValue::Discrete(32.0)),
            ("kind".to_owned(), ParameterValue::Categorical("ä b".to_owned())),
        ]),
        origin: Some(Origin::with_step(AlgorithmName::GaussianProcessBandit, Step::TrustRegion)),
        fallback_reason: Some("the matrix is singular".to_owned()),
        fixed_parameters: vec!["kind".to_owned()],
        client_id: format!("client {id}"),
        start: TrialStart::Given,
        create_time: at(1),
        request_key: Some(request_key(&format!("create-{id}"), 1)),
    }
}

/// The idempotency key `key` of a request with the digest `content`.
pub fn request_key(key: &str, content: u64) -> RequestKey {
    RequestKey { key: key.to_owned(), content }
}

/// A lease of `secs` seconds from [`at`] `from`.
pub fn lease(secs: u64, from: i64) -> Lease {
    Lease::starting(Duration::from_secs(secs), at(from))
}

/// Trial `id`, about to be created for a client with a lease of `lease_secs` seconds.
pub fn leased(id: u64, lease_secs: u64) -> NewTrial {
    NewTrial { start: TrialStart::Started { lease: Some(lease(lease_secs, 1)) }, ..new_trial(id) }
}

/// A measurement of `value` at `step`.
pub fn measurement(step: i64, value: f64) -> Measurement {
    Measurement {
        step,
        wall_time_secs: 1.75e9 + 0.1,
        elapsed_secs: Some(0.3),
        key: ReportKey::StandardOutput { attempt: 1, offset: u64::MAX - 7 },
        metrics: vec![
            MetricValue { metric: "accuracy".to_owned(), value },
            MetricValue { metric: "loss".to_owned(), value: -value },
        ],
    }
}

/// The start of attempt `attempt`.
pub fn begin(attempt: u64) -> TrialChange {
    begin_after(attempt, (attempt > 1).then_some(LossCause::Failure))
}

/// The start of attempt `attempt` after the loss of the one before.
pub fn begin_after(attempt: u64, previous_loss: Option<LossCause>) -> TrialChange {
    TrialChange::BeginAttempt { attempt, previous_loss, at: at(2) }
}

/// A report of attempt `attempt`.
pub fn report(attempt: u64, measurements: Vec<Measurement>) -> TrialChange {
    TrialChange::Report { attempt, measurements, at: at(2), request_key: None }
}

/// The successful end of attempt `attempt`, with a last measurement.
pub fn succeed(attempt: u64, value: f64) -> TrialChange {
    let last = measurement(100, value);
    let completion = Completion::Succeeded { final_measurement: last.clone() };
    TrialChange::Complete { attempt, measurements: vec![last], completion, at: at(3) }
}

/// The end of attempt `attempt` without a result.
pub fn fail(attempt: u64, reason: &str) -> TrialChange {
    let completion = Completion::Infeasible { reason: reason.to_owned() };
    TrialChange::Complete { attempt, measurements: Vec::new(), completion, at: at(3) }
}
