//! Failures, as the Python exception `EngineError`.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use tunesmith_api::ai_platform::rpc::{FieldViolation, Status};
use tunesmith_data_dir::DataDirError;
use tunesmith_domain::{Code, Refusal};

create_exception!(_core, EngineError, PyException, "A call failed. Its argument is a `google.rpc.Status` as JSON.");

pub(crate) fn raised(refusal: Refusal) -> PyErr {
    let status = serde_json::to_string(&Status::from(refusal));
    EngineError::new_err(status.expect("a status has only text keys and serialises to memory"))
}

/// Refusal of a call because of `panic`, a caught panic.
pub(crate) fn of_panic(panic: &(dyn std::any::Any + Send)) -> Refusal {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let text = text.unwrap_or_else(|| "no reason is known".to_owned());
    Refusal::new(Code::Internal, format!("the engine has a bug, please report it: {text}"))
}

pub(crate) fn of_folder(error: &DataDirError) -> Refusal {
    let code = match error {
        DataDirError::InUse { .. } | DataDirError::SledInUse { .. } => Code::Unavailable,
        DataDirError::OtherKind { .. } | DataDirError::NoStore { .. } => Code::FailedPrecondition,
        _ => Code::Internal,
    };
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    Refusal::new(code, text)
}

pub(crate) fn of_violation(violation: FieldViolation) -> Refusal {
    Refusal::violations([violation.into()])
}
