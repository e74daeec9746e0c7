//! Filters of lists of jobs and of studies: the fields that each has in the language of [`tunesmith_filter`].
//!
//! Not here: filters of the trials of a study, which are evaluated on columns.

mod jobs;
mod studies;

use jiff::Timestamp;
use tunesmith_filter::Test;

pub use jobs::JobFilter;
pub use studies::StudyFilter;
pub use tunesmith_filter::FilterError;

/// Whether `text` exists and passes `test`.
fn accepts_text(test: &Test, text: Option<&str>) -> bool {
    text.is_some_and(|text| test.accepts_text(text))
}

/// Whether `time` exists and passes `test`.
fn accepts_time(test: &Test, time: Option<Timestamp>) -> bool {
    time.is_some_and(|time| test.accepts_time(time.as_microsecond()))
}
