//! Stores of every released form are read. Those of later forms, and of versions before 0.1.0, are refused unchanged.
//!
//! The stores are `tests/data/stores/<version>.<kind>`, with the first version of each form. To add those of a new form, run
//! the tests `the_current_form_holds_the_same` with the variable `TUNESMITH_TEST_KEEP_STORES` set to a folder, and remove the
//! trailing zeros of sled's file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tunesmith_contract::samples;
use tunesmith_domain::{
    FinalMeasurement, JobChange, JobState, ReportKey, StoppingRuleKind, StudyChange, StudyStopping, TrialChange,
    TrialId, TrialState,
};
use tunesmith_store::{OpenMode, Store, StoreError};

use super::{Kind, copy, restore_padding, study_id};

/// Writes the store that is test data for every form.
pub(super) async fn write(store: &dyn Store) {
    let study = study_id();
    store.create_job(samples::job("study"), Some(samples::study("study"))).await.unwrap();
    store.create_job(samples::job("other"), None).await.unwrap();
    let running = JobChange::Become { state: JobState::Running, error_message: String::new(), at: samples::at(2) };
    store.change_job(&"study".parse().unwrap(), running).await.unwrap();
    for id in 1..=3 {
        store.create_trial(&study, samples::new_trial(id)).await.unwrap();
        store.change_trial(&study, TrialId(id), samples::begin(1)).await.unwrap();
    }
    let curve = vec![samples::measurement(1, f64::NAN), samples::measurement(2, f64::INFINITY)];
    store.change_trial(&study, TrialId(1), samples::report(1, curve)).await.unwrap();
    store.change_trial(&study, TrialId(1), TrialChange::Stop { predicted_final: None }).await.unwrap();
    store.change_trial(&study, TrialId(1), samples::succeed(1, 0.75)).await.unwrap();
    store.change_trial(&study, TrialId(2), samples::fail(1, "exit code 1")).await.unwrap();
    let complete = StudyChange::Complete { reason: "enough".to_owned() };
    store.change_study(&study, complete).await.unwrap();
}

