//! `tunesmith explain`: analyses the trials of a job: importance of the parameters, predicted optimum, calibration of
//! the model. Reads a data folder, also while the job runs.

mod analysis;
mod sparkline;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use tunesmith_algorithms::designer::History;
use tunesmith_algorithms::designers::choose_algorithm;
use tunesmith_algorithms::insight::{InsightError, MetricInsight, TrialCounts, explain};
use tunesmith_algorithms::problem::{CompletedTrial, PendingTrial};

use self::analysis::{Choice, Explanation, OriginCount};
use super::output::print;
use super::results::Results;
use super::table::Layout;
use crate::data_dir::DataDir;
use tunesmith_domain::{Algorithm, JobId, StoppingRuleKind, Study, Trial};
use tunesmith_service::search_policy;

#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// Name of the job.
    job: JobId,
    /// Data folder with jobs, trials and logs.
    #[arg(long, value_name = "DIR", default_value = super::folder_args::DEFAULT_DATA_DIR)]
    data_dir: PathBuf,
    /// Also print the predicted metric along each parameter, through the best trial.
    #[arg(long, conflicts_with = "json")]
    slices: bool,
    /// Print all columns of the tables, also if they do not fit the terminal.
    #[arg(long)]
    wide: bool,
    /// Print the analysis as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let results = runtime.block_on(read(args))?;
    let explanation = explanation(&results)?;
    let text = if args.json {
        format!("{}\n", serde_json::to_string_pretty(&explanation)?)
    } else {
        text::text(&explanation, args.slices, &Layout::of_all_columns(args.wide))?
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

async fn read(args: &ExplainArgs) -> anyhow::Result<Results> {
    let folder = DataDir::open_read_only(&args.data_dir, "tunesmith explain")?;
    let store = folder.store().await?;
    let job = store.job(&args.job).await?;
    Ok(Results::read(&*store, job, folder.job(&args.job)).await?)
}

fn explanation(results: &Results) -> anyhow::Result<Explanation> {
    let Some(study) = &results.study else {
        bail!("job {} has no hyperparameters, so there is nothing to explain", results.job.id);
    };
    let (completed, pending) = trials(study, &results.trials);
    let history = History { completed: &completed, pending: &pending };
    let trials = TrialCounts::of(history);
    let metrics = study.problem.metrics().iter().map(|metric| explain(&study.problem, history, &metric.name));
    let metrics: Result<Vec<MetricInsight>, InsightError> = metrics.collect();
    let counted = || {
        let TrialCounts { measured, infeasible, pending, .. } = trials;
        let job = &results.job.id;
        format!("job {job} cannot be explained ({measured} trials measured, {infeasible} failed, {pending} running)")
    };
    Ok(Explanation {
        job: results.job.id.to_string(),
        state: results.job.state.to_string(),
        choice: (study.algorithm == Algorithm::Automatic).then(|| {
            let choice = choose_algorithm(&study.problem, &completed);
            Choice { algorithm: choice.algorithm, reason: choice.reason }
        }),
        origins: origins(&results.trials),
        algorithm: match study.algorithm {
            Algorithm::Automatic => "AUTOMATIC",
            Algorithm::GaussianProcessBandit => "GAUSSIAN_PROCESS_BANDIT",
            Algorithm::GridSearch { .. } => "GRID_SEARCH",
            Algorithm::RandomSearch => "RANDOM_SEARCH",
        },
        seed: study.seed.to_string(),
        early_stopping: study.stopping_rule.map(|rule| match rule {
            StoppingRuleKind::Median => "MEDIAN",
            StoppingRuleKind::DecayCurve => "DECAY_CURVE",
            StoppingRuleKind::Asha => "ASHA",
        }),
        trials,
        metrics: metrics.with_context(counted)?,
    })
}

/// Counts `trials` by origin, the most frequent first, then in the order of their first trials.
fn origins(trials: &[Trial]) -> Vec<OriginCount> {
    let mut counts: Vec<OriginCount> = Vec::new();
    for origin in trials.iter().filter_map(|trial| trial.origin) {
        match counts.iter_mut().find(|count| count.origin == origin) {
            Some(count) => count.trials += 1,
            None => counts.push(OriginCount { origin, trials: 1 }),
        }
    }
    counts.sort_by_key(|count| std::cmp::Reverse(count.trials));
    counts
}

/// Converts the trials of the study to the types of the algorithms.
fn trials(study: &Study, trials: &[Trial]) -> (Vec<CompletedTrial>, Vec<PendingTrial>) {
    let (mut completed, mut pending) = (Vec::new(), Vec::new());
    for trial in trials {
        let (id, parameters) = (trial.id, trial.parameters.clone());
        if trial.state.is_final() {
            let outcome = search_policy::outcome(trial, study.problem.metrics());
            completed.push(CompletedTrial { id, parameters, outcome });
        } else {
            pending.push(PendingTrial { id, parameters });
        }
    }
    (completed, pending)
}
