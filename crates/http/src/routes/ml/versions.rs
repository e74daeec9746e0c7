//! `projects.models.versions`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Method;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::jobs::check_labels;
use super::model_messages;
use super::models::{check_description, mask};
use super::version_of_job;
use super::version_requests::{nodes, spec};
use crate::openapi::examples;
use crate::openapi::{Created, Operation};
use crate::request::body::Body;
use crate::request::names::Names;
use crate::request::paging::{self, Page};
use crate::request::query::{self, Query};
use crate::response::error::{ApiError, Code};
use crate::routes::state::Api;
use crate::routes::table::Routes;
use tunesmith_admission::{Admission, use_cases};
use tunesmith_api::ai_platform::prediction::{ModelOperation, VersionList, VersionMessage, VersionRequest};
use tunesmith_api::ai_platform::rpc::Empty;
use tunesmith_prediction::{Model, Version, VersionChange, VersionFilter};

const VERSIONS: &str = "/v1/projects/{project}/models/{model}/versions";
const VERSION: &str = "/v1/projects/{project}/models/{model}/versions/{version}";

/// Bytes of a log in one response.
const LOG_BYTES: u64 = 64 << 10;

pub(crate) fn routes(routes: Routes<Arc<Api>>) -> Routes<Arc<Api>> {
    routes
        .add(
            Operation::post(VERSIONS, use_cases::CREATE_VERSION)
                .example(examples::VERSION)
                .or_not_found()
                .or_conflict(),
            create,
        )
        .add(Operation::get(VERSIONS, use_cases::LIST_VERSIONS).or_not_found(), list)
        .add(Operation::get(VERSION, use_cases::GET_VERSION).or_not_found(), get)
        .add(
            Operation::new(Method::PATCH, VERSION, use_cases::PATCH_VERSION)
                .example(r#"{"autoScaling": {"minNodes": 1}}"#)
                .or_not_found()
                .or_conflict(),
            patch,
        )
        .add(Operation::new(Method::DELETE, VERSION, use_cases::DELETE_VERSION).or_not_found().or_conflict(), delete)
        .add(
            Operation::post(
                "/v1/projects/{project}/models/{model}/versions/{version}:setDefault",
                use_cases::SET_DEFAULT_VERSION,
            )
            .or_not_found()
            .or_conflict(),
            set_default,
        )
        .add(
            Operation::get("/v1/projects/{project}/models/{model}/versions/{version}:log", use_cases::GET_VERSION_LOG)
                .or_not_found(),
            log,
        )
}

async fn create(
    State(api): State<Arc<Api>>,
    Extension(admission): Extension<Admission>,
    Names([project, model]): Names<2>,
    Body(mut request): Body<VersionRequest>,
) -> Result<Created<ModelOperation>, ApiError> {
    check_labels(&request.labels)?;
    check_description(&request.description)?;
    let source = version_of_job::complete(&api, &admission, &project, &mut request).await?;
    let name = request.name.clone();
    let machines = Arc::clone(&api.machines.read());
    let spec = spec(request, &model, source, &machines, api.models.runs_in_pods())?;
    let operation = api.models.create_version(&project, &model, &name, spec).await?;
    let created = format!("projects/{project}/models/{model}/versions/{name}");
    Ok(Created(created, Json(model_messages::operation(&api, &operation))))
}

/// A selection of versions.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct ListQuery {
    /// Restrictions such as `state:READY`, joined by `AND`, `OR`, `NOT` and parentheses. Fields: name, description,
    /// labels.KEY, createTime, state.
    filter: String,
    /// Maximum number of versions; default 20, at most 100.
    #[schemars(range(min = 0))]
    page_size: i32,
    /// The `nextPageToken` of the previous page.
    page_token: String,
}

