//! Validation of ID tokens (OpenID Connect Core 3.1.3.7).

use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, decode, decode_header};
use serde_json::{Map, Value};
use tunesmith_access::Principal;

use super::error::LoginError;
use super::settings::Settings;
use super::signature::{self, ALGORITHMS};

/// Permitted difference between the clocks of the provider and this server, in seconds.
const LEEWAY: u64 = 60;

/// Claims of a valid ID token.
#[derive(Debug)]
pub(crate) struct Claims(Map<String, Value>);

/// Failures to verify an ID token.
#[derive(Debug)]
pub(crate) enum Invalid {
    /// None of the known keys has signed it; the provider may have replaced its keys.
    UnknownKey,
    Rejected(LoginError),
}

fn rejected(text: impl Into<String>) -> Invalid {
    Invalid::Rejected(LoginError::rejected(format!("the ID token of the provider is not accepted: {}", text.into())))
}

/// Verifies `token` for the login with `nonce` at `now`, in seconds since 1970.
pub(crate) fn verify(
    token: &str,
    keys: &JwkSet,
    settings: &Settings,
    nonce: &str,
    now: i64,
) -> Result<Claims, Invalid> {
    signature::install();
    let header = decode_header(token).map_err(|_| rejected("it is malformed, or signed by an unknown algorithm"))?;
    if !ALGORITHMS.contains(&header.alg) {
        return Err(rejected(format!("it is signed by {:?}, whose key is not public", header.alg)));
    }
    let key = key(&header, keys).ok_or(Invalid::UnknownKey)?;
    let key = DecodingKey::from_jwk(key).map_err(|_| rejected("its key cannot be used"))?;
    let mut validation = Validation::new(header.alg);
    validation.leeway = LEEWAY;
    validation.validate_nbf = true;
    validation.set_issuer(&[&settings.issuer]);
    validation.set_audience(&[&settings.client_id]);
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    let claims = decode::<Map<String, Value>>(token, &key, &validation).map_err(|error| reason(&error, settings))?;
    let claims = Claims(claims.claims);
    let text = |name: &str| claims.0.get(name).and_then(Value::as_str);
    // Several issuers are valid for the library only.
    if text("iss") != Some(settings.issuer.as_str()) {
        return Err(rejected("its issuer is another one"));
    }
    let is_only_audience = match &claims.0["aud"] {
        Value::Array(all) => all.len() == 1,
        _ => true,
    };
    if !is_only_audience || text("azp").is_some_and(|party| party != settings.client_id) {
        return Err(rejected("it is meant for other clients, too"));
    }
    let Some(issued) = claims.0.get("iat").and_then(Value::as_f64) else {
        return Err(rejected("the time of its issue (iat) is missing"));
    };
    #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are exact")]
    if issued > now as f64 + LEEWAY as f64 {
        let text =
            "it was issued in the future: the clocks of this server and of the provider differ by more than a minute";
        return Err(rejected(text));
    }
    if text("nonce") != Some(nonce) {
        return Err(rejected("it belongs to another login (nonce)"));
    }
    Ok(claims)
}

/// Key that `header` names, or the only one of its kind if it names none.
fn key<'a>(header: &Header, keys: &'a JwkSet) -> Option<&'a Jwk> {
    let is_usable = |key: &&Jwk| {
        matches!(key.common.public_key_use, None | Some(PublicKeyUse::Signature))
            && key.common.key_algorithm.is_none_or(|algorithm| algorithm.to_string() == name(header.alg))
            && has_kind(key, header.alg)
    };
    let mut usable = keys.keys.iter().filter(is_usable);
    match &header.kid {
        Some(id) => usable.find(|key| key.common.key_id.as_ref() == Some(id)),
        None => usable.next().filter(|_| usable.next().is_none()),
    }
}

/// Whether `key` is of the kind that `algorithm` needs.
fn has_kind(key: &Jwk, algorithm: Algorithm) -> bool {
    match (&key.algorithm, algorithm) {
        (AlgorithmParameters::EllipticCurve(key), Algorithm::ES256) => key.curve == EllipticCurve::P256,
        (AlgorithmParameters::EllipticCurve(key), Algorithm::ES384) => key.curve == EllipticCurve::P384,
        (AlgorithmParameters::EllipticCurve(_), _) => false,
        _ => DecodingKey::from_jwk(key).is_ok_and(|key| key.family() == algorithm.family()),
    }
}

fn name(algorithm: Algorithm) -> String {
    format!("{algorithm:?}")
}

fn reason(error: &Error, settings: &Settings) -> Invalid {
    let text = match error.kind() {
        ErrorKind::InvalidSignature => "its signature is wrong".to_owned(),
        ErrorKind::ExpiredSignature => {
            "it has expired; the clocks of this server and of the provider may differ".to_owned()
        }
        ErrorKind::ImmatureSignature => {
            "it is not valid yet; the clocks of this server and of the provider may differ".to_owned()
        }
        ErrorKind::InvalidIssuer => format!("its issuer is not {}", settings.issuer),
        ErrorKind::InvalidAudience => format!("it is meant for another client than {}", settings.client_id),
        ErrorKind::MissingRequiredClaim(claim) => format!("its claim {claim} is missing"),
        kind => format!("{kind:?}"),
    };
    rejected(text)
}

impl Claims {
    /// Principal of the account.
    pub(crate) fn principal(&self, settings: &Settings) -> Result<Principal, LoginError> {
        let claim = &settings.principal_claim;
        let Some(name) = self.0.get(claim).and_then(Value::as_str).filter(|name| !name.is_empty()) else {
            let text = format!(
                "the provider does not state the claim {claim}: request its scope in scopes, or choose another one in \
                 principalClaim"
            );
            return Err(LoginError::rejected(text));
        };
        if claim == "email" && self.0.get("email_verified") != Some(&Value::Bool(true)) {
            let text = format!(
                "the provider has not verified the address {name} (email_verified): verify it, or let the server's \
                 administrator choose another principalClaim"
            );
            return Err(LoginError::rejected(text));
        }
        let principal: Result<Principal, _> = format!("user:{name}").parse();
        principal.map_err(|error| LoginError::rejected(format!("claim {claim}: {error}")))
    }

    /// Groups of the account; none if the claim is missing. The claim is the name of a member, or else a path, such as
    /// `realm_access.roles`.
    pub(crate) fn groups(&self, claim: &str) -> Vec<&str> {
        let at_path = || {
            let mut parts = claim.split('.');
            let first = self.0.get(parts.next()?)?;
            parts.try_fold(first, |value, part| value.get(part))
        };
        match self.0.get(claim).or_else(at_path) {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }
}
