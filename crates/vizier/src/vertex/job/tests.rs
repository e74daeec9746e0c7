use serde_json::json;
use tunesmith_domain::{Job, JobFields, JobId, JobState, Role, StudyId, Variable};

use super::*;

const TUNING: &str = "google.cloud.aiplatform.v1.HyperparameterTuningJob";
const CUSTOM: &str = "google.cloud.aiplatform.v1.CustomJob";

fn message<M: Message + Name + Default>(name: &str, value: &Value) -> M {
    let read = json::read(value.to_string().as_bytes(), json::descriptor(name).unwrap(), "");
    read.unwrap().transcode_to().unwrap()
}

fn job_context(machines: &MachineMap) -> JobContext<'_> {
    JobContext { machines, location: "us-central1", working_directory: "/w".into(), job_dir_base: None }
}

fn custom(value: &Value) -> Result<JobOfVertex, Vec<FieldViolation>> {
    custom_job(&message(CUSTOM, value), &job_context(&MachineMap::published()))
}

fn container() -> Value {
    json!({"imageUri": "x/y:1", "command": ["python"], "args": ["a"], "env": [{"name": "A", "value": "1"}]})
}

/// Body that the Python SDK sends for a tuning job.
fn tuning() -> Value {
    json!({
        "displayName": "t1", "maxTrialCount": 4, "parallelTrialCount": 2, "labels": {"a": "b"},
        "studySpec": {
            "metrics": [{"metricId": "acc", "goal": 1}], "measurementSelectionType": 2,
            "parameters": [
                {"parameterId": "lr", "doubleValueSpec": {"minValue": 0.001, "maxValue": 1.0}, "scaleType": 2},
                {"parameterId": "model", "categoricalValueSpec": {"values": ["a", "b"]}, "conditionalParameterSpecs": [
                    {"parameterSpec": {"parameterId": "n", "integerValueSpec": {"minValue": "1", "maxValue": "8"}},
                        "parentCategoricalValues": {"values": ["a"]}},
                    {"parameterSpec": {"parameterId": "n", "integerValueSpec": {"minValue": "10", "maxValue": "80"}},
                        "parentCategoricalValues": {"values": ["b"]}}]},
            ]},
        "trialJobSpec": {
            "workerPoolSpecs": [{"machineSpec": {"machineType": "n1-standard-4", "acceleratorType": 5, "acceleratorCount": 1},
                "replicaCount": "1", "containerSpec": container()}],
            "scheduling": {"timeout": "60s", "strategy": 4, "maxWaitDuration": "0s"},
            "baseOutputDirectory": {"outputUriPrefix": "gs://b/aiplatform-custom-job-2026-11-25-14:18:57.917"}},
    })
}

#[test]
fn tuning_job_of_the_sdk_becomes_a_job_with_its_study() {
    let machines = MachineMap::published();
    let job = tuning_job(&message(TUNING, &tuning()), &job_context(&machines)).unwrap();
    let plan = &job.plan;
    assert_eq!((plan.max_trials, plan.max_parallel_trials, plan.max_failed_trials), (4, 2, 0));
    assert_eq!((plan.metric_tag.as_str(), plan.args.len()), ("acc", 0));
    let (image, command, args) = ("x/y:1".to_owned(), vec!["python".to_owned()], vec!["a".to_owned()]);
    assert_eq!(plan.program, ProgramPlan::Container { image, command, args });
    assert_eq!(plan.variables, [Variable { name: "A".into(), value: "1".into() }]);
    assert_eq!(plan.max_running_time.unwrap().as_secs(), 60);
    let TrainerContract::VertexAi { output_directory, flags, .. } = &plan.contract else { panic!("another contract") };
    assert_eq!(output_directory.as_deref(), Some("gs://b/aiplatform-custom-job-2026-11-25-14:18:57.917"));
    assert_eq!(flags.iter().collect::<Vec<_>>(), [(&"n#2".to_owned(), &"n".to_owned())]);
    let study = job.study.as_ref().unwrap();
    assert_eq!(study.problem.search_space().parameters().len(), 4);
    assert_eq!(study.final_measurement, tunesmith_domain::FinalMeasurement::Best);
    let input = serde_json::to_value(&job.training_input).unwrap();
    assert_eq!(input["hyperparameters"]["hyperparameterMetricTag"], "acc");
    assert_eq!((&input["region"], &input["masterType"]), (&json!("us-central1"), &json!("n1-standard-4")));
    assert_eq!(input["tunesmith"]["preemptible"], true);
    assert_eq!(input["tunesmith"]["vertex"]["displayName"], "t1");
}

