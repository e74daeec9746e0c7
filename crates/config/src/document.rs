//! Files in the formats of Vertex AI, which are read elsewhere, with the places of their fields.

use std::ops::Range;
use std::path::Path;

use serde_json::Value;

use super::diagnostic::{ConfigErrors, Diagnostic, Finding, Source, diagnostics};
use super::foreign::Keys;
use super::yaml::{Content, Node};
use super::{free_form, read_file, yaml};
use tunesmith_api::ai_platform::Severity;

/// Format of a file that describes a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobFormat {
    /// `HyperparameterTuningJob`, as the file of `gcloud ai hp-tuning-jobs create`.
    TuningJob,
    /// `CustomJob`.
    CustomJob,
    /// `CustomJobSpec`, as the file of `gcloud ai custom-jobs create`.
    CustomJobSpec,
}

/// A file in a format of Vertex AI.
#[derive(Debug)]
pub struct JobDocument {
    pub format: JobFormat,
    name: String,
    text: String,
    tree: Node,
}

impl JobDocument {
    /// Reads the file at `path`; `None` if it is not in a format of Vertex AI, or cannot be read.
    pub fn load(path: &Path) -> Option<Self> {
        Self::parse(&path.display().to_string(), read_file(path).ok()?)
    }

    /// As [`Self::load`], for `text`, to which messages refer as `name`.
    pub fn parse(name: &str, text: String) -> Option<Self> {
        let (tree, findings) = yaml::compose(text.strip_prefix('\u{feff}').unwrap_or(&text));
        let tree = tree.filter(|_| findings.is_empty())?;
        let Content::Mapping(entries) = &tree.content else { return None };
        let format = Keys(entries).job_format()?;
        Some(Self { format, name: name.to_owned(), text, tree })
    }

    /// The file as JSON.
    pub fn value(&self) -> Value {
        free_form::value(&self.tree)
    }

    /// Errors about fields, each a path such as `studySpec.parameters[0]` and a text, `MESSAGE; allowed: WHAT`.
    pub fn errors(&self, faults: impl IntoIterator<Item = (String, String)>) -> ConfigErrors {
        ConfigErrors::new(&self.source(), self.findings(faults, Severity::Error))
    }

    /// Warnings about fields, as [`Self::errors`].
    pub fn warnings(&self, faults: impl IntoIterator<Item = (String, String)>) -> Vec<Diagnostic> {
        diagnostics(&self.source(), self.findings(faults, Severity::Warning))
    }

    fn source(&self) -> Source<'_> {
        Source::new(&self.name, &self.text)
    }

    fn findings(&self, faults: impl IntoIterator<Item = (String, String)>, severity: Severity) -> Vec<Finding> {
        let finding = |(field, text): (String, String)| {
            let span = span(&self.tree, &field);
            let (message, allowed) = text.split_once("; allowed: ").unwrap_or((&text, ""));
            Finding { severity, ..Finding::error(field, span, message, allowed) }
        };
        faults.into_iter().map(finding).collect()
    }
}

/// Place of the field at `path`, or of the nearest field around it.
fn span(tree: &Node, path: &str) -> Range<usize> {
    let (mut node, mut span) = (tree, tree.span.start..tree.span.start);
    for part in path.split(['.', '[']) {
        let found = match (&node.content, part.strip_suffix(']')) {
            (Content::List(items), Some(index)) => {
                index.parse().ok().and_then(|index: usize| items.get(index)).map(|item| (item, item.span.clone()))
            }
            (Content::Mapping(entries), None) => {
                let entry = Keys(entries).find(&[part]);
                entry.map(|entry| (&entry.value, entry.key_span.clone()))
            }
            _ => None,
        };
        let Some((inner, of_inner)) = found else { break };
        // A scalar is what is wrong; of a collection, its key.
        span = if matches!(inner.content, Content::Scalar { .. }) { inner.span.clone() } else { of_inner };
        node = inner;
    }
    span
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_their_keys_and_faults_have_places() {
        let text = "display_name: d\nstudySpec:\n  metrics:\n  - metricId: a b\n    goal: MINIMIZE\ntrialJobSpec: {}\n";
        let document = JobDocument::parse("job.yaml", text.to_owned()).unwrap();
        assert_eq!(document.format, JobFormat::TuningJob);
        assert_eq!(document.value()["studySpec"]["metrics"][0]["metricId"], "a b");
        let faults =
            [("studySpec.metrics[0].metricId", "has a blank; allowed: none"), ("trialJobSpec.x", "is missing")];
        let errors = document.errors(faults.map(|(path, text)| (path.to_owned(), text.to_owned())));
        let places: Vec<_> = errors.diagnostics().iter().map(|it| (it.line, it.column, it.allowed.as_str())).collect();
        assert_eq!(places, [(4, 15, "none"), (6, 1, "")]);
        let format = |text: &str| JobDocument::parse("f", text.to_owned()).map(|document| document.format);
        assert_eq!(format("workerPoolSpecs: []"), Some(JobFormat::CustomJobSpec));
        assert_eq!(format("worker_pool_specs: []\nscheduling: {}"), Some(JobFormat::CustomJobSpec));
        assert_eq!(format("{\"displayName\": \"d\", \"jobSpec\": {}}"), Some(JobFormat::CustomJob));
        for other in
            ["hyperparameters: {}", "trainingInput: {studySpec: {}}", "[1]", "a: [", "studySpec: 1\nstudySpec: 2"]
        {
            assert_eq!(format(other), None, "{other}");
        }
    }
}
