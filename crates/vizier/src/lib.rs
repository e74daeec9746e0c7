#![doc = include_str!("../README.md")]

pub mod json;
mod measurement;
pub mod messages;
pub mod names;
pub mod oss;
mod time;
mod version;
pub mod vertex;

pub use measurement::{measurement, message_of_measurement};
pub use time::{duration, std_duration, timestamp};
pub use version::Version;
