//! Jobs that cannot be run: refused when they are submitted, or failed with the reason, and never in the way of others.

use serde_json::{Value, json};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Finished, Workspace, finished};

use crate::object_stores::Objects;

const CONFIG: &str = "
hyperparameters:
  goal: MAXIMIZE
  hyperparameterMetricTag: acc
  maxTrials: 9
  params: [{parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}]
tunesmith: {metricFromStdout: true}
";

fn tunesmith(workspace: &Workspace, args: &[&str]) -> Finished {
    finished(workspace.command().args(args).output().unwrap())
}

/// The jobs of the data folder.
fn listed(workspace: &Workspace) -> Value {
    let list = tunesmith(workspace, &["jobs", "list", "--format", "json"]).expect(0);
    serde_json::from_str(&list.stdout).unwrap()
}

fn create(server: &Server, id: &str, command: &[&str], job_dir: &str) -> (u16, Value) {
    let input = json!({"masterConfig": {"containerCommand": command}, "jobDir": job_dir});
    server.post("/v1/projects/p/jobs", &json!({"jobId": id, "trainingInput": input}))
}

/// The job `id` after its end.
fn ended(server: &Server, id: &str) -> Value {
    server.until_ended(&format!("/v1/projects/p/jobs/{id}"))
}

#[test]
fn run_refuses_what_cannot_be_run_before_it_creates_a_job() {
    let workspace = Workspace::new(CONFIG);
    let cases: [(&[&str], &str); 6] = [
        (&["--", "no-such-program"], "the command \"no-such-program\" is not on the PATH"),
        (&["--", "./train.sh"], "the command \"./train.sh\" does not exist"),
        (&["--job-dir", "/proc/nope", "--", "true"], "the job folder /proc/nope cannot be created: "),
        (&["--package-path", "absent", "--module-name", "m"], "absent"),
        (&["--output", "absent/job.json", "--", "true"], "--output absent/job.json: the file cannot be written"),
        (&["--export", ".", "--", "true"], "--export .: it is a folder, not a file"),
    ];
    for (args, message) in cases {
        let args: Vec<&str> = ["run", "--config", "hptuning_config.yaml"].iter().chain(args).copied().collect();
        let refused = tunesmith(&workspace, &args).expect(2);
        assert!(refused.stderr.contains(message), "{args:?}: {}", refused.stderr);
        assert!(!refused.stderr.contains(" created, in "), "{args:?}: {}", refused.stderr);
    }
    // The first run made the data folder, without a job.
    assert_eq!(listed(&workspace), json!([]));
}

#[test]
fn submission_to_a_data_folder_refuses_a_mistyped_command() {
    let workspace = Workspace::new("");
    let refused = tunesmith(&workspace, &["jobs", "submit", "training", "j", "--data-dir", "data", "--", "pyhton3"]);
    let refused = refused.expect(2);
    assert!(refused.stderr.contains("the command \"pyhton3\" is not on the PATH"), "{}", refused.stderr);
}

#[test]
fn server_refuses_what_cannot_be_run_and_names_the_fields() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let (status, answer) = create(&server, "j", &["no-such-program"], "/proc/nope");
    assert_eq!(status, 400, "{answer}");
    let violations = answer["error"]["details"][0]["fieldViolations"].as_array().unwrap();
    let fields: Vec<&str> = violations.iter().filter_map(|violation| violation["field"].as_str()).collect();
    assert_eq!(fields, ["trainingInput.masterConfig.containerCommand", "trainingInput.jobDir"], "{answer}");
    let (status, answer) = server.post(
        "/v1/projects/p/jobs",
        &json!({"jobId": "j", "trainingInput": {"packageUris": ["/absent/p-1.tar.gz"], "pythonModule": "m"}}),
    );
    assert_eq!((status, &answer["error"]["status"]), (400, &json!("INVALID_ARGUMENT")), "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("/absent/p-1.tar.gz"), "{answer}");
    assert_eq!(server.get("/v1/projects/p/jobs/j").0, 404);
}

#[test]
fn job_folder_that_is_lost_after_the_submission_fails_its_job_and_no_other() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &["--job-slots", "1"]);
    let release = workspace.path().join("release");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &release,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    assert_eq!(create(&server, "first", &["sh", "-c", "read line < release"], "").0, 200);
    let models = workspace.path().join("models");
    let text = models.display().to_string();
    assert_eq!(create(&server, "bad", &["true"], &text).0, 200);
    assert_eq!(create(&server, "good", &["true"], "").0, 200);
    std::fs::remove_dir(&models).unwrap();
    std::fs::write(&models, "a file").unwrap();
    std::fs::write(&release, "go\n").unwrap();
    let bad = ended(&server, "bad");
    assert_eq!(bad["state"], "FAILED", "{bad}");
    let message = bad["errorMessage"].as_str().unwrap();
    assert!(message.contains(&format!("its job folder {text} cannot be created: ")), "{message}");
    assert_eq!(ended(&server, "good")["state"], "SUCCEEDED");
}

#[test]
fn run_ends_a_job_whose_folder_is_lost_during_the_run() {
    let workspace = Workspace::new(CONFIG);
    workspace.write("train.sh", "echo acc=1; rm -rf models; echo a file > models\n");
    let args = ["--parallel", "1", "--job-dir", "models", "--", "sh", "train.sh"];
    let run = workspace.run(args).expect(1);
    assert_eq!(workspace.job()["state"], "FAILED", "{}", run.stderr);
    let reasons = workspace.column("reason");
    assert!(reasons[1].starts_with("could not be started: its job folder "), "{reasons:?}");
}

#[test]
fn job_folder_in_an_object_store_is_probed_before_a_job_is_created() {
    let (workspace, objects) = (Workspace::new(CONFIG), Objects::start(false));
    let run = |job_dir: &str| {
        let mut command = workspace.command();
        command.envs(objects.variables()).args(["run", "--config", "hptuning_config.yaml"]);
        finished(command.args(["--job-dir", job_dir, "--", "sh", "-c", "echo acc=1"]).output().unwrap())
    };
    for url in ["s3://absent/out", "gs://absent/out"] {
        let refused = run(url).expect(2);
        let message = format!("the job folder {url} cannot be written: the bucket \"absent\" does not exist");
        assert!(refused.stderr.contains(&message), "{}", refused.stderr);
    }
    let refused = run("s3://models/a//out").expect(2);
    assert!(refused.stderr.contains("the job folder \"s3://models/a//out\" is not an address"), "{}", refused.stderr);
    assert_eq!(listed(&workspace), json!([]));
    run("s3://models/out").expect(0);
}
