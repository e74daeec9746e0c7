//! Detection of program outputs with a fixed path, overwritten by one trial after another.
//!
//! Compares files below the working directory that changed before the first trial ended with those that changed after
//! all trials running at that time had ended. A file in both sets was written by two trials. Outputs named by arguments
//! are found at submission instead.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{Context, RunError};
use crate::trainer::placement;
use tunesmith_domain::{ProgramPlan, TrialId};

/// Search limits below the working directory. Guesses.
const MAX_DEPTH: usize = 4;
const MAX_ENTRIES: usize = 5_000;

/// Maximum number of files named in the notice.
const MAX_NAMED: usize = 3;

/// Cache folders, shared by programs on purpose.
const CACHES: [&str; 2] = ["__pycache__", "node_modules"];

type Changes = BTreeMap<PathBuf, SystemTime>;

#[derive(Debug)]
pub(super) enum SharedOutputs {
    /// No trial has ended since this time.
    Started(SystemTime),
    /// The first trial has ended; `running` ones overlapped with it.
    First { changed: Changes, running: BTreeSet<TrialId> },
    /// The overlapping trials had ended at `since`.
    Second { changed: Changes, since: SystemTime },
    /// Nothing left to detect.
    Done,
}

impl SharedOutputs {
    /// Detection for a run. Writes of programs elsewhere, in containers, or of other users are not searched.
    pub(super) fn of(context: &Context) -> Self {
        let plan = &context.plan;
        let is_here = context.services().executor.capabilities(&placement(&plan.machines)).shares_files
            && plan.principal.is_none()
            && !matches!(plan.program, ProgramPlan::Container { .. });
        if is_here { Self::Started(SystemTime::now()) } else { Self::Done }
    }

    /// Notes files written by two trials, after `trial` has ended with `running` still active.
    pub(super) async fn search(
        &mut self,
        context: &Context,
        trial: TrialId,
        running: &BTreeSet<TrialId>,
    ) -> Result<(), RunError> {
        let folder = &context.plan.working_directory;
        let changed = match self.changed_since() {
            Some(since) => {
                let excluded = [Some(context.runner.directory.clone()), context.plan.local_job_dir()];
                let excluded: Vec<PathBuf> =
                    excluded.into_iter().flatten().filter_map(|path| entry_of(folder, &path)).collect();
                let searched = folder.clone();
                tokio::task::spawn_blocking(move || changed_files(&searched, &excluded, since)).await?
            }
            None => Changes::new(),
        };
        let files = self.end(trial, running.clone(), changed, SystemTime::now());
        if !files.is_empty() {
            context.note(None, &notice(folder, &files)).await?;
        }
        Ok(())
    }

    /// Start of the period whose changed files the next end of a trial needs; `None` if it needs none.
    fn changed_since(&self) -> Option<SystemTime> {
        match self {
            Self::Started(time) | Self::Second { since: time, .. } => Some(*time),
            Self::First { .. } | Self::Done => None,
        }
    }

    /// Records that `trial` ended at `now` with `running` still active; `changed` are the files changed since
    /// [`Self::changed_since`]. Returns the files written by two trials.
    fn end(&mut self, trial: TrialId, running: BTreeSet<TrialId>, changed: Changes, now: SystemTime) -> Vec<PathBuf> {
        match std::mem::replace(self, Self::Done) {
            Self::Started(_) if changed.is_empty() => {}
            Self::Started(_) => *self = Self::after_first(changed, running, now),
            Self::First { changed, mut running } => {
                running.remove(&trial);
                *self = Self::after_first(changed, running, now);
            }
            Self::Second { changed: earlier, .. } => {
                return changed.into_keys().filter(|path| earlier.contains_key(path)).collect();
            }
            Self::Done => {}
        }
        Vec::new()
    }

    fn after_first(changed: Changes, running: BTreeSet<TrialId>, now: SystemTime) -> Self {
        if running.is_empty() { Self::Second { changed, since: now } } else { Self::First { changed, running } }
    }
}

