//! Use cases with workers of the system's Python and models of its standard library.

mod interruptions;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tunesmith_domain::{Code, Refusal};
use tunesmith_executor::local::{Identities, PassedEnvironment};
use tunesmith_jobs::allowed_folders::AllowedFolders;
use tunesmith_jobs::packages::Packages;
use tunesmith_objects::Buckets;
use tunesmith_packages::Environments;
use tunesmith_store::FolderDocuments;
use tunesmith_studies::clock::SystemClock;

use super::*;

const LIMITS: WorkerLimits = WorkerLimits { memory_bytes: 300 << 20, disk_bytes: 20 << 20, threads: 1 };

pub(crate) struct Fixture {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) models: Models,
}

/// Times for tests: no test waits for one of them, except where it states so.
pub(crate) const TIMES: PredictionTimes = PredictionTimes {
    request: Duration::from_secs(60),
    load: Duration::from_secs(60),
    idle: Duration::from_secs(600),
    health: Duration::from_secs(10),
};

fn services(folder: &std::path::Path, times: PredictionTimes) -> ModelServices {
    ModelServices {
        documents: Arc::new(FolderDocuments::new(folder.join("documents"))),
        is_shared: false,
        lease: Duration::from_secs(30),
        folder: folder.join("models"),
        clock: Arc::new(SystemClock),
        environments: Arc::new(Environments::new(folder.join("environments"))),
        packages: Packages::new(folder.join("packages"), Packages::MAX_BYTES),
        buckets: Buckets::default(),
        allowed_folders: Arc::new(AllowedFolders::default()),
        identities: Identities::default(),
        environment: PassedEnvironment::default(),
        engine: EngineOptions::default(),
        pods: None,
        limits: LIMITS,
        refuses_versions: false,
        times,
        max_nodes: 4,
    }
}

impl Fixture {
    pub(crate) fn new(times: PredictionTimes) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let models = Models::new(services(folder.path(), times));
        Self { folder, models }
    }

    /// Another process on the same folder.
    fn reopened(self) -> Self {
        let models = Models::new(services(self.folder.path(), TIMES));
        Self { models, ..self }
    }

    /// Version of a custom prediction routine with the module `code`, and a folder with one file.
    pub(crate) fn routine(&self, name: &str, code: &str) -> VersionSpec {
        let place = self.folder.path().join(name);
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join("code.py"), code).unwrap();
        VersionSpec { deployment_uri: place.display().to_string(), ..self.packaged(name, code) }
    }

    /// Version of the class `Model` in a package with the module `name`.
    fn packaged(&self, name: &str, code: &str) -> VersionSpec {
        let root = self.folder.path().join(format!("{name}-source"));
        fs::create_dir_all(&root).unwrap();
        fs::write(root.join(format!("{name}.py")), code).unwrap();
        let wheel = self.folder.path().join(format!("{name}-1.0-py3-none-any.whl"));
        let script = "
import sys, zipfile
wheel, root, name = sys.argv[1:]
info = name + '-1.0.dist-info/'
with zipfile.ZipFile(wheel, 'w') as archive:
    archive.write(root + '/' + name + '.py', name + '.py')
    archive.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: ' + name + '\\nVersion: 1.0\\n')
    archive.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    archive.writestr(info + 'RECORD', '')
";
        let made = std::process::Command::new("python3").args(["-c", script]).args([&wheel, &root]).arg(name).status();
        assert!(made.unwrap().success());
        VersionSpec {
            package_uris: vec![wheel.display().to_string()],
            prediction_class: format!("{name}.Model"),
            ..VersionSpec::default()
        }
    }

    pub(crate) async fn create(&self, version: &str, spec: VersionSpec) -> Outcome {
        match self.models.model("p", "m").await {
            Err(Refusal { code: Code::NotFound, .. }) => {
                let model = NewModel { name: "m".to_owned(), ..NewModel::default() };
                self.models.create_model("p", model).await.unwrap();
            }
            model => drop(model.unwrap()),
        }
        let operation = self.models.create_version("p", "m", version, spec).await.unwrap();
        assert_eq!(operation.outcome, None);
        self.ended(&operation.id).await
    }

    async fn ended(&self, id: &str) -> Outcome {
        loop {
            if let Some(outcome) = self.models.operation("p", id).await.unwrap().outcome {
                return outcome;
            }
            tokio::task::yield_now().await;
        }
    }

    async fn predict(&self, version: Option<&str>, body: Value) -> Result<Value, Refusal> {
        let reply = self.models.predict("p", "m", version, content(body.to_string())).await?;
        Ok(serde_json::from_slice(&reply.body).unwrap())
    }

    async fn version(&self, name: &str) -> Version {
        self.models.model("p", "m").await.unwrap().version(name).unwrap().clone()
    }
}

