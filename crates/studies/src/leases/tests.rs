use std::collections::HashMap;
use std::sync::Mutex;

use async_trait::async_trait;
use jiff::SignedDuration;
use tunesmith_store::MemoryStore;
use tunesmith_store::Store;

use super::*;
use crate::clock::{Clock, ManualClock};
use crate::search_policy::SearchPolicy;
use crate::tests::{key, loss, request, study};
use tunesmith_domain::{Study, StudyFields};

const LEASE: Duration = Duration::from_secs(60);

fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

/// In-memory documents on the servers' clock.
struct SharedDocuments {
    clock: Arc<ManualClock>,
    changed: Mutex<HashMap<(String, String), Timestamp>>,
}

#[async_trait]
impl Documents for SharedDocuments {
    async fn put(&self, kind: &str, name: &str, _: u64, _: Vec<u8>) -> Result<(), StoreError> {
        self.changed.lock().unwrap().insert((kind.to_owned(), name.to_owned()), self.clock.steady());
        Ok(())
    }

    async fn get_or_put(&self, _: &str, _: &str, _: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        unreachable!()
    }

    async fn replace(&self, _: &str, _: &str, _: Option<Vec<u8>>, _: Vec<u8>) -> Result<bool, StoreError> {
        unreachable!()
    }

    async fn part(&self, _: &str, _: &str, _: u64) -> Result<Option<Vec<u8>>, StoreError> {
        unreachable!()
    }

    async fn list(&self, kind: &str) -> Result<Vec<(String, Vec<u8>, Duration)>, StoreError> {
        let changed = self.changed.lock().unwrap();
        let age = |time: Timestamp| Duration::try_from(self.clock.steady().duration_since(time)).unwrap();
        Ok(changed
            .iter()
            .filter(|((of, _), _)| of == kind)
            .map(|((_, name), time)| (name.clone(), Vec::new(), age(*time)))
            .collect())
    }

    async fn list_after(&self, _: &str, _: &str, _: usize) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        unreachable!()
    }

    async fn touch(&self, kind: &str, name: &str) -> Result<bool, StoreError> {
        self.put(kind, name, 0, Vec::new()).await?;
        Ok(true)
    }

    async fn remove(&self, _: &str, _: &str) -> Result<(), StoreError> {
        unreachable!()
    }

    async fn remove_exactly(&self, _: &str, _: &str, _: Vec<u8>) -> Result<bool, StoreError> {
        unreachable!()
    }

    async fn remove_unused(&self, _: &str, _: Duration) -> Result<Vec<String>, StoreError> {
        unreachable!()
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(self.clock.steady())
    }
}

/// Servers on one store.
struct Servers {
    store: Arc<MemoryStore>,
    clock: Arc<ManualClock>,
    documents: Arc<SharedDocuments>,
    study: StudyId,
}

impl Servers {
    async fn new() -> Self {
        let clock = Arc::new(ManualClock::new(at(10_000)));
        let documents = Arc::new(SharedDocuments { clock: Arc::clone(&clock), changed: Mutex::default() });
        let store = Arc::new(MemoryStore::new());
        let fields = StudyFields { trial_lease: Some(LEASE), ..study("p/l/s") };
        store.create_study(Study::restore(fields)).await.unwrap();
        Self { store, clock, documents, study: "p/l/s".parse().unwrap() }
    }

    /// Adds a server.
    fn start(&self) -> Studies {
        let policy = Arc::new(SearchPolicy::new(self.store.clone(), 1));
        Studies::new(self.store.clone(), policy, self.clock.clone()).with_servers(self.documents.clone())
    }

    /// Runs `servers` up to second `until`; returns the number of reclaimed trials.
    async fn run(&self, servers: &[&Studies], until: i64) -> u64 {
        let (mut swept, mut now) = (0, self.clock.steady());
        while now <= at(until) {
            self.clock.set(now);
            for server in servers {
                swept += server.check_leases().await.unwrap();
            }
            now += SignedDuration::from_secs(1);
        }
        swept
    }
}

#[tokio::test]
async fn start_of_a_server_beside_another_one_prolongs_no_lease() {
    let servers = Servers::new().await;
    let first = servers.start();
    first.check_leases().await.unwrap();
    first.suggest(&servers.study, &request("silent")).await.unwrap();
    assert_eq!(servers.run(&[&first], 10_059).await, 0);
    // Expires before the other server checks it.
    servers.clock.set(at(10_061));
    assert_eq!(servers.start().check_leases().await.unwrap(), 1, "its client was silent");
}

#[tokio::test]
async fn leases_that_end_while_no_server_answers_are_renewed_and_those_of_silent_clients_are_not() {
    let servers = Servers::new().await;
    let first = servers.start();
    first.check_leases().await.unwrap();
    first.suggest(&servers.study, &request("early")).await.unwrap();
    servers.run(&[&first], 10_030).await;
    first.suggest(&servers.study, &request("late")).await.unwrap();
    servers.run(&[&first], 10_058).await;
    // The servers hang while the first lease expires, recover, and hang again while the second one expires.
    servers.clock.set(at(10_062));
    servers.documents.touch(DOCUMENT.0, DOCUMENT.1).await.unwrap();
    servers.clock.set(at(10_500));
    let (second, third) = (servers.start(), servers.start());
    assert_eq!(second.check_leases().await.unwrap(), 1, "the first lease ended while they answered");
    assert_eq!(third.check_leases().await.unwrap(), 0);
    assert_eq!(servers.run(&[&second, &third], 10_559).await, 0);
    assert_eq!(servers.run(&[&second, &third], 10_560).await, 1, "the second client was silent, too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trials_that_others_complete_or_remove_meanwhile_are_no_error() {
    const COUNT: usize = 400;
    let servers = Servers::new().await;
    let busy = servers.start();
    let count = std::num::NonZeroUsize::new(COUNT).unwrap();
    let request = crate::SuggestionRequest { count, ..request("c") };
    let trials = busy.suggest(&servers.study, &request).await.unwrap().trials;
    let other = servers.study.clone();
    servers.clock.set(at(20_000));
    let completing = tokio::spawn(async move {
        // From the opposite end, so that both meet.
        for trial in trials.iter().rev() {
            let outcome = ReportedOutcome::Measured(loss(1, 1.0, 0.5));
            busy.complete(&key(&other, trial), outcome).await.unwrap();
        }
    });
    while !completing.is_finished() {
        // Neither has a record of the other.
        servers.documents.changed.lock().unwrap().clear();
        servers.start().renew_leases(Absence::Unknown).await.unwrap();
    }
    completing.await.unwrap();
    assert_eq!(servers.start().check_leases().await.unwrap(), 0);
}