/// Files below `folder` modified after `since`, except hidden ones, caches and `excluded` folders. Empty if the search
/// is incomplete. Blocks.
fn changed_files(folder: &Path, excluded: &[PathBuf], since: SystemTime) -> Changes {
    let mut changed = Changes::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    let mut entries = 0;
    while let Some((folder, depth)) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            entries += 1;
            if entries > MAX_ENTRIES {
                return Changes::new();
            }
            let (name, path) = (entry.file_name(), entry.path());
            let is_hidden = name.as_encoded_bytes().starts_with(b".");
            if is_hidden || CACHES.iter().any(|cache| name == *cache) || excluded.contains(&path) {
                continue;
            }
            // Metadata of an entry does not follow links.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() && depth < MAX_DEPTH {
                folders.push((path, depth + 1));
            } else if metadata.is_file()
                && let Ok(modified) = metadata.modified()
                && modified > since
            {
                changed.insert(path, modified);
            }
        }
    }
    changed
}

/// Entry of `folder` that is or contains `path`.
fn entry_of(folder: &Path, path: &Path) -> Option<PathBuf> {
    Some(folder.join(path.strip_prefix(folder).ok()?.components().next()?))
}

/// `files` must not be empty.
fn notice(folder: &Path, files: &[PathBuf]) -> String {
    let names =
        files.iter().take(MAX_NAMED).map(|path| path.strip_prefix(folder).unwrap_or(path).display().to_string());
    let names = names.collect::<Vec<_>>().join(", ");
    let more = if files.len() > MAX_NAMED { format!(" and {} more", files.len() - MAX_NAMED) } else { String::new() };
    format!(
        "trials overwrite each other's files: {names}{more} in {} changed in two trials; give each trial its own path with {{trial}} in \
         an argument, such as --output-dir=out/{{trial}}, or set tunesmith.jobDirFlag",
        folder.display()
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(secs: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(secs)
    }

    fn changes(paths: &[&str]) -> Changes {
        paths.iter().map(|path| (PathBuf::from(path), at(1))).collect()
    }

    fn running(trials: &[u64]) -> BTreeSet<TrialId> {
        trials.iter().map(|trial| TrialId(*trial)).collect()
    }

    #[test]
    fn file_of_two_trials_one_after_the_other_is_found() {
        let mut outputs = SharedOutputs::Started(at(0));
        assert_eq!(
            outputs.end(TrialId(1), running(&[]), changes(&["best.pkl", "1.log"]), at(5)),
            [""; 0].map(PathBuf::from)
        );
        assert_eq!(outputs.changed_since(), Some(at(5)));
        assert_eq!(
            outputs.end(TrialId(2), running(&[]), changes(&["best.pkl", "2.log"]), at(9)),
            [PathBuf::from("best.pkl")]
        );
        assert_eq!(outputs.changed_since(), None);
    }

    #[test]
    fn files_that_a_parallel_trial_goes_on_writing_are_its_own() {
        let mut outputs = SharedOutputs::Started(at(0));
        outputs.end(TrialId(1), running(&[2]), changes(&["2.log", "best.pkl"]), at(5));
        assert_eq!(outputs.changed_since(), None);
        outputs.end(TrialId(3), running(&[2, 4]), Changes::new(), at(6));
        assert_eq!(outputs.changed_since(), None);
        // Every trial that may have written 2.log has ended.
        outputs.end(TrialId(2), running(&[4]), Changes::new(), at(7));
        assert_eq!(outputs.changed_since(), Some(at(7)));
        assert_eq!(outputs.end(TrialId(4), running(&[]), changes(&["4.log"]), at(8)), Vec::<PathBuf>::new());
    }

    #[test]
    fn search_leaves_out_hidden_files_caches_and_excluded_folders() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["a/b/best.pkl", ".git/index", "__pycache__/x.pyc", "data/store.sqlite", "c/d/e/f/g/deep"] {
            std::fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            std::fs::write(path(name), "x").unwrap();
        }
        let found = changed_files(folder.path(), &[path("data")], at(0));
        assert_eq!(found.into_keys().collect::<Vec<_>>(), [path("a/b/best.pkl")]);
        assert_eq!(changed_files(folder.path(), &[], SystemTime::now() + Duration::from_secs(60)), Changes::new());
        for index in 0..=MAX_ENTRIES {
            std::fs::write(path(&format!("{index}")), "").unwrap();
        }
        assert_eq!(changed_files(folder.path(), &[], at(0)), Changes::new());
    }
}
