//! The routes of studies, trials and operations.

use std::sync::Arc;

use axum::Router;

use super::operations::Operations;
use super::routes::Routes;
use super::{operations, studies, trials};
use tunesmith_service::clock::Clock;
use tunesmith_service::optimizer::Optimizer;

/// What the handlers need.
#[derive(Clone)]
pub(super) struct Api {
    pub(super) optimizer: Arc<Optimizer>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) operations: Arc<Operations>,
}

/// The routes.
pub(super) fn routes() -> Routes<Api> {
    studies::routes(operations::routes(trials::routes(Routes::new())))
}

/// The routes, answered by `optimizer`.
pub fn router(optimizer: Arc<Optimizer>, clock: Arc<dyn Clock>) -> Router {
    routes().with_state(Api { optimizer, clock, operations: Arc::default() })
}
