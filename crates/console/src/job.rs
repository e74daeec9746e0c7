//! Summary of a job, or of a study without one.

use askama::Template;
use axum::response::Response;

use super::actions::NewModel;
use super::best_trial::{ParameterLine, WIDE, lines};
use super::console::{Console, rendered};
use super::errors::PageError;
use super::explore::{address_of, read_ahead};
use super::failure::Failure;
use super::format::{Badge, Number, Span, Time, TrialLink, Value, encoded};
use super::frame::{Frame, Section};
use super::health::{Finding, findings, pace};
use super::subject::{Head, Named, Subject, Tab};
use super::summary::{Best, Progress, goal_word};
use super::trials::{Column, Row, parameter_names};
use super::visit::{Visit, Visitor};
use tunesmith_algorithms::problem::Goal;
use tunesmith_domain::{BatchPrediction, Job, JobState, Study, StudyState, Trial};

const MOST_OPTIMAL: usize = 10;

/// Maximum number of running trials with their latest values.
const MOST_RUNNING: usize = 8;

/// Minimum number of results for requesting a model.
const FEWEST_RESULTS: u64 = 4;

#[derive(Template)]
#[template(path = "job.html")]
struct JobPage {
    frame: Frame,
    head: Head,
    summary: Summary,
}

pub(crate) struct Summary {
    /// URL of the page; `None` if trials are not linked.
    pub(crate) address: Option<String>,
    pub(crate) badge: Badge,
    pub(crate) is_job: bool,
    pub(crate) error_message: String,
    pub(crate) create_time: Time,
    pub(crate) start_time: Option<Time>,
    pub(crate) end_time: Option<Time>,
    pub(crate) run_time: Option<Span>,
    pub(crate) position: Option<usize>,
    pub(crate) reasons: Vec<String>,
    /// Why it failed; `None` also in a report.
    pub(crate) failure: Option<Failure>,
    pub(crate) study: Option<StudyPart>,
    pub(crate) batch: Option<BatchPart>,
}

/// Maximum number of shown input paths of a batch prediction.
const MAX_PATHS: usize = 20;

/// Progress of a batch prediction.
pub(crate) struct BatchPart {
    pub(crate) predictions: u64,
    pub(crate) errors: u64,
    /// Folder of the predictions.
    pub(crate) output: String,
    /// Model, version, or folder of the model.
    pub(crate) model: String,
    /// Page of the model; `None` for a folder.
    pub(crate) page: Option<String>,
    pub(crate) input: Vec<String>,
}

impl BatchPart {
    fn of(prediction: &BatchPrediction) -> Self {
        let text = |field: &str| prediction.input[field].as_str().filter(|text| !text.is_empty());
        let model = ["modelName", "versionName", "uri"].into_iter().find_map(text).unwrap_or_default();
        let parts: Vec<&str> = model.split('/').collect();
        let page = match parts[..] {
            ["projects", project, "models", name] | ["projects", project, "models", name, "versions", _] => {
                Some(format!("/console/projects/{}/models/{}", encoded(project), encoded(name)))
            }
            _ => None,
        };
        let paths = prediction.input["inputPaths"].as_array().into_iter().flatten();
        Self {
            page,
            input: paths.filter_map(|path| path.as_str()).take(MAX_PATHS).map(str::to_owned).collect(),
            predictions: prediction.counts.predictions,
            errors: prediction.counts.errors,
            output: text("outputPath").unwrap_or_default().to_owned(),
            model: model.to_owned(),
        }
    }
}

pub(crate) struct StudyPart {
    /// Reason for the end of the study; empty while it runs.
    pub(crate) end_reason: String,
    /// Whether it ended with fewer trials than allowed.
    pub(crate) is_early: bool,
    pub(crate) metrics: Vec<MetricRow>,
    pub(crate) progress: Progress,
    pub(crate) best: Option<Best>,
    pub(crate) optimal: Vec<OptimalRow>,
    pub(crate) names: Vec<String>,
    /// Parameters of the best trial, one per line; empty unless there are many.
    pub(crate) best_lines: Vec<ParameterLine>,
    /// Columns and rows of running trials with measurements.
    pub(crate) running: (Vec<Column>, Vec<Row>),
    pub(crate) findings: Vec<Finding>,
    pub(crate) left: Option<u64>,
    /// Estimated time for the remaining trials at the current pace.
    pub(crate) time_left: Option<Span>,
    /// Number of further failed trials that fail the job.
    pub(crate) failures_left: Option<u64>,
    /// URL of the view with model predictions; `None` with too few results.
    pub(crate) model: Option<String>,
    pub(crate) picture: Picture,
    /// URL of the view of the source studies; `None` without any.
    pub(crate) sources: Option<String>,
    pub(crate) algorithm: &'static str,
    pub(crate) seed: u64,
}

