//! Search for event files below a folder while a trainer runs.
//!
//! Symbolic links are not followed, since they may form cycles or leave the trial's folder.

use std::collections::{BTreeMap, BTreeSet};

use super::CollectError;
use super::files::{self, ChangeWatch};
use super::intake::Intake;
use tunesmith_files::{OpenError, RootedPath};

/// Maximum number of watched folders, at one `stat` each per poll; a guess, far above any trainer's use.
const MAX_FOLDERS: usize = 10_000;

/// Maximum number of watched event files; a guess.
const MAX_FILES: usize = 10_000;

/// Common part of the file names written by TensorFlow, torch and tensorboardX.
const NAME_PART: &[u8] = b"tfevents";

/// Known folders and files. A folder is listed again only after it changed.
#[derive(Debug)]
pub(super) struct EventTree {
    root: RootedPath,
    folders: BTreeMap<RootedPath, ChangeWatch>,
    files: BTreeSet<RootedPath>,
}

impl EventTree {
    pub(super) fn new(root: RootedPath) -> Self {
        Self { folders: BTreeMap::from([(root.clone(), ChangeWatch::default())]), root, files: BTreeSet::new() }
    }

    /// All event files found so far, sorted by path, including removed ones.
    pub(super) fn files(&self) -> &BTreeSet<RootedPath> {
        &self.files
    }

    /// Searches changed folders for new files.
    pub(super) fn search(&mut self, intake: &mut Intake) {
        let mut changed: Vec<RootedPath> = Vec::new();
        let mut gone: Vec<RootedPath> = Vec::new();
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
                    files::note_error(&path, error, intake);
                }
            }
        }
    }

    /// Searches all folders for new files.
    pub(super) fn search_all(&mut self, intake: &mut Intake) {
        self.folders.values_mut().for_each(ChangeWatch::forget);
        self.search(intake);
    }

    /// Lists one folder and returns its new subfolders.
    fn list(&mut self, folder: &RootedPath, intake: &mut Intake) -> Result<Vec<RootedPath>, OpenError> {
        let mut new_folders = Vec::new();
        for entry in folder.entries()? {
            let path = folder.join(&entry.name);
            if entry.is_folder && !self.folders.contains_key(&path) {
                if self.folders.len() >= MAX_FOLDERS {
                    self.note_too_many("folders", MAX_FOLDERS, intake);
                    continue;
                }
                // Inserted without a stamp: the next search lists the folder again and records one.
                self.folders.insert(path.clone(), ChangeWatch::default());
                new_folders.push(path);
            } else if entry.is_file && is_event_file(&entry.name) && !self.files.contains(&path) {
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
        intake.note_problem(CollectError::TooMany { path: self.root.path(), what, limit });
    }
}

pub(super) fn is_event_file(name: &std::ffi::OsStr) -> bool {
    memchr::memmem::find(name.as_encoded_bytes(), NAME_PART).is_some()
}
