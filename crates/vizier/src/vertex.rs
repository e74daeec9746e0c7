//! Vertex AI: studies and trials as its messages.

mod job;
mod parameters;
mod spec;
mod study;
#[cfg(test)]
mod tests;
mod trial;

pub use job::{
    JobContext, JobOfVertex, custom_job, location_of_job, message_of_custom_job, message_of_tuning_job, path_of_job,
    state_of_job, tuning_job,
};
pub use spec::study_config;
pub use study::config_of;
pub use study::message_of_study;
pub(crate) use study::spec_of;
pub use trial::{message_of_trial, point, state_of_trial, study_state};

use tunesmith_api::ai_platform::rpc::FieldViolation;

/// Path in a request of Vertex AI, for a path of a `StudyConfig`.
pub fn path_of_spec(path: &str) -> String {
    let path = path
        .replace("studyConfig", "studySpec")
        .replace("tunesmith.initialTrials[0]", "parameters")
        .replace("tunesmith.finalMeasurement", "measurementSelectionType")
        .replace("tunesmith.", "");
    let mut translated = String::with_capacity(path.len());
    for (index, segment) in path.split('.').enumerate() {
        if index > 0 {
            translated.push('.');
        }
        match segment.strip_prefix("childParameterSpecs[") {
            Some(rest) => {
                translated.push_str("conditionalParameterSpecs[");
                translated.push_str(rest);
                translated.push_str(".parameterSpec");
            }
            None if segment == "childParameterSpecs" => translated.push_str("conditionalParameterSpecs"),
            None if segment == "parameter" => translated.push_str("parameterId"),
            None if segment == "metric" => translated.push_str("metricId"),
            None => translated.push_str(segment),
        }
    }
    // Conditions stand beside the child.
    translated.replace(".parameterSpec.parent", ".parent")
}

/// `violations` of the rules of a `StudyConfig`, with paths of Vertex AI.
pub fn violations_of_spec(violations: Vec<FieldViolation>) -> Vec<FieldViolation> {
    violations.into_iter().map(|it| FieldViolation { field: path_of_spec(&it.field), ..it }).collect()
}
