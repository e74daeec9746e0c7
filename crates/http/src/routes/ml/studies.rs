//! `projects.locations.studies`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::Method;
use rand::Rng;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::openapi::Operation;
use crate::openapi::examples;
use crate::request::body::Body;
use crate::request::names::{self, Names, study_id};
use crate::request::query::{self, Query};
use crate::response::error::ApiError;
use crate::response::rendered::Rendered;
use crate::routes::state::Api;
use crate::routes::table::Routes;
use tunesmith_admission::use_cases;
use tunesmith_api::ai_platform::optimizer::{
    CONTINUED_STUDIES, PRIOR_STUDIES, StudyList, StudyMessage, StudyRequest, source_notices, study_plan,
    with_max_trials,
};
use tunesmith_api::ai_platform::rpc::Empty;
use tunesmith_domain::{Metadata, NewStudy, Study, StudyId};
use tunesmith_studies::{NamedStudies, StudyFilter};

const STUDIES: &str = "/v1/projects/{project}/locations/{location}/studies";
const STUDY: &str = "/v1/projects/{project}/locations/{location}/studies/{study}";

pub(crate) fn routes(routes: Routes<Arc<Api>>) -> Routes<Arc<Api>> {
    routes
        .add(
            Operation::post(STUDIES, use_cases::CREATE_STUDY)
                .example(examples::STUDY)
                .makes("study", "$request.query.studyId")
                .or_conflict(),
            create,
        )
        .add(Operation::get(STUDIES, use_cases::LIST_STUDIES), list)
        .add(Operation::get(STUDY, use_cases::GET_STUDY).or_not_found(), get)
        .add(
            Operation::new(Method::PATCH, STUDY, use_cases::PATCH_STUDY).example(examples::MORE_TRIALS).or_not_found(),
            patch,
        )
        .add(Operation::new(Method::DELETE, STUDY, use_cases::DELETE_STUDY).or_not_found(), delete)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("required" = ["studyId"]))]
struct CreateQuery {
    /// ID of the study.
    #[serde(default)]
    #[schemars(regex(pattern = "^[A-Za-z0-9_.-]{1,128}$"))]
    study_id: String,
}

async fn create(
    State(api): State<Arc<Api>>,
    Names([project, location]): Names<2>,
    Query(query): Query<CreateQuery>,
    Body(request): Body<StudyRequest>,
) -> Result<Json<StudyMessage>, ApiError> {
    if query.study_id.is_empty() {
        return Err(ApiError::invalid("studyId", "is required, as a query parameter"));
    }
    let id = StudyId::new(&project, &location, &query.study_id);
    let id = id.map_err(|error| ApiError::invalid("studyId", error.to_string()))?;
    if id.is_of_job() {
        let text = format!("the location {location:?} is reserved for the studies of jobs");
        return Err(ApiError::invalid("parent", text));
    }
    let mut notices = request.notices();
    let config = request.study_config.ok_or_else(|| ApiError::invalid("studyConfig", "is required"))?;
    let plan = study_plan(&config).map_err(ApiError::violations)?;
    let continued = NamedStudies { names: &plan.continued_studies, field: CONTINUED_STUDIES };
    let related = NamedStudies { names: &plan.prior_studies, field: PRIOR_STUDIES };
    let sources = api.studies.named_sources(&id, continued, related).await?;
    let reused = api.studies.describe_sources(&plan.spec, &sources).await?;
    let config = serde_json::to_value(&config)
        .map_err(|error| ApiError::invalid("studyConfig", format!("cannot be stored: {error}")))?;
    notices.extend(plan.notices);
    let [continued, related] = reused.incomplete();
    notices.extend(source_notices(continued, related));
    let study = plan.spec.into_study(NewStudy {
        id,
        seed: plan.seed.unwrap_or_else(|| rand::rng().next_u64()),
        sources,
        config,
        metadata: Metadata::default(),
        create_time: api.clock.now(),
    });
    let study = api.studies.create_study(study).await?;
    Ok(Json(StudyMessage::from(&study).with_notices(notices)))
}

async fn get(
    State(api): State<Arc<Api>>,
    Names([project, location, study]): Names<3>,
) -> Result<Json<StudyMessage>, ApiError> {
    let study = api.studies.study(&study_id(&project, &location, &study)?).await?;
    Ok(Json(StudyMessage::from(&study)))
}

/// A selection of studies.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct ListQuery {
    /// The studies, as in `state = ACTIVE AND metric:loss`; default all.
    filter: String,
}

/// Wildcard for all locations in lists, as in other Google APIs.
const ALL_LOCATIONS: &str = "-";

async fn list(
    State(api): State<Arc<Api>>,
    Names([project, location]): Names<2>,
    Query(query): Query<ListQuery>,
) -> Result<Rendered<StudyList>, ApiError> {
    let is_of_all = location == ALL_LOCATIONS;
    if !is_of_all {
        names::location(&project, &location)?;
    }
    let filter: StudyFilter = query::filter(&query.filter)?;
    let parent = (!is_of_all).then_some((project.as_str(), location.as_str()));
    let is_listed = |study: &Study| study.id.parts().0 == project && filter.accepts(study);
    let studies = api.studies.pick(parent, |study| is_listed(&study).then_some(study)).await?;
    let count = studies.len();
    let list = move || StudyList { studies: studies.iter().map(StudyMessage::from).collect() };
    Rendered::of(count, list).await
}

/// The fields to change.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("required" = ["updateMask"]))]
struct PatchQuery {
    /// `studyConfig.tunesmith.maxTrials`, the only field that can be changed. It can only be raised; a completed study
    /// accepts trials again.
    update_mask: String,
}

async fn patch(
    State(api): State<Arc<Api>>,
    Names([project, location, study]): Names<3>,
    Query(query): Query<PatchQuery>,
    Body(request): Body<StudyRequest>,
) -> Result<Json<StudyMessage>, ApiError> {
    let id = study_id(&project, &location, &study)?;
    let max_trials = request.max_trials(&query.update_mask)?;
    let config = with_max_trials(&api.studies.study(&id).await?.config, max_trials);
    let study = api.studies.extend_study(&id, max_trials, config).await?;
    Ok(Json(StudyMessage::from(&study)))
}

async fn delete(
    State(api): State<Arc<Api>>,
    Names([project, location, study]): Names<3>,
) -> Result<Json<Empty>, ApiError> {
    api.studies.delete_study(&study_id(&project, &location, &study)?).await?;
    Ok(Json(Empty {}))
}
