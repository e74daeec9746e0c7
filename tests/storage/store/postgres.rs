//! The store in PostgreSQL: the contract kit, and faults of the database.

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tunesmith_contract::samples;
use tunesmith_contract::store::{Medium, check};
use tunesmith_domain::TrialId;
use tunesmith_store::{Condition, DatabaseAddress, OpenMode, PostgresStore, Store, StoreError};
use tunesmith_testing::postgres::Cluster;

use super::{dump, fill, formats, study_id};

struct Database(DatabaseAddress);

#[async_trait]
impl Medium for Database {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(PostgresStore::open(&self.0, OpenMode::Create).await.unwrap())
    }
}

fn address(cluster: &Cluster, name: &str) -> DatabaseAddress {
    DatabaseAddress::from_str(&cluster.create_database(name)).unwrap()
}

async fn open(address: &DatabaseAddress) -> Arc<dyn Store> {
    Arc::new(PostgresStore::open(address, OpenMode::Create).await.unwrap())
}

/// The error of opening the store at `address`, with its causes.
async fn open_error(address: &str) -> String {
    let error = match PostgresStore::open(&address.parse().unwrap(), OpenMode::Create).await {
        Ok(_) => panic!("{address} was opened"),
        Err(error) => error,
    };
    assert!(error.is_certainly_not_applied());
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn postgres_passes_the_contract_kit() {
    let cluster = Cluster::start();
    let count = AtomicUsize::new(0);
    let place = || Database(address(&cluster, &format!("place{}", count.fetch_add(1, Ordering::Relaxed))));
    check(place).await;
}

/// Several stores of one database, of which each call of `open` returns the next: the servers of a contract kit.
struct Servers {
    address: DatabaseAddress,
    count: usize,
}

#[async_trait]
impl Medium for Servers {
    async fn open(&self) -> Arc<dyn Store> {
        let mut stores = Vec::new();
        for _ in 0..self.count {
            stores.push(PostgresStore::open(&self.address, OpenMode::Create).await.unwrap());
        }
        Arc::new(super::several::several(stores))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn three_stores_of_one_database_pass_the_contract_kit() {
    let cluster = Cluster::with_options(&["fsync=off", "max_connections=200"]);
    let count = AtomicUsize::new(0);
    let place =
        || Servers { address: address(&cluster, &format!("place{}", count.fetch_add(1, Ordering::Relaxed))), count: 3 };
    check(place).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unusable_database_is_refused_with_what_to_do() {
    let cluster = Cluster::start();
    let good = cluster.create_database("tuning");
    let wrong = open_error(&good.replace(":right@", ":wrong@")).await;
    assert!(
        wrong.contains("password authentication failed for user \"test\"; give the password of test in PGPASSWORD"),
        "{wrong}"
    );
    assert!(
        !wrong.contains("wrong@") && wrong.contains(&format!("postgres://test@127.0.0.1:{}/tuning", cluster.port()))
    );
    let missing = open_error(&good.replace("/tuning", "/other")).await;
    assert!(missing.contains("there is no database other; create it with `createdb --owner=test other`"), "{missing}");
    cluster.query("tuning", "CREATE TABLE jobs (id integer)");
    let foreign = open_error(&good).await;
    assert!(
        foreign.contains("it has tables of another program named jobs, studies or trials; use an empty database"),
        "{foreign}"
    );
    cluster.query("tuning", "DROP TABLE jobs; CREATE ROLE reader LOGIN PASSWORD 'r'");
    let refused = open_error(&good.replace("test:right@", "reader:r@")).await;
    assert!(refused.contains("permission denied for schema public; the user needs to create tables"), "{refused}");
    assert_eq!(
        cluster.query("tuning", "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"),
        "0",
        "nothing half done"
    );
    // The tables of a version before 0.1.0.
    cluster.query("tuning", "CREATE TABLE schema_version (version bigint); CREATE TABLE jobs (id text)");
    let before = open_error(&good).await;
    assert!(
        before.contains("written by a version before 0.1.0 (the table schema_version)")
            && before.contains("use an empty data folder or database"),
        "{before}"
    );
    assert_eq!(cluster.query("tuning", "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), "2");
    cluster.stop();
    let down = open_error(&good).await;
    assert!(down.contains("the database cannot be reached: Connection refused"), "{down}");
    assert!(down.contains("check that it runs, and the host and port of --store"), "{down}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn newer_tables_are_refused_unless_they_are_marked_as_readable() {
    let cluster = Cluster::start();
    let address = address(&cluster, "tuning");
    drop(open(&address).await);
    cluster.query("tuning", "UPDATE tunesmith_schema SET version = version + 1");
    let store = open(&address).await;
    fill(&*store, 2).await;
    cluster.query("tuning", "UPDATE tunesmith_schema SET version = 99, readable_from = 99");
    match PostgresStore::open(&address, OpenMode::Create).await {
        Err(StoreError::TooNew { found: 99, .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_start_together_migrate_once() {
    let cluster = Cluster::start();
    let address = address(&cluster, "tuning");
    let opened = futures::future::join_all((0..8).map(|_| PostgresStore::open(&address, OpenMode::Create))).await;
    let identities: Vec<String> = opened.into_iter().map(|store| store.unwrap().identity().to_owned()).collect();
    assert!(identities.iter().all(|identity| *identity == identities[0]), "{identities:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_rows_are_reported_as_damage() {
    let cluster = Cluster::start();
    let address = address(&cluster, "tuning");
    let store = open(&address).await;
    fill(&*store, 4).await;
    dump(&*store).await.unwrap();
    let damages = [
        ("UPDATE jobs SET body = replace(body, '\"v\":1', '\"v\": 1')", "the record of job study: its checksum is"),
        ("UPDATE studies SET crc = crc + 1", "the record of study study: its checksum is"),
        ("UPDATE progress SET next_trial_id = 9", "the record of the progress of study study: its checksum is"),
        ("DELETE FROM progress", "the record of study study: its progress is missing"),
        ("DELETE FROM trials WHERE id = 3", "trial 3 of study study is missing"),
        ("UPDATE trials SET revision = revision + 100 WHERE id = 3", "its row has"),
        ("UPDATE trials SET body = (SELECT t.body FROM trials t WHERE t.id = 2) WHERE id = 3", "the record of trial 3"),
        ("DELETE FROM measurements WHERE trial = 3", "measurement 0 of trial 3 of study study is missing"),
        ("UPDATE measurements SET body = body || '\\x00' WHERE trial = 3", "the record of measurement 0 of trial 3"),
        ("DROP TABLE measurements", "relation \"measurements\" does not exist; stop, keep a copy"),
    ];
    cluster.query("tuning", "SELECT 1");
    drop(store);
    for (number, (sql, expected)) in damages.iter().enumerate() {
        let name = format!("damaged{number}");
        cluster.query("postgres", &format!("CREATE DATABASE {name} TEMPLATE tuning"));
        cluster.query(&name, sql);
        let damaged = format!("postgres://test:right@127.0.0.1:{}/{name}", cluster.port());
        let store = open(&damaged.parse().unwrap()).await;
        match dump(&*store).await {
            Err(StoreError::Damaged { detail, .. }) => assert!(detail.contains(expected), "{sql}: {detail}"),
            other => panic!("{sql}: {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn database_that_returns_is_used_again_and_the_condition_is_true() {
    let cluster = Cluster::start();
    let address = address(&cluster, "tuning");
    let store = open(&address).await;
    fill(&*store, 1).await;
    let before = dump(&*store).await.unwrap();
    let mut condition = store.condition();
    assert_eq!(*condition.borrow(), Condition::Working);
    cluster.stop();
    let refused = store.create_trial(&study_id(), samples::new_trial(2)).await.unwrap_err();
    assert!(refused.is_certainly_not_applied(), "{refused:?}");
    let fault = refused.fault().unwrap().to_string();
    assert!(fault.starts_with("the database cannot be reached: "), "{fault}");
    assert!(matches!(&*condition.borrow_and_update(), Condition::Failing(_)));
    let unread = store.study(&study_id()).await.unwrap_err();
    assert!(unread.fault().is_some(), "{unread:?}");
    cluster.restart();
    condition.wait_for(|condition| *condition == Condition::Working).await.unwrap();
    assert_eq!(dump(&*store).await.unwrap(), before);
    store.create_trial(&study_id(), samples::new_trial(2)).await.unwrap();
    // Idle sessions of before the restart are replaced without an error.
    cluster.stop();
    cluster.restart();
    store.create_trial(&study_id(), samples::new_trial(3)).await.unwrap();
    cluster.stop();
    cluster.restart();
    assert_eq!(store.study(&study_id()).await.unwrap().next_trial_id, TrialId(4));
}

/// What callers know of the trials that they tried to create, each by a name of its own.
#[derive(Default)]
struct Outcomes {
    acknowledged: Vec<(String, u64)>,
    certainly_not: Vec<String>,
    unknown: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_outcome_is_true_when_the_database_is_killed() {
    const ROUNDS: usize = 4;
    const TASKS: usize = 12;
    let cluster = Arc::new(Cluster::with_options(&["restart_after_crash=on"]));
    let address = address(&cluster, "tuning");
    let store = open(&address).await;
    fill(&*store, 0).await;
    let outcomes = Arc::new(std::sync::Mutex::new(Outcomes::default()));
    for round in 0..ROUNDS {
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let is_down = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let tasks = (0..TASKS).map(|task| {
            let (store, outcomes) = (Arc::clone(&store), Arc::clone(&outcomes));
            let (acknowledged, is_down) = (Arc::clone(&acknowledged), Arc::clone(&is_down));
            tokio::spawn(async move {
                let mut next = 1;
                for attempt in 0.. {
                    let name = format!("{round}-{task}-{attempt}");
                    let trial = tunesmith_domain::NewTrial { client_id: name.clone(), ..samples::new_trial(next) };
                    let created = store.create_trial(&study_id(), trial).await;
                    let mut outcomes = outcomes.lock().unwrap();
                    match created {
                        Ok(trial) => {
                            outcomes.acknowledged.push((name, trial.id.0));
                            acknowledged.fetch_add(1, Ordering::Relaxed);
                            next = trial.id.0 + 1;
                        }
                        Err(StoreError::TrialIdTaken { next: free, .. }) => next = free.0,
                        Err(error) if error.is_certainly_not_applied() => outcomes.certainly_not.push(name),
                        Err(_) => outcomes.unknown += 1,
                    }
                    if is_down.load(Ordering::Relaxed) {
                        return;
                    }
                }
            })
        });
        let tasks: Vec<_> = tasks.collect();
        // After a number of commits that differs from round to round.
        while acknowledged.load(Ordering::Relaxed) < 20 + 13 * round {
            tokio::task::yield_now().await;
        }
        let (killed, down) = (Arc::clone(&cluster), Arc::clone(&is_down));
        tokio::task::spawn_blocking(move || {
            killed.kill();
            down.store(true, Ordering::Relaxed);
            killed.restart();
        })
        .await
        .unwrap();
        for task in tasks {
            task.await.unwrap();
        }
    }
    let mut condition = store.condition();
    condition.wait_for(|condition| *condition == Condition::Working).await.unwrap();
    let stored = store.trials(&study_id(), None, usize::MAX).await.unwrap();
    let names: std::collections::BTreeMap<_, _> =
        stored.iter().map(|trial| (trial.client_id.clone(), trial.id.0)).collect();
    assert_eq!(names.len(), stored.len(), "no trial was created twice");
    let outcomes = std::mem::take(&mut *outcomes.lock().unwrap());
    for (name, id) in &outcomes.acknowledged {
        assert_eq!(names.get(name), Some(id), "trial {id} was acknowledged to {name}");
    }
    for name in &outcomes.certainly_not {
        assert_eq!(names.get(name), None, "{name} got the answer that its trial is certainly not created");
    }
    assert!(outcomes.acknowledged.len() >= 20 * ROUNDS);
    assert_eq!(outcomes.unknown, 0, "every outcome is read after the database has returned");
    let explained = outcomes.acknowledged.len();
    assert_eq!(stored.len(), explained, "every trial was acknowledged");
}

/// The dump of a database of every released form is read. To write that of the current one, set
/// `TUNESMITH_TEST_KEEP_STORES` to a folder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_released_form_of_the_tables_is_read_and_can_be_changed() {
    let cluster = Cluster::start();
    let address = address(&cluster, "current");
    let store = open(&address).await;
    formats::write(&*store).await;
    formats::check(&*store).await;
    if let Some(folder) = std::env::var_os("TUNESMITH_TEST_KEEP_STORES") {
        cluster.dump("current", &Path::new(&folder).join("0.1.0.postgres.sql"));
    }
    for version in formats::RELEASED {
        let address = self::address(&cluster, version);
        cluster.restore(version, &formats::kept_stores().join(format!("{version}.postgres.sql")));
        let store = PostgresStore::open(&address, OpenMode::Existing).await.unwrap();
        formats::check(&store).await;
        store.change_trial(&study_id(), TrialId(3), samples::succeed(1, 0.5)).await.unwrap();
    }
}
