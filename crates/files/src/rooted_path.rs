//! Paths to files that a program may write.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, fchmod, fstat, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::umask::umask_of_user;
use super::user::FileUser;

const PRIVATE: u32 = 0o600;

/// Mode of created folders until the user's umask applies.
const PRIVATE_FOLDER: u32 = 0o700;

/// Maximum number of listed entries per folder. A guess, far above the use of any program.
const MAX_ENTRIES: usize = 100_000;

/// Path below a trusted folder. The folder may be reached through links; no component below it may be a link.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RootedPath {
    folder: Arc<Path>,
    below: PathBuf,
    /// User whose permissions apply; `None` for this process.
    user: Option<Arc<FileUser>>,
    /// Excluded folders by device and inode: they may be mounted below the trusted folder.
    closed: Arc<[(u64, u64)]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub name: OsString,
    pub is_file: bool,
    pub is_folder: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("not a regular file")]
    NotRegular,
    /// The name has a NUL, or is too long for the file system.
    #[error("no file can have this name")]
    ImpossibleName,
    #[error("more than {limit} bytes")]
    TooLarge { limit: u64 },
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl OpenError {
    /// Whether the file does not exist, or cannot.
    pub fn is_not_found(&self) -> bool {
        match self {
            Self::ImpossibleName => true,
            Self::Io(error) => error.kind() == io::ErrorKind::NotFound,
            Self::NotRegular | Self::TooLarge { .. } => false,
        }
    }
}

impl From<Errno> for OpenError {
    fn from(error: Errno) -> Self {
        match error {
            // A link, or a component that is not a folder; a pipe without reader.
            Errno::LOOP | Errno::NOTDIR | Errno::NXIO => Self::NotRegular,
            Errno::NAMETOOLONG => Self::ImpossibleName,
            error => Self::Io(error.into()),
        }
    }
}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Io(error) => error,
            error => Self::new(io::ErrorKind::InvalidInput, error),
        }
    }
}

impl From<PathBuf> for RootedPath {
    /// Trusts the parent folder: only the last component must not be a link.
    fn from(path: PathBuf) -> Self {
        match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) => Self::new(folder, name),
            _ => Self::new(path, ""),
        }
    }
}

impl RootedPath {
    /// Path `below` the trusted `folder`; the folder itself if empty.
    pub fn new(folder: impl AsRef<Path>, below: impl Into<PathBuf>) -> Self {
        let folder = folder.as_ref();
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        Self { folder: folder.into(), below: below.into(), user: None, closed: Arc::default() }
    }

    /// Absolute path without links in any component.
    pub fn without_links(path: &Path) -> Self {
        Self::new("/", path.strip_prefix("/").unwrap_or(path))
    }

    /// Applies the permissions of `user` to [`open`](Self::open), [`metadata`](Self::metadata),
    /// [`entries`](Self::entries), [`create`](Self::create), [`rename`](Self::rename), [`remove`](Self::remove) and
    /// [`create_folder`](Self::create_folder).
    #[must_use]
    pub fn with_rights_of(self, user: Option<Arc<FileUser>>) -> Self {
        Self { user, ..self }
    }

    /// Excludes folders by device and inode: the path must not lead through them.
    #[must_use]
    pub fn outside_of(self, closed: Arc<[(u64, u64)]>) -> Self {
        Self { closed, ..self }
    }

    /// Excluded folders, by device and inode.
    pub fn closed(&self) -> &Arc<[(u64, u64)]> {
        &self.closed
    }

    /// Appends the component `name`.
    #[must_use]
    pub fn join(&self, name: impl AsRef<Path>) -> Self {
        Self { below: self.below.join(name), ..self.clone() }
    }

    /// Full path, for messages.
    pub fn path(&self) -> PathBuf {
        if self.below.as_os_str().is_empty() { self.folder.to_path_buf() } else { self.folder.join(&self.below) }
    }

    pub fn open(&self) -> Result<File, OpenError> {
        self.with_rights(|| {
            let (parent, name) = self.parent()?;
            // Opening a device may have an effect, so the kind is determined first.
            regular(statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode)?;
            self.open_in(&parent, name, OFlags::RDONLY)
        })
    }

    /// Opens an existing file for reading and writing. It must have no other hard link: a program could have linked it
    /// to a file it does not own.
    pub fn open_to_change(&self) -> Result<File, OpenError> {
        let (parent, name) = self.parent()?;
        regular(statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode)?;
        let file = self.open_in(&parent, name, OFlags::RDWR)?;
        if file.metadata()?.nlink() == 1 { Ok(file) } else { Err(OpenError::NotRegular) }
    }

