//! `tunesmith bench`: runs a comparison with a progress display and writes its report.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use tokio::signal::unix::{SignalKind, signal};
use tunesmith_algorithms::problem::{Goal, MetricSpec, ProblemStatement};
use tunesmith_benchmark::early_stopping::EarlyStopping;
use tunesmith_benchmark::problems::table::TableProblem;
use tunesmith_benchmark::record::{Mode, Schedule};

use super::report::{ReportOptions, write as write_report};
use crate::cli::INTERRUPTED;
use crate::cli::output::notice;
use tunesmith_harness::recorded::{infer_statement, read_csv, read_job};
use tunesmith_harness::suites::{REPLAY, Selection, Task, fixed_task, tasks};
use tunesmith_harness::{
    CommandProblem, Comparison, ComparisonOutcome, Invocation, OptimizerSpec, Progress, ResultsFolder, content_hash,
    kill_children, machine,
};

/// Arguments of a comparison.
#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    /// Suites of problems, as listed by `tunesmith bench list`.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', required_unless_present_any = ["objective", "replay"])]
    suite: Vec<String>,
    /// Numbers of parameters, for suites that allow any number.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "5")]
    dims: Vec<usize>,
    /// Only these problems of the suites: `f01`, `f01/d05`, `branin`.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    problems: Vec<String>,
    /// Folder of the suite `tables`: pairs of NAME.yaml with a search space and NAME.csv with measurements.
    #[arg(long, value_name = "DIR")]
    tables: Option<PathBuf>,
    /// Use a command as the problem. It receives --NAME=VALUE for each parameter of --config, and reports the metric
    /// like a trainer or as a line METRIC=VALUE.
    #[arg(long, value_name = "COMMAND", requires = "config", conflicts_with_all = ["suite", "replay"])]
    objective: Option<String>,
    /// Use recorded trials as the problem: a CSV file or the JSON of `jobs describe`. A point gets the result of the
    /// nearest recorded trial.
    #[arg(long, value_name = "FILE", conflicts_with = "suite")]
    replay: Option<PathBuf>,
    /// The hptuning_config.yaml with the parameters of --objective or --replay. Optional for a CSV file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Metric of --replay without --config.
    #[arg(long, value_name = "NAME", default_value = "objective")]
    metric: String,
    /// Goal of --metric.
    #[arg(long, value_enum, default_value_t = GoalArg::Minimize)]
    goal: GoalArg,

    /// Built-in algorithms, such as gp or grid:doubles=5. The others are compared with the first.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "gp,random")]
    algorithms: Vec<String>,
    /// External optimizer: a program that reads and writes JSON lines. May be repeated.
    #[arg(long, value_name = "[NAME=]COMMAND")]
    external: Vec<String>,

    /// Number of trials of each run.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    budget: u32,
    /// Number of runs of each optimizer on each problem. The seed also selects the instance of the problem.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    seeds: u32,
    /// Number of concurrent trials, on a virtual clock.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    parallel: u32,
    /// Time at which the next trial is requested [default: sequential, or asynchronous with --parallel].
    #[arg(long, value_enum)]
    mode: Option<ModeArg>,
    /// Number of initial random points, the same for every optimizer.
    #[arg(long, value_name = "N", default_value_t = 0)]
    initial_points: u32,
    /// Early stopping, on problems with learning curves: the service's rules median, decay_curve or asha, with :resume
    /// (median:resume) if stopped trials continue from their last report as soon as the rule would no longer stop them,
    /// not counted again in --budget; the baseline hyperband; the baseline i_epoch, i_epoch:REPORTS or
    /// i_epoch:REPORTS:KEPT, which stops each trial after REPORTS reports (default 1) and resumes the best KEPT
    /// (default 3) at the end, within the budget; or optimizer, by which an external optimizer decides after each
    /// report.
    #[arg(long, value_name = "RULE", value_parser = EarlyStopping::from_str)]
    early_stopping: Option<EarlyStopping>,
    /// End of each run in simulated seconds, for comparisons at equal epochs. Trials that would end later have no result;
    /// --budget is the largest number of trials.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    time_limit: Option<u32>,

    /// Result folder. An interrupted comparison resumes in its folder.
    #[arg(long, value_name = "DIR", default_value = "bench-results")]
    out: PathBuf,
    /// Number of concurrent runs. More runs than processors distort suggestion times.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Time limit in seconds for each answer of an optimizer.
    #[arg(long, value_name = "SECONDS", default_value_t = 300.0)]
    answer_limit: f64,
    /// Also store the point of each trial.
    #[arg(long)]
    keep_points: bool,
    /// Repeat failed runs.
    #[arg(long)]
    retry_failed: bool,
    /// Print all columns of the tables, even if they do not fit the terminal. The files always contain all of them.
    #[arg(long)]
    wide: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ModeArg {
    /// One trial after another.
    Sequential,
    /// Batches of --parallel trials, each after the previous one has ended.
    Batch,
    /// Whenever a trial ends.
    Asynchronous,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum GoalArg {
    /// Larger is better.
    Maximize,
    /// Smaller is better.
    Minimize,
}

impl From<GoalArg> for Goal {
    fn from(goal: GoalArg) -> Self {
        match goal {
            GoalArg::Maximize => Self::Maximize,
            GoalArg::Minimize => Self::Minimize,
        }
    }
}

pub(super) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let optimizers = optimizers(args)?;
    let baseline = optimizers.first().map(|first| first.name().to_owned());
    let schedule = schedule(args)?;
    if let Some(rule @ EarlyStopping::Resuming(_)) = args.early_stopping
        && let Some(external) = optimizers.iter().find(|optimizer| optimizer.is_external())
    {
        bail!(
            "--early-stopping {rule}: the external optimizer {:?} cannot replace the result of a trial that resumes; use \
             built-in algorithms, or early stopping without \":resume\"",
            external.name()
        );
    }
    if !(args.answer_limit > 0.0 && args.answer_limit <= 1e6) {
        bail!("--answer-limit {}: it is more than 0 and at most 1000000 seconds", args.answer_limit);
    }
    let objective = match &args.objective {
        Some(command) => Some((command, objective_statement(args.config.as_deref())?)),
        None => None,
    };
    let mut tasks = if objective.is_some() { Vec::new() } else { problems(args)? };
    let mut folder = ResultsFolder::open(&args.out)?;
    // Evaluations are stored in the folder, which stays locked from here on.
    if let Some((command, statement)) = objective {
        tasks.push(fixed_task("objective", Arc::new(CommandProblem::open(command, statement, &args.out)?)));
    }
    let comparison = Comparison {
        tasks,
        optimizers,
        seeds: args.seeds.into(),
        budget: args.budget as usize,
        schedule,
        jobs: args.jobs.into(),
        answer_limit: Duration::from_secs_f64(args.answer_limit),
        keep_points: args.keep_points,
        retry_failed: args.retry_failed,
    };
    folder.note(&Invocation {
        started: Timestamp::now().to_string(),
        command: std::iter::once("tunesmith".to_owned()).chain(std::env::args().skip(1)).collect(),
        machine: machine(),
    })?;
    end_children_on_interrupt()?;
    let outcome = with_progress(|progress| comparison.run(&mut folder, progress))?;
    print_summary(&outcome, &args.out);
    drop(folder);
    let options = ReportOptions::against(baseline, args.wide);
    write_report(std::slice::from_ref(&args.out), &args.out, &options)?;
    Ok(ExitCode::SUCCESS)
}

