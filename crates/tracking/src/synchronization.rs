//! Passes that bring a tracker up to date with a store.

use std::sync::Arc;

use futures::TryStreamExt;
use futures::future::BoxFuture;
use tunesmith_algorithms::problem::TrialId;
use tunesmith_domain::{JobId, Study, Trial};
use tunesmith_store::{Store, StoreError, pages};

use crate::destination::{Destination, Finish, View};
use crate::results::Results;
use crate::{Subject, TrackingError};

/// Trials read and sent together.
const PAGE: usize = 100;

/// Repetitions after concurrent exports of the same subject, beyond which the next export continues.
const MAX_FINISHES: usize = 5;

/// Chooses the trial that a model of the results recommends.
pub type Recommend = Arc<dyn Fn(Study, Vec<Trial>) -> BoxFuture<'static, Option<TrialId>> + Send + Sync>;

/// Where the subject is read at each pass.
#[derive(Debug, Clone)]
pub enum SubjectSource {
    Job(JobId),
    /// A subject that does not change; its study is read.
    Fixed(Box<Subject>),
}

/// State of the tracker after a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    /// Whether the pass sent anything.
    pub has_changes: bool,
    /// Whether the subject has ended, and the tracker has everything.
    pub is_complete: bool,
    /// Revision of the study up to which the tracker has the trials.
    pub study_revision: u64,
}

/// Export of one subject to one destination.
pub struct Synchronization<D> {
    store: Arc<dyn Store>,
    source: SubjectSource,
    recommend: Recommend,
    destination: D,
    results: Option<Results>,
    /// Revision up to which trials were sent.
    revision: u64,
    /// The subject as last sent, with the revision of its study.
    sent: Option<(Subject, u64)>,
    is_complete: bool,
}

impl<D: Destination> Synchronization<D> {
    /// Starts after `revision` of the study; 0 sends everything.
    pub fn new(
        store: Arc<dyn Store>,
        source: SubjectSource,
        destination: D,
        recommend: Recommend,
        revision: u64,
    ) -> Self {
        let (results, sent, is_complete) = (None, None, false);
        Self { store, source, recommend, destination, results, revision, sent, is_complete }
    }

    pub fn destination(&self) -> &D {
        &self.destination
    }

    /// Sends what has changed.
    ///
    /// # Errors
    /// If a request fails; a later pass continues.
    pub async fn pass(&mut self) -> Result<Pass, TrackingError> {
        let passed = self.pass_once().await;
        if passed.as_ref().is_err_and(TrackingError::is_of_missing_run) {
            // Removed by a user: the next pass creates it again.
            self.restart();
        }
        passed
    }

    fn restart(&mut self) {
        (self.revision, self.sent, self.is_complete) = (0, None, false);
    }

    async fn pass_once(&mut self) -> Result<Pass, TrackingError> {
        for _ in 0..MAX_FINISHES {
            let store = Arc::clone(&self.store);
            let (subject, study) = self.read(&*store).await?;
            let study_revision = study.as_ref().map_or(0, |study| study.revision);
            if self.revision > study_revision {
                // The store was restored from a backup.
                self.restart();
            }
            let now = (subject, study_revision);
            if self.sent.as_ref() == Some(&now) && (self.is_complete || now.0.outcome.is_none()) {
                return Ok(self.passed(false));
            }
            let view = View { store: &*store, subject: &now.0, study: study.as_ref() };
            self.destination.open(&view).await?;
            let mut results = match (&study, self.results.take()) {
                (Some(study), None) => all_results(&*store, study).await?,
                (_, results) => results.unwrap_or_default(),
            };
            let sent = self.send_trials(&view, &mut results).await;
            let concluded = match sent {
                Ok(()) => self.destination.conclude(&view, &results).await,
                Err(error) => Err(error),
            };
            self.results = Some(results);
            concluded?;
            if now.0.outcome.is_none() {
                self.sent = Some(now);
                return Ok(self.passed(true));
            }
            let recommended = self.recommended(&*store, study.as_ref()).await?;
            match self.destination.finish(&view, recommended).await? {
                Finish::Complete => {
                    (self.is_complete, self.sent) = (true, Some(now));
                    return Ok(self.passed(true));
                }
                Finish::Trials(trials) => {
                    for id in trials {
                        if let Some(study) = &study {
                            let trial = store.trial(&study.id, id).await?;
                            self.destination.put(&view, vec![trial]).await?;
                        }
                    }
                }
                Finish::Restart => self.restart(),
            }
        }
        Ok(self.passed(true))
    }

    fn passed(&self, has_changes: bool) -> Pass {
        Pass { has_changes, is_complete: self.is_complete, study_revision: self.revision }
    }

    async fn read(&self, store: &dyn Store) -> Result<(Subject, Option<Study>), StoreError> {
        let subject = match &self.source {
            SubjectSource::Job(id) => Subject::of_job(&store.job(id).await?),
            SubjectSource::Fixed(subject) => Subject::clone(subject),
        };
        let study = match &subject.study {
            Some(study) => Some(store.study(study).await?),
            None => None,
        };
        Ok((subject, study))
    }

    async fn send_trials(&mut self, view: &View<'_>, results: &mut Results) -> Result<(), TrackingError> {
        let Some(study) = view.study else { return Ok(()) };
        loop {
            let trials = view.store.trials_changed_since(&study.id, self.revision, PAGE).await?;
            let Some(last) = trials.last().map(|trial| trial.revision) else { return Ok(()) };
            trials.iter().for_each(|trial| results.note(trial));
            self.destination.put(view, trials).await?;
            self.revision = last;
        }
    }

    async fn recommended(&self, store: &dyn Store, study: Option<&Study>) -> Result<Option<TrialId>, TrackingError> {
        let Some(study) = study else { return Ok(None) };
        let trials: Vec<Trial> = pages::trials(store, &study.id).try_collect().await?;
        Ok((self.recommend)(study.clone(), trials).await)
    }
}

/// Results of all trials of `study`.
async fn all_results(store: &dyn Store, study: &Study) -> Result<Results, TrackingError> {
    let mut results = Results::default();
    let mut pages = std::pin::pin!(pages::trials_by_page(store, study));
    while let Some(page) = pages.try_next().await? {
        page.iter().for_each(|trial| results.note(trial));
    }
    Ok(results)
}

#[cfg(test)]
mod tests;
