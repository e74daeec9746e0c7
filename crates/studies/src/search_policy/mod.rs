//! Runs a study's search algorithm: updates its history and computes the next points.
//!
//! Designers are pure functions, so all state between calls (history, designer) is a cache; eviction costs time but
//! does not affect results. Points are computed on blocking threads, with bounded concurrency.

mod bounded;
mod fixed;
mod history;
mod model_trials;
mod sources;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};
use tunesmith_algorithms::designer::{Designer, DesignerError};
use tunesmith_algorithms::designers::InitialPoints;
use tunesmith_algorithms::interruption::Interruption;
use tunesmith_algorithms::problem::{AlgorithmName, Origin, ParameterValues, TrialId, TrialSuggestion};
use tunesmith_algorithms::transfer::SourceStudy;

use self::history::StudyHistory;
pub use self::history::{SourceReport, outcome};
pub use self::sources::{SourceDescription, SourceDescriptions, describe_sources};
use crate::study_cache::StudyCache;
use tunesmith_domain::{Algorithm, Study, StudyFields, StudyId};
use tunesmith_store::{FEW, Store, StoreError};
use tunesmith_telemetry::{SuggestionPhase, SuggestionSource, telemetry};

/// Default memory limit for cached histories, approximately, in bytes.
const MEMORY: usize = 128 << 20;

#[derive(Debug, Clone, PartialEq)]
pub enum Proposal {
    Trial {
        /// Number for which the point was computed: the study's next one.
        id: TrialId,
        parameters: ParameterValues,
        /// Algorithm and step that propose it.
        origin: Origin,
    },
    /// The search space is exhausted.
    Exhausted,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Suggestions {
    /// Number of the first point's trial, the study's next one; the others follow consecutively.
    pub first_id: TrialId,
    pub points: Vec<TrialSuggestion>,
    /// Reason for returning fewer points than requested.
    pub end: Option<StudyEnd>,
    /// Identifies the points on release.
    pub reservation: Reservation,
    /// Failure of the study's algorithm, if random search supplied the points.
    pub failure: Option<String>,
}

/// Why a study has no more points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StudyEnd {
    Exhausted,
    /// The maximum number of trials is reached.
    MaxTrials,
}

impl StudyEnd {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exhausted => "search space exhausted",
            Self::MaxTrials => "the maximum number of trials is reached",
        }
    }
}

/// Points pending before their trials are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation(u64);

/// Why no point was computed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum SearchPolicyError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The algorithm does not support the study, or failed.
    #[error("study {study}: the search algorithm failed")]
    Designer {
        study: StudyId,
        #[source]
        source: DesignerError,
    },
    #[error("study {0}: the suggestion was cancelled")]
    Cancelled(StudyId),
    #[error("study {study}: computing {count} suggestions took longer than {} s; request fewer at once", .limit.as_secs())]
    TooLong { study: StudyId, count: NonZeroUsize, limit: Duration },
    #[error("study {study}: the search algorithm stopped unexpectedly")]
    Interrupted {
        study: StudyId,
        #[source]
        source: tokio::task::JoinError,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// A later request.
    Preparation,
    /// A request repeated if another trial takes its number.
    Proposal,
    /// Trials about to be created.
    Reservation,
}

struct Computed {
    suggestions: Suggestions,
    algorithm: &'static str,
    source: SuggestionSource,
}

/// Suggests points for all studies of one store.
pub struct SearchPolicy {
    store: Arc<dyn Store>,
    processors: Arc<Semaphore>,
    pub(crate) histories: StudyCache<Mutex<StudyHistory>>,
    /// Time limit for the points of a reservation.
    max_time: Duration,
}

impl SearchPolicy {
    /// A policy with at most `processors` (at least 1) concurrent computations.
    pub fn new(store: Arc<dyn Store>, processors: usize) -> Self {
        Self::with_memory(store, processors, MEMORY)
    }

    /// As [`Self::new`], with an approximate limit of `memory` bytes, above which the least recently used histories are
    /// evicted.
    pub fn with_memory(store: Arc<dyn Store>, processors: usize, memory: usize) -> Self {
        Self {
            store,
            processors: Arc::new(Semaphore::new(processors.max(1))),
            histories: StudyCache::new(memory),
            max_time: bounded::MAX_TIME,
        }
    }

    #[cfg(test)]
    pub(crate) fn with_max_time(self, max_time: Duration) -> Self {
        Self { max_time, ..self }
    }

