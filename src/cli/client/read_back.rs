//! Reads jobs and studies with their trials: from the store of a data folder, or from the responses of a server, converted
//! back to the types of the domain. Both are then displayed and analysed by the same code.

use std::collections::BTreeMap;

use anyhow::{Context, anyhow};
use futures::TryStreamExt;
use jiff::Timestamp;
use serde_json::Value;

use super::request::{last_segment, list, text};
use super::service::{Client, Transport};
use crate::cli::results::{Results, shell_word};
use tunesmith_algorithms::problem::{Origin, SearchSpace};
use tunesmith_api::ai_platform::optimizer::{
    MeasurementMessage, MetricMessage, StudyConfig, TrialParameter, point, study_plan,
};
use tunesmith_api::ai_platform::plan::{CommandLine, job_plan, job_study};
use tunesmith_api::ai_platform::rpc::FieldViolation;
use tunesmith_api::ai_platform::{ProtoDuration, TrainingInput};
use tunesmith_domain::{
    Job, JobFields, JobId, JobState, Measurement, MetricValue, Source, Study, StudyFields, StudyId, StudyState, Trial,
    TrialFields, TrialId, TrialState, UnreadablePlan,
};
use tunesmith_service::{NewStudy, StudySpec, pages};

/// Reads the trials of `job`, a job resource.
pub(super) async fn job_results(client: &Client, job: &Value) -> anyhow::Result<Results> {
    let id = JobId::new(&client.project, text(job, "jobId"))?;
    match &*client.transport {
        Transport::Folder(folder) => {
            let store = folder.store();
            Ok(Results::read(store, store.job(&id).await?, folder.job_directory(&id)).await?)
        }
        Transport::Server(_) => of_server(client, id.clone(), job).await.with_context(|| foreign(client, "job", &id)),
    }
}

/// Reads the study `study` at `location` with its trials.
pub(super) async fn study_trials(client: &Client, location: &str, study: &str) -> anyhow::Result<(Study, Vec<Trial>)> {
    let path = client.path(&["locations", location, "studies", study]);
    let message = client.get(&path, &[]).await?;
    let id = StudyId::new(&client.project, location, study)?;
    if let Transport::Folder(folder) = &*client.transport {
        let store = folder.store();
        return Ok((store.study(&id).await?, pages::trials(store, &id).try_collect().await?));
    }
    let trials = client.get(&format!("{path}/trials"), &[]).await?;
    let read = || -> anyhow::Result<(Study, Vec<Trial>)> {
        let spec = spec_of(&message)?;
        let trials = trials_of(spec.problem.search_space(), &trials)?;
        Ok((study_of(id.clone(), spec, &message, &trials)?, trials))
    };
    read().with_context(|| foreign(client, "study", &id))
}

fn foreign(client: &Client, what: &str, id: &dyn std::fmt::Display) -> String {
    format!("{} describes {what} {id} in a form that this version cannot read", client.address())
}

async fn of_server(client: &Client, id: JobId, job: &Value) -> anyhow::Result<Results> {
    let input: TrainingInput = serde_json::from_value(job["trainingInput"].clone())?;
    let logs = format!("tunesmith jobs stream-logs {id} --server {}", shell_word(&client.address()));
    let (mut study, mut trials) = (None, Vec::new());
    if job["trainingOutput"]["isHyperparameterTuningJob"] == true {
        let path = client.path(&["locations", StudyId::JOBS_LOCATION, "studies", id.parts().1]);
        let message = client.get(&path, &[]).await?;
        // The request has the parameters in the order of the user. It may lack what it takes over from another job.
        let spec = match job_study(&input) {
            Ok(Some(spec)) => spec,
            _ => spec_of(&message)?,
        };
        trials = trials_of(spec.problem.search_space(), &client.get(&format!("{path}/trials"), &[]).await?)?;
        study = Some(study_of(StudyId::from(&id), spec, &message, &trials)?);
    }
    let plan = job_plan(&input, &CommandLine::default())
        .map_err(|error| UnreadablePlan { document: Value::Null, reason: error.to_string() });
    let job = Job::restore(JobFields {
        state: text(job, "state").parse::<JobState>()?,
        study: study.as_ref().map(|study| study.id.clone()),
        training_input: job["trainingInput"].clone(),
        plan,
        fingerprint: String::new(),
        labels: serde_json::from_value::<Option<BTreeMap<String, String>>>(job["labels"].clone())?.unwrap_or_default(),
        policy: Value::Null,
        create_time: text(job, "createTime").parse()?,
        requeue_time: None,
        former_attempts: 0,
        start_time: time(job, "startTime")?,
        end_time: time(job, "endTime")?,
        error_message: text(job, "errorMessage").to_owned(),
        notices: Vec::new(),
        revision: 0,
        id,
    });
    Ok(Results { job, study, trials, logs, recommended: std::sync::OnceLock::new() })
}

/// The specification in the study resource `message`.
fn spec_of(message: &Value) -> anyhow::Result<StudySpec> {
    let config: StudyConfig = serde_json::from_value(message["studyConfig"].clone())?;
    Ok(study_plan(&config).map_err(|violations| violated(violations.into_iter().next()))?.spec)
}

