//! Report rendering: HTML, Markdown, terminal. Pure functions from data to text.

mod format;
mod html;
mod markdown;
mod tables;
mod terminal;

#[cfg(test)]
#[path = "tests/synthetic_fixture.rs"]
mod synthetic_fixture;
#[cfg(test)]
mod tests;

pub use html::html;
pub use markdown::{change_markdown, markdown};
pub use terminal::{Draw, change_terminal, terminal};

/// Context of a report beside its numbers, for reproducing it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportMeta {
    pub title: String,
    /// Commands that produced the runs and the report, in order.
    pub commands: Vec<String>,
    /// Programs and packages with their versions.
    pub versions: Vec<(String, String)>,
    /// Processor, memory, operating system.
    pub machine: Vec<(String, String)>,
    /// Remarks, one paragraph each.
    pub notes: Vec<String>,
}