/// Data of the scripts that draw the results.
pub(crate) struct Picture {
    /// URL of the study in the API.
    pub(crate) study: String,
    pub(crate) metric: String,
    /// Order of the metric with the best value first: `asc` or `desc`.
    pub(crate) direction: &'static str,
    /// Parameter names as JSON.
    pub(crate) parameters: String,
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

pub(crate) async fn show(console: Console, visit: Visit, named: Named, (): ()) -> Result<Response, PageError> {
    let subject = console.subject(&named).await?;
    if let Some(study) = subject.study() {
        read_ahead(&console, study);
    }
    let summary = Summary::of(&console, &subject, Some(subject.address())).await?;
    let mut head = subject.head(&visit.visitor, Tab::Summary);
    if let Some(job) = subject.job() {
        head.job_actions.new_model = new_model(job, &summary, &visit.visitor);
    }
    let page = JobPage { frame: visit.frame(subject.name(), Section::Jobs), head, summary };
    Ok(rendered(&page))
}

/// Form for a model of what `job` has trained so far.
fn new_model(job: &Job, summary: &Summary, visitor: &Visitor) -> Option<NewModel> {
    let option = |value: &str, text: String| (value.to_owned(), text);
    let trials = match &summary.study {
        Some(study) => {
            let best = study.best.as_ref()?.trial;
            let mut trials = vec![option("best", format!("trial {best}, the best result"))];
            if study.model.is_some() {
                trials.push(option("recommended", "recommended by the model of the results".to_owned()));
            }
            trials
        }
        None if job.state == JobState::Succeeded => Vec::new(),
        None => return None,
    };
    NewModel::of(job, trials, visitor)
}

impl Summary {
    /// Summary of `subject`, with links to pages below `address`.
    pub(crate) async fn of(console: &Console, subject: &Subject, address: Option<String>) -> Result<Self, PageError> {
        let study = match subject.study() {
            Some(study) => Some(study_part(console, subject, study).await?),
            None => None,
        };
        let has_only_failures = study.as_ref().is_some_and(|study: &StudyPart| {
            let ended = &study.progress.figures.ended;
            ended.infeasible > 0 && ended.succeeded == 0
        });
        let failure = match &address {
            Some(_) => console.failure_of(subject, has_only_failures).await?,
            None => None,
        };
        let summary = Self {
            address,
            badge: subject.head_without_actions(Tab::Summary).badge,
            is_job: subject.job().is_some(),
            error_message: String::new(),
            create_time: Time(subject.create_time()),
            start_time: None,
            end_time: None,
            run_time: None,
            position: None,
            reasons: Vec::new(),
            failure,
            study,
            batch: None,
        };
        Ok(match subject {
            Subject::Job { job, .. } => {
                let (position, waiting) = console.jobs.wait_of(job);
                Self {
                    error_message: job.error_message.clone(),
                    batch: job.prediction.as_ref().map(BatchPart::of),
                    start_time: job.start_time.map(Time),
                    end_time: job.end_time.map(Time),
                    run_time: console.run_time(job),
                    position,
                    reasons: waiting.into_iter().map(|waiting| waiting.reason).collect(),
                    ..summary
                }
            }
            Subject::Study(study) if study.state == StudyState::Inactive => {
                Self { error_message: study.state_reason.clone(), ..summary }
            }
            Subject::Study(_) => summary,
        })
    }

