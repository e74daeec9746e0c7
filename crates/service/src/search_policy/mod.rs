//! Runs the search algorithm of a study: updates its history and computes the next points.
//!
//! A designer is a pure function, so all state between calls (the history read so far, the designer) is a cache: losing
//! it costs time and does not change the result. Points are computed on blocking threads, at most as many at once as
//! the policy allows.

mod bounded;
mod history;
mod model_trials;
mod sources;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};
use tunesmith_algorithms::designer::{Designer, DesignerError};
use tunesmith_algorithms::designers::{
    Automatic, CmaEs, GpBandit, GridSearch, InitialPoints, QuasiRandomSearch, RandomSearch, TreeParzen,
};
use tunesmith_algorithms::interruption::Interruption;
use tunesmith_algorithms::problem::{
    AlgorithmName, Origin, ParameterValues, ProblemStatement, TrialId, TrialSuggestion,
};
use tunesmith_algorithms::transfer::SourceStudy;

use self::history::StudyHistory;
pub use self::history::outcome;
pub(crate) use self::sources::sources_in_words;
use crate::bounded_cache::BoundedCache;
use tunesmith_domain::{Algorithm, Study, StudyFields, StudyId};
use tunesmith_store::{FEW, Store, StoreError};
use tunesmith_telemetry::{SuggestionPhase, SuggestionSource, telemetry};

/// Approximate limit of the memory for cached histories in bytes, unless another one is given.
const MEMORY: usize = 128 << 20;

/// The next point of a study, given its current trials.
#[derive(Debug, Clone, PartialEq)]
pub enum Proposal {
    /// A point for trial `id`.
    Trial {
        /// The number for which the point was computed: the study's next one.
        id: TrialId,
        /// The point.
        parameters: ParameterValues,
        /// What proposes it.
        origin: Origin,
    },
    /// Every point of the search space has been suggested.
    Exhausted,
}

/// The next points of a study, given its current trials.
#[derive(Debug, Clone, PartialEq)]
pub struct Suggestions {
    /// The number for which the first point was computed: the study's next one. The numbers of the others follow.
    pub first_id: TrialId,
    /// The points.
    pub points: Vec<TrialSuggestion>,
    /// The reason if there are fewer points than requested.
    pub end: Option<StudyEnd>,
    /// Identifies the points when they are taken back.
    pub reservation: Reservation,
    /// The failure of the study's algorithm, if the points are from random search.
    pub failure: Option<String>,
}

/// Why a study has no more points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StudyEnd {
    /// Every point of the search space has been suggested.
    Exhausted,
    /// The study has its maximum number of trials.
    MaxTrials,
}

impl StudyEnd {
    /// The reason as a message for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exhausted => "search space exhausted",
            Self::MaxTrials => "the maximum number of trials is reached",
        }
    }
}

/// Points that count as pending before their trials are in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation(u64);

/// Why no point was computed.
#[derive(Debug, thiserror::Error)]
pub enum SearchPolicyError {
    /// The history could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The algorithm cannot handle the study, or failed.
    #[error("study {study}: the search algorithm failed")]
    Designer {
        /// The study.
        study: StudyId,
        /// The cause.
        #[source]
        source: DesignerError,
    },
    /// The caller requested the end of the computation.
    #[error("study {study}: the suggestion was cancelled")]
    Cancelled {
        /// The study.
        study: StudyId,
    },
    /// The points of one request took too long.
    #[error("study {study}: computing {count} suggestions took longer than {} s; request fewer at once", .limit.as_secs())]
    TooLong {
        /// The study.
        study: StudyId,
        /// The number of requested points.
        count: NonZeroUsize,
        /// The limit.
        limit: Duration,
    },
    /// The computation was interrupted.
    #[error("study {study}: the search algorithm stopped unexpectedly")]
    Interrupted {
        /// The study.
        study: StudyId,
        /// The cause.
        #[source]
        source: tokio::task::JoinError,
    },
}

/// The purpose of a computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// A later request.
    Preparation,
    /// A request that is repeated if its number was assigned to another trial.
    Proposal,
    /// Trials that are about to be created.
    Reservation,
}

/// Points that were computed or prepared in advance.
struct Computed {
    suggestions: Suggestions,
    algorithm: &'static str,
    source: SuggestionSource,
}

/// Suggests points for all studies of one store.
pub struct SearchPolicy {
    store: Arc<dyn Store>,
    processors: Arc<Semaphore>,
    histories: BoundedCache<Mutex<StudyHistory>>,
    /// Longest computation of the points of a reservation.
    max_time: Duration,
}

impl SearchPolicy {
    /// A policy that runs at most `processors` computations at once, at least 1.
    pub fn new(store: Arc<dyn Store>, processors: usize) -> Self {
        Self::with_memory(store, processors, MEMORY)
    }

    /// As [`Self::new`]. The least recently used histories are dropped when all histories together take more than
    /// approximately `memory` bytes.
    pub fn with_memory(store: Arc<dyn Store>, processors: usize, memory: usize) -> Self {
        Self {
            store,
            processors: Arc::new(Semaphore::new(processors.max(1))),
            histories: BoundedCache::new(memory),
            max_time: bounded::MAX_TIME,
        }
    }

    /// Sets the longest computation of the points of one request; 5 minutes by default.
    #[must_use]
    pub fn with_max_time(self, max_time: Duration) -> Self {
        Self { max_time, ..self }
    }

