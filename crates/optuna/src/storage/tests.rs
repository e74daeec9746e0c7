use std::path::PathBuf;
use std::sync::Arc;

use futures::future::join_all;
use rusqlite::Connection;
use tempfile::TempDir;

use super::{AttributeKind, Storage, StorageError};
use crate::limits::{MESSAGE_BYTES, RECORD_BYTES, VALUE_BYTES};
use crate::storage::Parameter;
use crate::wire::{StudyDirection, Trial, TrialState};

const NOW: &str = "2026-11-26 12:00:00.000001";
const LATER: &str = "2026-11-26 12:00:01.000001";

struct Fixture {
    folder: TempDir,
    storage: Option<Arc<Storage>>,
}

impl Fixture {
    fn new() -> Self {
        let mut fixture = Self { folder: tempfile::tempdir().unwrap(), storage: None };
        fixture.reopen();
        fixture
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("optuna.sqlite")
    }

    fn reopen(&mut self) {
        self.storage = None;
        self.storage = Some(Arc::new(Storage::open(&self.path()).unwrap()));
    }

    fn storage(&self) -> &Arc<Storage> {
        self.storage.as_ref().unwrap()
    }

    async fn study(&self, name: &str) -> i64 {
        self.storage().create_study(vec![StudyDirection::Minimize], name.to_owned()).await.unwrap()
    }

    async fn trial(&self, study: i64, state: TrialState) -> i64 {
        let trial = Trial { state: state.into(), datetime_start: NOW.to_owned(), ..Trial::default() };
        self.storage().create_trial(study, trial).await.unwrap()
    }

    async fn attribute(&self, trial: i64, key: &str, value: &str) -> Result<(), StorageError> {
        let (key, value) = (key.to_owned(), value.to_owned());
        self.storage().set_trial_attribute(trial, AttributeKind::User, key, value).await
    }

    async fn parameter(&self, trial: i64, distribution: &str) -> Result<(), StorageError> {
        let parameter = Parameter { name: "x".to_owned(), value: 0.5, distribution: distribution.to_owned() };
        self.storage().set_parameter(trial, parameter).await
    }

    async fn set_state(&self, trial: i64, state: TrialState) -> Result<bool, StorageError> {
        self.storage().set_state(trial, state, Vec::new(), LATER.to_owned()).await
    }

    fn count(&self, table: &str) -> i64 {
        let connection = Connection::open(self.path()).unwrap();
        connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    }
}

