//! Built-in algorithms: the package of their trainers, jobs as published, and `tunesmith train`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use tunesmith_testing::python::{TOOLS, interpreter};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Finished, Workspace, finished};

/// The trainers' libraries, in the versions that jobs install.
const LIBRARIES: [&str; 4] = ["fsspec==2026.9.0", "pytest==9.2.0", "scikit-learn==1.9.1", "xgboost-cpu==3.2.0"];

fn trainers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("trainers")
}

/// `python -m module` in the folder of the trainers, which it leaves unchanged.
fn tool(requirements: &[&str], caches: &Path, module: &str, arguments: &[&str]) -> Finished {
    let mut command = tunesmith_testing::program(interpreter(requirements));
    command.arg("-m").arg(module).args(arguments).current_dir(trainers()).stdin(Stdio::null());
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("MYPY_CACHE_DIR", caches).env("RUFF_CACHE_DIR", caches);
    finished(command.env("PYTHONPATH", "src").output().unwrap())
}

#[test]
fn trainers_equal_their_libraries_and_keep_the_published_rules() {
    let caches = TempDir::new().unwrap();
    let summary = tool(&LIBRARIES, caches.path(), "pytest", &["-q"]).expect(0).stdout;
    assert!(summary.contains(" passed in ") && !summary.contains("skipped"), "{summary}");
}

#[test]
fn trainers_are_typed_and_in_form() {
    let caches = TempDir::new().unwrap();
    tool(&TOOLS, caches.path(), "mypy", &["src"]).expect(0);
    tool(&TOOLS, caches.path(), "ruff", &["check", "."]).expect(0);
    tool(&TOOLS, caches.path(), "ruff", &["format", "--check", "."]).expect(0);
}

/// Birds of three species, which wing and song tell apart but for some; `header` is the first line.
fn birds(header: &str) -> String {
    let mut text = header.to_owned();
    for index in 0_u32..240 {
        let species = index % 3;
        let noise = f64::from(index * 7919 % 100) / 40.0;
        let song = ["trill", "chirp", "call"][((species + u32::from(index % 11 == 0)) % 3) as usize];
        let name = ["robin", "wren", "gull"][species as usize];
        if header.is_empty() {
            writeln!(text, "{name},{:.3},{song}", f64::from(species) * 1.3 + noise).unwrap();
        } else {
            writeln!(text, "{:.3},{song},{name}", f64::from(species) * 1.3 + noise).unwrap();
        }
    }
    text
}

#[test]
fn published_client_tunes_boosted_trees_and_finds_its_model() {
    let workspace = Workspace::new("");
    let data = workspace.write("birds.csv", &birds(""));
    let server = Server::start(&workspace, &["--job-slots", "1"]);
    let job_dir = workspace.path().join("trained");
    server.drive("built_in.py", &[data.to_str().unwrap(), job_dir.to_str().unwrap()]);
}

#[test]
fn linear_learner_runs_as_a_single_job_with_its_model_path() {
    let data = ["--preprocess", "--training_data_path=birds.csv", "--model_type=classification", "--learning_rate=0.1"];
    let workspace = Workspace::new("masterConfig: {imageUri: 'gcr.io/cloud-ml-algos/linear_learner_cpu:latest'}\n");
    workspace.write("birds.csv", &birds(""));
    let missing = workspace.run([&["--"][..], &data].concat()).expect(2);
    assert!(missing.stderr.contains("a built-in algorithm writes its model to the job folder"), "{}", missing.stderr);
    workspace.run([&["--job-dir", "out", "--"][..], &data].concat()).expect(0);
    let output = &workspace.job()["trainingOutput"];
    assert_eq!(output["isBuiltInAlgorithmJob"], true);
    let model = output["builtInAlgorithmOutput"]["modelPath"].as_str().unwrap();
    assert_eq!(output["builtInAlgorithmOutput"]["framework"], "SCIKIT_LEARN");
    assert_eq!(output["builtInAlgorithmOutput"]["runtimeVersion"], "1.9");
    assert_eq!(Path::new(model), workspace.path().canonicalize().unwrap().join("out/model"));
    // Another process, with scikit-learn alone, answers text lines.
    let code =
        "import joblib, sys; print(*joblib.load(sys.argv[1] + 'model.joblib').predict(['3.9, call', '1,trill']))";
    let mut predict: Command = tunesmith_testing::program(interpreter(&LIBRARIES));
    let answer = finished(predict.args(["-c", code, model]).output().unwrap()).expect(0);
    assert_eq!(answer.stdout, "gull robin\n");
    // Errors of the user's input are in the output, without a traceback.
    let wrong = workspace.run(["--job-dir", "other", "--", "--training_data_path=birds.csv", "--model_typ=regression"]);
    let text = format!("{}{}", wrong.stdout, wrong.stderr);
    assert!(text.contains("error: unknown argument --model_typ; did you mean --model_type?"), "{text}");
    assert!(!text.contains("Traceback"), "{text}");
}

fn train(workspace: &Workspace, args: &[&str]) -> Finished {
    let mut command = workspace.command();
    command.arg("train").args(args).env_remove("PYTHONPATH");
    finished(command.output().unwrap())
}

