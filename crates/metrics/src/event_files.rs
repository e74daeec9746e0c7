//! Reader of the TensorFlow event files below a trial's job-dir.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::event_folder::{folder_of, is_named, outside_of_trials};
use super::event_proto::Event;
use super::event_tree::EventTree;
use super::files::{self, FileId};
use super::intake::{Intake, Report};
use super::tfrecord::{Record, RecordReader};
use super::{CollectError, EventFolder};
use tunesmith_domain::{MAX_FOLDERS, ReportKey};
use tunesmith_files::{OpenError, RootedPath};

/// Incremental reader of the event files of one trial.
#[derive(Debug)]
pub(super) struct EventFiles {
    folder: EventFolder,
    tree: EventTree,
    /// Tags as sanitised by tensorboardX.
    cleaned_tags: Vec<String>,
    positions: BTreeMap<RootedPath, Position>,
    others: OtherFolders,
}

/// Folders with the metrics outside the configured folder, by tag index.
#[derive(Debug, Default)]
struct OtherFolders(BTreeMap<usize, BTreeSet<Arc<str>>>);

/// Read position in one file.
#[derive(Debug)]
struct Position {
    folder: Arc<str>,
    id: Option<FileId>,
    offset: u64,
    /// File size at the last complete read. The file is skipped until its size changes.
    size_read: u64,
    /// Whether the record at `offset` is damaged.
    is_corrupt: bool,
    /// Whether a record was not an event.
    has_malformed: bool,
}

impl EventFiles {
    pub(super) fn new(folder: EventFolder, tags: &[String]) -> Self {
        let cleaned_tags = tags.iter().map(|tag| clean_tag(tag)).collect();
        let tree = EventTree::new(folder.place.clone());
        Self { folder, tree, cleaned_tags, positions: BTreeMap::new(), others: OtherFolders::default() }
    }

    /// Reads new files and appended records.
    pub(super) fn read(&mut self, intake: &mut Intake) {
        self.tree.search(intake);
        self.read_files(intake);
    }

    /// Like [`Self::read`], but searches all folders and retries damaged records: on a network file system, data that
    /// has not arrived may read as zeroes.
    pub(super) fn finish(&mut self, intake: &mut Intake) {
        self.tree.search_all(intake);
        for position in self.positions.values_mut() {
            position.size_read = 0;
            position.is_corrupt = false;
        }
        self.read_files(intake);
        self.note_missing(intake);
    }

    /// Reports where the metrics without a report were found instead.
    fn note_missing(&self, intake: &mut Intake) {
        if let Some(only) = &self.folder.only {
            for (index, folders) in &self.others.0 {
                if !intake.is_reported(*index) {
                    let (tag, only) = (intake.tags()[*index].clone(), only.clone());
                    let folders = folders.iter().map(|folder| folder.to_string()).collect();
                    intake.note_problem(CollectError::OtherFolders { tag, only, folders });
                }
            }
        }
        if let Some(job) = self.folder.job.as_ref().filter(|_| self.tree.files().is_empty() && !intake.has_reports())
            && let Some(path) = outside_of_trials(job)
        {
            intake.note_problem(CollectError::EventsElsewhere { path, trial: self.folder.place.path() });
        }
    }

    fn read_files(&mut self, intake: &mut Intake) {
        let root = self.folder.place.path();
        for place in self.tree.files() {
            if intake.is_full() {
                return;
            }
            if !self.positions.contains_key(place) {
                let folder = folder_of(&root, &place.path(), self.folder.has_escaped_names);
                self.positions.insert(place.clone(), Position::new(folder));
            }
            let Some(position) = self.positions.get_mut(place) else { continue };
            let is_wanted = self.folder.only.as_ref().is_none_or(|only| is_named(&position.folder, only));
            let others = (!is_wanted).then_some(&mut self.others);
            if let Err(error) = position.read(place, &self.cleaned_tags, others, intake) {
                files::note_error(place, error, intake);
            }
        }
    }
}

impl Position {
    fn new(folder: Arc<str>) -> Self {
        Self { folder, id: None, offset: 0, size_read: 0, is_corrupt: false, has_malformed: false }
    }

