//! Run records: one optimizer on one problem with one seed.

use serde::{Deserialize, Serialize};
use tunesmith_algorithms::problem::{Goal, ParameterValues};

use crate::early_stopping::EarlyStopping;
use crate::problem::Quality;

/// Numbers of results at which reports compare optimizers and records contain the [chosen](RunRecord::chosen) trials.
pub const CHECKPOINTS: [usize; 6] = [25, 50, 100, 200, 500, 1000];

/// Record of one run, a line of a results file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    #[serde(flatten)]
    pub key: RunKey,
    /// Version reported by the optimizer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Number of parameters of the search space.
    pub parameters: usize,
    /// Goal of each metric.
    pub goals: Vec<Goal>,
    pub quality: Quality,
    /// Smallest distinguished gap to the best known value; smaller gaps count as this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<f64>,
    /// Results in order of completion.
    pub results: Vec<Option<ResultValue>>,
    /// End of each trial, in simulated seconds since the start of the run, in the order of `results`.
    ///
    /// Not serialised if the trials end after 1, 2, 3 ... seconds, as sequential trials on problems without durations
    /// do; [`Self::restored`] adds it again.
    #[serde(default, skip_serializing_if = "is_every_second")]
    pub ended_secs: Vec<f64>,
    /// Wall time of each suggestion, in request order, in milliseconds with three significant digits. Includes adding
    /// the results since the previous suggestion. A batch counts as one suggestion.
    pub suggest_ms: Vec<f64>,
    /// Indices into `results` of trials stopped early.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stopped_early: Vec<usize>,
    /// Indices into `results` of further results of trials that resumed after an early stop, in ascending order. They do
    /// not count against the budget; the further results of i-Epoch, which do, are not among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed: Vec<usize>,
    /// Point of each result; empty if not requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<ParameterValues>,
    /// Trials a user would pick after some of [`CHECKPOINTS`]; empty without noise and with several metrics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chosen: Vec<Chosen>,
    /// Reason why the run ended before spending its budget, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

impl RunRecord {
    /// Restores the fields left out by serialisation.
    #[must_use]
    pub fn restored(mut self) -> Self {
        if self.ended_secs.is_empty() {
            self.ended_secs = every_second().take(self.results.len()).collect();
        }
        self
    }

    /// Number of trials with a result.
    pub(crate) fn trials(&self) -> usize {
        self.results.len().saturating_sub(self.resumed.len())
    }

    /// Gap between a result and the best known value; `None` if either is unknown or the problem has several metrics.
    pub(crate) fn gap(&self, result: &Option<ResultValue>) -> Option<f64> {
        let (Some(ResultValue::One(value)), &Quality::Value { best_known: Some(best) }) = (result, &self.quality)
        else {
            return None;
        };
        let goal = self.goals.first()?;
        Some((goal.loss(*value) - goal.loss(best)).max(self.resolution.unwrap_or(0.0)))
    }
}

/// Trials a user would pick after a number of results, as indices into the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen {
    /// Number of results.
    pub after: usize,
    /// Trial with the best observed value, which noise makes look better than it is.
    pub observed: usize,
    /// Trial with the best posterior mean of a Gaussian process, which the service recommends; `None` with too few
    /// results for a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommended: Option<usize>,
}

/// Identity of a run: equal keys mean the same run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunKey {
    pub suite: String,
    /// Name within the suite.
    pub problem: String,
    /// Seed; for suites with instances also the instance number.
    pub seed: u64,
    #[serde(rename = "contestant")]
    pub optimizer: String,
    /// Number of requested trials.
    pub budget: usize,
    #[serde(flatten)]
    pub schedule: Schedule,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Schedule {
    /// Number of concurrent trials.
    pub parallel: usize,
    pub mode: Mode,
    /// Number of initial points, uniform in the search space and equal for all optimizers, before the optimizer's own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub initial_points: usize,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "early_stopping_name")]
    pub early_stopping: Option<EarlyStopping>,
    /// End of the run in simulated seconds, at least 1; trials that would end later have no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_secs: Option<u32>,
}

