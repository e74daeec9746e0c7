use askama::Template;
use axum::body::{Body, to_bytes};
use axum::extract::{Query, Request, State};
use axum::http::header::SET_COOKIE;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use super::console::{Console, LOGIN};
use super::errors::status;
use super::format::encoded;
use super::frame::{Frame, Section};
use super::visit::{PageCall, client};
use tunesmith_access::SESSION_COOKIE;
use tunesmith_admission::use_cases;
use tunesmith_domain::{Code, Refusal};

/// Path that starts a login at the identity provider.
const SIGN_ON: &str = "/console/login/start";

/// Maximum size of a form in bytes.
const MAX_FORM: usize = 8 << 10;

/// Page to open after the login.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Next {
    pub(crate) next: String,
}

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage {
    frame: Frame,
    next: String,
    error: Option<String>,
    /// Name of the identity provider, if any.
    provider: Option<String>,
    /// Address that starts a login there.
    start: String,
}

pub(crate) async fn form(State(console): State<Console>, Query(Next { next }): Query<Next>, parts: Parts) -> Response {
    page(&console, &parts, &next, None)
}

/// Login page that continues with `next`, after a failed login with its `refusal`.
pub(crate) fn page(console: &Console, parts: &Parts, next: &str, refusal: Option<Refusal>) -> Response {
    let status = refusal.as_ref().map_or(StatusCode::OK, status);
    let error = refusal.map(|refusal| refusal.message);
    let frame = Frame::without_visitor("Sign in", Section::Login, &parts.headers);
    let provider = console.single_sign_on.as_ref().map(|sign_on| sign_on.name.clone());
    let next = inside(next);
    let start = format!("{SIGN_ON}?next={}", encoded(next));
    Frame::respond(false, status, &LoginPage { frame, next: next.to_owned(), error, provider, start })
}

pub(crate) async fn sign_in(State(console): State<Console>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let form = match read(&console, body).await {
        Ok(form) => form,
        Err(refusal) => return page(&console, &parts, "", Some(refusal)),
    };
    let (token, next) = (field(&form, "token"), field(&form, "next"));
    let call = PageCall::of_server(use_cases::SIGN_IN).into_call(&parts);
    match console.control.sign_in(&call, token.trim()).await {
        Ok(secret) => {
            let cookie = secret.map(|secret| cookie(&secret, "", console.is_secure));
            with_cookie(Redirect::to(inside(&next)).into_response(), cookie.as_deref())
        }
        Err(refusal) => page(&console, &parts, &next, Some(refusal)),
    }
}

pub(crate) async fn sign_out(State(console): State<Console>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let form = read(&console, body).await.unwrap_or_default();
    if let Err(refusal) = console.control.sign_out(&client(&parts), &field(&form, "csrf")).await {
        return page(&console, &parts, "", Some(refusal));
    }
    let cookie = cookie("", "; Max-Age=0", console.is_secure);
    with_cookie(Redirect::to(LOGIN).into_response(), Some(&cookie))
}

pub(crate) fn with_cookie(mut response: Response, cookie: Option<&str>) -> Response {
    if let Some(cookie) = cookie.and_then(|cookie| HeaderValue::from_str(cookie).ok()) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}

/// `next` if it is a console page, to prevent open redirects.
pub(crate) fn inside(next: &str) -> &str {
    let is_page = next == "/console" || next.starts_with("/console/") || next.starts_with("/console?");
    // Other characters are invalid in a header.
    let is_address = next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_page && !next.starts_with(LOGIN) && is_address { next } else { "/console" }
}

/// `set-cookie` value for a session.
pub(crate) fn cookie(secret: &str, end: &str, is_secure: bool) -> String {
    let secure = if is_secure { "; Secure" } else { "" };
    format!("{SESSION_COOKIE}={secret}; Path=/; HttpOnly; SameSite=Strict{secure}{end}")
}

/// Reads the form in `body`, before authentication.
async fn read(console: &Console, body: Body) -> Result<Vec<(String, String)>, Refusal> {
    let read = tokio::time::timeout(console.control.time_limit(), to_bytes(body, MAX_FORM)).await;
    let bytes = read.map_err(|_| Refusal::timed_out(console.control.time_limit(), false))?.ok();
    let unreadable = || Refusal::new(Code::InvalidArgument, "the form cannot be read: send it again");
    bytes.and_then(|bytes| fields(&bytes)).ok_or_else(unreadable)
}

/// Parses form fields; `None` unless UTF-8.
fn fields(bytes: &[u8]) -> Option<Vec<(String, String)>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let decoded = |text: &str| {
        let text = text.replace('+', " ");
        percent_decode_str(&text).decode_utf8().ok().map(Into::into)
    };
    text.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decoded(name)?, decoded(value)?))
        })
        .collect()
}

fn field(form: &[(String, String)], name: &str) -> String {
    form.iter().find(|(given, _)| given == name).map(|(_, value)| value.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sign_in_leads_to_pages_of_the_console_only() {
        for page in ["/console", "/console/jobs?filter=a", "/console?x=1"] {
            assert_eq!(inside(page), page);
        }
        let elsewhere =
            ["", "https://evil.test", "//evil.test", "/consoles", "/v1/projects", "/console/login", "/console/\\x"];
        let unprintable =
            ["/console?\u{b}", "/console?a\r\nb", "/console/\0", "/console/\u{7f}", "/console/é", "/console/a b"];
        for page in elsewhere.into_iter().chain(unprintable) {
            assert_eq!(inside(page), "/console", "{page}");
        }
    }

    #[test]
    fn form_is_decoded() {
        let form = fields(b"token=a%2Bb+c&next=%2Fconsole").unwrap();
        assert_eq!((field(&form, "token"), field(&form, "next")), ("a+b c".to_owned(), "/console".to_owned()));
        assert_eq!(fields(b"token=%FF"), None);
    }
}