    pub fn remove(&self) -> Result<(), OpenError> {
        self.with_rights(|| {
            let (parent, name) = self.parent()?;
            Ok(unlinkat(&parent, name, AtFlags::empty())?)
        })
    }

    /// Creates the file for writing, in place of an earlier one, with the mode from the user's umask.
    pub fn create(&self) -> Result<File, OpenError> {
        self.with_rights(|| {
            let (parent, name) = self.parent()?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let create = || openat(&parent, name, flags, Mode::from_raw_mode(PRIVATE));
            let created = match create() {
                Err(Errno::EXIST) => {
                    unlinkat(&parent, name, AtFlags::empty())?;
                    create()
                }
                created => created,
            }?;
            if let Some(umask) = umask_of_user() {
                fchmod(&created, Mode::from_raw_mode(0o666 & !umask))?;
            }
            Ok(created.into())
        })
    }

    /// Renames the file within its folder, in place of an earlier one, and syncs the folder.
    pub fn rename(&self, name: &str) -> Result<(), OpenError> {
        self.with_rights(|| {
            let (parent, own) = self.parent()?;
            renameat(&parent, own, &parent, name)?;
            Ok(File::from(openat(&parent, ".", folder_flags(), Mode::empty())?).sync_all()?)
        })
    }

    /// Opens or creates the file for appending, readable for this user only if created.
    pub fn append(&self) -> Result<File, OpenError> {
        let (parent, name) = self.parent()?;
        self.open_in(&parent, name, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)
    }

    /// Opens or creates the file for reading and writing, readable for this user only if created.
    pub fn read_write(&self) -> Result<File, OpenError> {
        let (parent, name) = self.parent()?;
        self.open_in(&parent, name, OFlags::RDWR | OFlags::CREATE)
    }

    /// Returns the metadata of the file or folder, without following a link.
    pub fn metadata(&self) -> Result<Metadata, OpenError> {
        self.with_rights(|| {
            let (parent, name) = self.parent()?;
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            Ok(File::from(openat(&parent, name, flags, Mode::empty())?).metadata()?)
        })
    }

    /// Reads the file, of at most `limit` bytes.
    pub fn read(&self, limit: u64) -> Result<Vec<u8>, OpenError> {
        let mut bytes = Vec::new();
        self.open()?.take(limit + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit { Err(OpenError::TooLarge { limit }) } else { Ok(bytes) }
    }

    /// Reads up to `limit` bytes from the end of the file.
    pub fn read_tail(&self, limit: u64) -> Result<Vec<u8>, OpenError> {
        let mut file = self.open()?;
        let start = file.metadata()?.len().saturating_sub(limit);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Replaces the file's content atomically, with access for this user only. With `durable`, syncs file and folder.
    ///
    /// # Errors
    /// [`OpenError`]; the old file is kept.
    pub fn replace(&self, bytes: &[u8], durable: bool) -> Result<(), OpenError> {
        let (parent, name) = self.parent()?;
        let mut temporary = name.to_owned();
        // Processes may replace a file concurrently: each writes its own temporary file.
        temporary.push(format!(".{}.tmp", std::process::id()));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let create = || openat(&parent, &temporary, flags, Mode::from_raw_mode(PRIVATE));
        let created = match create() {
            Err(Errno::EXIST) => {
                unlinkat(&parent, &temporary, AtFlags::empty())?;
                create()
            }
            created => created,
        };
        let mut file = File::from(created?);
        file.write_all(bytes)?;
        if durable {
            file.sync_all()?;
        }
        renameat(&parent, &temporary, &parent, name)?;
        if durable {
            File::from(openat(&parent, ".", folder_flags(), Mode::empty())?).sync_all()?;
        }
        Ok(())
    }

    /// Opens the folder itself, such as for a lock.
    pub fn open_folder(&self) -> Result<OwnedFd, OpenError> {
        let (parent, name) = self.parent()?;
        self.unless_closed(openat(&parent, name, folder_flags() | OFlags::NOFOLLOW, Mode::empty())?)
    }

    /// Creates the folder and its missing parents, with modes from the user's umask.
    ///
    /// # Errors
    /// [`OpenError::NotRegular`] if a component is a link or a file; the error of creating a folder.
    pub fn create_folder(&self) -> Result<(), OpenError> {
        self.with_rights(|| {
            let pass = pass_flags();
            let mut folder = openat(CWD, &*self.folder, pass, Mode::empty()).map_err(folder_error)?;
            for name in self.names()? {
                let open = |flags| openat(&folder, name, flags | OFlags::NOFOLLOW, Mode::empty());
                folder = match open(pass) {
                    Err(Errno::NOENT) => match mkdirat(&folder, name, Mode::from_raw_mode(PRIVATE_FOLDER)) {
                        Ok(()) => {
                            let created = open(folder_flags())?;
                            let umask = umask_of_user().unwrap_or(0o777 & !PRIVATE_FOLDER);
                            fchmod(&created, Mode::from_raw_mode(0o777 & !umask))?;
                            created
                        }
                        // Created concurrently by another process.
                        Err(Errno::EXIST) => open(pass)?,
                        Err(error) => return Err(error.into()),
                    },
                    opened => opened?,
                };
                folder = self.unless_closed(folder)?;
            }
            Ok(())
        })
    }

    /// Checks that the folder is writable by creating and removing a file.
    pub fn check_writable(&self) -> Result<(), OpenError> {
        self.with_rights(|| {
            let folder = self.open_folder()?;
            let name = format!(".tunesmith-{}-{:?}", std::process::id(), std::thread::current().id());
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            openat(&folder, &name, flags, Mode::from_raw_mode(PRIVATE))?;
            Ok(unlinkat(&folder, &name, AtFlags::empty())?)
        })
    }

    /// Lists the folder, at most its first 100 000 entries.
    pub fn entries(&self) -> Result<Vec<Entry>, OpenError> {
        self.with_rights(|| self.list())
    }

    fn list(&self) -> Result<Vec<Entry>, OpenError> {
        let folder = self.open_folder()?;
        let mut found = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            if found.len() == MAX_ENTRIES {
                break;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(Errno::NOENT) => continue,
                    Err(error) => return Err(error.into()),
                },
                kind => kind,
            };
            let (is_file, is_folder) = (kind == FileType::RegularFile, kind == FileType::Directory);
            found.push(Entry { name: name.to_owned(), is_file, is_folder });
        }
        Ok(found)
    }

