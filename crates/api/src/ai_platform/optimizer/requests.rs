//! Requests about trials.

use schemars::JsonSchema;
use serde::Deserialize;

use super::MeasurementMessage;
use crate::ai_platform::ProtoDuration;

/// A request for trials.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct SuggestTrialsRequest {
    /// Number of trials, from 1 to 1000; required.
    #[schemars(range(min = 1, max = 1000), extend("type" = ["integer", "string"], "pattern" = "^-?[0-9]+$"))]
    pub suggestion_count: i32,
    /// ID of the client, at most 1024 bytes; required. A client gets the same trials until they are complete.
    #[schemars(length(max = 1024))]
    pub client_id: String,
    /// Tunesmith's additions.
    pub tunesmith: SuggestAdditions,
}

/// Tunesmith's additions to a request for trials.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct SuggestAdditions {
    /// Time without a request of the client after which its trials are assigned to other clients. Default: the lease of
    /// the study.
    pub lease: Option<ProtoDuration>,
}

/// A measurement to add to a trial's curve.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "AddTrialMeasurementRequest")]
pub struct AddMeasurementRequest {
    /// The measurement; required.
    pub measurement: Option<MeasurementMessage>,
}

/// The outcome of a trial.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct CompleteTrialRequest {
    /// The result; if absent, one of the trial's measurements. Ignored if the trial is infeasible.
    pub final_measurement: Option<MeasurementMessage>,
    /// Whether the trial has no result, and its parameters are not tried again.
    pub trial_infeasible: bool,
    /// The reason; only with `trialInfeasible`.
    pub infeasible_reason: String,
}
