//! Generated messages, and their descriptors.

use std::sync::LazyLock;

use prost_reflect::DescriptorPool;

#[expect(clippy::doc_markdown, unreachable_pub, reason = "generated")]
mod packages {
    include!(concat!(env!("OUT_DIR"), "/packages.rs"));
}

pub use packages::google::cloud::aiplatform::v1 as vertex;
pub use packages::google::cloud::location;
pub use packages::google::{longrunning, rpc};
pub use packages::vizier as oss;

/// Descriptors of all messages and services.
pub static DESCRIPTORS: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let bytes: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
    DescriptorPool::decode(bytes).unwrap_or_default()
});
