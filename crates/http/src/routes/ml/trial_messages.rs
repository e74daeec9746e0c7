//! Trial messages, shared by the responses of several methods.

use std::sync::Arc;

use bytes::Bytes;
use tunesmith_api::ai_platform::Notice;
use tunesmith_api::ai_platform::optimizer::{PublishedNames, TrialMessage};
use tunesmith_domain::{Measurement, Study, Trial};
use tunesmith_studies::{Studies, StudiesError, TrialOfStudy};

use crate::response::error::ApiError;
use crate::response::rendered::{Rendered, render, render_off_the_runtime};

/// Maximum number of measurements for including the curve in the response to a report. Without a limit, each report
/// would cost more than the previous one.
const CURVE_IN_REPORTS: u64 = 100;

/// Minimum number of measurements for rendering a trial on a blocking thread (a guess: 1 ms).
const LONG_CURVE: usize = 2000;

pub(crate) async fn messages(
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

pub(crate) async fn message(studies: &Studies, answered: TrialOfStudy) -> Result<Rendered<TrialMessage>, ApiError> {
    message_with_notices(studies, answered, Vec::new()).await
}

/// Trial with its measurements, and notices about request fields without effect.
pub(crate) async fn message_with_notices(
    studies: &Studies,
    answered: TrialOfStudy,
    notices: Vec<Notice>,
) -> Result<Rendered<TrialMessage>, ApiError> {
    let TrialOfStudy { study, trial } = answered;
    with_curve(studies, &Arc::new(study), trial, notices).await.map(Rendered::new)
}

/// Response to a report: the trial with its measurements, or only their number above [`CURVE_IN_REPORTS`].
pub(crate) async fn report_answer(
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

pub(crate) async fn with_curve(
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
