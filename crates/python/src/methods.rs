//! The methods of an engine, each a use case of `tunesmith-studies` on messages of the `ml v1` API.

use std::sync::Arc;

use jiff::Timestamp;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tunesmith_algorithms::encoding::Encoding;
use tunesmith_algorithms::insight::MetricInsight;
use tunesmith_algorithms::problem::{ParameterSpec, ParameterValue};
use tunesmith_api::ai_platform::optimizer::{
    AddMeasurementRequest, CONTINUED_STUDIES, CompleteTrialRequest, PRIOR_STUDIES, PublishedNames, StudyMessage,
    StudyRequest, SuggestTrialsRequest, TrialList, TrialMessage, TrialRequest, completed_point, point, source_notices,
    study_plan, trial_and_attempt,
};
use tunesmith_domain::{Code, JobId, Metadata, NewStudy, Refusal, Study, StudyId, StudyState, Trial, TrialId};
use tunesmith_filter::Filter;
use tunesmith_store::{Store, pages, snapshot};
use tunesmith_studies::{NamedStudies, Studies, TrialRef};
use tunesmith_views as views;

use crate::error::of_violation;

/// Location of studies in process, the default of the command line.
const LOCATION: &str = "local";

/// Calls a method.
///
/// # Errors
/// Refusals of the use case; `INVALID_ARGUMENT` for malformed messages, `UNIMPLEMENTED` for unknown methods.
pub(crate) async fn call(
    studies: &Arc<Studies>,
    store: &Arc<dyn Store>,
    method: &str,
    study: &str,
    trial: &str,
    body: &str,
) -> Result<Value, Refusal> {
    let id = StudyId::new(JobId::LOCAL_PROJECT, LOCATION, study);
    let id = id.map_err(|error| Refusal::invalid("study", error.to_string()))?;
    let calls = Calls { studies, id };
    match method {
        "createStudy" => calls.create_study(parsed(body)?).await,
        "getStudy" => written(StudyMessage::from(&studies.study(&calls.id).await?)),
        "suggest" => calls.suggest(parsed(body)?).await,
        "startTrial" => calls.start_trial(parsed(body)?).await,
        "createTrial" => calls.create_trial(parsed(body)?).await,
        "listTrials" => calls.list_trials().await,
        "listOptimalTrials" => calls.list_optimal().await,
        "importance" => calls.of_model(body, views::importances).await,
        "recommended" => calls.of_model(body, views::recommendation).await,
        "snapshot" => Ok(snapshot(&**store, &calls.id).await?),
        _ => calls.of_trial(method, trial, body).await,
    }
}

struct Calls<'a> {
    studies: &'a Arc<Studies>,
    id: StudyId,
}

