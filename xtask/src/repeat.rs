//! `cargo xtask campaign repeat [TIMES] [FILTER]`: repeats each test that starts processes, and prints how often each failed.
//!
//! As under nextest, each repetition is a process of its own with captured output, and as many run at once as there are
//! processors. Tests that fail once in many runs are found here, and not by the next person who waits for CI.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The number of repetitions.
const TIMES: usize = 50;

/// Texts by which a file of tests that start processes is recognised.
const STARTERS: [&str; 5] = ["program(", "Workspace::", "Server::", "Cluster::", "Site::"];

/// Time after which a repetition counts as hung.
const LIMIT: Duration = Duration::from_secs(600);

/// The repetitions of one test.
#[derive(Debug, Default, Clone)]
struct Tally {
    runs: usize,
    failures: usize,
    slowest: Duration,
}

/// Repeats the tests. `arguments` are those after `repeat`.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<()> {
    let (times, filter) = match arguments {
        [] => (TIMES, ""),
        [times] => (number(times)?, ""),
        [times, filter] => (number(times)?, filter.as_str()),
        _ => bail!("usage: cargo xtask campaign repeat [TIMES] [FILTER]"),
    };
    let program = program(root)?;
    let tests: Vec<String> =
        names(&program)?.into_iter().filter(|name| name.contains(filter) && starts_processes(root, name)).collect();
    if tests.is_empty() {
        bail!("no test that starts processes contains {filter:?}");
    }
    println!("{} tests, {times} times each", tests.len());
    let folder = root.join("target/campaign");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let (next, tallies) = (AtomicUsize::new(0), Mutex::new(vec![Tally::default(); tests.len()]));
    let work = || -> Result<()> {
        loop {
            // All tests once, then all of them again: neighbours differ from round to round.
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= tests.len() * times {
                return Ok(());
            }
            let (round, index) = (number / tests.len(), number % tests.len());
            let log = folder.join(format!("{}-{round}.log", tests[index].replace("::", ".")));
            let begin = Instant::now();
            let has_passed = passes(&program, root, &tests[index], &log)?;
            let mut tallies = tallies.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let tally = &mut tallies[index];
            tally.runs += 1;
            tally.slowest = tally.slowest.max(begin.elapsed());
            if !has_passed {
                tally.failures += 1;
                println!("FAILED: {}, {}", tests[index], log.display());
            }
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..processors).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(done) => done,
            Err(_) => bail!("a thread that repeats tests panicked"),
        })
    })?;
    let tallies = tallies.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    println!("| test | failures | runs | slowest in seconds |\n|---|---|---|---|");
    for (test, Tally { runs, failures, slowest }) in tests.iter().zip(&tallies) {
        println!("| {test} | {failures} | {runs} | {:.1} |", slowest.as_secs_f64());
    }
    let failed = tallies.iter().filter(|tally| tally.failures > 0).count();
    if failed > 0 {
        bail!("{failed} of {} tests failed at least once", tests.len());
    }
    Ok(())
}

fn number(text: &str) -> Result<usize> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.with_context(|| format!("TIMES is {text:?}: expected a whole number from 1"))
}

/// Compiles `tests/it`, and returns its program.
fn program(root: &Path) -> Result<PathBuf> {
    let mut command = super::campaign::tests(root);
    command.args(["--no-run", "--message-format=json"]).stderr(Stdio::inherit());
    let output = command.output().context("cannot start `cargo test`")?;
    if !output.status.success() {
        bail!("the tests cannot be compiled");
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let built = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).find_map(|message| {
        let is_ours =
            message["target"]["name"] == "it" && message["manifest_path"] == *root.join("Cargo.toml").to_string_lossy();
        is_ours.then(|| message["executable"].as_str().map(PathBuf::from)).flatten()
    });
    built.context("cargo names no program of tests/it")
}

fn names(program: &Path) -> Result<Vec<String>> {
    let output = Command::new(program).args(["--list", "--format=terse"]).output().context("cannot list the tests")?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

/// Whether the file of the test `name` contains tests that start processes.
fn starts_processes(root: &Path, name: &str) -> bool {
    let mut path: Vec<&str> = name.split("::").collect();
    while path.pop().is_some() && !path.is_empty() {
        let module = root.join("tests/it").join(path.join("/"));
        for file in [module.with_extension("rs"), module.join("mod.rs")] {
            if let Ok(text) = fs::read_to_string(file) {
                return STARTERS.iter().any(|starter| text.contains(starter));
            }
        }
    }
    false
}

/// Runs `test` once, with its output in `log`, which is kept if the test fails or hangs.
fn passes(program: &Path, root: &Path, test: &str, log: &Path) -> Result<bool> {
    let output = fs::File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut command = Command::new(program);
    command.args(["--exact", test, "--nocapture"]).current_dir(root).stdin(Stdio::null());
    let mut child = command.stdout(output.try_clone()?).stderr(output).spawn().context("cannot start the tests")?;
    let begin = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break Some(status),
            None if begin.elapsed() >= LIMIT => break None,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    if status.is_none() {
        child.kill()?;
        child.wait()?;
    }
    let has_passed = status.is_some_and(|status| status.success());
    if has_passed {
        fs::remove_file(log)?;
    }
    Ok(has_passed)
}
