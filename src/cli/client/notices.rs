//! Notices of a submitted job: what of its request has no effect.

use serde_json::Value;

use super::request::{list, text};
use crate::cli::output::notice;
use tunesmith_api::ai_platform::{TrainingInput, without_effect};
use tunesmith_config::HptuningConfig;

/// The field of the words after `--`, if the job has no package and no image: a command for the machine of the service, as
/// documented.
const COMMAND: &str = "masterConfig.containerCommand";

/// Prints the notices of the job `created` from `input`, and the fields and arguments without effect. Warnings about
/// `config` were printed before, with their lines.
pub(super) fn print_notices(created: &Value, input: &Value, config: Option<&HptuningConfig>, arguments: &[&str]) {
    // The service has checked the input.
    let input: TrainingInput = serde_json::from_value(input.clone()).unwrap_or_default();
    let mut fields = without_effect(&input);
    for given in list(&created["tunesmith"], "notices") {
        let field = text(given, "field");
        let field = field.strip_prefix("trainingInput.").unwrap_or(field);
        let was_printed = config
            .iter()
            .flat_map(|config| &config.warnings)
            .any(|warning| warning.field.strip_prefix("trainingInput.").unwrap_or(&warning.field) == field);
        if !was_printed && field != COMMAND && !fields.iter().any(|known| known == field) {
            notice(&format!("warning: {field}: {}", text(given, "description")));
        }
    }
    fields.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    if !fields.is_empty() {
        notice(&format!("no effect on this service: {}", fields.join(", ")));
    }
}
