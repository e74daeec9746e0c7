#![doc = include_str!("../README.md")]
#![expect(clippy::unwrap_used, reason = "a check reports a violation by a panic")]

pub mod executor;
pub mod samples;
pub mod store;

pub use store::CountingStore;
