use std::str::FromStr;

use tunesmith_domain::Job;
use tunesmith_filter::{Condition, Expression, Fields, Filter, FilterError, Kind};

/// Selects jobs by `jobId`, `state`, `errorMessage`, `labels.KEY`, `createTime`, `startTime` and `endTime`.
#[derive(Debug, Clone, PartialEq)]
pub struct JobFilter(Expression<Condition<Attribute>>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Attribute {
    JobId,
    State,
    ErrorMessage,
    Label(String),
    CreateTime,
    StartTime,
    EndTime,
}

const STATES: &[&str] = &["QUEUED", "PREPARING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLING", "CANCELLED"];

struct JobAttributes;

impl Fields for JobAttributes {
    type Field = Attribute;

    fn find(&self, root: &str, name: Option<&str>) -> Option<(Attribute, Kind)> {
        Some(match (root, name) {
            ("jobId", None) => (Attribute::JobId, Kind::Text),
            // AI Platform's `state:WORD` accepts any word.
            ("state", None) => (Attribute::State, Kind::OpenWord(STATES)),
            ("errorMessage", None) => (Attribute::ErrorMessage, Kind::Text),
            ("labels", Some(key)) => (Attribute::Label(key.to_owned()), Kind::Text),
            ("createTime", None) => (Attribute::CreateTime, Kind::Time),
            ("startTime", None) => (Attribute::StartTime, Kind::Time),
            ("endTime", None) => (Attribute::EndTime, Kind::Time),
            _ => return None,
        })
    }

    fn allowed(&self, _: &str) -> String {
        "jobId, state, errorMessage, labels.KEY, createTime, startTime, endTime".to_owned()
    }
}

impl FromStr for JobFilter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        text.parse::<Filter>()?.check(&JobAttributes).map(Self)
    }
}

impl JobFilter {
    pub fn accepts(&self, job: &Job) -> bool {
        self.0.holds(&mut |Condition { field, test }| match field {
            Attribute::JobId => test.accepts_text(job.id.parts().1),
            Attribute::State => test.accepts_text(&job.state.to_string()),
            Attribute::ErrorMessage => test.accepts_text(&job.error_message),
            Attribute::Label(key) => job.labels.get(key).is_some_and(|value| test.accepts_text(value)),
            Attribute::CreateTime => test.accepts_time(job.create_time.as_microsecond()),
            Attribute::StartTime => job.start_time.is_some_and(|time| test.accepts_time(time.as_microsecond())),
            Attribute::EndTime => job.end_time.is_some_and(|time| test.accepts_time(time.as_microsecond())),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tunesmith_contract::samples;
    use tunesmith_domain::{Job, JobState};

    use super::*;

    #[test]
    fn states_are_those_of_jobs() {
        assert_eq!(STATES, JobState::ALL.map(|state| state.to_string()));
    }

    #[test]
    fn jobs_are_selected_by_their_fields() {
        let job = samples::job("rnn_7");
        for (filter, expected) in [
            ("", true),
            ("jobId:rnn_7", true),
            ("jobId:rnn", false),
            ("jobId:rnn*", true),
            ("jobId=rnn*", true),
            ("jobId:rnn* AND state:QUEUED", true),
            ("jobId:rnn* AND state:FAILED", false),
            ("jobId:rnn* AND (state = FAILED OR state = QUEUED)", true),
            ("state:NONE", false),
            ("NOT state != QUEUED", true),
            ("labels.owner:some*", true),
            ("labels.team:*", false),
            ("labels.team != vision", true),
            ("createTime >= 1970-01-01", true),
            ("endTime > 1970-01-01", false),
        ] {
            assert_eq!(filter.parse::<JobFilter>().unwrap().accepts(&job), expected, "{filter}");
        }
        for bad in ["rnn", "name:rnn", "jobId:a OR state:b AND c", "state = NONE", "jobId < 3"] {
            assert!(bad.parse::<JobFilter>().is_err(), "{bad}");
        }
    }

    /// Reference implementation of the published `jobs.list` filter: `attribute:value` terms joined by ` AND `.
    fn published(filter: &str, job: &Job) -> Option<bool> {
        let state = job.state.to_string();
        let terms = filter.split(" AND ").map(|term| {
            let (attribute, value) = term.trim().split_once(':')?;
            let text = match attribute.trim() {
                "jobId" => Some(job.id.parts().1),
                "state" => Some(state.as_str()),
                "errorMessage" => Some(job.error_message.as_str()),
                other => job.labels.get(other.strip_prefix("labels.")?).map(String::as_str),
            };
            let value = value.trim();
            Some(text.is_some_and(|text| match value.strip_suffix('*') {
                Some(prefix) => text.starts_with(prefix),
                None => text == value,
            }))
        });
        let terms: Option<Vec<bool>> = terms.collect();
        terms.map(|terms| terms.into_iter().all(|is_true| is_true))
    }

    proptest! {
        #[test]
        fn published_filters_select_the_same_jobs(
            terms in prop::collection::vec(
                (
                    prop::sample::select(vec!["jobId", " state ", "errorMessage", "labels.owner", "labels.no_such"]),
                    prop_oneof![
                        prop::sample::select(vec![
                            "rnn_7", "rnn*", "*", "", " QUEUED ", "some*", "someone", "a (b) c", ") (", "(x", "a:b", "=", "a \" b",
                            "AND", "not this OR", "a**",
                        ])
                        .prop_map(str::to_owned),
                        "[a-zA-Z0-9 _:()*=<>!.-]{0,12}",
                    ],
                ),
                1..4,
            )
        ) {
            let filter = terms.iter().map(|(name, value)| format!("{name}:{value}")).collect::<Vec<_>>().join(" AND ");
            // Now keywords: `OR` between two terms, and `AND` or `OR` before the end.
            let is_word = |word: &str| word == "OR" || word == "AND";
            prop_assume!(!filter.split_whitespace().any(is_word));
            // Also new: lists, and restrictions that follow others.
            let is_list = |value: &str| value.trim_start().starts_with('(') && value.contains(')');
            let begins_term = |word: &str| {
                word.split_once([':', '=', '<', '>', '~', '!']).is_some_and(|(name, value)| {
                    name.trim_start_matches('(').starts_with(char::is_alphabetic) && !value.is_empty()
                })
            };
            prop_assume!(!terms.iter().any(|(_, value)| is_list(value) || value.split_whitespace().skip(usize::from(!value.starts_with(' '))).any(begins_term)));
            let job = samples::job("rnn_7");
            prop_assert_eq!(filter.parse::<JobFilter>().ok().map(|filter| filter.accepts(&job)), published(&filter, &job));
        }
    }
}
