//! `projects.locations.studies.trials`.

use std::num::NonZeroUsize;

use axum::Json;
use axum::extract::{Extension, State};
use schemars::JsonSchema;
use serde::Deserialize;

use super::body::Body;
use super::examples;
use super::names::{Names, study_id, trial_ref};
use super::openapi::Operation;
use super::query::Query;
use super::rendered::Rendered;
use super::request_key::RequestKey;
use super::routes::{Permit, Routes};
use super::state::StudiesState;
use super::status::ApiError;
use super::trial_list;
use super::trial_messages::{MAX_SUGGESTIONS, message, message_with_notices, report_answer};
use super::views;
use tunesmith_access::Permission;
use tunesmith_api::ai_platform::optimizer::{
    self, AddMeasurementRequest, CompleteTrialRequest, SuggestTrialsRequest, TrialList, TrialMessage, TrialRequest,
    point, result_of_infeasible_trial,
};
use tunesmith_api::ai_platform::rpc::Empty;
use tunesmith_service::studies::{ReportedOutcome, SuggestionRequest, TrialRef};

/// Maximum length of a client's ID in bytes: it is part of the names of operations, which must fit into a path.
const MAX_CLIENT_ID_LENGTH: usize = 1024;

/// The path of trials, or a path below it.
macro_rules! trials {
    ($more:literal) => {
        concat!("/v1/projects/{project}/locations/{location}/studies/{study}/trials", $more)
    };
}

/// Adds the routes of trials to `routes`.
pub(super) fn routes(routes: Routes<StudiesState>) -> Routes<StudiesState> {
    let get = |path, id, summary| Operation::get(path, id, summary).or_not_found();
    let post = |path, id, summary| Operation::post(path, id, summary).or_not_found().or_conflict();
    routes
        .add(
            post(
                trials!(":suggest"),
                "ml.projects.locations.studies.trials.suggest",
                "Suggests trials: those that the client owns already, or new ones. Answers with 429 if the study is `COMPLETED` \
                 and has no more.",
            )
            .permission(Permission::TrialsCreate)
            .example(examples::SUGGEST),
            suggest,
        )
        .add(
            post(
                trials!(":listOptimalTrials"),
                "ml.projects.locations.studies.trials.listOptimalTrials",
                "Lists the optimal trials: the best one, or the Pareto front of several metrics, best first by the first metric.",
            )
            .permission(Permission::TrialsList)
            .only_reads(),
            list_optimal,
        )
        .add(
            post(trials!(""), "ml.projects.locations.studies.trials.create", "Creates a user-supplied trial.")
                .permission(Permission::TrialsCreate)
                .example(examples::TRIAL),
            create,
        )
        .add(
            get(trials!(""), "ml.projects.locations.studies.trials.list", "Lists all trials of a study.")
                .permission(Permission::TrialsList),
            list,
        )
        .add(
            get(trials!("/{trial}"), "ml.projects.locations.studies.trials.get", "Gets a trial.")
                .permission(Permission::TrialsGet),
            self::get,
        )
        .add(
            Operation::delete(trials!("/{trial}"), "ml.projects.locations.studies.trials.delete", "Deletes a trial.")
                .permission(Permission::TrialsDelete)
                .or_not_found()
                .or_conflict(),
            delete,
        )
        .add(
            post(
                trials!("/{trial}:addMeasurement"),
                "ml.projects.locations.studies.trials.addMeasurement",
                "Adds a measurement to a trial's curve. The answer contains the curve while it has at most 100 measurements.",
            )
            .permission(Permission::TrialsUpdate)
            .example(examples::MEASUREMENT),
            add_measurement,
        )
        .add(
            post(trials!("/{trial}:complete"), "ml.projects.locations.studies.trials.complete", "Completes a trial.")
                .permission(Permission::TrialsUpdate)
                .example(examples::COMPLETE),
            complete,
        )
        .add(
            post(
                trials!("/{trial}:checkEarlyStoppingState"),
                "ml.projects.locations.studies.trials.checkEarlyStoppingState",
                "Checks whether a trial should stop.",
            )
            .permission(Permission::TrialsUpdate),
            check_early_stopping,
        )
        .add(
            post(
                trials!("/{trial}:stop"),
                "ml.projects.locations.studies.trials.stop",
                "Requests the client of a trial to stop.",
            )
            .permission(Permission::TrialsUpdate),
            stop,
        )
}

async fn suggest(
    State(api): State<StudiesState>,
    Extension(permit): Extension<Permit>,
    Names([project, location, study]): Names<3>,
    Body(request): Body<SuggestTrialsRequest>,
) -> Result<Rendered<optimizer::Operation>, ApiError> {
    let study = study_id(&project, &location, &study)?;
    let request = suggestion_request(request)?;
    let count = request.count.get();
    let held = permit.of_trials(count)?;
    let operation = super::operations::suggest(&api, study, request, held).await?;
    Rendered::of(count, move || operation).await
}

async fn list_optimal(
    State(api): State<StudiesState>,
    Names([project, location, study]): Names<3>,
    Body(_): Body<Empty>,
) -> Result<Rendered<TrialList>, ApiError> {
    let study = api.studies.study(&study_id(&project, &location, &study)?).await?;
    let numbers = api.studies.optimal_trials(&study).await?;
    trial_list::list_of(api.studies, study, numbers).await
}

