//! Outcome of each field that AI Platform published, as listed in `tests/data/published_fields.json`.

use std::fs;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::root;

/// The fields, query parameters and methods of the reference.
#[derive(Deserialize)]
pub struct Published {
    pub fields: Vec<Field>,
    pub parameters: Vec<Parameter>,
    /// IDs of the methods that the server does not have.
    pub methods: Vec<String>,
}

/// Outcome of a published field or parameter on this server.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Works,
    #[serde(rename = "no effect")]
    NoEffect,
    Refused,
}

/// A field of a request. A message without an effect or that is refused is listed as one field.
#[derive(Deserialize)]
pub struct Field {
    /// ID of the method.
    pub request: String,
    /// Path of the field; `[]` follows the name of a list.
    pub field: String,
    pub outcome: Outcome,
    /// A value of the field.
    pub value: Value,
    /// Path at which the value is sent, if it is not that of the field.
    pub send: Option<String>,
    /// Values of other fields that the field needs; `null`: without the field.
    #[serde(default)]
    pub with: Map<String, Value>,
    #[serde(default)]
    pub note: String,
}

/// A query parameter.
#[derive(Deserialize)]
pub struct Parameter {
    /// ID of the method; `*`: all methods.
    pub request: String,
    pub parameter: String,
    pub outcome: Outcome,
    pub value: String,
    #[serde(default)]
    pub note: String,
}

/// The content of the list.
pub fn published() -> Published {
    let path = root().join("tests/data/published_fields.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}
