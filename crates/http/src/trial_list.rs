//! The list of a study's trials, made in parts while it is sent: the published method has no pages, and a long list as one
//! value would take memory for each of its readers.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::try_join_all;
use futures::stream;
use tunesmith_api::ai_platform::optimizer::TrialList;
use tunesmith_domain::{Study, Trial, TrialId};
use tunesmith_service::studies::{Studies, TrialPage};

use super::rendered::Rendered;
use super::status::ApiError;
use super::trial_messages::with_curve;

/// Number of trials that are read at once.
const PAGE: usize = 200;

/// Size in bytes from which a part is sent.
const PART_BYTES: usize = 64 << 10;

/// Number of trials whose curves are read at once.
const CURVES: usize = 4;

/// All trials of `study` with their measurements.
///
/// # Errors
/// As the first part of the list; see [`Rendered::in_parts`].
pub(super) async fn list(studies: Arc<Studies>, study: Study) -> Result<Rendered<TrialList>, ApiError> {
    let list = List {
        studies,
        study: Arc::new(study),
        read: VecDeque::new(),
        next: Some(TrialId(0)),
        is_empty: true,
        is_complete: false,
    };
    Rendered::in_parts(stream::try_unfold(list, List::part)).await
}

/// A list that is being sent.
struct List {
    studies: Arc<Studies>,
    study: Arc<Study>,
    /// Trials that were read and are to be sent.
    read: VecDeque<Trial>,
    /// The number after which the next page begins; `None` after the last page.
    next: Option<TrialId>,
    is_empty: bool,
    is_complete: bool,
}

impl List {
    /// The next part, and the list after it; `None` if the list is complete. A list without trials is `{}`.
    async fn part(mut self) -> Result<Option<(Bytes, Self)>, ApiError> {
        let mut part = Vec::new();
        while part.len() < PART_BYTES && !self.is_complete {
            if self.read.is_empty() {
                let Some(after) = self.next else {
                    part.extend_from_slice(if self.is_empty { b"{}" } else { b"]}" });
                    self.is_complete = true;
                    break;
                };
                let TrialPage { trials, next } = self.studies.trial_page(&self.study.id, after, PAGE).await?;
                (self.read, self.next) = (trials.into(), next);
            }
            let count = self.read.len().min(CURVES);
            let trials = self.read.drain(..count).map(|trial| with_curve(&self.studies, &self.study, trial));
            for trial in try_join_all(trials).await? {
                part.extend_from_slice(if self.is_empty { br#"{"trials":["# } else { b"," });
                part.extend_from_slice(&trial);
                self.is_empty = false;
            }
        }
        Ok((!part.is_empty()).then(|| (part.into(), self)))
    }
}