fn float(high: f64, log: bool) -> String {
    format!(r#"{{"name": "FloatDistribution", "attributes": {{"low": 0.1, "high": {high}, "log": {log}}}}}"#)
}

#[tokio::test]
async fn ids_are_never_reused() {
    let mut fixture = Fixture::new();
    let first = fixture.study("a").await;
    let trials = [fixture.trial(first, TrialState::Running).await, fixture.trial(first, TrialState::Running).await];
    assert!(trials[0] < trials[1]);
    fixture.storage().delete_study(first).await.unwrap();
    // A refused change uses no ID.
    let second = fixture.study("a").await;
    assert_eq!(second, first + 1);
    let taken = fixture.storage().create_study(vec![StudyDirection::Maximize], "a".to_owned()).await;
    assert!(matches!(taken, Err(StorageError::NameTaken { name }) if name == "a"));
    fixture.reopen();
    assert_eq!(fixture.study("b").await, second + 1);
    assert_eq!(fixture.trial(second, TrialState::Running).await, trials[1] + 1);
    assert_eq!(fixture.storage().trial_id(second, 0).await.unwrap(), trials[1] + 1);
}

#[tokio::test]
async fn names_are_any_text() {
    let fixture = Fixture::new();
    for name in ["", "é/\u{0}'; DROP TABLE studies", "a", "A"] {
        let id = fixture.study(name).await;
        assert_eq!(fixture.storage().study_name(id).await.unwrap(), name);
        assert_eq!(fixture.storage().study_id(name.to_owned()).await.unwrap(), id);
    }
    let names: Vec<String> =
        fixture.storage().studies().await.unwrap().into_iter().map(|study| study.study_name).collect();
    assert_eq!(names, ["", "é/\u{0}'; DROP TABLE studies", "a", "A"]);
}

#[tokio::test]
async fn records_are_kept_exactly() {
    let mut fixture = Fixture::new();
    let doubles =
        [0.1, -0.0, 5e-324, f64::MAX, f64::INFINITY, f64::NEG_INFINITY, f64::from_bits(0x7ff8_0000_dead_beef)];
    let study = fixture.study("s").await;
    let text = r#"{"b": NaN, "a":[ -Infinity,1e400, "\ud800" ] }"#;
    let trial = Trial {
        state: TrialState::Pruned.into(),
        values: doubles.to_vec(),
        datetime_start: NOW.to_owned(),
        datetime_complete: LATER.to_owned(),
        params: [("x".to_owned(), doubles[6])].into(),
        distributions: [("x".to_owned(), float(1.0, false))].into(),
        user_attributes: [("k".to_owned(), text.to_owned())].into(),
        system_attributes: [("k".to_owned(), "1".to_owned()), (String::new(), "null".to_owned())].into(),
        intermediate_values: doubles.iter().enumerate().map(|(step, value)| (step as i64 - 3, *value)).collect(),
        // Ignored.
        trial_id: 99,
        number: 55,
    };
    let id = fixture.storage().create_trial(study, trial.clone()).await.unwrap();
    fixture.reopen();
    let read = fixture.storage().trial(id).await.unwrap();
    let bits = |values: Vec<f64>| values.into_iter().map(f64::to_bits).collect::<Vec<_>>();
    assert_eq!(bits(read.values.clone()), bits(doubles.to_vec()));
    assert_eq!(bits(read.intermediate_values.values().copied().collect()), bits(doubles.to_vec()));
    assert_eq!(read.params["x"].to_bits(), doubles[6].to_bits());
    let without_nan = |trial: Trial| Trial {
        values: Vec::new(),
        params: Default::default(),
        intermediate_values: trial.intermediate_values.into_iter().filter(|(_, value)| !value.is_nan()).collect(),
        ..trial
    };
    assert_eq!(without_nan(read), without_nan(Trial { trial_id: id, number: 0, ..trial }));
}

#[tokio::test]
async fn one_of_many_clients_takes_a_waiting_trial() {
    let fixture = Fixture::new();
    let study = fixture.study("s").await;
    for _ in 0..10 {
        let trial = fixture.trial(study, TrialState::Waiting).await;
        let taken = join_all((0..20).map(|_| fixture.set_state(trial, TrialState::Running))).await;
        assert_eq!(taken.iter().filter(|taken| *taken.as_ref().unwrap()).count(), 1);
        let read = fixture.storage().trial(trial).await.unwrap();
        assert_eq!((read.state(), read.datetime_start.as_str()), (TrialState::Running, LATER));
    }
}

#[tokio::test]
async fn trial_that_runs_keeps_its_start_and_gets_an_end() {
    let fixture = Fixture::new();
    let study = fixture.study("s").await;
    let trial = fixture.trial(study, TrialState::Running).await;
    assert!(!fixture.set_state(trial, TrialState::Running).await.unwrap());
    let values = vec![1.5];
    let updated = fixture.storage().set_state(trial, TrialState::Complete, values, LATER.to_owned()).await.unwrap();
    let read = fixture.storage().trial(trial).await.unwrap();
    assert!(updated);
    assert_eq!((read.datetime_start.as_str(), read.datetime_complete.as_str()), (NOW, LATER));
    assert_eq!((read.state(), read.values), (TrialState::Complete, vec![1.5]));
}

#[tokio::test]
async fn finished_trials_never_change() {
    let fixture = Fixture::new();
    let study = fixture.study("s").await;
    for state in [TrialState::Complete, TrialState::Pruned, TrialState::Fail] {
        let trial = fixture.trial(study, TrialState::Waiting).await;
        fixture.parameter(trial, &float(1.0, false)).await.unwrap();
        fixture.set_state(trial, state).await.unwrap();
        let before = fixture.storage().trial(trial).await.unwrap();
        // Refused for its state, before its distribution is compared.
        let refused = [
            fixture.parameter(trial, &float(1.0, true)).await.unwrap_err(),
            fixture.attribute(trial, "k", "1").await.unwrap_err(),
            fixture.storage().set_intermediate_value(trial, 0, 1.0).await.unwrap_err(),
            fixture.set_state(trial, TrialState::Running).await.unwrap_err(),
        ];
        for error in refused {
            assert!(matches!(error, StorageError::Finished { id, state: found } if (id, found) == (trial, state)));
        }
        assert_eq!(fixture.storage().trial(trial).await.unwrap(), before);
    }
}

#[tokio::test]
async fn distributions_must_agree_with_the_first_one_of_the_study() {
    let fixture = Fixture::new();
    let study = fixture.study("s").await;
    let trial = fixture.trial(study, TrialState::Running).await;
    fixture.parameter(trial, &float(1.0, false)).await.unwrap();
    let other = fixture.trial(study, TrialState::Running).await;
    let refused = fixture.parameter(other, &float(1.0, true)).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "parameter \"x\": its distribution has another scale (log); earlier trials of the study have \
         {\"name\": \"FloatDistribution\", \"attributes\": {\"low\": 0.1, \"high\": 1, \"log\": false}}"
    );
    assert!(fixture.storage().trial(other).await.unwrap().params.is_empty());
    // Another range, and any distribution in another study.
    fixture.parameter(other, &float(2.0, false)).await.unwrap();
    assert_eq!(fixture.storage().trial(other).await.unwrap().distributions["x"], float(2.0, false));
    let elsewhere = fixture.study("t").await;
    let trial = fixture.trial(elsewhere, TrialState::Running).await;
    fixture.parameter(trial, &float(1.0, true)).await.unwrap();
    // A template counts, and is refused as a whole.
    let template = Trial {
        params: [("x".to_owned(), 0.5)].into(),
        distributions: [("x".to_owned(), float(1.0, true))].into(),
        ..Trial::default()
    };
    assert!(fixture.storage().create_trial(study, template).await.is_err());
    assert_eq!(fixture.storage().trials(study, Vec::new(), -1).await.unwrap().len(), 2);
    assert_eq!(
        fixture.storage().trial_id(study, 2).await.unwrap_err().to_string(),
        format!("study {study} has no trial with the number 2")
    );
}

