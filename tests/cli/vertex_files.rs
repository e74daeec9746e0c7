//! Jobs in the files of Vertex AI, run from the command line.

use serde_json::Value;
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, finished};

const TRAINER: &str = r#"
mkdir -p "$(dirname "$CLOUD_ML_HP_METRIC_FILE")"
printf '{"timestamp": 1, "trial": "%s", "loss": "%s", "global_step": "1"}\n' "$CLOUD_ML_TRIAL_ID" "${1#--x=}" >> "$CLOUD_ML_HP_METRIC_FILE"
echo "$AIP_MODEL_DIR $MODE ${TF_CONFIG-none}"
"#;

/// A tuning job whose container is `container`.
fn tuning_job(counts: &str, container: &str) -> String {
    format!(
        "{counts}study_spec:\n  metrics: [{{metric_id: loss, goal: MINIMIZE}}]\n  parameters:\n  - parameter_id: x\n    \
         double_value_spec: {{min_value: 0.5, max_value: 1.5}}\ntrial_job_spec:\n  base_output_directory: \
         {{output_uri_prefix: gs://none/out}}\n  worker_pool_specs:\n  - replica_count: 1\n    machine_spec: \
         {{machine_type: n1-standard-4}}\n    container_spec: {container}\n"
    )
}

#[test]
fn file_of_a_tuning_job_runs_its_command() {
    let workspace = Workspace::new("");
    workspace.write("train.sh", TRAINER);
    let container = "{command: [sh, train.sh], env: [{name: MODE, value: 'fast-$(CLOUD_ML_TRIAL_ID)'}]}";
    workspace.write("job.yaml", &tuning_job("max_trial_count: 3\nparallel_trial_count: 2\n", container));
    let mut command = workspace.command();
    command.args(["run", "--config", "job.yaml", "--job-id", "mine", "--output", "job.json", "--data-dir", "data"]);
    let ran = finished(command.output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let job: Value = serde_json::from_str(&workspace.read("job.json")).unwrap();
    assert_eq!(job["trainingInput"]["hyperparameters"]["maxTrials"], 3);
    assert_eq!(job["trainingInput"]["tunesmith"]["vertex"]["displayName"], "job");
    let trials = job["trainingOutput"]["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 3);
    for trial in trials {
        let value: f64 = trial["hyperparameters"]["x"].as_str().unwrap().parse().unwrap();
        assert_eq!(trial["finalMetric"]["objectiveValue"].as_f64(), Some(value));
    }
    let log = workspace.read("data/jobs/mine/trials/2/attempt-1/stdout.log");
    assert_eq!(log, "gs://none/out/2/model/ fast-2 none\n");
}

#[test]
fn command_line_replaces_the_container_and_counts() {
    let workspace = Workspace::new("");
    workspace.write("train.sh", TRAINER);
    workspace.write("job.yaml", &tuning_job("", "{imageUri: gcr.io/none/trainer:1, args: [ignored]}"));
    let run = |more: &[&str]| {
        let mut command = workspace.command();
        finished(command.args(["run", "--config", "job.yaml", "--data-dir", "data"]).args(more).output().unwrap())
    };
    let missing = run(&["--", "sh", "train.sh"]);
    assert_eq!(missing.code, Some(2), "{}", missing.stderr);
    assert!(missing.stderr.contains("maxTrialCount: 0 is too small"), "{}", missing.stderr);
    let ran = run(&["--trials", "2", "--export", "trials.csv", "--", "sh", "train.sh"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(workspace.read("trials.csv").lines().count(), 3);
    let foreign = run(&["--trials", "2", "--packages", "a.whl"]);
    assert_ne!(foreign.code, Some(0));
    assert!(foreign.stderr.contains("--packages is for a training input of AI Platform"), "{}", foreign.stderr);
}

#[test]
fn errors_of_a_file_have_places() {
    let workspace = Workspace::new("");
    let validate = |text: &str| {
        workspace.write("job.yaml", text);
        finished(workspace.command().args(["validate", "--config", "job.yaml"]).output().unwrap())
    };
    let valid = validate(&tuning_job("max_trial_count: 3\n", "{command: [sh, train.sh]}"));
    assert_eq!(valid.code, Some(0), "{}", valid.stderr);
    assert!(valid.stdout.ends_with("format          HyperparameterTuningJob of Vertex AI\n"), "{}", valid.stdout);
    let custom = validate("workerPoolSpecs:\n- replicaCount: 1\n  containerSpec: {command: [sh, train.sh]}\n");
    assert!(custom.stdout.ends_with("format          CustomJobSpec of Vertex AI\n"), "{}", custom.stdout);
    let unknown = validate("workerPoolSpecs:\n- replicaCount: 1\n  containerSpec: {command: [sh], image: x}\n");
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.stderr.contains("job.yaml:3:41"), "{}", unknown.stderr);
    let text = tuning_job("max_trial_count: 3\n", "{command: [sh], env: [{name: AIP_MODEL_DIR, value: x}]}");
    let reserved = validate(&text.replace("max_value: 1.5", "max_value: 0.1"));
    assert_eq!(reserved.code, Some(2));
    for part in [
        "studySpec.parameters[0]",
        "job.yaml:5:5",
        "trialJobSpec.workerPoolSpecs[0].containerSpec.env[0].name",
        "job.yaml:12:50",
    ] {
        assert!(reserved.stderr.contains(part), "{part}: {}", reserved.stderr);
    }
}

#[test]
fn another_job_like_one_of_vertex_ai_is_a_valid_configuration() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let container = r#"{"command": ["true"], "env": [{"name": "MODE", "value": "fast"}]}"#;
    let job = format!(
        r#"{{"displayName": "first one", "jobSpec": {{"workerPoolSpecs": [{{"replicaCount": "1", "containerSpec": {container}}}]}}}}"#
    );
    let (path, header) =
        ("/vertex/v1/projects/p/locations/us-central1/customJobs", "content-type: application/json\r\n");
    let (status, made) = server.send("POST", path, header, &job);
    assert_eq!(status, 200, "{made}");
    let id = made["name"].as_str().unwrap().rsplit('/').next().unwrap();
    let (status, page) = server.text("GET", &format!("/console/projects/p/jobs/vertex_{id}"));
    assert!(
        status == 200 && page.contains("<h1>first one</h1>") && page.contains(&format!("vertex_{id}</nav>")),
        "{page}"
    );
    let (status, page) = server.text("GET", &format!("/console/new?from=p/vertex_{id}"));
    assert_eq!(status, 200, "{page}");
    assert!(page.contains("MODE: fast") && !page.contains("displayName"), "{page}");
}

/// A command in a workspace whose server or data folder finds no container engine.
fn without_containers(workspace: &Workspace, arguments: &[&str]) -> tunesmith_testing::Finished {
    let folder = workspace.path().join("bin");
    let _ = std::fs::create_dir(&folder);
    for name in ["sh", "mkdir", "dirname", "cat"] {
        let _ = std::os::unix::fs::symlink(format!("/bin/{name}"), folder.join(name));
    }
    finished(workspace.command().args(arguments).env("PATH", folder).output().unwrap())
}

#[test]
fn command_lines_of_gcloud_run_custom_jobs() {
    let workspace = Workspace::new("");
    workspace.write("train.sh", "echo \"$AIP_MODEL_DIR $CLOUD_ML_REGION $*\"\n");
    let pool =
        "--worker-pool-spec=machine-type=n1-standard-4,replica-count=1,container-image-uri=gcr.io/none/trainer:1";
    let ran = without_containers(
        &workspace,
        &[
            "jobs",
            "submit",
            "custom",
            "--display-name=digits",
            "--region=us-central1",
            pool,
            "--command=sh,train.sh",
            "--args=--rate=0.5,two",
            "--labels=team=vision",
            "--service-account=a@b",
            "--data-dir=data",
            "--stream-logs",
            "--format=json",
        ],
    );
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains(" us-central1 --rate=0.5 two"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("\"team\": \"vision\"") && ran.stdout.contains("\"displayName\": \"digits\""),
        "{ran:?}"
    );
    assert!(ran.stderr.contains("serviceAccount"), "{}", ran.stderr);
    // The flags override the file.
    let spec = "workerPoolSpecs:\n- replicaCount: 1\n  containerSpec: {command: [sh, none.sh], args: [old]}\n\
                baseOutputDirectory: {outputUriPrefix: out}\n";
    workspace.write("spec.yaml", spec);
    let flags = ["jobs", "submit", "custom", "--config=spec.yaml", "--data-dir=data", "--command=sh,train.sh"];
    let ran = without_containers(&workspace, &[&flags[..], &["--args=new", "--stream-logs"]].concat());
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stdout.contains("/out/model/  new\n") || ran.stdout.contains("out/model/ local new\n"),
        "{}",
        ran.stdout
    );
    for (arguments, part) in [
        (&["--display-name=x"][..], "--config <FILE>"),
        (&["--display-name=x", "--worker-pool-spec=speed=1"], "unknown key \"speed\""),
        (&["--worker-pool-spec=container-image-uri=x"], "give --display-name"),
        (&["--display-name=x", "--worker-pool-spec=replica-count=2,container-image-uri=x"], "replicaCount"),
    ] {
        let refused =
            without_containers(&workspace, &[&["jobs", "submit", "custom", "--data-dir=data"], arguments].concat());
        assert_ne!(refused.code, Some(0));
        assert!(refused.stderr.contains(part), "{arguments:?}: {}", refused.stderr);
    }
}

#[test]
fn command_lines_of_gcloud_run_tuning_jobs_on_a_server() {
    let workspace = Workspace::new("");
    workspace.write("train.sh", TRAINER);
    let container = "{command: [sh, train.sh]}";
    workspace.write("job.yaml", &tuning_job("max_trial_count: 9\n", container));
    let server = Server::start(&workspace, &[]);
    let address = format!("http://{}", server.address);
    let flags = ["jobs", "submit", "hp-tuning", "--config=job.yaml", "--display-name=tune", "--server", &address];
    let more =
        ["--max-trial-count=3", "--parallel-trial-count=2", "--algorithm=random-search", "--region=r", "--stream-logs"];
    let mut command = workspace.command();
    let ran = finished(command.args(flags).args(more).output().unwrap());
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let name = ran.stdout.lines().find_map(|line| line.strip_prefix("name: ")).unwrap();
    assert!(name.starts_with("projects/local/locations/r/hyperparameterTuningJobs/"), "{name}");
    let (status, job) = server.send("GET", &format!("/vertex/v1/{name}"), "", "");
    assert_eq!((status, &job["displayName"], &job["maxTrialCount"]), (200, &"tune".into(), &3.into()), "{job}");
    assert_eq!(job["studySpec"]["algorithm"], "RANDOM_SEARCH");
    assert_eq!(job["trials"].as_array().unwrap().len(), 3, "{job}");
    let custom =
        finished(workspace.command().args(["jobs", "submit", "custom", "--config=job.yaml"]).output().unwrap());
    assert!(custom.stderr.contains("use `jobs submit hp-tuning`"), "{}", custom.stderr);
}
