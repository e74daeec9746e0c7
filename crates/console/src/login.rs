//! Signing in with a token, and signing out.

use askama::Template;
use axum::extract::{Query, Request, State};
use axum::http::header::SET_COOKIE;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use super::format::encoded;
use super::frame::{Frame, Section};
use super::router::Console;
use tunesmith_http::pages::Refusal;

/// The address of the page.
pub(crate) const PATH: &str = "/console/login";

/// Maximum size of a form in bytes.
const MAX_FORM: usize = 8 << 10;

/// Where to go afterwards.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Next {
    next: String,
}

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage {
    frame: Frame,
    next: String,
    error: Option<String>,
}

/// The page of a visitor who has to sign in to see the page of `parts`.
pub(crate) fn required(parts: &Parts) -> Response {
    let path = parts.uri.path_and_query().map_or("/console", |path| path.as_str());
    Redirect::to(&format!("{PATH}?next={}", encoded(path))).into_response()
}

pub(crate) async fn form(Query(Next { next }): Query<Next>, parts: Parts) -> Response {
    page(&parts, next, None)
}

fn page(parts: &Parts, next: String, refusal: Option<Refusal>) -> Response {
    let (status, error) = refusal.map_or((StatusCode::OK, None), |refusal| (refusal.status, Some(refusal.message)));
    let frame = Frame::without_visitor("Sign in", Section::Other, &parts.headers);
    Frame::respond(false, status, &LoginPage { frame, next: inside(&next).to_owned(), error })
}

pub(crate) async fn sign_in(State(console): State<Console>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let form = match console.pages.form(body, MAX_FORM).await {
        Ok(bytes) => fields(&bytes).ok_or_else(unreadable),
        Err(refusal) => Err(refusal),
    };
    let form = match form {
        Ok(form) => form,
        Err(refusal) => return page(&parts, String::new(), Some(refusal)),
    };
    let (token, next) = (field(&form, "token"), field(&form, "next"));
    match console.pages.sign_in(&parts, token.trim(), console.is_secure) {
        Ok(cookie) => with_cookie(Redirect::to(inside(&next)).into_response(), cookie.as_deref()),
        Err(refusal) => page(&parts, next, Some(refusal)),
    }
}

pub(crate) async fn sign_out(State(console): State<Console>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let form = console.pages.form(body, MAX_FORM).await;
    let form = form.ok().and_then(|bytes| fields(&bytes)).unwrap_or_default();
    let cookie = console.pages.sign_out(&parts, &field(&form, "csrf"), console.is_secure);
    with_cookie(Redirect::to(PATH).into_response(), Some(&cookie))
}

fn with_cookie(mut response: Response, cookie: Option<&str>) -> Response {
    if let Some(cookie) = cookie.and_then(|cookie| HeaderValue::from_str(cookie).ok()) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// `next`, if it is a page of the console: a form of another site must not lead elsewhere.
fn inside(next: &str) -> &str {
    let is_page = next == "/console" || next.starts_with("/console/") || next.starts_with("/console?");
    // Other characters cannot stand in a header.
    let is_address = next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_page && !next.starts_with(PATH) && is_address { next } else { "/console" }
}

fn unreadable() -> Refusal {
    Refusal { status: StatusCode::BAD_REQUEST, message: "the form cannot be read: send it again".to_owned() }
}

/// The fields of a form; `None` if it is not text.
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