#[tokio::test]
async fn trials_are_read_by_id() {
    let fixture = Fixture::new();
    let (study, other) = (fixture.study("s").await, fixture.study("o").await);
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(fixture.trial(study, TrialState::Running).await);
        fixture.trial(other, TrialState::Running).await;
    }
    let read = async |included: Vec<i64>, above: i64| {
        let trials = fixture.storage().trials(study, included, above).await.unwrap();
        trials.into_iter().map(|trial| (trial.trial_id, trial.number)).collect::<Vec<_>>()
    };
    let all: Vec<(i64, i64)> = ids.iter().copied().zip(0..).collect();
    assert_eq!(read(Vec::new(), -1).await, all);
    assert_eq!(read(Vec::new(), ids[1]).await, all[2..]);
    // Those that are unknown, twice, above the bound, or in another study.
    let included = vec![ids[0], ids[3], ids[0], 1_000_000, ids[0] + 1];
    assert_eq!(read(included, ids[2]).await, [all[0], all[3]]);
    let missing = fixture.storage().trials(study + 100, Vec::new(), -1).await;
    assert!(matches!(missing, Err(StorageError::NoStudy { .. })));
}

#[tokio::test]
async fn trials_of_a_deleted_study_are_invisible_and_then_removed() {
    let mut fixture = Fixture::new();
    let (study, kept) = (fixture.study("s").await, fixture.study("kept").await);
    let template = Trial { user_attributes: [("k".to_owned(), "1".to_owned())].into(), ..Trial::default() };
    let created = join_all((0..450).map(|_| fixture.storage().create_trial(study, template.clone()))).await;
    let trial = created.into_iter().map(Result::unwrap).max().unwrap();
    let remaining = fixture.trial(kept, TrialState::Running).await;
    fixture.storage().delete_study(study).await.unwrap();
    assert!(matches!(fixture.storage().trial(trial).await, Err(StorageError::NoTrial { .. })));
    assert!(matches!(fixture.attribute(trial, "k", "1").await, Err(StorageError::NoTrial { .. })));
    assert!(matches!(fixture.storage().delete_study(study).await, Err(StorageError::NoStudy { .. })));
    // The writer removes the rest before it has time to end, or the next one does.
    fixture.reopen();
    while fixture.count("deletions") > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!((fixture.count("trials"), fixture.count("trial_attributes")), (1, 0));
    assert_eq!(fixture.storage().trial(remaining).await.unwrap().number, 0);
}

#[tokio::test]
async fn refused_changes_do_not_affect_others_of_their_group() {
    let fixture = Fixture::new();
    let created = join_all((0..100).map(|number| {
        let name = format!("study {}", number / 2);
        fixture.storage().create_study(vec![StudyDirection::Minimize], name)
    }))
    .await;
    let (done, refused): (Vec<_>, Vec<_>) = created.into_iter().partition(Result::is_ok);
    assert_eq!((done.len(), refused.len()), (50, 50));
    let mut ids: Vec<i64> = done.into_iter().map(Result::unwrap).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 50);
    assert_eq!(fixture.count("studies"), 50);
}

