//! Addresses of MLflow servers, and credentials for them.

use std::fmt;

use reqwest::Url;

/// Environment variable with the operator's server.
pub const URI_VARIABLE: &str = "MLFLOW_TRACKING_URI";
/// Environment variable with the file of certificates to trust.
pub const CERTIFICATE_VARIABLE: &str = "MLFLOW_TRACKING_SERVER_CERT_PATH";
/// Environment variable with the run that a program adopts.
pub const RUN_VARIABLE: &str = "MLFLOW_RUN_ID";

const USERNAME_VARIABLE: &str = "MLFLOW_TRACKING_USERNAME";
const PASSWORD_VARIABLE: &str = "MLFLOW_TRACKING_PASSWORD";
const TOKEN_VARIABLE: &str = "MLFLOW_TRACKING_TOKEN";

/// Address of an MLflow server, without credentials and without a slash at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrackingUri(Url);

/// An address that is not one of an MLflow server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{uri:?} is not the address of an MLflow server: {reason}; expected http://HOST[:PORT] or https://HOST[:PORT]")]
pub struct TrackingUriError {
    /// The address, without its credentials.
    pub uri: String,
    pub reason: &'static str,
}

impl TrackingUri {
    /// Parses `text`.
    ///
    /// # Errors
    /// [`TrackingUriError`] for other schemes, credentials, a query or a fragment.
    pub fn new(text: &str) -> Result<Self, TrackingUriError> {
        let refuse = |uri: &str, reason| Err(TrackingUriError { uri: uri.to_owned(), reason });
        let Ok(mut url) = Url::parse(text) else { return refuse(without_credentials(text), "it is no URL") };
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return refuse(without_credentials(text), "MLflow is reached over HTTP");
        }
        if !url.username().is_empty() || url.password().is_some() {
            let reason = "it has credentials, which the environment variables MLFLOW_TRACKING_USERNAME and \
                          MLFLOW_TRACKING_PASSWORD of the server provide";
            return refuse(without_credentials(text), reason);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return refuse(text, "it has a query or fragment");
        }
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        Ok(Self(url))
    }

    pub fn url(&self) -> &Url {
        &self.0
    }
}

/// `text` after its credentials, if it has some.
fn without_credentials(text: &str) -> &str {
    text.rsplit_once('@').map_or(text, |(_, rest)| rest)
}

impl fmt::Display for TrackingUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

/// Credentials from the operator's environment. Not printed.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    Basic { username: String, password: String },
    Token(String),
}

impl Credentials {
    /// Reads the variables of MLflow's own clients; a user name and password take precedence over a token.
    pub fn of_environment() -> Option<Self> {
        let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
        match (variable(USERNAME_VARIABLE), variable(PASSWORD_VARIABLE)) {
            (Some(username), Some(password)) => Some(Self::Basic { username, password }),
            _ => variable(TOKEN_VARIABLE).map(Self::Token),
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Basic { .. } => "Basic",
            Self::Token(_) => "Token",
        })
    }
}

/// The operator's own server and credentials. Credentials are sent to this server only.
#[derive(Debug, Clone, Default)]
pub struct Operator {
    pub uri: Option<TrackingUri>,
    /// Why there is no server.
    pub no_uri: String,
    pub credentials: Option<Credentials>,
    /// Whether other servers may have non-public addresses.
    pub allows_private: bool,
}

impl Operator {
    /// Server and credentials of the environment. An address of another scheme counts as none: other programs use the
    /// variable, too.
    pub fn of_environment(allows_private: bool) -> Self {
        let text = std::env::var(URI_VARIABLE).ok().filter(|text| !text.is_empty());
        let (uri, no_uri) = match text.as_deref().map(TrackingUri::new) {
            Some(Ok(uri)) => (Some(uri), String::new()),
            Some(Err(error)) => (None, format!("{URI_VARIABLE}: {error}")),
            None => (None, format!("{URI_VARIABLE} is not set")),
        };
        Self { uri, no_uri, credentials: Credentials::of_environment(), allows_private }
    }

    /// The operator with `uri` as server.
    #[must_use]
    pub fn with_uri(mut self, uri: TrackingUri) -> Self {
        self.uri = Some(uri);
        self
    }

    pub(super) fn credentials_for(&self, uri: &TrackingUri) -> Option<Credentials> {
        self.credentials.clone().filter(|_| self.uri.as_ref() == Some(uri))
    }

    pub(super) fn may_reach_private(&self, uri: &TrackingUri) -> bool {
        self.allows_private || self.uri.as_ref() == Some(uri)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_http_and_carry_no_credentials() {
        let uri = TrackingUri::new("https://mlflow.example.com/team/").unwrap();
        assert_eq!(uri.to_string(), "https://mlflow.example.com/team");
        assert_eq!(TrackingUri::new("http://h:5000").unwrap(), TrackingUri::new("http://h:5000/").unwrap());
        let refused = |text: &str| TrackingUri::new(text).unwrap_err();
        assert_eq!(refused("file:///tmp/mlruns").reason, "MLflow is reached over HTTP");
        assert_eq!(refused("mlruns").reason, "it is no URL");
        assert_eq!(refused("http://h/?a=b").reason, "it has a query or fragment");
        let error = refused("http://ann:secret@h:5000").to_string();
        assert!(error.starts_with("\"h:5000\" is not the address") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn credentials_go_to_the_operators_server_only_and_are_not_printed() {
        let uri = TrackingUri::new("http://10.0.0.1:5000").unwrap();
        let credentials = Credentials::Basic { username: "ann".into(), password: "secret".into() };
        let operator = Operator { credentials: Some(credentials), ..Operator::default() }.with_uri(uri.clone());
        let other = TrackingUri::new("http://10.0.0.1:5001").unwrap();
        assert_eq!(operator.credentials_for(&uri), operator.credentials.clone());
        assert_eq!((operator.credentials_for(&other), operator.may_reach_private(&other)), (None, false));
        assert!(operator.may_reach_private(&uri));
        assert!(!format!("{operator:?}").contains("secret"));
    }
}
