use proptest::prelude::*;
use tunesmith_algorithms::early_stopping::{AshaRule, DecayCurveRule, MedianRule};
use tunesmith_algorithms::problem::{AlgorithmName, Origin, Step};

use super::*;
use tunesmith_contract::samples;
use tunesmith_domain::{
    Algorithm, AttemptLocation, JobPlan, MachinePlan, Measurement, MetricValue, NewTrial, ReplicaNode, ReportKey,
    Resources, StoppingRule, StoppingRuleKind, Study, StudyFields, Trial, TrialChange,
};

fn bits(measurements: &[Measurement]) -> Vec<String> {
    measurements
        .iter()
        .map(|m| {
            let metrics: Vec<_> = m.metrics.iter().map(|v| (&v.metric, v.value.to_bits())).collect();
            let (wall, elapsed) = (m.wall_time_secs.to_bits(), m.elapsed_secs.map(f64::to_bits));
            format!("{} {wall} {elapsed:?} {:?} {metrics:?}", m.step, m.key)
        })
        .collect()
}

fn measurement() -> impl Strategy<Value = Measurement> {
    let key = prop_oneof![
        any::<u64>().prop_map(|attempt| ReportKey::MetricFile { attempt }),
        "[a-zé/]{0,4}".prop_map(|folder| ReportKey::EventFile { folder: folder.into() }),
        any::<(u64, u64)>().prop_map(|(attempt, offset)| ReportKey::StandardOutput { attempt, offset }),
        Just(ReportKey::Http),
    ];
    let double = || any::<u64>().prop_map(f64::from_bits);
    let metrics = prop::collection::vec(("[a-zé/]{0,4}", double()), 0..4);
    (any::<i64>(), double(), prop::option::of(double()), key, metrics).prop_map(
        |(step, wall_time_secs, elapsed_secs, key, metrics)| Measurement {
            step,
            wall_time_secs,
            elapsed_secs,
            key,
            metrics: metrics.into_iter().map(|(metric, value)| MetricValue { metric, value }).collect(),
        },
    )
}

proptest! {
    #[test]
    fn chunks_keep_every_bit(measurements in prop::collection::vec(measurement(), 0..20)) {
        let chunks = encode_chunks(7, &measurements);
        let decoded: Vec<_> = chunks.iter().flat_map(|(_, chunk)| decode_chunk(chunk).unwrap()).collect();
        prop_assert_eq!(bits(&decoded), bits(&measurements));
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_chunk(&bytes);
        let _ = decode_trial(&bytes);
        let _ = Progress::decode(&bytes);
    }
}

#[test]
fn a_long_curve_is_split_into_numbered_chunks_of_about_25_bytes_per_measurement() {
    let metrics = vec![MetricValue { metric: "training/hptuning/metric".into(), value: 0.5 }];
    let one = Measurement { step: 1, wall_time_secs: 1.0, elapsed_secs: None, key: ReportKey::Http, metrics };
    let chunks = encode_chunks(10, &vec![one; 2500]);
    assert_eq!(chunks.iter().map(|(first, _)| *first).collect::<Vec<_>>(), [10, 1034, 2058]);
    let size_bytes: usize = chunks.iter().map(|(_, chunk)| chunk.len()).sum();
    assert!(size_bytes < 2500 * 26, "{size_bytes}");
}

#[test]
fn the_chunk_format_is_as_documented() {
    let one = Measurement {
        step: 258,
        wall_time_secs: 0.0,
        elapsed_secs: Some(1.0),
        key: ReportKey::EventFile { folder: "d".into() },
        metrics: vec![MetricValue { metric: "m".into(), value: f64::INFINITY }],
    };
    let key = ReportKey::StandardOutput { attempt: 3, offset: 4 };
    let other = Measurement { step: 1, elapsed_secs: None, key, metrics: Vec::new(), ..one.clone() };
    let expected = [
        &[1, 2, 2, 1, b'd', 1, b'm'][..],
        &[0x82, 2],
        &[0; 8],
        &[0x81],
        &[0, 0, 0, 0, 0, 0, 0xf0, 0x3f],
        &[0],
        &[1, 1],
        &[0, 0, 0, 0, 0, 0, 0xf0, 0x7f],
        &[1],
        &[0; 8],
        &[3],
        &[3, 4],
        &[0],
    ]
    .concat();
    assert_eq!(encode_chunks(0, &[one, other]), [(0, expected)]);
}

#[test]
fn a_trial_is_read_with_and_without_its_origin() {
    let trial = Trial::new(samples::new_trial(1)).unwrap();
    let bytes = encode_trial(&trial);
    let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let origin = serde_json::json!({"algorithm": "GAUSSIAN_PROCESS_BANDIT", "step": "TRUST_REGION"});
    assert_eq!(json["origin"], origin);
    assert_eq!(decode_trial(&bytes), Ok(trial));
    let trial = Trial::new(NewTrial { origin: None, ..samples::new_trial(1) }).unwrap();
    assert_eq!(decode_trial(&encode_trial(&trial)), Ok(trial));
}

