//! Trials of OSS Vizier.

use tunesmith_domain::{Code, Refusal, ReportedOutcome, Study, StudyState, Trial, TrialId, TrialState};
use tunesmith_vizier::messages::longrunning::Operation;
use tunesmith_vizier::messages::oss as wire;
use tunesmith_vizier::messages::vertex::Measurement;
use tunesmith_vizier::messages::vertex::trial::State;
use tunesmith_vizier::names;
use tunesmith_vizier::oss::{message_of_trial, metadata};
use tunesmith_vizier::vertex::point;

use crate::operations::{self, Protocol};
use crate::paging::Page;
use crate::refusals::violation;
use crate::services::{Context, Reply};
use crate::trials::{self, KnownTrial, check_metrics, check_open, first, known, messages, outcome, page};

/// Most trials in a list without a page size: their messages are in memory at once, and a client of gRPC receives 4 MiB.
const MAX_LISTED: u64 = 50_000;

/// The study `name`, given in `parent`.
async fn study(context: &Context, name: &str) -> Result<Study, Refusal> {
    first(context.studies(), &names::oss::study("parent", name)?).await
}

/// The trial `name`, given in `field`.
async fn named(context: &Context, field: &str, name: &str) -> Result<KnownTrial, Refusal> {
    let (studies, trial) = names::oss::trial(field, name)?;
    known(context.studies(), &studies, trial, None).await
}

async fn all(context: &Context, study: &Study, trials: &[Trial]) -> Result<Vec<wire::Trial>, Refusal> {
    let messages = messages(context.studies(), study, trials).await?;
    Ok(trials.iter().zip(messages).map(|(trial, message)| message_of_trial(study, trial, message)).collect())
}

/// Message of `trial` with its measurements.
async fn message(context: &Context, study: &Study, trial: &Trial) -> Result<Reply<wire::Trial>, Refusal> {
    let messages = all(context, study, std::slice::from_ref(trial)).await?;
    Ok(messages.into_iter().next().unwrap_or_default().into())
}

/// A measurement of a request. Its clients send one with an elapsed time only if their users give none.
fn given(measurement: Option<Measurement>) -> Option<Measurement> {
    measurement.filter(|measurement| !measurement.metrics.is_empty())
}

pub(super) async fn suggest(
    context: Context,
    request: wire::SuggestTrialsRequest,
) -> Result<Reply<Operation>, Refusal> {
    let study = study(&context, &request.parent).await?;
    // Its clients end their search at this code.
    if study.state == StudyState::Inactive {
        let text = format!("study {} is INACTIVE: {}", study.id, study.state_reason);
        return Err(Refusal::new(Code::FailedPrecondition, text));
    }
    let (count, client) = (request.suggestion_count, request.client_id);
    Ok(operations::suggest(&context, Protocol::OssVizier, study, count, client).await?.into())
}

pub(super) async fn create(context: Context, request: wire::CreateTrialRequest) -> Result<Reply<wire::Trial>, Refusal> {
    let study = study(&context, &request.parent).await?;
    let trial = request.trial.ok_or_else(|| Refusal::invalid("trial", "is required"))?;
    let parameters = point(study.problem.search_space(), &trial.parameters).map_err(violation)?;
    let values = metadata(trial.metadata, "metadata").map_err(violation)?;
    let is_infeasible = State::try_from(trial.state) == Ok(State::Infeasible) || !trial.infeasible_reason.is_empty();
    let result = outcome(given(trial.final_measurement), is_infeasible, trial.infeasible_reason)?;
    if let Some(ReportedOutcome::Measured(measurement)) = &result {
        check_metrics(&study, measurement, "finalMeasurement")?;
    }
    if result.is_none() && State::try_from(trial.state) == Ok(State::Succeeded) {
        return Err(Refusal::invalid("finalMeasurement", "is required for the state SUCCEEDED"));
    }
    let created =
        context.studies().create_trial(&study.id, parameters, trials::given(result, trial.measurements)?, None).await?;
    let mut added = created.trial;
    if !values.is_empty() {
        added = context.studies().add_metadata_of_trial(&study.id, added.id, values).await?;
    }
    let reply = message(&context, &study, &added).await?;
    Ok(Reply { created: Some(reply.message.name.clone()), ..reply })
}

pub(super) async fn get(context: Context, request: wire::GetTrialRequest) -> Result<Reply<wire::Trial>, Refusal> {
    let KnownTrial { study, trial, .. } = named(&context, "name", &request.name).await?;
    message(&context, &study, &trial).await
}

