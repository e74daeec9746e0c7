//! The `tunesmith` program: the command line, and the composition of the application from its crates.
//!
//! The crates and the direction of their dependencies are described in `docs/architecture.md`.

mod allocator;
pub mod cli;
mod composition;
mod copied;
mod devices;
mod engine_settings;
mod executors;
mod memory;
mod pages;
mod server_settings;
#[cfg(feature = "postgres")]
mod shared_tokens;
mod sharing;