#[test]
fn folders_of_metrics_are_kept() {
    let mut trial = Trial::new(samples::new_trial(1)).unwrap();
    let of_folder = |folder: &str| Measurement {
        key: ReportKey::EventFile { folder: folder.into() },
        ..samples::measurement(1, 0.5)
    };
    trial.apply(samples::report(0, vec![of_folder("train"), of_folder("eval")])).unwrap();
    assert_eq!(trial.metric_folders.taken("loss").map(|folder| &**folder), Some("eval"));
    assert_eq!(decode_trial(&encode_trial(&trial)), Ok(trial));
}

#[test]
fn nodes_of_a_trial_are_stored() {
    let mut trial = Trial::new(samples::new_trial(1)).unwrap();
    trial.apply(samples::begin(1)).unwrap();
    let nodes = vec![ReplicaNode::of_all("n1"), ReplicaNode { task: Some("worker-0".into()), node: "n2".into() }];
    trial.apply(TrialChange::Locate(AttemptLocation { attempt: 1, executor: Some("gpu".into()), nodes })).unwrap();
    let bytes = encode_trial(&trial);
    assert_eq!(decode_trial(&bytes), Ok(trial));
    let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let nodes = serde_json::json!([{"node": "n1"}, {"task": "worker-0", "node": "n2"}]);
    let expected = serde_json::json!([{"attempt": 1, "executor": "gpu", "nodes": nodes}]);
    assert_eq!(json["places"], expected);
}

#[test]
fn every_name_of_an_origin_is_stored_as_it_is_displayed() {
    let steps = [
        Step::Start,
        Step::SourceStudies,
        Step::Confirmation,
        Step::TrustRegion,
        Step::WholeSpace,
        Step::Model,
        Step::Unused,
    ];
    let algorithms = [
        AlgorithmName::GaussianProcessBandit,
        AlgorithmName::TreeStructuredParzenEstimator,
        AlgorithmName::CmaEs,
        AlgorithmName::RandomSearch,
        AlgorithmName::QuasiRandomSearch,
        AlgorithmName::GridSearch,
        AlgorithmName::InitialTrials,
        AlgorithmName::Repeats,
    ];
    for algorithm in algorithms {
        for origin in [Origin::of(algorithm)].into_iter().chain(steps.map(|step| Origin::with_step(algorithm, step))) {
            let trial = Trial::new(NewTrial { origin: Some(origin), ..samples::new_trial(1) }).unwrap();
            let bytes = encode_trial(&trial);
            let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            // Records, JSON on the wire and text have the same names.
            assert_eq!(json["origin"], serde_json::to_value(origin).unwrap());
            assert_eq!(json["origin"]["algorithm"], algorithm.as_str());
            assert_eq!(json["origin"]["step"].as_str(), origin.step.map(Step::as_str));
            assert_eq!(decode_trial(&bytes).unwrap().origin, Some(origin));
        }
    }
}

