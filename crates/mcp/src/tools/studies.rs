//! Studies whose trials the client runs itself: creation, suggestions, reports.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;
use tunesmith_api::ai_platform::optimizer::{
    CompleteTrialRequest, MeasurementMessage, MetricMessage, OperationResponse, StudyMessage, SuggestTrialsRequest,
    TrialMessage, TrialParameter,
};
use tunesmith_api::ai_platform::{Double, Int64};
use tunesmith_config::parse_study;

use super::trials::TrialArguments;
use crate::context::Context;
use crate::failure::Failure;
use crate::subject::{Of, Subject, bounded, given};
use crate::tool::{Effects, Tool};

/// Time between polls of a suggestion, and the longest wait.
const SUGGESTION: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(60));

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            ("mcp.list_studies", "List studies"),
            "Lists studies, whose trials clients run.",
            Effects::Reads,
            json!({"filter": "state = ACTIVE"}),
            list_studies,
        ),
        Tool::new(
            ("mcp.create_study", "Create a study"),
            "Creates a study: you run its trials yourself, with suggest_trials and complete_trial.",
            Effects::Adds,
            json!({
                "study": "recipes",
                "config": "metrics: [{metric: taste, goal: MAXIMIZE}]\nparameters: [{parameter: sugar, type: DOUBLE, doubleValueSpec: {minValue: 0, maxValue: 1}}]",
            }),
            create_study,
        ),
        Tool::new(
            ("mcp.suggest_trials", "Suggest trials"),
            "Suggests trials for you to run: those that the client ID owns already, or new ones.",
            Effects::Adds,
            json!({"study": "recipes", "client_id": "cook", "count": 1}),
            suggest_trials,
        ),
        Tool::new(
            ("mcp.report_measurement", "Report a measurement"),
            "Adds a point to the learning curve of a trial of a study.",
            Effects::Adds,
            json!({"study": "recipes", "trial": 1, "step": 10, "metrics": {"taste": 0.4}}),
            report_measurement,
        ),
        Tool::new(
            ("mcp.complete_trial", "Complete a trial"),
            "Completes a trial of a study with its result, or as infeasible with a reason.",
            Effects::Sets,
            json!({"study": "recipes", "trial": 1, "metrics": {"taste": 0.7}}),
            complete_trial,
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct ListArguments {
    /// As in `state = ACTIVE AND studyId:census*`; default all.
    filter: Option<String>,
    /// Location; default all.
    location: Option<String>,
    /// Project; default that of the server.
    project: Option<String>,
    /// 1 to 200; default 50.
    page_size: Option<u64>,
    /// next_page_token of the previous page.
    page_token: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct StudyPage {
    studies: Vec<StudySummary>,
    /// Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_page_token: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct StudySummary {
    study: String,
    location: String,
    /// ACTIVE, INACTIVE or COMPLETED.
    state: String,
    create_time: String,
}

impl From<&StudyMessage> for StudySummary {
    fn from(study: &StudyMessage) -> Self {
        let segments: Vec<&str> = study.name.split('/').collect();
        let segment = |at: usize| segments.get(at).copied().unwrap_or_default().to_owned();
        Self {
            study: segment(5),
            location: segment(3),
            state: name_of(study.state),
            create_time: study.create_time.to_string(),
        }
    }
}

/// Published name of a state.
fn name_of(state: impl Serialize) -> String {
    let state = serde_json::to_value(state).ok();
    state.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned()
}

async fn list_studies(context: Context, arguments: ListArguments) -> Result<StudyPage, Failure> {
    let size = bounded("page_size", arguments.page_size, 50, (1, 200))?;
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let client = context.client(arguments.project.as_deref());
    let location = arguments.location.as_deref().unwrap_or("-");
    let mut studies = client.studies(location, arguments.filter.as_deref().unwrap_or_default()).await?;
    // The API has no pages of studies; the token is the name of the last study.
    let after = arguments.page_token.unwrap_or_default();
    studies.sort_by(|a, b| a.name.cmp(&b.name));
    studies.retain(|study| study.name > after);
    let has_more = studies.len() > size;
    studies.truncate(size);
    let next_page_token = studies.last().filter(|_| has_more).map(|study| study.name.clone());
    Ok(StudyPage { studies: studies.iter().map(|study| StudySummary::from(&study.message)).collect(), next_page_token })
}

#[derive(Deserialize, JsonSchema)]
struct CreateArguments {
    /// Study ID.
    study: String,
    /// studyConfig, in YAML or JSON.
    config: String,
    /// Location; default local.
    location: Option<String>,
    /// Project; default that of the server.
    project: Option<String>,
}

async fn create_study(context: Context, arguments: CreateArguments) -> Result<StudySummary, Failure> {
    let CreateArguments { study, config, location, project } = arguments;
    let client = context.client(project.as_deref());
    let draft = tokio::task::spawn_blocking(move || parse_study("config", &config)).await;
    let draft = draft.map_err(|error| Failure::new("INTERNAL", error.to_string()))?;
    let draft = draft.map_err(|errors| Failure::configuration(errors.diagnostics()))?;
    let location = location.as_deref().unwrap_or("local");
    let created = client.create_study(location, given("study", &study)?, &draft.request).await?;
    Ok(StudySummary::from(&created.message))
}

#[derive(Deserialize, JsonSchema)]
struct SuggestArguments {
    #[serde(flatten)]
    of: Of,
    /// Name of the client that runs the trials. The same name gets its unfinished trials again.
    client_id: String,
    /// 1 to 100; default 1.
    count: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
struct Suggested {
    trials: Vec<SuggestedTrial>,
    /// ACTIVE, INACTIVE or COMPLETED, which has no more trials.
    study_state: String,
}

#[derive(Serialize, JsonSchema)]
struct SuggestedTrial {
    trial: String,
    state: String,
    parameters: BTreeMap<String, Value>,
}

impl From<&TrialMessage> for SuggestedTrial {
    fn from(trial: &TrialMessage) -> Self {
        Self {
            trial: trial.name.rsplit('/').next().unwrap_or_default().to_owned(),
            state: name_of(trial.state),
            parameters: trial
                .parameters
                .iter()
                .map(|parameter| (parameter.parameter.clone(), value(parameter)))
                .collect(),
        }
    }
}

fn value(parameter: &TrialParameter) -> Value {
    match (&parameter.float_value, &parameter.int_value, &parameter.string_value) {
        (Some(number), ..) => json!(number.0),
        (_, Some(Int64(number)), _) => json!(number),
        (.., text) => json!(text),
    }
}

async fn suggest_trials(context: Context, arguments: SuggestArguments) -> Result<Suggested, Failure> {
    let count = bounded("count", arguments.count, 1, (1, 100))?;
    let study = of_study(&arguments.of, &context)?.study;
    let request = SuggestTrialsRequest {
        client_id: given("client_id", &arguments.client_id)?.to_owned(),
        suggestion_count: i32::try_from(count).unwrap_or(i32::MAX),
        ..SuggestTrialsRequest::default()
    };
    let mut operation = match study.suggest(&request).await {
        Err(error) if error.is_study_completed() => {
            return Ok(Suggested { trials: Vec::new(), study_state: "COMPLETED".to_owned() });
        }
        answer => answer?,
    };
    let end = Instant::now() + SUGGESTION.1;
    while !operation.done {
        if Instant::now() > end {
            let text = "the suggestion is still being computed: call suggest_trials again with the same client_id";
            return Err(Failure::new("UNAVAILABLE", text).retryable());
        }
        tokio::time::sleep(SUGGESTION.0).await;
        operation = study.operation(&operation.name).await?;
    }
    match (&operation.error, &operation.response) {
        (None, Some(OperationResponse::Suggest(answer))) => Ok(Suggested {
            trials: answer.trials.iter().flatten().map(SuggestedTrial::from).collect(),
            study_state: name_of(answer.study_state),
        }),
        (Some(error), _) => Err(Failure::new("INTERNAL", error.message.clone())),
        (None, _) => Err(Failure::new("INTERNAL", format!("operation {} has another response", operation.name))),
    }
}

/// The study of a tool whose trials are not those of a job.
fn of_study(of: &Of, context: &Context) -> Result<Subject, Failure> {
    let subject = of.subject(context)?;
    match &subject.job {
        None => Ok(subject),
        Some(_) => Err(Failure::argument("job", "runs its trials itself", "study, with the ID of a study")),
    }
}

#[derive(Deserialize, JsonSchema)]
struct MeasurementArguments {
    #[serde(flatten)]
    trial: TrialArguments,
    /// Training step; default 0.
    step: Option<i64>,
    /// Values by metric.
    metrics: BTreeMap<String, f64>,
}

async fn report_measurement(context: Context, arguments: MeasurementArguments) -> Result<SuggestedTrial, Failure> {
    let TrialArguments { of, trial } = &arguments.trial;
    let study = of_study(of, &context)?.study;
    let measurement = measurement(arguments.step, &arguments.metrics);
    Ok(SuggestedTrial::from(&study.add_measurement(&trial.0, measurement).await?.message))
}

fn measurement(step: Option<i64>, metrics: &BTreeMap<String, f64>) -> MeasurementMessage {
    let metrics = metrics.iter().map(|(name, value)| MetricMessage { metric: name.clone(), value: Double(*value) });
    MeasurementMessage { elapsed_time: None, step_count: Int64(step.unwrap_or(0)), metrics: metrics.collect() }
}

#[derive(Deserialize, JsonSchema)]
struct CompleteArguments {
    #[serde(flatten)]
    trial: TrialArguments,
    /// Result by metric; absent to take it from the reported measurements.
    metrics: Option<BTreeMap<String, f64>>,
    /// Why the trial has no result; instead of metrics.
    infeasible_reason: Option<String>,
}

async fn complete_trial(context: Context, arguments: CompleteArguments) -> Result<SuggestedTrial, Failure> {
    let TrialArguments { of, trial } = &arguments.trial;
    if arguments.metrics.is_some() && arguments.infeasible_reason.is_some() {
        return Err(Failure::argument("infeasible_reason", "is given beside metrics", "one of both"));
    }
    let study = of_study(of, &context)?.study;
    let outcome = CompleteTrialRequest {
        final_measurement: arguments.metrics.map(|metrics| measurement(None, &metrics)),
        trial_infeasible: arguments.infeasible_reason.is_some(),
        infeasible_reason: arguments.infeasible_reason.unwrap_or_default(),
    };
    Ok(SuggestedTrial::from(&study.complete(&trial.0, &outcome).await?.message))
}
