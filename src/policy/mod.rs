//! Runs a search algorithm for a study: brings its knowledge up to date and asks for the next point.
//!
//! A designer is a pure function, so all that is kept between calls (the history read so far, the designer itself) is
//! an optimisation: losing it costs time, never a different answer. Computing happens on blocking threads, at most as
//! many at once as the policy was given.

mod history;

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};
use tunesmith_algorithms::designer::{Designer, DesignerError, SuggestRequest};
use tunesmith_algorithms::designers::{Automatic, GpBandit, GridSearch, InitialPoints, RandomSearch};
use tunesmith_algorithms::problem::{AlgorithmName, Origin, ParameterValues, TrialId, TrialSuggestion};
use tunesmith_algorithms::transfer::EarlierStudy;

use self::history::StudyHistory;
pub use self::history::outcome;
use crate::domain::{Algorithm, Study, StudyFields, StudyId};
use crate::store::{Store, StoreError};
use crate::telemetry::{SuggestionPhase, SuggestionSource, telemetry};

/// The next point of a study, as far as it is known now.
#[derive(Debug, Clone, PartialEq)]
pub enum Proposal {
    /// Try this as trial `id`.
    Trial {
        /// The number it was computed for: the study's next one.
        id: TrialId,
        /// The point.
        parameters: ParameterValues,
        /// What proposes it.
        origin: Origin,
    },
    /// Every point of the search space has been given out.
    Exhausted,
}

/// The next points of a study, as far as they are known now.
#[derive(Debug, Clone, PartialEq)]
pub struct Suggestions {
    /// The number that the first was computed for: the study's next one. The others follow it.
    pub first_id: TrialId,
    /// The points; fewer than were asked for if the search space has no more.
    pub points: Vec<TrialSuggestion>,
    /// Why the study's algorithm failed, if random search has answered in its place.
    pub failure: Option<String>,
}

/// Why there is no proposal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
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
    /// The computation did not come to an end.
    #[error("study {study}: the search algorithm stopped unexpectedly")]
    Interrupted {
        /// The study.
        study: StudyId,
        /// The cause.
        #[source]
        source: tokio::task::JoinError,
    },
}

/// Points as they were computed or found ready.
struct Computed {
    id: TrialId,
    points: Vec<TrialSuggestion>,
    algorithm: &'static str,
    source: SuggestionSource,
}

impl Computed {
    /// The points from the trial on that they are for, counted as given out.
    fn given_out(self) -> (TrialId, Vec<TrialSuggestion>) {
        telemetry().suggested(self.algorithm, self.source, self.points.len());
        (self.id, self.points)
    }
}

/// Proposes trials for any number of studies of one store.
pub struct Policy {
    store: Arc<dyn Store>,
    processors: Arc<Semaphore>,
    studies: Mutex<HashMap<StudyId, Arc<tokio::sync::Mutex<StudyHistory>>>>,
}

impl Policy {
    /// A policy that computes at most `processors` suggestions at once; at least 1.
    pub fn new(store: Arc<dyn Store>, processors: usize) -> Self {
        Self { store, processors: Arc::new(Semaphore::new(processors.max(1))), studies: Mutex::default() }
    }

    /// The next point of `study`, given all that the store knows now.
    ///
    /// # Errors
    /// [`PolicyError`]; nothing was changed.
    pub async fn propose(&self, study: &StudyId) -> Result<Proposal, PolicyError> {
        let (id, points) = self.compute(study, NonZeroUsize::MIN, self.processor().await).await?.given_out();
        Ok(match points.into_iter().next() {
            Some(TrialSuggestion { parameters, origin }) => Proposal::Trial { id, parameters, origin },
            None => Proposal::Exhausted,
        })
    }

    /// The next `count` points of `study`. If its algorithm fails, random search answers in its place.
    ///
    /// # Errors
    /// [`PolicyError`]; nothing was changed.
    pub async fn suggest(&self, study: &StudyId, count: NonZeroUsize) -> Result<Suggestions, PolicyError> {
        let failure = match self.compute(study, count, self.processor().await).await {
            Ok(computed) => {
                let (first_id, points) = computed.given_out();
                return Ok(Suggestions { first_id, points, failure: None });
            }
            Err(error @ PolicyError::Store(_)) => return Err(error),
            Err(error) => error_text(&error),
        };
        // Whatever the algorithm remembered may be what made it fail.
        self.forget(study);
        let current = self.store.study(study).await?;
        let fallback = StudyFields { algorithm: Algorithm::RandomSearch, ..(*current).clone() };
        telemetry().suggested(current.algorithm.as_str(), SuggestionSource::Fallback, count.get());
        let mut history = StudyHistory::open(&*self.store, &Study::restore(fallback)).await?;
        history.refresh(&*self.store).await?;
        let request = SuggestRequest { first_trial_id: history.designer_id(current.next_trial_id), count };
        let points = history.designer().suggest(history.known(), request);
        let points = points.map_err(|source| PolicyError::Designer { study: study.clone(), source })?;
        Ok(Suggestions { first_id: current.next_trial_id, points, failure: Some(failure) })
    }

