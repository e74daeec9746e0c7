//! Client commands. They address a server over HTTP or an in-process service on a data folder, with the same requests
//! and responses.

mod error;
mod export;
mod export_source;
mod folder;
mod format;
mod import_study;
mod job_list;
mod job_name;
mod job_reopen;
mod job_state;
mod job_update;
mod jobs;
mod log_stream;
#[cfg(feature = "mcp")]
pub(super) mod mcp;
mod measurement;
mod models;
mod notices;
mod packages;
mod results;
mod studies;
mod study_target;
mod submit;
mod submit_flags;
mod submit_prediction;
#[cfg(feature = "vizier")]
mod submit_vertex;
mod target;
mod trial_create;
mod trials;
mod trials_text;
mod versions;

use std::process::ExitCode;

use axum::body::Bytes;

pub(super) use self::error::report;
pub(super) use self::export::ExportCommand;
use self::folder::Purpose;
pub(super) use self::import_study::OptunaArgs;
#[cfg(feature = "vizier")]
pub(super) use self::import_study::VizierArgs;
pub(super) use self::job_update::label;
pub(super) use self::jobs::JobsCommand;
pub(super) use self::models::ModelsCommand;
pub(super) use self::studies::StudiesCommand;
pub(super) use self::submit_flags::{FLAGS as TRAINING_FLAGS, TrainingFlags};
pub(super) use self::target::{LocationArgs, SubjectArgs, TargetArgs};
pub(super) use self::trials::TrialsCommand;
pub(super) use self::versions::{PredictArgs, VersionsCommand};
use super::results::Results;
use super::study_view::StudyView;
use tunesmith_domain::{JobId, StudyId};
use tunesmith_views::SourceStudy;

pub(super) enum Command {
    Jobs(JobsCommand),
    Studies(StudiesCommand),
    Trials(TrialsCommand),
    Models(ModelsCommand),
    Versions(VersionsCommand),
    Predict(PredictArgs),
    Export(ExportCommand),
    ImportOptuna(OptunaArgs),
    #[cfg(feature = "vizier")]
    ImportVizier(VizierArgs),
}

pub(super) fn run(command: Command) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        match command {
            Command::Jobs(command) => jobs::run(command).await,
            Command::Studies(command) => studies::run(command).await,
            Command::Trials(command) => trials::run(command).await,
            Command::Models(command) => models::run(command).await,
            Command::Versions(command) => versions::run(command).await,
            Command::Predict(args) => versions::predict(&args).await,
            Command::Export(command) => export::run(command).await,
            Command::ImportOptuna(args) => import_study::from_optuna(&args).await,
            #[cfg(feature = "vizier")]
            Command::ImportVizier(args) => import_study::from_vizier(&args).await,
        }
    });
    // Abandons suggestions being computed ahead.
    runtime.shutdown_background();
    outcome.or_else(report)
}

/// Reads a job with its trials, and how much each source study counts for its search. `location` is searched for a study to
/// suggest if there is no such job.
pub(super) async fn explained_job(
    target: &TargetArgs,
    location: &LocationArgs,
    job: &JobId,
) -> anyhow::Result<(Results, Vec<SourceStudy>)> {
    let service = target.service_of(job, Purpose::Look).await?;
    let job = job_name::find_job_not_study(&service, &location.region, job).await?;
    let results = results::job_results(&service, &job).await?;
    let sources = match results.study {
        Some(_) => results::source_studies(&service.study(StudyId::JOBS_LOCATION, &job.job_id)).await?,
        None => Vec::new(),
    };
    Ok((results, sources))
}

/// Reads a study with its trials, and how much each source study counts for its search.
pub(super) async fn explained_study(
    target: &TargetArgs,
    location: &LocationArgs,
    study: &str,
) -> anyhow::Result<(StudyView, Vec<SourceStudy>)> {
    let service = target.service(Purpose::Look).await?;
    let view = results::study_view(&service, &location.region, study).await?;
    Ok((view, results::source_studies(&service.study(&location.region, study)).await?))
}

/// Reads a job's HTML report and ID. `location` is searched for a study to suggest if there is no such job.
pub(super) async fn job_report(
    target: &TargetArgs,
    location: &LocationArgs,
    job: &JobId,
) -> anyhow::Result<(String, Bytes)> {
    let service = target.service_of(job, Purpose::Look).await?;
    let id = job_name::find_job_not_study(&service, &location.region, job).await?.message.job_id;
    let page = service.page(&["jobs", &id, "report"]).await?;
    Ok((id, page))
}

pub(super) async fn study_report(target: &TargetArgs, location: &LocationArgs, study: &str) -> anyhow::Result<Bytes> {
    let service = target.service(Purpose::Look).await?;
    Ok(service.page(&["locations", &location.region, "studies", study, "report"]).await?)
}
