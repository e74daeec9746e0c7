//! Filter of lists of jobs.

use std::str::FromStr;

use tunesmith_api::ai_platform::job::display_name;
use tunesmith_domain::Job;
use tunesmith_filter::{Condition, Expression, Fields, Filter, FilterError, Kind, Test};
use tunesmith_vizier::vertex::state_of_job;

/// Selects jobs by `display_name`, `state`, `create_time` and `labels.KEY`, in snake_case or camelCase.
#[derive(Debug)]
pub(super) struct JobFilter(Expression<Condition<Field>>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Field {
    DisplayName,
    State,
    CreateTime,
    Label(String),
}

const STATES: &[&str] = &[
    "JOB_STATE_QUEUED",
    "JOB_STATE_PENDING",
    "JOB_STATE_RUNNING",
    "JOB_STATE_SUCCEEDED",
    "JOB_STATE_FAILED",
    "JOB_STATE_CANCELLING",
    "JOB_STATE_CANCELLED",
    "JOB_STATE_PAUSED",
    "JOB_STATE_EXPIRED",
    "JOB_STATE_UPDATING",
    "JOB_STATE_PARTIALLY_SUCCEEDED",
];

struct Names;

impl Fields for Names {
    type Field = Field;

    fn find(&self, root: &str, name: Option<&str>) -> Option<(Field, Kind)> {
        Some(match (root, name) {
            ("display_name" | "displayName", None) => (Field::DisplayName, Kind::Text),
            ("state", None) => (Field::State, Kind::Word(STATES)),
            ("create_time" | "createTime", None) => (Field::CreateTime, Kind::Time),
            ("labels", Some(key)) => (Field::Label(key.to_owned()), Kind::Text),
            _ => return None,
        })
    }

    fn allowed(&self, _: &str) -> String {
        "display_name, state, create_time, labels.KEY".to_owned()
    }
}

impl FromStr for JobFilter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        text.parse::<Filter>()?.check(&Names).map(Self)
    }
}

impl JobFilter {
    pub(super) fn accepts(&self, job: &Job) -> bool {
        self.0.holds(&mut |Condition { field, test }| match field {
            Field::DisplayName => match test {
                // Quoted, too, a star stands for any text.
                Test::Text { text, is_prefix: false } => matches_wildcards(text, display_name(job)),
                test => test.accepts_text(display_name(job)),
            },
            Field::State => test.accepts_text(state_of_job(job.state).as_str_name()),
            Field::CreateTime => test.accepts_time(job.create_time.as_microsecond()),
            Field::Label(key) => job.labels.get(key).is_some_and(|value| test.accepts_text(value)),
        })
    }
}

/// Whether `text` is `pattern`, in which `*` stands for any text.
fn matches_wildcards(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tunesmith_domain::JobFields;

    use super::*;

    #[test]
    fn published_filters_select_jobs() {
        let input = serde_json::from_value(json!({"masterConfig": {"containerCommand": ["true"]}})).unwrap();
        let plan = tunesmith_api::ai_platform::plan::job_plan(&input, &Default::default()).unwrap();
        let job = Job::restore(JobFields {
            training_input: json!({"tunesmith": {"vertex": {"displayName": "my_job_7"}}}),
            labels: [("keyA".to_owned(), "valueA".to_owned())].into(),
            ..JobFields::new("p/vertex_1".parse().unwrap(), plan, "2026-11-27T00:00:00Z".parse().unwrap())
        });
        for (filter, expected) in [
            ("", true),
            (r#"state="JOB_STATE_QUEUED" AND display_name:"my_job_*""#, true),
            (r#"state="JOB_STATE_SUCCEEDED" AND display_name:"my_job_*""#, false),
            (r#"state!="JOB_STATE_FAILED" OR display_name="my_job""#, true),
            (r#"NOT display_name="my_job""#, true),
            (r#"displayName="my_job_7""#, true),
            (r#"display_name:"*job*7""#, true),
            (r#"display_name:"*job*8""#, false),
            ("display_name:my*", true),
            (r#"create_time>"2021-05-18T00:00:00Z""#, true),
            (r#"create_time<="2021-05-18T00:00:00Z""#, false),
            ("labels.keyA=valueA", true),
            ("labels.keyA:*", true),
            ("labels.keyB:*", false),
        ] {
            assert_eq!(filter.parse::<JobFilter>().unwrap().accepts(&job), expected, "{filter}");
        }
        for bad in ["name=x", "state=QUEUED", "create_time>yesterday-ish", "display_name="] {
            assert!(bad.parse::<JobFilter>().is_err(), "{bad}");
        }
    }
}
