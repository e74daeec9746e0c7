//! Failing writes and syncs: nothing acknowledged is lost, and the store works again once the medium does.
//!
//! strace makes system calls of a writing process fail. `TUNESMITH_FAULT_POINTS` sets the number of places at which each
//! kind of call fails, 6 by default.
#![expect(clippy::print_stdout, reason = "the campaign prints its figures")]

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use tunesmith_contract::samples;
use tunesmith_domain::{TrialId, TrialState};
use tunesmith_store::{Condition, OpenMode, StoreError};

use super::{Kind, child, copy, dump, fill, study_id};

/// The number of consecutive calls that fail.
const FAILURES: usize = 3;

#[tokio::test]
async fn sqlite_survives_failing_writes_and_syncs() {
    let mut figures = Figures::default();
    for (calls, error) in [("pwrite64", "ENOSPC"), ("pwrite64", "EIO"), ("fsync,fdatasync", "EIO")] {
        for point in 0..points() {
            let run = Run::with_fault(Kind::Sqlite, calls, error, 25 + 7 * point);
            assert!(run.is_finished, "{calls} {error}: the store did not work again:\n{}", run.output);
            assert!(run.output.contains("condition Working"), "{}", run.output);
            let causes: &[&str] = match error {
                "ENOSPC" => &["no space left on device"],
                // The words of SQLite, and those of the system where it was asked.
                _ => &["disk I/O error", "Input/output error"],
            };
            let is_named = |failure: &String| causes.iter().any(|cause| failure.contains(cause));
            assert!(run.failed.iter().all(is_named), "{:?}", run.failed);
            figures.add(&run);
            run.check(Kind::Sqlite).await;
        }
    }
    figures.print("sqlite");
}

#[tokio::test]
async fn sled_stops_at_failing_writes_and_keeps_what_it_acknowledged() {
    let mut figures = Figures::default();
    for (calls, error) in [("pwrite64", "ENOSPC"), ("pwrite64", "EIO")] {
        for point in 0..points() {
            let run = Run::with_fault(Kind::Sled, calls, error, 12 + 7 * point);
            // A failure beside the log, in the count of acknowledged changes, does not stop sled.
            assert!(run.is_finished || run.output.contains("condition Stopped"), "{}", run.output);
            figures.add(&run);
            run.check(Kind::Sled).await;
        }
    }
    figures.print("sled");
}

/// Sled would wait for ever for the end of a flush if the last write that the flush waits for fails.
#[tokio::test]
async fn sled_change_ends_if_its_last_write_fails() {
    let mut figures = Figures::default();
    // Strace counts the writes of each thread. Half of those that fail here are the first record of a transaction.
    for point in 2..2 + points() {
        let inject = format!("inject=pwrite64:error=EIO:delay_enter=200000:when={point}");
        let run = Run::with_injection(Kind::Sled, "pwrite64", &inject);
        assert!(run.is_finished || run.output.contains("condition Stopped"), "write {point}:\n{}", run.output);
        figures.add(&run);
        run.check(Kind::Sled).await;
    }
    figures.print("sled, with a late failure");
}

/// As [`sled_change_ends_if_its_last_write_fails`], with changes that wait for the flush.
#[tokio::test]
async fn sled_changes_at_once_end_if_a_late_write_fails() {
    const REPORTS: usize = 60;
    let mut figures = Figures::default();
    for point in 2..2 + points() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        fill(&*Kind::Sled.open(&path, OpenMode::Create).unwrap(), 2).await;
        let inject = format!("inject=pwrite64:error=EIO:delay_enter=200000:when={point}");
        let output = child::reporters(&strace("trace=pwrite64", &inject), &path, REPORTS).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let failed = text.lines().filter(|line| line.starts_with(child::FAILED)).count();
        assert!(text.contains("condition "), "write {point}:\n{text}");
        let acknowledged = check_reports(&path, &text).await;
        assert_eq!(acknowledged + failed, REPORTS, "write {point}:\n{text}");
        figures.runs += 1;
        figures.failed += failed;
        figures.acknowledged += acknowledged;
    }
    figures.print("sled, with a late failure of changes at once");
}

/// Checks that every acknowledged measurement of the output `text` exists, and returns their number.
async fn check_reports(path: &Path, text: &str) -> usize {
    let store = Kind::Sled.open(path, OpenMode::Existing).unwrap();
    let curve = store.measurements(&study_id(), child::REPORTED, 0, usize::MAX).await.unwrap();
    let steps: BTreeSet<_> = curve.iter().map(|measurement| measurement.step).collect();
    let acknowledged: Vec<_> = text.lines().filter_map(|line| line.strip_prefix(child::ACKNOWLEDGED_STEP)).collect();
    for step in &acknowledged {
        assert!(steps.contains(&step.parse().unwrap()), "step {step} was acknowledged: {steps:?}");
    }
    acknowledged.len()
}

