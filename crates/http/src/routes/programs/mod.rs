//! Methods for job programs and their agents, which have tokens of their own.

pub(crate) mod agent_relay;
pub(crate) mod agents;
pub(crate) mod trial_reports;
pub(crate) mod workers;

use super::state::Programs;
use super::table::{Dialect, Routes};

pub(crate) fn routes() -> Routes<Programs> {
    agents::routes(trial_reports::routes(Routes::new(Dialect::MlV1)))
}