    /// Reads appended records. With `others`, the metrics do not count; their folder is recorded there instead.
    fn read(
        &mut self,
        place: &RootedPath,
        cleaned_tags: &[String],
        mut others: Option<&mut OtherFolders>,
        intake: &mut Intake,
    ) -> Result<(), OpenError> {
        let Some(metadata) = files::stat(place, intake) else { return Ok(()) };
        if self.id == Some(files::file_id(&metadata)) && metadata.len() == self.size_read {
            return Ok(());
        }
        let Some((file, metadata)) = files::open(place, intake) else { return Ok(()) };
        let id = files::file_id(&metadata);
        if self.id.is_some_and(|known| known != id) || metadata.len() < self.offset {
            // Measurements are identified by time and step, so that rereading adds no duplicates.
            intake.note_problem(CollectError::Restarted { path: place.path() });
            *self = Self::new(Arc::clone(&self.folder));
        }
        self.id = Some(id);
        if self.is_corrupt {
            return Ok(());
        }
        let mut records = RecordReader::new(file, self.offset, metadata.len())?;
        while !intake.is_full() {
            let offset = records.offset();
            let step = match records.next_record()? {
                Record::Data(data) => {
                    self.take_event(data, offset, place, cleaned_tags, others.as_deref_mut(), intake);
                    ControlFlow::Continue(())
                }
                Record::Skipped => ControlFlow::Continue(()),
                Record::Incomplete => ControlFlow::Break(()),
                Record::Corrupt(reason) => {
                    self.is_corrupt = true;
                    intake.note_problem(CollectError::CorruptRecord { path: place.path(), offset, reason });
                    ControlFlow::Break(())
                }
            };
            self.offset = records.offset();
            if step.is_break() {
                self.size_read = metadata.len();
                break;
            }
        }
        Ok(())
    }

    fn take_event(
        &mut self,
        data: &[u8],
        offset: u64,
        place: &RootedPath,
        cleaned_tags: &[String],
        others: Option<&mut OtherFolders>,
        intake: &mut Intake,
    ) {
        let event = match Event::parse(data) {
            Ok(event) => event,
            Err(error) => {
                if !std::mem::replace(&mut self.has_malformed, true) {
                    let path = place.path();
                    intake.note_problem(CollectError::MalformedEvent { path, offset, reason: error.0 });
                }
                return;
            }
        };
        let mut values: Vec<(usize, f64)> = Vec::new();
        for scalar in event.scalars {
            let mut is_wanted = false;
            for (index, (tag, cleaned)) in intake.tags().iter().zip(cleaned_tags).enumerate() {
                let is_named = scalar.tag == tag.as_bytes() || scalar.tag == cleaned.as_bytes();
                is_wanted |= is_named;
                if is_named && values.iter().all(|(known, _)| *known != index) {
                    values.push((index, scalar.value));
                }
            }
            if !(is_wanted && others.is_some()) {
                intake.note_tag(&String::from_utf8_lossy(scalar.tag));
            }
        }
        if let Some(OtherFolders(others)) = others {
            for (index, _) in values {
                let folders = others.entry(index).or_default();
                if folders.len() < MAX_FOLDERS {
                    folders.insert(Arc::clone(&self.folder));
                }
            }
            return;
        }
        if values.is_empty() {
            return;
        }
        values.sort_by_key(|(index, _)| *index);
        let key = ReportKey::EventFile { folder: Arc::clone(&self.folder) };
        intake.add(Report { step: event.step, wall_time_secs: event.wall_time_secs, key, values });
    }
}

/// Returns `tag` as sanitised by tensorboardX: characters other than letters, digits and `-/_.` become `_`, and leading
/// slashes are removed. Source: tensorboardX 2.6, `summary.py`, `_clean_tag`.
fn clean_tag(tag: &str) -> String {
    let cleaned: String = tag
        .chars()
        .map(|character| if character.is_alphanumeric() || "-/_.".contains(character) { character } else { '_' })
        .collect();
    cleaned.trim_start_matches('/').to_owned()
}

#[cfg(test)]
mod tests;
