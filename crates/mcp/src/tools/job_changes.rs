//! Jobs: submission, extension, cancellation, retry.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tunesmith_api::ai_platform::job::JobRequest;
use tunesmith_api::ai_platform::{HyperparameterSpec, TrainingInput};

use super::configuration::parsed;
use super::jobs::{JobArguments, JobDetails, details};
use crate::context::Context;
use crate::failure::Failure;
use crate::subject::given;
use crate::tool::{Effects, Tool};

/// Most trials of a job.
const MAX_COUNT: u32 = i32::MAX.cast_unsigned();

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            ("mcp.submit_job", "Submit a job"),
            "Submits a job, which runs the program once per trial. Its files are opened with the rights of the caller: folders \
             and buckets must be allowed by the server. An existing ID is refused.",
            Effects::Runs,
            json!({
                "job": "census",
                "config": "hyperparameters: {goal: MAXIMIZE, hyperparameterMetricTag: accuracy, maxTrials: 20, params: [{parameterName: lr, type: DOUBLE, minValue: 0.001, maxValue: 1, scaleType: UNIT_LOG_SCALE}]}\ntunesmith: {metricFromStdout: true}",
                "command": ["python3", "/srv/train.py"],
            }),
            submit_job,
        ),
        Tool::new(
            ("mcp.extend_job", "Change a job's number of trials"),
            "Sets the number of trials of a job, in total and at once. A job that has ended goes on if its total is raised.",
            Effects::Sets,
            json!({"job": "census", "max_trials": 40}),
            extend_job,
        ),
        Tool::new(
            ("mcp.cancel_job", "Cancel a job"),
            "Cancels a job. Its running trials are stopped and lost; results so far are kept.",
            Effects::Ends,
            json!({"job": "census"}),
            cancel_job,
        ),
        Tool::new(
            ("mcp.retry_job", "Retry failed trials"),
            "Runs the failed and lost trials of a job again, such as after a repair of the program's surroundings.",
            Effects::Runs,
            json!({"job": "census"}),
            retry_job,
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct SubmitArguments {
    /// Job ID: letters, digits and underscores, starting with a letter. Default: jobId of the configuration.
    job: Option<String>,
    /// hptuning_config.yaml, in YAML or JSON.
    config: String,
    /// Program on the machine of the trials, with its arguments; each trial adds --name=value per parameter. Only if the
    /// configuration names no package or image.
    command: Option<Vec<String>>,
    /// Labels of the job.
    labels: Option<BTreeMap<String, String>>,
    /// Project; default that of the server.
    project: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct JobState {
    job: String,
    state: String,
    /// Settings without effect.
    notes: Vec<String>,
}

async fn submit_job(context: Context, arguments: SubmitArguments) -> Result<JobState, Failure> {
    let SubmitArguments { job, config, command, labels, project } = arguments;
    let client = context.client(project.as_deref());
    // Parsing some megabytes takes long. The API admits the caller.
    let config = tokio::task::spawn_blocking(move || parsed(&config)).await;
    let config = config.map_err(|error| Failure::new("INTERNAL", error.to_string()))??;
    let of_config = config.job_id.as_ref().map(|id| id.parts().1.to_owned());
    let mut request = JobRequest::default();
    request.job_id = job.or(of_config).unwrap_or_default();
    given("job", &request.job_id)?;
    request.labels = config.labels;
    request.labels.extend(labels.unwrap_or_default());
    let mut input = config.training_input;
    if let Some(command) = command.filter(|command| !command.is_empty()) {
        let master = input.master_config.get_or_insert_default();
        if !master.image_uri.is_empty() || !master.container_command.is_empty() || !input.package_uris.is_empty() {
            let text = "is given beside the program of the configuration";
            return Err(Failure::argument("command", text, "a configuration without package, image and command"));
        }
        master.container_command = command;
    }
    request.training_input = Some(input);
    let created = client.create_job(&request).await?;
    let notes = created.notices().iter().map(|notice| format!("{}: {}", notice.field, notice.description)).collect();
    Ok(JobState { job: created.job_id.clone(), state: created.state.to_string(), notes })
}

#[derive(Deserialize, JsonSchema)]
struct ExtendArguments {
    #[serde(flatten)]
    of: JobArguments,
    /// Trials in total.
    max_trials: Option<u32>,
    /// Trials at once.
    max_parallel_trials: Option<u32>,
}

async fn extend_job(context: Context, arguments: ExtendArguments) -> Result<JobDetails, Failure> {
    let (client, id) = arguments.of.client(&context)?;
    let counts = [
        ("max_trials", "maxTrials", arguments.max_trials),
        ("max_parallel_trials", "maxParallelTrials", arguments.max_parallel_trials),
    ];
    if let Some((name, ..)) =
        counts.iter().find(|(_, _, count)| count.is_some_and(|count| count == 0 || count > MAX_COUNT))
    {
        return Err(Failure::argument(name, "is out of range", format!("1 to {MAX_COUNT}")));
    }
    let mask: Vec<String> = counts
        .iter()
        .filter(|(_, _, count)| count.is_some())
        .map(|(_, field, _)| format!("trainingInput.hyperparameters.{field}"))
        .collect();
    if mask.is_empty() {
        return Err(Failure::argument("max_trials", "no number is given", "max_trials, max_parallel_trials or both"));
    }
    let number = |count: Option<u32>| count.and_then(|count| i32::try_from(count).ok());
    let mut change = JobRequest::default();
    change.training_input = Some(TrainingInput {
        hyperparameters: Some(HyperparameterSpec {
            max_trials: number(arguments.max_trials),
            max_parallel_trials: number(arguments.max_parallel_trials),
            ..HyperparameterSpec::default()
        }),
        ..TrainingInput::default()
    });
    let job = client.update_job(id, &mask.join(","), &change).await?.message;
    details(&client, job).await
}

async fn cancel_job(context: Context, arguments: JobArguments) -> Result<JobState, Failure> {
    let (client, id) = arguments.client(&context)?;
    client.cancel_job(id).await?;
    let job = client.job(id).await?;
    Ok(JobState { job: job.job_id.clone(), state: job.state.to_string(), notes: Vec::new() })
}

async fn retry_job(context: Context, arguments: JobArguments) -> Result<JobState, Failure> {
    let (client, id) = arguments.client(&context)?;
    let job = client.retry_job(id).await?;
    Ok(JobState { job: job.job_id.clone(), state: job.state.to_string(), notes: Vec::new() })
}
