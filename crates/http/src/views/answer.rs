//! Responses with views.

use std::marker::PhantomData;

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

use crate::names::study_id;
use crate::openapi::{Answer, Operation};
use crate::rendered::{permit_to_render, render};
use crate::state::StudiesState;
use crate::status::{ApiError, Code};
use tunesmith_domain::Study;
use tunesmith_filter::{Filter, FilterError};
use tunesmith_views::{Columns, Rows, ViewError};

/// A view, with the number of trials that it stands for.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct View<T> {
    /// Revision of the study; changes with every change of its trials.
    pub(super) revision: String,
    /// The number of trials of the study.
    pub(super) total: usize,
    /// The number of trials that the filter accepts.
    pub(super) matched: usize,
    /// The view.
    pub(super) view: T,
}

/// The response to a request for a view.
pub(super) enum Viewed<T> {
    /// The client has this version.
    Unchanged { etag: String },
    /// The JSON.
    New { etag: String, json: Bytes, of: PhantomData<fn() -> T> },
}

impl<T> IntoResponse for Viewed<T> {
    fn into_response(self) -> Response {
        let headers = |etag| [(ETAG, etag), (CACHE_CONTROL, "private, no-cache".to_owned())];
        match self {
            Self::Unchanged { etag } => (StatusCode::NOT_MODIFIED, headers(etag)).into_response(),
            Self::New { etag, json, .. } => (headers(etag), [(CONTENT_TYPE, "application/json")], json).into_response(),
        }
    }
}

impl<T: JsonSchema> Answer for Viewed<T> {
    fn describe(operation: &mut Operation) {
        axum::Json::<View<T>>::describe(operation);
    }
}

/// Number of values of parameters from which a view is computed on a blocking thread (a guess: 1 ms).
const MANY: usize = 20_000;

/// A study whose trials are viewed, at one revision.
pub(super) struct Request {
    pub(super) study: Study,
    pub(super) etag: String,
}

impl Request {
    /// The study with these names; its version if the client has it, unless `filter` may accept other trials by now.
    pub(super) async fn of(
        api: &StudiesState,
        [project, location, study]: &[String; 3],
        headers: &HeaderMap,
        filter: &Filter,
    ) -> Result<Result<Self, String>, ApiError> {
        let study = api.studies.study(&study_id(project, location, study)?).await?;
        let (created, revision) = (study.create_time.as_microsecond(), study.revision);
        let etag = format!("W/\"{}-{created:x}-{revision:x}\"", env!("CARGO_PKG_VERSION"));
        let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        let is_known =
            !filter.is_relative() && known.flat_map(|value| value.split(',')).any(|known| known.trim() == etag);
        Ok(if is_known { Err(etag) } else { Ok(Self { study, etag }) })
    }
}

/// The view of the trials that `filter` accepts, which `compute` derives.
pub(super) async fn view<T: Serialize + Send + 'static>(
    api: &StudiesState,
    names: &[String; 3],
    headers: &HeaderMap,
    filter: &str,
    compute: impl FnOnce(&Columns, &Rows) -> Result<T, ViewError> + Send + 'static,
) -> Result<Viewed<T>, ApiError> {
    let filter = parsed(filter)?;
    let Request { study, etag } = match Request::of(api, names, headers, &filter).await? {
        Ok(request) => request,
        Err(etag) => return Ok(Viewed::Unchanged { etag }),
    };
    let columns = api.studies.columns(&study).await?;
    let parameters = study.problem.search_space().parameters().len();
    let is_small = columns.len().saturating_mul(parameters.max(1)) <= MANY;
    let work = move || {
        let rows = columns.select(&filter).map_err(refused)?;
        let view = compute(&columns, &rows).map_err(|error| ApiError::invalid(error.field, error.message))?;
        enveloped(&columns, &rows, view)
    };
    let json = if is_small {
        work()?
    } else {
        let _permit = permit_to_render().await;
        off_the_runtime(work).await?
    };
    Ok(Viewed::New { etag, json, of: PhantomData })
}

pub(super) fn parsed(filter: &str) -> Result<Filter, ApiError> {
    filter.parse().map_err(refused)
}

pub(super) fn refused(error: FilterError) -> ApiError {
    ApiError::invalid("filter", error.to_string())
}

/// The JSON of `view`.
pub(super) fn enveloped<T: Serialize>(columns: &Columns, rows: &Rows, view: T) -> Result<Bytes, ApiError> {
    let (total, matched) = (columns.live().count(), rows.count());
    render(&View { revision: columns.revision().to_string(), total, matched, view })
}

/// The result of `work` on a blocking thread.
pub(super) async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "a view was not computed");
        Err(ApiError::new(Code::Internal, "the view cannot be computed; see the server's log"))
    })
}
