//! Generation of the server's OpenAPI 3.1 document from the table of its routes.
//!
//! `schemars` derives the schemas from the wire types, as for the configuration's schema. Requests and responses differ
//! (a 64-bit integer may be a number in a request, and is text in a response), so a type that is used in both has two
//! schemas; that of requests then has the suffix `Input`.

mod operation;
mod parameters;
mod schemas;

use axum::http::Method;
use serde_json::Value;
use utoipa::openapi::link::{Link, LinkBuilder};
use utoipa::openapi::path::{HttpMethod, OperationBuilder, Paths};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Components, Content, ContentBuilder, InfoBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder, Schema,
};

pub(super) use self::operation::{Answer, Bytes, Created, Documented, Operation, RequiredAccess, Text};
pub(super) use self::parameters::query_names;
use self::schemas::Schemas;
pub(super) use self::schemas::answer_schema;
use super::names::parameter_names;

/// Name of the security scheme.
const BEARER: &str = "bearer";

/// Description of the document.
const DESCRIPTION: &str = "\
Jobs and studies in the form of AI Platform Training & Optimizer (`ml v1`). Additions are under the key `tunesmith`.

Messages follow proto3's JSON rules: fields at their default may be omitted, `null` is an absent field, 64-bit integers \
in responses are text, and fields in requests may have their protocol buffer names (`study_config`). Unknown fields, \
names and query parameters are rejected. Every method also accepts the query parameters `fields` (the fields of the \
response to return, as in `name,trials(name,state)`), `prettyPrint` (line breaks and indentation, the default) and `alt` \
(`json` only). `key`, `quotaUser`, `access_token`, `oauth_token`, `uploadType`, `upload_protocol` and `$.xgafv` have no \
effect, and the response names them in its header `tunesmith-notice`. An empty body may be omitted.";

/// Descriptions of the error responses, by status.
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

/// The document of the server whose methods are `operations`.
pub(super) fn document(operations: &[Operation]) -> Value {
    let mut schemas = Schemas::default();
    let error = schemas.answer(super::status::error_schema);
    let messages: Vec<_> = operations
        .iter()
        .map(|operation| {
            let body = operation.body.map(|body| schemas.sent(body));
            (operation, body, operation.answer.map(|answer| schemas.answer(answer)))
        })
        .collect();
    let schemas = schemas.finish();
    let mut paths = Paths::new();
    for (operation, body, answer) in messages {
        let body = body.map(|schema| schemas.reference(schema));
        paths.add_path_operation(
            operation.path,
            vec![http_method(&operation.method)],
            described_operation(operation, operations, body, answer.map(|schema| schemas.reference(schema))),
        );
    }
    let info = InfoBuilder::new().title("Tunesmith").version("v1").description(Some(DESCRIPTION)).build();
    let mut document = OpenApi::new(info, paths);
    document.components = Some(components(schemas.reference(error)));
    finished(&document, schemas.definitions)
}

/// The JSON document with `definitions`, which the types of utoipa cannot represent in full.
fn finished(document: &OpenApi, definitions: serde_json::Map<String, Value>) -> Value {
    // Serialising text and numbers does not fail.
    let mut document = serde_json::to_value(document).unwrap_or_default();
    document["components"]["schemas"] = Value::Object(definitions);
    document
}

fn http_method(method: &Method) -> HttpMethod {
    match *method {
        Method::POST => HttpMethod::Post,
        Method::PATCH => HttpMethod::Patch,
        Method::PUT => HttpMethod::Put,
        Method::DELETE => HttpMethod::Delete,
        _ => HttpMethod::Get,
    }
}

/// The content of a body that is not text.
fn bytes() -> Content {
    let format = SchemaFormat::KnownFormat(KnownFormat::Binary);
    let bytes = ObjectBuilder::new().schema_type(Type::String).format(Some(format)).build();
    Content::new(Some(Schema::from(bytes)))
}

fn described_operation(
    operation: &Operation,
    all: &[Operation],
    body: Option<RefOr<Schema>>,
    answer: Option<RefOr<Schema>>,
) -> OperationBuilder {
    let mut success = ResponseBuilder::new().description("Success.");
    if let Some(schema) = answer {
        success = success.content("application/json", Content::new(Some(schema)));
    }
    if let Some(content_type) = operation.text {
        let text = ObjectBuilder::new().schema_type(Type::String).build();
        success = success.content(content_type, Content::new(Some(Schema::from(text))));
    }
    if operation.returns_bytes {
        success = success.content("application/octet-stream", bytes());
    }
    for (name, link) in links(operation, all) {
        success = success.link(name, link);
    }
    let body = body.map(|schema| {
        let example = operation.example.and_then(|example| serde_json::from_str::<Value>(example).ok());
        let content = ContentBuilder::new().schema(Some(schema)).example(example);
        RequestBodyBuilder::new().content("application/json", content.build())
    });
    let sent_bytes = || RequestBodyBuilder::new().content("application/octet-stream", bytes());
    let body = body.or_else(|| operation.takes_bytes.then(sent_bytes));
    let mut builder = OperationBuilder::new()
        .operation_id(Some(operation.id))
        .summary(Some(operation.summary))
        .parameters(Some(parameters::of(operation)))
        .request_body(body.map(RequestBodyBuilder::build))
        .response("200", success.build());
    for status in &operation.statuses {
        let reference = RefOr::<Response>::from(Ref::from_response_name(format!("Error{status}")));
        builder = builder.response(status.to_string(), reference);
    }
    let token = SecurityRequirement::new(BEARER, [] as [&str; 0]);
    match operation.access {
        // A server that listens only on this machine may work without tokens.
        RequiredAccess::Token | RequiredAccess::Permission(_) => {
            builder.securities(Some([SecurityRequirement::default(), token]))
        }
        RequiredAccess::TrialToken => builder.securities(Some([token])),
        RequiredAccess::None => builder.securities(Some([])),
    }
}

/// Links to the methods of the resource that `operation` creates, by the last words of their IDs.
fn links(operation: &Operation, all: &[Operation]) -> Vec<(String, Link)> {
    let Some((made, expression)) = operation.makes else { return Vec::new() };
    let below = format!("{}/{{{made}}}", operation.path);
    let of_parents = parameter_names(operation.path).map(|name| (name, format!("$request.path.{name}")));
    let given: Vec<(&str, String)> = of_parents.chain([(made, expression.to_owned())]).collect();
    let reached = all.iter().filter(|other| {
        other.path.starts_with(&below)
            && parameter_names(other.path).all(|name| given.iter().any(|(known, _)| *known == name))
    });
    reached
        .map(|other| {
            let link = LinkBuilder::new().operation_id(other.id);
            let link = given.iter().fold(link, |link, (name, expression)| link.parameter(*name, expression.as_str()));
            (other.id.replace('.', "_"), link.build())
        })
        .collect()
}

fn components(error: RefOr<Schema>) -> Components {
    let mut components = Components::new();
    for (status, description) in ERRORS {
        let content = Content::new(Some(error.clone()));
        let response = ResponseBuilder::new().description(description).content("application/json", content).build();
        components.responses.insert(format!("Error{status}"), response.into());
    }
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("A token created by `tunesmith tokens create`, or the token of a trial."));
    components.add_security_scheme(BEARER, SecurityScheme::Http(bearer.build()));
    components
}
