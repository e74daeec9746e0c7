//! Requests to the provider.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jsonwebtoken::jwk::JwkSet;
use parking_lot::Mutex;
use reqwest::{Client, RequestBuilder, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Semaphore;
use tunesmith_access::{Grant, Principal};

use super::error::LoginError;
use super::id_token::{self, Claims, Invalid};
use super::login::{Callback, LIFETIME, PendingLogin};
use super::settings::Settings;

/// Time limit of a request.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Maximum size of a response in bytes.
const MAX_RESPONSE: usize = 1 << 20;

/// Age from which the provider's metadata and keys are read again.
const MAX_AGE: Duration = Duration::from_secs(60 * 60);

/// Time after a failed request for metadata and keys, or one for an unknown key, for which no other one is sent.
const PAUSE: Duration = Duration::from_secs(5);

/// Logins of strangers that wait for the provider at the same time; a further one is refused.
const MOST_LOGINS: usize = 32;

/// Number of completed logins that are remembered, so that none is completed twice.
const MOST_COMPLETED: usize = 10_000;

/// Longest text of the provider in a message.
const LONGEST_TEXT: usize = 300;

/// OpenID Connect provider, as configured.
#[derive(Debug)]
pub struct Provider {
    settings: Settings,
    http: Client,
    known: tokio::sync::Mutex<Known>,
    logins: Semaphore,
    /// States of completed logins.
    completed: Mutex<VecDeque<String>>,
}

#[derive(Debug, Default)]
struct Known {
    current: Option<(Arc<Keys>, Instant)>,
    /// Last request that failed, with the reason, or that was caused by an unknown key.
    requested: Option<(Instant, Option<String>)>,
}

/// Endpoints and signing keys of the provider.
#[derive(Debug)]
struct Keys {
    metadata: Metadata,
    keys: JwkSet,
}

/// Provider metadata (OpenID Connect Discovery 3).
#[derive(Debug, Deserialize)]
struct Metadata {
    issuer: String,
    authorization_endpoint: Endpoint,
    token_endpoint: Endpoint,
    jwks_uri: Endpoint,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Endpoint(Url);

impl TryFrom<String> for Endpoint {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map(Self).map_err(|error| format!("{text:?}: {error}"))
    }
}

/// Response of the token endpoint.
#[derive(Deserialize)]
struct Tokens {
    id_token: Option<String>,
}

impl Provider {
    /// Provider with `settings`, to which requests are sent by `http`, a client that follows no redirects.
    pub fn new(settings: Settings, http: Client) -> Self {
        let logins = Semaphore::new(MOST_LOGINS);
        Self { settings, http, known: Default::default(), logins, completed: Mutex::default() }
    }

    /// Starts a login, to continue with the page `next`. Returns the address of the provider's login page.
    ///
    /// # Errors
    /// [`LoginError`] if the provider's metadata cannot be read.
    pub async fn start(&self, next: &str, now: Timestamp) -> Result<(Url, PendingLogin), LoginError> {
        let _permit = self.logins.try_acquire().map_err(|_| LoginError::Busy)?;
        let known = self.known(None).await?;
        let login = PendingLogin::draw(next, now.as_second());
        let mut url = known.metadata.authorization_endpoint.0.clone();
        let scopes = std::iter::once("openid").chain(self.settings.scopes.iter().map(String::as_str));
        let scopes: Vec<&str> = scopes.collect();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", self.settings.redirect.as_str())
            .append_pair("scope", &scopes.join(" "))
            .append_pair("state", &login.state)
            .append_pair("nonce", &login.nonce)
            .append_pair("code_challenge", &login.challenge())
            .append_pair("code_challenge_method", "S256");
        Ok((url, login))
    }

    /// Completes the `login` of a browser that the provider has sent back with `callback`. Returns the principal and its
    /// roles, at least one.
    ///
    /// # Errors
    /// [`LoginError`].
    pub async fn finish(
        &self,
        login: Option<&PendingLogin>,
        callback: &Callback,
        now: Timestamp,
    ) -> Result<(Principal, Vec<Grant>), LoginError> {
        let login = login.filter(|login| !callback.state.is_empty() && login.state == callback.state);
        let Some(login) = login else {
            let text = "this login was not started in this browser, or another one was started since; sign in again";
            return Err(LoginError::rejected(text));
        };
        if !(0..LIFETIME).contains(&(now.as_second() - login.started)) {
            return Err(LoginError::rejected("the login took longer than ten minutes; sign in again"));
        }
        if callback.iss.as_ref().is_some_and(|issuer| *issuer != self.settings.issuer) {
            return Err(LoginError::rejected("another provider has answered; sign in again"));
        }
        if !callback.error.is_empty() {
            let text = [&callback.error, &callback.error_description].map(|text| shortened(text));
            return Err(LoginError::rejected(format!("the provider refused the login: {}", joined(&text))));
        }
        let _permit = self.logins.try_acquire().map_err(|_| LoginError::Busy)?;
        self.complete_once(&login.state)?;
        let token = self.exchange(&callback.code, login).await?;
        let claims = self.verified(&token, &login.nonce, now).await?;
        let principal = claims.principal(&self.settings)?;
        let grants = self.settings.grants(claims.groups(&self.settings.groups_claim));
        if grants.is_empty() {
            return Err(LoginError::NoRole { principal: principal.to_string() });
        }
        Ok((principal, grants))
    }

    fn complete_once(&self, state: &str) -> Result<(), LoginError> {
        let mut completed = self.completed.lock();
        if completed.iter().any(|one| one == state) {
            return Err(LoginError::rejected("this login was completed before; sign in again"));
        }
        if completed.len() == MOST_COMPLETED {
            completed.pop_front();
        }
        completed.push_back(state.to_owned());
        Ok(())
    }

    /// Exchanges `code` for an ID token.
    async fn exchange(&self, code: &str, login: &PendingLogin) -> Result<String, LoginError> {
        let known = self.known(None).await?;
        let Settings { client_id, client_secret, redirect, .. } = &self.settings;
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect.as_str()),
            ("code_verifier", &login.verifier),
        ];
        let mut request = self.http.post(known.metadata.token_endpoint.0.clone());
        // `client_secret_basic` is the default (Discovery 3).
        let methods = known.metadata.token_endpoint_auth_methods_supported.as_deref();
        let takes_basic = methods.is_none_or(|methods| methods.iter().any(|method| method == "client_secret_basic"));
        match client_secret {
            Some(secret) if takes_basic => request = request.basic_auth(encoded(client_id), Some(encoded(secret))),
            Some(secret) => form.extend([("client_id", client_id.as_str()), ("client_secret", secret)]),
            None => form.push(("client_id", client_id)),
        }
        let tokens: Tokens = send(request.form(&form), "the token endpoint of the provider").await?;
        tokens.id_token.ok_or_else(|| LoginError::Provider("the provider has issued no ID token".to_owned()))
    }

    async fn verified(&self, token: &str, nonce: &str, now: Timestamp) -> Result<Claims, LoginError> {
        let mut known = self.known(None).await?;
        for is_last in [false, true] {
            match id_token::verify(token, &known.keys, &self.settings, nonce, now.as_second()) {
                Ok(claims) => return Ok(claims),
                Err(Invalid::UnknownKey) if !is_last => known = self.known(Some(&known)).await?,
                Err(Invalid::UnknownKey) => break,
                Err(Invalid::Rejected(error)) => return Err(error),
            }
        }
        let text = "the ID token of the provider is not accepted: none of the provider's published keys has signed it";
        Err(LoginError::rejected(text))
    }

    /// Metadata and keys of the provider, read again if they are old or still the `outdated` ones.
    async fn known(&self, outdated: Option<&Arc<Keys>>) -> Result<Arc<Keys>, LoginError> {
        let mut known = self.known.lock().await;
        let current = known.current.as_ref();
        let is_usable = |keys: &Arc<Keys>| outdated.is_none_or(|outdated| !Arc::ptr_eq(keys, outdated));
        if let Some((keys, _)) = current.filter(|(keys, read)| is_usable(keys) && read.elapsed() < MAX_AGE) {
            return Ok(Arc::clone(keys));
        }
        let old = current.map(|(keys, _)| Arc::clone(keys));
        // Strangers cause no more requests than one in this time.
        let recent = known.requested.as_ref().filter(|(time, _)| time.elapsed() < PAUSE);
        let failure = match recent {
            Some((_, failure)) => failure.clone(),
            None => match self.read().await {
                Ok(keys) => {
                    let (keys, now) = (Arc::new(keys), Instant::now());
                    known.current = Some((Arc::clone(&keys), now));
                    known.requested = outdated.map(|_| (now, None));
                    return Ok(keys);
                }
                Err(error) => {
                    tracing::warn!(error = %error, "the metadata of the OpenID Connect provider cannot be read");
                    known.requested = Some((Instant::now(), Some(error.to_string())));
                    Some(error.to_string())
                }
            },
        };
        match (old, failure) {
            (Some(keys), _) => Ok(keys),
            (None, failure) => Err(LoginError::Provider(failure.unwrap_or_default())),
        }
    }

    async fn read(&self) -> Result<Keys, LoginError> {
        let issuer = &self.settings.issuer;
        let address = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let metadata: Metadata = send(self.http.get(&address), "the metadata of the provider").await?;
        if metadata.issuer != *issuer {
            let text =
                format!("{address} is the metadata of the issuer {}, not of {issuer}", shortened(&metadata.issuer));
            return Err(LoginError::Provider(text));
        }
        let Metadata { authorization_endpoint, token_endpoint, jwks_uri, .. } = &metadata;
        let is_secure = issuer.starts_with("https:");
        if is_secure && [authorization_endpoint, token_endpoint, jwks_uri].iter().any(|url| url.0.scheme() != "https") {
            return Err(LoginError::Provider(format!("{address} names an endpoint without HTTPS")));
        }
        let Value::Object(mut set) = send(self.http.get(jwks_uri.0.clone()), "the keys of the provider").await? else {
            return Err(LoginError::Provider("the keys of the provider are not a key set".to_owned()));
        };
        // Keys of kinds that the library does not know are not used.
        let keys = set.remove("keys").and_then(|keys| keys.as_array().cloned()).unwrap_or_default();
        let keys = keys.into_iter().filter_map(|key| serde_json::from_value(key).ok()).collect();
        Ok(Keys { metadata, keys: JwkSet { keys } })
    }
}