    /// Trial number after `word`, linked if trials are.
    pub(crate) fn trial(&self, number: impl std::fmt::Display, word: &str) -> TrialLink {
        let text = format!("{word}{number}");
        TrialLink { address: self.address.as_ref().map(|address| format!("{address}/trials/{number}")), text }
    }
}

async fn study_part(console: &Console, subject: &Subject, study: &Study) -> Result<StudyPart, PageError> {
    let figures = console.studies.figures(study).await?;
    let progress = Progress { figures, max_trials: subject.max_trials() };
    let job = subject.job();
    let best = console.best_of(study).await?;
    let optimal = console.studies.optimal_trials(study).await?;
    let optimal = console.studies.trials_numbered(&study.id, optimal.into_iter().take(MOST_OPTIMAL)).await?;
    let metrics = study.problem.metrics();
    let rows = metrics.iter().map(|metric| MetricRow { name: metric.name.clone(), goal: goal_word(metric.goal) });
    let names = parameter_names(study);
    let is_wide = names.len() >= WIDE;
    let best_lines = optimal.first().filter(|_| is_wide).map(|best| lines(study, best)).unwrap_or_default();
    // A table of many parameters is too wide.
    let shown = if is_wide { Vec::new() } else { names };
    let row = |trial: &Trial| OptimalRow {
        number: trial.id.0,
        values: metrics
            .iter()
            .map(|metric| trial.final_measurement.as_ref()?.value(&metric.name).map(Number))
            .collect(),
        parameters: shown.iter().map(|name| trial.parameters.get(name).cloned().map(Value)).collect(),
    };
    let is_complete = study.state == StudyState::Completed;
    Ok(StudyPart {
        is_early: is_complete && progress.max_trials.is_some_and(|most| progress.ended() + progress.open() < most),
        end_reason: if is_complete { study.state_reason.clone() } else { String::new() },
        metrics: rows.collect(),
        findings: findings(&progress, &metrics[0].name),
        left: left(&progress, subject),
        time_left: job.and_then(|job| pace(job, &progress, console.clock.now())),
        failures_left: job.and_then(|job| failures_left(&progress, job)),
        model: model_address(study, &progress),
        picture: Picture::of(study),
        sources: (!study.sources().is_empty()).then(|| view_address(study, "sourceStudies")),
        optimal: optimal.iter().map(row).collect(),
        best,
        progress,
        best_lines,
        running: console.running_rows(study, MOST_RUNNING).await?,
        names: shown,
        algorithm: study.algorithm.as_str(),
        seed: study.seed,
    })
}

impl Picture {
    fn of(study: &Study) -> Self {
        let metric = &study.problem.metrics()[0];
        Self {
            study: address_of(study),
            metric: metric.name.clone(),
            direction: match metric.goal {
                Goal::Maximize => "desc",
                Goal::Minimize => "asc",
            },
            parameters: serde_json::json!(parameter_names(study)).to_string(),
        }
    }
}

/// Number of budgeted trials not started; `None` if the plan is unknown.
fn left(progress: &Progress, subject: &Subject) -> Option<u64> {
    let started = progress.ended() + progress.open();
    let is_final = match subject {
        Subject::Job { job, .. } => job.state.is_final(),
        Subject::Study(study) => study.state != StudyState::Active,
    };
    progress.max_trials.filter(|_| !is_final).map(|most| most.saturating_sub(started))
}

/// Number of further failed trials that fail the job; `None` if the service decides or the job has ended.
fn failures_left(progress: &Progress, job: &Job) -> Option<u64> {
    let most = job.plan.as_ref().ok().map(|plan| plan.max_failed_trials).filter(|most| *most > 0)?;
    (!job.state.is_final()).then(|| most.saturating_sub(progress.figures.ended.infeasible))
}

/// URL of the view with model predictions.
fn model_address(study: &Study, progress: &Progress) -> Option<String> {
    (progress.figures.ended.finite >= FEWEST_RESULTS).then(|| view_address(study, "trust"))
}

fn view_address(study: &Study, view: &str) -> String {
    format!("{}/views/{view}", address_of(study))
}

impl StudyPart {
    /// Findings that need attention, or those that do not.
    pub(crate) fn findings(&self, is_good: bool) -> Vec<&Finding> {
        self.findings.iter().filter(|finding| (finding.class == "is-good") == is_good).collect()
    }

    /// Reasons of failed trials, without one that `known` states.
    pub(crate) fn reasons(&self, known: &str) -> Vec<(&String, &u64)> {
        let reasons = &self.progress.figures.ended.reasons;
        let is_new = |(reason, _): &(&String, &u64)| {
            reason.is_empty() || !(known.contains(reason.as_str()) || !known.is_empty() && reason.contains(known))
        };
        reasons.iter().filter(is_new).collect()
    }

    /// Number of trials by state, omitting states without any.
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
            (Badge::of_trial(TrialState::Infeasible, true), figures.ended.stopped_without_result),
            (Badge::of_trial(TrialState::Infeasible, false), figures.ended.infeasible),
        ];
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}
