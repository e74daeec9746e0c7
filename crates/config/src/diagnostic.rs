//! Errors and warnings of a config, with location and allowed values.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use tunesmith_api::ai_platform::Severity;
use tunesmith_domain::with_omitted;

/// Maximum number of findings shown per file.
pub const MAX_FINDINGS: usize = 100;

/// Maximum stored length of a line in bytes. Bounds the errors of a config that is one long line.
const MAX_EXCERPT: usize = 1000;

/// Maximum length of text beside a caret, in bytes; longer text gets its own line.
const MAX_LABEL: usize = 80;

pub(super) struct Source<'a> {
    name: &'a str,
    text: &'a str,
    /// Byte index of each line start; never empty.
    line_starts: Vec<usize>,
}

impl<'a> Source<'a> {
    pub(super) fn new(name: &'a str, text: &'a str) -> Self {
        let line_starts = [0].into_iter().chain(text.match_indices('\n').map(|(index, _)| index + 1)).collect();
        Self { name, text, line_starts }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    /// Path of the field; empty for the whole text.
    pub(super) field: String,
    pub(super) span: Range<usize>,
    pub(super) message: String,
    pub(super) allowed: String,
    pub(super) help: Option<String>,
    /// Whether `field` is a command-line flag rather than a span of the text.
    pub(super) is_flag: bool,
}

impl Finding {
    pub(super) fn error(
        field: impl Into<String>,
        span: Range<usize>,
        message: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        let (field, message, allowed) = (field.into(), message.into(), allowed.into());
        Self { severity: Severity::Error, field, span, message, allowed, help: None, is_flag: false }
    }
}

/// Error or warning of a config with its location. Displays as lines without a final line break.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnostic {
    pub severity: Severity,
    /// File name, as passed by the caller.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Path of the field; empty for the whole file.
    pub field: String,
    pub message: String,
    pub allowed: String,
    pub help: Option<String>,
    excerpt: Option<Excerpt>,
}

/// Line of a diagnostic with its marked bytes.
#[derive(Debug, Clone, PartialEq)]
struct Excerpt {
    line: String,
    is_whole_line: bool,
    marked: Range<usize>,
}

impl Diagnostic {
    pub(super) fn new(source: &Source<'_>, finding: Finding) -> Self {
        if finding.is_flag {
            return Self::without_place("", finding);
        }
        let text = source.text;
        let start = floor_char_boundary(text, finding.span.start);
        let line_number = source.line_starts.partition_point(|line_start| *line_start <= start).max(1);
        let line_start = source.line_starts[line_number - 1];
        let line = text[line_start..].lines().next().unwrap_or_default();
        let start_in_line = (start - line_start).min(line.len());
        let end_in_line = floor_char_boundary(line, finding.span.end.saturating_sub(line_start)).max(start_in_line);
        // Collections may span several lines; only the first is marked, without trailing blanks.
        let end_in_line = start_in_line + line[start_in_line..end_in_line].trim_end().len();
        Self {
            severity: finding.severity,
            file: source.name.to_owned(),
            line: line_number,
            column: line[..start_in_line].chars().count() + 1,
            field: finding.field,
            message: finding.message,
            allowed: finding.allowed,
            help: finding.help,
            excerpt: Some(Excerpt::new(line, start_in_line..end_in_line)),
        }
    }

    /// Diagnostic without a location in `file`.
    fn without_place(file: &str, finding: Finding) -> Self {
        let Finding { severity, field, message, allowed, help, .. } = finding;
        Self { severity, file: file.to_owned(), line: 1, column: 1, field, message, allowed, help, excerpt: None }
    }
}

/// Diagnostics of `findings` in text order: the first [`MAX_FINDINGS`], errors before warnings. The last one counts the
/// omitted ones.
pub(super) fn diagnostics(source: &Source<'_>, mut findings: Vec<Finding>) -> Vec<Diagnostic> {
    findings.sort_by_key(|finding| (finding.severity == Severity::Warning, finding.span.start));
    let omitted = findings.len().saturating_sub(MAX_FINDINGS);
    findings.truncate(MAX_FINDINGS);
    findings.sort_by_key(|finding| finding.span.start);
    if let Some(last) = findings.last_mut().filter(|_| omitted > 0) {
        last.message = with_omitted(&last.message, omitted, "errors and warnings");
    }
    findings.into_iter().map(|finding| Diagnostic::new(source, finding)).collect()
}

