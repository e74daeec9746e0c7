use std::collections::{BTreeSet, HashMap};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use parking_lot::Mutex;

use super::Caller;
use super::file::{TokenFile, TokenFileError};
use super::sessions::Session;
use super::token::{SignIn, Token, id_of, id_of_session};

/// Authenticates callers by the tokens of a file. Changes of the file apply from the next request on.
#[derive(Debug)]
pub struct Authenticator {
    file: TokenFile,
    /// Whether tokens were required at any time in this process.
    required: AtomicBool,
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    version: Option<Version>,
    tokens: Vec<Token>,
    /// Last use of each token, by ID.
    uses: HashMap<String, Timestamp>,
}

/// Identity of the file's content; changes when the file is replaced.
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
    /// Authenticator with the tokens of `file`.
    ///
    /// # Errors
    /// If the file cannot be read, or is missing although tokens were created.
    pub fn new(file: TokenFile) -> Result<Self, TokenFileError> {
        let authenticator = Self { file, required: AtomicBool::new(false), cache: Mutex::default() };
        authenticator.check()?;
        authenticator.requires_tokens();
        Ok(authenticator)
    }

    /// Whether callers need a token: true once a token has been created, even after all are revoked, or if the file is
    /// missing or unreadable. Stays true for this value after [`TokenFile::reset`].
    pub fn requires_tokens(&self) -> bool {
        if self.required.load(Ordering::Relaxed) {
            return true;
        }
        let is_required = self.file.is_required();
        if is_required {
            self.required.store(true, Ordering::Relaxed);
        }
        is_required
    }

    /// Requires callers to be authenticated even if no token was created, since they can sign in without one.
    pub fn require(&self) {
        self.required.store(true, Ordering::Relaxed);
    }

    /// Checks that the tokens are readable.
    ///
    /// # Errors
    /// As [`TokenFile::read`].
    pub fn check(&self) -> Result<(), TokenFileError> {
        self.with_tokens(|_| ())
    }

    /// Whether no token is valid at `now`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn has_no_valid_token(&self, now: Timestamp) -> Result<bool, TokenFileError> {
        self.with_tokens(|tokens| tokens.iter().all(|token| token.has_expired(now)))
    }

    /// Number of principals with a token that is valid at `now`.
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
        let token = self.with_tokens(|tokens| valid(tokens, id, now).cloned())?;
        let is_owner = |token: &Token| token.session.is_none() && token.matches(secret);
        let token = token.filter(is_owner).inspect(|token| self.note_use(token, now));
        Ok(token.map(Caller::Authenticated))
    }

    /// Returns the session with the secret `cookie`; `None` if it, or the token that opened it, is not valid at `now`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn session(&self, cookie: &str, now: Timestamp) -> Result<Option<Session>, TokenFileError> {
        let Some(id) = id_of_session(cookie) else { return Ok(None) };
        let found = self.with_tokens(|tokens| {
            let session = valid(tokens, id, now).filter(|session| session.matches(cookie))?;
            let visitor = match session.session.as_ref()? {
                SignIn::Token(id) => valid(tokens, id, now)?,
                SignIn::OpenIdConnect => session,
            };
            Some((session.clone(), visitor.clone()))
        });
        let found = found?.map(|(session, visitor)| Session::new(session, visitor, cookie));
        Ok(found.inspect(|session| self.note_use(&session.visitor, now)))
    }

    /// All tokens and sessions in order of creation, with their last use in this process.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn tokens(&self) -> Result<Vec<(Token, Option<Timestamp>)>, TokenFileError> {
        let tokens = self.with_tokens(<[Token]>::to_vec)?;
        let uses = &self.cache.lock().uses;
        Ok(tokens
            .into_iter()
            .map(|token| {
                let used = uses.get(&token.id).copied();
                (token, used)
            })
            .collect())
    }

    fn note_use(&self, token: &Token, now: Timestamp) {
        self.cache.lock().uses.insert(token.id.clone(), now);
    }

    fn with_tokens<T>(&self, read: impl FnOnce(&[Token]) -> T) -> Result<T, TokenFileError> {
        let mut cache = self.cache.lock();
        let version = std::fs::metadata(self.file.path()).ok().map(Version::from);
        if version.is_none() || cache.version != version {
            (cache.tokens, cache.version) = (self.file.read()?, version);
            let Cache { tokens, uses, .. } = &mut *cache;
            uses.retain(|id, _| tokens.iter().any(|token| token.id == *id));
        }
        Ok(read(&cache.tokens))
    }
}

/// The token or session `id`, if it is valid at `now`.
fn valid<'a>(tokens: &'a [Token], id: &str, now: Timestamp) -> Option<&'a Token> {
    tokens.iter().find(|token| token.id == id).filter(|token| !token.has_expired(now))
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

        assert_eq!(authenticator.tokens().unwrap(), [(viewer.token.clone(), None), (admin.token.clone(), None)]);
        let caller = authenticator.authenticate(&viewer.secret, now).unwrap().unwrap();
        assert_eq!(caller.principal(), "user:v@x");
        assert!(caller.may(Permission::StudiesGet, "p"));
        assert!(!caller.may(Permission::StudiesGet, "q"));
        assert!(!caller.may(Permission::StudiesCreate, "p"));
        assert!(
            !caller.may_everywhere(Permission::StudiesGet) && Caller::Anonymous.may_everywhere(Permission::StudiesGet)
        );
        let caller = authenticator.authenticate(&admin.secret, later).unwrap().unwrap();
        assert!(caller.may_everywhere(Permission::StudiesGet));
        let used: Vec<_> = authenticator.tokens().unwrap().into_iter().map(|(_, used)| used).collect();
        assert_eq!(used, [Some(now), Some(later)]);
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

    #[test]
    fn missing_tokens_open_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::new(folder.path().join("tokens.json"));
        let now = Timestamp::UNIX_EPOCH;
        let admin = Token::draw("user:a@x".parse().unwrap(), vec!["ml.admin".parse().unwrap()], now, None);
        file.add(admin.token.clone()).unwrap();
        let authenticator = Authenticator::new(file.clone()).unwrap();
        assert!(authenticator.authenticate(&admin.secret, now).unwrap().is_some());
        std::fs::remove_file(file.path()).unwrap();
        assert!(authenticator.requires_tokens());
        assert!(authenticator.authenticate(&admin.secret, now).is_err());
        assert!(Authenticator::new(file.clone()).is_err(), "a server does not start");
        file.reset().unwrap();
        assert!(authenticator.requires_tokens(), "a running server stays closed");
        assert_eq!(authenticator.authenticate(&admin.secret, now).unwrap(), None);
        assert!(!Authenticator::new(file).unwrap().requires_tokens());
    }
}
