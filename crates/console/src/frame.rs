//! What every page has: title, navigation, theme, and the headers of the response.

use askama::Template;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HeaderName, REFERRER_POLICY, VARY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use super::assets;
use tunesmith_access::Permission;
use tunesmith_http::pages::Visitor;

/// Name of the cookie with the chosen theme, which a script sets.
const THEME_COOKIE: &str = "tunesmith_theme";

/// The permission that pages about the whole server require in all projects: that of the role `ml.admin`.
pub(crate) const ADMINISTRATION: Permission = Permission::JobsSetIamPolicy;

/// Header of requests for the content of a page without its frame.
const FRAGMENT: HeaderName = HeaderName::from_static("x-console-fragment");

/// What a page may load and do. Nothing is loaded from elsewhere, no script is part of a page, and no other page may
/// show it in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// As [`POLICY`], for pages with plots: plotly.js puts styles into the page.
const POLICY_WITH_PLOTS: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
                                 img-src 'self' data: blob:; connect-src 'self'; form-action 'self'; \
                                 base-uri 'none'; frame-ancestors 'none'";

/// The entries of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    /// The overview.
    Overview,
    /// Jobs, studies and their trials.
    Jobs,
    /// What runs and waits.
    Workers,
    /// Tokens, roles and the audit log.
    Access,
    /// The server.
    Server,
    /// None of them.
    Other,
}

/// The chosen theme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Theme {
    /// That of the visitor's system.
    System,
    Light,
    Dark,
}

/// What every page has.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) title: String,
    pub(crate) section: Section,
    /// The principal of the visitor; `None` without tokens.
    pub(crate) principal: Option<String>,
    /// Whether only the content is wanted.
    pub(crate) is_fragment: bool,
    /// Whether the visitor may submit jobs.
    pub(crate) may_submit: bool,
    /// Whether the visitor may create studies.
    pub(crate) may_create_studies: bool,
    /// Whether the visitor is an administrator of the server.
    pub(crate) is_administrator: bool,
    /// The secret that requests of the page send with changes.
    pub(crate) csrf: String,
    theme: Theme,
}

impl Frame {
    /// The frame of a page for `visitor`.
    pub(crate) fn new(title: impl Into<String>, section: Section, visitor: &Visitor, parts: &Parts) -> Self {
        Self {
            principal: visitor.principal().map(str::to_owned),
            may_submit: visitor.may_somewhere(Permission::JobsCreate),
            may_create_studies: visitor.may_somewhere(Permission::StudiesCreate),
            is_administrator: visitor.may_everywhere(ADMINISTRATION),
            csrf: visitor.csrf().to_owned(),
            ..Self::without_visitor(title, section, &parts.headers)
        }
    }

    /// The frame of a page without a known visitor.
    pub(crate) fn without_visitor(title: impl Into<String>, section: Section, headers: &HeaderMap) -> Self {
        Self {
            title: title.into(),
            section,
            principal: None,
            is_fragment: headers.contains_key(FRAGMENT),
            may_submit: false,
            may_create_studies: false,
            is_administrator: false,
            csrf: String::new(),
            theme: theme(headers),
        }
    }

    /// The address of an embedded file.
    pub(crate) fn asset(&self, name: &str) -> String {
        assets::address(name)
    }

    /// The value of the attribute `data-theme` of the page.
    pub(crate) fn theme_name(&self) -> &'static str {
        match self.theme {
            Theme::System => "system",
            Theme::Light => "light",
            Theme::Dark => "dark",
        }
    }

    pub(crate) fn is_in(&self, section: &str) -> bool {
        section
            == match self.section {
                Section::Overview => "overview",
                Section::Jobs => "jobs",
                Section::Workers => "workers",
                Section::Access => "access",
                Section::Server => "server",
                Section::Other => "",
            }
    }

    /// The response with `page`. Pages with plots may have styles that a script puts in.
    pub(crate) fn respond(has_plots: bool, status: StatusCode, page: &impl Template) -> Response {
        let html = match page.render() {
            Ok(html) => html,
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "a page cannot be rendered");
                return (StatusCode::INTERNAL_SERVER_ERROR, "internal error; see the server's log").into_response();
            }
        };
        let policy = if has_plots { POLICY_WITH_PLOTS } else { POLICY };
        let mut response = (status, html).into_response();
        let fixed: [(HeaderName, &'static str); 8] = [
            (CONTENT_TYPE, "text/html; charset=utf-8"),
            (CONTENT_SECURITY_POLICY, policy),
            (CACHE_CONTROL, "no-store"),
            // Without a referrer, browsers send `Origin: null` with forms, which the server refuses.
            (REFERRER_POLICY, "same-origin"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (X_FRAME_OPTIONS, "DENY"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
            (VARY, "cookie, x-console-fragment"),
        ];
        for (name, value) in fixed {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

/// The value of the cookie `name`.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let given = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = given.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(given, _)| *given == name).map(|(_, value)| value)
}

fn theme(headers: &HeaderMap) -> Theme {
    match cookie(headers, THEME_COOKIE) {
        Some("light") => Theme::Light,
        Some("dark") => Theme::Dark,
        _ => Theme::System,
    }
}