    /// Next point of `study`, given the current state of the store. Changes nothing.
    pub async fn propose(&self, study: &StudyId) -> Result<Proposal, SearchPolicyError> {
        let study = self.store.study(study).await?;
        let interruption = Interruption::default();
        let computed = self.compute(&study, NonZeroUsize::MIN, Purpose::Proposal, &interruption).await;
        let Computed { suggestions, .. } = computed?;
        Ok(match suggestions.points.into_iter().next() {
            Some(TrialSuggestion { parameters, origin }) => {
                Proposal::Trial { id: suggestions.first_id, parameters, origin }
            }
            None => Proposal::Exhausted,
        })
    }

    /// Up to `count` next points, fewer if the study ends first. They count as pending until their trials are stored or
    /// they are [released](Self::release). If the study's algorithm fails, random search supplies the points.
    pub async fn suggest(&self, study: &Study, count: NonZeroUsize) -> Result<Suggestions, SearchPolicyError> {
        self.suggest_until(study, count, &Interruption::default()).await
    }

    /// As [`Self::suggest`], ending on `interruption` or when the future is dropped.
    pub async fn suggest_until(
        &self,
        study: &Study,
        count: NonZeroUsize,
        interruption: &Interruption,
    ) -> Result<Suggestions, SearchPolicyError> {
        let failure = match self.compute(study, count, Purpose::Reservation, interruption).await {
            Ok(Computed { suggestions, algorithm, source }) => {
                telemetry().suggested(algorithm, source, suggestions.points.len());
                return Ok(suggestions);
            }
            Err(
                error @ (SearchPolicyError::Store(_)
                | SearchPolicyError::Cancelled(_)
                | SearchPolicyError::TooLong { .. }),
            ) => return Err(error),
            Err(error) => error_text(&error),
        };
        // The cached algorithm state may have caused the failure.
        self.forget(&study.id);
        telemetry().suggested(study.algorithm.as_str(), SuggestionSource::Fallback, count.get());
        let fallback = StudyFields { algorithm: Algorithm::RandomSearch, ..(**study).clone() };
        let fallback = Study::restore(fallback);
        let mut history = StudyHistory::open(&*self.store, &fallback).await?;
        history.refresh(&*self.store, &fallback).await?;
        let computed = history.suggestions(study, count, Purpose::Proposal, interruption);
        let computed = computed.map_err(|source| SearchPolicyError::Designer { study: study.id.clone(), source })?;
        Ok(Suggestions { failure: Some(failure), ..computed.suggestions })
    }

    /// Releases points without trials, and all points suggested after them.
    pub async fn release(&self, study: &StudyId, reservation: Reservation) {
        if let Some(history) = self.histories.get(study) {
            history.lock().await.release(reservation);
        }
    }

    /// Computes the next point in the background if the study has no other computation and a processor is free, so that
    /// a request for one point finds it ready unless something changes. Skipped for model-free algorithms, which are
    /// fast.
    pub fn prepare(self: &Arc<Self>, study: &Study) {
        if !study.algorithm.learns() {
            return;
        }
        let (policy, id) = (Arc::clone(self), study.id.clone());
        tokio::spawn(async move {
            // The failure is reported to the next client requesting a suggestion.
            let Ok(study) = policy.store.study(&id).await else { return };
            let Ok(history) = policy.history(&study).await else { return };
            let Ok(history) = history.try_lock_owned() else { return };
            let Ok(processor) = Arc::clone(&policy.processors).try_acquire_owned() else { return };
            let (one, interruption) = (NonZeroUsize::MIN, Interruption::default());
            let _ = policy.compute_with(history, processor, &study, one, Purpose::Preparation, &interruption).await;
        });
    }

    pub fn forget(&self, study: &StudyId) {
        self.histories.remove(study);
    }

    /// Use of each source study of `study` by its search so far, the nearest one last.
    ///
    /// # Errors
    /// [`SearchPolicyError`], as for a suggestion.
    pub async fn source_reports(&self, study: &Study) -> Result<Vec<SourceReport>, SearchPolicyError> {
        if study.sources().is_empty() {
            return Ok(Vec::new());
        }
        let mut history = self.history(study).await?.lock_owned().await;
        if !history.is_of(study) {
            *history = StudyHistory::open(&*self.store, study).await?;
        }
        history.refresh(&*self.store, study).await?;
        let processor = Arc::clone(&self.processors).acquire_owned().await;
        let processor = processor.expect("the semaphore is never closed");
        let computing = tokio::task::spawn_blocking(move || {
            let _processor = processor;
            history.source_reports(&Interruption::default())
        });
        let reports = computing.await;
        let reports = reports.map_err(|source| SearchPolicyError::Interrupted { study: study.id.clone(), source })?;
        reports.map_err(|source| SearchPolicyError::Designer { study: study.id.clone(), source })
    }

