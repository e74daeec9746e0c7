//! `projects.locations.studies.trials`.

use std::num::NonZeroUsize;

use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::{Body, typed};
use super::names::{no_method, study_id, trial_ref};
use super::optimizer::Api;
use super::request_key::RequestKey;
use super::status::ApiError;
use crate::api::ai_platform::ProtoDuration;
use crate::api::ai_platform::optimizer::{
    MeasurementMessage, ParameterNames, StudyConfig, TrialMessage, TrialRequest, point,
};
use crate::domain::{Study, StudyId, Trial};
use crate::service::optimizer::{Optimizer, OptimizerError, Outcome, SuggestionRequest};

/// Most trials in one request.
pub(super) const MAX_SUGGESTIONS: usize = 1000;

type TrialPath = Path<(String, String, String, String)>;

/// `trials:suggest`, `trials:listOptimalTrials`: methods of all trials of a study.
pub(super) async fn study_method(
    State(api): State<Api>,
    Path((project, location, study, method)): TrialPath,
    Body(body): Body<Value>,
) -> Result<Json<Value>, ApiError> {
    let study = study_id(&project, &location, &study)?;
    match method.as_str() {
        "trials:suggest" => {
            let request = suggestion_request(typed(body)?)?;
            Ok(Json(super::operations::suggest(&api, study, request).await?))
        }
        "trials:listOptimalTrials" => {
            let _: Nothing = typed(body)?;
            let trials = api.optimizer.optimal_trials(&study).await?;
            Ok(Json(list_message(&api.optimizer, &study, &trials).await?))
        }
        _ => Err(no_method(&format!("{method:?} of a study"))),
    }
}

/// `7:complete` and the other methods of one trial.
pub(super) async fn trial_method(
    State(api): State<Api>,
    Path((project, location, study, segment)): TrialPath,
    RequestKey(request_key): RequestKey,
    Body(body): Body<Value>,
) -> Result<Json<Value>, ApiError> {
    let study = study_id(&project, &location, &study)?;
    let Some((trial, method)) = segment.split_once(':') else {
        return Err(no_method(&format!("POST {segment:?} of a trial")));
    };
    let key = trial_ref(study, trial)?;
    let trial = match method {
        "addMeasurement" => {
            let request: AddMeasurementRequest = typed(body)?;
            let measurement = request.measurement.ok_or_else(|| ApiError::invalid("measurement", "is required"))?;
            let measurement = measurement.into_measurement("measurement")?;
            api.optimizer.add_measurement(&key, measurement, request_key).await?
        }
        "complete" => api.optimizer.complete(&key, outcome(typed(body)?)?).await?,
        "stop" => {
            let _: Nothing = typed(body)?;
            api.optimizer.stop(&key).await?
        }
        "checkEarlyStoppingState" => {
            let _: Nothing = typed(body)?;
            return Ok(Json(super::operations::check_early_stopping(&api, &key).await?));
        }
        _ => return Err(no_method(&format!("{method:?} of a trial"))),
    };
    Ok(Json(json!(message(&api.optimizer, &key.study, &trial).await?)))
}

pub(super) async fn create(
    State(api): State<Api>,
    Path((project, location, study)): Path<(String, String, String)>,
    RequestKey(request_key): RequestKey,
    Body(request): Body<TrialRequest>,
) -> Result<Json<TrialMessage>, ApiError> {
    let id = study_id(&project, &location, &study)?;
    let study = api.optimizer.study(&id).await?;
    let parameters = point(study.problem.search_space(), &names(&study), &request.parameters)?;
    let result = match (request.final_measurement, request.trial_infeasible) {
        (_, true) => Some(Outcome::Infeasible(infeasible_reason(request.infeasible_reason))),
        (Some(measurement), false) => Some(Outcome::Measured(measurement.into_measurement("finalMeasurement")?)),
        (None, false) => None,
    };
    let trial = api.optimizer.create_trial(&id, parameters, result, request_key).await?;
    Ok(Json(message(&api.optimizer, &id, &trial).await?))
}

