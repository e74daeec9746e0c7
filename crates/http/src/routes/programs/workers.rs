//! Messages and files of the workers of models in pods, which authenticate with the token of their group.

use axum::Extension;
use axum::body::{Body, to_bytes};
use axum::extract::State;

use crate::openapi::{Bytes, Frame, Operation};
use crate::request::body::too_large;
use crate::request::names::Names;
use crate::response::error::ApiError;
use crate::routes::table::{Dialect, Routes};
use tunesmith_admission::{Admission, use_cases};
use tunesmith_prediction::{Models, WorkerLink};

pub(crate) fn routes() -> Routes<Models> {
    Routes::new(Dialect::MlV1)
        .add(
            Operation::post(
                "/v1/projects/{project}/models/{model}/workers/{worker}:exchange",
                use_cases::EXCHANGE_WITH_WORKER,
            )
            .or_not_found(),
            exchange,
        )
        .add(
            Operation::get(
                "/v1/projects/{project}/models/{model}/workers/{worker}/files/{file}",
                use_cases::GET_WORKER_FILE,
            )
            .or_not_found(),
            file,
        )
}

/// With a wrong token, only the head of the request is read.
async fn exchange(
    State(models): State<Models>,
    Names([_, _, worker]): Names<3>,
    Extension(admission): Extension<Admission>,
    body: Body,
) -> Result<Frame, ApiError> {
    let link = models.worker(&worker, admission.token())?;
    let message = to_bytes(body, WorkerLink::MAX_MESSAGE).await.map_err(|_| too_large())?;
    Ok(Frame(link.exchange(message).await?))
}

async fn file(
    State(models): State<Models>,
    Names([_, _, worker, file]): Names<4>,
    Extension(admission): Extension<Admission>,
) -> Result<Bytes, ApiError> {
    let file = models.worker(&worker, admission.token())?.file(&file).await?;
    let length = file.metadata().map(|metadata| metadata.len()).unwrap_or_default();
    Ok(Bytes { file, length })
}
