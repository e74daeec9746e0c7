//! `PUT` and `GET /v1/projects/{project}/packages/{sha256}/{file name}`. A Tunesmith extension: AI Platform's packages
//! are in buckets. The returned `uri` is for `packageUris` of jobs in the project.

use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::Method;
use axum::http::header::CONTENT_LENGTH;
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::openapi::Operation;
use crate::request::names::Names;
use crate::response::error::{ApiError, Code};
use crate::routes::state::Api;
use crate::routes::table::Routes;
use tunesmith_admission::use_cases;
use tunesmith_api::ai_platform::packages::UploadedPackage;
use tunesmith_api::ai_platform::{Int64, TrainingInput};
use tunesmith_jobs::packages::{PackageName, Packages, PackagesError, Upload};

/// Maximum number of body chunks queued for writing.
const WAITING_PIECES: usize = 4;

const PACKAGE: &str = "/v1/projects/{project}/packages/{sha256}/{file_name}";

pub(crate) fn routes(routes: Routes<Arc<Api>>) -> Routes<Arc<Api>> {
    routes
        .add(Operation::get(PACKAGE, use_cases::GET_PACKAGE).or_not_found(), read)
        .add(Operation::new(Method::PUT, PACKAGE, use_cases::UPLOAD_PACKAGE), take)
}

async fn read(
    State(api): State<Arc<Api>>,
    Names([project, sha256, file_name]): Names<3>,
) -> Result<Json<Value>, ApiError> {
    let name = PackageName::new(&project, &sha256, &file_name)?;
    let path = api.packages.fetch(&name).await?;
    let size = tokio::fs::metadata(&path).await.map_err(|source| {
        ApiError::from(PackagesError::Io { action: "read the length of", path: path.clone(), source })
    })?;
    Ok(Json(message(&name, size.len())))
}

async fn take(
    State(api): State<Arc<Api>>,
    Names([project, sha256, file_name]): Names<3>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let name = PackageName::new(&project, &sha256, &file_name)?;
    let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let (max_bytes, packages) = (api.packages.max_bytes(), api.packages.clone());
    if announced.is_some_and(|length| length > max_bytes) {
        return Err(PackagesError::TooLarge(max_bytes).into());
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
            api.packages.publish(&name).await?;
            Ok(Json(message(&name, size)))
        }
        (None, None) => Err(ApiError::new(Code::InvalidArgument, "the body ended early")),
    }
}

enum Piece {
    Bytes(Bytes),
    End,
}

/// Writes the received chunks, and publishes the package if the body is complete.
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
    let size_bytes = Int64(size_bytes.cast_signed());
    json!(UploadedPackage { name: name.resource_name(), uri: name.uri(), size_bytes })
}

/// Replaces the URIs of uploaded packages of `project` in `input` with their local paths.
pub(crate) async fn resolved(
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
        *uri = packages.resolve(project, uri).await.map_err(invalid)?;
    }
    Ok(resolved)
}

impl From<PackagesError> for ApiError {
    fn from(error: PackagesError) -> Self {
        match error {
            PackagesError::Name { .. } | PackagesError::OtherProject(_) => Self::invalid("name", error.to_string()),
            PackagesError::NotFound(_) => Self::new(Code::NotFound, error.to_string()),
            PackagesError::TooLarge(_) | PackagesError::OtherContent { .. } | PackagesError::NotAPackage(_) => {
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