fn study_of(id: StudyId, spec: StudySpec, message: &Value, trials: &[Trial]) -> anyhow::Result<Study> {
    // A study whose client gave no seed has the drawn one among the additions.
    let seeds = [&message["studyConfig"]["tunesmith"]["seed"], &message["tunesmith"]["seed"]];
    let seed = seeds.iter().find_map(|seed| seed.as_i64().or_else(|| seed.as_str()?.parse().ok()));
    let seed = seed.context("the study has no seed")?;
    let new = NewStudy {
        id,
        seed: seed.cast_unsigned(),
        prior_studies: Vec::new(),
        config: message["studyConfig"].clone(),
        create_time: text(message, "createTime").parse()?,
    };
    let state = match text(message, "state") {
        "ACTIVE" => StudyState::Active,
        "COMPLETED" => StudyState::Completed,
        "INACTIVE" => StudyState::Inactive,
        other => return Err(anyhow!("{other:?} is not the state of a study")),
    };
    let next_trial_id = trials.last().map_or(TrialId::FIRST, |trial| trial.id.offset(1));
    let state_reason = [text(message, "inactiveReason"), text(&message["tunesmith"], "stateReason")].concat();
    let study = spec.into_study(new);
    Ok(Study::restore(StudyFields { state, state_reason, next_trial_id, ..(*study).clone() }))
}

fn trials_of(space: &SearchSpace, answer: &Value) -> anyhow::Result<Vec<Trial>> {
    list(answer, "trials").iter().map(|message| trial_of(space, message)).collect()
}

fn trial_of(space: &SearchSpace, message: &Value) -> anyhow::Result<Trial> {
    let number = last_segment(text(message, "name"));
    let (number, attempt) = number.split_once('~').unwrap_or((number, "1"));
    let parameters: Option<Vec<TrialParameter>> = serde_json::from_value(message["parameters"].clone())?;
    let measurement: Option<MeasurementMessage> = serde_json::from_value(message["finalMeasurement"].clone())?;
    let additions = &message["tunesmith"];
    let state = match text(message, "state") {
        "REQUESTED" => TrialState::Requested,
        "ACTIVE" => TrialState::Active,
        "STOPPING" => TrialState::Stopping,
        "COMPLETED" if message["trialInfeasible"] == true => TrialState::Infeasible,
        "COMPLETED" => TrialState::Succeeded,
        other => return Err(anyhow!("{other:?} is not the state of a trial")),
    };
    Ok(Trial::restore(TrialFields {
        id: TrialId(number.parse()?),
        parameters: point(space, &parameters.unwrap_or_default()).map_err(|violation| violated(Some(violation)))?,
        // Another version may have algorithms and steps that this one does not know.
        origin: serde_json::from_value::<Option<Origin>>(additions["origin"].clone()).ok().flatten(),
        state,
        client_id: text(message, "clientId").to_owned(),
        attempt: attempt.parse()?,
        lost_attempts: count(additions, "lostAttempts")?,
        preempted_attempts: count(additions, "preemptedAttempts")?,
        lost_time: additions["lostTime"].as_str().map_or(Ok(ProtoDuration::default()), str::parse)?.0,
        places: Vec::new(),
        delivered: 0,
        lease: None,
        expired_leases: 0,
        create_time: time(message, "startTime")?.unwrap_or_default(),
        start_time: time(message, "startTime")?,
        attempt_start_time: time(message, "startTime")?,
        end_time: time(message, "endTime")?,
        measurement_count: list(message, "measurements").len() as u64 + count(additions, "omittedMeasurements")?,
        metric_folders: Default::default(),
        final_measurement: measurement.map(result_of),
        infeasible_reason: message["infeasibleReason"].as_str().map(str::to_owned),
        stopped_early: additions["stoppedEarly"] == true,
        fallback_reason: None,
        request_keys: Vec::new(),
        revision: 0,
    }))
}

/// The result in `message`. The rules of requests do not apply: trainers may report what clients may not, such as negative steps.
fn result_of(message: MeasurementMessage) -> Measurement {
    let value = |entry: MetricMessage| MetricValue { metric: entry.metric, value: entry.value.0 };
    Measurement {
        step: message.step_count.0,
        wall_time_secs: 0.0,
        elapsed_secs: message.elapsed_time.map(|time| time.0.as_secs_f64()),
        source: Source::Http,
        mark: 0,
        folder: None,
        metrics: message.metrics.into_iter().map(value).collect(),
    }
}

fn violated(violation: Option<FieldViolation>) -> anyhow::Error {
    match violation {
        Some(FieldViolation { field, description }) => anyhow!("{field}: {description}"),
        None => anyhow!("the configuration is not valid"),
    }
}

/// A count that is absent if it is zero.
fn count(message: &Value, field: &str) -> anyhow::Result<u64> {
    Ok(message[field].as_str().map(str::parse).transpose()?.unwrap_or(0))
}

fn time(message: &Value, field: &str) -> anyhow::Result<Option<Timestamp>> {
    Ok(message[field].as_str().map(str::parse).transpose()?)
}