    /// The next point of `study`, given the current state of the store.
    ///
    /// # Errors
    /// [`SearchPolicyError`]; nothing was changed.
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

    /// The next `count` points of `study`, fewer if it cannot have so many more trials. They count as pending until the
    /// store has their trials or they are [taken back](Self::take_back). If the study's algorithm fails, the points are
    /// from random search.
    ///
    /// # Errors
    /// [`SearchPolicyError`]; nothing was changed.
    pub async fn suggest(&self, study: &Study, count: NonZeroUsize) -> Result<Suggestions, SearchPolicyError> {
        self.suggest_until(study, count, &Interruption::default()).await
    }

    /// As [`Self::suggest`]; the computation ends when `interruption` is requested, or when the returned future is dropped.
    ///
    /// # Errors
    /// [`SearchPolicyError`]; nothing was changed.
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
                | SearchPolicyError::Cancelled { .. }
                | SearchPolicyError::TooLong { .. }),
            ) => return Err(error),
            Err(error) => error_text(&error),
        };
        // The cached state of the algorithm may be the cause of its failure.
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

    /// Drops points for which no trial was created, and points that were suggested after them.
    pub async fn take_back(&self, study: &StudyId, reservation: Reservation) {
        if let Some(history) = self.histories.get(study) {
            history.lock().await.take_back(reservation);
        }
    }

    /// Computes the next point of `study` in the background if no other computation for the study runs and a processor
    /// is free, so that a request for one point finds it ready if nothing has changed. Nothing is prepared for
    /// algorithms without a model, whose computations are fast.
    pub fn prepare(self: &Arc<Self>, study: &Study) {
        if !study.algorithm.learns() {
            return;
        }
        let (policy, id) = (Arc::clone(self), study.id.clone());
        tokio::spawn(async move {
            // A failure is reported to the client that requests a suggestion.
            let Ok(study) = policy.store.study(&id).await else { return };
            let Ok(history) = policy.history(&study).await else { return };
            let Ok(history) = history.try_lock_owned() else { return };
            let Ok(processor) = Arc::clone(&policy.processors).try_acquire_owned() else { return };
            let (one, interruption) = (NonZeroUsize::MIN, Interruption::default());
            let _ = policy.compute_with(history, processor, &study, one, Purpose::Preparation, &interruption).await;
        });
    }

    /// Drops the histories that were not used during the last `calls` calls of this function, and returns their number.
    pub fn drop_idle(&self, calls: u32) -> usize {
        self.histories.drop_idle(calls)
    }

    /// Drops the least recently used history that was not used since the last [`Self::drop_idle`]; returns whether there was
    /// one.
    pub fn drop_unused(&self) -> bool {
        self.histories.drop_unused()
    }

    /// Drops the least recently used history that is not in use, except for the one that was used last; returns whether there
    /// was one.
    pub fn drop_oldest(&self) -> bool {
        self.histories.drop_oldest()
    }

    /// Drops the cached history of `study`.
    pub fn forget(&self, study: &StudyId) {
        self.histories.remove(study);
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
            // Without a processor, for which the suggestions of other studies would wait.
            history.refresh(&*self.store, study).await?;
        }
        // Acquired after the lock of the study, so that a request that waits for a study occupies no processor.
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
            DesignerError::Interrupted => SearchPolicyError::Cancelled { study: id },
            source => SearchPolicyError::Designer { study: id, source },
        })
    }

    async fn history(&self, study: &Study) -> Result<Arc<Mutex<StudyHistory>>, SearchPolicyError> {
        if let Some(history) = self.histories.get(&study.id) {
            return Ok(history);
        }
        let fresh = StudyHistory::open(&*self.store, study).await?;
        let bytes = fresh.bytes();
        Ok(self.histories.get_or_insert(&study.id, Mutex::new(fresh), bytes))
    }
}

/// The designer of a study, which uses `sources`, trials of source studies with other search spaces, the oldest first.
/// Only the automatic choice and the Gaussian process use them. The study's initial points precede those of its algorithm.
///
/// # Errors
/// [`DesignerError::Unsupported`] if the algorithm cannot search the study's space or cannot use source studies
/// although it uses results, or if an initial point lies outside the space.
pub fn designer(study: &Study, sources: &[SourceStudy]) -> Result<Box<dyn Designer>, DesignerError> {
    let problem = ProblemStatement::clone(&study.problem);
    let designer: Box<dyn Designer> = match &study.algorithm {
        Algorithm::Automatic => Box::new(Automatic::with_source_studies(problem, study.seed, sources)?),
        Algorithm::GaussianProcessBandit => Box::new(GpBandit::with_source_studies(problem, study.seed, sources)?),
        Algorithm::GridSearch { double_resolution } => Box::new(GridSearch::new(&problem, double_resolution)?),
        Algorithm::RandomSearch => Box::new(RandomSearch::new(&problem, study.seed)),
        Algorithm::QuasiRandomSearch => Box::new(QuasiRandomSearch::new(&problem, study.seed)),
        Algorithm::Tpe => Box::new(TreeParzen::new(&problem, study.seed)?),
        Algorithm::CmaEs => Box::new(CmaEs::new(&problem, study.seed)?),
    };
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

/// An error with all its causes, in one line.
pub(crate) fn error_text(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
