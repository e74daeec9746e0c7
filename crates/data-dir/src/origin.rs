//! Distinguishes a data folder from its copies.
//!
//! A file in the folder contains its own number in the file system and the time at which it was created there. Both stay when
//! the folder is renamed, mounted under another path, or used by another machine or container on the same volume. A copy of the
//! folder has a new file with the content of the old one. A copy of the whole volume cannot be distinguished from it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, StatxFlags, statx};

const FILE: &str = "FOLDER";

/// Maximum size of the file in bytes: more than any path.
const MAX_BYTES: u64 = 16 << 10;

/// The folder of which another one is a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Original {
    /// Where it was used last.
    pub path: PathBuf,
    /// The name of the machine that used it last.
    pub host: String,
}

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Note {
    file: FileId,
    original: Original,
}

/// The identity of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId {
    inode: u64,
    /// In nanoseconds since 1970; 0 if the file system does not record it.
    created: i128,
}

impl FileId {
    fn of(file: &File) -> io::Result<Self> {
        let found = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::INO | StatxFlags::BTIME)?;
        let has_time = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
        let time = i128::from(found.stx_btime.tv_sec) * 1_000_000_000 + i128::from(found.stx_btime.tv_nsec);
        Ok(Self { inode: found.stx_ino, created: if has_time { time } else { 0 } })
    }
}

impl Note {
    fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("tunesmith data folder 1, file ")?;
        let (head, rest) = rest.split_once('\n')?;
        let (inode, created) = head.split_once(" of ")?;
        let (host, path) = rest.split_once('\n')?;
        Some(Self {
            file: FileId { inode: inode.parse().ok()?, created: created.parse().ok()? },
            original: Original { path: path.strip_suffix('\n')?.into(), host: host.to_owned() },
        })
    }

    fn text(&self) -> String {
        let (FileId { inode, created }, Original { path, host }) = (self.file, &self.original);
        format!("tunesmith data folder 1, file {inode} of {created}\n{host}\n{}\n", path.display())
    }
}

/// Returns the folder of which `folder` is a copy; `None` if it is none, or has been used by no version that records it. A folder
/// that is no copy records where it is used.
pub(super) fn of_copy(folder: &Path) -> io::Result<Option<Original>> {
    let mut file = match OpenOptions::new().read(true).write(true).open(folder.join(FILE)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return settle(folder).map(|()| None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    (&mut file).take(MAX_BYTES).read_to_string(&mut text)?;
    // A file whose first write did not end is that of no copy.
    let Some(known) = Note::parse(&text) else { return settle(folder).map(|()| None) };
    let own = note(&file, folder)?;
    if own.file != known.file {
        return Ok(Some(known.original));
    }
    if own != known {
        write(&mut file, &own)?;
    }
    Ok(None)
}

/// Records that `folder` is no copy from now on.
pub(super) fn settle(folder: &Path) -> io::Result<()> {
    // In place, since another file would have another number.
    let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(folder.join(FILE))?;
    let note = note(&file, folder)?;
    write(&mut file, &note)
}

fn note(file: &File, folder: &Path) -> io::Result<Note> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Ok(Note { file: FileId::of(file)?, original: Original { path: folder.to_owned(), host } })
}

fn write(file: &mut File, note: &Note) -> io::Result<()> {
    file.rewind()?;
    file.set_len(0)?;
    file.write_all(note.text().as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_is_distinguished_from_a_folder_that_was_moved() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        std::fs::create_dir(at("a")).unwrap();
        assert_eq!(of_copy(&at("a")).unwrap(), None, "a new folder");
        assert_eq!(of_copy(&at("a")).unwrap(), None);
        std::fs::rename(at("a"), at("b")).unwrap();
        assert_eq!(of_copy(&at("b")).unwrap(), None, "it was renamed");
        let copied = std::process::Command::new("cp").arg("-a").args([at("b"), at("c")]).status().unwrap();
        assert!(copied.success());
        let original = of_copy(&at("c")).unwrap().unwrap();
        assert_eq!(original.path, at("b"), "where it was used last");
        assert!(!original.host.is_empty());
        assert_eq!(of_copy(&at("c")).unwrap(), Some(original), "until that is settled");
        settle(&at("c")).unwrap();
        assert_eq!((of_copy(&at("c")).unwrap(), of_copy(&at("b")).unwrap()), (None, None));
        // A restored copy in the place of the original.
        std::fs::rename(at("b"), at("old")).unwrap();
        let copied = std::process::Command::new("cp").arg("-a").args([at("old"), at("b")]).status().unwrap();
        assert!(copied.success());
        assert_eq!(of_copy(&at("b")).unwrap().unwrap().path, at("b"));
        std::fs::write(at("b").join(FILE), "tunesmith data fol").unwrap();
        assert_eq!(of_copy(&at("b")).unwrap(), None, "the write of it did not end");
    }
}
