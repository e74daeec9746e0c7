//! Trial requests.

use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FieldViolation, MeasurementMessage, TrialRequest};
use crate::ai_platform::{Notice, ProtoDuration};
use tunesmith_domain::{GivenResult, Measurement, ReportedOutcome, SuggestionRequest, TrialId};

/// Maximum trials per request.
pub const MAX_SUGGESTIONS: usize = 1000;

/// Maximum length of a client ID in bytes: it is part of operation names, which must fit into a path.
const MAX_CLIENT_ID_LENGTH: usize = 1024;

/// Request for trials.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct SuggestTrialsRequest {
    /// Number of trials, from 1 to 1000; required.
    #[schemars(range(min = 1, max = 1000), extend("type" = ["integer", "string"], "pattern" = "^-?[0-9]+$"))]
    pub suggestion_count: i32,
    /// ID of the client, at most 1024 bytes; required. A client gets the same trials until they are completed.
    #[schemars(length(max = 1024))]
    pub client_id: String,
    /// Tunesmith's extensions.
    pub tunesmith: SuggestAdditions,
}

/// Tunesmith's extensions of a request for trials.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct SuggestAdditions {
    /// Time without a request of the client after which its trials are assigned to other clients. Default: the study's
    /// lease.
    pub lease: Option<ProtoDuration>,
}

/// Measurement to add to a trial's curve.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "AddTrialMeasurementRequest")]
pub struct AddMeasurementRequest {
    /// Measurement; required.
    pub measurement: Option<MeasurementMessage>,
}

/// Outcome of a trial.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct CompleteTrialRequest {
    /// Result; if absent, one of the trial's measurements. Ignored if the trial is infeasible.
    pub final_measurement: Option<MeasurementMessage>,
    /// Whether the trial has no result. Its parameters are then not tried again.
    pub trial_infeasible: bool,
    /// Reason; only with `trialInfeasible`.
    pub infeasible_reason: String,
}

impl SuggestTrialsRequest {
    /// Validates the request.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn into_request(self) -> Result<SuggestionRequest, FieldViolation> {
        let count = usize::try_from(self.suggestion_count).ok().and_then(NonZeroUsize::new);
        let count = count.filter(|count| count.get() <= MAX_SUGGESTIONS).ok_or_else(|| {
            let description = format!("is {}, must be from 1 to {MAX_SUGGESTIONS}", self.suggestion_count);
            FieldViolation::new("suggestionCount", description)
        })?;
        if self.client_id.is_empty() {
            return Err(FieldViolation::new("clientId", "is required"));
        }
        let length = self.client_id.len();
        if length > MAX_CLIENT_ID_LENGTH {
            let description = format!("has {length} bytes, must have at most {MAX_CLIENT_ID_LENGTH}");
            return Err(FieldViolation::new("clientId", description));
        }
        let lease = self.tunesmith.lease.map(|lease| lease.0).filter(|lease| !lease.is_zero());
        Ok(SuggestionRequest { client_id: self.client_id, count, lease })
    }
}

impl AddMeasurementRequest {
    /// Validates the measurement.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn into_measurement(self) -> Result<Measurement, FieldViolation> {
        let measurement = self.measurement.ok_or_else(|| FieldViolation::new("measurement", "is required"))?;
        measurement.into_measurement("measurement")
    }
}

impl CompleteTrialRequest {
    /// Notice about a result without effect.
    pub fn notices(&self) -> Vec<Notice> {
        let is_ignored = self.trial_infeasible && self.final_measurement.is_some();
        if is_ignored { vec![super::trial::result_of_infeasible_trial()] } else { Vec::new() }
    }

    /// Validates the outcome.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn into_outcome(self) -> Result<ReportedOutcome, FieldViolation> {
        let outcome = outcome(self.final_measurement, self.trial_infeasible, self.infeasible_reason)?;
        Ok(outcome.unwrap_or(ReportedOutcome::FromCurve))
    }
}

impl TrialRequest {
    /// The result; `None` for a trial to be run.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn result(&self) -> Result<Option<GivenResult>, FieldViolation> {
        let given = outcome(self.final_measurement.clone(), self.trial_infeasible, self.infeasible_reason.clone())?;
        let Some(outcome) = given.or_else(|| self.is_from_curve().then_some(ReportedOutcome::FromCurve)) else {
            return Ok(None);
        };
        let measurements = self.measurements.iter().enumerate();
        let measurements =
            measurements.map(|(index, one)| one.clone().into_measurement(&format!("measurements[{index}]")));
        let measurements = measurements.collect::<Result<_, _>>()?;
        Ok(Some(GivenResult { outcome, measurements, stopped_early: self.tunesmith.stopped_early }))
    }

    /// Whether one of the measurements becomes the result.
    pub(super) fn is_from_curve(&self) -> bool {
        let is_given = self.final_measurement.is_some() || self.trial_infeasible;
        !is_given && !self.measurements.is_empty() && self.state == "COMPLETED"
    }
}

fn outcome(
    measurement: Option<MeasurementMessage>,
    is_infeasible: bool,
    reason: String,
) -> Result<Option<ReportedOutcome>, FieldViolation> {
    if let Some(infeasible) = infeasible_outcome(is_infeasible, reason)? {
        return Ok(Some(infeasible));
    }
    let measurement = measurement.map(|measurement| measurement.into_measurement("finalMeasurement")).transpose()?;
    Ok(measurement.map(ReportedOutcome::Measured))
}

/// The outcome of an infeasible trial; `None` for others.
///
/// # Errors
/// If another trial has a reason.
pub fn infeasible_outcome(is_infeasible: bool, reason: String) -> Result<Option<ReportedOutcome>, FieldViolation> {
    if !is_infeasible && !reason.is_empty() {
        return Err(FieldViolation::new("infeasibleReason", "only with trialInfeasible"));
    }
    let reason = if reason.is_empty() { "declared infeasible".to_owned() } else { reason };
    Ok(is_infeasible.then_some(ReportedOutcome::Infeasible(reason)))
}

/// Parses the trial number in a resource name: `7`, or `7~2` with its attempt.
///
/// # Errors
/// If `text` is malformed.
pub fn trial_and_attempt(text: &str) -> Result<(TrialId, Option<u64>), FieldViolation> {
    let (number, attempt) = match text.split_once('~') {
        Some((number, attempt)) => (number, Some(attempt)),
        None => (text, None),
    };
    let no_trial = || FieldViolation::new("name", format!("{text:?} is not a trial's number"));
    let trial = number.parse().map_err(|_| no_trial())?;
    let attempt = attempt.map(str::parse).transpose().map_err(|_| no_trial())?;
    Ok((TrialId(trial), attempt))
}