#[test]
fn message_of_a_submitted_job_is_what_was_sent() {
    let machines = MachineMap::published();
    let converted = tuning_job(&message(TUNING, &tuning()), &job_context(&machines)).unwrap();
    let id = JobId::of_vertex("p", "77").unwrap();
    assert_eq!((id.as_str(), id.vertex_id()), ("p/vertex_77", "77"));
    let fields = JobFields {
        training_input: converted.document().unwrap(),
        study: Some(StudyId::from(&id)),
        state: JobState::Failed,
        error_message: "no".to_owned(),
        labels: [("a".to_owned(), "b".to_owned())].into(),
        ..JobFields::new(id, converted.plan, "2026-11-27T10:00:00Z".parse().unwrap())
    };
    let job = Job::restore(fields);
    assert_eq!(location_of_job(&job), Some("us-central1"));
    let written = message_of_tuning_job(&job, None, Vec::new(), "us-central1").unwrap();
    let written: Value = serde_json::from_slice(&json::write(&written, TUNING).unwrap()).unwrap();
    assert_eq!(written["name"], "projects/p/locations/us-central1/hyperparameterTuningJobs/77");
    assert_eq!(
        (&written["state"], &written["error"]),
        (&json!("JOB_STATE_FAILED"), &json!({"code": 3, "message": "no"}))
    );
    assert_eq!((&written["maxTrialCount"], &written["labels"]["a"]), (&json!(4), &json!("b")));
    let read: wire::HyperparameterTuningJob = message(TUNING, &written);
    let sent: wire::HyperparameterTuningJob = message(TUNING, &tuning());
    assert_eq!((read.study_spec, read.trial_job_spec), (sent.study_spec, sent.trial_job_spec));
}

#[test]
fn pools_are_the_replicas_of_a_job() {
    let python = |args: &[&str]| json!({"packageUris": ["gs://b/p.tar.gz"], "pythonModule": "t.task", "args": args});
    let pool = |spec: Value, count: &str| json!({"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": count, "pythonPackageSpec": spec});
    let pools = json!([pool(python(&["a"]), "1"), pool(python(&["b"]), "2"), {}, pool(python(&["c"]), "1")]);
    let job = custom(&json!({"displayName": "c", "jobSpec": {"workerPoolSpecs": pools}})).unwrap();
    let groups: Vec<(Role, u32)> = job.plan.replicas.iter().map(|group| (group.role, group.count)).collect();
    assert_eq!(groups, [(Role::Worker, 2), (Role::Evaluator, 1)]);
    let args = |program: &ProgramPlan| match program {
        ProgramPlan::PythonModule { args, .. } => args.clone(),
        _ => panic!("another program"),
    };
    assert_eq!(args(&job.plan.program), ["a"]);
    assert_eq!(args(job.plan.replicas[0].program.as_ref().unwrap()), ["b"]);
    assert_eq!(args(job.plan.replicas[1].program.as_ref().unwrap()), ["c"]);
    let mut job = job;
    let packages: Vec<String> = job.packages().map(|(path, _)| path).collect();
    assert_eq!(packages, ["jobSpec.workerPoolSpecs[0].pythonPackageSpec.packageUris[0]"]);
}

