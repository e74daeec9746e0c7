//! Jobs and studies to export, from a data folder or a server.

use std::sync::Arc;

use anyhow::Context;
use jiff::Timestamp;

use super::folder::Purpose;
use super::job_name::find_job;
use super::study_target::StudyArgs;
use super::target::Service;
use crate::cli::study_view::StudyView;
use crate::cli::trial_view::TrialView;
use tunesmith_api::ai_platform::TrainingInput;
use tunesmith_api::ai_platform::job::JobResource;
use tunesmith_api::ai_platform::optimizer::{MeasurementMessage, StudyMessage, TrialMessage};
use tunesmith_api::ai_platform::proto_json::known;
use tunesmith_domain::{
    JobId, JobState, Measurement, MetricFolders, MetricValue, ReportKey, Study, StudyFields, StudyId, Trial,
    TrialFields, TrialId, TrialNote,
};
use tunesmith_store::{CopiedRecords, MemoryStore, OptionalExtension, Store};
use tunesmith_tracking::{Subject, SubjectKind, job_outcome};

/// A job or study, in a store with its trials.
pub(super) struct Exported {
    pub(super) subject: Subject,
    pub(super) project: String,
    pub(super) store: Arc<dyn Store>,
}

impl Exported {
    pub(super) async fn open(of: &StudyArgs) -> anyhow::Result<Self> {
        match of.job() {
            Some(job) => {
                let service = of.target().service_of(job, Purpose::Look).await?;
                Self::job(&service, job).await
            }
            None => {
                let service = of.target().service(Purpose::Look).await?;
                Self::study(&service, of.region(), of.study()).await
            }
        }
    }

    /// Such as `job census`.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.subject.kind.as_str(), self.subject.name)
    }

    async fn job(service: &Service, job: &JobId) -> anyhow::Result<Self> {
        let resource = find_job(service, job).await?.message;
        let id = JobId::new(service.project(), &resource.job_id)?;
        let project = id.parts().0.to_owned();
        if let Some(folder) = service.folder() {
            let subject = Subject::of_job(&folder.store().job(&id).await?);
            return Ok(Self { subject, project, store: folder.shared_store() });
        }
        let store = MemoryStore::new();
        let study = resource.training_output().is_hyperparameter_tuning_job.then(|| StudyId::from(&id));
        if let Some(study) = &study {
            let input: TrainingInput = known(resource.training_input.clone())?;
            fill(&store, service, StudyId::JOBS_LOCATION, study, Some(&input)).await?;
        }
        Ok(Self { subject: subject(&id, resource, study), project, store: Arc::new(store) })
    }

    async fn study(service: &Service, location: &str, name: &str) -> anyhow::Result<Self> {
        let id = StudyId::new(service.project(), location, name)?;
        let project = service.project().to_owned();
        if let Some(folder) = service.folder() {
            let found = folder.store().study(&id).await.optional()?;
            let study = found.with_context(|| format!("there is no study {name} at {location}"))?;
            return Ok(Self { subject: Subject::of_study(&study), project, store: folder.shared_store() });
        }
        let store = MemoryStore::new();
        fill(&store, service, location, &id, None).await?;
        Ok(Self { subject: Subject::of_study(&store.study(&id).await?), project, store: Arc::new(store) })
    }
}

fn subject(id: &JobId, resource: JobResource, study: Option<StudyId>) -> Subject {
    let max_trials = resource.training_input["hyperparameters"]["maxTrials"].as_u64();
    Subject {
        kind: SubjectKind::Job,
        id: id.to_string(),
        name: resource.job_id,
        created: resource.create_time,
        state: resource.state.to_string(),
        outcome: job_outcome(resource.state),
        is_cancelled: matches!(resource.state, JobState::Cancelling | JobState::Cancelled),
        reason: resource.error_message,
        start: resource.start_time,
        end: resource.end_time,
        labels: resource.labels,
        max_trials: max_trials.filter(|_| study.is_some()),
        study,
    }
}

