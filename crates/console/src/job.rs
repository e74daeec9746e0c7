//! The summary of a job.

use askama::Template;
use axum::extract::{Path, State};
use axum::http::request::Parts;
use axum::response::Response;

use super::errors::PageError;
use super::format::{Badge, Number, Span, Time, TrialLink, Value};
use super::frame::{Frame, Section};
use super::router::{Console, Visit, rendered};
use super::subject::{Head, Subject, Tab, job_call};
use super::summary::{Best, Progress, goal_word, job_address};
use super::trials::parameter_names;
use tunesmith_domain::{Study, Trial};

/// Maximum number of listed optimal trials.
const MOST_OPTIMAL: usize = 10;

#[derive(Template)]
#[template(path = "job.html")]
struct JobPage {
    frame: Frame,
    head: Head,
    summary: Summary,
}

/// What the summary of a job shows.
pub(crate) struct Summary {
    /// The address of the page of the job; `None` if trials are not linked.
    pub(crate) address: Option<String>,
    pub(crate) badge: Badge,
    pub(crate) error_message: String,
    pub(crate) create_time: Time,
    pub(crate) start_time: Option<Time>,
    pub(crate) end_time: Option<Time>,
    pub(crate) run_time: Option<Span>,
    pub(crate) position: Option<usize>,
    pub(crate) reasons: Vec<String>,
    pub(crate) study: Option<StudyPart>,
}

/// What the summary shows about the study of the job.
pub(crate) struct StudyPart {
    pub(crate) metrics: Vec<MetricRow>,
    pub(crate) progress: Progress,
    pub(crate) best: Option<Best>,
    pub(crate) optimal: Vec<OptimalRow>,
    pub(crate) names: Vec<String>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) saved_time: Option<Span>,
    pub(crate) algorithm: &'static str,
    pub(crate) seed: u64,
}

pub(crate) struct MetricRow {
    pub(crate) name: String,
    pub(crate) goal: &'static str,
}

pub(crate) struct OptimalRow {
    pub(crate) number: u64,
    pub(crate) values: Vec<Option<Number>>,
    pub(crate) parameters: Vec<Option<Value>>,
}

/// Something that a person should know about a study, and what to do.
pub(crate) struct Finding {
    pub(crate) badge: &'static str,
    pub(crate) class: &'static str,
    pub(crate) text: String,
    pub(crate) advice: &'static str,
}

pub(crate) async fn page(
    State(console): State<Console>,
    Path((project, job)): Path<(String, String)>,
    parts: Parts,
) -> Response {
    let call = job_call("console.job", &project, &job);
    console.show(call, parts, async move |console, visit| summary(console, visit, &project, &job).await).await
}

async fn summary(console: Console, visit: Visit, project: &str, job: &str) -> Result<Response, PageError> {
    let subject = console.subject(project, job).await?;
    let page = JobPage {
        frame: Frame::new(job, Section::Jobs, &visit.visitor, &visit.parts),
        head: subject.head(&visit.visitor, Tab::Summary),
        summary: Summary::of(&console, &subject, Some(job_address(&subject.job))).await?,
    };
    Ok(rendered(&page))
}

impl Summary {
    /// The summary of `subject`, with links to pages below `address`.
    pub(crate) async fn of(console: &Console, subject: &Subject, address: Option<String>) -> Result<Self, PageError> {
        let Subject { job, study } = subject;
        let (position, waiting) = console.jobs.wait_of(job);
        Ok(Self {
            address,
            badge: job.state.into(),
            error_message: job.error_message.clone(),
            create_time: Time(job.create_time),
            start_time: job.start_time.map(Time),
            end_time: job.end_time.map(Time),
            run_time: console.run_time(job),
            position,
            reasons: waiting.into_iter().map(|waiting| waiting.reason).collect(),
            study: match study {
                Some(study) => Some(study_part(console, subject, study).await?),
                None => None,
            },
        })
    }

    /// The number of a trial after `word`, as a link if trials are linked.
    pub(crate) fn trial(&self, number: impl std::fmt::Display, word: &str) -> TrialLink {
        let text = format!("{word}{number}");
        TrialLink { address: self.address.as_ref().map(|address| format!("{address}/trials/{number}")), text }
    }
}

