//! Time and memory of a suggestion by the number of completed trials.
//!
//! Every optimizer, also an own algorithm, is a separate process behind the same pipe. Optimizers run one after the other,
//! so figures of one run can be compared; figures of different machines cannot. First a history of random
//! points is reported, unmeasured. The first suggestion, which processes all of it, is measured by itself. Then each step is
//! one reported result and one requested suggestion. Its time is the wall time of both and the processor time of the
//! optimizer's processes in the meantime. Libraries of others are limited to one thread; the Gaussian process of ours fits
//! its model to many trials on two, which the processor time shows.

mod problem;

use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tunesmith_algorithms::designer::{Designer, DesignerError, History, SuggestRequest};
use tunesmith_algorithms::designers::RandomSearch;
use tunesmith_algorithms::problem::{CompletedTrial, ParameterValues, TrialId, TrialOutcome};
use tunesmith_benchmark::optimizer::{Optimizer, OptimizerError, StudyRequest, TrialResult};
use tunesmith_benchmark::problem::{Draw, EvaluationOutcome, Problem};

pub use self::problem::mixed_problem;
use super::optimizers::{External, OptimizerSpec};

/// Seed of histories and optimizers.
const SEED: u64 = 1;

/// The parameters of a measurement.
pub struct Latency {
    /// The optimizers.
    pub optimizers: Vec<OptimizerSpec>,
    /// Numbers of completed trials, increasing.
    pub histories: Vec<usize>,
    /// Measured steps at each; the median counts. At least 1.
    pub repeats: usize,
    /// Larger histories are left out once a step took longer.
    pub step_limit: Duration,
    /// How long any answer may take.
    pub answer_limit: Duration,
    /// This program, which runs the own algorithms.
    pub program: PathBuf,
}

/// One optimizer at one number of completed trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyRow {
    /// The name of the optimizer.
    #[serde(rename = "contestant")]
    pub optimizer: String,
    /// Version that the optimizer reports.
    pub version: Option<String>,
    /// Completed trials.
    pub history: usize,
    /// The measurement, or the reason why there is none.
    pub result: LatencyResult,
}

/// The measurement, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LatencyResult {
    /// Medians of the steps, but for the first suggestion and memory.
    Measured {
        /// Wall time of one result and one suggestion, in milliseconds.
        wall_ms: f64,
        /// Processor time of the optimizer's processes in the meantime, in milliseconds.
        processor_ms: f64,
        /// The most memory that its processes had resident, in MiB.
        memory_mib: f64,
        /// Wall time of the first suggestion, in milliseconds; `None` in rows of earlier versions.
        #[serde(default)]
        first_wall_ms: Option<f64>,
        /// Processor time of the optimizer's processes in the meantime, in milliseconds.
        #[serde(default)]
        first_processor_ms: Option<f64>,
    },
    /// A smaller history took too long.
    LeftOut,
    /// It failed.
    Failed(String),
}

impl Latency {
    /// Measures one optimizer after the other on `problem`, and passes each row to `on_row` when it is known.
    ///
    /// # Errors
    /// [`DesignerError`] if no random points of the problem can be drawn.
    pub fn run(
        &self,
        problem: &dyn Problem,
        logs: &Path,
        on_row: &mut dyn FnMut(&LatencyRow),
    ) -> Result<Vec<LatencyRow>, DesignerError> {
        let longest = self.histories.iter().max().copied().unwrap_or(0);
        let history = random_results(problem, longest)?;
        let mut rows = Vec::new();
        for spec in &self.optimizers {
            let mut too_slow = false;
            for &count in &self.histories {
                // A new process for each, so that its memory is that of this history.
                let mut optimizer = spec.in_own_process(&self.program, logs, self.answer_limit);
                let result = if too_slow {
                    Ok(LatencyResult::LeftOut)
                } else {
                    self.measure(problem, &mut optimizer, &history[..count])
                };
                let result = result.unwrap_or_else(|error| LatencyResult::Failed(error.to_string()));
                too_slow |= match &result {
                    LatencyResult::Measured { wall_ms, .. } => *wall_ms > self.step_limit.as_secs_f64() * 1e3,
                    LatencyResult::LeftOut | LatencyResult::Failed(_) => true,
                };
                let version = optimizer.version().map(str::to_owned);
                let row = LatencyRow { optimizer: spec.name().to_owned(), version, history: count, result };
                on_row(&row);
                rows.push(row);
            }
        }
        Ok(rows)
    }

