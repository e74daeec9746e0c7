//! Contract kit of [`Designer`](crate::designer::Designer): its checks, and spaces and histories for them.
//!
//! A module of the crate's unit tests, `crate::testing`. Its functions panic with a message that names the violation.

mod contract;
mod history;
mod problems;

pub(crate) use contract::designer_contract;
pub(crate) use problems::every_kind_and_scale;
