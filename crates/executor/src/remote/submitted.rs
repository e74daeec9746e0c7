//! Submissions acknowledged by an engine, one file each, so that a job forgotten by the engine is not mistaken for one
//! it never received.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tempfile::NamedTempFile;
use tunesmith_files::RootedPath;

/// File name suffix of a submission with a stop request.
const STOPPED: &str = ".stopped";

/// File with the identity of the folder.
const IDENTITY: &str = "IDENTITY";

/// Maximum size of that file in bytes.
const MAX_IDENTITY_BYTES: u64 = 64;

/// Folder with one file per submission.
#[derive(Debug)]
pub struct Submitted {
    folder: PathBuf,
    identity: OnceLock<String>,
}

impl Submitted {
    /// Submissions recorded in `folder`, created on demand. Does no IO.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, identity: OnceLock::new() }
    }

    /// Random, persistent identity of this folder: 12 lower-case hexadecimal digits. It is part of names in the engine,
    /// which several servers may share.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn identity(&self) -> io::Result<&str> {
        if let Some(known) = self.identity.get() {
            return Ok(known);
        }
        let identity = self.read_identity()?;
        Ok(self.identity.get_or_init(|| identity))
    }

    fn read_identity(&self) -> io::Result<String> {
        let place = RootedPath::new(&self.folder, IDENTITY);
        match place.read(MAX_IDENTITY_BYTES) {
            Ok(bytes) => return String::from_utf8(bytes).map_err(io::Error::other),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        let identity = random_name()?;
        // Otherwise a concurrent caller was first.
        if self.create(IDENTITY, &identity)? { Ok(identity) } else { self.read_identity() }
    }

    /// Durably creates the file `name` with `text`. Returns whether it did not exist.
    fn create(&self, name: &str, text: &str) -> io::Result<bool> {
        match self.written(text)?.persist_noclobber(self.folder.join(name)) {
            Ok(_) => self.sync().map(|()| true),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error.error),
        }
    }

    /// Temporary file with `text` in the folder. Several processes may create one concurrently.
    fn written(&self, text: &str) -> io::Result<NamedTempFile> {
        fs::create_dir_all(&self.folder)?;
        let mut file = NamedTempFile::new_in(&self.folder)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        Ok(file)
    }

    /// Makes the folder's entries durable.
    fn sync(&self) -> io::Result<()> {
        File::open(&self.folder)?.sync_all()
    }

    /// Returns the note recorded with the submission `name`, if any.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn note(&self, name: &str) -> io::Result<Option<String>> {
        match fs::read_to_string(self.folder.join(name)) {
            Ok(note) => Ok(Some(note)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Durably records the submission `name` with `note`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add(&self, name: &str, note: &str) -> io::Result<()> {
        self.written(note)?.persist(self.folder.join(name)).map_err(|error| error.error)?;
        self.sync()
    }

    /// Durably records the submission `name` with `note`, unless there is a record. Returns the recorded note.
    ///
    /// # Errors
    /// If the file cannot be written or read.
    pub fn add_once(&self, name: &str, note: &str) -> io::Result<String> {
        self.create(name, note)?;
        fs::read_to_string(self.folder.join(name))
    }

    /// Records a stop request for the submission `name`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn mark_stopped(&self, name: &str) -> io::Result<()> {
        self.add(&format!("{name}{STOPPED}"), "")
    }

    /// Whether [`Self::mark_stopped`] was called for `name`.
    ///
    /// # Errors
    /// If that cannot be determined.
    pub fn was_stopped(&self, name: &str) -> io::Result<bool> {
        self.folder.join(format!("{name}{STOPPED}")).try_exists()
    }

    /// Lists recorded names with the prefix `prefix`.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn starting_with(&self, prefix: &str) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries {
            if let Some(name) = entry?.file_name().to_str()
                && name.starts_with(prefix)
                && !name.ends_with(STOPPED)
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Removes the record of the submission `name`, if any.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        remove_file(&self.folder.join(format!("{name}{STOPPED}")))?;
        remove_file(&self.folder.join(name))
    }
}

/// Random text of 12 lower-case hexadecimal digits.
///
/// # Errors
/// If the system provides no random bytes.
pub fn random_name() -> io::Result<String> {
    let mut bytes = [0; 6];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submissions_are_recorded_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let submitted = Submitted::new(folder.path().join("engine"));
        assert_eq!(submitted.starting_with("a-").unwrap(), [""; 0]);
        let identity = submitted.identity().unwrap().to_owned();
        assert_eq!(identity.len(), 12);
        assert_eq!(submitted.identity().unwrap(), identity);
        assert_eq!(Submitted::new(folder.path().join("engine")).identity().unwrap(), identity, "it is recorded");
        assert_ne!(Submitted::new(folder.path().join("other")).identity().unwrap(), identity);
        assert_eq!(submitted.note("a-1").unwrap(), None);
        submitted.add("a-1", "namespace").unwrap();
        assert_eq!(submitted.add_once("a-1", "other").unwrap(), "namespace");
        assert_eq!(submitted.add_once("b-1", "").unwrap(), "");
        assert_eq!(submitted.note("a-1").unwrap().as_deref(), Some("namespace"));
        assert!(!submitted.was_stopped("a-1").unwrap());
        submitted.mark_stopped("a-1").unwrap();
        assert!(submitted.was_stopped("a-1").unwrap() && !submitted.was_stopped("b-1").unwrap());
        assert_eq!(submitted.starting_with("a-").unwrap(), ["a-1"]);
        submitted.remove("a-1").unwrap();
        submitted.remove("a-1").unwrap();
        assert_eq!(submitted.note("a-1").unwrap(), None);
        assert!(!submitted.was_stopped("a-1").unwrap() && submitted.note("b-1").unwrap().is_some());
    }
}
