//! Time and memory of a suggestion by the number of completed trials.
//!
//! Every optimizer, also an own algorithm, is a separate process behind the same pipe. Optimizers run one after the other,
//! so figures of one run can be compared; figures of different machines cannot. First a history of random
//! points is reported, unmeasured. The first suggestion, which processes all of it, is measured by itself. Then each step is
//! one reported result and one requested suggestion. Its time is the wall time of both and the processor time of the
//! optimizer's processes in the meantime. Libraries of others are limited to one thread; the Gaussian process of ours fits
//! its model to many trials on two, which the processor time shows.

use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;
use serde::Serialize;
use tunesmith_algorithms::designer::{Designer, DesignerError, History, SuggestRequest};
use tunesmith_algorithms::designers::RandomSearch;
use tunesmith_algorithms::problem::{CompletedTrial, ParameterValues, TrialId, TrialOutcome};
use tunesmith_benchmark::optimizer::{Optimizer, OptimizerError, StudyRequest, TrialResult};
use tunesmith_benchmark::problem::{Draw, EvaluationOutcome, Problem};
use tunesmith_benchmark::problems::functions::ackley;
use tunesmith_harness::{External, OptimizerSpec};

use super::problem::mixed_problem;
use super::{markdown, median, this_program};

/// Seed of histories and optimizers.
const SEED: u64 = 1;

#[derive(Debug, clap::Args)]
pub(super) struct LatencyArgs {
    /// Built-in algorithms.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "gp,random")]
    algorithms: Vec<String>,
    /// External optimizer: a program that reads and writes JSON lines. May be given several times.
    #[arg(long, value_name = "[NAME=]COMMAND")]
    external: Vec<String>,
    /// Measure on this many doubles (Ackley's function), not on six parameters of all kinds.
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u16).range(1..=1000))]
    dims: Option<u16>,
    /// Numbers of completed trials.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "10,50,100,200,500,1000,2000,5000,10000")]
    history: Vec<usize>,
    /// Number of measured steps at each number of trials. The median is reported, beside the first suggestion of the process.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeats: u16,
    /// Skip larger numbers of trials once a step took longer than this number of seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    step_limit: f64,
    /// Also write the rows to this file, one JSON object per line.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// One optimizer at one number of completed trials.
#[derive(Debug, Serialize)]
struct LatencyRow {
    optimizer: String,
    /// Version that the optimizer reports.
    version: Option<String>,
    /// Number of completed trials.
    history: usize,
    result: LatencyResult,
}

/// The measurement, or the reason why there is none.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum LatencyResult {
    /// Medians of the steps, but for the first suggestion and memory.
    Measured {
        /// Wall time of one result and one suggestion, in milliseconds.
        wall_ms: f64,
        /// Processor time of the optimizer's processes in the meantime, in milliseconds.
        processor_ms: f64,
        /// The most memory that its processes had resident, in MiB.
        memory_mib: f64,
        /// Wall time of the first suggestion, in milliseconds.
        first_wall_ms: f64,
        /// Processor time of the first suggestion, in milliseconds; `None` if it cannot be read.
        first_processor_ms: Option<f64>,
    },
    /// A smaller history took too long.
    LeftOut,
    /// It failed.
    Failed(String),
}

