//! `GET jobs/{job}/artifacts` and `GET jobs/{job}/artifacts:download`: files left by programs in the job folder. A
//! Tunesmith extension: AI Platform's job folders are in an object store.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::openapi::{Bytes, Operation, Output};
use crate::request::names::{Names, job_id};
use crate::request::query::Query;
use crate::response::error::{ApiError, Code};
use crate::routes::state::Api;
use crate::routes::table::Routes;
use tunesmith_admission::use_cases;
use tunesmith_domain::TrialId;
use tunesmith_jobs::artifacts::{Artifact, ArtifactError};

pub(crate) fn routes(routes: Routes<Arc<Api>>) -> Routes<Arc<Api>> {
    let get = |path, use_case| Operation::get(path, use_case).or_not_found();
    routes.add(get("/v1/projects/{project}/jobs/{job}/artifacts", use_cases::LIST_ARTIFACTS).or_conflict(), list).add(
        get("/v1/projects/{project}/jobs/{job}/artifacts:download", use_cases::DOWNLOAD_ARTIFACT).or_conflict(),
        download,
    )
}

/// The program whose files are listed.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct ListQuery {
    /// The trial; only jobs without hyperparameters have files without one.
    trial: Option<u64>,
}

/// The files of a program.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ListArtifactsResponse")]
struct ArtifactList {
    /// The folder.
    folder: String,
    /// The files, at most 1000.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    artifacts: Vec<ArtifactMessage>,
    /// Whether there are further files, which are not listed.
    has_more: bool,
}

/// A file of a program.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Artifact")]
struct ArtifactMessage {
    /// The path below the folder.
    file: String,
    /// The size in bytes.
    size_bytes: String,
    /// When its content was last changed.
    modify_time: Timestamp,
}

impl From<Artifact> for ArtifactMessage {
    fn from(artifact: Artifact) -> Self {
        let Artifact { name, size_bytes, modified } = artifact;
        Self { file: name, size_bytes: size_bytes.to_string(), modify_time: modified }
    }
}

async fn list(
    State(api): State<Arc<Api>>,
    Names([project, job]): Names<2>,
    Query(query): Query<ListQuery>,
) -> Result<Json<ArtifactList>, ApiError> {
    let found = api.jobs.artifacts(&job_id(&project, &job)?, query.trial.map(TrialId)).await?;
    Ok(Json(ArtifactList {
        folder: found.folder.display().to_string(),
        artifacts: found.files.into_iter().map(Into::into).collect(),
        has_more: !found.is_complete,
    }))
}

/// The file that is read.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("required" = ["file"]))]
struct DownloadQuery {
    /// The trial; only jobs without hyperparameters have files without one.
    trial: Option<u64>,
    /// The path below the folder, as in the list.
    file: String,
}

/// Attachment that browsers save instead of rendering it: its content is up to a program.
struct Download {
    content: Bytes,
    name: String,
}

async fn download(
    State(api): State<Arc<Api>>,
    Names([project, job]): Names<2>,
    Query(query): Query<DownloadQuery>,
) -> Result<Download, ApiError> {
    if query.file.is_empty() {
        return Err(ApiError::invalid("file", "is required"));
    }
    let id = job_id(&project, &job)?;
    let (file, length) = api.jobs.artifact(&id, query.trial.map(TrialId), &query.file).await?;
    let name = query.file.rsplit('/').next().unwrap_or_default().to_owned();
    Ok(Download { content: Bytes { file, length }, name })
}

impl IntoResponse for Download {
    fn into_response(self) -> Response {
        let mut response = self.content.into_response();
        let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || "._-".contains(*letter);
        let plain: String = self.name.chars().map(|letter| if is_plain(&letter) { letter } else { '_' }).collect();
        let encoded = utf8_percent_encode(&self.name, NON_ALPHANUMERIC);
        let disposition = format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}");
        let headers = response.headers_mut();
        if let Ok(disposition) = HeaderValue::from_str(&disposition) {
            headers.insert(CONTENT_DISPOSITION, disposition);
        }
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        response
    }
}

impl Output for Download {
    fn describe(operation: &mut Operation) {
        Bytes::describe(operation);
    }
}

impl From<ArtifactError> for ApiError {
    fn from(error: ArtifactError) -> Self {
        match error {
            ArtifactError::Store(error) => error.into(),
            ArtifactError::NoFolder(_) | ArtifactError::NotFound { .. } => Self::new(Code::NotFound, error.to_string()),
            ArtifactError::NotAllowed { .. } | ArtifactError::Elsewhere { .. } | ArtifactError::TooLarge { .. } => {
                Self::new(Code::FailedPrecondition, error.to_string())
            }
            ArtifactError::Unreadable { .. } => {
                tracing::error!(error = &error as &dyn std::error::Error, "artifacts cannot be read");
                Self::new(Code::Internal, format!("{error}; see the server's log"))
            }
        }
    }
}
