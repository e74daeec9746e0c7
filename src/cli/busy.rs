//! Activity display for slow work outside trials: package installation and suggestions.

use std::time::{Duration, Instant};

use super::output::{Followed, Writers};
use super::progress::duration_text;
use tunesmith_jobs::Activity;
use tunesmith_packages::Step;

/// Shorter work is not displayed, except installations.
const SHORT: Duration = Duration::from_secs(2);
/// Interval between two lines about the same activity.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum length of a quoted log line in characters.
const MAX_CHARACTERS: usize = 100;

/// The current activity.
pub(super) struct Busy {
    activity: Activity,
    since: Instant,
    followed: Followed,
    /// Last line of the installer's log.
    current: String,
    /// Last line returned, with its time.
    printed: Option<(String, Instant)>,
}

impl Busy {
    pub(super) fn new(activity: Activity) -> Self {
        Self { activity, since: Instant::now(), followed: Followed::default(), current: String::new(), printed: None }
    }

    /// Text of the live line; `None` while the work is still short.
    pub(super) fn current(&mut self) -> Option<String> {
        self.read();
        let text = activity_text(&self.activity);
        match self.activity {
            Activity::Suggesting if self.since.elapsed() < SHORT => None,
            Activity::Suggesting => Some(format!("{text} since {}", duration_text(self.since.elapsed().as_secs_f64()))),
            Activity::Installing(_) if self.current.is_empty() => Some(text),
            Activity::Installing(_) => Some(format!("{text}: {}", self.current)),
        }
    }

    /// Next plain line, if it differs from the last one and [`LINE_INTERVAL`] has passed.
    pub(super) fn line_if_due(&mut self) -> Option<String> {
        if self.printed.as_ref().is_some_and(|(_, at)| at.elapsed() < LINE_INTERVAL) {
            return None;
        }
        let line = self.current()?;
        if self.printed.as_ref().is_some_and(|(printed, _)| *printed == line) {
            return None;
        }
        self.printed = Some((line.clone(), Instant::now()));
        Some(line)
    }

    fn read(&mut self) {
        let Activity::Installing(Step::Installing { log, .. } | Step::Waiting { log }) = &self.activity else { return };
        let current = &mut self.current;
        let keep = |line: &[u8]| {
            let line = String::from_utf8_lossy(line);
            if !line.trim().is_empty() {
                *current = line.trim().chars().take(MAX_CHARACTERS).collect();
            }
            Ok(())
        };
        // The log is informational: a read error does not fail the job.
        if let Err(error) = self.followed.new_lines(log, Writers::Alive, keep) {
            tracing::debug!(log.path = %log.display(), %error, "the log of the installer cannot be read");
        }
    }
}

pub(super) fn activity_text(activity: &Activity) -> String {
    match activity {
        Activity::Suggesting => "computing the parameters of the next trial".to_owned(),
        Activity::Installing(Step::Fetching { uri }) => format!("reading the package {uri}"),
        Activity::Installing(Step::Waiting { .. }) => {
            "waiting for another process that installs the same packages".to_owned()
        }
        Activity::Installing(Step::Installing { installer, .. }) => format!("installing packages with {installer}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn current_line_of_the_installer_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("install.log");
        let mut busy = Busy::new(Activity::Installing(Step::Installing { installer: "pip", log: log.clone() }));
        let start = "installing packages with pip";
        assert_eq!(busy.current().as_deref(), Some(start));
        std::fs::write(&log, "Collecting numpy\n  Downloading numpy-2.whl\n\nunfin").unwrap();
        assert_eq!(busy.current(), Some(format!("{start}: Downloading numpy-2.whl")));
        assert_eq!(busy.line_if_due(), Some(format!("{start}: Downloading numpy-2.whl")));
        std::fs::write(&log, "Collecting numpy\n  Downloading numpy-2.whl\n\nunfinished\n").unwrap();
        // The next line is not due yet.
        assert_eq!(busy.line_if_due(), None);
        assert_eq!(busy.current(), Some(format!("{start}: unfinished")));
    }

    #[test]
    fn short_computation_is_not_shown() {
        assert_eq!(Busy::new(Activity::Suggesting).line_if_due(), None);
    }
}
