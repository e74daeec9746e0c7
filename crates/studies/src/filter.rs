use std::str::FromStr;

use tunesmith_domain::Study;
use tunesmith_filter::{Condition, Expression, Fields, Filter, FilterError, Kind, Test};

/// Selects studies by `studyId`, `state`, `stateReason`, `algorithm`, `metric`, `parameter`, `trials`, `maxTrials` and
/// `createTime`.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyFilter(Expression<Condition<usize>>);

const STATES: &[&str] = &["ACTIVE", "INACTIVE", "COMPLETED"];
const ALGORITHMS: &[&str] =
    &["AUTOMATIC", "GAUSSIAN_PROCESS_BANDIT", "GRID_SEARCH", "RANDOM_SEARCH", "QUASI_RANDOM_SEARCH", "TPE", "CMA_ES"];

/// Name, kind and test of a field.
type StudyField = (&'static str, Kind, fn(&Study, &Test) -> bool);

/// `metric` and `parameter` match if any of their names does.
const FIELDS: &[StudyField] = &[
    ("studyId", Kind::Text, |study, test| test.accepts_text(study.id.parts().2)),
    ("state", Kind::Word(STATES), |study, test| test.accepts_text(&study.state.to_string())),
    ("stateReason", Kind::Text, |study, test| test.accepts_text(&study.state_reason)),
    ("algorithm", Kind::Word(ALGORITHMS), |study, test| test.accepts_text(study.algorithm.as_str())),
    ("metric", Kind::Text, |study, test| study.problem.metrics().iter().any(|metric| test.accepts_text(&metric.name))),
    ("parameter", Kind::Text, |study, test| {
        study.problem.search_space().parameters().iter().any(|parameter| test.accepts_text(parameter.name()))
    }),
    ("trials", Kind::Number, |study, test| test.accepts_number(study.next_trial_id.0.saturating_sub(1) as f64)),
    ("maxTrials", Kind::Number, |study, test| study.max_trials.is_some_and(|most| test.accepts_number(most as f64))),
    ("createTime", Kind::Time, |study, test| test.accepts_time(study.create_time.as_microsecond())),
];

struct StudyAttributes;

impl Fields for StudyAttributes {
    type Field = usize;

    fn find(&self, root: &str, name: Option<&str>) -> Option<(usize, Kind)> {
        let index = FIELDS.iter().position(|(field, ..)| name.is_none() && *field == root)?;
        Some((index, FIELDS[index].1.clone()))
    }

    fn allowed(&self, _: &str) -> String {
        FIELDS.iter().map(|(field, ..)| *field).collect::<Vec<_>>().join(", ")
    }
}

impl FromStr for StudyFilter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        text.parse::<Filter>()?.check(&StudyAttributes).map(Self)
    }
}

impl StudyFilter {
    pub fn accepts(&self, study: &Study) -> bool {
        self.0.holds(&mut |Condition { field, test }| FIELDS[*field].2(study, test))
    }
}

#[cfg(test)]
mod tests {
    use tunesmith_contract::samples;

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
