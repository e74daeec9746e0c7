//! Repetition of the best points with other seeds or folds.

use serde::{Deserialize, Serialize};

use super::{
    CompletedTrial, ParameterKind, ParameterSpec, ParameterValue, ParameterValues, ProblemStatement, SearchSpace,
};

/// Default number of trials of each leader (measured, see docs/experiments/024).
const DEFAULT_TRIALS_PER_LEADER: u32 = 5;
/// Share of all trials that the default number of leaders repeats (measured, see docs/experiments/024).
const REPEATED_SHARE: f64 = 0.45;
/// Numbers of leaders, and of trials before the first repetition, in a study without a limit. Guesses.
const LEADERS_WITHOUT_LIMIT: u32 = 5;
const SEARCH_TRIALS_WITHOUT_LIMIT: u64 = 30;

/// Repetition of the best points, the leaders, with other values of one parameter: the seed of the training, or the
/// fold of the data. The search has no model of the parameter. It proposes all points with the first value, and the
/// results of a point with several values are pooled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Repeats {
    /// Name of an unconditional parameter with two or more listed values.
    pub parameter: String,
    /// Number of points to repeat, at least 1.
    pub leaders: u32,
    /// Number of trials of each leader, including the first: from 2 to the number of values of the parameter.
    pub trials_per_leader: u32,
    /// Number of trials of the study before the first repetition.
    pub search_trials: u64,
}

impl Repeats {
    /// Repeats over the values of `parameter` for a study of `max_trials` trials, if limited. The repeated trials are
    /// the last ones, at most half of all.
    pub fn new(
        parameter: &ParameterSpec,
        leaders: Option<u32>,
        trials_per_leader: Option<u32>,
        max_trials: Option<u64>,
    ) -> Self {
        let values = parameter.cardinality().unwrap_or(u64::MAX);
        let default = DEFAULT_TRIALS_PER_LEADER.min(u32::try_from(values).unwrap_or(u32::MAX));
        let trials_per_leader = trials_per_leader.unwrap_or(default);
        let further = u64::from(trials_per_leader.saturating_sub(1));
        let by_share = |trials: u64| (REPEATED_SHARE * trials as f64 / further.max(1) as f64).max(1.0) as u32;
        let leaders = leaders.or(max_trials.map(by_share)).unwrap_or(LEADERS_WITHOUT_LIMIT);
        let reserved = u64::from(leaders) * further;
        let search_trials = max_trials
            .map_or(SEARCH_TRIALS_WITHOUT_LIMIT, |trials| trials.saturating_sub(reserved).max(trials.div_ceil(2)));
        Self { parameter: parameter.name().to_owned(), leaders, trials_per_leader, search_trials }
    }

    /// The first values of `parameter`, one for each trial of a leader, in order. Integers from the lowest on, discrete
    /// values by size, categories as listed.
    pub fn values(&self, parameter: &ParameterSpec) -> Vec<ParameterValue> {
        let count = self.trials_per_leader as usize;
        match parameter.kind() {
            ParameterKind::Integer { min, max, .. } => (*min..=*max).take(count).map(ParameterValue::Integer).collect(),
            ParameterKind::Discrete { values, .. } => {
                values.iter().take(count).copied().map(ParameterValue::Discrete).collect()
            }
            ParameterKind::Categorical { values } => {
                values.iter().take(count).cloned().map(ParameterValue::Categorical).collect()
            }
            ParameterKind::Double { .. } => Vec::new(),
        }
    }

    /// Point of a trial without the repeated parameter.
    pub fn without(&self, parameters: &ParameterValues) -> ParameterValues {
        let mut point = parameters.clone();
        point.remove(&self.parameter);
        point
    }

    /// `trial` at its point without the repeated parameter.
    pub fn without_parameter_of(&self, trial: &CompletedTrial) -> CompletedTrial {
        CompletedTrial { id: trial.id, parameters: self.without(&trial.parameters), outcome: trial.outcome.clone() }
    }

