//! Filters of studies.

use std::str::FromStr;

use tunesmith_domain::Study;
use tunesmith_filter::{Condition, Expression, Fields, Filter, FilterError, Kind};

/// Selects studies by `studyId`, `state`, `stateReason`, `algorithm`, `metric`, `parameter`, `trials`, `maxTrials` and
/// `createTime`.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyFilter(Expression<Condition<Attribute>>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Attribute {
    StudyId,
    State,
    StateReason,
    Algorithm,
    Metric,
    Parameter,
    Trials,
    MaxTrials,
    CreateTime,
}

const STATES: &[&str] = &["ACTIVE", "INACTIVE", "COMPLETED"];
const ALGORITHMS: &[&str] =
    &["AUTOMATIC", "GAUSSIAN_PROCESS_BANDIT", "GRID_SEARCH", "RANDOM_SEARCH", "QUASI_RANDOM_SEARCH", "TPE", "CMA_ES"];

struct StudyAttributes;

impl Fields for StudyAttributes {
    type Field = Attribute;

    fn find(&self, root: &str, name: Option<&str>) -> Option<(Attribute, Kind)> {
        if name.is_some() {
            return None;
        }
        Some(match root {
            "studyId" => (Attribute::StudyId, Kind::Text),
            "state" => (Attribute::State, Kind::Word(STATES)),
            "stateReason" => (Attribute::StateReason, Kind::Text),
            "algorithm" => (Attribute::Algorithm, Kind::Word(ALGORITHMS)),
            "metric" => (Attribute::Metric, Kind::Text),
            "parameter" => (Attribute::Parameter, Kind::Text),
            "trials" => (Attribute::Trials, Kind::Number),
            "maxTrials" => (Attribute::MaxTrials, Kind::Number),
            "createTime" => (Attribute::CreateTime, Kind::Time),
            _ => return None,
        })
    }

    fn allowed(&self, _: &str) -> String {
        "studyId, state, stateReason, algorithm, metric, parameter, trials, maxTrials, createTime".to_owned()
    }
}

impl FromStr for StudyFilter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        text.parse::<Filter>()?.check(&StudyAttributes).map(Self)
    }
}

impl StudyFilter {
    /// Whether `study` is selected: `metric` and `parameter` by any of its names.
    pub fn accepts(&self, study: &Study) -> bool {
        self.0.holds(&mut |Condition { field, test }| match field {
            Attribute::StudyId => test.accepts_text(study.id.parts().2),
            Attribute::State => test.accepts_text(&study.state.to_string()),
            Attribute::StateReason => test.accepts_text(&study.state_reason),
            Attribute::Algorithm => test.accepts_text(study.algorithm.as_str()),
            Attribute::Metric => study.problem.metrics().iter().any(|metric| test.accepts_text(&metric.name)),
            Attribute::Parameter => {
                study.problem.search_space().parameters().iter().any(|parameter| test.accepts_text(parameter.name()))
            }
            Attribute::Trials => test.accepts_number(study.next_trial_id.0.saturating_sub(1) as f64),
            Attribute::MaxTrials => study.max_trials.is_some_and(|most| test.accepts_number(most as f64)),
            Attribute::CreateTime => test.accepts_time(study.create_time.as_microsecond()),
        })
    }
}

#[cfg(test)]
mod tests {
    use tunesmith_store::contract::samples;

    use super::*;

    #[test]
    fn studies_are_selected_by_their_fields() {
        let study = samples::study("p/l/s_1");
        let (metric, parameter) =
            (&study.problem.metrics()[0].name, study.problem.search_space().parameters()[0].name());
        for (filter, expected) in [
            (String::new(), true),
            ("studyId:s_* AND state = ACTIVE".to_owned(), true),
            ("state = COMPLETED OR trials > 0".to_owned(), false),
            (format!("metric:\"{metric}\" AND parameter:\"{parameter}\""), true),
            ("metric:no_such_metric".to_owned(), false),
            (format!("algorithm = {}", study.algorithm.as_str()), true),
        ] {
            assert_eq!(filter.parse::<StudyFilter>().unwrap().accepts(&study), expected, "{filter}");
        }
        let error = "stat:x".parse::<StudyFilter>().unwrap_err().to_string();
        let expected = "column 1: found the field stat; allowed: studyId, state, stateReason, algorithm, metric, parameter, \
                        trials, maxTrials, createTime";
        assert_eq!(error, expected);
    }
}
