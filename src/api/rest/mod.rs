//! HTTP routes: wire types, mapping and status codes, nothing else.

pub mod status;
pub mod trial_reports;
