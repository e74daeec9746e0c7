//! Job or study with the state of its trials, for lists and pages.

use std::time::Duration;

use super::console::Console;
use super::errors::PageError;
use super::format::{Badge, Number, Span, Time};
use super::sparkline::Sparkline;
use super::subject::{Subject, Tab};
use tunesmith_algorithms::problem::{Goal, TrialId};
use tunesmith_domain::{Job, JobState, Study, StudyState};
use tunesmith_store::StoreError;
use tunesmith_studies::StudyFigures;

pub(crate) struct ListRow {
    pub(crate) is_study: bool,
    pub(crate) project: String,
    pub(crate) location: Option<String>,
    /// Name for display.
    pub(crate) name: String,
    /// Name in URLs, without project and location.
    pub(crate) id: String,
    pub(crate) address: String,
    pub(crate) badge: Badge,
    pub(crate) create_time: Time,
    pub(crate) run_time: Option<Span>,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) error_message: String,
    pub(crate) position: Option<usize>,
    pub(crate) reasons: Vec<String>,
    pub(crate) progress: Option<Progress>,
    pub(crate) best: Option<Best>,
    /// Best value so far, by trial number.
    pub(crate) course: Option<Sparkline>,
    pub(crate) is_ticked: bool,
}

impl ListRow {
    /// Name in URLs: `project/job` or `project/location/study`.
    pub(crate) fn key(&self) -> String {
        match &self.location {
            Some(location) => format!("{}/{location}/{}", self.project, self.id),
            None => format!("{}/{}", self.project, self.id),
        }
    }
}

pub(crate) struct Progress {
    pub(crate) figures: StudyFigures,
    pub(crate) max_trials: Option<u64>,
}

impl Progress {
    pub(crate) fn ended(&self) -> u64 {
        let ended = &self.figures.ended;
        ended.succeeded + ended.infeasible + ended.stopped_without_result
    }

    pub(crate) fn open(&self) -> u64 {
        self.figures.requested + self.figures.active + self.figures.stopping
    }
}

pub(crate) struct Best {
    pub(crate) trial: TrialId,
    pub(crate) metric: String,
    pub(crate) goal: &'static str,
    pub(crate) value: Option<Number>,
    /// Number of optimal trials; above one only with several metrics.
    pub(crate) count: usize,
}

/// Word for the direction in which a metric improves.
pub(crate) fn goal_word(goal: Goal) -> &'static str {
    match goal {
        Goal::Maximize => "maximize",
        Goal::Minimize => "minimize",
    }
}

impl Console {
    /// Study of `job`; `None` if there is none or it is missing.
    pub(crate) async fn study_of(&self, job: &Job) -> Result<Option<Study>, PageError> {
        let Some(study) = &job.study else { return Ok(None) };
        match self.studies.study(study).await {
            Ok(study) => Ok(Some(study)),
            Err(tunesmith_studies::StudiesError::Store(StoreError::NotFound { .. })) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

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

    /// Course of the best result; `None` before the second trial. Costs no read beyond those for [`Self::best_of`].
    async fn course_of(&self, study: &Study) -> Result<Option<Sparkline>, PageError> {
        let best = self.studies.best_so_far(study).await?;
        Ok(Sparkline::stepped(best, format!("Best {} so far", study.problem.metrics()[0].name)))
    }

    /// Progress of `subject`; `None` without trials.
    pub(crate) async fn progress_of(&self, subject: &Subject) -> Result<Option<Progress>, PageError> {
        let Some(study) = subject.study() else { return Ok(None) };
        Ok(Some(Progress { figures: self.studies.figures(study).await?, max_trials: subject.max_trials() }))
    }

    pub(crate) async fn row(&self, subject: &Subject) -> Result<ListRow, PageError> {
        let head = subject.head_without_actions(Tab::Summary);
        let (best, course) = match subject.study() {
            Some(study) => (self.best_of(study).await?, self.course_of(study).await?),
            None => (None, None),
        };
        let row = ListRow {
            is_study: subject.job().is_none(),
            project: head.project,
            location: head.location,
            name: head.name,
            id: subject.id().to_owned(),
            address: head.address,
            badge: head.badge,
            create_time: Time(subject.create_time()),
            run_time: None,
            labels: head.labels,
            error_message: String::new(),
            position: None,
            reasons: Vec::new(),
            progress: self.progress_of(subject).await?,
            best,
            course,
            is_ticked: false,
        };
        Ok(match subject {
            Subject::Job { job, .. } => {
                let (position, waiting) = self.jobs.wait_of(job);
                ListRow {
                    run_time: self.run_time(job),
                    error_message: job.error_message.clone(),
                    position,
                    reasons: waiting.into_iter().map(|waiting| waiting.reason).collect(),
                    ..row
                }
            }
            Subject::Study(study) if study.state == StudyState::Inactive => {
                ListRow { error_message: study.state_reason.clone(), ..row }
            }
            Subject::Study(study) if study.state_reason.is_empty() => row,
            Subject::Study(study) => ListRow { reasons: vec![study.state_reason.clone()], ..row },
        })
    }

    /// Run time of `job` so far, or in total.
    pub(crate) fn run_time(&self, job: &Job) -> Option<Span> {
        let end = job.end_time.unwrap_or_else(|| self.clock.now());
        let span = Span::between(job.start_time?, end);
        // Fractions of a second would flicker.
        Some(if job.state == JobState::Running { Span(Duration::from_secs(span.0.as_secs())) } else { span })
    }
}