    /// Computes the next point of `study` in the background, if a processor is free: whoever asks for one point next,
    /// before anything changes, finds it ready. Nothing else depends on it.
    pub fn prepare(self: &Arc<Self>, study: StudyId) {
        let Ok(processor) = Arc::clone(&self.processors).try_acquire_owned() else { return };
        let policy = Arc::clone(self);
        tokio::spawn(async move {
            // A study that cannot be computed says so to whoever asks for a suggestion.
            let _ = policy.compute(&study, NonZeroUsize::MIN, Some(processor)).await;
        });
    }

    /// Drops what is remembered of `study`.
    pub fn forget(&self, study: &StudyId) {
        self.studies.lock().unwrap_or_else(PoisonError::into_inner).remove(study);
    }

    /// A processor, once one is free. The semaphore is never closed, so one always comes.
    async fn processor(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.processors).acquire_owned().await.ok()
    }

    async fn compute(
        &self,
        study: &StudyId,
        count: NonZeroUsize,
        processor: Option<OwnedSemaphorePermit>,
    ) -> Result<Computed, PolicyError> {
        let begin = Instant::now();
        let mut history = self.history(study).await?;
        let wait = begin.elapsed();
        let current = self.store.study(study).await?;
        let algorithm = current.algorithm.as_str();
        telemetry().suggestion_time(algorithm, SuggestionPhase::Wait, wait);
        if !history.is_of(&current) {
            *history = StudyHistory::open(&*self.store, &current).await?;
        }
        history.refresh(&*self.store).await?;
        telemetry().suggestion_time(algorithm, SuggestionPhase::History, begin.elapsed().saturating_sub(wait));
        let id = current.next_trial_id;
        if let Some(points) = history.prepared(id, count) {
            return Ok(Computed { id, points, algorithm, source: SuggestionSource::Prepared });
        }
        let outcome = tokio::task::spawn_blocking(move || {
            let _processor = processor;
            let begin = Instant::now();
            let points = history.compute(id, count);
            telemetry().suggestion_time(algorithm, SuggestionPhase::Compute, begin.elapsed());
            points
        })
        .await
        .map_err(|source| PolicyError::Interrupted { study: study.clone(), source })?;
        let points = outcome.map_err(|source| PolicyError::Designer { study: study.clone(), source })?;
        Ok(Computed { id, points, algorithm, source: SuggestionSource::Computed })
    }

    async fn history(&self, id: &StudyId) -> Result<OwnedMutexGuard<StudyHistory>, PolicyError> {
        let known = self.studies.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        let history = match known {
            Some(history) => history,
            None => {
                let study = self.store.study(id).await?;
                let fresh = StudyHistory::open(&*self.store, &study).await?;
                let mut studies = self.studies.lock().unwrap_or_else(PoisonError::into_inner);
                let entry = studies.entry(id.clone()).or_insert_with(|| Arc::new(tokio::sync::Mutex::new(fresh)));
                Arc::clone(entry)
            }
        };
        Ok(history.lock_owned().await)
    }
}

/// The designer that a study's algorithm names, after what `earlier` studies of other spaces teach, the oldest first;
/// grid and random search, which learn nothing from results, learn nothing from those either. The study's initial points
/// come first.
///
/// # Errors
/// [`DesignerError::Unsupported`] if it cannot search the study's space, cannot learn from earlier studies though it learns,
/// or if an initial point is none of the space.
pub fn designer(study: &Study, earlier: &[EarlierStudy]) -> Result<Box<dyn Designer>, DesignerError> {
    let problem = study.problem.clone();
    let designer: Box<dyn Designer> = match &study.algorithm {
        Algorithm::Automatic => Box::new(Automatic::after(problem, study.seed, earlier)?),
        Algorithm::GaussianProcessBandit => Box::new(GpBandit::after(problem, study.seed, earlier)?),
        Algorithm::GridSearch { double_resolution } => Box::new(GridSearch::new(&problem, double_resolution)?),
        Algorithm::RandomSearch => Box::new(RandomSearch::new(&problem, study.seed)),
    };
    if study.initial_points.is_empty() {
        return Ok(designer);
    }
    let first =
        InitialPoints::new(&study.problem, study.initial_points.clone(), designer).map_err(|(index, error)| {
            let reason = format!("point {index} is none of the search space: {error}");
            DesignerError::Unsupported { algorithm: AlgorithmName::InitialTrials.as_str(), reason }
        })?;
    Ok(Box::new(first))
}

/// An error with all its causes.
fn error_text(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
