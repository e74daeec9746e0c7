//! Sessions of browsers: a cookie replaces the token, until the session ends or its token is revoked.
//!
//! A session is stored like a token, as the digest of its secret, so that it survives a restart and is known to all servers
//! that share their tokens.

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use super::token::{Grant, NewToken, Principal, SignIn, Token};

pub const SESSION_COOKIE: &str = "tunesmith_session";

/// Header in which pages of a session send its CSRF secret, which other sites cannot read.
pub const CSRF_HEADER: &str = "x-tunesmith-csrf";

const DURATION: SignedDuration = SignedDuration::from_hours(12);

/// Maximum number of sessions per principal; a new one evicts the oldest. A guess: far more than the browsers of a
/// person.
pub(super) const MOST_OF_PRINCIPAL: usize = 100;

/// Open session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub id: String,
    /// Token of the visitor: the one that opened the session, or else the session's own.
    pub visitor: Token,
    /// CSRF secret, which changes repeat in a header, since browsers send the cookie automatically.
    pub csrf: String,
}

impl Session {
    /// Draws a session that `token` opens at `now`. It ends with the token.
    pub fn of_token(token: &Token, now: Timestamp) -> NewToken {
        let end = token.expire_time.map_or_else(|| end(now), |own| own.min(end(now)));
        // Its roles are those of the token.
        Token::draw_session(token.principal.clone(), Vec::new(), SignIn::Token(token.id.clone()), (now, end))
    }

    /// Draws a session of a principal that an identity provider has authenticated.
    pub fn of_principal(principal: Principal, grants: Vec<Grant>, now: Timestamp) -> NewToken {
        Token::draw_session(principal, grants, SignIn::OpenIdConnect, (now, end(now)))
    }

    pub(super) fn new(session: Token, visitor: Token, cookie: &str) -> Self {
        Self { id: session.id, visitor, csrf: csrf(cookie) }
    }

    /// Whether `given` is the CSRF secret. Compares digests, so the run time does not depend on the secret.
    pub fn allows(&self, given: &str) -> bool {
        Sha256::digest(&self.csrf) == Sha256::digest(given)
    }
}

fn end(now: Timestamp) -> Timestamp {
    now.checked_add(DURATION).unwrap_or(Timestamp::MAX)
}

/// CSRF secret of the session with the secret `cookie`. It does not follow from the stored digest of the cookie.
fn csrf(cookie: &str) -> String {
    hex::encode(Sha256::new().chain_update("csrf\0").chain_update(cookie).finalize())
}

#[cfg(test)]
mod tests {
    use super::super::{Authenticator, TokenChange, TokenFile};
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn files() -> (tempfile::TempDir, TokenFile) {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::new(folder.path().join("tokens.json"));
        (folder, file)
    }

    fn token(file: &TokenFile, principal: &str, end: Option<Timestamp>) -> Token {
        let grants = vec!["ml.viewer@p".parse().unwrap()];
        let token = Token::draw(principal.parse().unwrap(), grants, at(0), end).token;
        file.add(token.clone()).unwrap();
        token
    }

    fn open(file: &TokenFile, token: &Token, now: Timestamp) -> String {
        let NewToken { token: session, secret } = Session::of_token(token, now);
        file.apply(TokenChange::OpenSession(session)).unwrap();
        secret
    }

    #[test]
    fn session_ends_with_its_time_its_token_and_at_a_sign_out() {
        let (_folder, file) = files();
        let (long, short) = (token(&file, "user:a@x", None), token(&file, "user:a@x", Some(at(60))));
        let (first, second) = (open(&file, &long, at(0)), open(&file, &short, at(0)));
        assert_ne!(first, second);
        // Another process finds them.
        let authenticator = Authenticator::new(file.clone()).unwrap();
        let found = |cookie: &str, second| authenticator.session(cookie, at(second)).unwrap();
        let session = found(&first, 59).unwrap();
        assert_eq!(session.visitor, long);
        assert!(session.allows(&session.csrf) && !session.allows("") && !session.allows(&first));
        assert!(found(&second, 59).is_some());
        assert_eq!(found(&second, 60), None, "its token has expired");
        assert!(found(&first, 12 * 60 * 60 - 1).is_some());
        assert_eq!(found(&first, 12 * 60 * 60), None);
        assert_eq!((found("", 0), found(&first[1..], 0)), (None, None));
        assert_eq!(authenticator.authenticate(&first, at(0)).unwrap(), None, "a cookie is not a token");
        file.revoke(&session.id).unwrap();
        assert_eq!(found(&first, 1), None);
        file.revoke(&short.id).unwrap();
        assert_eq!(found(&second, 1), None);
    }

    #[test]
    fn session_of_an_identity_has_its_own_roles() {
        let (_folder, file) = files();
        let grants = vec!["ml.developer@p".parse().unwrap()];
        let NewToken { token, secret } = Session::of_principal("user:ada@x".parse().unwrap(), grants, at(0));
        file.apply(TokenChange::OpenSession(token.clone())).unwrap();
        let authenticator = Authenticator::new(file).unwrap();
        let session = authenticator.session(&secret, at(1)).unwrap().unwrap();
        assert_eq!((session.visitor.principal.as_str(), &session.visitor.grants), ("user:ada@x", &token.grants));
        assert_eq!(authenticator.valid_principals(at(1)).unwrap(), 1);
    }

    #[test]
    fn principal_with_too_many_sessions_loses_its_own_oldest_one() {
        let (_folder, file) = files();
        let admin = open(&file, &token(&file, "user:admin@x", None), at(0));
        // Two tokens of one principal share its limit; the session that ends first is not the oldest one.
        let tokens = [token(&file, "user:viewer@x", None), token(&file, "user:viewer@x", Some(at(3600)))];
        let number = MOST_OF_PRINCIPAL + 5;
        let opened: Vec<String> =
            (0..number).map(|number| open(&file, &tokens[usize::from(number % 2 == 1)], at(1))).collect();
        let authenticator = Authenticator::new(file.clone()).unwrap();
        let is_open = |cookie: &String| authenticator.session(cookie, at(2)).unwrap().is_some();
        assert!(is_open(&admin));
        let remaining: Vec<bool> = opened.iter().map(is_open).collect();
        assert_eq!(remaining, (0..number).map(|number| number >= 5).collect::<Vec<bool>>());
        // Ended sessions are removed when another one is opened.
        let later = at(24 * 60 * 60);
        open(&file, &tokens[0], later);
        assert_eq!(file.read().unwrap().iter().filter(|token| token.session.is_some()).count(), 1);
    }
}
