//! `projects.predict` and `projects.explain`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::openapi::examples;
use crate::openapi::{Operation, Output};
use crate::request::body::{RawBody, too_large};
use crate::request::names::Names;
use crate::response::error::{ApiError, Code};
use crate::routes::state::Api;
use crate::routes::table::Routes;
use tunesmith_admission::use_cases;
use tunesmith_api::ai_platform::rpc::Empty;
use tunesmith_prediction::{Content, MAX_REQUEST_BYTES, Reply};

/// Content type of predictions. With the parameter, they are not indented: they are passed on as they are.
const RAW_JSON: &str = "application/json; charset=UTF-8";

pub(crate) fn routes(routes: Routes<Arc<Api>>) -> Routes<Arc<Api>> {
    let post = |path, use_case| Operation::post(path, use_case).or_not_found().example(examples::INSTANCES);
    routes
        .add(post("/v1/projects/{project}/models/{model}:predict", use_cases::PREDICT), predict)
        .add(
            post("/v1/projects/{project}/models/{model}/versions/{version}:predict", use_cases::PREDICT_VERSION),
            predict_version,
        )
        .add(post("/v1/projects/{project}/models/{model}:explain", use_cases::EXPLAIN), explain)
        .add(
            post("/v1/projects/{project}/models/{model}/versions/{version}:explain", use_cases::EXPLAIN_VERSION),
            explain_version,
        )
}

/// Predictions, or the error of the model.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PredictResponse")]
struct PredictionMessage {
    /// Predictions, one for each instance.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = std::collections::BTreeMap::from([("description", "Any value.")])))]
    predictions: Vec<Value>,
    /// Reason why there are none.
    #[serde(skip_serializing_if = "String::is_empty")]
    error: String,
}

/// Response of a worker.
struct Prediction(Reply);

impl IntoResponse for Prediction {
    fn into_response(self) -> Response {
        let Reply { body, status, content_type, .. } = self.0;
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
        let kind = content_type.and_then(|kind| HeaderValue::try_from(kind).ok());
        let kind = kind.unwrap_or(HeaderValue::from_static(RAW_JSON));
        // A page of a container has no rights on this server.
        let policy = HeaderValue::from_static("sandbox; default-src 'none'");
        (status, [(CONTENT_TYPE, kind), (CONTENT_SECURITY_POLICY, policy)], body).into_response()
    }
}

impl Output for Prediction {
    fn describe(operation: &mut Operation) {
        Json::<PredictionMessage>::describe(operation);
    }
}

async fn predict(
    State(api): State<Arc<Api>>,
    Names([project, model]): Names<2>,
    body: RawBody,
) -> Result<Prediction, ApiError> {
    predicted(&api, &project, &model, None, body).await
}

async fn predict_version(
    State(api): State<Arc<Api>>,
    Names([project, model, version]): Names<3>,
    body: RawBody,
) -> Result<Prediction, ApiError> {
    predicted(&api, &project, &model, Some(&version), body).await
}

async fn predicted(
    api: &Api,
    project: &str,
    model: &str,
    version: Option<&str>,
    body: RawBody,
) -> Result<Prediction, ApiError> {
    let RawBody { content, content_type } = body;
    if content.len() > MAX_REQUEST_BYTES {
        return Err(too_large());
    }
    let content = Content { body: content, content_type };
    Ok(Prediction(api.models.predict(project, model, version, content).await?))
}

async fn explain(Names([_, _]): Names<2>, _: RawBody) -> Result<Json<Empty>, ApiError> {
    Err(no_explanations())
}

async fn explain_version(Names([_, _, _]): Names<3>, _: RawBody) -> Result<Json<Empty>, ApiError> {
    Err(no_explanations())
}

fn no_explanations() -> ApiError {
    let text = "explanations are not supported: return them from a custom prediction routine";
    ApiError::new(Code::FailedPrecondition, text)
}
