//! Arguments that many tools share.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use tunesmith_client::{Client, StudyClient};
use tunesmith_domain::StudyId;

use crate::context::Context;
use crate::failure::Failure;

/// Location of studies without another one, as for the command line.
const DEFAULT_LOCATION: &str = "local";

/// A job or a study.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(crate) struct Of {
    /// Job ID; this or `study`.
    pub(crate) job: Option<String>,
    /// Study ID; this or `job`.
    pub(crate) study: Option<String>,
    /// Location of the study; default local.
    pub(crate) location: Option<String>,
    /// Project; default that of the server.
    pub(crate) project: Option<String>,
}

/// The study of a call, and the job that it belongs to.
pub(crate) struct Subject {
    pub(crate) client: Client,
    pub(crate) job: Option<String>,
    pub(crate) study: StudyClient,
}

impl Of {
    /// # Errors
    /// Unless exactly one of job and study is given.
    pub(crate) fn subject(&self, context: &Context) -> Result<Subject, Failure> {
        let client = context.client(self.project.as_deref());
        let location = self.location.as_deref().unwrap_or(DEFAULT_LOCATION);
        match (&self.job, &self.study) {
            (Some(job), None) => {
                let job = given("job", job)?;
                let study = client.study(StudyId::JOBS_LOCATION, job);
                Ok(Subject { job: Some(job.to_owned()), study, client })
            }
            (None, Some(study)) => {
                let study = client.study(location, given("study", study)?);
                Ok(Subject { job: None, study, client })
            }
            (Some(_), Some(_)) => Err(Failure::argument("study", "is given beside job", "a job or a study, not both")),
            (None, None) => {
                Err(Failure::argument("job", "is missing", "the ID of a job, or study with that of a study"))
            }
        }
    }
}

/// Argument `name`, which must not be empty.
pub(crate) fn given<'a>(name: &str, value: &'a str) -> Result<&'a str, Failure> {
    if value.is_empty() { Err(Failure::argument(name, "is empty", "an ID from a list")) } else { Ok(value) }
}

/// Number `value` of the argument `name`, from `least` to `most`; `default` if absent.
pub(crate) fn bounded(name: &str, value: Option<u64>, default: u64, (least, most): (u64, u64)) -> Result<u64, Failure> {
    match value.unwrap_or(default) {
        value if (least..=most).contains(&value) => Ok(value),
        value => Err(Failure::argument(name, format!("is {value}"), format!("{least} to {most}"))),
    }
}

/// Number of a trial. After an expired lease, the attempt follows: `7~2`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct TrialName(pub(crate) String);

impl TrialName {
    /// Number without the attempt.
    pub(crate) fn number(&self) -> &str {
        self.0.split('~').next().unwrap_or_default()
    }
}

impl<'de> Deserialize<'de> for TrialName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Number(u64),
            Text(String),
        }
        let text = match Form::deserialize(deserializer) {
            Ok(Form::Number(number)) => number.to_string(),
            Ok(Form::Text(text)) => text,
            Err(_) => return Err(serde::de::Error::custom("expected the number of a trial, such as 3")),
        };
        let is_name = text.split('~').count() <= 2
            && text
                .split('~')
                .all(|part| !part.is_empty() && part.len() < 20 && part.bytes().all(|byte| byte.is_ascii_digit()));
        if is_name {
            Ok(Self(text))
        } else {
            Err(serde::de::Error::custom("expected the number of a trial, such as 3"))
        }
    }
}

impl JsonSchema for TrialName {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TrialName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["integer", "string"] })
    }
}
