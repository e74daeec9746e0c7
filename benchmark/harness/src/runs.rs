//! Runs of a comparison: each optimizer on each problem with each seed, several concurrently.
//!
//! Ordered by seed, then problem, then optimizer, so that an interrupted comparison stays balanced.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tunesmith_benchmark::optimizer::Optimizer;
use tunesmith_benchmark::record::{Failure, RunKey, RunRecord, Schedule};
use tunesmith_benchmark::simulation::{Plan, simulate};

use super::children::unless_ending;
use super::folder::{FolderError, ResultsFolder};
use super::optimizers::OptimizerSpec;
use super::suites::Task;

/// Consecutive failures after which an optimizer is dropped: each may have cost a whole time limit.
const FAILURES_BEFORE_GIVING_UP: usize = 3;

/// Parameters of a comparison.
pub struct Comparison {
    pub tasks: Vec<Task>,
    pub optimizers: Vec<OptimizerSpec>,
    /// Largest seed; the smallest is 1.
    pub seeds: u64,
    /// Trials per run.
    pub budget: usize,
    pub schedule: Schedule,
    /// Number of concurrent runs, at least 1.
    pub jobs: usize,
    /// Time limit per response of an optimizer.
    pub answer_limit: Duration,
    /// Whether records contain the points.
    pub keep_points: bool,
    /// Whether to repeat failed runs.
    pub retry_failed: bool,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ComparisonOutcome {
    /// Runs recorded before.
    pub known: usize,
    /// Runs recorded now.
    pub run: usize,
    /// Failed ones among `run`.
    pub failed: usize,
    /// Skipped runs of dropped optimizers.
    pub skipped: usize,
    /// Dropped optimizers with their last failure.
    pub given_up: Vec<(String, String)>,
}

#[derive(Debug)]
pub enum Progress<'a> {
    /// Number of runs to execute.
    Planned(usize),
    Ended(&'a RunRecord),
}

impl Comparison {
    /// Executes the runs missing from `folder`.
    ///
    /// # Errors
    /// [`FolderError`] if a record cannot be written. An optimizer's failure is a result.
    pub fn run(
        &self,
        folder: &mut ResultsFolder,
        progress: &(dyn Fn(Progress<'_>) + Sync),
    ) -> Result<ComparisonOutcome, FolderError> {
        let (todo, known) = self.todo(folder);
        progress(Progress::Planned(todo.len()));
        let logs = folder.logs();
        let shared = Mutex::new(Shared {
            folder,
            todo: todo.into_iter(),
            outcome: ComparisonOutcome { known, ..ComparisonOutcome::default() },
            failures: HashMap::new(),
            error: None,
        });
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.max(1) {
                scope.spawn(|| self.work(&shared, &logs, progress));
            }
        });
        let shared = shared.into_inner();
        match shared.error {
            Some(error) => Err(error),
            None => Ok(shared.outcome),
        }
    }

    fn todo(&self, folder: &ResultsFolder) -> (Vec<Run>, usize) {
        let mut todo = Vec::new();
        let mut known = 0;
        for seed in 1..=self.seeds {
            for (task, Task { suite, problem, .. }) in self.tasks.iter().enumerate() {
                for (optimizer, spec) in self.optimizers.iter().enumerate() {
                    let key = RunKey {
                        suite: suite.clone(),
                        problem: problem.clone(),
                        seed,
                        optimizer: spec.name().to_owned(),
                        budget: self.budget,
                        schedule: self.schedule.clone(),
                    };
                    let again =
                        |record: &RunRecord| self.retry_failed && matches!(record.failure, Some(Failure::Failed(_)));
                    match folder.find(&key) {
                        Some(record) if !again(record) => known += 1,
                        _ => todo.push(Run { key, task, optimizer }),
                    }
                }
            }
        }
        (todo, known)
    }

    fn work(&self, shared: &Mutex<Shared<'_>>, logs: &Path, progress: &(dyn Fn(Progress<'_>) + Sync)) {
        let mut started: HashMap<usize, Box<dyn Optimizer>> = HashMap::new();
        let clock = Instant::now();
        loop {
            // `while let` would hold the lock through the body.
            let Some(run) = shared.lock().next() else { return };
            let task = &self.tasks[run.task];
            let problem = (task.make)(run.key.seed);
            let spec = &self.optimizers[run.optimizer];
            let optimizer = started.entry(run.optimizer).or_insert_with(|| spec.start(logs, self.answer_limit));
            let now = || clock.elapsed();
            let plan = Plan { key: &run.key, keep_points: self.keep_points, now: &now };
            let mut record = simulate(&*problem, &mut **optimizer, &plan);
            record.version = optimizer.version();
            unless_ending(|| {
                progress(Progress::Ended(&record));
                shared.lock().add(record);
            });
        }
    }
}

struct Run {
    key: RunKey,
    task: usize,
    optimizer: usize,
}

struct Shared<'a> {
    folder: &'a mut ResultsFolder,
    todo: std::vec::IntoIter<Run>,
    outcome: ComparisonOutcome,
    /// Consecutive failures by optimizer.
    failures: HashMap<String, usize>,
    error: Option<FolderError>,
}

impl Shared<'_> {
    /// Next run of an optimizer that was not dropped.
    fn next(&mut self) -> Option<Run> {
        if self.error.is_some() {
            return None;
        }
        loop {
            let run = self.todo.next()?;
            if self.failures.get(&run.key.optimizer).is_none_or(|count| *count < FAILURES_BEFORE_GIVING_UP) {
                return Some(run);
            }
            self.outcome.skipped += 1;
        }
    }

    fn add(&mut self, record: RunRecord) {
        let optimizer = record.key.optimizer.clone();
        self.outcome.run += 1;
        let failures = self.failures.entry(optimizer.clone()).or_default();
        match &record.failure {
            Some(Failure::Failed(reason)) => {
                *failures += 1;
                self.outcome.failed += 1;
                if *failures == FAILURES_BEFORE_GIVING_UP {
                    self.outcome.given_up.push((optimizer.clone(), reason.clone()));
                }
            }
            _ if *failures < FAILURES_BEFORE_GIVING_UP => *failures = 0,
            _ => {}
        }
        if let Err(error) = self.folder.add(record) {
            self.error.get_or_insert(error);
        }
    }
}