/// The command that injects faults into a program, and ends it after a minute.
fn strace<'a>(trace: &'a str, inject: &'a str) -> [&'a str; 11] {
    ["timeout", "60", "strace", "-f", "-qq", "-o", "/dev/null", "-e", trace, "-e", inject]
}

/// Sled stores a large value in a file of its own, in the folder `blobs`.
#[tokio::test]
async fn sled_stops_if_a_large_value_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    fill(&*Kind::Sled.open(&path, OpenMode::Create).unwrap(), 8).await;
    let output = child::writer_of_a_large_value(&["timeout", "60"], &path).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("condition Stopped"), "{text}");
    let mut failed = text.lines().filter_map(|line| line.strip_prefix(child::FAILED)).peekable();
    assert!(failed.peek().is_some_and(|first| first.starts_with("the store could not write")), "{text}");
    assert!(failed.all(|failure| failure.ends_with("Not a directory (os error 20)")), "{text}");
    std::fs::remove_file(path.join("blobs")).unwrap();
    std::fs::rename(path.join("moved"), path.join("blobs")).unwrap();
    check_reports(&path, &text).await;
    let store = Kind::Sled.open(&path, OpenMode::Existing).unwrap();
    assert_eq!(store.trial(&study_id(), child::WITH_LARGE_VALUE).await.unwrap().state, TrialState::Active);
    let change = samples::fail(1, &child::large_reason());
    store.change_trial(&study_id(), child::WITH_LARGE_VALUE, change).await.unwrap();
}

fn points() -> usize {
    std::env::var("TUNESMITH_FAULT_POINTS").map_or(6, |text| text.parse().unwrap())
}

#[derive(Default)]
struct Figures {
    runs: usize,
    failed: usize,
    acknowledged: usize,
}

impl Figures {
    fn add(&mut self, run: &Run) {
        self.runs += 1;
        self.failed += run.failed.len();
        self.acknowledged += run.acknowledged.len();
    }

    fn print(&self, name: &str) {
        let Self { runs, failed, acknowledged } = self;
        assert!(*failed > 0, "no injected fault reached a change");
        println!("figures: {name}: {runs} runs, {failed} changes failed, {acknowledged} trials acknowledged, 0 lost");
    }
}

/// A writing process, some of whose system calls failed.
struct Run {
    folder: tempfile::TempDir,
    acknowledged: Vec<TrialId>,
    failed: Vec<String>,
    /// Whether it acknowledged all trials that it was to make.
    is_finished: bool,
    output: String,
}

impl Run {
    const TRIALS: usize = 40;

    /// A writer of which [`FAILURES`] of `calls` fail with `error`, from the call `first` of each thread on.
    fn with_fault(kind: Kind, calls: &str, error: &str, first: usize) -> Self {
        let inject = format!("inject={calls}:error={error}:when={first}..{}", first + FAILURES - 1);
        Self::with_injection(kind, calls, &inject)
    }

    /// A writer, ended after a minute, with the injection `inject` of strace into `calls`.
    fn with_injection(kind: Kind, calls: &str, inject: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        // Opening is not part of this test.
        drop(kind.open(&path, OpenMode::Create).unwrap());
        let trace = format!("trace={calls}");
        let output = child::faulty_writer(&strace(&trace, inject), kind, &path, Self::TRIALS).output();
        let output = output.unwrap_or_else(|error| panic!("strace, which lets the calls fail, cannot be run: {error}"));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let ids = text.lines().filter_map(|line| line.strip_prefix(child::ACKNOWLEDGED));
        let acknowledged: Vec<_> = ids.map(|id| TrialId(id.parse().unwrap())).collect();
        let failed = text.lines().filter_map(|line| line.strip_prefix(child::FAILED)).map(str::to_owned).collect();
        let is_finished = acknowledged.len() == Self::TRIALS;
        let output = format!("{text}{}", String::from_utf8_lossy(&output.stderr));
        Self { folder, acknowledged, failed, is_finished, output }
    }

