//! The messages of trials in responses of several methods.

use std::sync::Arc;

use bytes::Bytes;
use tunesmith_api::ai_platform::Notice;
use tunesmith_api::ai_platform::optimizer::{PublishedNames, TrialMessage};
use tunesmith_domain::{Measurement, Study, Trial};
use tunesmith_service::studies::{Studies, StudiesError, TrialOfStudy};

use super::rendered::{Rendered, render, render_off_the_runtime};
use super::status::ApiError;

/// Maximum number of trials in one request.
pub(super) const MAX_SUGGESTIONS: usize = 1000;

/// Number of measurements up to which the answer to a report contains the trial's curve. If it always did, each report
/// would cost more than the one before.
const CURVE_IN_REPORTS: u64 = 100;

/// Number of measurements from which a trial is rendered on a blocking thread (a guess: 1 ms of rendering).
const LONG_CURVE: usize = 2000;

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

/// A trial with its measurements.
pub(super) async fn message(studies: &Studies, answered: TrialOfStudy) -> Result<Rendered<TrialMessage>, ApiError> {
    message_with_notices(studies, answered, Vec::new()).await
}

/// A trial with its measurements, and what of the request has no effect.
pub(super) async fn message_with_notices(
    studies: &Studies,
    answered: TrialOfStudy,
    notices: Vec<Notice>,
) -> Result<Rendered<TrialMessage>, ApiError> {
    let TrialOfStudy { study, trial } = answered;
    with_curve(studies, &Arc::new(study), trial, notices).await.map(Rendered::new)
}

/// The answer to a report: the trial with its measurements, or only with their number if there are more than
/// [`CURVE_IN_REPORTS`].
pub(super) async fn report_answer(
    studies: &Studies,
    answered: TrialOfStudy,
) -> Result<Rendered<TrialMessage>, ApiError> {
    if answered.trial.measurement_count <= CURVE_IN_REPORTS {
        return message(studies, answered).await;
    }
    let TrialOfStudy { study, trial } = answered;
    let names = PublishedNames::of(study.problem.search_space());
    render(&TrialMessage::without_curve(&study, &names, &trial)).map(Rendered::new)
}

/// The JSON of a trial with its measurements.
pub(super) async fn with_curve(
    studies: &Studies,
    study: &Arc<Study>,
    trial: Trial,
    notices: Vec<Notice>,
) -> Result<Bytes, ApiError> {
    let curve = studies.measurements(&study.id, &trial).await?;
    let message = |study: &Study, trial: &Trial, curve: &[Measurement]| {
        let names = PublishedNames::of(study.problem.search_space());
        TrialMessage::new(study, &names, trial, curve).with_notices(notices)
    };
    if curve.len() < LONG_CURVE {
        return render(&message(study, &trial, &curve));
    }
    let study = Arc::clone(study);
    render_off_the_runtime(move || message(&study, &trial, &curve)).await
}
