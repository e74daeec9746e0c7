#![doc = include_str!("../README.md")]

mod address;
mod bucket;
#[cfg(feature = "clouds")]
mod clouds;
mod download;
mod error;
mod event_mirror;
mod files;
mod folder;

pub use address::ObjectAddress;
pub use bucket::{Buckets, Cloud, bucket};
pub use error::ObjectError;
pub use event_mirror::{EventMirror, MAX_MIRROR_BYTES};
pub use files::ObjectFile;
pub use folder::ObjectFolder;
