//! Notices of a submitted job: what of its request has no effect.

use serde_json::Value;

use super::request::{list, text};
use crate::cli::output::notice;
use tunesmith_api::ai_platform::machines::NO_EFFECT;
use tunesmith_config::HptuningConfig;
use tunesmith_service::RESUME_PREVIOUS_JOB;

/// The field of the words after `--`, if the job has no package and no image: a command for the machine of the service, as
/// documented.
const COMMAND: &str = "masterConfig.containerCommand";

/// Prints the notices of the job `created`, and the fields and arguments without effect. Warnings about
/// `config` were printed before, with their lines.
pub(super) fn print_notices(created: &Value, config: Option<&HptuningConfig>, arguments: &[&str]) {
    let mut fields = Vec::new();
    for given in list(&created["tunesmith"], "notices") {
        let field = text(given, "field");
        let field = field.strip_prefix("trainingInput.").unwrap_or(field);
        let was_printed = config
            .iter()
            .flat_map(|config| &config.warnings)
            .any(|warning| warning.field.strip_prefix("trainingInput.").unwrap_or(&warning.field) == field);
        if field == RESUME_PREVIOUS_JOB {
            notice(&format!("{field}: {}", text(given, "description")));
        } else if text(given, "description") == NO_EFFECT {
            fields.push(field.to_owned());
        } else if !was_printed && field != COMMAND {
            notice(&format!("warning: {field}: {}", text(given, "description")));
        }
    }
    fields.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    if !fields.is_empty() {
        notice(&format!("no effect on this service: {}", fields.join(", ")));
    }
}