async fn add_measurement(
    State(api): State<StudiesState>,
    Names(names): Names<4>,
    RequestKey(request_key): RequestKey,
    Body(request): Body<AddMeasurementRequest>,
) -> Result<Rendered<TrialMessage>, ApiError> {
    let key = key(&names)?;
    let measurement = request.measurement.ok_or_else(|| ApiError::invalid("measurement", "is required"))?;
    let measurement = measurement.into_measurement("measurement")?;
    report_answer(&api.studies, api.studies.add_measurement(&key, measurement, request_key).await?).await
}

async fn complete(
    State(api): State<StudiesState>,
    Names(names): Names<4>,
    Body(request): Body<CompleteTrialRequest>,
) -> Result<Rendered<TrialMessage>, ApiError> {
    let is_ignored = request.trial_infeasible && request.final_measurement.is_some();
    let notices = if is_ignored { vec![result_of_infeasible_trial()] } else { Vec::new() };
    let completed = api.studies.complete(&key(&names)?, outcome(request)?).await?;
    message_with_notices(&api.studies, completed, notices).await
}

async fn stop(
    State(api): State<StudiesState>,
    Names(names): Names<4>,
    Body(_): Body<Empty>,
) -> Result<Rendered<TrialMessage>, ApiError> {
    message(&api.studies, api.studies.stop(&key(&names)?).await?).await
}

async fn check_early_stopping(
    State(api): State<StudiesState>,
    Names(names): Names<4>,
    Body(_): Body<Empty>,
) -> Result<Json<optimizer::Operation>, ApiError> {
    Ok(Json(super::operations::check_early_stopping(&api, &key(&names)?).await?))
}

async fn create(
    State(api): State<StudiesState>,
    Names([project, location, study]): Names<3>,
    RequestKey(request_key): RequestKey,
    Body(request): Body<TrialRequest>,
) -> Result<Rendered<TrialMessage>, ApiError> {
    let id = study_id(&project, &location, &study)?;
    let notices = request.notices();
    if !request.trial_infeasible && !request.infeasible_reason.is_empty() {
        return Err(reason_without_infeasible());
    }
    let study = api.studies.study(&id).await?;
    let parameters = point(study.problem.search_space(), &request.parameters)?;
    let result = match (request.final_measurement, request.trial_infeasible) {
        (_, true) => Some(ReportedOutcome::Infeasible(infeasible_reason(request.infeasible_reason))),
        (Some(measurement), false) => {
            Some(ReportedOutcome::Measured(measurement.into_measurement("finalMeasurement")?))
        }
        (None, false) => None,
    };
    let created = api.studies.create_trial(&id, parameters, result, request_key).await?;
    message_with_notices(&api.studies, created, notices).await
}

async fn get(State(api): State<StudiesState>, Names(names): Names<4>) -> Result<Rendered<TrialMessage>, ApiError> {
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
    State(api): State<StudiesState>,
    Names([project, location, study]): Names<3>,
    Query(query): Query<ListQuery>,
) -> Result<Rendered<TrialList>, ApiError> {
    let study = api.studies.study(&study_id(&project, &location, &study)?).await?;
    if query.filter.is_empty() {
        return trial_list::list(api.studies, study).await;
    }
    let numbers = views::selected_trials(&api.studies, &study, &query.filter).await?;
    trial_list::list_of(api.studies, study, numbers).await
}

async fn delete(State(api): State<StudiesState>, Names(names): Names<4>) -> Result<Json<Empty>, ApiError> {
    let key = key(&names)?;
    api.studies.delete_trial(&key.study, key.trial).await?;
    Ok(Json(Empty {}))
}

fn key([project, location, study, trial]: &[String; 4]) -> Result<TrialRef, ApiError> {
    trial_ref(study_id(project, location, study)?, trial)
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
    if request.client_id.len() > MAX_CLIENT_ID_LENGTH {
        let length = request.client_id.len();
        let description = format!("has {length} bytes, must have at most {MAX_CLIENT_ID_LENGTH}");
        return Err(ApiError::invalid("clientId", description));
    }
    Ok(SuggestionRequest {
        client_id: request.client_id,
        count,
        lease: request.tunesmith.lease.map(|lease| lease.0).filter(|lease| !lease.is_zero()),
    })
}

fn outcome(request: CompleteTrialRequest) -> Result<ReportedOutcome, ApiError> {
    if request.trial_infeasible {
        return Ok(ReportedOutcome::Infeasible(infeasible_reason(request.infeasible_reason)));
    }
    if !request.infeasible_reason.is_empty() {
        return Err(reason_without_infeasible());
    }
    Ok(match request.final_measurement {
        Some(measurement) => ReportedOutcome::Measured(measurement.into_measurement("finalMeasurement")?),
        None => ReportedOutcome::FromCurve,
    })
}

fn reason_without_infeasible() -> ApiError {
    ApiError::invalid("infeasibleReason", "only with trialInfeasible")
}

fn infeasible_reason(given: String) -> String {
    if given.is_empty() { "declared infeasible".to_owned() } else { given }
}
