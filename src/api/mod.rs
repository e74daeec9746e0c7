//! Wire formats, and their mapping to use cases.

pub mod ai_platform;
pub mod rest;
