use super::*;

#[test]
fn specification_without_requests_requests_nothing() {
    let stored = serde_json::json!({
        "id": {"job": "census", "trial": 1, "attempt": 2},
        "replicas": [{"role": "Master", "index": 0, "program": {"Command": {"argv": ["true"]}}}],
        "training_input": {},
        "master_is_chief": false,
        "environment": {},
        "working_directory": "/",
        "program_folders": [],
        "directory": "/nowhere",
        "reports": ReportSources::default(),
        "server": ServerAccess::default(),
        "time_limit": null,
        "grace": {"secs": 1, "nanos": 0},
    });
    let mut spec: ExecutorJobSpec = serde_json::from_value(stored).unwrap();
    assert_eq!(spec.replicas, [Replica::new(Role::Master, 0, Program::Command { argv: vec!["true".to_owned()] })]);
    assert!(spec.placement.is_empty());

    let accelerators = Accelerators { kind: Some("v100".to_owned()), count: 2 };
    spec.replicas[0].resources =
        Resources { milli_cpus: Some(500), memory_bytes: None, accelerators: Some(accelerators) };
    spec.replicas[0].devices = Some(vec!["0".to_owned(), "GPU-1".to_owned()]);
    spec.placement.queue = Some("gpu".to_owned());
    spec.placement.options.insert("account".to_owned(), "ml".to_owned());
    let written = serde_json::to_value(&spec).unwrap();
    assert_eq!(
        written["replicas"][0]["resources"],
        serde_json::json!({"milli_cpus": 500, "accelerators": {"kind": "v100", "count": 2}})
    );
    assert_eq!(serde_json::from_value::<ExecutorJobSpec>(written).unwrap(), spec);
}
