//! Browser sessions: a cookie replaces the token, until the session ends or its token is revoked.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use rand::Rng;
use sha2::{Digest, Sha256};

use super::Token;

pub const SESSION_COOKIE: &str = "tunesmith_session";

/// Header in which pages of a session send its CSRF secret, which other sites cannot read.
pub const CSRF_HEADER: &str = "x-tunesmith-csrf";

const DURATION: SignedDuration = SignedDuration::from_hours(12);

/// Maximum number of sessions per principal; a new one evicts the oldest. A guess: far more than the browsers of a
/// person.
const MOST_OF_PRINCIPAL: usize = 100;

/// Number of random bytes per secret.
const SECRET_BYTES: usize = 32;

/// Sessions of a server. They end with its process.
#[derive(Debug, Default)]
pub struct Sessions {
    open: Mutex<OpenSessions>,
}

#[derive(Debug, Default)]
struct OpenSessions {
    /// Keyed by the digest of the cookie's secret.
    by_cookie: HashMap<String, Session>,
    /// Number of sessions opened so far.
    opened: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Token that opened the session.
    pub token_id: String,
    principal: String,
    /// Number of sessions opened before.
    number: u64,
    /// CSRF secret, which changes repeat in a header, since browsers send the cookie automatically.
    pub csrf: String,
    pub expire_time: Timestamp,
}

impl Sessions {
    /// Opens a session with `token` at `now` and returns the secret for its cookie.
    pub fn open(&self, token: &Token, now: Timestamp) -> String {
        let ends = now.checked_add(DURATION).unwrap_or(Timestamp::MAX);
        let expire_time = token.expire_time.map_or(ends, |end| end.min(ends));
        let principal = token.principal.as_str().to_owned();
        let cookie = secret();
        let mut open = self.open.lock();
        open.by_cookie.retain(|_, session| session.expire_time > now);
        let own = || open.by_cookie.iter().filter(|(_, session)| session.principal == principal);
        let oldest = own().min_by_key(|(_, session)| session.number).map(|(key, _)| key.clone());
        if let Some(oldest) = oldest.filter(|_| own().count() >= MOST_OF_PRINCIPAL) {
            open.by_cookie.remove(&oldest);
        }
        let number = open.opened;
        open.opened += 1;
        let session = Session { token_id: token.id.clone(), principal, number, csrf: secret(), expire_time };
        open.by_cookie.insert(digest(&cookie), session);
        cookie
    }

    /// Finds the session with the secret `cookie`, unless it has ended at `now`.
    pub fn find(&self, cookie: &str, now: Timestamp) -> Option<Session> {
        self.open.lock().by_cookie.get(&digest(cookie)).filter(|session| session.expire_time > now).cloned()
    }

    pub fn close(&self, cookie: &str) {
        self.open.lock().by_cookie.remove(&digest(cookie));
    }

    /// Number of open sessions at `now`, by token ID.
    pub fn counts(&self, now: Timestamp) -> HashMap<String, usize> {
        let mut counts = HashMap::new();
        for session in self.open.lock().by_cookie.values().filter(|session| session.expire_time > now) {
            *counts.entry(session.token_id.clone()).or_default() += 1;
        }
        counts
    }
}

impl Session {
    /// Whether `given` is the CSRF secret. Compares digests, so the run time does not depend on the secret.
    pub fn allows(&self, given: &str) -> bool {
        digest(&self.csrf) == digest(given)
    }
}

fn secret() -> String {
    let mut random = [0; SECRET_BYTES];
    rand::rng().fill_bytes(&mut random);
    URL_SAFE_NO_PAD.encode(random)
}

fn digest(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ends_with_its_time_its_token_and_at_a_sign_out() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let token = |end| Token::draw("user:a@x".parse().unwrap(), Vec::new(), at(0), end).token;
        let sessions = Sessions::default();
        let (long, short) = (token(None), token(Some(at(60))));
        let (first, second) = (sessions.open(&long, at(0)), sessions.open(&short, at(0)));
        assert_ne!(first, second);
        let session = sessions.find(&first, at(59)).unwrap();
        assert_eq!(session.token_id, long.id);
        assert!(session.allows(&session.csrf) && !session.allows("") && !session.allows(&first));
        assert!(sessions.find(&second, at(59)).is_some());
        assert_eq!(sessions.counts(at(59)), HashMap::from([(long.id.clone(), 1), (short.id.clone(), 1)]));
        assert_eq!(sessions.counts(at(60)), HashMap::from([(long.id.clone(), 1)]));
        assert_eq!(sessions.find(&second, at(60)), None);
        assert_eq!(sessions.find(&first, at(12 * 60 * 60)), None);
        assert_eq!(sessions.find("", at(0)), None);
        sessions.close(&first);
        assert_eq!(sessions.find(&first, at(1)), None);
    }

    #[test]
    fn principal_with_too_many_sessions_loses_its_own_oldest_one() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let token = |principal: &str, end| Token::draw(principal.parse().unwrap(), Vec::new(), at(0), end).token;
        let sessions = Sessions::default();
        let admin = sessions.open(&token("user:admin@x", None), at(0));
        // Two tokens of one principal share its limit; the session that ends first is not the oldest one.
        let tokens = [token("user:viewer@x", None), token("user:viewer@x", Some(at(3600)))];
        let opened: Vec<String> =
            (0..10_050).map(|number: usize| sessions.open(&tokens[usize::from(number % 2 == 1)], at(1))).collect();
        assert!(sessions.find(&admin, at(2)).is_some());
        let remaining: Vec<bool> = opened.iter().map(|cookie| sessions.find(cookie, at(2)).is_some()).collect();
        let expected: Vec<bool> = (0..10_050).map(|number| number >= 10_050 - MOST_OF_PRINCIPAL).collect();
        assert_eq!(remaining, expected);
    }
}