#[test]
fn violations_have_paths_of_the_message() {
    let fields = |value: Value| {
        let found = custom(&value).unwrap_err();
        found.into_iter().map(|it| it.field).collect::<Vec<_>>()
    };
    assert_eq!(fields(json!({})), ["displayName", "jobSpec"]);
    let pool = |more: Value| {
        let mut pool = json!({"replicaCount": 1, "containerSpec": container()});
        pool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"displayName": "c", "jobSpec": {"workerPoolSpecs": [pool]}})
    };
    let place = "jobSpec.workerPoolSpecs[0]";
    assert_eq!(fields(pool(json!({"replicaCount": 2}))), [format!("{place}.replicaCount")]);
    assert_eq!(fields(pool(json!({"containerSpec": {}}))), [format!("{place}.containerSpec.imageUri")]);
    let env = json!([{"name": "AIP_MODEL_DIR"}, {"name": "1A"}, {"name": "B"}, {"name": "B"}]);
    let env = pool(json!({"containerSpec": {"imageUri": "i", "env": env}}));
    let places = [0, 1, 3].map(|index| format!("{place}.containerSpec.env[{index}].name"));
    assert_eq!(fields(env), places);
    let two = json!([
        {"replicaCount": 1, "machineSpec": {"machineType": "n1-standard-4"}, "containerSpec": container()},
        {"replicaCount": 1, "containerSpec": container()}]);
    let two = json!({"displayName": "c", "jobSpec": {"workerPoolSpecs": two}});
    assert_eq!(fields(two), ["jobSpec.workerPoolSpecs[1].machineSpec.machineType"]);
    let image = json!({"imageUri": "gcr.io/cloud-ml-algos/boosted_trees:latest"});
    let mut built_in = pool(json!({"containerSpec": image}));
    built_in["jobSpec"]["baseOutputDirectory"] = json!({"outputUriPrefix": "/models"});
    assert!(custom(&built_in).unwrap_err()[0].description.contains("names a built-in algorithm"));
    let no_counts = json!({"displayName": "t", "studySpec": {}, "trialJobSpec": {}});
    let found = tuning_job(&message(TUNING, &no_counts), &job_context(&MachineMap::published())).unwrap_err();
    let found: Vec<&str> = found.iter().map(|it| it.field.as_str()).collect();
    assert_eq!(found, ["maxTrialCount", "parallelTrialCount", "studySpec.parameters", "trialJobSpec.workerPoolSpecs"]);
}

#[test]
fn job_of_another_api_is_described_by_its_plan() {
    let plan = tunesmith_api::ai_platform::plan::job_plan(
        &serde_json::from_value(json!({
            "masterConfig": {"imageUri": "i", "containerCommand": ["run"]}, "args": ["x"], "jobDir": "gs://b/j",
            "scaleTier": "CUSTOM", "masterType": "n1-standard-4", "workerType": "n1-standard-8", "workerCount": "2"}))
        .unwrap(),
        &CommandLine::default(),
    )
    .unwrap();
    let fields = JobFields::new("p/census".parse().unwrap(), plan, jiff::Timestamp::UNIX_EPOCH);
    let job = Job::restore(fields);
    let written = message_of_custom_job(&job, "europe-west4").unwrap();
    assert_eq!(written.name, "projects/p/locations/europe-west4/customJobs/census");
    assert_eq!(written.display_name, "census");
    let spec: Value =
        serde_json::from_slice(&json::write(&written, CUSTOM).unwrap()).map(|it: Value| it["jobSpec"].clone()).unwrap();
    assert_eq!(spec["baseOutputDirectory"]["outputUriPrefix"], "gs://b/j");
    assert_eq!(
        spec["workerPoolSpecs"][0]["containerSpec"],
        json!({"imageUri": "i", "command": ["run"], "args": ["x"]})
    );
    assert_eq!(spec["workerPoolSpecs"][1]["replicaCount"], "2");
}
