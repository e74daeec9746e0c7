//! Frame of every page: title, navigation, theme and response headers.

use askama::Template;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HeaderName, REFERRER_POLICY, VARY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use super::assets;
use super::visit::Visitor;
use tunesmith_access::Permission;

/// Cookie with the chosen theme, set by a script.
const THEME_COOKIE: &str = "tunesmith_theme";

/// Permission that server-wide pages require in all projects: granted by the role `ml.admin`.
pub(crate) const ADMINISTRATION: Permission = Permission::JobsSetIamPolicy;

/// Header that requests a page without its frame.
const FRAGMENT: HeaderName = HeaderName::from_static("x-console-fragment");

/// Content security policy of pages: no external resources, inline scripts or framing by other pages.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// As [`POLICY`], for pages with plots: plotly.js adds inline styles.
const POLICY_WITH_PLOTS: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
                                 img-src 'self' data: blob:; connect-src 'self'; form-action 'self'; \
                                 base-uri 'none'; frame-ancestors 'none'";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Overview,
    Jobs,
    Models,
    Workers,
    Access,
    Server,
    /// Sign-in, whose visitor has no pages yet.
    Login,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Theme {
    System,
    Light,
    Dark,
}

#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) title: String,
    pub(crate) section: Section,
    /// Principal of the visitor; `None` without tokens.
    pub(crate) principal: Option<String>,
    /// Whether to omit the frame.
    pub(crate) is_fragment: bool,
    pub(crate) may_submit: bool,
    pub(crate) may_create_studies: bool,
    /// Whether the visitor administers the server.
    pub(crate) is_administrator: bool,
    /// CSRF secret for changes from this page.
    pub(crate) csrf: String,
    theme: Theme,
}

impl Frame {
    pub(crate) fn new(title: impl Into<String>, section: Section, visitor: &Visitor, headers: &HeaderMap) -> Self {
        Self {
            principal: visitor.principal().map(str::to_owned),
            may_submit: visitor.may_somewhere(Permission::JobsCreate),
            may_create_studies: visitor.may_somewhere(Permission::StudiesCreate),
            is_administrator: visitor.may_everywhere(ADMINISTRATION),
            csrf: visitor.csrf.clone(),
            ..Self::without_visitor(title, section, headers)
        }
    }

    /// Frame for an unknown visitor.
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

    pub(crate) fn asset(&self, name: &str) -> String {
        assets::address(name)
    }

    /// HTML that runs the script `name`, whose imports are loaded with it rather than one after the other.
    pub(crate) fn script(&self, name: &str) -> String {
        let mut html = String::new();
        for import in assets::imports(name) {
            let address = assets::address(import);
            html.push_str(&format!("<link rel=\"modulepreload\" href=\"{address}\">\n"));
        }
        html.push_str(&format!("<script type=\"module\" src=\"{}\"></script>", assets::address(name)));
        html
    }

    /// Value of the page's `data-theme` attribute.
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
                Section::Models => "models",
                Section::Workers => "workers",
                Section::Access => "access",
                Section::Server => "server",
                Section::Login => "login",
                Section::Other => "",
            }
    }

    /// Response with `page`. `has_plots` permits styles added by a script.
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
            // With no referrer, browsers send `Origin: null` with forms, which the server refuses.
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
