//! Changes that are cancelled, or that a former process has left unfinished.

use std::collections::BTreeSet;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn next_process_serves_versions_and_finishes_creations() {
    let fixture = Fixture::new(TIMES);
    fixture.create("v1", fixture.routine("words", WORDS)).await;
    let spec = fixture.routine("words", WORDS);
    // An operation without its task, as after the end of a process.
    let mut version = fixture.version("v1").await;
    (version.name, version.uid, version.state) = ("v2".to_owned(), "b".to_owned(), VersionState::Creating);
    let inner = &fixture.models.0;
    let operation = inner.begin(OperationKind::CreateVersion, ("p", "m"), Some(version.clone()), None).await.unwrap();
    let add = |model: &mut Model| {
        model.versions.push(version.clone());
        Ok(())
    };
    inner.change("p", "m", add).await.unwrap();
    // The copy is independent of its source.
    fs::remove_file(PathBuf::from(&spec.deployment_uri).join("code.py")).unwrap();
    fs::write(PathBuf::from(&spec.deployment_uri).join("other"), "").unwrap();
    let fixture = fixture.reopened();
    let models = fixture.models.clone();
    let running = tokio::spawn(async move { models.run().await });
    let ended = fixture.ended(&operation.id).await;
    assert!(matches!(ended, Outcome::Version(_)), "{ended:?}");
    let files = async |version| fixture.predict(Some(version), json!({"instances": ["files"]})).await.unwrap();
    assert_eq!(files("v1").await, json!({"predictions": [["code.py"]]}));
    assert_eq!(files("v2").await, json!({"predictions": [["other"]]}));
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn next_process_finishes_deletions_and_cancellations() {
    let fixture = Fixture::new(TIMES);
    let spec = fixture.routine("words", WORDS);
    for version in ["v1", "v2"] {
        fixture.create(version, spec.clone()).await;
    }
    let (inner, deleted) = (&fixture.models.0, fixture.version("v2").await);
    let new = |name: &str| NewModel { name: name.to_owned(), ..NewModel::default() };
    for name in ["deleted", "again"] {
        fixture.models.create_model("p", new(name)).await.unwrap();
        let mark = |model: &mut Model| {
            model.is_deleted = true;
            Ok(())
        };
        inner.change("p", name, mark).await.unwrap();
    }
    // What deletions leave that end in the middle: a version with a part of its files, and files without a version.
    let mark = |model: &mut Model| {
        model.version_mut("v2").unwrap().state = VersionState::Deleting;
        Ok(())
    };
    inner.change("p", "m", mark).await.unwrap();
    let folder = fixture.folder.path().join("models/p");
    fs::remove_file(folder.join(&deleted.uid).join("complete")).unwrap();
    let orphan = "0123456789abcdef0123456789abcdef";
    for name in [orphan, "batch-0123"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    // A creation whose cancellation was requested.
    let mut version = Version { name: "v3".to_owned(), state: VersionState::Creating, ..deleted.clone() };
    version.uid = "fedcba9876543210fedcba9876543210".to_owned();
    let operation = inner.begin(OperationKind::CreateVersion, ("p", "m"), Some(version.clone()), None).await.unwrap();
    let add = |model: &mut Model| {
        model.versions.push(version.clone());
        Ok(())
    };
    inner.change("p", "m", add).await.unwrap();
    fixture.models.cancel_operation("p", &operation.id).await.unwrap();

    let fixture = fixture.reopened();
    // The name of an interrupted deletion is free at once.
    fixture.models.create_model("p", new("again")).await.unwrap();
    let models = fixture.models.clone();
    let running = tokio::spawn(async move { models.run().await });
    let ended = fixture.ended(&operation.id).await;
    assert!(matches!(ended, Outcome::Failed { code: 1, .. }), "{ended:?}");
    assert_eq!(fixture.version("v3").await.state, VersionState::Failed);
    // The first round is complete once it has ended the operation.
    let names = |models: Vec<Arc<Model>>| models.iter().map(|model| model.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(fixture.models.all().await.unwrap()), ["again", "m"]);
    assert_eq!(fixture.models.0.services.documents.list("models/p").await.unwrap().len(), 2);
    assert_eq!(fixture.models.model("p", "m").await.unwrap().version("v2"), None);
    let left: BTreeSet<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, BTreeSet::from(["batch-0123".into(), fixture.version("v1").await.uid.into()]));
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn creation_is_cancelled() {
    let fixture = Fixture::new(TIMES);
    let slow = "import time\nwhile True:\n    time.sleep(1)\n";
    fixture.models.create_model("p", NewModel { name: "m".to_owned(), ..NewModel::default() }).await.unwrap();
    let operation = fixture.models.create_version("p", "m", "v1", fixture.routine("slow", slow)).await.unwrap();
    fixture.models.cancel_operation("p", &operation.id).await.unwrap();
    let outcome = fixture.ended(&operation.id).await;
    assert!(matches!(outcome, Outcome::Failed { code: 1, .. }), "{outcome:?}");
    assert_eq!(fixture.version("v1").await.state, VersionState::Failed);
    assert!(fixture.models.operation("p", &operation.id).await.unwrap().is_cancellation_requested);
}

#[tokio::test(flavor = "multi_thread")]
async fn deletion_cancels_the_start_of_a_worker() {
    let fixture = Fixture::new(TIMES);
    let marker = fixture.folder.path().join("loaded");
    // The second load does not end.
    let code = format!(
        "
import os, time
class Model:
    @classmethod
    def from_path(cls, model_dir):
        if os.path.exists({marker:?}):
            print('loading again as', os.getpid(), flush=True)
            time.sleep(600)
        open({marker:?}, 'w').close()
        return cls()
    def predict(self, instances):
        return instances
"
    );
    let created = fixture.create("v1", fixture.routine("slow", &code)).await;
    assert!(matches!(created, Outcome::Version(_)), "{created:?}");
    let version = fixture.version("v1").await;
    let change = VersionChange { min_nodes: Some(2), ..VersionChange::default() };
    fixture.models.change_version("p", "m", "v1", change).await.unwrap();
    let process = loop {
        let log = fixture.models.log("p", &version, 1000).await.unwrap();
        if let Some((_, process)) = log.trim_end().split_once("loading again as ") {
            break process.parse().unwrap();
        }
        tokio::task::yield_now().await;
    };
    let deletion = fixture.models.delete_version("p", "m", "v1");
    let deleted = tokio::time::timeout(TIMES.load / 2, deletion).await.expect("the load is not waited for");
    assert_eq!(deleted.unwrap().outcome, Some(Outcome::Empty));
    let process = rustix::process::Pid::from_raw(process).unwrap();
    assert!(rustix::process::test_kill_process(process).is_err(), "the process has ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn creation_is_cancelled_while_the_model_is_loaded() {
    let fixture = Fixture::new(TIMES);
    let slow = "
import time
class Model:
    @classmethod
    def from_path(cls, model_dir):
        print('loading', flush=True)
        while True:
            time.sleep(1)
    def predict(self, instances):
        pass
";
    fixture.models.create_model("p", NewModel { name: "m".to_owned(), ..NewModel::default() }).await.unwrap();
    let operation = fixture.models.create_version("p", "m", "v1", fixture.routine("slow", slow)).await.unwrap();
    let version = fixture.version("v1").await;
    while !fixture.models.log("p", &version, 100).await.unwrap().contains("loading") {
        tokio::task::yield_now().await;
    }
    fixture.models.cancel_operation("p", &operation.id).await.unwrap();
    let outcome = fixture.ended(&operation.id).await;
    assert!(matches!(outcome, Outcome::Failed { code: 1, .. }), "{outcome:?}");
}
