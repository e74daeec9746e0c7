//! Recognises callers by the tokens that they show.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

use super::Caller;
use super::file::{TokenFile, TokenFileError};
use super::token::{Token, id_of};

/// Knows the tokens of a file, and follows its changes: a token that was revoked is refused from the next request on.
#[derive(Debug)]
pub struct Keeper {
    file: TokenFile,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    version: Option<Version>,
    tokens: Vec<Token>,
}

/// Changes whenever the file is replaced.
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

impl Keeper {
    /// Callers with a token of `file`.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn new(file: TokenFile) -> Result<Self, TokenFileError> {
        let keeper = Self { file, known: Mutex::default() };
        keeper.with_tokens(|_| ())?;
        Ok(keeper)
    }

    /// Whether callers have to show tokens: from the first token on that was ever made, also when all of them have been
    /// revoked since.
    pub fn asks_for_tokens(&self) -> bool {
        self.file.path().exists()
    }

    /// Whether there are no tokens that hold at `now`, so that nobody could be recognised.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn knows_nobody(&self, now: Timestamp) -> Result<bool, TokenFileError> {
        self.with_tokens(|tokens| tokens.iter().all(|token| token.has_expired(now)))
    }

    /// Who shows the token `shown` at `now`; `None` if it is none that holds.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn recognise(&self, shown: &str, now: Timestamp) -> Result<Option<Caller>, TokenFileError> {
        let Some(id) = id_of(shown) else { return Ok(None) };
        let token = self.with_tokens(|tokens| tokens.iter().find(|token| token.id == id).cloned())?;
        let holds = |token: &Token| token.is_shown_by(shown) && !token.has_expired(now);
        Ok(token.filter(holds).map(Caller::Known))
    }

    fn with_tokens<T>(&self, look: impl FnOnce(&[Token]) -> T) -> Result<T, TokenFileError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let version = std::fs::metadata(self.file.path()).ok().map(Version::from);
        if known.version != version {
            *known = Known { tokens: self.file.read()?, version };
        }
        Ok(look(&known.tokens))
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::{Caller, Permission, Token, TokenFile};
    use super::Keeper;

    #[test]
    fn callers_are_recognised_until_their_token_ends_or_is_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::new(folder.path().join("tokens.json"));
        let keeper = Keeper::new(file.clone()).unwrap();
        let (now, later) = (Timestamp::from_second(1000).unwrap(), Timestamp::from_second(2000).unwrap());
        assert!(keeper.knows_nobody(now).unwrap());
        assert!(!keeper.asks_for_tokens());

        let grants = vec!["ml.viewer@p".parse().unwrap()];
        let viewer = Token::draw("user:v@x".parse().unwrap(), grants, now, Some(later));
        let admin = Token::draw("user:a@x".parse().unwrap(), vec!["ml.admin".parse().unwrap()], now, None);
        file.add(viewer.token.clone()).unwrap();
        file.add(admin.token.clone()).unwrap();
        assert!(!keeper.knows_nobody(now).unwrap());

        let caller = keeper.recognise(&viewer.secret, now).unwrap().unwrap();
        assert_eq!(caller.principal(), "user:v@x");
        assert!(caller.may(Permission::StudiesGet, "p"));
        assert!(!caller.may(Permission::StudiesGet, "q"));
        assert!(!caller.may(Permission::StudiesCreate, "p"));
        let caller = keeper.recognise(&admin.secret, later).unwrap().unwrap();
        assert!(caller.may(Permission::JobsSetIamPolicy, "anything"));
        assert!(Caller::Anonymous.may(Permission::JobsSetIamPolicy, "anything"));

        assert_eq!(keeper.recognise(&viewer.secret, later).unwrap(), None, "it has ended");
        let other = format!("{}x", admin.secret);
        assert_eq!(keeper.recognise(&other, now).unwrap(), None, "the secret is another");
        assert_eq!(keeper.recognise("tsm_", now).unwrap(), None);
        assert_eq!(keeper.recognise("", now).unwrap(), None);
        file.revoke(&admin.token.id).unwrap();
        assert_eq!(keeper.recognise(&admin.secret, now).unwrap(), None, "it was revoked");
        file.revoke(&viewer.token.id).unwrap();
        assert!(keeper.asks_for_tokens(), "revoking the last token opens nothing");
    }
}
