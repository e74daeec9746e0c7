//! Configuration of `tunesmith run`, and the submission that follows from it.

use std::path::Path;

use anyhow::Context;
#[cfg(feature = "vizier")]
use anyhow::bail;

use super::output::notice;
use super::run::RunArgs;
#[cfg(feature = "vizier")]
use crate::vertex_file::{self, VertexFile};
use tunesmith_api::ai_platform::machines::{MachineMap, NO_EFFECT};
use tunesmith_api::ai_platform::plan::{CommandLine, job_plan_on, job_study, previous_job};
use tunesmith_api::ai_platform::{command_line_notices, names_machine};
use tunesmith_config::HptuningConfig;
use tunesmith_domain::{JobPlan, MachineNotice};
use tunesmith_jobs::Submission;

/// Jobs of Vertex AI, which this build cannot read.
#[cfg(not(feature = "vizier"))]
pub(super) enum VertexFile {}

/// Reads the configuration, and the job of Vertex AI that it is, if any.
pub(super) fn load(args: &RunArgs) -> anyhow::Result<(HptuningConfig, Option<VertexFile>)> {
    let completion = args.gcloud.completion()?;
    #[cfg(feature = "vizier")]
    {
        let additions = vertex_file::Additions {
            max_trials: args.again.total()?,
            parallel_trials: args.parallel.and_then(|count| i32::try_from(count).ok()),
            job_dir: args.job_dir.clone(),
            command: args.command.clone(),
        };
        if let Some(file) = VertexFile::load(&args.config, additions) {
            let file = file?;
            if let Some(flag) = args.gcloud.program_flag().or(args.package_path.as_ref().map(|_| "--package-path")) {
                bail!("{flag} is for a training input of AI Platform, and this is a {}", file.format());
            }
            return Ok((file.config()?, Some(file)));
        }
    }
    Ok((tunesmith_config::load_completed(&args.config, &completion)?, None))
}

/// Submission of `config`, or of the job `vertex`, for a server with these machines. Prints the fields without effect.
pub(super) fn submission(
    args: &RunArgs,
    config: &HptuningConfig,
    vertex: Option<&VertexFile>,
    machines: &MachineMap,
) -> anyhow::Result<Submission> {
    #[cfg(feature = "vizier")]
    if let Some(vertex) = vertex {
        let job = vertex.job(machines)?;
        return Ok(Submission {
            id: args.job_id.clone(),
            labels: config.labels.clone(),
            name_prefix: name_prefix(&args.config),
            training_input: serde_json::to_value(&job.training_input)?,
            study: job.study,
            resume_previous_job: None,
            seed: args.seed,
            plan: job.plan,
            policy: serde_json::Value::Null,
        });
    }
    #[cfg(not(feature = "vizier"))]
    let _ = vertex;
    let command_line = CommandLine {
        package_path: args.package_path.as_deref().map(std::path::absolute).transpose()?,
        module_name: args.module_name.clone(),
        job_dir: args.job_dir.clone(),
        command: args.command.clone(),
        working_directory: std::env::current_dir().context("the current folder cannot be read")?,
        job_dir_base: None,
    };
    for ignored in command_line_notices(&config.training_input, &command_line) {
        notice(&format!("warning: {}: {}", ignored.field, ignored.description));
    }
    let plan = job_plan_on(machines, &config.training_input, &command_line)?;
    print_machine_notices(config, &plan, &args.gcloud.without_effect());
    let study = job_study(&config.training_input)?;
    Ok(Submission {
        id: args.job_id.clone().or_else(|| config.job_id.clone()),
        labels: config.labels.clone(),
        name_prefix: name_prefix(&args.config),
        study,
        resume_previous_job: previous_job(&config.training_input)?,
        seed: args.seed.or(config.training_input.tunesmith.seed),
        training_input: serde_json::to_value(&config.training_input)?,
        plan,
        policy: serde_json::Value::Null,
    })
}

/// Prints fields without effect, or with an unexpected one.
fn print_machine_notices(config: &HptuningConfig, plan: &JobPlan, flags: &[&'static str]) {
    let notices = &plan.machines.notices;
    let (without, others): (Vec<&MachineNotice>, Vec<&MachineNotice>) =
        notices.iter().partition(|notice| notice.description == NO_EFFECT);
    let has_none = |field: &str| !names_machine(field) || without.iter().any(|notice| notice.field == field);
    let fields = config.without_effect.iter().map(String::as_str).filter(|field| has_none(field));
    let fields: Vec<&str> = fields.chain(flags.iter().copied()).collect();
    if !fields.is_empty() {
        notice(&format!("no effect in a local run: {}", fields.join(", ")));
    }
    for other in others {
        notice(&format!("warning: {}: {}", other.field, other.description));
    }
}

/// Prefix of a generated job name: the configuration's file name, with characters other than letters and digits
/// replaced by underscores.
fn name_prefix(config: &Path) -> String {
    let stem = config.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let name: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) { name } else { format!("job_{name}") }
}