    fn measure(
        &self,
        problem: &dyn Problem,
        optimizer: &mut External,
        history: &[TrialResult],
    ) -> Result<LatencyResult, OptimizerError> {
        let repeats = self.repeats.max(1);
        optimizer.create(&StudyRequest {
            problem: problem.statement().clone(),
            seed: SEED,
            budget: history.len() + repeats + 1,
            parallel: 1,
            constraints: problem.profile().constraints,
        })?;
        for result in history {
            optimizer.complete(result)?;
        }
        let mut trial = TrialId::FIRST.offset(history.len() as u64);
        // The first suggestion includes late loading and the processing of the whole history.
        let (mut points, first_wall_ms, first_processor_ms) =
            timed(optimizer, |optimizer| optimizer.suggest(&[trial]))?;
        let (mut walls, mut processors) = (Vec::new(), Vec::new());
        for _ in 0..repeats {
            let Some(point) = points.pop() else { break };
            let result = evaluated(problem, trial, point);
            trial = trial.offset(1);
            let (next, wall, processor) = timed(optimizer, |optimizer| {
                optimizer.complete(&result)?;
                optimizer.suggest(&[trial])
            })?;
            points = next;
            walls.push(wall);
            processors.extend(processor);
        }
        Ok(LatencyResult::Measured {
            wall_ms: median(walls),
            processor_ms: median(processors),
            memory_mib: optimizer.process_id().map_or(0.0, |id| usage(id).memory_mib),
            first_wall_ms: Some(first_wall_ms),
            first_processor_ms,
        })
    }
}

/// The result of `step` with its wall time and the processor time of the optimizer's processes, in milliseconds.
fn timed<T>(
    optimizer: &mut External,
    step: impl FnOnce(&mut External) -> Result<T, OptimizerError>,
) -> Result<(T, f64, Option<f64>), OptimizerError> {
    let usage = |optimizer: &External| optimizer.process_id().map(usage);
    let before = usage(optimizer);
    let began = Instant::now();
    let result = step(optimizer)?;
    let wall = began.elapsed().as_secs_f64() * 1e3;
    let processor = before.zip(usage(optimizer)).map(|(before, after)| after.processor_secs - before.processor_secs);
    Ok((result, wall, processor.map(|seconds| seconds.max(0.0) * 1e3)))
}

/// The results of `count` random points.
fn random_results(problem: &dyn Problem, count: usize) -> Result<Vec<TrialResult>, DesignerError> {
    let designer = RandomSearch::new(problem.statement(), SEED);
    let trials = (0..count as u64).map(|place| TrialId::FIRST.offset(place));
    let result = |trial| {
        let points = designer.suggest(History::default(), SuggestRequest::one(trial))?;
        Ok(points.into_iter().next().map(|suggestion| evaluated(problem, trial, suggestion.parameters)))
    };
    trials.filter_map(|trial| result(trial).transpose()).collect()
}

fn evaluated(problem: &dyn Problem, id: TrialId, parameters: ParameterValues) -> TrialResult {
    let evaluation = problem.evaluate(&parameters, Draw { seed: SEED, trial: id });
    let (outcome, values, constraints) = match evaluation.outcome {
        EvaluationOutcome::Measured { observed, constraints, .. } => {
            (TrialOutcome::Measured { values: observed.clone(), stopped_early: false }, Some(observed), constraints)
        }
        EvaluationOutcome::Infeasible { .. } => (TrialOutcome::Infeasible, None, Vec::new()),
    };
    TrialResult { trial: CompletedTrial { id, parameters, outcome }, values, constraints }
}

struct Usage {
    processor_secs: f64,
    memory_mib: f64,
}

/// Processor time and largest resident memory of all live processes of a group.
fn usage(group: u32) -> Usage {
    let mut usage = Usage { processor_secs: 0.0, memory_mib: 0.0 };
    let Ok(processes) = std::fs::read_dir("/proc") else { return usage };
    for process in processes.flatten() {
        let path = process.path();
        if process_group(&path) != Some(group) {
            continue;
        }
        usage.processor_secs += processor_time(&process).unwrap_or_default().as_secs_f64();
        let status = std::fs::read_to_string(path.join("status")).unwrap_or_default();
        let kibibytes = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
        usage.memory_mib += kibibytes.unwrap_or(0.0) / 1024.0;
    }
    usage
}

/// Processor time of all threads of a process, also of those that have ended; `None` for other entries of `/proc`.
fn processor_time(process: &DirEntry) -> Option<Duration> {
    let id = process.file_name().to_str()?.parse().ok()?;
    // The clock is exact; /proc/PID/stat counts in hundredths of a second.
    Some(clock_getcpuclockid(Pid::from_raw(id)).ok()?.now().ok()?.into())
}

/// The process group, which stands third after the name in parentheses.
fn process_group(process: &Path) -> Option<u32> {
    let stat = std::fs::read_to_string(process.join("stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(2)?.parse().ok()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[count / 2],
        count => (values[count / 2 - 1] + values[count / 2]) / 2.0,
    }
}
