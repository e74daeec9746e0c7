//! Choice among the event file folders that contain a metric.
//!
//! A series is a metric in one folder. Trainers write the same metric to several: Keras `epoch_accuracy` to `train` and
//! `validation`, an Estimator `loss` to its own folder and to `eval`. Exactly one series is the metric's curve. The
//! choice depends on folder names alone, so that it does not depend on the order in which files are written.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;

use crate::Measurement;

/// Maximum number of folders per metric; a guess. Beyond it, the first ones by [`folder_order`] remain.
pub const MAX_FOLDERS: usize = 16;

/// Maximum length of a folder name in bytes.
pub const MAX_FOLDER_BYTES: usize = 512;

/// Event file folders in which a trial reported each metric, sorted by [`folder_order`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MetricFolders(BTreeMap<String, Vec<Arc<str>>>);

impl MetricFolders {
    /// Collects metrics and their folders, in any order.
    pub fn new(found: impl IntoIterator<Item = (String, Arc<str>)>) -> Self {
        let mut folders = Self::default();
        found.into_iter().for_each(|(metric, folder)| folders.add(&metric, &folder));
        folders
    }

    /// Adds the folder of `measurement`, if it comes from an event file.
    pub fn note(&mut self, measurement: &Measurement) {
        if let Some(folder) = measurement.folder() {
            measurement.metrics.iter().for_each(|metric| self.add(&metric.metric, folder));
        }
    }

    fn add(&mut self, metric: &str, folder: &Arc<str>) {
        if !self.0.contains_key(metric) {
            self.0.insert(metric.to_owned(), Vec::new());
        }
        let Some(folders) = self.0.get_mut(metric) else { return };
        if let Err(index) = folders.binary_search_by(|known| folder_order(known, folder)) {
            folders.insert(index, Arc::clone(folder));
            folders.truncate(MAX_FOLDERS);
        }
    }

    /// Folder whose series is the curve of `metric`; `None` if no event file contains the metric.
    pub fn taken(&self, metric: &str) -> Option<&Arc<str>> {
        self.0.get(metric)?.first()
    }

    /// Metrics with their folders, at least one each. The first folder contains the curve.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[Arc<str>])> {
        self.0.iter().map(|(metric, folders)| (metric.as_str(), folders.as_slice()))
    }

    /// Metrics reported in several folders, with these folders.
    pub fn ambiguous(&self) -> impl Iterator<Item = (&str, &[Arc<str>])> {
        self.iter().filter(|(_, folders)| folders.len() > 1)
    }

    /// Whether a value of `metric` in `measurement` belongs to the metric's curve.
    pub fn is_of_curve(&self, measurement: &Measurement, metric: &str) -> bool {
        measurement.folder().is_none() || measurement.folder() == self.taken(metric)
    }

    /// Removes from `measurements` the values that belong to no curve, and measurements left empty.
    pub fn retain_curves(&self, measurements: &mut Vec<Measurement>) {
        if self.ambiguous().next().is_none() {
            return;
        }
        measurements.retain_mut(|measurement| {
            if measurement.folder().is_none() {
                return true;
            }
            let mut metrics = std::mem::take(&mut measurement.metrics);
            metrics.retain(|metric| self.is_of_curve(measurement, &metric.metric));
            measurement.metrics = metrics;
            !measurement.metrics.is_empty()
        });
    }
}

/// Order of preference among folders: evaluation and validation, then test, then folders of unknown purpose, then
/// training. Ties: fewer path levels, then the higher number (`version_1` before `version_0`), then the name. The last
/// path segment that states a purpose decides.
pub fn folder_order(a: &str, b: &str) -> Ordering {
    let levels = |folder: &str| folder.split('/').filter(|part| *part != ".").count();
    purpose(a)
        .cmp(&purpose(b))
        .then_with(|| levels(a).cmp(&levels(b)))
        .then_with(|| pieces(a).cmp(pieces(b)))
        .then_with(|| a.cmp(b))
}

/// Data set behind the measurements in a folder, in order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Purpose {
    Evaluation,
    Test,
    Unknown,
    Training,
}

fn purpose(folder: &str) -> Purpose {
    folder.rsplit('/').find_map(purpose_of_part).unwrap_or(Purpose::Unknown)
}

