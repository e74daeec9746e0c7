//! The routes of studies, trials and operations.

use std::sync::Arc;

use axum::Router;

use super::routes::{Dispatch, Routes};
use super::state::StudiesState;
use super::{operations, studies, trials, views};
use tunesmith_service::clock::Clock;
use tunesmith_service::studies::Studies;

/// The routes.
pub(super) fn routes() -> Routes<StudiesState> {
    studies::routes(views::routes(operations::routes(trials::routes(Routes::new()))))
}

/// The router of studies.
pub(super) fn router(studies: Arc<Studies>, clock: Arc<dyn Clock>, dispatch: &Arc<Dispatch>) -> Router {
    routes().with_state(StudiesState { studies, clock }, dispatch)
}
