//! The table of all methods of the server, and their OpenAPI document at `/openapi.json`.

use std::sync::{Arc, OnceLock};

use axum::{Json, Router};
use serde_json::Value;

use super::openapi::{self, Operation};
use super::routes::{Dispatch, Routes};
use super::{
    agents, health, job_artifacts, job_logs, job_trials, jobs, packages, projects, studies_api, trial_reports,
};

/// The route of the document itself.
fn routes() -> Routes<()> {
    let operation = Operation::get("/openapi.json", "openapi", "Gets this document.").open();
    Routes::new().add(operation, async || Json(served().clone()))
}

/// `/openapi.json`.
pub(super) fn router(dispatch: &Arc<Dispatch>) -> Router {
    routes().with_state((), dispatch)
}

fn served() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(document)
}

/// The OpenAPI document of the server, as published in `schemas/openapi.json`.
pub fn document() -> Value {
    openapi::document(&operations())
}

/// All methods of the server.
fn operations() -> Vec<Operation> {
    routes()
        .operations()
        .chain(health::routes().operations())
        .chain(jobs::routes().operations())
        .chain(job_artifacts::routes().operations())
        .chain(job_logs::routes().operations())
        .chain(job_trials::routes().operations())
        .chain(studies_api::routes().operations())
        .chain(packages::routes().operations())
        .chain(projects::routes().operations())
        .chain(trial_reports::routes().operations())
        .chain(agents::routes().operations())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openapi::RequiredAccess;

    #[test]
    fn only_listed_methods_need_no_permission() {
        let without_permission: Vec<&str> = operations()
            .iter()
            .filter(|operation| !matches!(operation.access, RequiredAccess::Permission(_)))
            .map(|operation| operation.id)
            .collect();
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
        ];
        assert_eq!(without_permission, expected);
    }

    #[test]
    fn only_trial_programs_and_open_methods_need_no_token() {
        for operation in operations() {
            let expected = match operation.id {
                "openapi" | "healthz" | "readyz" | "metrics" => RequiredAccess::None,
                "tunesmith.jobs.trials.get"
                | "tunesmith.jobs.trials.addMeasurement"
                | "tunesmith.jobs.runs.sync"
                | "tunesmith.jobs.runs.packages.get" => RequiredAccess::TrialToken,
                "ml.projects.jobs.testIamPermissions" => RequiredAccess::Token,
                _ => continue,
            };
            assert_eq!(operation.access, expected, "{}", operation.id);
        }
    }
}
