//! Methods of all dialects, and their OpenAPI document at `/openapi.json`.

use std::sync::OnceLock;

use serde_json::Value;

use super::{health, ml, programs};
use crate::openapi::{self, Operation};

pub(crate) fn served() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(document)
}

/// OpenAPI document of the server, published as `schemas/openapi.json`.
pub fn document() -> Value {
    openapi::document(&operations())
}

fn operations() -> Vec<Operation> {
    let programs = programs::routes().operations().chain(programs::workers::routes().operations());
    health::routes().operations().chain(ml::routes().operations()).chain(programs).collect()
}

#[cfg(test)]
mod tests {
    use axum::http::Method;
    use tunesmith_admission::RequiredAccess;
    use tunesmith_admission::use_cases::{self, Resource, UseCase};

    use super::operations;
    use crate::request::names::parameter_names;

    fn listed(is_listed: impl Fn(&UseCase) -> bool) -> Vec<&'static str> {
        use_cases::ALL.iter().filter(|use_case| is_listed(use_case)).map(|use_case| use_case.name()).collect()
    }

    #[test]
    fn every_use_case_is_a_method() {
        let operations = operations();
        let offered = |use_case: &UseCase| operations.iter().filter(|method| method.use_case == *use_case).count();
        assert_eq!(listed(|use_case| offered(use_case) != 1), [""; 0]);
        assert_eq!(operations.len(), use_cases::ALL.len());
    }

    #[test]
    fn methods_name_the_resource_of_their_use_case_and_get_changes_nothing() {
        for operation in operations() {
            let (path, use_case) = (operation.path, operation.use_case);
            let names: Vec<&str> = parameter_names(path).collect();
            let expected: &[&str] = match use_case.resource() {
                Resource::Server => &[],
                Resource::Project => &["project"],
                Resource::Location => &["project", "location"],
                Resource::Job => &["project", "job"],
                Resource::Run => &["project", "job", "run"],
                Resource::Package => &["project", "sha256", "file_name"],
                Resource::Operation => &["project", "operation"],
                Resource::Study => &["project", "study"],
                Resource::Trial => &["project", "study", "trial"],
                // A model, or one of its versions.
                Resource::Model => &["project", "model"],
            };
            assert!(expected.iter().all(|name| names.contains(name)), "{path}");
            assert_eq!(names.contains(&"project"), use_case.resource() != Resource::Server, "{path}");
            assert!(operation.method != Method::GET || !use_case.changes(), "{path}");
        }
    }

    #[test]
    fn only_listed_methods_need_no_permission() {
        let expected = [
            "openapi",
            "healthz",
            "readyz",
            "metrics",
            "ml.projects.jobs.testIamPermissions",
            "tunesmith.jobs.trials.get",
            "tunesmith.jobs.trials.addMeasurement",
            "tunesmith.jobs.runs.sync",
            "tunesmith.jobs.runs.packages.get",
            "tunesmith.projects.models.workers.exchange",
            "tunesmith.projects.models.workers.files.get",
            "ml.projects.models.testIamPermissions",
        ];
        assert_eq!(listed(|use_case| !matches!(use_case.access(), RequiredAccess::Of(_))), expected);
    }

    #[test]
    fn only_trial_programs_and_open_methods_need_no_token() {
        assert_eq!(
            listed(|use_case| use_case.access() == RequiredAccess::Open),
            ["openapi", "healthz", "readyz", "metrics"]
        );
        let of_programs = [
            "tunesmith.jobs.trials.get",
            "tunesmith.jobs.trials.addMeasurement",
            "tunesmith.jobs.runs.sync",
            "tunesmith.jobs.runs.packages.get",
            "tunesmith.projects.models.workers.exchange",
            "tunesmith.projects.models.workers.files.get",
        ];
        assert_eq!(listed(|use_case| use_case.access() == RequiredAccess::TrialToken), of_programs);
    }
}