impl Calls<'_> {
    async fn create_study(self, request: StudyRequest) -> Result<Value, Refusal> {
        let mut notices = request.notices();
        let config = request.study_config.ok_or_else(|| Refusal::invalid("studyConfig", "is required"))?;
        let plan = study_plan(&config).map_err(|found| Refusal::violations(found.into_iter().map(Into::into)))?;
        let continued = NamedStudies { names: &plan.continued_studies, field: CONTINUED_STUDIES };
        let related = NamedStudies { names: &plan.prior_studies, field: PRIOR_STUDIES };
        let sources = self.studies.named_sources(&self.id, continued, related).await?;
        let reused = self.studies.describe_sources(&plan.spec, &sources).await?;
        notices.extend(plan.notices);
        let [continued, related] = reused.incomplete();
        notices.extend(source_notices(continued, related));
        let study = plan.spec.into_study(NewStudy {
            id: self.id,
            seed: plan.seed.unwrap_or_else(|| rand::rng().next_u64()),
            sources,
            config: written(&config)?,
            metadata: Metadata::default(),
            create_time: Timestamp::now(),
        });
        let study = self.studies.create_study(study).await?;
        written(StudyMessage::from(&study).with_notices(notices))
    }

    async fn suggest(self, request: SuggestTrialsRequest) -> Result<Value, Refusal> {
        let request = request.into_request().map_err(of_violation)?;
        let suggested = self.studies.suggest(&self.id, &request).await?;
        let study = suggested.study;
        if suggested.trials.is_empty() && study.state == StudyState::Completed {
            let text = format!("no more trials: {}", study.state_reason);
            return Err(Refusal::new(Code::ResourceExhausted, text).because("STUDY_COMPLETED"));
        }
        let trials = self.messages(&study, suggested.trials).await?;
        let StudyMessage { state, .. } = StudyMessage::from(&study);
        Ok(json!({"trials": trials, "studyState": state, "endTime": Timestamp::now()}))
    }

    /// Starts a trial at a point of the user. The search supplies missing values.
    async fn start_trial(self, request: StartTrialRequest) -> Result<Value, Refusal> {
        let study = self.studies.study(&self.id).await?;
        let space = study.problem.search_space();
        // A complete point needs no proposal, which would fit a model.
        let is_complete = point(space, &request.parameters).is_ok_and(|point| space.check(&point).is_ok());
        let proposed = if is_complete { None } else { self.studies.propose(&self.id).await? }.unwrap_or_default();
        let encoding = Encoding::new(space);
        let mut random = ChaCha12Rng::seed_from_u64(study.seed ^ study.next_trial_id.0);
        let fill = |spec: &ParameterSpec, needed: Option<&[ParameterValue]>| {
            let proposed = proposed.get(spec.name()).filter(|value| needed.is_none_or(|needed| needed.contains(value)));
            let of_child = || needed.and_then(|needed| needed.first());
            proposed.or_else(|| encoding.fixed_value(spec.name())).or_else(of_child).cloned().or_else(|| {
                let feature = encoding.features().iter().position(|feature| feature.name == spec.name())?;
                Some(encoding.value(feature, encoding.coordinate_from_uniform(feature, random.random())))
            })
        };
        let parameters = completed_point(space, &request.parameters, fill).map_err(of_violation)?;
        let started = self.studies.start_trial(&self.id, parameters, &request.client_id).await?;
        self.message(&started.study, started.trial).await
    }

    async fn create_trial(self, request: TrialRequest) -> Result<Value, Refusal> {
        let result = request.result().map_err(of_violation)?;
        let study = self.studies.study(&self.id).await?;
        let parameters = point(study.problem.search_space(), &request.parameters).map_err(of_violation)?;
        let created = self.studies.create_trial(&self.id, parameters, result, None).await?;
        self.message(&created.study, created.trial).await
    }

    async fn list_trials(self) -> Result<Value, Refusal> {
        let study = self.studies.study(&self.id).await?;
        let mut trials = Vec::new();
        let mut after = TrialId(0);
        loop {
            let page = self.studies.trial_page(&self.id, after, pages::PAGE).await?;
            trials.extend(page.trials);
            let Some(next) = page.next else { break };
            after = next;
        }
        written(TrialList { trials: self.messages(&study, trials).await? })
    }

    async fn list_optimal(self) -> Result<Value, Refusal> {
        let study = self.studies.study(&self.id).await?;
        let optimal = self.studies.optimal_trials(&study).await?;
        let trials = self.studies.trials_numbered(&self.id, optimal).await?;
        written(TrialList { trials: self.messages(&study, trials).await? })
    }

    /// View of the model of a metric: the one named in the request, or the first one.
    async fn of_model<T: Serialize>(self, body: &str, view: fn(&MetricInsight) -> T) -> Result<Value, Refusal> {
        let request: MetricRequest = parsed(body)?;
        let study = self.studies.study(&self.id).await?;
        let (revision, metric, completed) = {
            let columns = self.studies.columns(&study).await?;
            let rows = columns.select(&Filter::default());
            let rows = rows.map_err(|error| Refusal::new(Code::Internal, error.to_string()))?;
            let metric = columns.metric_named(&request.metric, "metric");
            let metric = metric.map_err(|error| Refusal::invalid(error.field, error.message))?;
            (columns.revision(), metric, views::modelled(&columns, &rows, metric, views::DEFAULT_POINTS))
        };
        let metric = &study.problem.metrics()[metric].name;
        let choice = (String::new(), views::DEFAULT_POINTS);
        let insight = self.studies.insight(&study, revision, metric, choice, completed).await?;
        let insight = insight.map_err(|error| Refusal::new(Code::FailedPrecondition, error.to_string()))?;
        written(view(&insight))
    }

    async fn of_trial(self, method: &str, trial: &str, body: &str) -> Result<Value, Refusal> {
        let (trial, attempt) = trial_and_attempt(trial).map_err(of_violation)?;
        let key = TrialRef { study: self.id.clone(), trial, attempt };
        let changed = match method {
            "getTrial" => self.studies.trial_of_study(&key.study, key.trial).await?,
            "addMeasurement" => {
                let request: AddMeasurementRequest = parsed(body)?;
                let measurement = request.into_measurement().map_err(of_violation)?;
                self.studies.add_measurement(&key, measurement, None).await?
            }
            "complete" => {
                let request: CompleteTrialRequest = parsed(body)?;
                self.studies.complete(&key, request.into_outcome().map_err(of_violation)?).await?
            }
            "stop" => self.studies.stop(&key).await?,
            "checkEarlyStopping" => return Ok(json!({"shouldStop": self.studies.should_stop(&key).await?})),
            _ => return Err(Refusal::new(Code::Unimplemented, format!("{method:?} is not a method of the engine"))),
        };
        self.message(&changed.study, changed.trial).await
    }

    async fn message(&self, study: &Study, trial: Trial) -> Result<Value, Refusal> {
        let messages = self.messages(study, vec![trial]).await?;
        written(messages.into_iter().next())
    }

    async fn messages(&self, study: &Study, trials: Vec<Trial>) -> Result<Vec<TrialMessage>, Refusal> {
        let names = PublishedNames::of(study.problem.search_space());
        let mut messages = Vec::with_capacity(trials.len());
        for trial in trials {
            let curve = self.studies.measurements(&study.id, &trial).await?;
            messages.push(TrialMessage::new(study, &names, &trial, &curve));
        }
        Ok(messages)
    }
}

/// A trial of the user. Missing parameters are filled in.
#[derive(Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct StartTrialRequest {
    client_id: String,
    parameters: Vec<tunesmith_api::ai_platform::optimizer::TrialParameter>,
}

#[derive(Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct MetricRequest {
    /// Name of the metric; the first one if empty.
    metric: String,
}

fn parsed<T: DeserializeOwned>(body: &str) -> Result<T, Refusal> {
    let mut deserializer = serde_json::Deserializer::from_str(body);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        Refusal::invalid(&path, error.into_inner().to_string())
    })
}

fn written(message: impl Serialize) -> Result<Value, Refusal> {
    serde_json::to_value(message)
        .map_err(|error| Refusal::new(Code::Internal, format!("the response cannot be written: {error}")))
}
