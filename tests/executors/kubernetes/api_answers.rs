//! Answers of the API server of these tests, without its state.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

pub(super) fn failure(code: u16, reason: &str, message: &str) -> Response {
    (StatusCode::from_u16(code).unwrap(), Json(status(code, reason, message))).into_response()
}

pub(super) fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": reason, "message": message, "code": code,
    })
}

/// Whether `object` has the labels and fields of the selectors, which are lists of `NAME=VALUE`.
pub(super) fn is_selected(object: &Value, labels: Option<&String>, fields: Option<&String>) -> bool {
    let pairs = |selector: Option<&String>| -> Vec<(String, String)> {
        let pairs = selector.into_iter().flat_map(|selector| selector.split(','));
        pairs.map(|pair| pair.split_once('=').unwrap()).map(|(name, value)| (name.into(), value.into())).collect()
    };
    pairs(labels).iter().all(|(name, value)| object["metadata"]["labels"][name] == **value)
        && pairs(fields)
            .iter()
            .all(|(name, value)| object.pointer(&format!("/{}", name.replace('.', "/"))) == Some(&json!(value)))
}

/// Applies a merge patch.
pub(super) fn merge(object: &mut Value, patch: Value) {
    let Value::Object(fields) = patch else {
        *object = patch;
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            object.as_object_mut().unwrap().remove(&name);
        } else {
            merge(&mut object[&name], value);
        }
    }
}
