//! Acknowledged changes survive `kill -9` and are synced to the medium.
#![expect(clippy::print_stdout, reason = "the campaign prints its figures")]

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use tunesmith_contract::samples;
use tunesmith_domain::{TrialId, TrialState};
use tunesmith_store::OpenMode;

use super::{Kind, child, study_id};

/// Number of kills, unless set by `TUNESMITH_KILL_ROUNDS`.
const KILL_ROUNDS: usize = 20;

#[test]
fn sqlite_syncs_every_acknowledged_batch() {
    const COUNT: usize = 30;
    // One task waits for each answer before its next change, so every change is a commit of its own.
    let alone = count_syncs(1, COUNT);
    assert!(alone >= 2 * COUNT as u64, "{alone} syncs for {} changes, each acknowledged by itself", 2 * COUNT);
    // Many tasks share commits. Each creation is a commit of its own, because 64 tasks request the same number and only
    // one succeeds; the completions wait together.
    let together = count_syncs(64, 10);
    assert!((20..960).contains(&together), "{together} syncs for 1,280 changes of 64 tasks");
    println!("syncs: {alone} for {} changes one by one, {together} for 1,280 changes of 64 tasks", 2 * COUNT);
}

fn count_syncs(tasks: usize, each: usize) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let counts = folder.path().join("counts");
    let launcher = ["strace", "-f", "-c", "-e", "trace=fsync,fdatasync", "-o", counts.to_str().unwrap()];
    if let Err(error) = tunesmith_testing::program("strace").arg("-V").output() {
        panic!("this test counts syncs with strace, which cannot be run here ({error}); install strace");
    }
    let output = child::writer(&launcher, Kind::Sqlite, &folder.path().join("store"), tasks, each).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let counts = std::fs::read_to_string(counts).unwrap();
    // Columns: % time, seconds, usecs/call, calls, [errors,] syscall.
    let rows = counts.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let calls = rows.filter(|row| matches!(row.last(), Some(&"fsync" | &"fdatasync")));
    calls.map(|row| row[3].parse::<u64>().unwrap()).sum()
}

#[tokio::test]
async fn sqlite_keeps_acknowledged_changes_after_kills() {
    survives_kills(Kind::Sqlite).await;
}

#[tokio::test]
async fn sled_keeps_acknowledged_changes_after_kills() {
    survives_kills(Kind::Sled).await;
}

async fn survives_kills(kind: Kind) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut acknowledged = Vec::new();
    let rounds = std::env::var("TUNESMITH_KILL_ROUNDS").map_or(KILL_ROUNDS, |rounds| rounds.parse().unwrap());
    for round in 0..rounds {
        let mut writer = child::writer(&[], kind, &path, 8, usize::MAX).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(writer.stdout.take().unwrap());
        let before = acknowledged.len();
        let mut killed = false;
        for line in lines.lines() {
            if let Some(id) = line.unwrap().strip_prefix(child::ACKNOWLEDGED) {
                acknowledged.push(TrialId(id.parse().unwrap()));
            }
            // The number of answers before the kill differs between rounds; later ones are checked too.
            if !killed && acknowledged.len() >= before + 1 + 7 * round % 23 {
                writer.kill().unwrap();
                killed = true;
            }
        }
        writer.wait().unwrap();
        assert!(killed, "the writer ended before it was killed in round {round}");

        let store = kind.open(&path, OpenMode::Existing).unwrap();
        for id in &acknowledged {
            let trial = store.trial(&study_id(), *id).await.unwrap();
            assert_eq!(trial.state, TrialState::Succeeded, "trial {id} after round {round}");
            assert_eq!(trial.parameters, samples::new_trial(id.0).parameters);
            let curve = store.measurements(&study_id(), *id, 0, 2).await.unwrap();
            assert_eq!(curve, [samples::measurement(100, id.0 as f64)]);
        }
        // No trial is stored in part.
        let trials = store.trials(&study_id(), None, usize::MAX).await.unwrap();
        let study = store.study(&study_id()).await.unwrap();
        assert_eq!(trials.len() as u64 + 1, study.next_trial_id.0);
        assert_eq!(store.trials_changed_since(&study.id, 0, usize::MAX).await.unwrap().len(), trials.len());
    }
    println!("figures: {}: {rounds} kills, {} trials acknowledged, 0 lost", kind.name(), acknowledged.len());
}
