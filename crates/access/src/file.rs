//! Token file of a data folder. The command line changes it while a server reads it.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::sessions::MOST_OF_PRINCIPAL;
use super::token::Token;

/// Errors of reading or changing tokens. The file is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    #[error("{} cannot be {operation}", path.display())]
    Io {
        operation: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "{} is damaged, and no request is answered without a token: restore it, or remove all tokens with tunesmith \
         tokens reset",
        path.display()
    )]
    Damaged {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error(
        "{} is missing, and no request is answered without a token: restore it, or remove all tokens with tunesmith \
         tokens reset",
        path.display()
    )]
    Missing { path: PathBuf },
    #[error("{} is being changed by another program; try again", path.display())]
    Busy { path: PathBuf },
    #[error("there is no token {id}")]
    NotFound { id: String },
}

/// Tokens of a data folder. Each change replaces the file atomically.
///
/// A marker beside the file records that tokens were created. With it, a missing file is an error rather than a folder
/// without tokens, until [`TokenFile::reset`].
#[derive(Debug, Clone)]
pub struct TokenFile {
    path: PathBuf,
}

/// Change of the tokens.
#[derive(Debug, Clone)]
pub enum TokenChange {
    Add(Token),
    Revoke {
        id: String,
    },
    /// Adds a successor of the token `id`.
    Rotate {
        id: String,
        successor: Token,
        /// Time from which the token `id` is invalid; `None`: it is removed at once.
        end: Option<Timestamp>,
    },
    /// Adds a session. Removes ended ones, and the oldest of a principal that has too many.
    OpenSession(Token),
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    tokens: Vec<Token>,
}

impl TokenFile {
    /// Token file at `path`, which need not exist.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether tokens were created since the last [`Self::reset`]. Also true if unknown.
    pub fn is_required(&self) -> bool {
        // A dangling link exists.
        let may_exist = |path: &Path| match fs::symlink_metadata(path) {
            Ok(_) => true,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        may_exist(&self.path) || may_exist(&self.marker())
    }

    /// Removes all tokens, so that none is required. The file may be missing or damaged.
    ///
    /// # Errors
    /// [`TokenFileError::Io`], [`TokenFileError::Busy`].
    pub fn reset(&self) -> Result<(), TokenFileError> {
        if !self.is_required() {
            return Ok(());
        }
        let _lock = self.lock()?;
        // The marker is removed last: until then, tokens are required.
        for path in [self.path.clone(), self.marker()] {
            let removed = match fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                removed => removed,
            };
            let removed = removed.and_then(|()| File::open(self.folder())?.sync_all());
            removed.map_err(|source| TokenFileError::Io { operation: "removed", path, source })?;
        }
        Ok(())
    }

