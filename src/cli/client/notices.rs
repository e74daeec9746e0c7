//! Notices about the parts of a submitted job that have no effect.

use crate::cli::output::notice;
use tunesmith_api::ai_platform::Notice;
use tunesmith_api::ai_platform::machines::NO_EFFECT;
use tunesmith_config::HptuningConfig;
use tunesmith_domain::RESUME_PREVIOUS_JOB;

/// Field for the words after `--` without a package or image: a command on the server's machine.
const COMMAND: &str = "masterConfig.containerCommand";

/// Prints notices and fields without effect for a new job. Warnings about `config` were already printed with their
/// lines.
pub(super) fn print_notices(notices: &[Notice], config: Option<&HptuningConfig>, arguments: &[&str]) {
    let mut fields = Vec::new();
    for Notice { field, description } in notices {
        let field = field.strip_prefix("trainingInput.").unwrap_or(field);
        let was_printed = config
            .iter()
            .flat_map(|config| &config.warnings)
            .any(|warning| warning.field.strip_prefix("trainingInput.").unwrap_or(&warning.field) == field);
        if field == RESUME_PREVIOUS_JOB {
            notice(&format!("{field}: {description}"));
        } else if description == NO_EFFECT {
            fields.push(field.to_owned());
        } else if !was_printed && field != COMMAND {
            notice(&format!("warning: {field}: {description}"));
        }
    }
    fields.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    if !fields.is_empty() {
        notice(&format!("no effect on this service: {}", fields.join(", ")));
    }
}
