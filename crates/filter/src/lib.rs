#![doc = include_str!("../README.md")]

mod check;
mod expression;
mod parser;
mod relative_time;
mod restriction;
mod test;

pub use check::{Condition, Fields, Kind};
pub use expression::Expression;
pub use restriction::{Comparison, Field, Filter, Restriction, Value};
pub use test::{Pattern, Test};

/// Error of parsing a filter, or of compiling it for a resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {message}")]
pub struct FilterError {
    /// Character position of the error, from 1.
    pub column: usize,
    pub message: String,
}
