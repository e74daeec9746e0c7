//! The run of one trial.

use tunesmith_domain::{Study, Trial};

use super::fields::{milliseconds, trial_identity, trial_parameters, trial_run_name, trial_state, trial_status};
use super::history::History;
use super::messages::{Batch, Entry, Point, Run, RunStatus};
use super::names::Names;
use super::{MAX_ENTRIES, MAX_POINTS, RunIds, TrackingServer, entry};
use crate::destination::{View, report_time};
use crate::{SubjectKind, TrackingError};

/// Measurements read and sent together.
const PAGE: usize = 500;

pub(super) struct Parent<'a> {
    pub(super) server: &'a TrackingServer,
    pub(super) ids: &'a RunIds,
    pub(super) names: &'a Names,
    pub(super) parent: &'a str,
    pub(super) experiment_id: &'a str,
}

/// Run of a trial on the server, as last written.
#[derive(Debug)]
pub(super) struct TrialRun {
    id: String,
    status: Option<RunStatus>,
    /// Number of measurements that the run has.
    measurements: u64,
    tags: Vec<Entry>,
    has_parameters: bool,
    /// Metrics with points of another process, which were not compared yet.
    found_metrics: Vec<String>,
    /// Points of another process, beyond `measurements`.
    history: History,
}

impl TrialRun {
    /// A run that another process created, and may have filled.
    pub(super) fn found(run: Run) -> Self {
        Self {
            status: run.info.status(),
            id: run.info.run_id,
            measurements: 0,
            tags: Vec::new(),
            has_parameters: false,
            found_metrics: run.data.metrics.into_iter().map(|point| point.key).collect(),
            history: History::default(),
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Adds to the run of `trial` what it lacks, and creates it if there is none.
    pub(super) async fn put(
        known: &mut Option<Self>,
        to: &Parent<'_>,
        view: &View<'_>,
        study: &Study,
        trial: &Trial,
    ) -> Result<(), TrackingError> {
        let run = match known {
            Some(run) => run,
            None => {
                let start = milliseconds(trial.start_time.unwrap_or(trial.create_time));
                let tags = trial_identity(view.subject, trial, to.parent);
                let id = to.server.create_run(to.experiment_id, &trial_run_name(trial), start, &tags).await?;
                to.ids.set_trial(trial.id, &id);
                known.insert(Self {
                    id,
                    status: Some(RunStatus::Running),
                    measurements: 0,
                    tags: Vec::new(),
                    has_parameters: false,
                    found_metrics: Vec::new(),
                    history: History::default(),
                })
            }
        };
        run.send_tags(to, trial_state(study, trial, to.names)).await?;
        run.send_points(to, view, study, trial).await?;
        // A program with this run may log the same parameters, with another text: MLflow would refuse the second one,
        // and the program would fail. So those of a job follow the program's.
        if !run.has_parameters && (trial.state.is_final() || view.subject.kind == SubjectKind::Study) {
            run.send_parameters(to, trial_parameters(trial, to.names)).await?;
            run.has_parameters = true;
        }
        let status = trial_status(view.subject, trial);
        // A program that adopted the run has set a state of its own.
        if run.status != Some(status) || trial.state.is_final() {
            let end = trial.end_time.filter(|_| trial.state.is_final());
            to.server.update(&run.id, status, end.map(milliseconds)).await?;
            run.status = Some(status);
        }
        Ok(())
    }

    async fn send_tags(&mut self, to: &Parent<'_>, tags: Vec<Entry>) -> Result<(), TrackingError> {
        if tags != self.tags {
            let former = self.tags.iter().filter(|former| !tags.iter().any(|tag| tag.key == former.key));
            for former in former {
                to.server.delete_tag(&self.id, &former.key).await?;
            }
            to.server.log(&Batch { run_id: self.id.clone(), tags: tags.clone(), ..Batch::default() }).await?;
            self.tags = tags;
        }
        Ok(())
    }

    async fn send_points(
        &mut self,
        to: &Parent<'_>,
        view: &View<'_>,
        study: &Study,
        trial: &Trial,
    ) -> Result<(), TrackingError> {
        if !self.found_metrics.is_empty() {
            let metrics = self.found_metrics.iter().map(String::as_str);
            self.history = History::read(to.server, &self.id, metrics).await?;
            self.found_metrics.clear();
        }
        loop {
            let (measurements, next) = view.measurements(study, trial, self.measurements, PAGE).await?;
            if next == self.measurements {
                return Ok(());
            }
            let mut points = Vec::new();
            for measurement in &measurements {
                // Milliseconds of a time in seconds; the cast saturates.
                let timestamp = (report_time(trial, measurement) * 1000.0).round() as i64;
                points.extend(measurement.metrics.iter().map(|metric| Point {
                    key: to.names.key(&metric.metric),
                    value: metric.value,
                    timestamp,
                    step: measurement.step,
                }));
            }
            // Only what arrived counts: after an error, the same points are compared again.
            let mut history = self.history.clone();
            history.remove(&mut points);
            for chunk in points.chunks(MAX_POINTS) {
                let batch = Batch { run_id: self.id.clone(), metrics: chunk.to_vec(), ..Batch::default() };
                to.server.log(&batch).await?;
            }
            (self.measurements, self.history) = (next, history);
        }
    }

    /// Sends the parameters of the trial. One that the program logged with another text stays, and a tag has ours.
    async fn send_parameters(&self, to: &Parent<'_>, parameters: Vec<Entry>) -> Result<(), TrackingError> {
        for chunk in parameters.chunks(MAX_ENTRIES) {
            let batch = Batch { run_id: self.id.clone(), params: chunk.to_vec(), ..Batch::default() };
            match to.server.log(&batch).await {
                Err(TrackingError::Refused { code, .. }) if code == "INVALID_PARAMETER_VALUE" => {
                    self.send_one_by_one(to, chunk).await?;
                }
                sent => sent?,
            }
        }
        Ok(())
    }

    async fn send_one_by_one(&self, to: &Parent<'_>, parameters: &[Entry]) -> Result<(), TrackingError> {
        for parameter in parameters {
            let batch = Batch { run_id: self.id.clone(), params: vec![parameter.clone()], ..Batch::default() };
            match to.server.log(&batch).await {
                Err(TrackingError::Refused { code, message, .. }) if code == "INVALID_PARAMETER_VALUE" => {
                    tracing::debug!(
                        run = self.id,
                        parameter = parameter.key,
                        message,
                        "the program logged another value"
                    );
                    let tag = entry(format!("tunesmith.parameter.{}", parameter.key), &parameter.value);
                    to.server.log(&Batch { run_id: self.id.clone(), tags: vec![tag], ..Batch::default() }).await?;
                }
                sent => sent?,
            }
        }
        Ok(())
    }
}
