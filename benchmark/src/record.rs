//! What is kept of one run: one optimizer on one problem with one seed.

use serde::{Deserialize, Serialize};
use tunesmith_algorithms::early_stopping::{self, AshaRule, DecayCurveRule, MedianRule};
use tunesmith_algorithms::problem::{Goal, ParameterValues};

/// One run, as it stands on one line of a results file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Who, on what, how.
    #[serde(flatten)]
    pub key: RunKey,
    /// Version of the optimizer, as it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Number of parameters of the search space.
    pub parameters: usize,
    /// Goal of each metric.
    pub goals: Vec<Goal>,
    /// How results are turned into one number.
    pub quality: RecordedQuality,
    /// Gaps to the best known value below this count as this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<f64>,
    /// The results of the trials in the order in which they ended.
    pub results: Vec<Option<ResultValue>>,
    /// When each trial ended, in simulated seconds since the run began, in the order of `results`.
    ///
    /// On paper it is left out if the trials ended after 1, 2, 3 ... seconds, as they do one after the other on problems
    /// that know no durations; [`Self::restored`] puts that back.
    #[serde(default, skip_serializing_if = "is_every_second")]
    pub ended_secs: Vec<f64>,
    /// How long the optimizer took for each suggestion and for taking in the results before it, in milliseconds of
    /// wall time of three digits; in the order in which they were asked for. A batch counts as one.
    pub suggest_ms: Vec<f64>,
    /// Indices into `results` of trials that were stopped early.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stopped_early: Vec<usize>,
    /// The point of each result, if they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<ParameterValues>,
    /// Why the run ended before its budget was spent, if it did: the optimizer failed, or does not support the problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

impl RunRecord {
    /// A record as it was read, with what is left out on paper.
    #[must_use]
    pub fn restored(mut self) -> Self {
        if self.ended_secs.is_empty() {
            self.ended_secs = every_second().take(self.results.len()).collect();
        }
        self
    }
}

/// What tells one run from another. Two runs with the same key are the same run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunKey {
    /// The suite.
    pub suite: String,
    /// Name of the problem in its suite.
    pub problem: String,
    /// Seed; for suites with instances also the number of the instance.
    pub seed: u64,
    /// Name of the optimizer.
    #[serde(rename = "contestant")]
    pub optimizer: String,
    /// Number of trials asked for.
    pub budget: usize,
    /// How trials follow one another.
    #[serde(flatten)]
    pub schedule: Schedule,
}

/// How trials follow one another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Schedule {
    /// How many trials run at once.
    pub parallel: usize,
    /// When the next is asked for.
    pub mode: Mode,
    /// How many points, uniform in the search space and the same for every optimizer, come before its own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub initial_points: usize,
    /// The rule by which running trials are stopped, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early_stopping: Option<StoppingRule>,
}

/// When the next trial is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// After the one before ended.
    Sequential,
    /// As many as run at once, when all before ended.
    Batch,
    /// As soon as one of those that run has ended.
    Asynchronous,
}

/// A rule for stopping trials early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoppingRule {
    /// [`tunesmith_algorithms::early_stopping::MedianRule`] with its defaults.
    Median,
    /// [`tunesmith_algorithms::early_stopping::DecayCurveRule`] with its defaults.
    DecayCurve,
    /// [`tunesmith_algorithms::early_stopping::AshaRule`] with its defaults.
    Asha,
}

impl StoppingRule {
    /// The rule itself.
    pub fn rule(self) -> early_stopping::StoppingRule {
        match self {
            Self::Median => early_stopping::StoppingRule::Median(MedianRule::default()),
            Self::DecayCurve => early_stopping::StoppingRule::DecayCurve(DecayCurveRule::default()),
            Self::Asha => early_stopping::StoppingRule::Asha(AshaRule::default()),
        }
    }
}

/// [`crate::problem::Quality`] on paper.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordedQuality {
    /// One metric.
    Value {
        /// The optimum, or the best value that is known.
        best_known: Option<f64>,
    },
    /// Several metrics.
    Hypervolume {
        /// The corner that bounds the volume.
        reference_point: Vec<f64>,
        /// The largest volume that is known.
        best_known: Option<f64>,
    },
}

/// The noiseless metrics of a feasible trial. `None` stands in its place for an infeasible one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ResultValue {
    /// Of a problem with one metric.
    One(f64),
    /// Of a problem with several.
    Many(Vec<f64>),
}

/// Why a run ended early.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "reason", rename_all = "snake_case")]
pub enum Failure {
    /// The optimizer declared that it cannot search this problem.
    Unsupported(String),
    /// The optimizer failed: it died, hung, or answered nonsense.
    Failed(String),
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
    use super::*;

    fn record(ended_secs: Vec<f64>) -> RunRecord {
        let schedule = Schedule { parallel: 1, mode: Mode::Sequential, initial_points: 0, early_stopping: None };
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
            quality: RecordedQuality::Value { best_known: Some(79.48) },
            resolution: None,
            results: vec![Some(ResultValue::One(108.5)), None, Some(ResultValue::One(80.0))],
            ended_secs,
            suggest_ms: vec![0.25, 1.0, 1.5],
            stopped_early: Vec::new(),
            points: Vec::new(),
            failure: None,
        }
    }

    #[test]
    fn ends_at_every_second_are_not_written_and_come_back() {
        let steady = record(vec![1.0, 2.0, 3.0]);
        let line = serde_json::to_string(&steady).unwrap();
        assert!(!line.contains("ended_secs"), "{line}");
        assert_eq!(serde_json::from_str::<RunRecord>(&line).unwrap().restored(), steady);
    }

    #[test]
    fn other_ends_are_written() {
        for ends in [vec![1.0, 2.0, 3.5], vec![2.0, 3.0, 4.0], vec![1.0, 1.0, 1.0]] {
            let uneven = record(ends);
            let line = serde_json::to_string(&uneven).unwrap();
            assert!(line.contains("ended_secs"), "{line}");
            assert_eq!(serde_json::from_str::<RunRecord>(&line).unwrap().restored(), uneven);
        }
    }
}
