//! HTTP: requests by the rules of the methods, messages in JSON.

use std::sync::Arc;

use axum::body::{Bytes, to_bytes};
use axum::extract::Request;
use axum::http::header::{ALLOW, CONTENT_TYPE};
use axum::http::{HeaderValue, Method as Verb, StatusCode};
use axum::response::{IntoResponse, Response};
use prost_reflect::{DynamicMessage, Kind, MessageDescriptor, ReflectMessage, Value};
use tunesmith_admission::Client;
use tunesmith_domain::{Code, Refusal};
use tunesmith_vizier::json;

use crate::http_rule::{Body, HttpRule};
use crate::method::{self, Method, check_credentials};
use crate::refusals::{NOTICE, http_response, notice, with_status};
use crate::services::{Reply, Services};
use crate::{MESSAGE_BYTES, PREFIX};

/// Standard parameters of Google services, which have no effect here or select the form of the response.
const STANDARD: [&str; 11] = [
    "$.xgafv",
    "$alt",
    "access_token",
    "alt",
    "fields",
    "key",
    "oauth_token",
    "prettyPrint",
    "quotaUser",
    "uploadType",
    "upload_protocol",
];

/// Forms of a response. Enums are names in both, which clients of numbers accept.
const FORMS: [&str; 2] = ["json", "json;enum-encoding=int"];

/// Type of field masks, which are text in a query.
const FIELD_MASK: &str = "google.protobuf.FieldMask";

pub(crate) async fn respond(services: Arc<Services>, methods: &[Method], request: Request) -> Response {
    let client = request.extensions().get::<Client>().cloned().unwrap_or_default();
    let path = request.uri().path().strip_prefix(PREFIX).unwrap_or_default();
    let rules = || methods.iter().flat_map(|method| method.http.iter().map(move |rule| (method, rule)));
    let found: Vec<_> = rules().filter_map(|(method, rule)| Some((method, rule, rule.value(path)?))).collect();
    let verb = if request.method() == Verb::HEAD { Verb::GET } else { request.method().clone() };
    let Some((method, rule, name)) = found.iter().find(|(_, rule, _)| rule.verb == verb) else {
        let allowed: Vec<&Verb> = found.iter().map(|(_, rule, _)| &rule.verb).collect();
        return unknown(&services, client, request.method(), request.uri().path(), &allowed).await;
    };
    let mut response = match handle(services, method, rule, name, client, request).await {
        Ok(Reply { message, notices, .. }) => {
            let mut response = ([(CONTENT_TYPE, "application/json")], message).into_response();
            if let Some(value) = notice(&notices) {
                response.headers_mut().insert(NOTICE, value);
            }
            response
        }
        Err(Failure::Refused(refusal)) => http_response(&refusal),
        Err(Failure::MediaType(refusal)) => with_status(&refusal, StatusCode::UNSUPPORTED_MEDIA_TYPE.as_u16()),
        Err(Failure::TooLarge(refusal)) => with_status(&refusal, StatusCode::PAYLOAD_TOO_LARGE.as_u16()),
    };
    response.extensions_mut().insert(method.use_case);
    response
}