/// Checks the content of that store in any form, against literal values that do not change with the code.
pub(super) async fn check(store: &dyn Store) {
    let jobs = store.jobs(None, 10).await.unwrap();
    assert_eq!(jobs.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["other", "study"]);
    let job = &jobs[1];
    assert_eq!(job.state, JobState::Running);
    assert_eq!(job.study.as_ref().unwrap().as_str(), "study");
    let input = r#"{"hyperparameters":{"goal":"MAXIMIZE","maxTrials":3},"x":0.1}"#;
    assert_eq!(job.training_input.to_string(), input);
    assert_eq!((job.fingerprint.as_str(), job.labels["owner"].as_str()), ("sha256:00", "someone"));
    assert_eq!(job.create_time.to_string(), "2025-06-15T15:06:40.123456789Z");
    assert_eq!(job.start_time.unwrap().to_string(), "2025-06-15T15:06:42.123456789Z");
    assert_eq!((job.end_time, job.error_message.as_str(), job.revision), (None, "", 1));
    let plan = job.plan().unwrap();
    assert_eq!((plan.max_trials, plan.priority, plan.metric_tag.as_str()), (u64::MAX, -1, "accuracy"));
    assert_eq!((plan.grace.as_secs(), plan.job_dir_flag.as_deref()), (30, Some("output-dir")));
    assert_eq!((plan.machines.queue.as_deref(), plan.replicas.len()), (Some("gpu"), 3));

    let study = store.study(&study_id()).await.unwrap();
    assert_eq!(study.state.to_string(), "COMPLETED");
    assert_eq!(study.state_reason, "enough");
    assert_eq!((study.seed, study.next_trial_id, study.revision), (u64::MAX, TrialId(4), 11));
    assert_eq!(format!("{:?}", study.algorithm), r#"GridSearch { double_resolution: {"rate": 10} }"#);
    assert_eq!(study.stopping_rule, Some(StoppingRuleKind::Median.into()));
    assert_eq!((&study.study_stopping, study.final_measurement), (&StudyStopping::default(), FinalMeasurement::Best));
    assert_eq!(study.continued_studies[0].as_str(), "earlier-1");
    let parameters: Vec<String> = study
        .problem
        .search_space()
        .parameters()
        .iter()
        .map(|parameter| format!("{} {:?}", parameter.name(), parameter.kind()))
        .collect();
    assert_eq!(
        parameters,
        [
            "rate Double { min: 1e-7, max: 0.1, scale: UnitLog }",
            "layers Integer { min: -1, max: 9223372036854775807, scale: UnitLinear }",
            "size Discrete { values: [0.5, 32.0], scale: UnitReverseLog }",
            r#"kind Categorical { values: ["ä b", "c"] }"#,
        ]
    );
    let metrics: Vec<String> =
        study.problem.metrics().iter().map(|metric| format!("{} {:?}", metric.name, metric.goal)).collect();
    assert_eq!(metrics, ["accuracy Maximize", "loss Minimize"]);

    check_trials(store).await;
}

async fn check_trials(store: &dyn Store) {
    let trials = store.trials(&study_id(), None, 10).await.unwrap();
    let states: Vec<TrialState> = trials.iter().map(|trial| trial.state).collect();
    assert_eq!(states, [TrialState::Succeeded, TrialState::Infeasible, TrialState::Active]);
    let first = &trials[0];
    assert_eq!(first.parameters["rate"].to_string(), "0.03333333333333333");
    assert_eq!(first.parameters["layers"].to_string(), "9223372036854775806");
    assert_eq!(first.parameters["size"].to_string(), "32");
    assert_eq!(first.parameters["kind"].to_string(), "ä b");
    assert_eq!((first.client_id.as_str(), first.attempt, first.lost_attempts), ("client 1", 1, 0));
    assert_eq!(first.create_time.to_string(), "2025-06-15T15:06:41.123456789Z");
    assert_eq!(first.start_time.unwrap().to_string(), "2025-06-15T15:06:42.123456789Z");
    assert_eq!(first.end_time.unwrap().to_string(), "2025-06-15T15:06:43.123456789Z");
    assert_eq!((first.measurement_count, first.stopped_early, first.revision), (3, true, 9));
    let last = first.final_measurement.as_ref().unwrap();
    assert_eq!((last.step, last.value("accuracy"), last.value("loss")), (100, Some(0.75), Some(-0.75)));
    assert_eq!(trials[1].infeasible_reason.as_deref(), Some("exit code 1"));
    let open = store.open_trials(&study_id(), None, 10).await.unwrap();
    assert_eq!(open.iter().map(|trial| trial.id.0).collect::<Vec<_>>(), [3]);
    let changed = store.trials_changed_since(&study_id(), 0, 10).await.unwrap();
    assert_eq!(changed.iter().map(|trial| trial.id.0).collect::<Vec<_>>(), [3, 1, 2]);

    let curve = store.measurements(&study_id(), TrialId(1), 0, 10).await.unwrap();
    let bits: Vec<u64> = curve.iter().map(|report| report.metrics[0].value.to_bits()).collect();
    assert_eq!(bits, [0x7ff8_0000_0000_0000, 0x7ff0_0000_0000_0000, 0x3fe8_0000_0000_0000]);
    let second = &curve[1];
    assert_eq!((second.step, second.wall_time_secs, second.elapsed_secs), (2, 1_750_000_000.1, Some(0.3)));
    assert_eq!(second.key, ReportKey::StandardOutput { attempt: 1, offset: 18_446_744_073_709_551_608 });
    assert_eq!(second.metrics[1].metric, "loss");
}

/// The released forms: their first version.
pub(super) const RELEASED: [&str; 1] = ["0.1.0"];

pub(super) fn kept_stores() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/stores")
}