/// Sends `request` to `endpoint` and parses its response.
async fn send<T: DeserializeOwned>(request: RequestBuilder, endpoint: &str) -> Result<T, LoginError> {
    let failed = |error: reqwest::Error| {
        let error: &dyn std::error::Error = &error.without_url();
        let mut text = format!("{endpoint} cannot be reached: {error}");
        let mut cause = error.source();
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        LoginError::Provider(text)
    };
    let exchange = async {
        let mut response = request.header("accept", "application/json").send().await.map_err(failed)?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > MAX_RESPONSE {
                return Err(LoginError::Provider(format!("{endpoint} responds with more than 1 MiB")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok((status, body))
    };
    let (status, body) = tokio::time::timeout(TIME_LIMIT, exchange)
        .await
        .map_err(|_| LoginError::Provider(format!("{endpoint} does not respond within {TIME_LIMIT:?}")))??;
    if status.is_success() {
        let unreadable = |error| LoginError::Provider(format!("the response of {endpoint} is unusable: {error}"));
        return serde_json::from_slice(&body).map_err(unreadable);
    }
    // OAuth 2.0 errors (RFC 6749, 5.2) state a reason.
    let reason: Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = ["error", "error_description"].map(|name| shortened(reason[name].as_str().unwrap_or_default()));
    let reason = joined(&text);
    let text = format!("{endpoint} responds with status {}", status.as_u16());
    let text = if reason.is_empty() { text } else { format!("{text}: {reason}") };
    Err(if status.is_client_error() { LoginError::Rejected(text) } else { LoginError::Provider(text) })
}

fn joined(texts: &[String]) -> String {
    texts.iter().filter(|text| !text.is_empty()).map(String::as_str).collect::<Vec<_>>().join(": ")
}

fn shortened(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(LONGEST_TEXT).collect()
}

/// Form encoding of credentials in HTTP Basic (RFC 6749, 2.3.1).
fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}
