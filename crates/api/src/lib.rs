//! Wire formats and their mapping to the domain: AI Platform's `ml v1`.
//!
//! HTTP routes are not here; see the crate `tunesmith-http`.

pub mod ai_platform;
