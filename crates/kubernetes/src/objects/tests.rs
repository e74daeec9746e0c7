use std::time::Duration;

use serde_json::{Value, json};
use tunesmith_domain::{Accelerators, TrialId};
use tunesmith_executor::remote::SPEC_FORMAT;
use tunesmith_executor::{AttemptPart, ExecutorJobId, Placement, Replica, Role};

use super::*;

fn spec() -> ExecutorJobSpec {
    let program = Program::Container {
        image: "trainer:1".to_owned(),
        command: vec!["python3".to_owned()],
        args: vec!["-m".to_owned(), "train".to_owned()],
        mounts: vec!["/data/jobs/j".into()],
    };
    ExecutorJobSpec {
        id: ExecutorJobId { job: "p/My_Job".parse().unwrap(), trial: Some(TrialId(3)), attempt: 2 },
        replicas: vec![Replica::new(Role::Master, 0, program)],
        training_input: Value::Null,
        master_is_chief: false,
        has_worker_pools: false,
        environment: BTreeMap::new(),
        working_directory: "/home/user/project".into(),
        program_folders: Vec::new(),
        directory: "/d".into(),
        reports: Default::default(),
        server: Default::default(),
        time_limit: Some(Duration::from_secs(600)),
        grace: Duration::from_secs(60),
        start_port: None,
        packages: None,
        part: None,
        placement: Placement::default(),
    }
}

fn settings() -> PodSettings {
    PodSettings {
        agent_image: "tunesmith:0.1".to_owned(),
        agent_path: "/usr/local/bin/tunesmith-agent".to_owned(),
        server: Some("http://tunesmith:8080".to_owned()),
        volumes: BTreeMap::from([("/models".to_owned(), "models".to_owned())]),
        ..PodSettings::default()
    }
}

fn made(spec: &ExecutorJobSpec) -> Value {
    serde_json::to_value(job("cafe", spec, &settings()).unwrap()).unwrap()
}

