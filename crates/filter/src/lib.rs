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

/// Why a text is not a filter, or not a filter of a resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {message}")]
pub struct FilterError {
    /// Number of the character at which the fault was found, from 1.
    pub column: usize,
    /// What was found, and what is allowed.
    pub message: String,
}
