//! Files of a version that its pods download.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::model_files::VersionFolder;

/// Files by their number, and which of them are packages to install.
#[derive(Debug, Default)]
pub(super) struct SentFiles {
    /// Folder of the version.
    root: PathBuf,
    /// Paths below it, with `/`, and sizes.
    pub(super) files: Vec<(String, u64)>,
    pub(super) archives: Vec<String>,
}

impl SentFiles {
    /// Lists the files of `folder`.
    pub(super) fn list(folder: &VersionFolder) -> io::Result<Self> {
        let root = folder.path().to_owned();
        let mut files = Vec::new();
        let archives = folder.archives();
        for part in [folder.model(), archives.clone()] {
            if part.exists() {
                find(&root, &part, &mut files)?;
            }
        }
        let name = archives.file_name().map(|name| format!("{}/", name.to_string_lossy())).unwrap_or_default();
        let archives = files.iter().map(|(path, _)| path).filter(|path| path.starts_with(&name)).cloned().collect();
        Ok(Self { root, files, archives })
    }

    pub(super) fn path(&self, number: usize) -> Option<PathBuf> {
        self.files.get(number).map(|(path, _)| self.root.join(path))
    }
}

fn find(root: &Path, folder: &Path, files: &mut Vec<(String, u64)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, metadata) = (entry.path(), entry.metadata()?);
        if metadata.is_dir() {
            find(root, &path, files)?;
            continue;
        }
        let relative = path.strip_prefix(root).map_err(io::Error::other)?;
        let text = relative.to_str().ok_or_else(|| {
            io::Error::other(format!("the name of {} is not UTF-8, which pods need", relative.display()))
        })?;
        files.push((text.to_owned(), metadata.len()));
    }
    Ok(())
}
