#![doc = include_str!("../README.md")]

mod checks;
mod distribution;
mod json;
mod leases;
mod limits;
mod server;
mod service;
mod storage;
#[expect(clippy::allow_attributes_without_reason, unreachable_pub, reason = "generated")]
mod wire {
    tonic::include_proto!("optuna");
}

pub use server::{Clock, OptunaServer};
pub use storage::{Storage, StorageError};
