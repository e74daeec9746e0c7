//! AI Platform's `ml v1` and Tunesmith's extensions.

mod batch_prediction;
mod job_artifacts;
mod job_iam;
mod job_logs;
mod job_reopen;
mod job_trials;
mod jobs;
mod model_iam;
mod model_messages;
mod models;
mod operations;
mod packages;
mod predict;
mod projects;
mod studies;
mod tokens;
mod trial_list;
mod trial_messages;
mod trials;
mod version_of_job;
mod version_requests;
mod versions;
mod views;

use std::sync::Arc;

use super::state::Api;
use super::table::{Dialect, Routes};

pub(crate) fn routes() -> Routes<Arc<Api>> {
    let modules = [
        jobs::routes,
        job_reopen::routes,
        job_iam::routes,
        job_artifacts::routes,
        job_logs::routes,
        job_trials::routes,
        studies::routes,
        views::routes,
        operations::routes,
        trials::routes,
        packages::routes,
        models::routes,
        model_iam::routes,
        versions::routes,
        predict::routes,
        tokens::routes,
        projects::routes,
    ];
    modules.into_iter().fold(Routes::new(Dialect::MlV1), |routes, add| add(routes))
}