#[test]
fn job_runs_the_agent_once_in_the_image_of_the_trial() {
    let spec = spec();
    let job = made(&spec);
    let name = name_of("cafe", &AgentId::of(&spec));
    assert_eq!(job["metadata"]["name"], *name);
    assert_eq!(job["metadata"]["labels"]["tunesmith.dev/server"], "cafe");
    assert_eq!(job["spec"]["backoffLimit"], 0);
    assert_eq!(job["spec"]["podReplacementPolicy"], "Failed");
    let rule = json!({"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]});
    assert_eq!(job["spec"]["podFailurePolicy"]["rules"], json!([rule]));
    assert_eq!(job["spec"]["template"]["metadata"]["labels"]["tunesmith.dev/run"], *name);
    let pod = &job["spec"]["template"]["spec"];
    assert_eq!(pod["restartPolicy"], "Never");
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(pod["terminationGracePeriodSeconds"], 90);
    assert_eq!(pod["activeDeadlineSeconds"], 600 + 60 + 3600);
    let copy = &pod["initContainers"][0];
    assert_eq!(copy["image"], "tunesmith:0.1");
    assert_eq!(copy["command"], json!(["cp", "/usr/local/bin/tunesmith-agent", "/tunesmith/tunesmith-agent"]));
    let trial = &pod["containers"][0];
    assert_eq!(trial["image"], "trainer:1");
    assert_eq!(trial["command"], json!(["/tunesmith/tunesmith-agent"]));
    assert_eq!(trial["args"], json!(["agent", "--spec", "/tunesmith-spec/spec.json", "--spool", "/tunesmith-spool"]));
    assert_eq!(trial["env"][3], json!({"name": "TUNESMITH_SERVER", "value": "http://tunesmith:8080"}));
    assert_eq!(trial["terminationMessagePolicy"], "FallbackToLogsOnError");
    assert_eq!(
        trial["volumeMounts"][1],
        json!({"name": "spec", "mountPath": "/tunesmith-spec/spec.json", "subPath": "spec.json", "readOnly": true})
    );
    assert_eq!(trial["volumeMounts"][3]["mountPath"], "/models");
    // The Pod Security Standard `restricted`.
    let restricted = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    assert_eq!((&trial["securityContext"], &copy["securityContext"]), (&restricted, &restricted));
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    let volumes = pod["volumes"].as_array().unwrap();
    assert_eq!(volumes[2]["secret"]["secretName"], *name);
    assert_eq!(volumes[3]["persistentVolumeClaim"]["claimName"], "models");
}

#[test]
fn job_requests_resources() {
    let mut spec = spec();
    assert_eq!(made(&spec)["spec"]["template"]["spec"]["containers"][0]["resources"], json!({}));
    let accelerators = Some(Accelerators { kind: Some("nvidia.com/gpu".to_owned()), count: 2 });
    spec.replicas[0].resources = Resources { milli_cpus: Some(1500), memory_bytes: Some(1 << 30), accelerators };
    let pod = made(&spec)["spec"]["template"]["spec"].clone();
    assert_eq!(
        pod["containers"][0]["resources"],
        json!({"requests": {"cpu": "1500m", "memory": "1073741824"},
               "limits": {"memory": "1073741824", "nvidia.com/gpu": "2"}})
    );
    assert_eq!(pod["initContainers"][0]["resources"]["limits"], json!({"memory": "1073741824"}));
}

#[test]
fn job_that_kubernetes_cannot_run_is_refused() {
    let refused = |change: fn(&mut ExecutorJobSpec)| {
        let mut spec = spec();
        change(&mut spec);
        job("cafe", &spec, &settings()).unwrap_err()
    };
    let no_image = refused(|spec| spec.replicas[0].program = Program::Command { argv: vec!["true".to_owned()] });
    assert!(no_image.starts_with("it names no image: state masterConfig.imageUri"), "{no_image}");
    let unknown = refused(|spec| drop(spec.placement.options.insert("account".to_owned(), "a".to_owned())));
    assert!(unknown.starts_with("unknown placement option \"account\""), "{unknown}");
}

#[test]
fn specification_for_a_pod_has_the_command_of_the_container() {
    let agent = AgentSpec::new(spec(), None);
    let text = agent_spec(agent.clone()).unwrap();
    let found: AgentSpec = serde_json::from_str(&text).unwrap();
    let argv = ["python3", "-m", "train"].map(str::to_owned).to_vec();
    assert_eq!(found.spec.replicas[0].program, Program::Command { argv });
    assert_eq!(found.spec.working_directory, PathBuf::from("."));
    assert!(found.spec.environment.contains_key("CLUSTER_SPEC"));

    let mut without = agent.clone();
    let Program::Container { command, .. } = &mut without.spec.replicas[0].program else { unreachable!() };
    command.clear();
    let error = agent_spec(without).unwrap_err();
    assert!(error.starts_with("the image trainer:1 has to be started by its entry point"), "{error}");
    let mut large = agent;
    large.spec.training_input = "x".repeat(1 << 20).into();
    let error = agent_spec(large).unwrap_err();
    assert!(error.starts_with("its specification has 1024 KiB, of which Kubernetes takes 976 KiB"), "{error}");
}

#[test]
fn secret_contains_the_specification() {
    let secret = serde_json::to_value(secret("cafe", &AgentId::of(&spec()), "{}")).unwrap();
    assert_eq!(secret["metadata"]["name"], *name_of("cafe", &AgentId::of(&spec())));
    assert_eq!(secret["stringData"], json!({"spec.json": "{}"}));
}

#[test]
fn each_replica_has_a_job_with_its_own_image_and_resources() {
    let mut spec = spec();
    let program = Program::Container {
        image: "worker:1".to_owned(),
        command: vec!["work".to_owned()],
        args: Vec::new(),
        mounts: Vec::new(),
    };
    let resources = Resources { milli_cpus: Some(4000), ..Resources::default() };
    spec.replicas.push(Replica { resources, ..Replica::new(Role::Worker, 0, program) });
    spec.part = Some(AttemptPart { replica: 1, addresses: Vec::new() });
    let job = made(&spec);
    assert!(job["metadata"]["name"].as_str().unwrap().ends_with("-t3-a2-worker-0"), "{job:#}");
    let pod = &job["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["image"], "worker:1");
    assert_eq!(pod["containers"][0]["resources"]["requests"]["cpu"], "4000m");
    let host = pod["containers"][0]["env"].as_array().unwrap().iter().find(|one| one["name"] == "TUNESMITH_AGENT_HOST");
    assert_eq!(host.unwrap()["valueFrom"]["fieldRef"]["fieldPath"], "status.podIP");
    let text = agent_spec(AgentSpec::new(spec.clone(), None)).unwrap();
    let written: AgentSpec = serde_json::from_str(&text).unwrap();
    assert_eq!(written.format, SPEC_FORMAT);
    assert_eq!(written.spec.own_replicas()[0].program, Program::Command { argv: vec!["work".to_owned()] });
    // Another replica is started by its own agent.
    assert_eq!(written.spec.replicas[0].program, spec.replicas[0].program);
}
