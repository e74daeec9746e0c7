//! Trial list of a study, streamed: the published method has no pagination, and buffering a long list would cost memory
//! for each of its readers.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::try_join_all;
use futures::stream;
use tunesmith_api::ai_platform::optimizer::TrialList;
use tunesmith_domain::{Study, Trial, TrialId};
use tunesmith_store::FEW;
use tunesmith_studies::{Studies, StudiesError, TrialPage};

use crate::response::error::ApiError;
use crate::response::rendered::Rendered;
use crate::routes::ml::trial_messages::with_curve;
use tunesmith_admission::long_work;

/// Number of trials per read.
const PAGE: usize = 200;

/// Minimum size of a chunk in bytes.
const PART_BYTES: usize = 64 << 10;

/// Number of curves per read.
const CURVES: usize = 4;

/// Streams all trials of `study` with their measurements.
///
/// # Errors
/// As [`Rendered::in_parts`].
pub(crate) async fn list(studies: Arc<Studies>, study: Study) -> Result<Rendered<TrialList>, ApiError> {
    List::new(studies, study, Unread::After(TrialId(0))).rendered().await
}

/// Streams the trials `numbers` of `study` with their measurements.
///
/// # Errors
/// As [`Rendered::in_parts`].
pub(crate) async fn list_of(
    studies: Arc<Studies>,
    study: Study,
    numbers: Vec<TrialId>,
) -> Result<Rendered<TrialList>, ApiError> {
    List::new(studies, study, Unread::Numbers(numbers.into())).rendered().await
}

/// Trials not read yet.
enum Unread {
    /// Trials with higher numbers.
    After(TrialId),
    Numbers(VecDeque<TrialId>),
    Nothing,
}

struct List {
    studies: Arc<Studies>,
    study: Arc<Study>,
    /// Trials read but not sent.
    read: VecDeque<Trial>,
    unread: Unread,
    is_empty: bool,
    is_complete: bool,
}

impl List {
    fn new(studies: Arc<Studies>, study: Study, unread: Unread) -> Self {
        let study = Arc::new(study);
        Self { studies, study, read: VecDeque::new(), unread, is_empty: true, is_complete: false }
    }

    async fn rendered(self) -> Result<Rendered<TrialList>, ApiError> {
        Rendered::in_parts(stream::try_unfold(self, Self::part)).await
    }

    /// Reads the next trials. Returns whether there may be more.
    async fn read(&mut self) -> Result<bool, StudiesError> {
        match &mut self.unread {
            Unread::After(last) => {
                let TrialPage { trials, next } = self.studies.trial_page(&self.study.id, *last, PAGE).await?;
                self.read = trials.into();
                self.unread = next.map_or(Unread::Nothing, Unread::After);
            }
            Unread::Numbers(numbers) => {
                let some: Vec<TrialId> = numbers.drain(..numbers.len().min(FEW)).collect();
                if some.is_empty() {
                    return Ok(false);
                }
                self.read = self.studies.trials_numbered(&self.study.id, some).await?.into();
                // The trials were read on this thread.
                tokio::task::yield_now().await;
            }
            Unread::Nothing => return Ok(false),
        }
        Ok(true)
    }

    /// Next chunk and the remaining list; `None` at the end. A list without trials is `{}`.
    async fn part(mut self) -> Result<Option<(Bytes, Self)>, ApiError> {
        let _permit = long_work::permit().await;
        let mut part = Vec::new();
        while part.len() < PART_BYTES && !self.is_complete {
            if self.read.is_empty() && !self.read().await? {
                part.extend_from_slice(if self.is_empty { b"{}" } else { b"]}" });
                self.is_complete = true;
            }
            let count = self.read.len().min(CURVES);
            let trials =
                self.read.drain(..count).map(|trial| with_curve(&self.studies, &self.study, trial, Vec::new()));
            for trial in try_join_all(trials).await? {
                part.extend_from_slice(if self.is_empty { br#"{"trials":["# } else { b"," });
                part.extend_from_slice(&trial);
                self.is_empty = false;
            }
        }
        Ok((!part.is_empty()).then(|| (part.into(), self)))
    }
}
