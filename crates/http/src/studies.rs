//! `projects.locations.studies`.

use axum::Json;
use axum::extract::State;
use rand::Rng;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::Body;
use super::examples;
use super::names::{self, Names, study_id};
use super::openapi::Operation;
use super::query::Query;
use super::rendered::Rendered;
use super::routes::Routes;
use super::state::StudiesState;
use super::status::ApiError;
use tunesmith_access::Permission;
use tunesmith_api::ai_platform::optimizer::{StudyList, StudyMessage, StudyRequest, study_plan};
use tunesmith_api::ai_platform::rpc::Empty;
use tunesmith_domain::{Study, StudyId};
use tunesmith_service::NewStudy;
use tunesmith_service::filters::{FilterError, StudyFilter};
use tunesmith_service::studies::StudiesError;
use tunesmith_store::StoreError;

/// The field of a study that can be changed.
const MAX_TRIALS: &str = "studyConfig.tunesmith.maxTrials";

const STUDIES: &str = "/v1/projects/{project}/locations/{location}/studies";
const STUDY: &str = "/v1/projects/{project}/locations/{location}/studies/{study}";

/// Adds the routes of studies to `routes`.
pub(super) fn routes(routes: Routes<StudiesState>) -> Routes<StudiesState> {
    routes
        .add(
            Operation::post(STUDIES, "ml.projects.locations.studies.create", "Creates a study.")
                .permission(Permission::StudiesCreate)
                .example(examples::STUDY)
                .makes("study", "$request.query.studyId")
                .or_conflict(),
            create,
        )
        .add(
            Operation::get(STUDIES, "ml.projects.locations.studies.list", "Lists all studies of a location.")
                .permission(Permission::StudiesList),
            list,
        )
        .add(
            Operation::get(STUDY, "ml.projects.locations.studies.get", "Gets a study.")
                .permission(Permission::StudiesGet)
                .or_not_found(),
            get,
        )
        .add(
            Operation::patch(STUDY, "tunesmith.projects.locations.studies.patch", "Raises a study's number of trials.")
                .permission(Permission::StudiesCreate)
                .example(examples::MORE_TRIALS)
                .or_not_found(),
            patch,
        )
        .add(
            Operation::delete(STUDY, "ml.projects.locations.studies.delete", "Deletes a study and its trials.")
                .permission(Permission::StudiesDelete)
                .or_not_found(),
            delete,
        )
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
    State(api): State<StudiesState>,
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
    let prior_studies = source_studies(&api, &id, &plan.prior_studies).await?;
    let config = serde_json::to_value(&config)
        .map_err(|error| ApiError::invalid("studyConfig", format!("cannot be stored: {error}")))?;
    notices.extend(plan.notices);
    let study = plan.spec.into_study(NewStudy {
        id,
        seed: plan.seed.unwrap_or_else(|| rand::rng().next_u64()),
        prior_studies,
        config,
        create_time: api.clock.now(),
    });
    let study = api.studies.create_study(study).await?;
    Ok(Json(StudyMessage::from(&study).with_notices(notices)))
}

/// The source studies of the new study `id`: those with the IDs `earlier` at its location, with their own.
async fn source_studies(api: &StudiesState, id: &StudyId, earlier: &[String]) -> Result<Vec<StudyId>, ApiError> {
    let (project, location, _) = id.parts();
    let mut studies = Vec::with_capacity(earlier.len());
    for (index, name) in earlier.iter().enumerate() {
        let field = format!("studyConfig.tunesmith.priorStudies[{index}]");
        let study = StudyId::new(project, location, name);
        let study = study.map_err(|error| ApiError::invalid(&field, error.to_string()))?;
        if studies.contains(&study) {
            return Err(ApiError::invalid(&field, format!("{name:?} is given twice")));
        }
        match api.studies.study(&study).await {
            Err(StudiesError::Store(StoreError::NotFound { .. })) => {
                let text = format!("{name:?} is not a study; allowed: IDs of studies at the location {location:?}");
                return Err(ApiError::invalid(&field, text));
            }
            found => found?,
        };
        studies.push(study);
    }
    Ok(api.studies.source_studies(&studies).await?)
}

async fn get(
    State(api): State<StudiesState>,
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

/// The location that stands for all locations in lists, as in other APIs of Google.
const ALL_LOCATIONS: &str = "-";

async fn list(
    State(api): State<StudiesState>,
    Names([project, location]): Names<2>,
    Query(query): Query<ListQuery>,
) -> Result<Rendered<StudyList>, ApiError> {
    let is_of_all = location == ALL_LOCATIONS;
    if !is_of_all {
        names::location(&project, &location)?;
    }
    let filter: StudyFilter =
        query.filter.parse().map_err(|error: FilterError| ApiError::invalid("filter", error.to_string()))?;
    let studies = match is_of_all {
        true => {
            let is_listed = |study: &Study| study.id.parts().0 == project && filter.accepts(study);
            api.studies.pick(|study| is_listed(&study).then_some(study)).await?
        }
        false => api.studies.studies(&project, &location, |study| filter.accepts(study)).await?,
    };
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
    State(api): State<StudiesState>,
    Names([project, location, study]): Names<3>,
    Query(query): Query<PatchQuery>,
    Body(request): Body<StudyRequest>,
) -> Result<Json<StudyMessage>, ApiError> {
    let id = study_id(&project, &location, &study)?;
    if query.update_mask.trim() != MAX_TRIALS {
        return Err(ApiError::invalid(
            "updateMask",
            format!("must be {MAX_TRIALS}, the only field that can be changed"),
        ));
    }
    let requested = request.study_config.and_then(|config| config.tunesmith.max_trials);
    let max_trials = requested.and_then(|count| u64::try_from(count.0).ok()).filter(|count| *count > 0);
    let max_trials = max_trials.ok_or_else(|| ApiError::invalid(MAX_TRIALS, "is required, and must be at least 1"))?;
    let mut config = Value::clone(&api.studies.study(&id).await?.config);
    if let Value::Object(config) = &mut config
        && let Value::Object(additions) = config.entry("tunesmith").or_insert_with(|| json!({}))
    {
        additions.insert("maxTrials".to_owned(), json!(max_trials.to_string()));
    }
    let study = api.studies.extend_study(&id, max_trials, config).await?;
    Ok(Json(StudyMessage::from(&study)))
}

async fn delete(
    State(api): State<StudiesState>,
    Names([project, location, study]): Names<3>,
) -> Result<Json<Empty>, ApiError> {
    api.studies.delete_study(&study_id(&project, &location, &study)?).await?;
    Ok(Json(Empty {}))
}