impl Excerpt {
    /// Excerpt of `line` around the start of `marked`.
    fn new(line: &str, marked: Range<usize>) -> Self {
        if line.len() <= MAX_EXCERPT {
            return Self { line: line.to_owned(), is_whole_line: true, marked };
        }
        let from = floor_char_boundary(line, marked.start.saturating_sub(MAX_EXCERPT / 2));
        let to = floor_char_boundary(line, from + MAX_EXCERPT);
        let marked = marked.start - from..marked.end.min(to).max(marked.start) - from;
        Self { line: line[from..to].to_owned(), is_whole_line: false, marked }
    }
}

fn floor_char_boundary(text: &str, index: usize) -> usize {
    (0..=index.min(text.len())).rev().find(|index| text.is_char_boundary(*index)).unwrap_or(0)
}

impl Diagnostic {
    /// Whether the config is invalid; otherwise this is a warning.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let title =
            if self.field.is_empty() { self.message.clone() } else { format!("{}: {}", self.field, self.message) };
        let Some(excerpt) = &self.excerpt else {
            let severity = if self.severity == Severity::Error { "error" } else { "warning" };
            if !self.file.is_empty() {
                return write!(f, "{severity}: {} {title}", self.file);
            }
            write!(f, "{severity}: {title}")?;
            if !self.allowed.is_empty() {
                write!(f, "; allowed: {}", self.allowed)?;
            }
            return self.help.as_ref().map_or(Ok(()), |help| write!(f, "; {help}"));
        };
        let mut end = excerpt.marked.end;
        if end == excerpt.marked.start {
            // An empty span, such as the end of a line, is marked by one caret.
            end += excerpt.line[end..].chars().next().map_or(0, char::len_utf8);
        }
        let mut annotation = AnnotationKind::Primary.span(excerpt.marked.start..end);
        if self.allowed.len() <= MAX_LABEL {
            annotation = annotation.label(&self.allowed);
        }
        let mut snippet = Snippet::source(&excerpt.line).line_start(self.line).fold(false).annotation(annotation);
        let title = level.primary_title(title);
        let mut group: Group<'_> = if excerpt.is_whole_line {
            snippet = snippet.path(&self.file);
            title.element(snippet)
        } else {
            // The excerpt may start within the line.
            title.element(Origin::path(&self.file).line(self.line).char_column(self.column)).element(snippet)
        };
        if self.allowed.len() > MAX_LABEL {
            group = group.element(Level::NOTE.message(format!("allowed: {}", self.allowed)));
        }
        if let Some(help) = &self.help {
            group = group.element(Level::HELP.message(help));
        }
        f.write_str(Renderer::plain().render(&[group]).trim_end())
    }
}

/// All errors and warnings of a config, in text order.
///
/// Displays as one block of lines per diagnostic and a final line with the number of errors.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub struct ConfigErrors {
    file: String,
    diagnostics: Vec<Diagnostic>,
    /// Number of errors, including omitted ones.
    errors: usize,
}

impl ConfigErrors {
    pub(super) fn new(source: &Source<'_>, findings: Vec<Finding>) -> Self {
        let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
        Self { file: source.name.to_owned(), diagnostics: diagnostics(source, findings), errors }
    }

    pub(super) fn unreadable(file: &str, message: &str) -> Self {
        let diagnostic = Diagnostic::without_place(file, Finding::error("", 0..0, message, "a readable file"));
        Self { file: file.to_owned(), diagnostics: vec![diagnostic], errors: 1 }
    }

    /// First errors and warnings, at most [`MAX_FINDINGS`]; at least one error.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for diagnostic in &self.diagnostics {
            write!(f, "{diagnostic}\n\n")?;
        }
        let errors = self.errors;
        write!(f, "{errors} error{} in {}", if errors == 1 { "" } else { "s" }, self.file)
    }
}
