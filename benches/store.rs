//! The cost of a durable create and complete of a trial in each store, at 1, 8 and 64 callers, beside what the disk
//! allows: one row appended to an SQLite file by group commit, and a bare append with fsync.
//!
//! Each caller has a study of its own, as callers of different jobs have. One element is one pair of changes.
#![expect(clippy::unwrap_used, reason = "a benchmark that fails has nothing to measure")]

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use futures::future::join_all;
use tokio::runtime::Runtime;
use tunesmith_contract::samples;
use tunesmith_domain::{StudyId, TrialId};
use tunesmith_store::MemoryStore;
use tunesmith_store::{OpenMode, SledStore, SqliteStore, Store};

const CALLERS: [usize; 3] = [1, 8, 64];

type Open = fn(&Path) -> Arc<dyn Store>;

const STORES: [(&str, Open); 3] = [
    ("memory", |_| Arc::new(MemoryStore::new())),
    ("sled", |path| Arc::new(SledStore::open(path, OpenMode::Create).unwrap())),
    ("sqlite", |path| Arc::new(SqliteStore::open(path, OpenMode::Create).unwrap())),
];

fn create_and_complete(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut group = criterion.benchmark_group("store/create_and_complete");
    group.sample_size(10).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
    group.throughput(Throughput::Elements(1));
    for callers in CALLERS {
        for (name, open) in STORES {
            let folder = tempfile::tempdir().unwrap();
            let store = open(&folder.path().join("store"));
            let studies = runtime.block_on(make_studies(&*store, callers));
            group.bench_function(BenchmarkId::new(name, callers), |bencher| {
                bencher.iter_custom(|pairs| time_pairs(&runtime, &store, &studies, pairs as usize));
            });
        }
        let folder = tempfile::tempdir().unwrap();
        group.bench_function(BenchmarkId::new("reference: two bare SQLite group commits", callers), |bencher| {
            bencher.iter_custom(|pairs| time_bare_commits(folder.path(), callers, pairs as usize));
        });
    }
    group.bench_function("reference: two appends with fsync", |bencher| {
        let folder = tempfile::tempdir().unwrap();
        let mut file = File::create(folder.path().join("log")).unwrap();
        bencher.iter(|| {
            for _ in 0..2 {
                file.write_all(black_box(&[0xab; 400])).unwrap();
                file.sync_all().unwrap();
            }
        });
    });
    group.finish();
}

/// The same pair of changes in a study that has many trials already.
fn growth(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut group = criterion.benchmark_group("store/growth");
    group.sample_size(10).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
    for trials in [100, 20_000] {
        let folder = tempfile::tempdir().unwrap();
        let store = STORES[2].1(&folder.path().join("store"));
        let studies = runtime.block_on(make_studies(&*store, 1));
        runtime.block_on(async {
            for first in (0..trials).step_by(25) {
                // Handed over in order and at once, so that they share commits; `join_all` polls so few in order.
                let new = (first..first + 25).map(|id| store.create_trial(&studies[0], samples::new_trial(id + 1)));
                assert!(join_all(new).await.iter().all(Result::is_ok));
            }
        });
        group.bench_function(BenchmarkId::new("sqlite, trials there", trials), |bencher| {
            bencher.iter_custom(|pairs| time_pairs(&runtime, &store, &studies, pairs as usize));
        });
    }
    group.finish();
}

async fn make_studies(store: &dyn Store, count: usize) -> Vec<StudyId> {
    let mut studies = Vec::new();
    for index in 0..count {
        let id = format!("study_{index}");
        store.create_job(samples::job(&id), Some(samples::study(&id))).await.unwrap();
        studies.push(id.parse().unwrap());
    }
    studies
}

fn time_pairs(runtime: &Runtime, store: &Arc<dyn Store>, studies: &[StudyId], pairs: usize) -> Duration {
    let start = Instant::now();
    runtime.block_on(async {
        let tasks = studies.iter().enumerate().map(|(index, study)| {
            let (store, study) = (Arc::clone(store), study.clone());
            let share = share_of(pairs, studies.len(), index);
            tokio::spawn(async move {
                let mut next = store.study(&study).await.unwrap().next_trial_id.0;
                for _ in 0..share {
                    store.create_trial(&study, samples::new_trial(next)).await.unwrap();
                    store.change_trial(&study, TrialId(next), samples::succeed(0, 0.5)).await.unwrap();
                    next += 1;
                }
            })
        });
        for task in join_all(tasks).await {
            task.unwrap();
        }
    });
    start.elapsed()
}

/// How many of `total` fall to the caller `index` of `callers`.
fn share_of(total: usize, callers: usize, index: usize) -> usize {
    total / callers + usize::from(index < total % callers)
}

/// As many rows of 400 bytes as there are callers in each transaction, twice for each pair.
fn time_bare_commits(folder: &Path, callers: usize, pairs: usize) -> Duration {
    let connection = rusqlite::Connection::open(folder.join("bare")).unwrap();
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(())).unwrap();
    connection.pragma_update(None, "synchronous", "FULL").unwrap();
    connection.execute_batch("CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, body BLOB)").unwrap();
    let start = Instant::now();
    let mut left = 2 * pairs;
    while left > 0 {
        let count = left.min(callers);
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        for _ in 0..count {
            let mut insert = connection.prepare_cached("INSERT INTO rows (body) VALUES (?1)").unwrap();
            insert.execute([black_box(&[0xab_u8; 400][..])]).unwrap();
        }
        connection.execute_batch("COMMIT").unwrap();
        left -= count;
    }
    start.elapsed()
}

criterion_group!(benches, create_and_complete, growth);
criterion_main!(benches);
