//! The routes of studies, trials and operations.

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use super::operations::Operations;
use super::{operations, studies, trials};
use crate::clock::Clock;
use crate::service::optimizer::Optimizer;

/// What the handlers need.
#[derive(Clone)]
pub(super) struct Api {
    pub(super) optimizer: Arc<Optimizer>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) operations: Arc<Operations>,
}

/// The routes, answered by `optimizer`.
pub fn router(optimizer: Arc<Optimizer>, clock: Arc<dyn Clock>) -> Router {
    let api = Api { optimizer, clock, operations: Arc::default() };
    let location = "/v1/projects/{project}/locations/{location}";
    let study = format!("{location}/studies/{{study}}");
    Router::new()
        .route("/v1/projects/{project}/locations", get(studies::list_locations))
        .route(location, get(studies::get_location))
        .route(&format!("{location}/studies"), get(studies::list).post(studies::create))
        .route(&study, get(studies::get).delete(studies::delete))
        .route(&format!("{study}/trials"), get(trials::list).post(trials::create))
        // `trials:suggest` and `trials:listOptimalTrials` are one segment.
        .route(&format!("{study}/{{method}}"), post(trials::study_method))
        // The last segment is `7` or `7:complete`.
        .route(&format!("{study}/trials/{{trial}}"), get(trials::get).delete(trials::delete).post(trials::trial_method))
        .route(&format!("{location}/operations/{{operation}}"), get(operations::get).post(operations::operation_method))
        .with_state(api)
}