fn optimizers(args: &RunArgs) -> anyhow::Result<Vec<OptimizerSpec>> {
    let mut optimizers: Vec<OptimizerSpec> = Vec::new();
    let own = args.algorithms.iter().filter(|text| !text.is_empty()).map(|text| OptimizerSpec::parse(text));
    let external = args.external.iter().map(|text| OptimizerSpec::external(text));
    for spec in own.chain(external) {
        let spec = spec?;
        if optimizers.iter().any(|other| other.name() == spec.name()) {
            bail!("two optimizers have the name {:?}: rename one with --external NAME=COMMAND", spec.name());
        }
        optimizers.push(spec);
    }
    if optimizers.is_empty() {
        bail!("no optimizer is given: use --algorithms or --external");
    }
    Ok(optimizers)
}

fn schedule(args: &RunArgs) -> anyhow::Result<Schedule> {
    let mode = match args.mode {
        None if args.parallel == 1 => Mode::Sequential,
        Some(ModeArg::Sequential) if args.parallel > 1 => {
            bail!("--mode sequential runs one trial at a time, not --parallel {}", args.parallel)
        }
        Some(ModeArg::Sequential) => Mode::Sequential,
        Some(ModeArg::Batch) => Mode::Batch,
        None | Some(ModeArg::Asynchronous) => Mode::Asynchronous,
    };
    if let Some(EarlyStopping::Epochs(epochs)) = args.early_stopping
        && epochs.kept >= args.budget
    {
        bail!(
            "--early-stopping i_epoch: {} trials go on, which is not less than --budget {}",
            epochs.kept,
            args.budget
        );
    }
    Ok(Schedule {
        parallel: args.parallel as usize,
        mode,
        initial_points: args.initial_points as usize,
        early_stopping: args.early_stopping,
        time_limit_secs: args.time_limit,
    })
}