    /// Returns all tokens in order of creation; none if no token was created.
    ///
    /// # Errors
    /// [`TokenFileError::Io`], [`TokenFileError::Damaged`], [`TokenFileError::Missing`].
    pub fn read(&self) -> Result<Vec<Token>, TokenFileError> {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return if self.is_required() {
                    Err(TokenFileError::Missing { path: self.path.clone() })
                } else {
                    Ok(Vec::new())
                };
            }
            Err(source) => return Err(self.failed("read")(source)),
        };
        let content: Content = serde_json::from_slice(&text)
            .map_err(|source| TokenFileError::Damaged { path: self.path.clone(), source })?;
        Ok(content.tokens)
    }

    /// Exports the tokens for other servers; `None` if no token was created.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn content(&self) -> Result<Option<Vec<u8>>, TokenFileError> {
        if !self.is_required() {
            return Ok(None);
        }
        let tokens = self.read()?;
        let text = serde_json::to_vec_pretty(&Content { tokens });
        text.map(Some).map_err(|source| TokenFileError::Damaged { path: self.path.clone(), source })
    }

    /// Replaces all tokens by `content`, exported by [`Self::content`] on another server.
    pub fn set_content(&self, content: Option<&[u8]>) -> Result<(), TokenFileError> {
        let Some(content) = content else { return self.reset() };
        let Content { tokens } = serde_json::from_slice(content)
            .map_err(|source| TokenFileError::Damaged { path: self.path.clone(), source })?;
        fs::create_dir_all(self.folder()).map_err(self.failed("created"))?;
        let _lock = self.lock()?;
        self.write(tokens)
    }

    pub fn add(&self, token: Token) -> Result<(), TokenFileError> {
        self.change(|tokens| {
            tokens.push(token);
            Ok(())
        })
    }

    /// Applies `change`.
    ///
    /// # Errors
    /// [`TokenFileError::NotFound`] and the others.
    pub fn apply(&self, change: TokenChange) -> Result<(), TokenFileError> {
        match change {
            TokenChange::Add(token) => self.add(token),
            TokenChange::Revoke { id } => self.revoke(&id).map(|_| ()),
            TokenChange::OpenSession(session) => self.change(|tokens| {
                tokens.retain(|token| token.session.is_none() || !token.has_expired(session.create_time));
                let is_own = |token: &Token| token.session.is_some() && token.principal == session.principal;
                let excess =
                    (tokens.iter().filter(|token| is_own(token)).count() + 1).saturating_sub(MOST_OF_PRINCIPAL);
                let mut own = 0;
                tokens.retain(|token| {
                    own += usize::from(is_own(token));
                    !is_own(token) || own > excess
                });
                tokens.push(session);
                Ok(())
            }),
            TokenChange::Rotate { id, successor, end } => self.change(|tokens| {
                let index = tokens.iter().position(|token| token.id == id);
                let index = index.ok_or_else(|| TokenFileError::NotFound { id: id.clone() })?;
                tokens.push(successor);
                match end {
                    Some(end) => tokens[index].end_by(end),
                    None => drop(tokens.remove(index)),
                }
                Ok(())
            }),
        }
    }

    /// Removes the token `id` and returns it.
    ///
    /// # Errors
    /// [`TokenFileError::NotFound`] and the others.
    pub fn revoke(&self, id: &str) -> Result<Token, TokenFileError> {
        self.change(|tokens| {
            let index = tokens.iter().position(|token| token.id == id);
            let index = index.ok_or_else(|| TokenFileError::NotFound { id: id.to_owned() })?;
            Ok(tokens.remove(index))
        })
    }

    fn change<T>(
        &self,
        change: impl FnOnce(&mut Vec<Token>) -> Result<T, TokenFileError>,
    ) -> Result<T, TokenFileError> {
        let directory = self.folder();
        fs::create_dir_all(directory).map_err(self.failed("created"))?;
        let _lock = self.lock()?;
        let mut tokens = self.read()?;
        let result = change(&mut tokens)?;
        self.write(tokens)?;
        Ok(result)
    }

    /// Replaces the file. The caller holds the lock.
    fn write(&self, tokens: Vec<Token>) -> Result<(), TokenFileError> {
        let directory = self.folder();
        let text = serde_json::to_vec_pretty(&Content { tokens })
            .map_err(|source| TokenFileError::Damaged { path: self.path.clone(), source })?;
        // Temporary files are accessible only to the owner.
        let mut file = tempfile::NamedTempFile::new_in(directory).map_err(self.failed("written"))?;
        file.write_all(&text).and_then(|()| file.as_file().sync_all()).map_err(self.failed("written"))?;
        file.persist(&self.path).map_err(|error| self.failed("written")(error.error))?;
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(self.failed("written"))?;
        self.write_marker()
    }

    fn write_marker(&self) -> Result<(), TokenFileError> {
        let marker = self.marker();
        if marker.exists() {
            return Ok(());
        }
        let failed = |source| TokenFileError::Io { operation: "written", path: marker.clone(), source };
        let write = || {
            let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&marker)?;
            file.write_all(b"tunesmith access 1, tokens required\n")?;
            file.sync_all()?;
            File::open(self.folder())?.sync_all()
        };
        write().map_err(failed)
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// File whose existence records that tokens were created.
    fn marker(&self) -> PathBuf {
        self.path.with_file_name("TOKENS")
    }

    fn lock(&self) -> Result<File, TokenFileError> {
        let path = self.path.with_extension("lock");
        let options = File::options().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = options.map_err(self.failed("locked"))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(TokenFileError::Busy { path: self.path.clone() }),
            Err(TryLockError::Error(source)) => Err(self.failed("locked")(source)),
        }
    }

    fn failed(&self, operation: &'static str) -> impl Fn(io::Error) -> TokenFileError {
        let path = self.path.clone();
        move |source| TokenFileError::Io { operation, path: path.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::token::{Token, id_of};
    use super::{TokenChange, TokenFile, TokenFileError};

    #[test]
    fn token_is_stored_without_its_secret_until_it_is_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::new(folder.path().join("tokens.json"));
        assert_eq!(file.read().unwrap(), []);
        let principal = "user:ada@example.com".parse().unwrap();
        let grants = vec!["ml.developer@p".parse().unwrap()];
        let made = Token::draw(principal, grants, Timestamp::UNIX_EPOCH, None);
        file.add(made.token.clone()).unwrap();

        let kept = file.read().unwrap();
        assert_eq!(kept, std::slice::from_ref(&made.token));
        assert!(kept[0].matches(&made.secret));
        assert!(!kept[0].matches(&made.secret[1..]));
        assert_eq!(id_of(&made.secret), Some(made.token.id.as_str()));
        let text = std::fs::read_to_string(file.path()).unwrap();
        let secret = made.secret.splitn(3, '_').last().unwrap();
        assert!(!text.contains(secret), "{text}");
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(file.path()).unwrap());
        assert_eq!(mode & 0o777, 0o600);

        assert_eq!(file.revoke(&made.token.id).unwrap(), made.token);
        assert!(matches!(file.revoke(&made.token.id), Err(TokenFileError::NotFound { .. })));
        assert_eq!(file.read().unwrap(), []);
    }

    #[test]
    fn rotated_token_ends_at_once_or_after_the_overlap_but_never_later_than_before() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::new(folder.path().join("tokens.json"));
        let at = |second| Timestamp::from_second(second).unwrap();
        let draw = |expiry| Token::draw("user:a@x".parse().unwrap(), Vec::new(), at(0), expiry).token;
        let (endless, short) = (draw(None), draw(Some(at(5))));
        for token in [&endless, &short] {
            file.add(token.clone()).unwrap();
        }
        let rotate = |id: &str, end| file.apply(TokenChange::Rotate { id: id.to_owned(), successor: draw(None), end });
        rotate(&endless.id, Some(at(10))).unwrap();
        rotate(&short.id, Some(at(10))).unwrap();
        let ends = |file: &TokenFile| file.read().unwrap().iter().map(|token| token.expire_time).collect::<Vec<_>>();
        assert_eq!(ends(&file), [Some(at(10)), Some(at(5)), None, None]);
        rotate(&endless.id, None).unwrap();
        assert_eq!(ends(&file), [Some(at(5)), None, None, None]);
        assert!(matches!(rotate(&endless.id, None), Err(TokenFileError::NotFound { .. })));
        assert_eq!(ends(&file).len(), 4, "a failed rotation adds nothing");
    }

    #[test]
    fn missing_file_is_an_error_from_the_first_token_until_a_reset() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        let file = TokenFile::new(path.clone());
        assert!(!file.is_required());
        file.reset().unwrap();
        let made = Token::draw("user:a@x".parse().unwrap(), Vec::new(), Timestamp::UNIX_EPOCH, None);
        file.add(made.token.clone()).unwrap();
        let breakages: [fn(&std::path::Path); 3] = [
            |path| std::fs::remove_file(path).unwrap(),
            |path| std::os::unix::fs::symlink("nowhere", path).unwrap(),
            |path| {
                std::fs::remove_file(path).unwrap();
                std::fs::create_dir(path).unwrap();
            },
        ];
        for damage in breakages {
            damage(&path);
            assert!(file.is_required());
            assert!(matches!(file.read(), Err(TokenFileError::Missing { .. } | TokenFileError::Io { .. })));
            assert!(file.add(made.token.clone()).is_err(), "a new token does not hide the loss of the others");
        }
        std::fs::remove_dir(&path).unwrap();
        file.reset().unwrap();
        assert!(!file.is_required());
        assert_eq!(file.read().unwrap(), []);

        file.add(made.token).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(file.is_required());
    }

    #[test]
    fn tokens_are_passed_to_another_file() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("a/tokens.json"), folder.path().join("b/tokens.json"));
        let (first, second) = (TokenFile::new(first), TokenFile::new(second));
        assert_eq!(first.content().unwrap(), None);
        let made = Token::draw("user:a@x".parse().unwrap(), Vec::new(), Timestamp::UNIX_EPOCH, None);
        first.add(made.token.clone()).unwrap();
        second.set_content(first.content().unwrap().as_deref()).unwrap();
        assert_eq!(second.read().unwrap(), [made.token]);
        assert!(second.is_required());
        assert!(matches!(second.set_content(Some(b"{")), Err(TokenFileError::Damaged { .. })));
        assert_eq!(second.read().unwrap().len(), 1);
        second.set_content(None).unwrap();
        assert!(!second.is_required());
    }

    #[test]
    fn damaged_file_is_reported_and_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        std::fs::write(&path, "{\"tokens\": [{}]}").unwrap();
        let file = TokenFile::new(path.clone());
        assert!(matches!(file.read(), Err(TokenFileError::Damaged { .. })));
        assert!(matches!(file.revoke("x"), Err(TokenFileError::Damaged { .. })));
        assert_eq!(std::fs::read_to_string(path).unwrap(), "{\"tokens\": [{}]}");
    }
}
