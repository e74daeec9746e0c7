//! `PUT` and `GET /v1/projects/{project}/packages/{sha256}/{file name}`. AI Platform has no such methods: its packages
//! are in buckets. The `uri` of the response is for `packageUris` of the project's jobs.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use axum::{Json, Router};
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::names::Names;
use super::openapi::Operation;
use super::routes::{Dispatch, Routes};
use super::status::{ApiError, Code};
use tunesmith_access::Permission;
use tunesmith_api::ai_platform::TrainingInput;
use tunesmith_service::packages::{PackageName, Packages, PackagesError, Upload};

/// Maximum number of parts of a body that wait to be written.
const WAITING_PIECES: usize = 4;

/// Factor for the time limit of an upload.
const UPLOAD_TIME_FACTOR: u32 = 10;

const PACKAGE: &str = "/v1/projects/{project}/packages/{sha256}/{file_name}";

/// The routes.
pub(super) fn routes() -> Routes<Packages> {
    Routes::new()
        .add(
            Operation::get(PACKAGE, "tunesmith.projects.packages.get", "Gets a package.")
                .permission(Permission::JobsCreate)
                .or_not_found(),
            read,
        )
        .add(
            Operation::put(PACKAGE, "tunesmith.projects.packages.put", "Uploads a package; the body is its content.")
                .permission(Permission::JobsCreate)
                .time_limit_factor(UPLOAD_TIME_FACTOR),
            take,
        )
}

/// The router of `packages`, which also define the size limit of bodies.
pub(super) fn router(packages: Packages, dispatch: &Arc<Dispatch>) -> Router {
    routes().with_state(packages, dispatch)
}

async fn read(
    State(packages): State<Packages>,
    Names([project, sha256, file_name]): Names<3>,
) -> Result<Json<Value>, ApiError> {
    let name = PackageName::new(&project, &sha256, &file_name)?;
    let path = packages.fetch(&name).await?;
    let size = tokio::fs::metadata(&path).await.map_err(|source| {
        ApiError::from(PackagesError::Io { action: "read the length of", path: path.clone(), source })
    })?;
    Ok(Json(message(&name, size.len())))
}

async fn take(
    State(packages): State<Packages>,
    Names([project, sha256, file_name]): Names<3>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let name = PackageName::new(&project, &sha256, &file_name)?;
    let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let (max_bytes, shared) = (packages.max_bytes(), packages.clone());
    if announced.is_some_and(|length| length > max_bytes) {
        return Err(PackagesError::TooLarge { max_bytes }.into());
    }
    let (pieces, to_write) = mpsc::channel(WAITING_PIECES);
    let writing = tokio::task::spawn_blocking({
        let name = name.clone();
        move || write(packages.begin(name)?, to_write)
    });
    let mut body = body.into_data_stream();
    let mut broken = None;
    while let Some(bytes) = body.next().await {
        let piece = match bytes {
            Ok(bytes) => Piece::Bytes(bytes),
            Err(error) => {
                broken = Some(ApiError::new(Code::InvalidArgument, format!("the body ended early: {error}")));
                break;
            }
        };
        // The writer has failed; its error is returned below.
        if pieces.send(piece).await.is_err() {
            break;
        }
    }
    if broken.is_none() {
        drop(pieces.send(Piece::End).await);
    }
    drop(pieces);
    let written = writing.await.map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "a package was not written");
        ApiError::new(Code::Internal, "the package was not written; see the server's log")
    })??;
    match (broken, written) {
        (Some(error), _) => Err(error),
        (None, Some(size)) => {
            shared.publish(&name).await?;
            Ok(Json(message(&name, size)))
        }
        (None, None) => Err(ApiError::new(Code::InvalidArgument, "the body ended early")),
    }
}

enum Piece {
    Bytes(Bytes),
    /// End of the body.
    End,
}

/// Writes the received parts, and keeps the package if the body is complete.
fn write(mut upload: Upload, mut pieces: mpsc::Receiver<Piece>) -> Result<Option<u64>, PackagesError> {
    while let Some(piece) = pieces.blocking_recv() {
        match piece {
            Piece::Bytes(bytes) => upload.write(&bytes)?,
            Piece::End => return upload.finish().map(Some),
        }
    }
    Ok(None)
}

fn message(name: &PackageName, size_bytes: u64) -> Value {
    json!({"name": name.resource_name(), "uri": name.uri(), "sizeBytes": size_bytes.to_string()})
}

/// `input` with the local paths of uploaded packages of `project` instead of their URIs.
pub(super) async fn resolved(
    packages: &Packages,
    project: &str,
    input: &TrainingInput,
) -> Result<TrainingInput, ApiError> {
    let mut resolved = input.clone();
    for (index, uri) in resolved.package_uris.iter_mut().enumerate() {
        let invalid = |error: PackagesError| match error {
            error @ PackagesError::Store(_) => ApiError::from(error),
            error => ApiError::invalid(&format!("trainingInput.packageUris[{index}]"), error.to_string()),
        };
        packages.fetch_uri(uri).await.map_err(invalid)?;
        *uri = packages.resolve(project, uri).map_err(invalid)?;
    }
    Ok(resolved)
}

impl From<PackagesError> for ApiError {
    fn from(error: PackagesError) -> Self {
        match error {
            PackagesError::Name { .. } | PackagesError::OtherProject { .. } => Self::invalid("name", error.to_string()),
            PackagesError::NotFound { .. } => Self::new(Code::NotFound, error.to_string()),
            PackagesError::TooLarge { .. } | PackagesError::OtherContent { .. } | PackagesError::NotAPackage(_) => {
                Self::invalid("body", error.to_string())
            }
            PackagesError::Store(error) => error.into(),
            PackagesError::Io { .. } => {
                tracing::error!(error = &error as &dyn std::error::Error, "a package cannot be stored or found");
                Self::new(Code::Internal, "the package cannot be stored or found; see the server's log")
            }
        }
    }
}
