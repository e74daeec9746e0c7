//! Finds the event files below a folder, and new ones while a trainer runs.
//!
//! Symbolic links below the folder are not followed: they may lead in circles or out of the trial. The folder itself
//! may be one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::CollectError;
use super::files::{self, ChangeWatch};
use super::intake::Intake;

/// The most folders that are watched, each at the cost of a `stat` per poll. A guess, far above any trainer's.
const MAX_FOLDERS: usize = 10_000;

/// The most event files that are watched. A guess, as above.
const MAX_FILES: usize = 10_000;

/// What TensorFlow's, torch's and tensorboardX's writers all have in the names of their files.
const NAME_PART: &[u8] = b"tfevents";

/// The folders known, each listed again only when it changed.
#[derive(Debug)]
pub(super) struct EventTree {
    root: PathBuf,
    folders: BTreeMap<PathBuf, ChangeWatch>,
    files: BTreeSet<PathBuf>,
}

impl EventTree {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { folders: BTreeMap::from([(root.clone(), ChangeWatch::default())]), root, files: BTreeSet::new() }
    }

    /// Every event file found so far, sorted by path. A file stays listed when it is removed.
    pub(super) fn files(&self) -> &BTreeSet<PathBuf> {
        &self.files
    }

    /// Looks for new files in the folders that changed.
    pub(super) fn search(&mut self, intake: &mut Intake) {
        let mut changed: Vec<PathBuf> = Vec::new();
        let mut gone: Vec<PathBuf> = Vec::new();
        for (path, watch) in &mut self.folders {
            match files::stat(path, intake) {
                Some(metadata) if metadata.is_dir() && watch.must_read(&metadata) => changed.push(path.clone()),
                Some(metadata) if metadata.is_dir() => {}
                _ if *path == self.root => {}
                _ => gone.push(path.clone()),
            }
        }
        for path in gone {
            self.folders.remove(&path);
        }
        while let Some(path) = changed.pop() {
            match self.list(&path, intake) {
                Ok(new_folders) => changed.extend(new_folders),
                Err(error) => {
                    if let Some(watch) = self.folders.get_mut(&path) {
                        watch.forget();
                    }
                    files::note_io_error(&path, error, intake);
                }
            }
        }
    }

    /// Looks for new files in every folder.
    pub(super) fn search_all(&mut self, intake: &mut Intake) {
        self.folders.values_mut().for_each(ChangeWatch::forget);
        self.search(intake);
    }

    /// Lists one folder; returns the folders in it that were not known.
    fn list(&mut self, folder: &Path, intake: &mut Intake) -> io::Result<Vec<PathBuf>> {
        let mut new_folders = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let path = entry.path();
            if kind.is_dir() && !self.folders.contains_key(&path) {
                if self.folders.len() >= MAX_FOLDERS {
                    self.note_too_many("folders", MAX_FOLDERS, intake);
                    continue;
                }
                // Listed now without a stamp, and again at the next search, which settles it.
                self.folders.insert(path.clone(), ChangeWatch::default());
                new_folders.push(path);
            } else if kind.is_file() && is_event_file(&entry.file_name()) && !self.files.contains(&path) {
                if self.files.len() >= MAX_FILES {
                    self.note_too_many("event files", MAX_FILES, intake);
                    continue;
                }
                self.files.insert(path);
            }
        }
        Ok(new_folders)
    }

    fn note_too_many(&self, what: &'static str, limit: usize, intake: &mut Intake) {
        intake.note_problem(CollectError::TooMany { path: self.root.clone(), what, limit });
    }
}

fn is_event_file(name: &std::ffi::OsStr) -> bool {
    memchr::memmem::find(name.as_encoded_bytes(), NAME_PART).is_some()
}
