//! Job folders in object stores, on a real server of the S3 protocol (PyPI `moto`). Google Cloud Storage is requested by the XML
//! interface, which has the same requests.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use tunesmith_objects::{EventMirror, ObjectError, ObjectFolder};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, finished, python};

/// A server with the bucket `models`.
pub(crate) struct Objects {
    process: Child,
    pub(crate) endpoint: String,
}

impl Objects {
    /// Starts a server on a free port. It refuses unknown keys if `checks_keys` is set.
    pub(crate) fn start(checks_keys: bool) -> Self {
        let python = python::interpreter(&["moto[server]==5.2.5"]);
        let mut command = tunesmith_testing::program(python.with_file_name("moto_server"));
        command.args(["-H", "127.0.0.1", "-p", "0"]).stdout(Stdio::null()).stderr(Stdio::piped());
        if checks_keys {
            // One request is free: the one that creates the bucket.
            command.env("INITIAL_NO_AUTH_ACTION_COUNT", "1");
        }
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let endpoint = lines
            .by_ref()
            .find_map(|line| Some(line.unwrap().split_once("Running on ")?.1.trim().to_owned()))
            .expect("the server prints its address");
        // The server stops if its output is not read.
        std::thread::spawn(move || lines.for_each(drop));
        // It fails if one is installed.
        drop(rustls::crypto::ring::default_provider().install_default());
        let objects = Self { process, endpoint };
        objects.request(reqwest::Method::PUT, "models", "");
        objects
    }

    /// The variables by which clients find this server.
    pub(crate) fn variables(&self) -> BTreeMap<OsString, OsString> {
        let variables = [
            ("AWS_ENDPOINT_URL", self.endpoint.as_str()),
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("STORAGE_EMULATOR_HOST", &self.endpoint),
        ];
        variables.map(|(name, value)| (name.into(), value.into())).into()
    }

    /// Writes the object `path` of the form `BUCKET/NAME`.
    pub(crate) fn put(&self, path: &str, body: impl Into<Vec<u8>>) {
        self.request(reqwest::Method::PUT, path, body);
    }

    /// The text of the object `path` of the form `BUCKET/NAME`.
    pub(crate) fn get(&self, path: &str) -> String {
        self.request(reqwest::Method::GET, path, "")
    }

    /// The names of all objects below `prefix` in the bucket `models`, as the server lists them.
    pub(crate) fn list(&self, prefix: &str) -> String {
        self.request(reqwest::Method::GET, &format!("models?list-type=2&prefix={prefix}"), "")
    }

