//! `projects.locations.studies.trials`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::Method;
use schemars::JsonSchema;
use serde::Deserialize;

use super::operations;
use super::trial_list;
use crate::openapi::Operation;
use crate::openapi::examples;
use crate::request::body::Body;
use crate::request::names::{Names, study_id, trial_ref};
use crate::request::query::Query;
use crate::response::error::ApiError;
use crate::response::rendered::Rendered;
use crate::routes::ml::trial_messages::{message, message_with_notices, report_answer};
use crate::routes::ml::views;
use crate::routes::state::Api;
use crate::routes::table::Routes;
use tunesmith_admission::{Admission, use_cases};
use tunesmith_api::ai_platform::optimizer::{
    self, AddMeasurementRequest, CompleteTrialRequest, SetNoteRequest, SuggestTrialsRequest, TrialList, TrialMessage,
    TrialRequest, point,
};
use tunesmith_api::ai_platform::rpc::Empty;
use tunesmith_studies::TrialRef;

/// Path of the trial collection, or a path below it.
macro_rules! trials {
    ($more:literal) => {
        concat!("/v1/projects/{project}/locations/{location}/studies/{study}/trials", $more)
    };
}

pub(crate) fn routes(routes: Routes<Arc<Api>>) -> Routes<Arc<Api>> {
    let get = |path, use_case| Operation::get(path, use_case).or_not_found();
    let post = |path, use_case| Operation::post(path, use_case).or_not_found().or_conflict();
    routes
        .add(post(trials!(":suggest"), use_cases::SUGGEST_TRIALS).example(examples::SUGGEST), suggest)
        .add(post(trials!(":listOptimalTrials"), use_cases::LIST_OPTIMAL_TRIALS), list_optimal)
        .add(post(trials!(""), use_cases::CREATE_TRIAL).example(examples::TRIAL), create)
        .add(get(trials!(""), use_cases::LIST_TRIALS), list)
        .add(get(trials!("/{trial}"), use_cases::GET_TRIAL), self::get)
        .add(
            Operation::new(Method::DELETE, trials!("/{trial}"), use_cases::DELETE_TRIAL).or_not_found().or_conflict(),
            delete,
        )
        .add(
            post(trials!("/{trial}:addMeasurement"), use_cases::ADD_MEASUREMENT).example(examples::MEASUREMENT),
            add_measurement,
        )
        .add(post(trials!("/{trial}:complete"), use_cases::COMPLETE_TRIAL).example(examples::COMPLETE), complete)
        .add(post(trials!("/{trial}:checkEarlyStoppingState"), use_cases::CHECK_EARLY_STOPPING), check_early_stopping)
        .add(post(trials!("/{trial}:stop"), use_cases::STOP_TRIAL), stop)
        .add(post(trials!("/{trial}:setNote"), use_cases::SET_TRIAL_NOTE).example(examples::NOTE), set_note)
}

async fn suggest(
    State(api): State<Arc<Api>>,
    Extension(admission): Extension<Admission>,
    Names([project, location, study]): Names<3>,
    Body(request): Body<SuggestTrialsRequest>,
) -> Result<Rendered<optimizer::Operation>, ApiError> {
    let study = study_id(&project, &location, &study)?;
    let request = request.into_request()?;
    let count = request.count.get();
    let held = admission.hold_trials(count)?;
    let operation = operations::suggest(&api, study, request, held).await?;
    Rendered::of(count, move || operation).await
}

async fn list_optimal(
    State(api): State<Arc<Api>>,
    Names([project, location, study]): Names<3>,
    Body(_): Body<Empty>,
) -> Result<Rendered<TrialList>, ApiError> {
    let study = api.studies.study(&study_id(&project, &location, &study)?).await?;
    let numbers = api.studies.optimal_trials(&study).await?;
    trial_list::list_of(Arc::clone(&api.studies), study, numbers).await
}