#[tokio::test]
async fn records_are_limited_in_size() {
    let fixture = Fixture::new();
    let study = fixture.study("s").await;
    let trial = fixture.trial(study, TrialState::Running).await;
    let value = "1".repeat(VALUE_BYTES - 1000);
    for key in ["a", "b", "c", "d", "a"] {
        fixture.attribute(trial, key, &value).await.unwrap();
    }
    let refused = fixture.attribute(trial, "e", &value).await.unwrap_err();
    let expected = format!("trial {trial} would have {} bytes; the maximum is {RECORD_BYTES}", 5 * (value.len() + 17));
    assert_eq!(refused.to_string(), expected);
    fixture.attribute(trial, "e", "1").await.unwrap();
    // Five trials of nearly 16 MiB do not fit into one response, four do.
    for _ in 0..4 {
        let other = fixture.trial(study, TrialState::Running).await;
        for key in ["a", "b", "c", "d"] {
            fixture.attribute(other, key, &value).await.unwrap();
        }
    }
    let refused = fixture.storage().trials(study, Vec::new(), -1).await.unwrap_err();
    assert!(matches!(refused, StorageError::ResponseTooLarge { maximum: MESSAGE_BYTES, .. }), "{refused}");
    assert_eq!(fixture.storage().trials(study, Vec::new(), trial).await.unwrap().len(), 4);
}

#[tokio::test]
async fn full_disk_refuses_changes_until_there_is_space() {
    let fixture = Fixture::new();
    let study = fixture.study("s").await;
    let set_pages = |pages: u32| {
        let change = move |connection: &Connection| Ok(connection.pragma_update(None, "max_page_count", pages)?);
        fixture.storage().write(change)
    };
    set_pages(100).await.unwrap();
    let value = format!("{:?}", "x".repeat(100_000));
    let template = || Trial { user_attributes: [("k".to_owned(), value.clone())].into(), ..Trial::default() };
    let created = join_all((0..20).map(|_| fixture.storage().create_trial(study, template()))).await;
    let acknowledged: Vec<i64> = created.iter().filter_map(|created| created.as_ref().ok()).copied().collect();
    assert!(acknowledged.len() < 4, "{acknowledged:?}");
    for refused in created.iter().filter_map(|created| created.as_ref().err()) {
        assert!(matches!(refused, StorageError::NotApplied { .. }), "{refused:?}");
    }
    set_pages(1_000_000).await.unwrap();
    let next = fixture.storage().create_trial(study, template()).await.unwrap();
    let stored: Vec<i64> =
        fixture.storage().trials(study, Vec::new(), -1).await.unwrap().iter().map(|trial| trial.trial_id).collect();
    assert_eq!(stored, [acknowledged, vec![next]].concat());
}

#[tokio::test]
async fn attributes_of_studies_are_replaced_by_kind_and_key() {
    let fixture = Fixture::new();
    let study = fixture.study("s").await;
    let set = async |kind, key: &str, value: &str| {
        fixture.storage().set_study_attribute(study, kind, key.to_owned(), value.to_owned()).await.unwrap();
    };
    set(AttributeKind::User, "k", "1").await;
    set(AttributeKind::System, "k", "NaN").await;
    set(AttributeKind::User, "k", "[2]").await;
    let read = &fixture.storage().studies().await.unwrap()[0];
    assert_eq!(read.user_attributes, [("k".to_owned(), "[2]".to_owned())].into());
    assert_eq!(read.system_attributes, [("k".to_owned(), "NaN".to_owned())].into());
    let user = fixture.storage().study_attributes(study, AttributeKind::User).await.unwrap();
    assert_eq!(user, read.user_attributes);
    assert_eq!(fixture.storage().study_directions(study).await.unwrap(), [0]);
}

#[tokio::test]
async fn other_files_are_refused() {
    let mut fixture = Fixture::new();
    let path = fixture.path();
    fixture.storage = None;
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 2).unwrap();
    let newer = Storage::open(&path).unwrap_err();
    assert!(matches!(newer, StorageError::TooNew { found: 2, known: 1, .. }), "{newer}");
    std::fs::remove_file(&path).unwrap();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE other (a)").unwrap();
    let other = Storage::open(&path).unwrap_err();
    assert!(matches!(other, StorageError::Damaged { .. }), "{other}");
    std::fs::write(&path, "no database".repeat(1000)).unwrap();
    let text = Storage::open(&path).unwrap_err();
    assert!(matches!(text, StorageError::Damaged { .. }), "{text}");
}

#[tokio::test]
async fn storage_whose_file_was_removed_acknowledges_nothing() {
    let fixture = Fixture::new();
    let study = fixture.study("s").await;
    std::fs::rename(fixture.path(), fixture.folder.path().join("moved")).unwrap();
    for _ in 0..2 {
        let refused = fixture.storage().delete_study(study).await.unwrap_err();
        assert!(refused.to_string().ends_with("was removed or replaced while the server ran"), "{refused}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn file_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new();
    assert_eq!(fixture.path().metadata().unwrap().permissions().mode() & 0o777, 0o600);
}