async fn study_part(console: &Console, subject: &Subject, study: &Study) -> Result<StudyPart, PageError> {
    let progress = console.progress_of(&subject.job, study).await?;
    let best = console.best_of(study).await?;
    let optimal = console.studies.optimal_trials(study).await?;
    let optimal = console.studies.trials_numbered(&study.id, optimal.into_iter().take(MOST_OPTIMAL)).await?;
    let metrics = study.problem.metrics();
    let rows = metrics.iter().map(|metric| MetricRow { name: metric.name.clone(), goal: goal_word(metric.goal) });
    let names = parameter_names(study);
    let row = |trial: &Trial| OptimalRow {
        number: trial.id.0,
        values: metrics
            .iter()
            .map(|metric| trial.final_measurement.as_ref()?.value(&metric.name).map(Number))
            .collect(),
        parameters: names.iter().map(|name| trial.parameters.get(name).cloned().map(Value)).collect(),
    };
    Ok(StudyPart {
        metrics: rows.collect(),
        findings: findings(&progress),
        saved_time: progress.figures.ended.saved_time().map(Span),
        optimal: optimal.iter().map(row).collect(),
        best,
        progress,
        names,
        algorithm: study.algorithm.as_str(),
        seed: study.seed,
    })
}

/// What the results of the trials show about the job.
fn findings(progress: &Progress) -> Vec<Finding> {
    let ended = &progress.figures.ended;
    let mut findings = Vec::new();
    let mut add = |badge, class, text, advice| findings.push(Finding { badge, class, text, advice });
    let all = progress.ended();
    if ended.infeasible > 0 {
        let share = ended.infeasible as f64 / all.max(1) as f64;
        let class = if share >= 0.2 { "is-bad" } else { "is-ending" };
        let text = format!("{} of {all} trials have no usable result.", ended.infeasible);
        add("Failures", class, text, "The reasons are below. Read the log of one of these trials.");
    }
    if ended.succeeded > 0 && ended.finite == 0 {
        let text = "No trial has a finite result.".to_owned();
        add(
            "Objective",
            "is-bad",
            text,
            "The trainer reports NaN or infinity: look for a division by zero or a diverging loss.",
        );
    }
    if let Some((low, high)) = ended.range
        && ended.finite >= 5
        && high - low <= 1e-9 * low.abs().max(high.abs())
    {
        let text = format!("All {} results are equal.", ended.finite);
        add(
            "Objective",
            "is-bad",
            text,
            "The metric does not depend on the parameters: check that the trainer reads its arguments.",
        );
    }
    if ended.duplicates > 0 {
        let text = format!("{} of {all} trials repeat the parameters of another one.", ended.duplicates);
        add(
            "Duplicates",
            "is-ending",
            text,
            "A small search space is exhausted, or the trials were given by hand. Lower maxTrials or widen the ranges.",
        );
    }
    if ended.lost_attempts > 0 {
        let text = format!("{} attempts were lost or preempted, and were run again.", ended.lost_attempts);
        add(
            "Lost attempts",
            "is-ending",
            text,
            "Machines or supervisors ended. The page of a trial lists its attempts.",
        );
    }
    findings
}

impl StudyPart {
    /// The states of the trials with their numbers, those without a trial left out.
    pub(crate) fn states(&self) -> Vec<(Badge, u64)> {
        use tunesmith_domain::TrialState;
        let figures = &self.progress.figures;
        let whole = figures.ended.succeeded.saturating_sub(figures.ended.stopped_early);
        let all = [
            (Badge::of_trial(TrialState::Active, false), figures.active),
            (Badge::of_trial(TrialState::Stopping, false), figures.stopping),
            (Badge::of_trial(TrialState::Requested, false), figures.requested),
            (Badge::of_trial(TrialState::Succeeded, false), whole),
            (Badge::of_trial(TrialState::Succeeded, true), figures.ended.stopped_early),
            (Badge::of_trial(TrialState::Infeasible, false), figures.ended.infeasible),
        ];
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}