async fn list(
    State(api): State<Arc<Api>>,
    Names([project, model]): Names<2>,
    Query(query): Query<ListQuery>,
) -> Result<Json<VersionList>, ApiError> {
    let filter: VersionFilter = query::filter(&query.filter)?;
    let Page { limit, after } = Page::<String>::of(query.page_size, &query.page_token)?;
    let model = api.models.model(&project, &model).await?;
    let is_listed =
        |version: &&Version| after.as_ref().is_none_or(|after| version.name > *after) && filter.accepts(version);
    let mut versions: Vec<&Version> = model.versions.iter().filter(is_listed).collect();
    versions.sort_by(|a, b| a.name.cmp(&b.name));
    let next_page_token = paging::cut(&mut versions, limit, |version| &version.name);
    let versions = versions.into_iter().map(|version| model_messages::version(&api, &model, version)).collect();
    Ok(Json(VersionList { versions, next_page_token }))
}

async fn get(
    State(api): State<Arc<Api>>,
    Names([project, model, version]): Names<3>,
) -> Result<Json<VersionMessage>, ApiError> {
    let model = api.models.model(&project, &model).await?;
    Ok(Json(model_messages::version(&api, &model, found(&model, &version)?)))
}

fn found<'a>(model: &'a Model, version: &str) -> Result<&'a Version, ApiError> {
    model.version(version).ok_or_else(|| {
        ApiError::new(Code::NotFound, format!("version {}/versions/{version} does not exist", model.resource_name()))
    })
}

/// The fields to change.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("required" = ["updateMask"]))]
struct PatchQuery {
    /// `description`, `autoScaling.minNodes` or `manualScaling.nodes`, or several of them.
    update_mask: String,
}

async fn patch(
    State(api): State<Arc<Api>>,
    Names([project, model, version]): Names<3>,
    Query(query): Query<PatchQuery>,
    Body(request): Body<VersionRequest>,
) -> Result<Json<ModelOperation>, ApiError> {
    let mut change = VersionChange::default();
    for field in mask(&query.update_mask)? {
        match field {
            "description" => {
                check_description(&request.description)?;
                change.description = Some(request.description.clone());
            }
            "autoScaling.minNodes" | "auto_scaling.min_nodes" => {
                let given = request.auto_scaling.as_ref().map_or(0, |scaling| scaling.min_nodes);
                change.min_nodes = Some(nodes("autoScaling.minNodes", given)?);
            }
            "manualScaling.nodes" | "manual_scaling.nodes" => {
                let given = request.manual_scaling.as_ref().map_or(0, |scaling| scaling.nodes);
                change.nodes = Some(nodes("manualScaling.nodes", given)?);
            }
            "requestLoggingConfig" | "request_logging_config" => {
                let text = "requestLoggingConfig cannot be changed: requests are not logged to BigQuery, but in the server's log";
                return Err(ApiError::invalid("updateMask", text));
            }
            other => {
                let text = format!(
                    "{other:?} cannot be changed; description, autoScaling.minNodes and manualScaling.nodes can"
                );
                return Err(ApiError::invalid("updateMask", text));
            }
        }
    }
    let operation = api.models.change_version(&project, &model, &version, change).await?;
    Ok(Json(model_messages::operation(&api, &operation)))
}

async fn delete(
    State(api): State<Arc<Api>>,
    Names([project, model, version]): Names<3>,
) -> Result<Json<ModelOperation>, ApiError> {
    let operation = api.models.delete_version(&project, &model, &version).await?;
    Ok(Json(model_messages::operation(&api, &operation)))
}

async fn set_default(
    State(api): State<Arc<Api>>,
    Names([project, model, version]): Names<3>,
    Body(_): Body<Empty>,
) -> Result<Json<VersionMessage>, ApiError> {
    let (model, version) = api.models.set_default(&project, &model, &version).await?;
    Ok(Json(model_messages::version(&api, &model, &version)))
}

/// The end of what the workers of a version have printed.
#[derive(Serialize, JsonSchema)]
struct VersionLog {
    /// At most 64 KiB of text.
    text: String,
}

async fn log(
    State(api): State<Arc<Api>>,
    Names([project, model, version]): Names<3>,
) -> Result<Json<VersionLog>, ApiError> {
    let model = api.models.model(&project, &model).await?;
    let text = api.models.log(&project, found(&model, &version)?, LOG_BYTES).await?;
    Ok(Json(VersionLog { text }))
}