    fn request(&self, method: reqwest::Method, path: &str, body: impl Into<Vec<u8>>) -> String {
        let (url, body) = (format!("{}/{path}", self.endpoint), body.into());
        let request = async move {
            let request = reqwest::Client::builder()
                .no_proxy()
                .build()
                .unwrap()
                .request(method, url)
                .bearer_auth("test")
                .body(body);
            let response = request.send().await.unwrap();
            assert!(response.status().is_success(), "{response:?}");
            response.text().await.unwrap()
        };
        // A runtime of its own, since tests with and without one use this.
        std::thread::scope(|scope| {
            let run = || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(request)
            };
            scope.spawn(run).join().unwrap()
        })
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[tokio::test]
async fn probe_of_a_folder_leaves_nothing() {
    let objects = Objects::start(false);
    for url in ["s3://models/runs/a", "gs://models/runs/a", "s3://models"] {
        ObjectFolder::open(url, &objects.variables()).unwrap().probe().await.unwrap();
    }
    let listed = objects.list("");
    assert!(listed.contains("<KeyCount>0</KeyCount>"), "{listed}");
}

#[tokio::test]
async fn probe_names_the_missing_bucket() {
    let objects = Objects::start(false);
    for (url, scheme) in [("s3://absent/runs", "s3"), ("gs://absent/runs", "gs")] {
        let error = ObjectFolder::open(url, &objects.variables()).unwrap().probe().await.unwrap_err();
        let expected = format!(
            "{scheme}://absent/runs cannot be written: the bucket \"absent\" does not exist, or is in another region"
        );
        assert_eq!(error.to_string(), expected);
        assert!(!error.is_temporary());
    }
}

#[tokio::test]
async fn probe_names_the_refused_credentials() {
    let objects = Objects::start(true);
    let error = ObjectFolder::open("s3://models/runs", &objects.variables()).unwrap().probe().await.unwrap_err();
    let expected = "s3://models/runs cannot be written: access is denied; \
                    set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to keys that may write there";
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn unreachable_store_is_a_temporary_error() {
    let mut variables = Objects::start(false).variables();
    // The server has ended.
    variables.remove(&OsString::from("STORAGE_EMULATOR_HOST"));
    let error = ObjectFolder::open("s3://models/runs", &variables).unwrap().probe().await.unwrap_err();
    assert!(matches!(&error, ObjectError::Failed { operation: "written", .. }) && error.is_temporary(), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn mirror_copies_what_was_added_to_event_files() {
    let objects = Objects::start(false);
    for scheme in ["s3", "gs"] {
        let copies = tempfile::tempdir().unwrap();
        let folder = ObjectFolder::open(&format!("{scheme}://models/{scheme}"), &objects.variables()).unwrap();
        let mirror = EventMirror::new(folder.join("7").unwrap(), copies.path().join("events"));
        assert!(!mirror.update().await.unwrap(), "there is nothing");
        objects.put(&format!("models/{scheme}/7/logs/events.out.tfevents.1"), "first");
        objects.put(&format!("models/{scheme}/7/model.ckpt"), "a checkpoint");
        objects.put(&format!("models/{scheme}/77/events.out.tfevents.1"), "of another trial");
        assert!(mirror.update().await.unwrap());
        let copy = mirror.copies().join("logs%2Fevents.out.tfevents.1");
        assert_eq!(fs::read_to_string(&copy).unwrap(), "first");
        assert_eq!(fs::read_dir(mirror.copies()).unwrap().count(), 1);
        assert!(!mirror.update().await.unwrap(), "nothing was added");
        // The beginning is not read again.
        objects.put(&format!("models/{scheme}/7/logs/events.out.tfevents.1"), "FIRST and second");
        assert!(mirror.update().await.unwrap());
        assert_eq!(fs::read_to_string(&copy).unwrap(), "first and second");
        objects.put(&format!("models/{scheme}/7/logs/events.out.tfevents.1"), "new");
        assert!(mirror.update().await.unwrap());
        assert_eq!(fs::read_to_string(&copy).unwrap(), "new");
        mirror.remove().unwrap();
        mirror.remove().unwrap();
        assert!(!mirror.copies().exists());
    }
}

/// Writes an event file and puts it into the job folder, whose server is in the first argument.
const TRAINER: &str = r#"
import glob, sys, tempfile, urllib.request
from tensorboardX import SummaryWriter
endpoint, arguments = sys.argv[1], dict(argument.split("=", 1) for argument in sys.argv[2:])
with tempfile.TemporaryDirectory() as folder:
    writer = SummaryWriter(folder)
    for step in range(1, 4):
        writer.add_scalar("loss", float(arguments["--x"]) + 1 / step, step)
    writer.close()
    (file,) = glob.glob(folder + "/*tfevents*")
    path = arguments["--job-dir"].split("://")[1] + "/logs/" + file.rsplit("/", 1)[1]
    headers = {"authorization": "Bearer test", "content-type": "application/octet-stream"}
    request = urllib.request.Request(f"{endpoint}/{path}", open(file, "rb").read(), headers, method="PUT")
    urllib.request.urlopen(request)
"#;

#[test]
fn trials_report_by_event_files_in_a_bucket() {
    let objects = Objects::start(false);
    let workspace = Workspace::new(
        "
hyperparameters:
  goal: MINIMIZE
  hyperparameterMetricTag: loss
  maxTrials: 2
  params: [{parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}]
",
    );
    let python = python::interpreter(&python::REPORTERS);
    let trainer = workspace.write("trainer.py", TRAINER);
    for executor in ["local", "agent"] {
        let (data_dir, output) = (format!("data-{executor}"), format!("{executor}.json"));
        let mut command = workspace.command();
        command.envs(objects.variables()).env("TUNESMITH_PASS_ENVIRONMENT", "AWS_*").args([
            "run",
            "--config",
            "hptuning_config.yaml",
            "--executor",
            executor,
            "--data-dir",
            &data_dir,
            "--output",
            &output,
        ]);
        command.args(["--job-dir", &format!("s3://models/{executor}"), "--"]);
        command.arg(&python).arg(&trainer).arg(&objects.endpoint);
        finished(command.output().unwrap()).expect(0);
        let job: serde_json::Value = serde_json::from_str(&workspace.read(&output)).unwrap();
        let trials = job["trainingOutput"]["trials"].as_array().unwrap();
        assert_eq!(trials.len(), 2, "{job:#}");
        for trial in trials {
            let x: f64 = trial["hyperparameters"]["x"].as_str().unwrap().parse().unwrap();
            let last = trial["finalMetric"]["objectiveValue"].as_f64().unwrap();
            assert!((last - x - 1.0 / 3.0).abs() < 1e-6, "{trial:#}");
            assert_eq!(trial["finalMetric"]["trainingStep"], "3", "{trial:#}");
        }
        let left = tunesmith_testing::program("find")
            .arg(workspace.path().join(&data_dir))
            .args(["-name", "*tfevents*"])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&left.stdout), "", "copies are removed after they were read");
    }
    // The page of a trial has the command that lists its files with the credentials of the visitor.
    let mut command = workspace.command();
    command.envs(objects.variables()).args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data-local"]);
    let server = Server::start_command(command.arg("--allow-unisolated-programs"));
    let jobs = server.get("/v1/projects/local/jobs").1;
    let id = jobs["jobs"][0]["jobId"].as_str().unwrap();
    let (_, page) = server.text("GET", &format!("/console/projects/local/jobs/{id}/trials/2"));
    assert!(page.contains("aws s3 ls --recursive s3://models/local/2/"), "{page}");
}
