//! Identification of callers by their tokens.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

use super::Caller;
use super::file::{TokenFile, TokenFileError};
use super::token::{Token, id_of};

/// Identifies callers by the tokens of a file. Changes of the file apply from the next request on.
#[derive(Debug)]
pub struct Authenticator {
    file: TokenFile,
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    version: Option<Version>,
    tokens: Vec<Token>,
}

/// The identity of the file's content; it changes when the file is replaced.
#[derive(Debug, PartialEq, Eq)]
struct Version {
    inode: u64,
    modified: (i64, i64),
    length: u64,
}

impl From<Metadata> for Version {
    fn from(file: Metadata) -> Self {
        Self { inode: file.ino(), modified: (file.mtime(), file.mtime_nsec()), length: file.len() }
    }
}

impl Authenticator {
    /// An authenticator with the tokens of `file`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn new(file: TokenFile) -> Result<Self, TokenFileError> {
        let authenticator = Self { file, cache: Mutex::default() };
        authenticator.with_tokens(|_| ())?;
        Ok(authenticator)
    }

    /// Whether callers need a token. True once a token has been created, also after all tokens have been revoked.
    pub fn requires_tokens(&self) -> bool {
        self.file.path().exists()
    }

    /// Whether no token is valid at `now`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn has_no_valid_token(&self, now: Timestamp) -> Result<bool, TokenFileError> {
        self.with_tokens(|tokens| tokens.iter().all(|token| token.has_expired(now)))
    }

    /// Returns the number of principals with a token that is valid at `now`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn valid_principals(&self, now: Timestamp) -> Result<usize, TokenFileError> {
        self.with_tokens(|tokens| {
            let valid = tokens.iter().filter(|token| !token.has_expired(now));
            valid.map(|token| token.principal.as_str()).collect::<BTreeSet<_>>().len()
        })
    }

    /// Returns the caller with the token `secret`; `None` if the token is not valid at `now`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn authenticate(&self, secret: &str, now: Timestamp) -> Result<Option<Caller>, TokenFileError> {
        let Some(id) = id_of(secret) else { return Ok(None) };
        let token = self.with_tokens(|tokens| tokens.iter().find(|token| token.id == id).cloned())?;
        let is_valid = |token: &Token| token.matches(secret) && !token.has_expired(now);
        Ok(token.filter(is_valid).map(Caller::Authenticated))
    }

    fn with_tokens<T>(&self, read: impl FnOnce(&[Token]) -> T) -> Result<T, TokenFileError> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let version = std::fs::metadata(self.file.path()).ok().map(Version::from);
        if cache.version != version {
            *cache = Cache { tokens: self.file.read()?, version };
        }
        Ok(read(&cache.tokens))
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::{Caller, Permission, Token, TokenFile};
    use super::Authenticator;

    #[test]
    fn callers_are_authenticated_until_their_token_expires_or_is_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::new(folder.path().join("tokens.json"));
        let authenticator = Authenticator::new(file.clone()).unwrap();
        let (now, later) = (Timestamp::from_second(1000).unwrap(), Timestamp::from_second(2000).unwrap());
        assert!(authenticator.has_no_valid_token(now).unwrap());
        assert!(!authenticator.requires_tokens());

        let grants = vec!["ml.viewer@p".parse().unwrap()];
        let viewer = Token::draw("user:v@x".parse().unwrap(), grants, now, Some(later));
        let admin = Token::draw("user:a@x".parse().unwrap(), vec!["ml.admin".parse().unwrap()], now, None);
        file.add(viewer.token.clone()).unwrap();
        file.add(admin.token.clone()).unwrap();
        assert!(!authenticator.has_no_valid_token(now).unwrap());
        assert_eq!(authenticator.valid_principals(now).unwrap(), 2);
        assert_eq!(authenticator.valid_principals(later).unwrap(), 1);

        let caller = authenticator.authenticate(&viewer.secret, now).unwrap().unwrap();
        assert_eq!(caller.principal(), "user:v@x");
        assert!(caller.may(Permission::StudiesGet, "p"));
        assert!(!caller.may(Permission::StudiesGet, "q"));
        assert!(!caller.may(Permission::StudiesCreate, "p"));
        let caller = authenticator.authenticate(&admin.secret, later).unwrap().unwrap();
        assert!(caller.may(Permission::JobsSetIamPolicy, "anything"));
        assert!(Caller::Anonymous.may(Permission::JobsSetIamPolicy, "anything"));

        assert_eq!(authenticator.authenticate(&viewer.secret, later).unwrap(), None, "expired");
        let other = format!("{}x", admin.secret);
        assert_eq!(authenticator.authenticate(&other, now).unwrap(), None, "another secret");
        assert_eq!(authenticator.authenticate("tsm_", now).unwrap(), None);
        assert_eq!(authenticator.authenticate("", now).unwrap(), None);
        file.revoke(&admin.token.id).unwrap();
        assert_eq!(authenticator.authenticate(&admin.secret, now).unwrap(), None, "revoked");
        file.revoke(&viewer.token.id).unwrap();
        assert!(authenticator.requires_tokens(), "tokens are still required after the last one was revoked");
    }
}