    /// Checks that every acknowledged trial exists once and is complete.
    async fn check(&self, kind: Kind) {
        let store = kind.open(&self.folder.path().join("store"), OpenMode::Existing).unwrap();
        if self.acknowledged.is_empty() && matches!(store.study(&study_id()).await, Err(StoreError::NotFound { .. })) {
            // The first change failed already.
            return;
        }
        let different: BTreeSet<_> = self.acknowledged.iter().collect();
        assert_eq!(different.len(), self.acknowledged.len(), "a trial was acknowledged twice");
        for id in &self.acknowledged {
            let trial = store.trial(&study_id(), *id).await.unwrap();
            assert_eq!(trial.state, TrialState::Succeeded, "trial {id}\n{}", self.output);
        }
        // Changes of which it is not known whether they were kept may exist, and no others.
        let count = store.trials(&study_id(), None, usize::MAX).await.unwrap().len();
        let most = self.acknowledged.len() + self.failed.len();
        assert!((self.acknowledged.len()..=most).contains(&count), "{count} trials, at most {most} are possible");
    }
}

#[tokio::test]
async fn unfinished_snapshot_of_a_killed_sled_store_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    fill(&*Kind::Sled.open(&path, OpenMode::Create).unwrap(), 20).await;
    let content = dump(&*Kind::Sled.open(&path, OpenMode::Existing).unwrap()).await.unwrap();
    let names = || path.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let snapshot = names().find(|name| name.starts_with("snap.")).expect("a closed store has a snapshot");
    let bytes = std::fs::read(path.join(&snapshot)).unwrap();
    // The states of the file between its creation and its renaming. The number in its name is that of a later state.
    for length in [0, 1, bytes.len() / 2, bytes.len()] {
        let unfinished = path.join("snap.7FFFFFFFFFFFFFFF.generating");
        std::fs::write(&unfinished, &bytes[..length]).unwrap();
        let store = Kind::Sled.open(&path, OpenMode::Existing).unwrap();
        assert!(!unfinished.exists());
        assert!(dump(&*store).await.unwrap() == content, "the content is unchanged");
    }
}

#[tokio::test]
async fn store_that_another_process_has_open_is_refused() {
    for kind in [Kind::Sqlite, Kind::Sled] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let first = kind.open(&path, OpenMode::Create).unwrap();
        let error = kind.open(&path, OpenMode::Existing).err().unwrap();
        assert!(matches!(error, StoreError::InUse { .. }), "{}: {error:?}", kind.name());
        fill(&*first, 3).await;
        drop(first);
        kind.open(&path, OpenMode::Existing).unwrap();
    }
}

#[tokio::test]
async fn store_that_is_not_the_opened_one_stops() {
    type Damage = fn(&Path);
    let sqlite: [(&str, Damage); 6] = [
        ("store was removed", |path| std::fs::remove_file(path).unwrap()),
        ("store was replaced", |path| {
            std::fs::copy(path, path.with_extension("copy")).unwrap();
            std::fs::rename(path.with_extension("copy"), path).unwrap();
        }),
        ("store was emptied", |path| File::options().write(true).open(path).unwrap().set_len(0).unwrap()),
        ("store was changed by another program", |path| {
            let content = std::fs::read(path).unwrap();
            std::fs::write(path, content).unwrap();
        }),
        ("store-wal was removed", |path| std::fs::remove_file(path.with_file_name("store-wal")).unwrap()),
        ("store-wal was emptied", |path| {
            File::options().write(true).open(path.with_file_name("store-wal")).unwrap().set_len(0).unwrap();
        }),
    ];
    let sled: [(&str, Damage); 3] = [
        ("was removed", |path| std::fs::remove_dir_all(path).unwrap()),
        ("was replaced", |path| {
            copy(&path.join("db"), &path.join("copy"));
            std::fs::rename(path.join("copy"), path.join("db")).unwrap();
        }),
        ("was emptied", |path| File::options().write(true).open(path.join("db")).unwrap().set_len(0).unwrap()),
    ];
    let cases = sqlite.map(|case| (Kind::Sqlite, case)).into_iter().chain(sled.map(|case| (Kind::Sled, case)));
    for (kind, (expected, damage)) in cases {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        // A file that is filled up by a former process, so that its size differs from that of an empty one.
        fill(&*kind.open(&path, OpenMode::Create).unwrap(), 20).await;
        let store = kind.open(&path, OpenMode::Existing).unwrap();
        let create = async |id| store.create_trial(&study_id(), samples::new_trial(id)).await;
        create(21).await.unwrap();
        damage(&path);
        let error = create(22).await.unwrap_err();
        let fault = error.fault().unwrap_or_else(|| panic!("{expected}: {error:?}")).to_string();
        assert!(fault.contains(expected), "{expected}: {fault}");
        assert!(matches!(&*store.condition().borrow(), Condition::Stopped(_)), "{expected}");
        let error = create(22).await.unwrap_err();
        assert!(error.is_certainly_not_applied() && error.fault().is_some(), "{expected}: {error:?}");
    }
}
