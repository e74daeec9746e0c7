//! Renders comparisons for people: a page, Markdown, the terminal. Functions from data to text; nothing is computed or
//! written here.

mod format;
mod html;
mod markdown;
mod tables;
mod terminal;

#[cfg(test)]
mod synthetic_fixture;
#[cfg(test)]
mod tests;

pub use html::html;
pub use markdown::{change_markdown, markdown};
pub use terminal::{Draw, change_terminal, terminal};

/// The texts of a report beside its numbers, which allow others to reproduce it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportMeta {
    /// The heading.
    pub title: String,
    /// The commands that made the runs and the report, in their order.
    pub commands: Vec<String>,
    /// Programs and packages with their versions.
    pub versions: Vec<(String, String)>,
    /// The machine: processor, memory, operating system.
    pub machine: Vec<(String, String)>,
    /// Remarks, a paragraph each.
    pub notes: Vec<String>,
}
