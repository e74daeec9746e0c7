//! `filter` of a list of jobs: `attribute:value` terms joined by ` AND `, where a value may end with `*`.

use std::str::FromStr;

use tunesmith_domain::Job;

/// Selects the jobs that satisfy every term.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobFilter {
    terms: Vec<Term>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    attribute: Attribute,
    value: String,
    /// Whether the value is only a prefix.
    is_prefix: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Attribute {
    JobId,
    State,
    ErrorMessage,
    Label(String),
}

impl FromStr for JobFilter {
    /// What is wrong, and what is allowed.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let terms = text.split(" AND ").map(|term| {
            let (attribute, value) = term
                .trim()
                .split_once(':')
                .ok_or_else(|| format!("{term:?} is not attribute:value; terms are joined by \" AND \""))?;
            let attribute = match attribute.trim() {
                "jobId" => Attribute::JobId,
                "state" => Attribute::State,
                "errorMessage" => Attribute::ErrorMessage,
                other => match other.strip_prefix("labels.") {
                    Some(key) => Attribute::Label(key.to_owned()),
                    None => {
                        return Err(format!(
                            "unknown attribute {other:?}: use jobId, state, errorMessage or labels.KEY"
                        ));
                    }
                },
            };
            let value = value.trim();
            let (value, is_prefix) = value.strip_suffix('*').map_or((value, false), |prefix| (prefix, true));
            Ok(Term { attribute, value: value.to_owned(), is_prefix })
        });
        Ok(Self { terms: terms.collect::<Result<_, String>>()? })
    }
}

impl JobFilter {
    /// Whether `job` satisfies every term.
    pub fn accepts(&self, job: &Job) -> bool {
        self.terms.iter().all(|term| {
            let state = job.state.to_string();
            let text = match &term.attribute {
                Attribute::JobId => Some(job.id.parts().1),
                Attribute::State => Some(state.as_str()),
                Attribute::ErrorMessage => Some(job.error_message.as_str()),
                Attribute::Label(key) => job.labels.get(key).map(String::as_str),
            };
            text.is_some_and(|text| if term.is_prefix { text.starts_with(&term.value) } else { text == term.value })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tunesmith_store::contract::samples;

    #[test]
    fn filter_requires_every_term() {
        let job = samples::job("rnn_7");
        for (filter, expected) in [
            ("", true),
            ("jobId:rnn_7", true),
            ("jobId:rnn", false),
            ("jobId:rnn*", true),
            ("jobId:rnn* AND state:QUEUED", true),
            ("jobId:rnn* AND state:FAILED", false),
            ("labels.owner:some*", true),
            ("labels.team:*", false),
        ] {
            assert_eq!(filter.parse::<JobFilter>().unwrap().accepts(&job), expected, "{filter}");
        }
        for bad in ["rnn", "name:rnn", "jobId:a OR state:b AND c"] {
            assert!(bad.parse::<JobFilter>().is_err(), "{bad}");
        }
    }
}
