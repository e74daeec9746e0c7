//! The statements of the store in PostgreSQL: their number, and their conflicts with those of other servers.

use std::io::Write;
use std::process::{ChildStdin, Stdio};
use std::sync::Arc;

use tunesmith_contract::samples;
use tunesmith_domain::{NewTrial, StudyChange, StudyState, TrialId, TrialStart};
use tunesmith_store::{DocumentChanges, Documents, FEW, OpenMode, PostgresDocuments, PostgresStore, Store, StoreError};
use tunesmith_testing::paced::until;
use tunesmith_testing::postgres::Cluster;

use super::{fill, study_id};

/// The statements that a suggestion and a completion take: three to read the study and its trials, and two for each change.
const STATEMENTS_OF_A_PAIR: usize = 7;

async fn open(address: &str) -> Arc<dyn Store> {
    Arc::new(PostgresStore::open(&address.parse().unwrap(), OpenMode::Create).await.unwrap())
}

/// The calls of the store for a suggestion and the completion of the trial `id`.
async fn pair(store: &dyn Store, id: u64) {
    let (study, open) = store.study_and_open_trials(&study_id(), None, FEW).await.unwrap();
    assert_eq!((study.next_trial_id, open.len()), (TrialId(id), 0));
    let changed = store.trials_changed_since(&study_id(), study.revision.saturating_sub(1), FEW).await.unwrap();
    assert!(changed.len() <= 1, "{changed:?}");
    let new = NewTrial { start: TrialStart::Started { lease: None }, ..samples::new_trial(id) };
    store.create_trial(&study_id(), new).await.unwrap();
    let (_, trial) = store.trial_of_study(&study_id(), TrialId(id)).await.unwrap();
    let done = store.change_trial(&study_id(), TrialId(id), samples::succeed(trial.attempt, 0.5)).await.unwrap();
    assert!(done.state.is_final());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pair_of_suggestion_and_completion_takes_few_statements() {
    const PAIRS: usize = 5;
    let cluster = Cluster::with_options(&["fsync=off", "log_statement=all", "log_line_prefix="]);
    let store = open(&cluster.create_database("tuning")).await;
    fill(&*store, 0).await;
    // Opens the sessions.
    pair(&*store, 1).await;
    let before = cluster.statements().len();
    for id in 0..PAIRS {
        pair(&*store, 2 + id as u64).await;
    }
    let mut statements = cluster.statements().split_off(before);
    // Of a session that is opened because the one before is not free yet.
    statements.retain(|sql| !sql.starts_with("INSERT INTO writers") && !sql.starts_with("SELECT set_config"));
    assert_eq!(statements.len(), PAIRS * STATEMENTS_OF_A_PAIR, "{statements:#?}");
    assert!(!statements.iter().any(|sql| sql.starts_with("BEGIN")), "{statements:#?}");
}

/// A session of psql in a transaction that has changed something.
struct OpenTransaction(std::process::Child, Option<ChildStdin>);

impl OpenTransaction {
    fn begin(cluster: &Cluster, address: &str, sql: &str) -> Self {
        let mut command = tunesmith_testing::program(tunesmith_testing::postgres::programs().join("psql"));
        let mut session = command.args(["-X", "-q", address]).stdin(Stdio::piped()).spawn().unwrap();
        let mut input = session.stdin.take().unwrap();
        writeln!(input, "BEGIN; {sql}; NOTIFY x;").unwrap();
        let open = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND query LIKE 'NOTIFY%'";
        until(|| {
            assert!(session.try_wait().unwrap().is_none(), "psql has ended");
            cluster.query("tuning", open) == "1"
        });
        Self(session, Some(input))
    }

    fn commit(mut self) {
        let mut input = self.1.take().unwrap();
        writeln!(input, "COMMIT;").unwrap();
        drop(input);
        assert!(self.0.wait().unwrap().success());
    }
}

/// Waits until a session waits for a lock of another one.
fn until_one_waits(cluster: &Cluster) {
    until(|| cluster.query("tuning", "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted") == "t");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn change_is_computed_again_if_another_server_changed_its_study_meanwhile() {
    let cluster = Cluster::start();
    let address = cluster.create_database("tuning");
    let store = open(&address).await;
    fill(&*store, 2).await;
    let create = |id| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.create_trial(&study_id(), samples::new_trial(id)).await })
    };
    // What every change of a study does to its rows.
    let touched = OpenTransaction::begin(&cluster, &address, "UPDATE progress SET study = study");
    let creation = create(3);
    until_one_waits(&cluster);
    assert!(!creation.is_finished());
    touched.commit();
    assert_eq!(creation.await.unwrap().unwrap().id, TrialId(3));
    let deleted = OpenTransaction::begin(&cluster, &address, "DELETE FROM studies; DELETE FROM progress");
    let creation = create(4);
    until_one_waits(&cluster);
    deleted.commit();
    let refused = creation.await.unwrap().unwrap_err();
    assert!(matches!(refused, StoreError::NotFound { .. }), "{refused:?}");
    assert_eq!(cluster.query("tuning", "SELECT max(id) FROM trials"), "3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_documents_include_a_write_that_was_in_progress_at_the_last_read() {
    // Vacuuming has transactions of its own.
    let cluster = Cluster::with_options(&["fsync=off", "autovacuum=off"]);
    let address = cluster.create_database("tuning");
    let store = PostgresStore::open(&address.parse().unwrap(), OpenMode::Create).await.unwrap();
    let documents = PostgresDocuments::new(Arc::new(store));
    for (kind, name) in [("models/p", "a"), ("models/q", "b"), ("model-files", "a")] {
        documents.put(kind, name, 0, b"1".to_vec()).await.unwrap();
        documents.put(kind, name, 1, b"part".to_vec()).await.unwrap();
    }
    let changes = async |cursor| documents.changes("models/", cursor, 10).await.unwrap().unwrap();
    let names = |changes: &DocumentChanges| {
        let name = |(kind, name, body): &(String, String, Vec<u8>)| format!("{kind} {name} {}", body.escape_ascii());
        changes.documents.iter().map(name).collect::<Vec<_>>()
    };
    let first = changes(None).await;
    assert_eq!((first.total, first.documents.len()), (2, 0));
    assert_eq!(changes(Some(first.cursor)).await.documents, []);
    let written = "UPDATE documents SET body = '2' WHERE kind = 'models/p' AND part = 0";
    let written = OpenTransaction::begin(&cluster, &address, written);
    assert!(documents.touch("models/q", "b").await.unwrap());
    let second = changes(Some(first.cursor)).await;
    assert_eq!(names(&second), ["models/q b 1"]);
    written.commit();
    let third = changes(Some(second.cursor)).await;
    assert_eq!(names(&third), ["models/p a 2", "models/q b 1"]);
    assert_eq!(documents.changes("models/", Some(second.cursor), 1).await.unwrap().unwrap().documents.len(), 1);
    assert!(!documents.remove_exactly("models/p", "a", b"1".to_vec()).await.unwrap());
    assert!(documents.remove_exactly("models/p", "a", b"2".to_vec()).await.unwrap());
    let last = changes(Some(third.cursor)).await;
    assert_eq!((last.total, last.documents.len()), (1, 0));
    // Numbers of rows have 32 bits.
    let wrapped = changes(Some(last.cursor + (3 << 32))).await;
    assert_eq!(wrapped.documents, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn study_that_another_server_ends_gets_no_more_trials() {
    let cluster = Cluster::start();
    let address = cluster.create_database("tuning");
    let (store, other) = (open(&address).await, open(&address).await);
    for round in 0..20 {
        let id: tunesmith_domain::StudyId = format!("p/l/s{round}").parse().unwrap();
        store.create_study(samples::study(id.as_str())).await.unwrap();
        let complete = StudyChange::Complete { reason: "enough".to_owned() };
        let (created, ended) =
            futures::join!(store.create_trial(&id, samples::new_trial(1)), other.change_study(&id, complete));
        assert_eq!(ended.unwrap().state, StudyState::Completed);
        let study = store.study(&id).await.unwrap();
        assert_eq!(study.state, StudyState::Completed);
        let trials = store.trials(&id, None, FEW).await.unwrap();
        assert_eq!(trials.len(), usize::from(created.is_ok()), "{created:?}");
        let refused = store.create_trial(&id, samples::new_trial(study.next_trial_id.0)).await.unwrap_err();
        assert!(matches!(refused, StoreError::Refused(_)), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn change_that_the_database_refuses_is_certainly_not_applied_and_names_the_cause() {
    let cluster = Cluster::start();
    let store = open(&cluster.create_database("tuning")).await;
    fill(&*store, 2).await;
    let set = |value: &str| {
        cluster.query("tuning", &format!("ALTER SYSTEM SET default_transaction_read_only = {value}"));
        cluster.query("tuning", "SELECT pg_reload_conf()");
        until(|| cluster.query("tuning", "SHOW default_transaction_read_only") == value);
    };
    set("on");
    // A session takes the setting over before its next statement.
    let refused = loop {
        let next = store.study(&study_id()).await.unwrap().next_trial_id.0;
        if let Err(error) = store.create_trial(&study_id(), samples::new_trial(next)).await {
            break error;
        }
    };
    assert!(refused.is_certainly_not_applied(), "{refused:?}");
    assert_eq!(refused.fault().unwrap().to_string(), "the database is read-only, as a standby is");
    set("off");
    let mut condition = store.condition();
    condition.wait_for(|condition| *condition == tunesmith_store::Condition::Working).await.unwrap();
    let next = store.study(&study_id()).await.unwrap().next_trial_id.0;
    store.create_trial(&study_id(), samples::new_trial(next)).await.unwrap();
}