async fn add_measurement(
    State(api): State<Arc<Api>>,
    Names(names): Names<4>,
    Extension(admission): Extension<Admission>,
    Body(request): Body<AddMeasurementRequest>,
) -> Result<Rendered<TrialMessage>, ApiError> {
    let key = key(&names)?;
    let measurement = request.into_measurement()?;
    report_answer(&api.studies, api.studies.add_measurement(&key, measurement, admission.idempotency_key()).await?)
        .await
}

async fn complete(
    State(api): State<Arc<Api>>,
    Names(names): Names<4>,
    Body(request): Body<CompleteTrialRequest>,
) -> Result<Rendered<TrialMessage>, ApiError> {
    let notices = request.notices();
    let completed = api.studies.complete(&key(&names)?, request.into_outcome()?).await?;
    message_with_notices(&api.studies, completed, notices).await
}

async fn stop(
    State(api): State<Arc<Api>>,
    Names(names): Names<4>,
    Body(_): Body<Empty>,
) -> Result<Rendered<TrialMessage>, ApiError> {
    message(&api.studies, api.studies.stop(&key(&names)?).await?).await
}

async fn set_note(
    State(api): State<Arc<Api>>,
    Names(names): Names<4>,
    Extension(admission): Extension<Admission>,
    Body(request): Body<SetNoteRequest>,
) -> Result<Rendered<TrialMessage>, ApiError> {
    let key = key(&names)?;
    let note = request.into_note(admission.principal().map(str::to_owned))?;
    message(&api.studies, api.studies.set_note(&key.study, key.trial, note).await?).await
}

async fn check_early_stopping(
    State(api): State<Arc<Api>>,
    Names(names): Names<4>,
    Body(_): Body<Empty>,
) -> Result<Json<optimizer::Operation>, ApiError> {
    Ok(Json(operations::check_early_stopping(&api, &key(&names)?).await?))
}

async fn create(
    State(api): State<Arc<Api>>,
    Names([project, location, study]): Names<3>,
    Extension(admission): Extension<Admission>,
    Body(request): Body<TrialRequest>,
) -> Result<Rendered<TrialMessage>, ApiError> {
    let id = study_id(&project, &location, &study)?;
    let (notices, result) = (request.notices(), request.result()?);
    let study = api.studies.study(&id).await?;
    let parameters = point(study.problem.search_space(), &request.parameters)?;
    let created = api.studies.create_trial(&id, parameters, result, admission.idempotency_key()).await?;
    message_with_notices(&api.studies, created, notices).await
}

async fn get(State(api): State<Arc<Api>>, Names(names): Names<4>) -> Result<Rendered<TrialMessage>, ApiError> {
    let key = key(&names)?;
    message(&api.studies, api.studies.trial_of_study(&key.study, key.trial).await?).await
}

/// A selection of trials.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct ListQuery {
    /// The trials, as in `state = SUCCEEDED AND parameters.learning_rate < 0.01`; default all.
    filter: String,
}

async fn list(
    State(api): State<Arc<Api>>,
    Names([project, location, study]): Names<3>,
    Query(query): Query<ListQuery>,
) -> Result<Rendered<TrialList>, ApiError> {
    let study = api.studies.study(&study_id(&project, &location, &study)?).await?;
    if query.filter.is_empty() {
        return trial_list::list(Arc::clone(&api.studies), study).await;
    }
    let numbers = views::selected_trials(&api.studies, &study, &query.filter).await?;
    trial_list::list_of(Arc::clone(&api.studies), study, numbers).await
}

async fn delete(State(api): State<Arc<Api>>, Names(names): Names<4>) -> Result<Json<Empty>, ApiError> {
    let key = key(&names)?;
    api.studies.delete_trial(&key.study, key.trial).await?;
    Ok(Json(Empty {}))
}

fn key([project, location, study, trial]: &[String; 4]) -> Result<TrialRef, ApiError> {
    trial_ref(study_id(project, location, study)?, trial)
}
