#![doc = include_str!("../README.md")]

mod error;
mod id_token;
mod login;
mod provider;
mod settings;
mod signature;

pub use error::LoginError;
pub use login::{Callback, PendingLogin};
pub use provider::Provider;
pub use settings::{DEFAULT_GROUPS_CLAIM, DEFAULT_PRINCIPAL_CLAIM, Settings};