/// Lists trials. Its clients read one page only, so that a page has no usual size.
pub(super) async fn list(
    context: Context,
    request: wire::ListTrialsRequest,
) -> Result<Reply<wire::ListTrialsResponse>, Refusal> {
    let study = study(&context, &request.parent).await?;
    let asked = Page::<u64>::read(request.page_size, &request.page_token, usize::MAX, usize::MAX)?;
    if asked.limit == usize::MAX && study.next_trial_id.0 > MAX_LISTED {
        let text = format!("the study has more than {MAX_LISTED} trials; give a size of the page");
        return Err(Refusal::new(Code::ResourceExhausted, format!("pageSize: {text}")));
    }
    let (after, limit) = (TrialId(asked.after.unwrap_or_default()), Some(asked.limit).filter(|it| *it < usize::MAX));
    let (trials, next) = page(context.studies(), &study.id, after, limit).await?;
    let trials = all(&context, &study, &trials).await?;
    let next_page_token = next.map(|next| next.to_string()).unwrap_or_default();
    Ok(wire::ListTrialsResponse { trials, next_page_token }.into())
}

pub(super) async fn add_measurement(
    context: Context,
    request: wire::AddTrialMeasurementRequest,
) -> Result<Reply<wire::Trial>, Refusal> {
    let known = named(&context, "trialName", &request.trial_name).await?;
    if known.trial.state == TrialState::Infeasible {
        // Unchanged, as in OSS Vizier.
        return message(&context, &known.study, &known.trial).await;
    }
    let measurement = request.measurement.ok_or_else(|| Refusal::invalid("measurement", "is required"))?;
    let measurement = tunesmith_vizier::measurement(measurement, "measurement").map_err(violation)?;
    check_metrics(&known.study, &measurement, "measurement")?;
    let changed = context.studies().add_measurement(&known.key, measurement, None).await?;
    message(&context, &changed.study, &changed.trial).await
}

pub(super) async fn complete(
    context: Context,
    request: wire::CompleteTrialRequest,
) -> Result<Reply<wire::Trial>, Refusal> {
    let known = named(&context, "name", &request.name).await?;
    check_open(&known.trial)?;
    let outcome = outcome(given(request.final_measurement), request.trial_infeasible, request.infeasible_reason)?;
    if let Some(ReportedOutcome::Measured(measurement)) = &outcome {
        check_metrics(&known.study, measurement, "finalMeasurement")?;
    }
    let completed = context.studies().complete(&known.key, outcome.unwrap_or(ReportedOutcome::FromCurve)).await?;
    message(&context, &completed.study, &completed.trial).await
}

pub(super) async fn delete(context: Context, request: wire::DeleteTrialRequest) -> Result<Reply<()>, Refusal> {
    let known = named(&context, "name", &request.name).await?;
    context.studies().delete_trial(&known.study.id, known.trial.id).await?;
    Ok(().into())
}

pub(super) async fn check_early_stopping(
    context: Context,
    request: wire::CheckTrialEarlyStoppingStateRequest,
) -> Result<Reply<wire::CheckTrialEarlyStoppingStateResponse>, Refusal> {
    let known = named(&context, "trialName", &request.trial_name).await?;
    let should_stop = context.studies().should_stop(&known.key).await?;
    Ok(wire::CheckTrialEarlyStoppingStateResponse { should_stop }.into())
}

pub(super) async fn stop(context: Context, request: wire::StopTrialRequest) -> Result<Reply<wire::Trial>, Refusal> {
    let known = named(&context, "name", &request.name).await?;
    let stopped = context.studies().stop(&known.key).await?;
    message(&context, &stopped.study, &stopped.trial).await
}

pub(super) async fn list_optimal(
    context: Context,
    request: wire::ListOptimalTrialsRequest,
) -> Result<Reply<wire::ListOptimalTrialsResponse>, Refusal> {
    let study = study(&context, &request.parent).await?;
    let asked = Page::<usize>::read(request.page_size, &request.page_token, usize::MAX, usize::MAX)?;
    let numbers = context.studies().optimal_trials(&study).await?;
    let (first, count) = (asked.after.unwrap_or_default(), numbers.len());
    let end = first.saturating_add(asked.limit);
    let numbers = numbers.into_iter().skip(first).take(asked.limit);
    let trials = context.studies().trials_numbered(&study.id, numbers).await?;
    let optimal_trials = all(&context, &study, &trials).await?;
    let next_page_token = if end < count { end.to_string() } else { String::new() };
    Ok(wire::ListOptimalTrialsResponse { optimal_trials, next_page_token }.into())
}