fn problems(args: &RunArgs) -> anyhow::Result<Vec<Task>> {
    if let Some(path) = &args.replay {
        let statement = statement(args.config.as_deref())?;
        let metric = MetricSpec { name: args.metric.clone(), goal: args.goal.into() };
        return Ok(vec![fixed_task(REPLAY, Arc::new(replayed(path, statement, metric)?))]);
    }
    let selection = Selection {
        dimensions: args.dims.clone(),
        problems: args.problems.clone(),
        tables: args.tables.clone(),
        // Durations have no effect on sequential trials.
        durations: args.parallel > 1,
    };
    Ok(tasks(&args.suite, &selection)?)
}

/// Loads recorded trials as a problem: a job's JSON resource, or a CSV file over the search space of `statement`
/// (inferred from the file if absent).
fn replayed(path: &Path, statement: Option<ProblemStatement>, metric: MetricSpec) -> anyhow::Result<TableProblem> {
    let place = || path.display().to_string();
    let text = std::fs::read(path).with_context(place)?;
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().replace(' ', "_")).unwrap_or_default();
    let name = format!("{stem}-{}", content_hash(&text));
    if path.extension().is_some_and(|extension| extension == "json") {
        return read_job(&name, text.as_slice()).with_context(place);
    }
    let statement = match statement {
        Some(statement) => statement,
        None => infer_statement(text.as_slice(), metric).with_context(place)?,
    };
    read_csv(&name, text.as_slice(), &statement).with_context(place)
}

fn statement(config: Option<&Path>) -> anyhow::Result<Option<ProblemStatement>> {
    let Some(path) = config else { return Ok(None) };
    let config = tunesmith_config::load(path)?;
    for warning in &config.warnings {
        notice(&warning.to_string());
    }
    let study = config.study.with_context(|| format!("{} has no hyperparameters", path.display()))?;
    Ok(Some(study.study.problem))
}

/// Problem of `--objective`, whose command reports no constraints.
fn objective_statement(config: Option<&Path>) -> anyhow::Result<ProblemStatement> {
    let statement = statement(config)?.context("--objective needs --config")?;
    if let Some(constraint) = statement.constraints().first() {
        bail!("the configuration has the constraint {:?}; --objective needs one without", constraint.name);
    }
    Ok(statement)
}

/// Terminates this process and its children on SIGINT, SIGTERM and SIGHUP. Completed runs are already stored.
fn end_children_on_interrupt() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let entered = runtime.enter();
    let mut signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
    drop(entered);
    if let Some(position) = signals.iter().position(Result::is_err) {
        return signals.into_iter().nth(position).map_or(Ok(()), |failed| failed.map(drop));
    }
    std::thread::spawn(move || {
        let any = signals.iter_mut().flatten().map(|signal| Box::pin(signal.recv()));
        runtime.block_on(futures::future::select_all(any));
        kill_children();
        notice("interrupted; run the same command again to continue");
        std::process::exit(INTERRUPTED.into())
    });
    Ok(())
}

fn with_progress<T>(work: impl FnOnce(&(dyn Fn(Progress<'_>) + Sync)) -> T) -> T {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {elapsed} so far, {eta} to go  {msg}") {
        bar.set_style(style);
    }
    let result = work(&|progress| match progress {
        Progress::Planned(count) => bar.set_length(count as u64),
        Progress::Ended(record) => {
            bar.set_message(format!("{} {} {}", record.key.optimizer, record.key.problem, record.key.seed));
            bar.inc(1);
        }
    });
    bar.finish_and_clear();
    result
}

fn print_summary(outcome: &ComparisonOutcome, folder: &Path) {
    notice(&format!(
        "{} runs are new, {} were there, {} failed; results are in {}",
        outcome.run,
        outcome.known,
        outcome.failed,
        folder.display()
    ));
    for (optimizer, reason) in &outcome.given_up {
        notice(&format!("warning: {optimizer} failed three times in a row and was given up: {reason}"));
    }
    if outcome.skipped > 0 {
        notice(&format!("warning: {} runs of optimizers that were given up were skipped", outcome.skipped));
    }
}