/// Trigger of the next trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// When the previous trial ends.
    Sequential,
    /// A batch of parallel trials when the previous batch ends.
    Batch,
    /// Whenever a running trial ends.
    Asynchronous,
}

/// Noiseless metrics of a feasible trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ResultValue {
    /// Value of the only metric.
    One(f64),
    /// Values of several metrics.
    Many(Vec<f64>),
}

/// Reason why a run ended early.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "reason", rename_all = "snake_case")]
pub enum Failure {
    /// The optimizer does not support the problem.
    Unsupported(String),
    /// The optimizer exited, timed out or sent an invalid response.
    Failed(String),
}

/// Serialises early stopping as its name.
mod early_stopping_name {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::{Serialize, Serializer};

    use crate::early_stopping::EarlyStopping;

    pub(super) fn serialize<S: Serializer>(rule: &Option<EarlyStopping>, serializer: S) -> Result<S::Ok, S::Error> {
        rule.map(|rule| rule.to_string()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<EarlyStopping>, D::Error> {
        let name = Option::<String>::deserialize(deserializer)?;
        name.map(|name| name.parse()).transpose().map_err(D::Error::custom)
    }
}

fn every_second() -> impl Iterator<Item = f64> {
    (1_u32..).map(f64::from)
}

fn is_every_second(ended_secs: &[f64]) -> bool {
    every_second().zip(ended_secs).all(|(expected, secs)| expected == *secs)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use tunesmith_algorithms::early_stopping::StoppingRuleKind;

    use super::*;

    fn record(ended_secs: Vec<f64>) -> RunRecord {
        let schedule = Schedule {
            parallel: 1,
            mode: Mode::Sequential,
            initial_points: 0,
            early_stopping: None,
            time_limit_secs: None,
        };
        RunRecord {
            key: RunKey {
                suite: "bbob".into(),
                problem: "f01/d02".into(),
                seed: 1,
                optimizer: "gp".into(),
                budget: 3,
                schedule,
            },
            version: None,
            parameters: 2,
            goals: vec![Goal::Minimize],
            quality: Quality::Value { best_known: Some(79.48) },
            resolution: None,
            results: vec![Some(ResultValue::One(108.5)), None, Some(ResultValue::One(80.0))],
            ended_secs,
            suggest_ms: vec![0.25, 1.0, 1.5],
            stopped_early: Vec::new(),
            resumed: Vec::new(),
            points: Vec::new(),
            chosen: Vec::new(),
            failure: None,
        }
    }

    #[test]
    fn the_optimizer_has_the_field_name_of_existing_files() {
        let line = serde_json::to_string(&record(Vec::new())).unwrap();
        assert!(line.contains(r#""contestant":"gp""#), "{line}");
    }

    #[test]
    fn stopping_rule_is_serialised_as_its_name() {
        let mut stopped = record(vec![1.0, 2.0, 3.0]);
        stopped.key.schedule.early_stopping = Some(EarlyStopping::Rule(StoppingRuleKind::DecayCurve));
        let line = serde_json::to_string(&stopped).unwrap();
        assert!(line.contains(r#""early_stopping":"decay_curve""#), "{line}");
        assert_eq!(serde_json::from_str::<RunRecord>(&line).unwrap().restored(), stopped);
        assert!(serde_json::from_str::<RunRecord>(&line.replace("decay_curve", "convex")).is_err());
    }

    #[test]
    fn ends_at_every_second_are_not_serialised_and_are_restored() {
        let steady = record(vec![1.0, 2.0, 3.0]);
        let line = serde_json::to_string(&steady).unwrap();
        assert!(!line.contains("ended_secs"), "{line}");
        assert_eq!(serde_json::from_str::<RunRecord>(&line).unwrap().restored(), steady);
    }

    #[test]
    fn other_ends_are_serialised() {
        for ends in [vec![1.0, 2.0, 3.5], vec![2.0, 3.0, 4.0], vec![1.0, 1.0, 1.0]] {
            let uneven = record(ends);
            let line = serde_json::to_string(&uneven).unwrap();
            assert!(line.contains("ended_secs"), "{line}");
            assert_eq!(serde_json::from_str::<RunRecord>(&line).unwrap().restored(), uneven);
        }
    }
}
