//! `tunesmith explain`: analyses a job or study: parameter importance, predicted optimum, model calibration. Reads a
//! data folder or a server's responses, also while the job runs.

mod analysis;
mod sparkline;
mod text;

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use tunesmith_algorithms::designer::History;
use tunesmith_algorithms::designers::choose_algorithm;
use tunesmith_algorithms::insight::{InsightError, MetricInsight, TrialCounts, explain};

use self::analysis::{Choice, Explanation, OriginCount, Subject};
use super::client::{self, SubjectArgs};
use super::output::print;
use super::results::Results;
use super::study_view::StudyView;
use super::table::Layout;
use super::trial_view::TrialView;
use tunesmith_domain::{Algorithm, best_at_bounds};
use tunesmith_views::SourceStudy;

#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    subject: SubjectArgs,
    /// Also print the predicted metric along each parameter, through the best trial.
    #[arg(long, conflicts_with = "json")]
    slices: bool,
    /// Print all columns of the tables, even if they do not fit the terminal.
    #[arg(long)]
    wide: bool,
    /// Print the analysis as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    // The service on a data folder runs in this process.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let explained = match runtime.block_on(read(args)) {
        Ok(explained) => explained,
        Err(error) => return client::report(error),
    };
    runtime.shutdown_background();
    let explanation = explanation(&explained)?;
    let text = if args.json {
        format!("{}\n", serde_json::to_string_pretty(&explanation)?)
    } else {
        let text = text::text(&explanation, args.slices, &Layout::of_all_columns(args.wide))?;
        text + &explained.study.at_bounds_text()
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

struct Explained {
    subject: Subject,
    state: String,
    study: StudyView,
    sources: Vec<SourceStudy>,
}

async fn read(args: &ExplainArgs) -> anyhow::Result<Explained> {
    let SubjectArgs { job, study, target, location } = &args.subject;
    let Some(job) = job else {
        let name = study.clone().unwrap_or_default();
        let (study, sources) = client::explained_study(target, location, &name).await?;
        return Ok(Explained { subject: Subject::Study(name), state: study.state.to_string(), study, sources });
    };
    let (Results { id, job, study, .. }, sources) = client::explained_job(target, location, job).await?;
    let Some(study) = study else { bail!("job {id} has no hyperparameters, so there is nothing to explain") };
    Ok(Explained { subject: Subject::Job(id.to_string()), state: job.state.to_string(), study, sources })
}

fn explanation(Explained { subject, state, study, sources }: &Explained) -> anyhow::Result<Explanation> {
    let (completed, pending) = study.history();
    let history = History { completed: &completed, pending: &pending };
    let trials = TrialCounts::of(history);
    let metrics = study.problem.metrics().iter().map(|metric| explain(&study.problem, history, &metric.name));
    let metrics: Result<Vec<MetricInsight>, InsightError> = metrics.collect();
    let counted = || {
        let TrialCounts { measured, infeasible, pending, .. } = trials;
        format!("{subject} cannot be explained ({measured} trials measured, {infeasible} failed, {pending} running)")
    };
    Ok(Explanation {
        subject: subject.clone(),
        state: state.clone(),
        choice: (study.algorithm == Algorithm::Automatic).then(|| {
            let choice = choose_algorithm(&study.problem, &completed);
            Choice { algorithm: choice.algorithm, reason: choice.reason }
        }),
        origins: origins(&study.trials),
        source_studies: sources.clone(),
        fixed_parameters: fixed_parameters(&study.trials),
        algorithm: study.algorithm.as_str(),
        seed: study.seed.to_string(),
        early_stopping: study.rule_name(),
        trials,
        best_at_bounds: best_at_bounds(&study.problem, &study.trials).into_iter().map(Into::into).collect(),
        metrics: metrics.with_context(counted)?,
    })
}

/// Counts `trials` by parameter whose value their callers fixed.
fn fixed_parameters(trials: &[TrialView]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for name in trials.iter().flat_map(|trial| &trial.fixed_parameters) {
        *counts.entry(name.clone()).or_default() += 1;
    }
    counts
}

/// Counts `trials` by origin, most frequent first, ties by first trial.
fn origins(trials: &[TrialView]) -> Vec<OriginCount> {
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