pub(super) async fn get(
    State(api): State<Api>,
    Path((project, location, study, trial)): TrialPath,
) -> Result<Json<TrialMessage>, ApiError> {
    let key = trial_ref(study_id(&project, &location, &study)?, &trial)?;
    let trial = api.optimizer.trial(&key.study, key.trial).await?;
    Ok(Json(message(&api.optimizer, &key.study, &trial).await?))
}

pub(super) async fn list(
    State(api): State<Api>,
    Path((project, location, study)): Path<(String, String, String)>,
) -> Result<Json<Value>, ApiError> {
    let study = study_id(&project, &location, &study)?;
    let trials = api.optimizer.trials(&study).await?;
    Ok(Json(list_message(&api.optimizer, &study, &trials).await?))
}

pub(super) async fn delete(
    State(api): State<Api>,
    Path((project, location, study, trial)): TrialPath,
) -> Result<Json<Value>, ApiError> {
    let key = trial_ref(study_id(&project, &location, &study)?, &trial)?;
    api.optimizer.delete_trial(&key.study, key.trial).await?;
    Ok(Json(json!({})))
}

/// `{}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct SuggestTrialsRequest {
    suggestion_count: i32,
    client_id: String,
    tunesmith: SuggestAdditions,
}

/// Additions of ours to a request for trials.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct SuggestAdditions {
    /// For how long the client may be silent; as the study says if absent.
    lease: Option<ProtoDuration>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct AddMeasurementRequest {
    measurement: Option<MeasurementMessage>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct CompleteTrialRequest {
    final_measurement: Option<MeasurementMessage>,
    trial_infeasible: bool,
    infeasible_reason: String,
}

fn suggestion_request(request: SuggestTrialsRequest) -> Result<SuggestionRequest, ApiError> {
    let count = usize::try_from(request.suggestion_count).ok().and_then(NonZeroUsize::new);
    let count = count.filter(|count| count.get() <= MAX_SUGGESTIONS);
    let count = count.ok_or_else(|| {
        let description = format!("is {}, must be from 1 to {MAX_SUGGESTIONS}", request.suggestion_count);
        ApiError::invalid("suggestionCount", description)
    })?;
    if request.client_id.is_empty() {
        return Err(ApiError::invalid("clientId", "is required"));
    }
    Ok(SuggestionRequest {
        client_id: request.client_id,
        count,
        lease: request.tunesmith.lease.map(|lease| lease.0).filter(|lease| !lease.is_zero()),
    })
}

fn outcome(request: CompleteTrialRequest) -> Result<Outcome, ApiError> {
    if request.trial_infeasible {
        return Ok(Outcome::Infeasible(infeasible_reason(request.infeasible_reason)));
    }
    if !request.infeasible_reason.is_empty() {
        return Err(ApiError::invalid("infeasibleReason", "belongs to trialInfeasible alone"));
    }
    Ok(match request.final_measurement {
        Some(measurement) => Outcome::Measured(measurement.into_measurement("finalMeasurement")?),
        None => Outcome::Reported,
    })
}

fn infeasible_reason(given: String) -> String {
    if given.is_empty() { "declared infeasible".to_owned() } else { given }
}

/// How the study's user calls its parameters.
fn names(study: &Study) -> ParameterNames {
    StudyConfig::deserialize(&study.config).map(|config| ParameterNames::of(&config)).unwrap_or_default()
}

async fn message(optimizer: &Optimizer, study: &StudyId, trial: &Trial) -> Result<TrialMessage, OptimizerError> {
    let names = names(&optimizer.study(study).await?);
    let curve = optimizer.measurements(study, trial).await?;
    Ok(TrialMessage::new(study, &names, trial, &curve))
}

/// `{"trials": [...]}`.
pub(super) async fn list_message(
    optimizer: &Optimizer,
    study: &StudyId,
    trials: &[Trial],
) -> Result<Value, OptimizerError> {
    let names = names(&optimizer.study(study).await?);
    let mut messages = Vec::with_capacity(trials.len());
    for trial in trials {
        let curve = optimizer.measurements(study, trial).await?;
        messages.push(TrialMessage::new(study, &names, trial, &curve));
    }
    Ok(if messages.is_empty() { json!({}) } else { json!({ "trials": messages }) })
}
