//! A job and what its trials amount to, as lists and pages show it.

use std::time::Duration;

use super::errors::PageError;
use super::format::{Badge, Number, Span, Time};
use super::router::Console;
use tunesmith_algorithms::problem::{Goal, TrialId};
use tunesmith_domain::{Job, JobState, Study};
use tunesmith_service::studies::StudyFigures;
use tunesmith_store::StoreError;

/// A job in a list.
pub(crate) struct JobRow {
    pub(crate) project: String,
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) badge: Badge,
    pub(crate) create_time: Time,
    /// How long it has run.
    pub(crate) run_time: Option<Span>,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) error_message: String,
    pub(crate) position: Option<usize>,
    pub(crate) reasons: Vec<String>,
    pub(crate) progress: Option<Progress>,
    pub(crate) best: Option<Best>,
    /// Whether it is ticked to be compared.
    pub(crate) is_ticked: bool,
}

impl JobRow {
    /// The name of the job in addresses.
    pub(crate) fn key(&self) -> String {
        format!("{}/{}", self.project, self.name)
    }
}

/// How far a job is with its trials.
pub(crate) struct Progress {
    pub(crate) figures: StudyFigures,
    pub(crate) max_trials: Option<u64>,
}

impl Progress {
    /// Number of trials that have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.figures.ended.succeeded + self.figures.ended.infeasible
    }

    /// Number of trials that have not ended.
    pub(crate) fn open(&self) -> u64 {
        self.figures.requested + self.figures.active + self.figures.stopping
    }
}

/// The best result so far.
pub(crate) struct Best {
    pub(crate) trial: TrialId,
    pub(crate) metric: String,
    pub(crate) goal: &'static str,
    pub(crate) value: Option<Number>,
    /// Number of optimal trials, more than one with several metrics only.
    pub(crate) count: usize,
}

/// The word for the direction in which a metric improves.
pub(crate) fn goal_word(goal: Goal) -> &'static str {
    match goal {
        Goal::Maximize => "maximize",
        Goal::Minimize => "minimize",
    }
}

/// The address of the page of a job.
pub(crate) fn job_address(job: &Job) -> String {
    let (project, id) = job.id.parts();
    format!("/console/projects/{project}/jobs/{id}")
}

impl Console {
    /// The study of `job`; `None` if it has none, or if it is missing.
    pub(crate) async fn study_of(&self, job: &Job) -> Result<Option<Study>, PageError> {
        let Some(study) = &job.study else { return Ok(None) };
        match self.studies.study(study).await {
            Ok(study) => Ok(Some(study)),
            Err(tunesmith_service::studies::StudiesError::Store(StoreError::NotFound { .. })) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The best result of `study` so far.
    pub(crate) async fn best_of(&self, study: &Study) -> Result<Option<Best>, PageError> {
        let optimal = self.studies.optimal_trials(study).await?;
        let Some(first) = optimal.first() else { return Ok(None) };
        let metric = &study.problem.metrics()[0];
        let trials = self.studies.trials_numbered(&study.id, [*first]).await?;
        let measurement = trials.first().and_then(|trial| trial.final_measurement.as_ref());
        Ok(Some(Best {
            trial: *first,
            metric: metric.name.clone(),
            goal: goal_word(metric.goal),
            value: measurement.and_then(|measurement| measurement.value(&metric.name)).map(Number),
            count: optimal.len(),
        }))
    }

    /// How far `job` with `study` is.
    pub(crate) async fn progress_of(&self, job: &Job, study: &Study) -> Result<Progress, PageError> {
        let figures = self.studies.figures(study).await?;
        Ok(Progress { figures, max_trials: job.plan.as_ref().ok().map(|plan| plan.max_trials) })
    }

    /// The row of `job`.
    pub(crate) async fn row(&self, job: &Job) -> Result<JobRow, PageError> {
        let (project, name) = job.id.parts();
        let (position, waiting) = self.jobs.wait_of(job);
        let (mut progress, mut best) = (None, None);
        if let Some(study) = self.study_of(job).await? {
            progress = Some(self.progress_of(job, &study).await?);
            best = self.best_of(&study).await?;
        }
        Ok(JobRow {
            project: project.to_owned(),
            name: name.to_owned(),
            address: job_address(job),
            badge: job.state.into(),
            create_time: Time(job.create_time),
            run_time: self.run_time(job),
            labels: job.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
            error_message: job.error_message.clone(),
            position,
            reasons: waiting.into_iter().map(|waiting| waiting.reason).collect(),
            progress,
            best,
            is_ticked: false,
        })
    }

    /// How long `job` runs, or has run.
    pub(crate) fn run_time(&self, job: &Job) -> Option<Span> {
        let end = job.end_time.unwrap_or_else(|| self.clock.now());
        let span = Span::between(job.start_time?, end);
        // The fractions of a second of a running time only make it restless.
        Some(if job.state == JobState::Running { Span(Duration::from_secs(span.0.as_secs())) } else { span })
    }
}
