//! Copies of whole stores, between engines of any kind, and their comparison.

use std::fmt;

use futures::TryStreamExt;
use futures::future::BoxFuture;
use tunesmith_domain::{Job, Measurement, Study, StudyId, Trial, TrialId};

use crate::pages::{self, PAGE};
use crate::record::{encode_chunks, encode_job, encode_study, encode_trial};
use crate::{OptionalExtension, Store, StoreError, SummaryKind};

/// Records of another store, to be added unchanged.
#[derive(Debug, Clone)]
pub enum CopiedRecords {
    Job(Box<Job>),
    Study {
        study: Box<Study>,
        summary: Option<Vec<u8>>,
    },
    Trials {
        study: StudyId,
        trials: Vec<Trial>,
    },
    /// Measurements of a trial, numbered from `first`.
    Measurements {
        study: StudyId,
        trial: TrialId,
        first: u64,
        measurements: Vec<Measurement>,
    },
}

impl fmt::Display for CopiedRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(job) => write!(f, "job {}", job.id),
            Self::Study { study, .. } => write!(f, "study {}", study.id),
            Self::Trials { study, trials } => match (trials.first(), trials.last()) {
                (Some(first), Some(last)) => {
                    write!(f, "one of the trials {} to {} of study {study}", first.id, last.id)
                }
                _ => write!(f, "no trial of study {study}"),
            },
            Self::Measurements { study, trial, .. } => write!(f, "the curve of trial {trial} of study {study}"),
        }
    }
}

/// Numbers of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Contents {
    pub jobs: u64,
    pub studies: u64,
    pub trials: u64,
    pub measurements: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error("the target contains jobs or studies already: copy to an empty store")]
    NotEmpty,
    #[error("{resource} differs from its copy: stop the servers that change the source, and copy again")]
    Differs { resource: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Consumer of the records of a store.
trait Visitor: Send {
    fn visit(&mut self, records: CopiedRecords) -> BoxFuture<'_, Result<(), CopyError>>;
}

/// Copies all records of `from` to the empty store `to`, then compares both.
///
/// Deletions that `from` has not completed are left out. After an error, `to` may contain some of the records.
///
/// # Errors
/// [`CopyError`].
pub async fn copy(from: &dyn Store, to: &dyn Store) -> Result<Contents, CopyError> {
    if !to.jobs(None, 1).await?.is_empty() || !to.studies(None, None, 1).await?.is_empty() {
        return Err(CopyError::NotEmpty);
    }
    visit(from, &mut Adding { to }).await?;
    let contents = visit(from, &mut Comparing { with: to }).await?;
    match read_all(to).await? {
        copied if copied == contents => Ok(contents),
        _ => Err(CopyError::Differs { resource: "the number of records".to_owned() }),
    }
}

/// Reads every record of `store`, which checks its checksum and form.
///
/// # Errors
/// [`StoreError`].
pub async fn read_all(store: &dyn Store) -> Result<Contents, StoreError> {
    visit(store, &mut Reading).await.map_err(|error| match error {
        CopyError::Store(error) => error,
        CopyError::NotEmpty | CopyError::Differs { .. } => unreachable!("only read"),
    })
}

struct Adding<'a> {
    to: &'a dyn Store,
}

impl Visitor for Adding<'_> {
    fn visit(&mut self, records: CopiedRecords) -> BoxFuture<'_, Result<(), CopyError>> {
        Box::pin(async move { Ok(self.to.add_copied(records).await?) })
    }
}

struct Comparing<'a> {
    with: &'a dyn Store,
}

impl Visitor for Comparing<'_> {
    fn visit(&mut self, records: CopiedRecords) -> BoxFuture<'_, Result<(), CopyError>> {
        Box::pin(async move {
            let with = self.with;
            // Encoded, because NaN differs from itself.
            let is_same = match &records {
                CopiedRecords::Job(job) => {
                    let copied = with.job(&job.id).await.optional()?;
                    copied.is_some_and(|copied| encode_job(&copied) == encode_job(job))
                }
                CopiedRecords::Study { study, summary } => {
                    let copied = with.study(&study.id).await.optional()?;
                    copied.is_some_and(|copied| encode_study(&copied) == encode_study(study))
                        && with.summary(&study.id, SummaryKind::Figures).await? == *summary
                }
                CopiedRecords::Trials { study, trials } => {
                    let before = trials.first().map(|trial| TrialId(trial.id.0 - 1));
                    let copied = with.trials(study, before, trials.len()).await?;
                    trials.iter().map(encode_trial).eq(copied.iter().map(encode_trial))
                }
                CopiedRecords::Measurements { study, trial, first, measurements } => {
                    let copied = with.measurements(study, *trial, *first, measurements.len()).await?;
                    encode_chunks(*first, &copied) == encode_chunks(*first, measurements)
                }
            };
            if is_same { Ok(()) } else { Err(CopyError::Differs { resource: records.to_string() }) }
        })
    }
}

struct Reading;

impl Visitor for Reading {
    fn visit(&mut self, _: CopiedRecords) -> BoxFuture<'_, Result<(), CopyError>> {
        Box::pin(async { Ok(()) })
    }
}

/// Passes all records of `store` to `visitor`, a study before its trials, and returns their numbers.
async fn visit(store: &dyn Store, visitor: &mut dyn Visitor) -> Result<Contents, CopyError> {
    let mut contents = Contents::default();
    let mut jobs = std::pin::pin!(pages::jobs(store, None));
    while let Some(job) = jobs.try_next().await? {
        if let Some(study) = &job.study {
            visit_study(store, store.study(study).await?, visitor, &mut contents).await?;
        }
        contents.jobs += 1;
        visitor.visit(CopiedRecords::Job(Box::new(job))).await?;
    }
    let mut studies = std::pin::pin!(pages::studies(store, None));
    while let Some(study) = studies.try_next().await? {
        visit_study(store, study, visitor, &mut contents).await?;
    }
    Ok(contents)
}

async fn visit_study(
    store: &dyn Store,
    study: Study,
    visitor: &mut dyn Visitor,
    contents: &mut Contents,
) -> Result<(), CopyError> {
    let (id, mut after) = (study.id.clone(), None);
    contents.studies += 1;
    let summary = store.summary(&id, SummaryKind::Figures).await?;
    visitor.visit(CopiedRecords::Study { study: Box::new(study), summary }).await?;
    loop {
        let trials = store.trials(&id, after, PAGE).await?;
        let Some(last) = trials.last() else { return Ok(()) };
        after = Some(last.id);
        contents.trials += trials.len() as u64;
        let measured: Vec<TrialId> =
            trials.iter().filter(|trial| trial.measurement_count > 0).map(|trial| trial.id).collect();
        visitor.visit(CopiedRecords::Trials { study: id.clone(), trials }).await?;
        for trial in measured {
            visit_measurements(store, &id, trial, visitor, contents).await?;
        }
    }
}

async fn visit_measurements(
    store: &dyn Store,
    study: &StudyId,
    trial: TrialId,
    visitor: &mut dyn Visitor,
    contents: &mut Contents,
) -> Result<(), CopyError> {
    let mut first = 0;
    loop {
        let measurements = store.measurements(study, trial, first, pages::MEASUREMENTS).await?;
        let count = measurements.len() as u64;
        if count == 0 {
            return Ok(());
        }
        contents.measurements += count;
        visitor.visit(CopiedRecords::Measurements { study: study.clone(), trial, first, measurements }).await?;
        first += count;
    }
}