    /// Checks the settings against the parameters of `problem`.
    pub(super) fn check(&self, problem: &ProblemStatement) -> Result<(), RepeatsError> {
        let name = || self.parameter.clone();
        let parameters = problem.search_space().parameters();
        let Some(parameter) = parameters.iter().find(|parameter| parameter.name() == self.parameter) else {
            return Err(RepeatsError::UnknownParameter { parameter: name() });
        };
        if parameters.len() < 2 {
            return Err(RepeatsError::NothingToSearch { parameter: name() });
        }
        if matches!(parameter.kind(), ParameterKind::Double { .. }) {
            return Err(RepeatsError::Double { parameter: name() });
        }
        let has_children = |other: &ParameterSpec| other.condition().is_some_and(|own| own.parent() == self.parameter);
        if parameter.condition().is_some() || parameters.iter().any(has_children) {
            return Err(RepeatsError::Conditional { parameter: name() });
        }
        let values = parameter.cardinality().unwrap_or(u64::MAX);
        let trials = self.trials_per_leader;
        if trials < 2 || u64::from(trials) > values {
            return Err(RepeatsError::TrialsPerLeader { parameter: name(), trials, values });
        }
        if self.leaders == 0 {
            return Err(RepeatsError::NoLeader);
        }
        if problem.metrics().len() > 1 {
            return Err(RepeatsError::SeveralMetrics { metrics: problem.metrics().len() });
        }
        Ok(())
    }
}

impl ProblemStatement {
    /// Parameter with the seed or fold of [`Self::repeats`].
    pub fn repeated_parameter(&self) -> Option<&ParameterSpec> {
        let name = &self.repeats()?.parameter;
        self.search_space().parameters().iter().find(|parameter| parameter.name() == name)
    }

    /// The problem without the repeated parameter, as the search sees it; `None` without [`Self::repeats`].
    pub fn without_repeated_parameter(&self) -> Option<Self> {
        let repeats = self.repeats()?;
        let kept = self.search_space().parameters().iter().filter(|parameter| parameter.name() != repeats.parameter);
        let space = SearchSpace::new(kept.cloned().collect()).expect("another unconditional parameter remains");
        Some(self.clone().with_space_without_repeats(space))
    }
}

/// Settings of [`Repeats`] that do not fit a problem.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RepeatsError {
    /// The space does not have the parameter.
    #[error("the search space has no parameter {parameter:?} to repeat")]
    UnknownParameter {
        /// Name as given.
        parameter: String,
    },
    /// The repeated parameter is the only one.
    #[error("the search space has no parameter besides the repeated one, {parameter:?}")]
    NothingToSearch {
        /// Name of the parameter.
        parameter: String,
    },
    /// The parameter has no listed values.
    #[error("the repeated parameter {parameter:?} is a double; it must be an integer, discrete or categorical")]
    Double {
        /// Name of the parameter.
        parameter: String,
    },
    /// The parameter has a condition, or is the parent of another one.
    #[error("the repeated parameter {parameter:?} is conditional, or another parameter is conditional on it")]
    Conditional {
        /// Name of the parameter.
        parameter: String,
    },
    /// The number of trials of each leader is below 2 or above the number of values.
    #[error(
        "{trials} trials of each leader, but the repeated parameter {parameter:?} has {values} values; from 2 to that"
    )]
    TrialsPerLeader {
        /// Name of the parameter.
        parameter: String,
        /// Number of trials as given.
        trials: u32,
        /// Number of values of the parameter.
        values: u64,
    },
    /// The number of leaders is 0.
    #[error("the number of leaders is 0, but at least one point is repeated")]
    NoLeader,
    /// There is no single best point.
    #[error("repeats require a single metric, but the problem has {metrics}")]
    SeveralMetrics {
        /// Number of metrics.
        metrics: usize,
    },
}