#[tokio::test]
async fn every_released_form_is_read_and_can_be_changed() {
    for (version, kind) in RELEASED.into_iter().flat_map(|version| [(version, Kind::Sqlite), (version, Kind::Sled)]) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        copy(&kept_stores().join(format!("{version}.{}", kind.name())), &path);
        if let Kind::Sled = kind {
            restore_padding(&path);
        }
        let store = kind.open(&path, OpenMode::Existing).unwrap();
        check(&*store).await;
        store.create_job(samples::job("new"), Some(samples::study("new"))).await.unwrap();
        store.change_trial(&study_id(), TrialId(3), samples::succeed(1, 0.5)).await.unwrap();
        drop(store);
        let store = kind.open(&path, OpenMode::Existing).unwrap();
        assert_eq!(store.trial(&study_id(), TrialId(3)).await.unwrap().state, TrialState::Succeeded);
    }
}

#[tokio::test]
async fn the_current_form_holds_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("TUNESMITH_TEST_KEEP_STORES").map(PathBuf::from);
    for kind in [Kind::Sqlite, Kind::Sled] {
        let path = kept.as_deref().unwrap_or(folder.path()).join(format!("{}.{}", RELEASED[0], kind.name()));
        let store = kind.open(&path, OpenMode::Create).unwrap();
        write(&*store).await;
        drop(store);
        check(&*kind.open(&path, OpenMode::Existing).unwrap()).await;
    }
}

/// The files at `path` with their contents.
pub(super) fn contents(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    if !path.is_dir() {
        return BTreeMap::from([(path.to_owned(), std::fs::read(path).unwrap())]);
    }
    let entries = std::fs::read_dir(path).unwrap();
    entries.flat_map(|entry| contents(&entry.unwrap().path())).collect()
}

/// Opens the store at `path`, which is refused and not changed.
fn refusal(kind: Kind, path: &Path) -> StoreError {
    let before = contents(path.parent().unwrap());
    let [error, _] = [OpenMode::Create, OpenMode::Existing].map(|mode| kind.open(path, mode).err().unwrap());
    assert!(contents(path.parent().unwrap()) == before, "the store was changed");
    error
}

fn change_with_sqlite(path: &Path, sql: &str) {
    rusqlite::Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

#[tokio::test]
async fn an_sqlite_store_of_a_later_form_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    drop(Kind::Sqlite.open(&path, OpenMode::Create).unwrap());
    change_with_sqlite(&path, "PRAGMA user_version = 2");
    match Kind::Sqlite.open(&path, OpenMode::Create).err().unwrap() {
        StoreError::TooNew { found, known, .. } => assert_eq!((found, known), (2, 1)),
        other => panic!("{other:?}"),
    }
    change_with_sqlite(&path, "PRAGMA user_version = 1");
    drop(Kind::Sqlite.open(&path, OpenMode::Existing).unwrap());
}

#[tokio::test]
async fn a_sled_store_of_a_later_form_is_refused_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    drop(Kind::Sled.open(&path, OpenMode::Create).unwrap());
    std::fs::write(path.join("format"), "2\n").unwrap();
    match refusal(Kind::Sled, &path) {
        StoreError::TooNew { found, known, .. } => assert_eq!((found, known), (2, 1)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn stores_of_versions_before_the_first_release_are_refused_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    // The application ID of that time, with a change that is only in the log: it would be merged if a connection were closed.
    change_with_sqlite(&path, "PRAGMA application_id = 1416516461; PRAGMA user_version = 3; PRAGMA journal_mode = wal");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    connection.execute_batch("CREATE TABLE jobs (id TEXT)").unwrap();
    drop(connection);
    let message = refusal(Kind::Sqlite, &path).to_string();
    let expected = format!(
        "{} was written by a version before 0.1.0 (schema version 3 of that time), which this program does not read: use an \
         empty data folder or database, and export results with the program that wrote it",
        path.display()
    );
    assert_eq!(message, expected);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    drop(sled::open(&path).unwrap());
    let error = refusal(Kind::Sled, &path);
    assert!(matches!(&error, StoreError::BeforeRelease { found, .. } if found == "no file format"), "{error:?}");
}