#[test]
fn a_record_of_a_later_version_is_not_reported_as_damaged() {
    assert_eq!(decode_trial(br#"{"v":2,"other":true}"#), Err(RecordError::TooNew { found: 2, known: 1 }));
    assert_eq!(decode_chunk(&[9]), Err(RecordError::TooNew { found: 9, known: 1 }));
    assert!(matches!(decode_trial(br#"{"v":1}"#), Err(RecordError::Malformed { .. })));
}

#[test]
fn a_flipped_bit_or_another_key_changes_the_checksum() {
    let sum = checksum(b"key", b"body");
    assert_eq!(verify(b"key", b"body", sum), Ok(()));
    assert!(verify(b"kez", b"body", sum).is_err());
    assert!(verify(b"key", b"bodz", sum).is_err());
}

#[test]
fn the_form_of_a_plan_does_not_change() {
    let stored = concat!(
        r#"{"args":["--data=d"],"grace":{"nanos":0,"secs":30},"job_dir":"gs://bucket/job","master_is_chief":true,"#,
        r#""max_failed_trials":1,"max_lost_attempts":3,"max_parallel_trials":2,"#,
        r#""max_running_time":{"nanos":500,"secs":3600},"max_trials":18446744073709551615,"#,
        r#""max_wait_time":{"nanos":0,"secs":60},"metric_from_stdout":true,"metric_tag":"accuracy","priority":-1,"#,
        r#""program":{"PythonModule":{"module":"trainer.task","package_path":"/source","#,
        r#""package_uris":["trainer-1.0.tar.gz"],"requirements":["numpy"]}},"#,
        r#""replicas":[{"count":2,"program":null,"role":"Worker"},"#,
        r#"{"count":1,"program":{"Container":{"args":["-m","é\n\u0000"],"command":["python"],"image":"image:1"}},"#,
        r#""role":"ParameterServer"},{"count":1,"program":{"Command":{"argv":["true"]}},"role":"Evaluator"}],"#,
        r#""trial_time_limit":null,"working_directory":"/work"}"#,
    );
    let further_tags = Vec::new();
    let (metric_folder, job_dir_flag) = (None, None);
    let machines = MachinePlan::default();
    let mut plan = JobPlan { machines, principal: None, further_tags, metric_folder, job_dir_flag, ..samples::plan() };
    plan.replicas.iter_mut().for_each(|group| group.resources = Resources::default());
    assert_eq!(encode_plan(&plan).to_string(), stored);
    assert_eq!(plan::decode_plan(serde_json::from_str(stored).unwrap()), Ok(plan));
}

#[test]
fn machines_of_a_plan_are_stored() {
    let encoded = encode_plan(&samples::plan());
    assert_eq!(encoded["machines"]["resources"]["accelerators"], serde_json::json!({"kind": "v100", "count": 2}));
    assert_eq!((&encoded["metric_folder"], &encoded["job_dir_flag"]), (&"validation".into(), &"output-dir".into()));
    assert_eq!(encoded["further_tags"], serde_json::json!(["loss", "latency"]));
    assert_eq!(plan::decode_plan(encoded), Ok(samples::plan()));
}

#[test]
fn a_plan_that_cannot_be_read_is_kept_in_the_record_of_its_job() {
    let mut newer = encode_plan(&samples::plan());
    newer["v"] = 2.into();
    for (document, reason) in [(newer, "it has version 2"), (serde_json::json!(["python"]), "invalid type")] {
        let stored = String::from_utf8(encode_job(&samples::job("j"))).unwrap();
        let changed = stored.replace(&encode_plan(&samples::plan()).to_string(), &document.to_string());
        assert_ne!(changed, stored);
        let job = decode_job(changed.as_bytes()).unwrap();
        let unreadable = job.plan.as_ref().unwrap_err();
        assert_eq!(unreadable.document, document);
        assert!(unreadable.reason.starts_with(reason), "{}", unreadable.reason);
        let json: serde_json::Value = serde_json::from_slice(&encode_job(&job)).unwrap();
        assert_eq!(json["plan"], document);
    }
}

#[test]
fn every_algorithm_and_threshold_of_a_study_is_stored() {
    let study = samples::conditional_study("p/l/s");
    let rules = [
        StoppingRuleKind::Median.into(),
        StoppingRule::Median(MedianRule::new(2, None, 0.5).unwrap()),
        StoppingRule::DecayCurve(DecayCurveRule::new(2, Some(1), 0.0, 0.5).unwrap()),
        StoppingRule::Asha(AshaRule::new(2, Some(7)).unwrap()),
    ];
    let algorithms = [Algorithm::Tpe, Algorithm::CmaEs, Algorithm::QuasiRandomSearch, Algorithm::Automatic];
    for (rule, algorithm) in rules.into_iter().zip(algorithms) {
        let fields = StudyFields { stopping_rule: Some(rule), algorithm, ..(*study).clone() };
        let study = Study::restore(fields);
        let (bytes, progress) = encode_study(&study);
        let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(json["algorithm"], study.algorithm.as_str());
        assert_eq!(decode_study(&bytes, progress).unwrap(), study);
    }
    let (bytes, progress) = encode_study(&study);
    assert_eq!(decode_study(&bytes, progress), Ok(study));
    assert!(decode_study(br#"{"v":1}"#, progress).is_err());
}

#[test]
fn source_studies_are_stored_by_relation() {
    let fields = StudyFields {
        continued_studies: vec!["one".parse().unwrap()],
        related_studies: vec!["two".parse().unwrap(), "three".parse().unwrap()],
        ..(*samples::study("p/l/s")).clone()
    };
    let study = Study::restore(fields);
    let (bytes, progress) = encode_study(&study);
    assert_eq!(decode_study(&bytes, progress), Ok(study.clone()));
    let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(json["related_studies"], serde_json::json!(["two", "three"]));

    // A record from before studies could be related.
    let text = String::from_utf8(bytes).unwrap();
    let before =
        text.replace(r#""continued_studies":["one"],"related_studies":["two","three"]"#, r#""prior_studies":["one"]"#);
    assert!(before.contains("prior_studies"), "{before}");
    let expected = StudyFields { related_studies: Vec::new(), ..(*study).clone() };
    assert_eq!(decode_study(before.as_bytes(), progress), Ok(Study::restore(expected)));
}
