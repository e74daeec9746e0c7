#![doc = include_str!("../README.md")]

mod completion;
mod conversion;
mod describe;
mod diagnostic;
mod document;
mod edit;
mod foreign;
mod free_form;
mod hints;
pub mod proposal;
mod schema;
mod server;
mod shape;
mod stopping;
mod study;
mod yaml;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

pub use completion::Completion;
pub use describe::describe;
pub use diagnostic::{ConfigErrors, Diagnostic, MAX_FINDINGS};
pub use document::{Document, JobFormat};
pub use edit::{Edit, EditError, Plain, Step, edit, outline};
pub use hints::hints;
pub use schema::json_schema;
pub use server::{
    AuditFiles, Capacity, Devices, EXECUTORS, ExecutorConfig, KnownExecutor, KubernetesConfig, LOCAL, Limits,
    NamedExecutor, OpenIdConnect, RayConfig, Retention, ServerConfig, SlurmConfig, WebhookConfig, Words, load_server,
    parse_server, server_json_schema,
};
pub use study::{StudyDraft, parse_study, study_json_schema};

use conversion::{Conversion, Locations};
use diagnostic::{Finding, Source};
use schema::ConfigFile;
use tunesmith_api::ai_platform::{self, Severity, TrainingInput, TuningSpec};
use tunesmith_domain::JobId;

/// Maximum size of a config in bytes. Sufficient for 1000 discrete values in each of many parameters.
const MAX_SIZE_BYTES: u64 = 4 << 20;

#[derive(Debug, Clone, PartialEq)]
pub struct HptuningConfig {
    pub training_input: TrainingInput,
    /// Study from `training_input.hyperparameters`; `None` for a job without tuning, and for one that inherits its
    /// parameters from the job it continues.
    pub study: Option<TuningSpec>,
    /// Job ID beside `trainingInput`, if given.
    pub job_id: Option<JobId>,
    /// Job labels beside `trainingInput`.
    pub labels: BTreeMap<String, String>,
    /// Warnings about accepted fields that are probably mistakes, in text order.
    pub warnings: Vec<Diagnostic>,
    /// Paths of fields without effect in a local run.
    pub without_effect: Vec<String>,
}

/// Reads the config at `path`.
///
/// # Errors
/// [`ConfigErrors`] with all errors: the file cannot be read, is not YAML or JSON, or violates rules.
pub fn load(path: &Path) -> Result<HptuningConfig, ConfigErrors> {
    load_completed(path, &Completion::default())
}

/// Reads the config at `path` and adds fields from `completion`.
pub fn load_completed(path: &Path, completion: &Completion) -> Result<HptuningConfig, ConfigErrors> {
    parse_completed(&path.display().to_string(), &read_file(path)?, completion)
}

fn read_file(path: &Path) -> Result<String, ConfigErrors> {
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_SIZE_BYTES + 1).read_to_end(&mut bytes));
    if let Err(error) = read {
        return Err(ConfigErrors::unreadable(&name, &format!("cannot be read: {error}")));
    }
    if bytes.len() as u64 > MAX_SIZE_BYTES {
        return Err(ConfigErrors::unreadable(&name, "is larger than 4 MiB"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let start = error.utf8_error().valid_up_to();
        let byte = error.as_bytes()[start];
        let text = String::from_utf8_lossy(error.as_bytes());
        let finding = Finding::error("", start..start + 1, format!("byte 0x{byte:02x} is not UTF-8"), "UTF-8 text");
        ConfigErrors::new(&Source::new(&name, &text), vec![finding])
    })
}

/// Parses a config. Messages refer to the file as `name`.
///
/// # Errors
/// [`ConfigErrors`] with all errors.
pub fn parse(name: &str, text: &str) -> Result<HptuningConfig, ConfigErrors> {
    parse_completed(name, text, &Completion::default())
}

/// Parses a config and adds fields from `completion`. Messages refer to the file as `name`, or to a flag.
///
/// # Errors
/// [`ConfigErrors`] with all errors.
pub fn parse_completed(name: &str, text: &str, completion: &Completion) -> Result<HptuningConfig, ConfigErrors> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let source = Source::new(name, text);
    let (tree, mut findings) = yaml::compose(text);
    let Some(tree) = tree else {
        return Err(ConfigErrors::new(&source, findings));
    };
    if let Some(foreign) = foreign::foreign_format(&tree) {
        return Err(ConfigErrors::new(&source, vec![foreign]));
    }
    let wrapped = tree.has_key("trainingInput");
    let (mut value, locations) = Conversion::new(&mut findings, wrapped).file(&tree);
    completion.apply(if wrapped { &mut value["trainingInput"] } else { &mut value }, &mut findings);
    let mut config = match ConfigFile::from_value(value, wrapped) {
        Ok(config) => config,
        Err(error) => {
            // Cannot fail after conversion; if it does, report serde's message.
            findings.push(Finding::error("", tree.span.clone(), error.to_string(), "a training input"));
            return Err(ConfigErrors::new(&source, findings));
        }
    };
    let prefix = if wrapped { "trainingInput." } else { "" };
    let of_input = ai_platform::check(&config.training_input).into_iter().map(|violation| (prefix, violation));
    let of_labels = ai_platform::check_labels(&config.labels).into_iter().map(|violation| ("", violation));
    for (prefix, violation) in of_input.chain(of_labels) {
        if !locations.is_broken(&format!("{prefix}{}", violation.field)) {
            findings.push(completion.finding(violation, prefix, &locations));
        }
    }
    let job_id = job_id(&config.job_id, &locations, &mut findings);
    let mut study = None;
    if findings.iter().all(|finding| finding.severity == Severity::Warning)
        && let Some(spec) = &config.training_input.hyperparameters
        && !ai_platform::inherits_parameters(spec)
    {
        match ai_platform::study_spec(spec, &config.training_input.tunesmith) {
            Ok(spec) => study = Some(spec),
            Err(error) => {
                let field = format!("{prefix}hyperparameters");
                let span = locations.span(&field);
                findings.push(Finding::error(field, span, error.to_string(), "a search space"));
            }
        }
    }
    if findings.iter().any(|finding| finding.severity == Severity::Error) {
        return Err(ConfigErrors::new(&source, findings));
    }
    Ok(HptuningConfig {
        without_effect: ai_platform::without_effect_in_a_local_run(&config.training_input),
        study,
        job_id,
        labels: std::mem::take(&mut config.labels),
        warnings: diagnostic::diagnostics(&source, findings),
        training_input: config.training_input,
    })
}

fn job_id(text: &str, locations: &Locations, findings: &mut Vec<Finding>) -> Option<JobId> {
    if text.is_empty() {
        return None;
    }
    match text.parse() {
        Ok(id) => Some(id),
        Err(error) => {
            let error: tunesmith_domain::IdError = error;
            findings.push(Finding::error(
                "jobId",
                locations.span("jobId"),
                error.to_string(),
                "letters, digits and underscores, starting with a letter, at most 128",
            ));
            None
        }
    }
}
