//! OpenAPI 3.1 document, generated from the route table.
//!
//! `schemars` derives the schemas from the wire types, as for the configuration. Requests and responses differ (a
//! 64-bit integer may be a number in a request and is text in a response), so a type used in both has two schemas, with
//! the suffix `Input` for requests.

pub(crate) mod examples;
mod forms;
mod operation;
mod parameters;
mod schemas;

use serde_json::{Map, Value, json};

pub(crate) use self::operation::{Bytes, Created, CreatedResource, Documented, Frame, Input, Operation, Output, Text};
pub(crate) use self::parameters::query_names;
use self::schemas::Schemas;
use crate::request::names::parameter_names;
use tunesmith_admission::RequiredAccess;

const BEARER: &str = "bearer";

const DESCRIPTION: &str = "\
Jobs and studies in the form of AI Platform Training & Optimizer (`ml v1`). Additions are under the key `tunesmith`.

Messages follow proto3's JSON rules: fields at their default may be omitted, `null` is an absent field, 64-bit integers \
in responses are text, and fields in requests may have their protocol buffer names (`study_config`). Unknown fields, \
names and query parameters are rejected. Every method also accepts the query parameters `prettyPrint` (line breaks and indentation, the default) and `alt` \
(`json` only). `fields`, `key`, `quotaUser`, `access_token`, `oauth_token`, `uploadType`, `upload_protocol` and `$.xgafv` \
have no effect, and the response names them in its header `tunesmith-notice`. An empty body may be omitted.";

const ERRORS: [(u16, &str); 11] = [
    (400, "The request is invalid, or not allowed in the current state."),
    (401, "The request has no valid token."),
    (403, "The caller lacks the required permission."),
    (404, "The resource does not exist."),
    (409, "The resource exists already, or was changed concurrently."),
    (413, "The body is too large."),
    (415, "The content type of the body is not JSON."),
    (429, "The caller exceeds a limit."),
    (500, "The server failed."),
    (503, "The server is temporarily unavailable."),
    (504, "The time limit was exceeded; the request may still take effect."),
];

/// Generates the document of a server with the methods `operations`.
pub(super) fn document(operations: &[Operation]) -> Value {
    let mut schemas = Schemas::default();
    let error = schemas.response(crate::response::error::error_schema);
    let messages: Vec<_> = operations
        .iter()
        .map(|operation| {
            let body = operation.body.map(|body| schemas.sent(body));
            (operation, body, operation.response.map(|response| schemas.response(response)))
        })
        .collect();
    let schemas = schemas.finish();
    let mut paths: Map<String, Value> = Map::new();
    for (operation, body, response) in messages {
        let body = body.map(|schema| schemas.reference(schema));
        let response = response.map(|schema| schemas.reference(schema));
        let methods = paths.entry(operation.path).or_insert_with(|| json!({}));
        methods[operation.method.as_str().to_lowercase()] = described(operation, operations, body, response);
    }
    let error = schemas.reference(error);
    let responses = ERRORS.map(|(status, description)| {
        let response = json!({"description": description, "content": content("application/json", &error)});
        (format!("Error{status}"), response)
    });
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Tunesmith", "version": "v1", "description": DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": schemas.definitions,
            "responses": Map::from_iter(responses),
            "securitySchemes": {BEARER: {
                "type": "http",
                "scheme": "bearer",
                "description": "A token created by `tunesmith tokens create`, or the token of a trial.",
            }},
        },
    })
}

fn content(content_type: &str, schema: &Value) -> Value {
    json!({content_type: {"schema": schema}})
}

fn bytes() -> Value {
    content("application/octet-stream", &json!({"type": "string", "format": "binary"}))
}

fn described(operation: &Operation, all: &[Operation], body: Option<Value>, response: Option<Value>) -> Value {
    let mut success = json!({"description": "Success."});
    if let Some(schema) = response {
        success["content"] = content("application/json", &schema);
    }
    if let Some(content_type) = operation.text {
        success["content"] = content(content_type, &json!({"type": "string"}));
    }
    if operation.returns_bytes {
        success["content"] = bytes();
    }
    let links = links(operation, all);
    if !links.is_empty() {
        success["links"] = links.into();
    }
    let mut responses = Map::from_iter([("200".to_owned(), success)]);
    for status in &operation.statuses {
        responses.insert(status.to_string(), json!({"$ref": format!("#/components/responses/Error{status}")}));
    }
    let token = json!({BEARER: []});
    let mut described = json!({
        "operationId": operation.use_case.name(),
        "summary": operation.use_case.summary(),
        "parameters": parameters::of(operation),
        "responses": responses,
        "security": match operation.use_case.access() {
            // A server that listens on loopback only may run without tokens.
            RequiredAccess::Token | RequiredAccess::Of(_) => json!([{}, token]),
            RequiredAccess::TrialToken => json!([token]),
            RequiredAccess::Open => json!([]),
        },
    });
    if let Some(schema) = body {
        let mut content = content("application/json", &schema);
        if let Some(example) = operation.example.and_then(|example| serde_json::from_str::<Value>(example).ok()) {
            content["application/json"]["example"] = example;
        }
        described["requestBody"] = json!({"content": content});
    } else if operation.takes_bytes {
        described["requestBody"] = json!({"content": bytes()});
    }
    described
}

/// Links from `operation` to the methods of the resource it creates, by their IDs.
fn links(operation: &Operation, all: &[Operation]) -> Map<String, Value> {
    let Some((made, expression)) = operation.makes else { return Map::new() };
    let below = format!("{}/{{{made}}}", operation.path);
    let of_parents = parameter_names(operation.path).map(|name| (name, format!("$request.path.{name}")));
    let given: Vec<(&str, String)> = of_parents.chain([(made, expression.to_owned())]).collect();
    let reached = all.iter().filter(|other| {
        other.path.starts_with(&below)
            && parameter_names(other.path).all(|name| given.iter().any(|(known, _)| *known == name))
    });
    let parameters = Value::from_iter(given.iter().map(|(name, expression)| (*name, expression.as_str())));
    reached
        .map(|other| {
            let id = other.use_case.name();
            (id.replace('.', "_"), json!({"operationId": id, "parameters": parameters}))
        })
        .collect()
}
