//! The place of a file that a program may write.

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

/// Mode of created files.
const PRIVATE: u32 = 0o600;

/// Mode of created folders until they get that of the user's umask.
const PRIVATE_FOLDER: u32 = 0o700;

/// Maximum number of entries of a folder that are listed. A guess, far above the use of any program.
const MAX_ENTRIES: usize = 100_000;

/// A path below a trusted folder. The folder may be reached through links; no component below it may be a link.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    folder: Arc<Path>,
    below: PathBuf,
    /// The user whose rights apply; `None` for those of this process.
    user: Option<Arc<FileUser>>,
    /// A folder that is not opened, by device and inode: it may be mounted below the trusted folder.
    closed: Option<(u64, u64)>,
}

/// One entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: OsString,
    /// Whether it is a regular file.
    pub is_file: bool,
    /// Whether it is a folder.
    pub is_folder: bool,
}

/// Why a file was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It is a link, a pipe, a device or of another unexpected kind, or its path leads through a link or a closed folder.
    #[error("not a regular file")]
    NotRegular,
    /// No file can have this name: it has a NUL, or is longer than the file system allows.
    #[error("no file can have this name")]
    ImpossibleName,
    /// The file has more bytes than allowed.
    #[error("more than {limit} bytes")]
    TooLarge {
        /// The maximum size in bytes.
        limit: u64,
    },
    /// The system call failed.
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

impl From<PathBuf> for Place {
    /// The place of `path` below its parent folder: only the last component must not be a link.
    fn from(path: PathBuf) -> Self {
        match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) => Self::new(folder, name),
            _ => Self::new(path, ""),
        }
    }
}

impl Place {
    /// The place of `below` in the trusted `folder`. An empty `below` is the folder itself.
    pub fn new(folder: impl AsRef<Path>, below: impl Into<PathBuf>) -> Self {
        let folder = folder.as_ref();
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        Self { folder: folder.into(), below: below.into(), user: None, closed: None }
    }

    /// The place of the absolute `path`, no component of which may be a link.
    pub fn without_links(path: &Path) -> Self {
        Self::new("/", path.strip_prefix("/").unwrap_or(path))
    }

    /// This place with the rights of `user` for [`open`](Self::open), [`metadata`](Self::metadata), [`entries`](Self::entries)
    /// and [`create_folder`](Self::create_folder).
    #[must_use]
    pub fn with_rights_of(self, user: Option<Arc<FileUser>>) -> Self {
        Self { user, ..self }
    }

    /// This place, whose path must not lead through the folder with this device and inode.
    #[must_use]
    pub fn outside_of(self, closed: Option<(u64, u64)>) -> Self {
        Self { closed, ..self }
    }

    /// The place `name` below this one.
    #[must_use]
    pub fn join(&self, name: impl AsRef<Path>) -> Self {
        Self { below: self.below.join(name), ..self.clone() }
    }

    /// The whole path, for messages.
    pub fn path(&self) -> PathBuf {
        if self.below.as_os_str().is_empty() { self.folder.to_path_buf() } else { self.folder.join(&self.below) }
    }

    /// Opens the file for reading.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(&self) -> Result<File, OpenError> {
        self.with_rights(|| {
            let (parent, name) = self.parent()?;
            // Opening a device may have an effect, so the kind is determined first.
            regular(statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode)?;
            self.open_in(&parent, name, OFlags::RDONLY)
        })
    }

    /// Opens an existing file for reading and writing. It must have no other name: a program could have given it to a file
    /// that is not its own.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_to_change(&self) -> Result<File, OpenError> {
        let (parent, name) = self.parent()?;
        regular(statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode)?;
        let file = self.open_in(&parent, name, OFlags::RDWR)?;
        if file.metadata()?.nlink() == 1 { Ok(file) } else { Err(OpenError::NotRegular) }
    }

    /// Removes the file.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn remove(&self) -> Result<(), OpenError> {
        let (parent, name) = self.parent()?;
        Ok(unlinkat(&parent, name, AtFlags::empty())?)
    }

    /// Opens the file for appending, and creates it, readable for this user only.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn append(&self) -> Result<File, OpenError> {
        let (parent, name) = self.parent()?;
        self.open_in(&parent, name, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)
    }

    /// Opens the file for reading and writing, and creates it, readable for this user only.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn read_write(&self) -> Result<File, OpenError> {
        let (parent, name) = self.parent()?;
        self.open_in(&parent, name, OFlags::RDWR | OFlags::CREATE)
    }

    /// Returns the metadata of the file or folder; those of a link itself.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn metadata(&self) -> Result<Metadata, OpenError> {
        self.with_rights(|| {
            let (parent, name) = self.parent()?;
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            Ok(File::from(openat(&parent, name, flags, Mode::empty())?).metadata()?)
        })
    }

    /// Reads the file, which must have at most `limit` bytes.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn read(&self, limit: u64) -> Result<Vec<u8>, OpenError> {
        let mut bytes = Vec::new();
        self.open()?.take(limit + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit { Err(OpenError::TooLarge { limit }) } else { Ok(bytes) }
    }

    /// Reads the last `limit` bytes of the file, or all if it has fewer.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn read_tail(&self, limit: u64) -> Result<Vec<u8>, OpenError> {
        let mut file = self.open()?;
        let start = file.metadata()?.len().saturating_sub(limit);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Replaces the file by one with the content `bytes`, readable for this user only. Other processes see the old file
    /// or the new one. With `durable`, file and folder are synced.
    ///
    /// # Errors
    /// [`OpenError`]; the old file is kept.
    pub fn replace(&self, bytes: &[u8], durable: bool) -> Result<(), OpenError> {
        let (parent, name) = self.parent()?;
        let mut temporary = name.to_owned();
        // Two processes may replace a file concurrently: each writes its own temporary file.
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
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_folder(&self) -> Result<OwnedFd, OpenError> {
        let (parent, name) = self.parent()?;
        self.unless_closed(openat(&parent, name, folder_flags() | OFlags::NOFOLLOW, Mode::empty())?)
    }

    /// Creates the folder and those above it that are missing, in the mode that the user's umask gives.
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
                        // Another process has created it.
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

    /// Creates a file of no other use in the folder, and removes it.
    ///
    /// # Errors
    /// [`OpenError`].
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
    ///
    /// # Errors
    /// [`OpenError`].
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

    /// Does `work` with the rights of the user.
    fn with_rights<T: Send>(&self, work: impl FnOnce() -> Result<T, OpenError> + Send) -> Result<T, OpenError> {
        match &self.user {
            None => work(),
            Some(user) => user.run(work)?,
        }
    }

    /// Opens the folder of the last component, and returns it with that component.
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

    /// `folder`, unless it is the one that is not opened.
    fn unless_closed(&self, folder: OwnedFd) -> Result<OwnedFd, OpenError> {
        let Some(closed) = self.closed else { return Ok(folder) };
        let stat = fstat(&folder)?;
        if (stat.st_dev, stat.st_ino) == closed { Err(OpenError::NotRegular) } else { Ok(folder) }
    }

    /// The components below the trusted folder.
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

/// The flags of a folder that is passed through: it need not be readable.
fn pass_flags() -> OFlags {
    OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC
}

fn folder_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC
}

/// A trusted folder that does not exist has no files; one that is a file has none either.
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
