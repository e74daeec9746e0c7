//! Trials of Vertex AI.

use tunesmith_api::ai_platform::rpc::FieldViolation;
use tunesmith_domain::{FixedParameters, Refusal, ReportedOutcome, Study, Trial, TrialId};
use tunesmith_studies::StudiesError;
use tunesmith_vizier::messages::longrunning::Operation;
use tunesmith_vizier::messages::vertex as wire;
use tunesmith_vizier::names;
use tunesmith_vizier::vertex::point;

use crate::operations::{self, Protocol};
use crate::paging::Page;
use crate::refusals::violation;
use crate::services::{Context, Reply};
use crate::trials::{self, KnownTrial, check_metrics, check_open, known, messages, outcome, page};

/// Number of trials per page, if the client does not say, and at most.
const PAGE: (usize, usize) = (100, 1000);

/// The trial `name`, given in `field`.
async fn named(context: &Context, field: &str, name: &str) -> Result<KnownTrial, Refusal> {
    let name = names::vertex::trial(field, name)?;
    known(context.studies(), &[name.study], name.trial, name.attempt).await
}

/// Message of `trial` with its measurements.
async fn message(context: &Context, study: &Study, trial: &Trial) -> Result<Reply<wire::Trial>, Refusal> {
    let messages = messages(context.studies(), study, std::slice::from_ref(trial)).await?;
    Ok(messages.into_iter().next().unwrap_or_default().into())
}

pub(super) async fn suggest(
    context: Context,
    request: wire::SuggestTrialsRequest,
) -> Result<Reply<Operation>, Refusal> {
    let study = context.studies().study(&names::vertex::study("parent", &request.parent)?).await?;
    let contexts = contexts(&study, &request)?;
    let (count, client) = (request.suggestion_count, request.client_id);
    let operation = if contexts.iter().all(|context| context.values().is_empty()) {
        operations::suggest(&context, Protocol::VertexAi(context.version), study, count, client).await?
    } else {
        operations::suggest_in_contexts(&context, study, (count, client), &contexts).await?
    };
    let is_described = request.contexts.iter().any(|context| !context.description.is_empty());
    let notices = is_described.then(|| "contexts.description has no effect".to_owned());
    Ok(Reply { notices: notices.into_iter().collect(), ..operation.into() })
}

/// Parameters that the contexts fix: none, or one set for each suggestion.
fn contexts(study: &Study, request: &wire::SuggestTrialsRequest) -> Result<Vec<FixedParameters>, Refusal> {
    let given = request.contexts.len();
    if given > 0 && i32::try_from(given) != Ok(request.suggestion_count) {
        let text =
            format!("{given} are given for {} suggestions; allowed: none, or one each", request.suggestion_count);
        return Err(Refusal::invalid("contexts", text));
    }
    let space = study.problem.search_space();
    let fixed = |(index, context): (usize, &wire::TrialContext)| {
        let below = format!("contexts[{index}]");
        let values = point(space, &context.parameters)
            .map_err(|refused| violation(FieldViolation { field: format!("{below}.{}", refused.field), ..refused }))?;
        FixedParameters::new(space, values)
            .map_err(|error| Refusal::invalid(&format!("{below}.parameters"), error.to_string()))
    };
    request.contexts.iter().enumerate().map(fixed).collect()
}

pub(super) async fn create(context: Context, request: wire::CreateTrialRequest) -> Result<Reply<wire::Trial>, Refusal> {
    let study = context.studies().study(&names::vertex::study("parent", &request.parent)?).await?;
    let trial = request.trial.ok_or_else(|| Refusal::invalid("trial", "is required"))?;
    let parameters = point(study.problem.search_space(), &trial.parameters).map_err(violation)?;
    let result = outcome(trial.final_measurement, false, String::new())?;
    if let Some(ReportedOutcome::Measured(measurement)) = &result {
        check_metrics(&study, measurement, "finalMeasurement")?;
    }
    let created =
        context.studies().create_trial(&study.id, parameters, trials::given(result, trial.measurements)?, None).await?;
    let reply = message(&context, &created.study, &created.trial).await?;
    Ok(Reply { created: Some(reply.message.name.clone()), ..reply })
}

pub(super) async fn get(context: Context, request: wire::GetTrialRequest) -> Result<Reply<wire::Trial>, Refusal> {
    let KnownTrial { study, trial, .. } = named(&context, "name", &request.name).await?;
    message(&context, &study, &trial).await
}

pub(super) async fn list(
    context: Context,
    request: wire::ListTrialsRequest,
) -> Result<Reply<wire::ListTrialsResponse>, Refusal> {
    let study = context.studies().study(&names::vertex::study("parent", &request.parent)?).await?;
    let asked = Page::<u64>::read(request.page_size, &request.page_token, PAGE.0, PAGE.1)?;
    let after = TrialId(asked.after.unwrap_or_default());
    let (trials, next) = page(context.studies(), &study.id, after, Some(asked.limit)).await?;
    let trials = messages(context.studies(), &study, &trials).await?;
    let next_page_token = next.map(|next| next.to_string()).unwrap_or_default();
    Ok(wire::ListTrialsResponse { trials, next_page_token }.into())
}

pub(super) async fn add_measurement(
    context: Context,
    request: wire::AddTrialMeasurementRequest,
) -> Result<Reply<wire::Trial>, Refusal> {
    let known = named(&context, "trialName", &request.trial_name).await?;
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
    let given = outcome(request.final_measurement, request.trial_infeasible, request.infeasible_reason)?;
    if let Some(ReportedOutcome::Measured(measurement)) = &given {
        check_metrics(&known.study, measurement, "finalMeasurement")?;
    }
    let completed = context.studies().complete(&known.key, given.unwrap_or(ReportedOutcome::FromCurve)).await;
    let completed = match completed {
        // Infeasible without a result, as published.
        Err(error @ (StudiesError::NoMeasurement(_) | StudiesError::NoCompleteMeasurement { .. })) => {
            context.studies().complete(&known.key, ReportedOutcome::Infeasible(error.to_string())).await?
        }
        completed => completed?,
    };
    message(&context, &completed.study, &completed.trial).await
}

pub(super) async fn delete(context: Context, request: wire::DeleteTrialRequest) -> Result<Reply<()>, Refusal> {
    let name = names::vertex::trial("name", &request.name)?;
    context.studies().delete_trial(&name.study, name.trial).await?;
    Ok(().into())
}

pub(super) async fn check_early_stopping(
    context: Context,
    request: wire::CheckTrialEarlyStoppingStateRequest,
) -> Result<Reply<Operation>, Refusal> {
    let known = named(&context, "trialName", &request.trial_name).await?;
    let should_stop = context.studies().should_stop(&known.key).await?;
    Ok(operations::early_stopping(&context, &known.study, known.trial.id, should_stop).into())
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
    let study = context.studies().study(&names::vertex::study("parent", &request.parent)?).await?;
    let numbers = context.studies().optimal_trials(&study).await?;
    let trials = context.studies().trials_numbered(&study.id, numbers).await?;
    let optimal_trials = messages(context.studies(), &study, &trials).await?;
    Ok(wire::ListOptimalTrialsResponse { optimal_trials }.into())
}