    fn with_rights<T: Send>(&self, work: impl FnOnce() -> Result<T, OpenError> + Send) -> Result<T, OpenError> {
        match &self.user {
            None => work(),
            Some(user) => user.run(work)?,
        }
    }

    /// Opens the parent folder. Returns it with the last component.
    fn parent(&self) -> Result<(OwnedFd, &OsStr), OpenError> {
        let mut names = self.names()?;
        let Some(last) = names.pop() else {
            let folder = openat(CWD, &*self.folder, pass_flags(), Mode::empty()).map_err(folder_error)?;
            return Ok((folder, OsStr::new(".")));
        };
        let mut folder = openat(CWD, &*self.folder, pass_flags(), Mode::empty()).map_err(folder_error)?;
        for name in names {
            folder = self.unless_closed(openat(&folder, name, pass_flags() | OFlags::NOFOLLOW, Mode::empty())?)?;
        }
        Ok((folder, last))
    }

    /// Refuses an excluded `folder`.
    fn unless_closed(&self, folder: OwnedFd) -> Result<OwnedFd, OpenError> {
        if self.closed.is_empty() {
            return Ok(folder);
        }
        let stat = fstat(&folder)?;
        if self.closed.contains(&(stat.st_dev, stat.st_ino)) { Err(OpenError::NotRegular) } else { Ok(folder) }
    }

    fn names(&self) -> Result<Vec<&OsStr>, OpenError> {
        let name = |component| match component {
            Component::Normal(name) if name.as_bytes().contains(&0) => Err(OpenError::ImpossibleName),
            Component::Normal(name) => Ok(name),
            _ => Err(OpenError::NotRegular),
        };
        self.below.components().map(name).collect()
    }

    fn open_in(&self, parent: &OwnedFd, name: &OsStr, access: OFlags) -> Result<File, OpenError> {
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = openat(parent, name, flags, Mode::from_raw_mode(PRIVATE));
        let file = File::from(opened.map_err(|error| match error {
            Errno::ISDIR => OpenError::NotRegular,
            error => error.into(),
        })?);
        // The file may have been replaced since its kind was determined.
        if file.metadata()?.is_file() { Ok(file) } else { Err(OpenError::NotRegular) }
    }
}

/// Open flags for a traversed folder, which need not be readable.
fn pass_flags() -> OFlags {
    OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC
}

fn folder_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC
}

/// A missing trusted folder has no files, nor has one that is a file.
fn folder_error(error: Errno) -> OpenError {
    match error {
        Errno::NOTDIR => OpenError::Io(io::ErrorKind::NotFound.into()),
        error => error.into(),
    }
}

fn regular(mode: u32) -> Result<(), OpenError> {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => Ok(()),
        _ => Err(OpenError::NotRegular),
    }
}

#[cfg(test)]
mod tests;