enum Failure {
    Refused(Refusal),
    MediaType(Refusal),
    TooLarge(Refusal),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

async fn handle(
    services: Arc<Services>,
    method: &Method,
    rule: &HttpRule,
    name: &str,
    client: Client,
    request: Request,
) -> Result<Reply<Vec<u8>>, Failure> {
    check_credentials(&services, method.use_case, &client).await?;
    let query = request.uri().query().unwrap_or_default().to_owned();
    let body = body(request).await?;
    let descriptor = method.request()?;
    let mut message = match rule.body {
        Body::Message => json::read(&body, descriptor, "")?,
        Body::None | Body::Field(_) => DynamicMessage::new(descriptor),
    };
    match rule.body {
        Body::Field(field) => {
            let of = message.descriptor().get_field_by_name(field).map(|field| field.kind());
            let Some(Kind::Message(of)) = of else {
                return Err(Refusal::new(Code::Internal, format!("{field} is no message")).into());
            };
            message.set_field_by_name(field, Value::Message(json::read(&body, of, "")?));
        }
        // Clients send `{}` with a method that has no body.
        Body::None if !matches!(body.trim_ascii(), b"" | b"{}") => {
            return Err(Refusal::invalid("body", "this method has no body").into());
        }
        Body::None | Body::Message => {}
    }
    if message.has_field_by_name(rule.variable) {
        let text = format!("is in the path; allowed: a body without {}", rule.variable);
        return Err(Refusal::invalid(rule.variable, text).into());
    }
    message.set_field_by_name(rule.variable, Value::String(name.to_owned()));
    read_query(&query, rule, &mut message)?;
    Ok(method.call_json(services, client, message).await?)
}

async fn body(request: Request) -> Result<Bytes, Failure> {
    let content_type = request.headers().get(CONTENT_TYPE);
    let content_type = content_type.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let bytes = to_bytes(request.into_body(), MESSAGE_BYTES).await.map_err(|error| {
        let text = format!("the body cannot be read, or exceeds {MESSAGE_BYTES} bytes: {error}");
        Failure::TooLarge(Refusal::new(Code::InvalidArgument, text))
    })?;
    let is_json = content_type.as_deref().is_some_and(|given| {
        given.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
    });
    if is_json || bytes.is_empty() {
        return Ok(bytes);
    }
    // Browsers send other content types on behalf of any web page, without a preflight request.
    let given = content_type.map_or_else(|| "absent".to_owned(), |text| format!("{text:?}"));
    let text = format!("the body must be JSON with content-type: application/json; the content type is {given}");
    Err(Failure::MediaType(Refusal::new(Code::InvalidArgument, text)))
}

/// Sets the fields of `message` that are in the query: those outside of the path and the body.
fn read_query(query: &str, rule: &HttpRule, message: &mut DynamicMessage) -> Result<(), Refusal> {
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if STANDARD.contains(&&*name) {
            if matches!(&*name, "$alt" | "alt") && !FORMS.contains(&&*value) {
                let text = format!("{value:?} is not supported; allowed: {}", FORMS.join(", "));
                return Err(Refusal::invalid(&name, text));
            }
            continue;
        }
        let descriptor = message.descriptor();
        let field = descriptor.get_field_by_json_name(&name).or_else(|| descriptor.get_field_by_name(&name));
        let field = field.filter(|field| rule.body != Body::Message && field.name() != rule.variable);
        let Some(field) = field else {
            let text = format!("unknown name {name:?}: this method has no such query parameter");
            return Err(Refusal::invalid(&name, text));
        };
        if message.has_field(&field) {
            return Err(Refusal::invalid(&name, "is given twice"));
        }
        let refuse = |allowed: &str| Refusal::invalid(&name, format!("{value:?} is not valid; allowed: {allowed}"));
        let value = match field.kind() {
            Kind::String => Value::String(value.into_owned()),
            Kind::Int32 => Value::I32(value.parse().map_err(|_| refuse("a whole number"))?),
            Kind::Bool => Value::Bool(value.parse().map_err(|_| refuse("true or false"))?),
            Kind::Message(of) if of.full_name() == FIELD_MASK => field_mask(of, &value),
            _ => return Err(refuse("this field in the body")),
        };
        message.set_field(&field, value);
    }
    Ok(())
}

/// Mask of the type `of` with the paths `text`, joined by commas.
fn field_mask(of: MessageDescriptor, text: &str) -> Value {
    let snake_case = |path: &str| {
        path.chars().fold(String::with_capacity(path.len()), |mut name, c| {
            if c.is_ascii_uppercase() {
                name.push('_');
            }
            name.push(c.to_ascii_lowercase());
            name
        })
    };
    let paths = text.split(',').map(str::trim).filter(|path| !path.is_empty());
    let paths = paths.map(|path| Value::String(snake_case(path))).collect();
    let mut mask = DynamicMessage::new(of);
    mask.set_field_by_name("paths", Value::List(paths));
    Value::Message(mask)
}

async fn unknown(services: &Services, client: Client, verb: &Verb, path: &str, allowed: &[&Verb]) -> Response {
    let allowed: Vec<&str> = allowed.iter().map(|verb| verb.as_str()).collect();
    let allowed = allowed.join(", ");
    let refusal = if allowed.is_empty() {
        Refusal::new(Code::NotFound, format!("there is no method {verb} {path}"))
    } else {
        let text = format!("{path} does not support the method {verb}; allowed: {allowed}");
        Refusal::new(Code::Unimplemented, text)
    };
    let changes = !matches!(*verb, Verb::GET | Verb::HEAD);
    let (use_case, refusal) = method::unknown(services, changes, client, refusal).await;
    let mut response = if refusal.code == Code::Unimplemented {
        with_status(&refusal, StatusCode::METHOD_NOT_ALLOWED.as_u16())
    } else {
        http_response(&refusal)
    };
    if let Ok(value) = HeaderValue::from_str(&allowed)
        && response.status() == StatusCode::METHOD_NOT_ALLOWED
    {
        response.headers_mut().insert(ALLOW, value);
    }
    response.extensions_mut().insert(use_case);
    response
}
