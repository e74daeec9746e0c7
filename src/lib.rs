//! The `tunesmith` program: command line, and composition of the application from its crates.
//!
//! `docs/architecture.md` describes the crates and their dependency direction.

mod allocator;
pub mod cli;
mod composition;
mod copied;
mod devices;
mod disk;
mod engine_settings;
mod executors;
mod in_process;
mod memory;
mod pages;
mod secret_file;
mod server_settings;
#[cfg(feature = "postgres")]
mod shared_tokens;
mod sharing;
mod single_sign_on;
mod tracking;
#[cfg(feature = "vizier")]
mod vertex_file;
mod webhooks;
