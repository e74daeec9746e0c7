//! `projects` and `projects.locations`: methods independent of jobs and studies.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;

use super::model_messages;
use crate::openapi::Operation;
use crate::request::body::Body;
use crate::request::names::{self, Names};
use crate::request::paging::{self, Page};
use crate::request::query::Query;
use crate::response::error::ApiError;
use crate::routes::state::Api;
use crate::routes::table::Routes;
use tunesmith_admission::use_cases;
use tunesmith_api::ai_platform::prediction::{ModelOperation, ModelOperationList};
use tunesmith_api::ai_platform::project::{Capability, CapabilityType, GetConfigResponse, Location, LocationList};
use tunesmith_api::ai_platform::rpc::Empty;

/// The only listed location. Others are accepted, since clients hard-code AI Platform's locations.
const LOCATION: &str = "local";

const OPERATIONS: &str = "/v1/projects/{project}/operations";
const OPERATION: &str = "/v1/projects/{project}/operations/{operation}";
const CANCEL_OPERATION: &str = "/v1/projects/{project}/operations/{operation}:cancel";
const LOCATIONS: &str = "/v1/projects/{project}/locations";

pub(crate) fn routes(routes: Routes<Arc<Api>>) -> Routes<Arc<Api>> {
    routes
        .add(Operation::get("/v1/projects/{project}:getConfig", use_cases::GET_CONFIG), get_config)
        .add(Operation::get(LOCATIONS, use_cases::LIST_LOCATIONS), list_locations)
        .add(Operation::get("/v1/projects/{project}/locations/{location}", use_cases::GET_LOCATION), get_location)
        .add(Operation::get(OPERATIONS, use_cases::LIST_PROJECT_OPERATIONS), list_operations)
        .add(Operation::get(OPERATION, use_cases::GET_PROJECT_OPERATION).or_not_found(), get_operation)
        .add(Operation::post(CANCEL_OPERATION, use_cases::CANCEL_PROJECT_OPERATION).or_not_found(), cancel_operation)
}

/// A selection of a page.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct PageQuery {
    /// Maximum number of entries; 0: the server decides.
    #[schemars(range(min = 0))]
    page_size: i32,
    /// The `nextPageToken` of the previous page.
    page_token: String,
}

/// A selection of operations.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct OperationsQuery {
    /// Refused: operations are listed by name.
    filter: String,
    /// Maximum number of operations; default 20, at most 100.
    #[schemars(range(min = 0))]
    page_size: i32,
    /// The `nextPageToken` of the previous page.
    page_token: String,
    /// Whether partial results are acceptable; no effect.
    #[serde(rename = "returnPartialSuccess")]
    _return_partial_success: bool,
}

/// Checks the parameters of a single-page list.
fn first_page(page_size: i32, page_token: &str) -> Result<(), ApiError> {
    if page_size < 0 {
        return Err(ApiError::invalid("pageSize", format!("{page_size} is negative")));
    }
    if !page_token.is_empty() {
        return Err(ApiError::invalid("pageToken", "not issued by this server"));
    }
    Ok(())
}

async fn get_config(Names([project]): Names<1>) -> Result<Json<GetConfigResponse>, ApiError> {
    names::project(&project)?;
    Ok(Json(GetConfigResponse::default()))
}

async fn list_locations(
    Names([project]): Names<1>,
    Query(query): Query<PageQuery>,
) -> Result<Json<LocationList>, ApiError> {
    names::project(&project)?;
    first_page(query.page_size, &query.page_token)?;
    Ok(Json(LocationList { locations: vec![location(&project, LOCATION)], next_page_token: String::new() }))
}

async fn get_location(Names([project, name]): Names<2>) -> Result<Json<Location>, ApiError> {
    names::location(&project, &name)?;
    Ok(Json(location(&project, &name)))
}

fn location(project: &str, name: &str) -> Location {
    let capability = |capability_type| Capability { capability_type, available_accelerators: Vec::new() };
    let capabilities = [CapabilityType::Training, CapabilityType::OnlinePrediction].map(capability).to_vec();
    Location { name: format!("projects/{project}/locations/{name}"), capabilities }
}

async fn list_operations(
    State(api): State<Arc<Api>>,
    Names([project]): Names<1>,
    Query(query): Query<OperationsQuery>,
) -> Result<Json<ModelOperationList>, ApiError> {
    names::project(&project)?;
    if !query.filter.is_empty() {
        return Err(ApiError::invalid("filter", "is not supported for operations, which are listed by name"));
    }
    let Page { limit, after } = Page::<String>::of(query.page_size, &query.page_token)?;
    let after = after.unwrap_or_default();
    let mut page = api.models.operations_after(&project, &after, limit + 1).await?;
    let next_page_token = paging::cut(&mut page, limit, |operation| &operation.id);
    let operations = page.iter().map(|operation| model_messages::operation(&api, operation)).collect();
    Ok(Json(ModelOperationList { operations, next_page_token }))
}

async fn get_operation(
    State(api): State<Arc<Api>>,
    Names([project, id]): Names<2>,
) -> Result<Json<ModelOperation>, ApiError> {
    names::project(&project)?;
    let operation = api.models.operation(&project, &id).await?;
    Ok(Json(model_messages::operation(&api, &operation)))
}

async fn cancel_operation(
    State(api): State<Arc<Api>>,
    Names([project, id]): Names<2>,
    Body(_): Body<Empty>,
) -> Result<Json<Empty>, ApiError> {
    names::project(&project)?;
    api.models.cancel_operation(&project, &id).await?;
    Ok(Json(Empty {}))
}