fn content(body: String) -> Content {
    Content { body: body.into(), content_type: None }
}

/// Answers with its process ID for "pid", and ends, sleeps or prints for other words.
const WORDS: &str = "
import os, time
class Model:
    @classmethod
    def from_path(cls, model_dir):
        model = cls()
        model.files = sorted(os.listdir(model_dir))
        return model
    def predict(self, instances, **options):
        word = instances[0]
        if word == 'end':
            print('last words', flush=True)
            os._exit(7)
        if word == 'hang':
            while True:
                time.sleep(1)
        if word == 'fail':
            raise ValueError('no such luck')
        if word == 'nan':
            return [float('nan')]
        return [{'pid': os.getpid(), 'files': self.files, 'options': options}.get(word, word) for word in instances]
";

fn message(outcome: Outcome) -> String {
    match outcome {
        Outcome::Failed { message, .. } => message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn routine_answers_and_its_failures_are_replies() {
    let fixture = Fixture::new(TIMES);
    let created = fixture.create("v1", fixture.routine("words", WORDS)).await;
    assert!(matches!(created, Outcome::Version(_)), "{created:?}");
    let version = fixture.version("v1").await;
    assert_eq!((version.state, version.report.unwrap().framework.as_str()), (VersionState::Ready, "CUSTOM_CLASS"));
    let reply = fixture.predict(None, json!({"instances": ["files", "options", "x"], "probabilities": true})).await;
    assert_eq!(reply.unwrap(), json!({"predictions": [["code.py"], {"probabilities": true}, "x"]}));
    let failed = fixture.predict(Some("v1"), json!({"instances": ["fail"]})).await.unwrap();
    assert_eq!(failed["error"], "Prediction failed: no such luck");
    let traceback = failed["tunesmith"]["traceback"].as_str().unwrap();
    assert!(traceback.contains("words.py") && traceback.ends_with("ValueError: no such luck"), "{traceback}");
    let nan = fixture.predict(None, json!({"instances": ["nan"]})).await.unwrap();
    assert!(nan["error"].as_str().unwrap().starts_with("Failed to json encode the prediction response: "), "{nan}");
    for (body, start) in [
        ("", "Empty request body. The service expects"),
        ("{", "The request did not contain valid JSON. The service expects"),
        ("[1]", "Invalid request. The service expects"),
        ("{\"instances\": 3}", "Invalid request. The service expects"),
    ] {
        let reply = fixture.models.predict("p", "m", None, content(body.to_owned())).await.unwrap();
        let reply: Value = serde_json::from_slice(&reply.body).unwrap();
        assert!(reply["error"].as_str().unwrap().starts_with(start), "{reply}");
    }
    let version = fixture.version("v1").await;
    let status = fixture.models.status(&version);
    assert_eq!((status.ready, status.requests, status.errors, status.failures), (1, 7, 6, 0));
    assert!(fixture.models.log("p", &version, 10_000).await.unwrap().contains("no such luck"));
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_that_ends_fails_its_request_only() {
    let fixture = Fixture::new(TIMES);
    fixture.create("v1", fixture.routine("words", WORDS)).await;
    let before = fixture.predict(None, json!({"instances": ["pid"]})).await.unwrap();
    let error = fixture.predict(None, json!({"instances": ["end"]})).await.unwrap_err();
    assert_eq!(error.code, Code::Unavailable);
    assert!(error.message.contains("exit status: 7") && error.message.contains("last words"), "{}", error.message);
    let after = fixture.predict(None, json!({"instances": ["pid"]})).await.unwrap();
    assert_ne!(before, after);
    // An idle worker that is killed is replaced as well.
    let pid = after["predictions"][0].as_i64().and_then(|pid| rustix::process::Pid::from_raw(pid as i32)).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let mut last = Err(Refusal::new(Code::Unavailable, ""));
    while last.as_ref().is_err_and(|error: &Refusal| error.code == Code::Unavailable) {
        last = fixture.predict(None, json!({"instances": ["pid"]})).await;
    }
    assert_ne!(last.unwrap(), after);
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_request_is_ended_at_its_time_limit() {
    let fixture = Fixture::new(PredictionTimes { request: Duration::from_secs(2), ..TIMES });
    fixture.create("v1", fixture.routine("words", WORDS)).await;
    let before = fixture.predict(None, json!({"instances": ["pid"]})).await.unwrap();
    let error = fixture.predict(None, json!({"instances": ["hang"]})).await.unwrap_err();
    assert_eq!((error.code, error.message.contains("has not answered within 2 s")), (Code::DeadlineExceeded, true));
    let mut after = fixture.predict(None, json!({"instances": ["pid"]})).await;
    while after.is_err() {
        after = fixture.predict(None, json!({"instances": ["pid"]})).await;
    }
    assert_ne!(before, after.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_that_cannot_be_loaded_fail_with_published_texts() {
    let fixture = Fixture::new(TIMES);
    let empty = fixture.folder.path().join("other");
    fs::create_dir_all(&empty).unwrap();
    fs::write(empty.join("model.pkl"), "no pickle").unwrap();
    let spec = VersionSpec { deployment_uri: empty.display().to_string(), ..VersionSpec::default() };
    let text = message(fixture.create("broken", spec).await);
    let start =
        "Create Version failed. Bad model detected with error:  \"Failed to load model: Could not load the model: ";
    assert!(text.starts_with(start) && text.contains("(Error code: 0)\"\n\n_pickle.UnpicklingError: "), "{text}");
    let version = fixture.version("broken").await;
    assert_eq!((version.state, version.error_message), (VersionState::Failed, text));
    let refused = fixture.predict(Some("broken"), json!({"instances": []})).await.unwrap_err();
    assert_eq!(refused.code, Code::FailedPrecondition);
    let missing = VersionSpec { prediction_class: "words.Other".to_owned(), ..fixture.routine("words", WORDS) };
    let text = message(fixture.create("missing", missing).await);
    assert!(
        text.contains(
            "There was a problem processing the user code: words.Other cannot be found. Please make sure (1)"
        )
    );
    for (name, code, expected) in [
        ("nopath", "class Model:\n    def predict(self, instances): pass\n", "must implement the from_path method."),
        (
            "nopredict",
            "class Model:\n    @classmethod\n    def from_path(cls, d): pass\n",
            "is missing the required predict method.",
        ),
        (
            "ends",
            "import os\nprint('out of luck')\nos._exit(3)\n",
            "Unexpected error when loading the model: the process ended (exit status: 3) (Error code: 0)\"\n\nout of luck",
        ),
    ] {
        let text = message(fixture.create(name, fixture.routine(name, code)).await);
        assert!(text.contains(expected), "{text}");
    }
    let none = VersionSpec { deployment_uri: "/no/such/folder".to_owned(), ..VersionSpec::default() };
    assert!(message(fixture.create("none", none).await).contains("/no/such/folder does not exist, or has no files"));
    assert_eq!(fixture.models.model("p", "m").await.unwrap().default_version, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn defaults_and_deletions_follow_the_published_rules() {
    let fixture = Fixture::new(TIMES);
    let spec = fixture.routine("words", WORDS);
    for name in ["v1", "v2"] {
        fixture.create(name, spec.clone()).await;
    }
    let default = async || fixture.models.model("p", "m").await.unwrap().default_version;
    assert_eq!(default().await.as_deref(), Some("v1"));
    let code = |refused: Result<Operation, Refusal>| refused.unwrap_err().code;
    assert_eq!(code(fixture.models.delete_version("p", "m", "v1").await), Code::FailedPrecondition);
    assert_eq!(code(fixture.models.delete_model("p", "m").await), Code::FailedPrecondition);
    fixture.models.set_default("p", "m", "v2").await.unwrap();
    let deleted = fixture.models.delete_version("p", "m", "v1").await.unwrap();
    assert_eq!(deleted.outcome, Some(Outcome::Empty));
    assert_eq!(code(fixture.models.delete_version("p", "m", "v1").await), Code::NotFound);
    let change = VersionChange { nodes: Some(2), ..VersionChange::default() };
    assert_eq!(code(fixture.models.change_version("p", "m", "v2", change).await), Code::InvalidArgument);
    let change = VersionChange { min_nodes: Some(2), description: Some("d".to_owned()), ..VersionChange::default() };
    fixture.models.change_version("p", "m", "v2", change).await.unwrap();
    let version = fixture.version("v2").await;
    assert_eq!(version.spec.scaling, Scaling::Automatic { min_nodes: 2, max_nodes: None });
    while fixture.models.status(&version).ready < 2 {
        tokio::task::yield_now().await;
    }
    fixture.models.delete_version("p", "m", "v2").await.unwrap();
    assert_eq!(default().await, None);
    fixture.models.delete_model("p", "m").await.unwrap();
    assert_eq!(fixture.models.model("p", "m").await.unwrap_err().code, Code::NotFound);
    assert!(fs::read_dir(fixture.folder.path().join("models/p")).unwrap().next().is_none());
}

/// Uses up what its process may have.
const GREEDY: &str = "
import os, subprocess, sys, time
class Model:
    @classmethod
    def from_path(cls, model_dir):
        model = cls()
        model.kept = []
        return model
    def predict(self, instances, **options):
        word = instances[0]
        while word == 'leak':
            self.kept.append(bytearray(1 << 20))
        while word == 'children':
            self.kept.append(subprocess.Popen([sys.executable, '-c', 'x = bytearray(100 << 20); import time; time.sleep(600)']))
            time.sleep(0.05)
        if word == 'file':
            with open('large', 'wb') as file:
                while True:
                    file.write(bytes(1 << 20))
        number = 0
        while word == 'files':
            number += 1
            with open(os.environ['TMPDIR'] + '/%d' % number, 'wb') as file:
                file.write(bytes(1 << 20))
        return [os.environ['OMP_NUM_THREADS'] for word in instances]
";

#[tokio::test(flavor = "multi_thread")]
async fn worker_that_exceeds_its_limits_fails_its_request_only() {
    let fixture = Fixture::new(TIMES);
    let mut spec = fixture.routine("greedy", GREEDY);
    spec.milli_cpus = Some(2500);
    let created = fixture.create("v1", spec).await;
    assert!(matches!(created, Outcome::Version(_)), "{created:?}");
    for (word, expected) in [
        ("leak", "memory"),
        ("children", "processes; 300 MiB are allowed"),
        ("file", "File too large"),
        ("files", "20 MiB in 100000 are allowed"),
    ] {
        let failed = match fixture.predict(None, json!({"instances": [word]})).await {
            Ok(reply) => reply["error"].as_str().unwrap().to_owned(),
            Err(refusal) => refusal.message,
        };
        assert!(failed.to_lowercase().contains(&expected.to_lowercase()), "{word}: {failed}");
        let mut after = Err(Refusal::new(Code::Unavailable, ""));
        while after.as_ref().is_err_and(|error: &Refusal| error.code == Code::Unavailable) {
            after = fixture.predict(None, json!({"instances": ["x"]})).await;
        }
        assert_eq!(after.unwrap(), json!({"predictions": ["3"]}), "{word}");
    }
}