/// Reads a study of a server with its trials into `store`.
async fn fill(
    store: &MemoryStore,
    service: &Service,
    location: &str,
    id: &StudyId,
    input: Option<&TrainingInput>,
) -> anyhow::Result<()> {
    let client = service.study(location, id.parts().2);
    let (message, list) = (client.get().await?.message, client.trials("").await?.message);
    let messages: Vec<TrialMessage> = list.trials.into_iter().map(|trial| trial.message).collect();
    let view = StudyView::of_messages(&message, input, messages.iter())?;
    let study = Box::new(study(id, &message, &view));
    store.add_copied(CopiedRecords::Study { study, summary: None }).await?;
    for ((revision, view), message) in (1..).zip(&view.trials).zip(&messages) {
        let trial = trial(revision, view, message);
        let measurements: Vec<Measurement> = message.measurements.iter().map(measurement).collect();
        let trial_id = trial.id;
        store.add_copied(CopiedRecords::Trials { study: id.clone(), trials: vec![trial] }).await?;
        let measurements = CopiedRecords::Measurements { study: id.clone(), trial: trial_id, first: 0, measurements };
        store.add_copied(measurements).await?;
    }
    Ok(())
}

fn study(id: &StudyId, message: &StudyMessage, view: &StudyView) -> Study {
    let last = view.trials.last().map_or(0, |trial| trial.id.0);
    Study::restore(StudyFields {
        algorithm: view.algorithm.clone(),
        seed: view.seed,
        state: view.state,
        state_reason: view.state_reason.clone(),
        next_trial_id: TrialId(last).offset(1),
        revision: view.trials.len() as u64,
        ..StudyFields::new(id.clone(), (*view.problem).clone(), message.create_time)
    })
}

/// Trial in `message`. Responses do not have all of its history: its attempts are those since its last retry.
fn trial(revision: u64, view: &TrialView, message: &TrialMessage) -> Trial {
    let count = |count: Option<tunesmith_api::ai_platform::Int64>| count.map_or(0, |count| count.0.unsigned_abs());
    let (lost, preempted) = (count(message.tunesmith.lost_attempts), count(message.tunesmith.preempted_attempts));
    let expired_leases = count(message.tunesmith.expired_leases);
    let start = message.start_time;
    Trial::restore(TrialFields {
        id: view.id,
        parameters: view.parameters.clone(),
        origin: view.origin,
        state: view.state,
        client_id: view.client_id.clone(),
        attempt: if start.is_some() { 1 + lost + preempted + expired_leases } else { 0 },
        lost_attempts: lost,
        preempted_attempts: preempted,
        lost_time: std::time::Duration::ZERO,
        places: Vec::new(),
        delivered: 0,
        lease: None,
        expired_leases,
        create_time: start.or(message.end_time).unwrap_or(Timestamp::UNIX_EPOCH),
        start_time: start,
        attempt_start_time: start,
        end_time: message.end_time,
        measurement_count: message.measurements.len() as u64,
        metric_folders: MetricFolders::default(),
        final_measurement: message.final_measurement.as_ref().map(measurement),
        infeasible_reason: view.infeasible_reason.clone(),
        stopped_early: view.stopped_early,
        predicted_final: None,
        fallback_reason: message.tunesmith.fallback_reason.clone(),
        fixed_parameters: view.fixed_parameters.clone(),
        request_keys: Vec::new(),
        metadata: Default::default(),
        last_note: message.tunesmith.note.as_ref().map(|note| TrialNote {
            text: note.text.clone(),
            author: note.author.clone(),
            time: note.update_time,
            version: 1,
        }),
        revision,
    })
}

/// Report in `message`, which has no time of the trainer's clock.
fn measurement(message: &MeasurementMessage) -> Measurement {
    let metrics = message.metrics.iter();
    Measurement {
        step: message.step_count.0,
        wall_time_secs: 0.0,
        elapsed_secs: message.elapsed_time.map(|time| time.0.as_secs_f64()),
        key: ReportKey::Http,
        metrics: metrics.map(|entry| MetricValue { metric: entry.metric.clone(), value: entry.value.0 }).collect(),
    }
}
