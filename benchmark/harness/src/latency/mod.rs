//! How long a suggestion takes, and how much memory, by the number of completed trials.
//!
//! Every contestant, ours too, is a process of its own behind the same pipe, one after the other in one run on one
//! thread: figures of one run can be compared, those of different machines cannot. A history of random points is told
//! first, unmeasured. Then each step is one result told and one suggestion asked, and its time is the wall time of both
//! and the processor time that the contestant's processes used meanwhile.

mod problem;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tunesmith_algorithms::designer::{Designer, DesignerError, History, SuggestRequest};
use tunesmith_algorithms::designers::RandomSearch;
use tunesmith_algorithms::problem::{CompletedTrial, ParameterValues, TrialId, TrialOutcome};
use tunesmith_benchmark::optimizer::{Optimizer, OptimizerError, StudyRequest, TrialResult};
use tunesmith_benchmark::problem::{Draw, Outcome, Problem};

pub use self::problem::mixed_problem;
use super::contestants::{ContestantSpec, External};

/// Seed of histories and contestants.
const SEED: u64 = 1;

/// What is measured.
pub struct Latency {
    /// Whose.
    pub contestants: Vec<ContestantSpec>,
    /// Numbers of completed trials, increasing.
    pub histories: Vec<usize>,
    /// Measured steps at each; the median counts. At least 1.
    pub repeats: usize,
    /// Larger histories are left out once a step took longer.
    pub step_limit: Duration,
    /// How long any answer may take.
    pub answer_limit: Duration,
    /// This program, to start our own algorithms by.
    pub program: PathBuf,
}

/// One contestant at one number of completed trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyRow {
    /// Who.
    pub contestant: String,
    /// What it calls its version.
    pub version: Option<String>,
    /// Completed trials.
    pub history: usize,
    /// What was measured, or why not.
    pub result: LatencyResult,
}

/// What was measured, or why not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LatencyResult {
    /// Medians of the steps, but for memory.
    Measured {
        /// Wall time of one result and one suggestion, in milliseconds.
        wall_ms: f64,
        /// Processor time of the contestant's processes in the meantime, in milliseconds.
        processor_ms: f64,
        /// The most memory that its processes had resident, in MiB.
        memory_mib: f64,
    },
    /// A smaller history took too long.
    LeftOut,
    /// It failed.
    Failed(String),
}

impl Latency {
    /// Measures one contestant after the other on `problem`, and tells of each row as it is known.
    ///
    /// # Errors
    /// [`DesignerError`] if no random points of the problem can be drawn.
    pub fn run(
        &self,
        problem: &dyn Problem,
        logs: &Path,
        tell: &mut dyn FnMut(&LatencyRow),
    ) -> Result<Vec<LatencyRow>, DesignerError> {
        let longest = self.histories.iter().max().copied().unwrap_or(0);
        let history = random_results(problem, longest)?;
        let mut rows = Vec::new();
        for spec in &self.contestants {
            let mut too_slow = false;
            for &count in &self.histories {
                // A new process for each, so that its memory is that of this history.
                let mut contestant = spec.in_own_process(&self.program, logs, self.answer_limit);
                let result = if too_slow {
                    Ok(LatencyResult::LeftOut)
                } else {
                    self.measure(problem, &mut contestant, &history[..count])
                };
                let result = result.unwrap_or_else(|error| LatencyResult::Failed(error.to_string()));
                too_slow |= match &result {
                    LatencyResult::Measured { wall_ms, .. } => *wall_ms > self.step_limit.as_secs_f64() * 1e3,
                    LatencyResult::LeftOut | LatencyResult::Failed(_) => true,
                };
                let version = contestant.version().map(str::to_owned);
                let row = LatencyRow { contestant: spec.name().to_owned(), version, history: count, result };
                tell(&row);
                rows.push(row);
            }
        }
        Ok(rows)
    }

    fn measure(
        &self,
        problem: &dyn Problem,
        contestant: &mut External,
        history: &[TrialResult],
    ) -> Result<LatencyResult, OptimizerError> {
        let repeats = self.repeats.max(1);
        contestant.create(&StudyRequest {
            problem: problem.statement().clone(),
            seed: SEED,
            budget: history.len() + repeats + 1,
            parallel: 1,
            constraints: problem.profile().constraints,
        })?;
        for result in history {
            contestant.complete(result)?;
        }
        // The first suggestion pays for what is loaded late, and for a history that was told at once.
        let mut trial = TrialId::FIRST.offset(history.len() as u64);
        let mut points = contestant.suggest(&[trial])?;
        let (mut walls, mut processors) = (Vec::new(), Vec::new());
        for _ in 0..repeats {
            let Some(point) = points.pop() else { break };
            let result = evaluated(problem, trial, point);
            trial = trial.offset(1);
            let usage = |contestant: &External| contestant.process_id().map(usage);
            let before = usage(contestant);
            let began = Instant::now();
            contestant.complete(&result)?;
            points = contestant.suggest(&[trial])?;
            walls.push(began.elapsed().as_secs_f64() * 1e3);
            if let (Some(before), Some(after)) = (before, usage(contestant)) {
                processors.push((after.processor_secs - before.processor_secs).max(0.0) * 1e3);
            }
        }
        let memory_mib = contestant.process_id().map_or(0.0, |id| usage(id).memory_mib);
        Ok(LatencyResult::Measured { wall_ms: median(walls), processor_ms: median(processors), memory_mib })
    }
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
        Outcome::Measured { observed, constraints, .. } => {
            (TrialOutcome::Measured { values: observed.clone(), stopped_early: false }, Some(observed), constraints)
        }
        Outcome::Infeasible { .. } => (TrialOutcome::Infeasible, None, Vec::new()),
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
        if let Ok(threads) = std::fs::read_dir(path.join("task")) {
            for thread in threads.flatten() {
                // Nanoseconds on a processor come first; /proc/PID/stat counts in hundredths of a second.
                let text = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
                let nanoseconds = text.split(' ').next().and_then(|first| first.parse::<f64>().ok());
                usage.processor_secs += nanoseconds.unwrap_or(0.0) / 1e9;
            }
        }
        let status = std::fs::read_to_string(path.join("status")).unwrap_or_default();
        let kibibytes = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
        usage.memory_mib += kibibytes.unwrap_or(0.0) / 1024.0;
    }
    usage
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