/// Purpose named by the words of a path segment; `None` if there is none. A segment that names training and another
/// purpose, such as `eval_train`, is [`Purpose::Unknown`].
fn purpose_of_part(part: &str) -> Option<Purpose> {
    let mut found: Option<Purpose> = None;
    for word in part.split(|character: char| !character.is_alphabetic()) {
        let purpose = match word.to_lowercase().as_str() {
            "eval" | "evaluation" | "val" | "valid" | "validation" | "dev" => Purpose::Evaluation,
            "test" | "testing" => Purpose::Test,
            "train" | "training" => Purpose::Training,
            _ => continue,
        };
        found = Some(match found {
            Some(other) if (other == Purpose::Training) != (purpose == Purpose::Training) => Purpose::Unknown,
            Some(other) => other.min(purpose),
            None => purpose,
        });
    }
    found
}

/// Splits `folder` into pairs of text and number. Larger numbers come first.
fn pieces(folder: &str) -> impl Iterator<Item = (&str, Reverse<u64>)> {
    let mut rest = folder;
    iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (text, after) = rest.split_at(rest.find(|first: char| first.is_ascii_digit()).unwrap_or(rest.len()));
        let end = after.find(|first: char| !first.is_ascii_digit()).unwrap_or(after.len());
        rest = &after[end..];
        Some((text, Reverse(after[..end].parse().unwrap_or(0))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MetricValue, ReportKey};

    fn measurement(folder: Option<&str>, metrics: &[&str]) -> Measurement {
        Measurement {
            step: 1,
            wall_time_secs: 0.0,
            elapsed_secs: None,
            key: folder.map_or(ReportKey::Http, |folder| ReportKey::EventFile { folder: folder.into() }),
            metrics: metrics.iter().map(|name| MetricValue { metric: (*name).to_owned(), value: 0.5 }).collect(),
        }
    }

    #[test]
    fn evaluation_is_taken_before_training_in_any_order() {
        // Each line lists folders in order of preference.
        for folders in [
            &["validation", "train"][..],
            &["eval", "."],
            &["eval", "eval_holdout", "."],
            &["eval_holdout", ".", "eval_train"],
            &["loss_val", "loss_test", "loss_train"],
            &["validation", "test", ".", "other", "train"],
            &["lightning_logs/version_10", "lightning_logs/version_9"],
            &["val/version_0", "train/version_1"],
            &["logs/run-2/validation", "logs/run-1/validation", "logs/run-2/train", "logs/run-1/train"],
            &["train_and_evaluate/eval", "train_and_evaluate", "train_and_evaluate/train"],
            &["Validation", "TRAIN"],
            &["a", "b", "a/a"],
            // Purpose words inside other words do not count.
            &["interval", "retrain", "valley", "training"],
        ] {
            for rotation in 0..folders.len() {
                let mut given = folders.to_vec();
                given.rotate_left(rotation);
                let found = MetricFolders::new(given.iter().map(|folder| ("m".to_owned(), Arc::from(*folder))));
                let (metric, ordered) = found.iter().next().unwrap();
                assert_eq!(metric, "m");
                assert_eq!(ordered.iter().map(|folder| &**folder).collect::<Vec<_>>(), folders);
                assert_eq!(&**found.taken("m").unwrap(), folders[0]);
            }
        }
    }

    #[test]
    fn values_of_other_series_are_removed_for_each_metric() {
        let mut measurements = vec![
            measurement(Some("train"), &["acc", "loss"]),
            measurement(Some("train"), &["acc"]),
            measurement(Some("validation"), &["acc"]),
            measurement(None, &["acc", "loss"]),
        ];
        let mut folders = MetricFolders::default();
        measurements.iter().for_each(|one| folders.note(one));
        assert_eq!(folders.ambiguous().map(|(metric, _)| metric).collect::<Vec<_>>(), ["acc"]);
        let expected = vec![
            measurement(Some("train"), &["loss"]),
            measurement(Some("validation"), &["acc"]),
            measurement(None, &["acc", "loss"]),
        ];
        folders.retain_curves(&mut measurements);
        assert_eq!(measurements, expected);
    }

    #[test]
    fn number_of_folders_is_bounded_and_the_best_are_kept() {
        let all = (0..1000).map(|number| ("m".to_owned(), Arc::from(format!("run_{number}"))));
        let found = MetricFolders::new(all.chain([("m".to_owned(), Arc::from("eval"))]));
        let (_, folders) = found.iter().next().unwrap();
        assert_eq!(folders.len(), MAX_FOLDERS);
        assert_eq!((&*folders[0], &*folders[1]), ("eval", "run_999"));
    }
}