    async fn compute(
        &self,
        study: &Study,
        count: NonZeroUsize,
        purpose: Purpose,
        interruption: &Interruption,
    ) -> Result<Computed, SearchPolicyError> {
        let begin = Instant::now();
        let mut history = self.history(study).await?.lock_owned().await;
        if history.is_of(study) && history.is_behind(study) {
            // Needs no processor, which would have to wait for other studies' suggestions.
            history.refresh(&*self.store, study).await?;
        }
        // Acquired after the study's lock, so that a request waiting for a study occupies no processor.
        let processor = Arc::clone(&self.processors).acquire_owned().await;
        let processor = processor.expect("the semaphore is never closed");
        telemetry().suggestion_time(history.algorithm(), SuggestionPhase::Wait, begin.elapsed());
        self.compute_with(history, processor, study, count, purpose, interruption).await
    }

    async fn compute_with(
        &self,
        mut history: OwnedMutexGuard<StudyHistory>,
        processor: OwnedSemaphorePermit,
        study: &Study,
        count: NonZeroUsize,
        purpose: Purpose,
        interruption: &Interruption,
    ) -> Result<Computed, SearchPolicyError> {
        let begin = Instant::now();
        if !history.is_of(study) {
            *history = StudyHistory::open(&*self.store, study).await?;
        }
        history.refresh(&*self.store, study).await?;
        telemetry().suggestion_time(history.algorithm(), SuggestionPhase::History, begin.elapsed());
        if let Some(prepared) = history.prepared(study, count, purpose) {
            return Ok(prepared);
        }
        let id = study.id.clone();
        let at_once = !history.computes_long() && count.get() <= FEW;
        let request = interruption.clone();
        let compute = move |study: &Study| {
            let _processor = processor;
            let begin = Instant::now();
            let computed = history.suggestions(study, count, purpose, &request);
            telemetry().suggestion_time(history.algorithm(), SuggestionPhase::Compute, begin.elapsed());
            (computed, history.bytes())
        };
        let limit = (purpose == Purpose::Reservation).then_some(self.max_time);
        let ((outcome, bytes), is_late) = if at_once {
            (compute(study), false)
        } else {
            let study = study.clone();
            let computing = tokio::task::spawn_blocking(move || compute(&study));
            let (computed, is_late) = bounded::bounded(computing, interruption, limit).await;
            (computed.map_err(|source| SearchPolicyError::Interrupted { study: id.clone(), source })?, is_late)
        };
        let removed = self.histories.set_size(&id, bytes);
        if !removed.is_empty() {
            // Not awaited: the suggestion is ready.
            drop(tokio::task::spawn_blocking(move || drop(removed)));
        }
        outcome.map_err(|source| match source {
            DesignerError::Interrupted if is_late => {
                SearchPolicyError::TooLong { study: id, count, limit: self.max_time }
            }
            DesignerError::Interrupted => SearchPolicyError::Cancelled(id),
            source => SearchPolicyError::Designer { study: id, source },
        })
    }

    async fn history(&self, study: &Study) -> Result<Arc<Mutex<StudyHistory>>, SearchPolicyError> {
        if let Some(history) = self.histories.get(&study.id) {
            return Ok(history);
        }
        let fresh = StudyHistory::open(&*self.store, study).await?;
        let bytes = fresh.bytes();
        Ok(self.histories.get_or_insert(&study.id, bytes, || Mutex::new(fresh)))
    }
}

/// Creates a study's designer. `sources` are source trials from other search spaces, oldest first; only the automatic
/// choice and the Gaussian process use them. The study's initial points precede the algorithm's.
///
/// # Errors
/// [`DesignerError::Unsupported`] if the algorithm does not support the search space, or cannot use source studies
/// although it uses results, or if an initial point lies outside the space.
pub fn designer(study: &Study, sources: &[SourceStudy]) -> Result<Box<dyn Designer>, DesignerError> {
    let designer = study.algorithm.designer(&study.problem, study.seed, sources)?;
    if study.initial_points.is_empty() {
        return Ok(designer);
    }
    let first =
        InitialPoints::new(&study.problem, study.initial_points.clone(), designer).map_err(|(index, error)| {
            let reason = format!("point {index} is outside the search space: {error}");
            DesignerError::Unsupported { algorithm: AlgorithmName::InitialTrials.as_str(), reason }
        })?;
    Ok(Box::new(first))
}

/// An error and all its causes, on one line.
pub fn error_text(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
