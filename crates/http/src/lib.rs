#![doc = include_str!("../README.md")]

mod openapi;
mod request;
mod response;
mod routes;
pub mod server;

pub use request::web_pages::{AllowedHosts, BadHostName, HostName};
pub use routes::document::document;
pub use routes::programs::agent_relay::answer_other_servers;