/// Serves the best model of the job `id`, and compares its predictions with the processed test data.
fn serve(workspace: &Workspace, id: &str, model: &Path) {
    let mut command = workspace.command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--allow-unisolated-programs"]);
    let server = Server::start_command(&mut command);
    let mut create = workspace.command();
    create.args(["models", "create", "birds", "--from-job", id, "--server", &format!("http://{}", server.address)]);
    finished(create.output().unwrap()).expect(0);
    let (_, version) = server.get("/v1/projects/local/models/birds");
    assert_eq!(version["defaultVersion"]["runtimeVersion"], "3.2", "{version}");

    let rows = fs::read_to_string(model.with_file_name("processed_data").join("test.csv")).unwrap();
    let rows: Vec<Vec<f64>> =
        rows.lines().map(|row| row.split(',').map(|value| value.parse().unwrap()).collect()).collect();
    let instances: Vec<&[f64]> = rows.iter().map(|row| &row[1..]).collect();
    let (status, reply) = server.post("/v1/projects/local/models/birds:predict", &json!({"instances": instances}));
    assert_eq!(status, 200, "{reply}");
    let predictions = reply["predictions"].as_array().unwrap();
    let right = predictions.iter().zip(&rows).filter(|(prediction, row)| most_likely(prediction) == row[0]).count();
    let evaluation = fs::read(model.with_file_name("artifacts").join("evaluation.json")).unwrap();
    let evaluation: Value = serde_json::from_slice(&evaluation).unwrap();
    let accuracy = right as f64 / rows.len() as f64;
    let expected = evaluation["splits"]["test"]["accuracy"].as_f64().unwrap();
    assert!((accuracy - expected).abs() < 1e-6, "{accuracy} is not {expected}");
}

/// Class of a prediction: its value, or the index of its largest probability.
fn most_likely(prediction: &Value) -> f64 {
    let Some(shares) = prediction.as_array() else { return prediction.as_f64().unwrap() };
    let share = |index: &usize| shares[*index].as_f64().unwrap();
    (0..shares.len()).max_by(|one, other| share(one).total_cmp(&share(other))).unwrap() as f64
}

#[test]
fn one_command_trains_and_tunes_from_a_csv_file() {
    let workspace = Workspace::new("");
    workspace.write("birds.csv", &birds("wing,song,species\n"));
    let data = ["boosted_trees", "--data", "birds.csv", "--target", "species"];
    let tuned = train(&workspace, &[&data[..], &["--tune", "3", "--parallel", "2", "--", "--max_depth=3"]].concat());
    let tuned = tuned.expect(0);
    let found = "240 rows; species has 3 classes: a classification (--type regression for the other)";
    assert!(tuned.stderr.contains(found), "{}", tuned.stderr);
    assert!(tuned.stdout.contains("test data, which no trial has used: "), "{}", tuned.stdout);
    let model = tuned.stdout.lines().find_map(|line| line.strip_prefix("model: ")).unwrap();
    assert!(Path::new(model).join("model.bst").exists(), "{model}");
    let job: serde_json::Value = serde_json::from_str(&workspace.read("birds-boosted_trees/job.json")).unwrap();
    let best = &job["trainingOutput"]["trials"][0];
    assert_eq!(best["builtInAlgorithmOutput"]["modelPath"].as_str().unwrap(), model);
    assert!(best["hyperparameters"].get("eta").is_some() && best["hyperparameters"].get("max_depth").is_none());
    assert!(best["finalMetric"]["objectiveValue"].as_f64().unwrap() > 0.7, "{best}");
    assert!(workspace.read("birds-boosted_trees/report.html").contains("accuracy"));
    serve(&workspace, job["jobId"].as_str().unwrap(), Path::new(model));
    // The written training input is one for `tunesmith run`.
    let validated = finished(
        workspace.command().args(["validate", "--config", "birds-boosted_trees/boosted_trees.json"]).output().unwrap(),
    );
    validated.expect(0);
    let again = train(&workspace, &data).expect(2);
    assert!(again.stderr.contains("it has the model of an earlier training"), "{}", again.stderr);

    let once = train(&workspace, &[&data[..], &["--output", "once"]].concat()).expect(0);
    let model = once.stdout.lines().find_map(|line| line.strip_prefix("model: ")).unwrap();
    assert_eq!(Path::new(model), workspace.path().canonicalize().unwrap().join("once/model"));
    assert!(workspace.path().join("once/processed_data/test.csv").exists());

    let wrong = train(&workspace, &["linear_learner", "--data", "birds.csv", "--target", "specie"]).expect(2);
    assert!(wrong.stderr.contains("no column is named \"specie\"; did you mean \"species\"?"), "{}", wrong.stderr);
    let metric = ["linear_learner", "--data", "birds.csv", "--target", "species", "--metric", "acuracy"];
    let wrong = train(&workspace, &metric).expect(2);
    assert!(wrong.stderr.contains("did you mean accuracy?"), "{}", wrong.stderr);
}
