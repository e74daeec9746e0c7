//! `tunesmith run` of a job that continues an earlier one in the same data folder.

use anyhow::bail;
use serde::Deserialize as _;

use super::output::notice;
use tunesmith_api::ai_platform::plan::previous_job;
use tunesmith_api::ai_platform::{Severity, TrainingInput, check, continued, inherited_fields};
use tunesmith_config::HptuningConfig;
use tunesmith_domain::{JobPlan, RESUME_PREVIOUS_JOB};
use tunesmith_jobs::SubmitError;
use tunesmith_store::{OptionalExtension, Store};

/// Completes `config` with inherited fields, and names them.
pub(super) async fn complete(config: &mut HptuningConfig, store: &dyn Store) -> anyhow::Result<()> {
    let Some(previous) = previous_job(&config.training_input)? else { return Ok(()) };
    let earlier = store.job(&previous).await.optional()?;
    let earlier = earlier.and_then(|job| TrainingInput::deserialize(&job.training_input).ok());
    let Some(earlier) = earlier.filter(|earlier| earlier.hyperparameters.is_some()) else {
        return Err(SubmitError::NoSuchPreviousJob(previous).into());
    };
    let absent = inherited_fields(&config.training_input);
    config.training_input = continued(&config.training_input, &earlier);
    let errors = check(&config.training_input).into_iter().filter(|violation| violation.severity == Severity::Error);
    let errors: Vec<String> =
        errors.map(|error| format!("{}: {}; allowed: {}", error.field, error.message, error.allowed)).collect();
    if !errors.is_empty() {
        bail!("with what job {previous} adds, the configuration is invalid: {}", errors.join("; "));
    }
    let still_absent = inherited_fields(&config.training_input);
    let taken: Vec<&str> = absent.into_iter().filter(|field| !still_absent.contains(field)).collect();
    if !taken.is_empty() {
        notice(&format!("{}: as in job {previous}, which is continued", taken.join(", ")));
    }
    Ok(())
}

/// Prints the trials reused from the earlier job.
pub(super) fn print_sources(plan: &JobPlan) {
    for source in plan.machines.notices.iter().filter(|notice| notice.field == RESUME_PREVIOUS_JOB) {
        notice(&format!("{}: {}", source.field, source.description));
    }
}
