//! Descriptions of studies and HyperparameterTuningJobs of Vertex AI, in JSON or YAML.

use serde_json::{Value, json};
use tunesmith_api::ai_platform::rpc::FieldViolation;
use tunesmith_config::{ConfigErrors, Document};
use tunesmith_vizier::messages::vertex::{HyperparameterTuningJob, Study};
use tunesmith_vizier::vertex::{study_config, violations_of_spec};

use super::{imported, message};
use crate::ImportedStudy;

/// Fields that only a HyperparameterTuningJob has, without underscores and in lower case.
const OF_JOBS: [&str; 5] = ["trialjobspec", "maxtrialcount", "paralleltrialcount", "maxfailedtrialcount", "updatetime"];

/// Converts the HyperparameterTuningJob in `document`, as `gcloud ai hp-tuning-jobs describe` writes it, or the study, with
/// the answer to `trials.list` as its field `trials`.
///
/// # Errors
/// All fields that are unknown or invalid, with their places.
pub fn description(document: &Document) -> Result<(String, ImportedStudy), ConfigErrors> {
    let refuse = |found: Vec<FieldViolation>| {
        document.errors(found.into_iter().map(|violation| (violation.field, violation.description)))
    };
    let value = document.value();
    let Value::Object(mut fields) = value else {
        return Err(document.errors([(String::new(), "is not a mapping; allowed: a study of Vertex AI".to_owned())]));
    };
    let is_job = fields.keys().any(|name| OF_JOBS.contains(&plain(name).as_str()));
    let (display_name, spec, trials) = if is_job {
        let job: HyperparameterTuningJob = message(document, &Value::Object(fields), str::to_owned)?;
        (job.display_name, job.study_spec, job.trials)
    } else {
        let trials = fields.remove("trials").unwrap_or_default();
        let study: Study = message(document, &Value::Object(fields), str::to_owned)?;
        // A job's message has the same trials.
        let holder: HyperparameterTuningJob = message(document, &json!({ "trials": trials }), str::to_owned)?;
        (study.display_name, study.study_spec, holder.trials)
    };
    let Some(spec) = spec else {
        return Err(document.errors([("studySpec".to_owned(), "is missing".to_owned())]));
    };
    let (mut config, notices) = study_config(&spec).map_err(refuse)?;
    config.tunesmith.display_name.clone_from(&display_name);
    let mut study = imported(config, notices, &trials).map_err(|found| refuse(violations_of_spec(found)))?;
    if is_job {
        study
            .notes
            .push("the program and the limits of the job are left out: `tunesmith run` takes the file".to_owned());
    }
    Ok((display_name, study))
}

fn plain(name: &str) -> String {
    name.replace('_', "").to_lowercase()
}
