//! `mlflow`: export of a job to an MLflow server, and its progress.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::violations::Violations;

/// Export of a job to MLflow. Credentials are those of the server's environment, and sent to the server's own MLflow only.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct MlflowConfig {
    /// (Tunesmith) Address of the MLflow server, such as `https://mlflow.example.com`, without credentials. By default,
    /// the `MLFLOW_TRACKING_URI` of the server's environment. Another address must be public, unless the operator allows
    /// private ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub tracking_uri: Option<String>,
    /// (Tunesmith) Name of the experiment, which is created if it does not exist. Default: the project of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 500))]
    pub experiment: Option<String>,
}

/// Maximum length of an address, and of the name of an experiment, in characters. The latter is MLflow's.
const MAX_URI: usize = 2048;
const MAX_EXPERIMENT: usize = 500;

impl MlflowConfig {
    pub(super) fn check(&self, violations: &mut Violations) {
        if let Some(uri) = &self.tracking_uri
            && let Err(problem) = check_uri(uri)
        {
            let allowed = "http://HOST[:PORT] or https://HOST[:PORT], with or without a path";
            // The address may contain a password.
            violations.error("tunesmith.mlflow.trackingUri", problem, allowed);
        }
        if let Some(experiment) = &self.experiment
            && !(1..=MAX_EXPERIMENT).contains(&experiment.chars().count())
        {
            let message = format!("has {} characters", experiment.chars().count());
            let allowed = format!("1 to {MAX_EXPERIMENT} characters");
            violations.error("tunesmith.mlflow.experiment", message, allowed);
        }
    }
}

fn check_uri(uri: &str) -> Result<(), &'static str> {
    let rest = uri.strip_prefix("http://").or_else(|| uri.strip_prefix("https://"));
    let rest = rest.ok_or("the address does not begin with http:// or https://")?;
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match () {
        () if host.contains('@') => Err("the address contains credentials; the server's environment provides them"),
        () if host.is_empty() => Err("the address has no host"),
        () if rest.contains(['?', '#']) => Err("the address has a query or fragment"),
        () if uri.chars().count() > MAX_URI => Err("the address has more than 2048 characters"),
        () => Ok(()),
    }
}

/// Progress of the export of a job to MLflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MlflowExport {
    /// Address of the MLflow server; absent if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tracking_uri: String,
    /// Name of the experiment.
    pub experiment: String,
    /// ID of the job's run, once created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// State of the export.
    pub state: MlflowExportState,
    /// Time at which MLflow last had everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_success_time: Option<Timestamp>,
    /// Time since which the export fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Timestamp>,
    /// Last error.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error_message: String,
}

/// State of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum MlflowExportState {
    /// Changes are sent as they occur.
    Following,
    /// MLflow cannot be reached, or rejects requests. The export continues when it can, from where it stopped.
    Failing,
    /// The job has ended, and MLflow has everything.
    Complete,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_http_and_carry_no_credentials() {
        for uri in ["http://h", "https://h:5000/a/b", "http://[::1]:5000"] {
            assert_eq!(check_uri(uri), Ok(()), "{uri}");
        }
        for (uri, problem) in [
            ("mlruns", "the address does not begin with http:// or https://"),
            ("file:///mlruns", "the address does not begin with http:// or https://"),
            ("http://", "the address has no host"),
            ("http://ann:secret@h", "the address contains credentials; the server's environment provides them"),
            ("http://h?a=b", "the address has a query or fragment"),
        ] {
            assert_eq!(check_uri(uri), Err(problem), "{uri}");
        }
    }
}
