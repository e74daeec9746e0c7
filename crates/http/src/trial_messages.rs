//! The messages of trials in responses of several methods.

use tunesmith_api::ai_platform::optimizer::{PublishedNames, TrialMessage};
use tunesmith_domain::{Study, Trial};
use tunesmith_service::studies::{Studies, StudiesError};

/// Maximum number of trials in one request.
pub(super) const MAX_SUGGESTIONS: usize = 1000;

/// `trials` of `study` with their measurements.
pub(super) async fn messages(
    studies: &Studies,
    study: &Study,
    trials: &[Trial],
) -> Result<Vec<TrialMessage>, StudiesError> {
    let names = PublishedNames::of(study.problem.search_space());
    let mut messages = Vec::with_capacity(trials.len());
    for trial in trials {
        let curve = studies.measurements(&study.id, trial).await?;
        messages.push(TrialMessage::new(study, &names, trial, &curve));
    }
    Ok(messages)
}
