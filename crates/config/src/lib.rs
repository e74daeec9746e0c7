//! `hptuning_config.yaml`: AI Platform's `trainingInput`, in YAML or JSON, bare or under its key.
//!
//! A file is read in three steps, and the findings of all three are reported together, in the order of the text:
//! `yaml` makes a tree that knows its places, `walk` compares it with the published shape, and
//! [`tunesmith_api::ai_platform::check`] applies the rules. Not here: what the command line adds or overrides.

mod describe;
mod diagnostic;
mod schema;
mod shape;
mod walk;
mod yaml;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

pub use describe::describe;
pub use diagnostic::{ConfigErrors, Diagnostic};
pub use schema::json_schema;

use diagnostic::{Finding, Source};
use schema::ConfigFile;
use tunesmith_api::ai_platform::{self, Severity, TrainingInput, TuningSpec};
use tunesmith_domain::JobId;
use walk::{Places, Walk};

/// Largest config that is read. Far above what 1000 discrete values in each of many parameters need.
const MAX_SIZE_BYTES: u64 = 4 << 20;

/// A config that follows every rule.
#[derive(Debug, Clone, PartialEq)]
pub struct HptuningConfig {
    /// What the job runs and tunes.
    pub training_input: TrainingInput,
    /// The study that `training_input.hyperparameters` asks for; `None` for a job that tunes nothing.
    pub study: Option<TuningSpec>,
    /// The job's ID, if the file gives one beside `trainingInput`.
    pub job_id: Option<JobId>,
    /// The job's labels, if the file gives some beside `trainingInput`.
    pub labels: BTreeMap<String, String>,
    /// What is accepted, but probably not what was meant; in the order of the text.
    pub warnings: Vec<Diagnostic>,
    /// Paths of the fields that are kept but have no effect in a local run.
    pub without_effect: Vec<String>,
}

/// Reads the config in the file at `path`.
///
/// # Errors
/// [`ConfigErrors`] with everything that is wrong: the file cannot be read, is not YAML or JSON, or breaks rules.
pub fn load(path: &Path) -> Result<HptuningConfig, ConfigErrors> {
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_SIZE_BYTES + 1).read_to_end(&mut bytes));
    if let Err(error) = read {
        return Err(ConfigErrors::unreadable(&name, &format!("cannot be read: {error}")));
    }
    if bytes.len() as u64 > MAX_SIZE_BYTES {
        return Err(ConfigErrors::unreadable(&name, "is larger than 4 MiB, which no config needs"));
    }
    match String::from_utf8(bytes) {
        Ok(text) => parse(&name, &text),
        Err(error) => {
            let start = error.utf8_error().valid_up_to();
            let byte = error.as_bytes()[start];
            let text = String::from_utf8_lossy(error.as_bytes());
            let finding = Finding::error("", start..start + 1, format!("byte 0x{byte:02x} is not UTF-8"), "UTF-8 text");
            Err(ConfigErrors::new(&Source::new(&name, &text), vec![finding]))
        }
    }
}

/// Reads the config in `text`; `name` stands for the file in messages.
///
/// # Errors
/// [`ConfigErrors`] with everything that is wrong.
pub fn parse(name: &str, text: &str) -> Result<HptuningConfig, ConfigErrors> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let source = Source::new(name, text);
    let (tree, mut findings) = yaml::compose(text);
    let Some(tree) = tree else {
        return Err(ConfigErrors::new(&source, findings));
    };
    let wrapped = tree.has_key("trainingInput");
    let (value, places) = Walk::new(&mut findings, wrapped).file(&tree);
    let mut config = match ConfigFile::from_value(value, wrapped) {
        Ok(config) => config,
        Err(error) => {
            // The walk lets only fitting values through: should it err, serde's words are better than none.
            findings.push(Finding::error("", tree.span.clone(), error.to_string(), "a training input"));
            return Err(ConfigErrors::new(&source, findings));
        }
    };
    let prefix = if wrapped { "trainingInput." } else { "" };
    for violation in ai_platform::check(&config.training_input) {
        let field = format!("{prefix}{}", violation.field);
        if !places.is_broken(&field) {
            findings.push(Finding {
                severity: violation.severity,
                span: places.span(&field),
                field,
                message: violation.message,
                allowed: violation.allowed,
                help: violation.help,
            });
        }
    }
    let job_id = job_id(&config.job_id, &places, &mut findings);
    let mut study = None;
    if findings.iter().all(|finding| finding.severity == Severity::Warning)
        && let Some(spec) = &config.training_input.hyperparameters
    {
        match ai_platform::study_spec(spec, &config.training_input.tunesmith) {
            Ok(spec) => study = Some(spec),
            Err(error) => {
                let field = format!("{prefix}hyperparameters");
                let span = places.span(&field);
                findings.push(Finding::error(field, span, error.to_string(), "a search space"));
            }
        }
    }
    if findings.iter().any(|finding| finding.severity == Severity::Error) {
        return Err(ConfigErrors::new(&source, findings));
    }
    findings.sort_by_key(|finding| finding.span.start);
    Ok(HptuningConfig {
        without_effect: ai_platform::without_effect(&config.training_input),
        study,
        job_id,
        labels: std::mem::take(&mut config.labels),
        warnings: findings.into_iter().map(|finding| Diagnostic::new(&source, finding)).collect(),
        training_input: config.training_input,
    })
}

fn job_id(text: &str, places: &Places, findings: &mut Vec<Finding>) -> Option<JobId> {
    if text.is_empty() {
        return None;
    }
    match text.parse() {
        Ok(id) => Some(id),
        Err(error) => {
            let error: tunesmith_domain::IdError = error;
            findings.push(Finding::error(
                "jobId",
                places.span("jobId"),
                error.to_string(),
                "letters, digits and underscores, starting with a letter, at most 128",
            ));
            None
        }
    }
}
