//! Login at an OpenID Connect provider.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Redirect, Response};
use tunesmith_admission::use_cases;
use tunesmith_domain::{Code, Refusal};
use tunesmith_oidc::{Callback, LoginError, PendingLogin};

use super::console::{Console, LOGIN, SingleSignOn};
use super::frame::{Frame, Section, cookie};
use super::login::{self, Next, inside, with_cookie};
use super::visit::PageCall;

/// Cookie of a login in progress.
const LOGIN_COOKIE: &str = "tunesmith_login";

/// Page that opens the next one itself. A redirect would be part of the provider's navigation, in which browsers do not send
/// the new cookie (`SameSite=Strict`).
#[derive(Template)]
#[template(path = "signed_in.html")]
struct SignedInPage {
    frame: Frame,
    next: String,
}

pub(crate) async fn start(State(console): State<Console>, Query(Next { next }): Query<Next>, parts: Parts) -> Response {
    let Some(sign_on) = console.single_sign_on.clone() else { return Redirect::to(LOGIN).into_response() };
    match sign_on.provider.start(inside(&next), console.clock.now()).await {
        Ok((address, login)) => {
            let cookie = login_cookie(&login.to_cookie(), PendingLogin::LIFETIME, console.is_secure);
            with_cookie(Redirect::to(address.as_str()).into_response(), Some(&cookie))
        }
        Err(error) => login::page(&console, &parts, &next, Some(refusal(&sign_on, error))),
    }
}

pub(crate) async fn finish(State(console): State<Console>, Query(callback): Query<Callback>, parts: Parts) -> Response {
    let Some(sign_on) = console.single_sign_on.clone() else { return Redirect::to(LOGIN).into_response() };
    let login = cookie(&parts.headers, LOGIN_COOKIE).and_then(PendingLogin::from_cookie);
    let next = login.as_ref().map_or("/console", |login| inside(&login.next)).to_owned();
    let ended = login_cookie("", 0, console.is_secure);
    let response = match sign_in(&console, &sign_on, login.as_ref(), &callback, &parts).await {
        Ok(cookie) => {
            let frame = Frame::without_visitor("Signed in", Section::Other, &parts.headers);
            let page = Frame::respond(false, StatusCode::OK, &SignedInPage { frame, next });
            with_cookie(page, cookie.as_deref())
        }
        Err(refusal) => login::page(&console, &parts, &next, Some(refusal)),
    };
    with_cookie(response, Some(&ended))
}

/// Completes a login and returns the cookie of its session.
async fn sign_in(
    console: &Console,
    sign_on: &Arc<SingleSignOn>,
    login: Option<&PendingLogin>,
    callback: &Callback,
    parts: &Parts,
) -> Result<Option<String>, Refusal> {
    let call = PageCall::of_server(use_cases::SIGN_IN).into_call(parts);
    let finished = sign_on.provider.finish(login, callback, console.clock.now()).await;
    let (principal, grants) =
        finished.map_err(|error| console.control.refuse_sign_in(&call, refusal(sign_on, error)))?;
    let secret = console.control.sign_in_as(&call, principal, grants).await?;
    Ok(secret.map(|secret| login::cookie(&secret, "", console.is_secure)))
}

fn refusal(sign_on: &SingleSignOn, error: LoginError) -> Refusal {
    let code = match &error {
        LoginError::Provider(_) => Code::Unavailable,
        LoginError::Busy => Code::ResourceExhausted,
        LoginError::NoRole { .. } => Code::PermissionDenied,
        LoginError::Rejected(_) => Code::Unauthenticated,
    };
    tracing::warn!(provider = sign_on.name, error = %error, "a login was refused");
    Refusal::new(code, format!("{}: {error}", sign_on.name))
}

/// `set-cookie` value for a login in progress. It is sent when the provider sends the browser back (`SameSite=Lax`).
fn login_cookie(value: &str, max_age: i64, is_secure: bool) -> String {
    let secure = if is_secure { "; Secure" } else { "" };
    format!("{LOGIN_COOKIE}={value}; Path={LOGIN}; HttpOnly; SameSite=Lax; Max-Age={max_age}{secure}")
}
