//! What is asked of trials.

use schemars::JsonSchema;
use serde::Deserialize;

use super::MeasurementMessage;
use crate::ai_platform::ProtoDuration;

/// Trials for a client.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct SuggestTrialsRequest {
    /// How many, 1 to 1000; required.
    #[schemars(range(min = 1, max = 1000), extend("type" = ["integer", "string"], "pattern" = "^-?[0-9]+$"))]
    pub suggestion_count: i32,
    /// For whom, at most 1024 bytes; required. The same client gets the same trials until they are complete.
    #[schemars(length(max = 1024))]
    pub client_id: String,
    /// Additions of ours.
    pub tunesmith: SuggestAdditions,
}

/// Additions of ours to a request for trials.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct SuggestAdditions {
    /// For how long the client may be silent; as the study says if absent.
    pub lease: Option<ProtoDuration>,
}

/// A measurement for a trial's curve.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "AddTrialMeasurementRequest")]
pub struct AddMeasurementRequest {
    /// The measurement; required.
    pub measurement: Option<MeasurementMessage>,
}

/// What came of a trial.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct CompleteTrialRequest {
    /// Its result; one of those it reported if absent. Ignored if the trial is infeasible.
    pub final_measurement: Option<MeasurementMessage>,
    /// Whether it has none, and its parameters are not to be tried again.
    pub trial_infeasible: bool,
    /// Why; only with `trialInfeasible`.
    pub infeasible_reason: String,
}
