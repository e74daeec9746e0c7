//! Access tokens of the server, for principals that administer it.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::Method;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::openapi::Operation;
use crate::openapi::examples;
use crate::request::body::Body;
use crate::request::names::Names;
use crate::response::error::{ApiError, Code};
use crate::routes::state::Api;
use crate::routes::table::Routes;
use tunesmith_access::{Grant, NewToken, Principal, Token};
use tunesmith_admission::{Admission, use_cases};
use tunesmith_api::ai_platform::ProtoDuration;
use tunesmith_api::ai_platform::rpc::Empty;

/// Maximum number of roles of a token.
const MOST_ROLES: usize = 100;

/// Maximum length of a role with its project, in bytes; above that of any valid one.
const LONGEST_ROLE: usize = 256;

/// Longest time for which a token and its successor are both valid.
const LONGEST_OVERLAP: Duration = Duration::from_secs(30 * 24 * 60 * 60);

pub(crate) fn routes(routes: Routes<Arc<Api>>) -> Routes<Arc<Api>> {
    routes
        .add(Operation::get("/v1/tokens", use_cases::LIST_TOKENS), list)
        .add(Operation::post("/v1/tokens", use_cases::CREATE_TOKEN).example(examples::TOKEN), create)
        .add(Operation::post("/v1/tokens/{token}:rotate", use_cases::ROTATE_TOKEN).or_not_found(), rotate)
        .add(Operation::new(Method::DELETE, "/v1/tokens/{token}", use_cases::DELETE_TOKEN).or_not_found(), delete)
}

/// A new access token.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct TokenDraft {
    /// Owner of the token: `user:NAME`, `serviceAccount:NAME` or `group:NAME`.
    principal: String,
    /// Roles of the owner: `ml.admin`, `ml.developer` or `ml.viewer`, in all projects, or in one as `ml.viewer@PROJECT`.
    #[schemars(length(min = 1, max = 100))]
    roles: Vec<String>,
    /// Time until the token expires, such as `604800s`. It never expires by default.
    #[serde(default)]
    lifetime: Option<ProtoDuration>,
}

/// The rotation of an access token.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Rotation {
    /// Time until the new token expires. It never expires by default.
    lifetime: Option<ProtoDuration>,
    /// Time for which the old token stays valid, up to 30 days. None by default.
    overlap: Option<ProtoDuration>,
}

/// An access token.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct TokenMessage {
    /// Its public part.
    id: String,
    /// Its owner.
    principal: String,
    /// The roles of the owner.
    roles: Vec<String>,
    create_time: String,
    /// Absent if it never expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    expire_time: Option<String>,
    /// The last use since the start of the server. Absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_use_time: Option<String>,
    /// True for the session of a person who has signed in at the identity provider. Absent for a token.
    #[serde(skip_serializing_if = "is_false")]
    is_session: bool,
    /// The secret that clients send as `authorization: Bearer SECRET`. Only in the answer to its creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// The access tokens and sessions, in order of creation.
#[derive(Debug, Serialize, JsonSchema)]
struct TokenList {
    tokens: Vec<TokenMessage>,
}

impl TokenMessage {
    fn new(token: &Token, last_use: Option<Timestamp>) -> Self {
        Self {
            id: token.id.clone(),
            principal: token.principal.to_string(),
            roles: token.grants.iter().map(Grant::to_string).collect(),
            create_time: token.create_time.to_string(),
            expire_time: token.expire_time.map(|time| time.to_string()),
            last_use_time: last_use.map(|time| time.to_string()),
            is_session: token.session.is_some(),
            secret: None,
        }
    }

    fn made(NewToken { token, secret }: NewToken) -> Self {
        Self { secret: Some(secret), ..Self::new(&token, None) }
    }
}

async fn list(State(api): State<Arc<Api>>) -> Result<Json<TokenList>, ApiError> {
    let credentials = api.control.credentials().map_err(|message| ApiError::new(Code::Unavailable, message))?;
    let tokens = credentials.map(|credentials| credentials.tokens).unwrap_or_default();
    Ok(Json(TokenList { tokens: tokens.iter().map(|used| TokenMessage::new(&used.token, used.last_use)).collect() }))
}

async fn create(State(api): State<Arc<Api>>, Body(draft): Body<TokenDraft>) -> Result<Json<TokenMessage>, ApiError> {
    let TokenDraft { principal, roles, lifetime } = draft;
    let principal: Principal = principal.parse().map_err(|error| ApiError::invalid("principal", format!("{error}")))?;
    if roles.is_empty() || roles.len() > MOST_ROLES {
        let text = format!("has {} roles; allowed: from 1 to {MOST_ROLES}", roles.len());
        return Err(ApiError::invalid("roles", text));
    }
    let grant = |(index, role): (usize, &String)| {
        if role.len() > LONGEST_ROLE {
            let text = format!("has {} bytes; allowed: up to {LONGEST_ROLE}", role.len());
            return Err(ApiError::invalid(&format!("roles[{index}]"), text));
        }
        role.parse::<Grant>().map_err(|error| ApiError::invalid(&format!("roles[{index}]"), error.to_string()))
    };
    let grants = roles.iter().enumerate().map(grant).collect::<Result<_, _>>()?;
    let made = api.control.create_token(principal, grants, lifetime_of(lifetime)?).await?;
    Ok(Json(TokenMessage::made(made)))
}

async fn rotate(
    State(api): State<Arc<Api>>,
    Names([id]): Names<1>,
    Body(Rotation { lifetime, overlap }): Body<Rotation>,
) -> Result<Json<TokenMessage>, ApiError> {
    let overlap = overlap.unwrap_or_default().0;
    if overlap > LONGEST_OVERLAP {
        return Err(ApiError::invalid("overlap", "is longer than 30 days (2592000s)"));
    }
    let made = api.control.rotate_token(&id, lifetime_of(lifetime)?, overlap).await?;
    Ok(Json(TokenMessage::made(made)))
}

async fn delete(
    State(api): State<Arc<Api>>,
    Extension(admission): Extension<Admission>,
    Names([id]): Names<1>,
) -> Result<Json<Empty>, ApiError> {
    api.control.revoke_token(&id, admission.caller()).await?;
    Ok(Json(Empty {}))
}

fn lifetime_of(lifetime: Option<ProtoDuration>) -> Result<Option<Duration>, ApiError> {
    match lifetime {
        Some(ProtoDuration(lifetime)) if lifetime.is_zero() => {
            Err(ApiError::invalid("lifetime", "is zero: use a longer time, or none for a token that never expires"))
        }
        lifetime => Ok(lifetime.map(|lifetime| lifetime.0)),
    }
}
