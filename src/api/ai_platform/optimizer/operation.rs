//! `google.longrunning.Operation`.

use serde::Serialize;
use serde_json::{Value, json};

/// An operation as a client sees it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Operation {
    name: String,
    metadata: Value,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    done: bool,
    #[serde(flatten)]
    result: Option<OperationResult>,
}

/// What came of an operation.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum OperationResult {
    /// `google.rpc.Status`.
    Error(Value),
    /// Its answer.
    Response(Value),
}

/// Whether an operation has come to its end.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// Not yet.
    Running,
    /// It has.
    Done(OperationResult),
}

impl Operation {
    /// The operation `name`, with `metadata` of the type `google.cloud.ml.v1.{type_name}`.
    pub fn new(name: String, type_name: &str, metadata: Value, progress: Progress) -> Self {
        let (done, result) = match progress {
            Progress::Running => (false, None),
            Progress::Done(result) => (true, Some(result)),
        };
        Self { name, metadata: typed(type_name, metadata), done, result }
    }
}

/// `message` as a `google.protobuf.Any` of the type `google.cloud.ml.v1.{type_name}`.
pub fn typed(type_name: &str, mut message: Value) -> Value {
    message["@type"] = json!(format!("type.googleapis.com/google.cloud.ml.v1.{type_name}"));
    message
}