/// Measures everything.
pub(super) fn run(args: &LatencyArgs) -> Result<String> {
    let own = args.algorithms.iter().filter(|text| !text.is_empty()).map(|text| OptimizerSpec::parse(text));
    let external = args.external.iter().map(|text| OptimizerSpec::external(text));
    let optimizers = own.chain(external).collect::<Result<Vec<_>, _>>()?;
    if optimizers.is_empty() {
        bail!("no optimizer is given: use --algorithms or --external");
    }
    if !(args.step_limit > 0.0 && args.step_limit <= 1e6) {
        bail!("--step-limit {}: it is more than 0 and at most 1000000 seconds", args.step_limit);
    }
    let problem: Box<dyn Problem> = match args.dims {
        Some(dimensions) => Box::new(ackley(dimensions.into())),
        None => Box::new(mixed_problem()?),
    };
    let mut histories = args.history.clone();
    histories.sort_unstable();
    histories.dedup();
    let mut table = Vec::new();
    let mut lines = String::new();
    for optimizer in &optimizers {
        let mut cells = vec![optimizer.name().to_owned()];
        for row in args.measure_all(optimizer, &histories, &*problem)? {
            cells.push(row.result.text());
            lines.push_str(&serde_json::to_string(&row)?);
            lines.push('\n');
        }
        table.push(cells);
    }
    if let Some(path) = &args.out {
        std::fs::write(path, lines).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    let header: Vec<String> = [String::new()].into_iter().chain(histories.iter().map(|n| format!("n = {n}"))).collect();
    Ok(markdown(&header, &table))
}

impl LatencyArgs {
    fn measure_all(&self, spec: &OptimizerSpec, histories: &[usize], problem: &dyn Problem) -> Result<Vec<LatencyRow>> {
        let logs = tempfile::tempdir()?;
        let results = random_results(problem, histories.last().copied().unwrap_or(0))?;
        // The first suggestion may have to process the whole history.
        let answer_limit = Duration::from_secs_f64(self.step_limit * 20.0);
        let mut rows = Vec::new();
        let mut too_slow = false;
        for &history in histories {
            // A new process for each, so that its memory is that of this history.
            let mut optimizer = spec.in_own_process(&this_program(), logs.path(), answer_limit);
            let result = if too_slow {
                LatencyResult::LeftOut
            } else {
                let measured = measure(problem, &mut optimizer, &results[..history], self.repeats.into());
                measured.unwrap_or_else(|error| LatencyResult::Failed(error.to_string()))
            };
            too_slow |= match &result {
                LatencyResult::Measured { wall_ms, .. } => *wall_ms > self.step_limit * 1e3,
                LatencyResult::LeftOut | LatencyResult::Failed(_) => true,
            };
            eprintln!("{} n={history}: {}", spec.name(), result.text());
            let version = optimizer.version();
            rows.push(LatencyRow { optimizer: spec.name().to_owned(), version, history, result });
        }
        Ok(rows)
    }
}

impl LatencyResult {
    fn text(&self) -> String {
        match self {
            Self::Measured { wall_ms, processor_ms, memory_mib, first_wall_ms, first_processor_ms } => {
                let times = |wall: f64, processor: f64| format!("{} ms ({} ms cpu)", short(wall), short(processor));
                let first = first_processor_ms.map(|processor| format!(", first {}", times(*first_wall_ms, processor)));
                format!("{}{}, {memory_mib:.0} MiB", times(*wall_ms, *processor_ms), first.unwrap_or_default())
            }
            Self::LeftOut => "-".to_owned(),
            Self::Failed(reason) => format!("failed: {reason}"),
        }
    }
}

/// Formats a number with two or three significant digits.
fn short(number: f64) -> String {
    if number < 10.0 { format!("{number:.2}") } else { format!("{number:.0}") }
}

fn measure(
    problem: &dyn Problem,
    optimizer: &mut External,
    history: &[TrialResult],
    repeats: usize,
) -> Result<LatencyResult, OptimizerError> {
    optimizer.create(&StudyRequest {
        problem: problem.statement().clone(),
        seed: SEED,
        budget: history.len() + repeats + 1,
        parallel: 1,
        constraints: problem.profile().constraints,
        sources: Vec::new(),
    })?;
    for result in history {
        optimizer.complete(result)?;
    }
    let mut trial = TrialId::FIRST.offset(history.len() as u64);
    // The first suggestion includes late loading and the processing of the whole history.
    let (mut points, first_wall_ms, first_processor_ms) = timed(optimizer, |optimizer| optimizer.suggest(&[trial]))?;
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
        first_wall_ms,
        first_processor_ms,
    })
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
            (TrialOutcome::measured(observed.clone()), Some(observed), constraints)
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
