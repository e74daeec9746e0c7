//! `projects.locations` and `projects.locations.studies`.

use axum::Json;
use axum::extract::{Path, Query, State};
use rand::Rng;
use serde::Deserialize;
use serde_json::{Value, json};
use tunesmith_algorithms::problem::TrialId;

use super::body::Body;
use super::names::study_id;
use super::optimizer::Api;
use super::status::ApiError;
use crate::api::ai_platform::optimizer::{StudyMessage, StudyRequest, study_plan};
use crate::domain::{Study, StudyFields, StudyId, StudyState};

/// The one place that this service runs in; any other name is taken as well, since clients have theirs in their code.
const LOCATION: &str = "local";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreateQuery {
    #[serde(default)]
    study_id: String,
}

pub(super) async fn create(
    State(api): State<Api>,
    Path((project, location)): Path<(String, String)>,
    Query(query): Query<CreateQuery>,
    Body(request): Body<StudyRequest>,
) -> Result<Json<StudyMessage>, ApiError> {
    if query.study_id.is_empty() {
        return Err(ApiError::invalid("studyId", "is required, as a query parameter"));
    }
    let id = StudyId::new(&project, &location, &query.study_id);
    let id = id.map_err(|error| ApiError::invalid("studyId", error.to_string()))?;
    if id.is_of_job() {
        return Err(ApiError::invalid("parent", format!("the location {location:?} is kept for the studies of jobs")));
    }
    let config = request.study_config.ok_or_else(|| ApiError::invalid("studyConfig", "is required"))?;
    let plan = study_plan(&config).map_err(ApiError::violations)?;
    let config = serde_json::to_value(&config)
        .map_err(|error| ApiError::invalid("studyConfig", format!("cannot be kept: {error}")))?;
    let study = Study::restore(StudyFields {
        id,
        problem: plan.problem,
        algorithm: plan.algorithm,
        seed: plan.seed.unwrap_or_else(|| rand::rng().next_u64()),
        stopping_rule: plan.stopping_rule,
        stopping_axis: plan.stopping_axis,
        final_measurement: plan.final_measurement,
        prior_studies: Vec::new(),
        initial_points: Vec::new(),
        max_trials: plan.max_trials,
        trial_lease: plan.trial_lease,
        config,
        state: StudyState::Active,
        state_reason: String::new(),
        create_time: api.clock.now(),
        next_trial_id: TrialId::FIRST,
        revision: 0,
    });
    let study = api.optimizer.create_study(study).await?;
    Ok(Json(StudyMessage::from(&study)))
}

pub(super) async fn get(
    State(api): State<Api>,
    Path((project, location, study)): Path<(String, String, String)>,
) -> Result<Json<StudyMessage>, ApiError> {
    let study = api.optimizer.study(&study_id(&project, &location, &study)?).await?;
    Ok(Json(StudyMessage::from(&study)))
}

pub(super) async fn list(
    State(api): State<Api>,
    Path((project, location)): Path<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let studies = api.optimizer.studies(&project, &location).await?;
    let studies: Vec<StudyMessage> = studies.iter().map(StudyMessage::from).collect();
    Ok(Json(if studies.is_empty() { json!({}) } else { json!({ "studies": studies }) }))
}

pub(super) async fn delete(
    State(api): State<Api>,
    Path((project, location, study)): Path<(String, String, String)>,
) -> Result<Json<Value>, ApiError> {
    api.optimizer.delete_study(&study_id(&project, &location, &study)?).await?;
    Ok(Json(json!({})))
}

pub(super) async fn list_locations(Path(project): Path<String>) -> Json<Value> {
    Json(json!({ "locations": [location(&project, LOCATION)] }))
}

pub(super) async fn get_location(Path((project, name)): Path<(String, String)>) -> Json<Value> {
    Json(location(&project, &name))
}

fn location(project: &str, name: &str) -> Value {
    json!({ "name": format!("projects/{project}/locations/{name}") })
}
