//! `projects.models`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Method;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Deserialize;

use super::jobs::check_labels;
use super::model_messages;
use crate::openapi::examples;
use crate::openapi::{Created, Operation};
use crate::request::body::Body;
use crate::request::names::{self, Names};
use crate::request::paging::{self, Page};
use crate::request::query::{self, Query};
use crate::response::error::ApiError;
use crate::routes::state::Api;
use crate::routes::table::Routes;
use tunesmith_admission::{Admission, use_cases};
use tunesmith_api::ai_platform::Notice;
use tunesmith_api::ai_platform::prediction::{ModelList, ModelMessage, ModelOperation, ModelRequest};
use tunesmith_prediction::{ModelChange, ModelFilter, NewModel};

const MODELS: &str = "/v1/projects/{project}/models";
const MODEL: &str = "/v1/projects/{project}/models/{model}";

/// Maximum length of a description in bytes. A guess.
pub(super) const MAX_DESCRIPTION: usize = 10_000;

pub(crate) fn routes(routes: Routes<Arc<Api>>) -> Routes<Arc<Api>> {
    routes
        .add(Operation::post(MODELS, use_cases::CREATE_MODEL).example(examples::MODEL).or_conflict(), create)
        .add(Operation::get(MODELS, use_cases::LIST_MODELS), list)
        .add(Operation::get(MODEL, use_cases::GET_MODEL).or_not_found(), get)
        .add(
            Operation::new(Method::PATCH, MODEL, use_cases::PATCH_MODEL)
                .example(r#"{"description": "Species of iris flowers"}"#)
                .or_not_found()
                .or_conflict(),
            patch,
        )
        .add(Operation::new(Method::DELETE, MODEL, use_cases::DELETE_MODEL).or_not_found().or_conflict(), delete)
}

async fn create(
    State(api): State<Arc<Api>>,
    Extension(admission): Extension<Admission>,
    Names([project]): Names<1>,
    Body(request): Body<ModelRequest>,
) -> Result<Created<ModelMessage>, ApiError> {
    names::project(&project)?;
    check_labels(&request.labels)?;
    check_description(&request.description)?;
    if request.regions.len() > 1 {
        return Err(ApiError::invalid("regions", format!("has {} regions; allowed: one", request.regions.len())));
    }
    let mut notices = Vec::new();
    let mut without_effect = |field: &str, is_given: bool, description: &str| {
        if is_given {
            notices.push(Notice { field: field.to_owned(), description: description.to_owned() });
        }
    };
    without_effect("regions", !request.regions.is_empty(), "has no effect on this server");
    without_effect("etag", !request.etag.is_empty(), "has no effect: the service sets it");
    without_effect(
        "defaultVersion",
        request.default_version.is_some(),
        "has no effect: the first version is the default",
    );
    let logged = "has no effect: the server's log has all requests";
    without_effect("onlinePredictionLogging", request.online_prediction_logging, logged);
    let printed = "has no effect: every version has a log of what its workers print";
    without_effect("onlinePredictionConsoleLogging", request.online_prediction_console_logging, printed);
    let model = NewModel {
        name: request.name,
        description: request.description,
        regions: request.regions,
        labels: request.labels,
        online_prediction_logging: request.online_prediction_logging,
        online_prediction_console_logging: request.online_prediction_console_logging,
        policy: admission.policy_of_model_creator(),
    };
    let model = api.models.create_model(&project, model).await?;
    let mut message = model_messages::model(&api, &model);
    message.tunesmith.notices.notices = notices;
    Ok(Created(model.resource_name(), Json(message)))
}

pub(super) fn check_description(description: &str) -> Result<(), ApiError> {
    if description.len() > MAX_DESCRIPTION {
        let text = format!("has {} bytes; allowed: up to {MAX_DESCRIPTION}", description.len());
        return Err(ApiError::invalid("description", text));
    }
    Ok(())
}

/// A selection of models.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct ListQuery {
    /// Restrictions such as `name:iris*`, joined by `AND`, `OR`, `NOT` and parentheses. Fields: name, description,
    /// labels.KEY, createTime.
    filter: String,
    /// Maximum number of models; default 20, at most 100.
    #[schemars(range(min = 0))]
    page_size: i32,
    /// The `nextPageToken` of the previous page.
    page_token: String,
}

async fn list(
    State(api): State<Arc<Api>>,
    Names([project]): Names<1>,
    Query(query): Query<ListQuery>,
) -> Result<Json<ModelList>, ApiError> {
    names::project(&project)?;
    let filter: ModelFilter = query::filter(&query.filter)?;
    let Page { limit, after } = Page::<String>::of(query.page_size, &query.page_token)?;
    let after = after.unwrap_or_default();
    // One more than the page tells whether another one follows.
    let mut models = api.models.models_after(&project, &after, limit + 1, |model| filter.accepts(model)).await?;
    let next_page_token = paging::cut(&mut models, limit, |model| &model.name);
    Ok(Json(ModelList {
        models: models.iter().map(|model| model_messages::model(&api, model)).collect(),
        next_page_token,
    }))
}

async fn get(State(api): State<Arc<Api>>, Names([project, name]): Names<2>) -> Result<Json<ModelMessage>, ApiError> {
    Ok(Json(model_messages::model(&api, &api.models.model(&project, &name).await?)))
}

/// The fields to change.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("required" = ["updateMask"]))]
struct PatchQuery {
    /// `description`, `default_version.name`, or both.
    update_mask: String,
}

async fn patch(
    State(api): State<Arc<Api>>,
    Names([project, name]): Names<2>,
    Query(query): Query<PatchQuery>,
    Body(request): Body<ModelRequest>,
) -> Result<Json<ModelOperation>, ApiError> {
    let mut change = ModelChange::default();
    for field in mask(&query.update_mask)? {
        match field {
            "description" => {
                check_description(&request.description)?;
                change.description = Some(request.description.clone());
            }
            "default_version.name" | "defaultVersion.name" => {
                let given = request.default_version.as_ref().map(|version| version.name.as_str()).unwrap_or_default();
                // Clients send the full name, as they got it.
                let version = given.rsplit('/').next().unwrap_or_default();
                if version.is_empty() {
                    return Err(ApiError::invalid("defaultVersion.name", "is required by updateMask"));
                }
                change.default_version = Some(version.to_owned());
            }
            other => {
                let text = format!("{other:?} cannot be changed; description and default_version.name can");
                return Err(ApiError::invalid("updateMask", text));
            }
        }
    }
    let operation = api.models.change_model(&project, &name, change).await?;
    Ok(Json(model_messages::operation(&api, &operation)))
}

/// Fields of an update mask, at least one.
pub(super) fn mask(text: &str) -> Result<Vec<&str>, ApiError> {
    let fields: Vec<&str> = text.split(',').map(str::trim).filter(|field| !field.is_empty()).collect();
    if fields.is_empty() {
        return Err(ApiError::invalid("updateMask", "is required: the fields to change"));
    }
    Ok(fields)
}

async fn delete(
    State(api): State<Arc<Api>>,
    Names([project, name]): Names<2>,
) -> Result<Json<ModelOperation>, ApiError> {
    let operation = api.models.delete_model(&project, &name).await?;
    Ok(Json(model_messages::operation(&api, &operation)))
}
