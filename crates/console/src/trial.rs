//! Trial page: parameters, curve, logs, attempts and origin.

use std::sync::Arc;

use askama::Template;
use axum::extract::RawQuery;
use axum::response::Response;

use super::actions::{NewModel, TrialActions};
use super::artifacts::ArtifactList;
use super::beside::Beside;
use super::console::{Console, rendered};
use super::curve::Curve;
use super::errors::PageError;
use super::format::{Badge, Number, Span, Time, Value};
use super::frame::{Frame, Section};
use super::logs::LogPart;
use super::query;
use super::subject::{Head, Named, Tab};
use super::summary::goal_word;
use super::trials::{self, Selection};
use super::visit::Visit;
use tunesmith_algorithms::problem::{AlgorithmName, Step, TrialId};
use tunesmith_domain::{AttemptLocation, Measurement, Trial, TrialState};

/// Number of measurements on a page of their table.
const PAGE_SIZE: usize = 15;

/// Number of metrics above which those that do not belong to the study are left out.
const MOST_METRICS: usize = 12;

#[derive(Template)]
#[template(path = "trial.html")]
struct TrialPage {
    frame: Frame,
    head: Head,
    number: u64,
    badge: Badge,
    reason: Option<String>,
    has_failed: bool,
    /// Reason why its program has not started.
    waiting: Option<String>,
    fallback_reason: Option<String>,
    results: Vec<(String, &'static str, Option<Number>)>,
    constraints: Vec<(String, Option<Number>)>,
    parameters: Vec<(String, Value)>,
    /// Parameters as trainer flags.
    flags: Vec<String>,
    origin: String,
    /// Parameters whose values the caller fixed, separated by commas.
    fixed_parameters: String,
    attempts: u64,
    lost: u64,
    preempted: u64,
    places: Vec<LocationRow>,
    client: String,
    lease_end: Option<Time>,
    create_time: Time,
    start_time: Option<Time>,
    end_time: Option<Time>,
    run_time: Option<Span>,
    /// Metrics in event files of several folders: name, selected folder, other folders.
    metric_folders: Vec<(String, String, String)>,
    curves: Vec<Curve>,
    columns: Vec<String>,
    measurements: Measurements,
    /// Whether the service runs the trial's program.
    has_output: bool,
    logs: Vec<LogPart>,
    /// `None` without a job-dir.
    artifacts: Option<ArtifactList>,
    actions: TrialActions,
    note: Option<NoteText>,
    beside: Beside,
}

struct NoteText {
    text: String,
    author: Option<String>,
    time: Time,
}

struct LocationRow {
    attempt: u64,
    executor: Option<String>,
    /// Nodes, with the tasks of their replicas.
    nodes: Vec<(String, String)>,
}

impl From<&AttemptLocation> for LocationRow {
    fn from(place: &AttemptLocation) -> Self {
        let tasks = |name: &str| {
            let here = place.nodes.iter().filter(|node| node.node == name);
            here.filter_map(|node| node.task.clone()).collect::<Vec<_>>().join(", ")
        };
        let nodes = place.node_names().into_iter().map(|name| (name.to_owned(), tasks(name)));
        Self { attempt: place.attempt, executor: place.executor.clone(), nodes: nodes.collect() }
    }
}

/// A page of the measurements, the latest first.
struct Measurements {
    rows: Vec<MeasurementRow>,
    /// Whether any measurement states its time since the start of the trial.
    has_times: bool,
    total: usize,
    /// Number of later measurements.
    offset: usize,
    /// Offsets of the pages with later and earlier measurements.
    later: Option<usize>,
    earlier: Option<usize>,
}

impl Measurements {
    fn of(measurements: &[Measurement], columns: &[String], offset: usize) -> Self {
        let row = |measurement: &Measurement| MeasurementRow {
            step: measurement.step,
            elapsed: measurement.elapsed_secs.map(Number),
            values: columns.iter().map(|name| measurement.value(name).map(Number)).collect(),
        };
        let total = measurements.len();
        let rows: Vec<MeasurementRow> = measurements.iter().rev().skip(offset).take(PAGE_SIZE).map(row).collect();
        let end = offset + rows.len();
        Self {
            has_times: measurements.iter().any(|measurement| measurement.elapsed_secs.is_some()),
            total,
            offset,
            later: (offset > 0).then(|| offset.min(total).saturating_sub(PAGE_SIZE)),
            earlier: (end < total).then_some(end),
            rows,
        }
    }
}

struct MeasurementRow {
    step: i64,
    elapsed: Option<Number>,
    values: Vec<Option<Number>>,
}

/// Row of `metric`, which event files in `folders` contain.
fn metric_folder(metric: &str, folders: &[Arc<str>]) -> Option<(String, String, String)> {
    let (taken, others) = folders.split_first()?;
    Some((metric.to_owned(), taken.to_string(), others.join(", ")))
}

/// Number of later measurements, by the query string.
fn offset(query: &str) -> Result<usize, PageError> {
    let given = query::pairs(query).find(|(name, _)| name == "measurements");
    given.map_or(Ok(0), |(name, value)| trials::number(&name, &value))
}

pub(crate) async fn show(
    console: Console,
    visit: Visit,
    named: Named,
    RawQuery(query): RawQuery,
) -> Result<Response, PageError> {
    let number = named.trial_number()?;
    let query = query.unwrap_or_default();
    let (offset, selection) = (offset(&query)?, Selection::of(&query)?);
    let subject = console.subject(&named).await?;
    let study = subject.trials()?;
    let trial = console.studies.trial(&study.id, TrialId(number)).await?;
    let beside = console.beside(study, &selection, trial.id).await?;
    let measurements = console.studies.measurements(&study.id, &trial).await?;
    let value = |name: &str| trial.final_measurement.as_ref()?.value(name).map(Number);
    let metrics = study.problem.metrics();
    let mut columns: Vec<String> = metrics
        .iter()
        .map(|metric| metric.name.clone())
        .chain(study.problem.constraints().iter().map(|constraint| constraint.name.clone()))
        .collect();
    // Programs may report more than the metrics of the study.
    for entry in measurements.iter().flat_map(|measurement| &measurement.metrics) {
        if columns.len() < MOST_METRICS && !columns.contains(&entry.metric) {
            columns.push(entry.metric.clone());
        }
    }
    let now = console.clock.now();
    let mut head = subject.head(&visit.visitor, Tab::Trials);
    if let Some(job) = subject.job().filter(|_| trial.state == TrialState::Succeeded) {
        let this = vec![(number.to_string(), format!("trial {number}"))];
        head.job_actions.new_model = NewModel::of(job, this, &visit.visitor);
    }
    let page = TrialPage {
        frame: visit.frame(format!("Trial {number} of {}", subject.name()), Section::Jobs),
        head,
        number,
        badge: Badge::of_trial(trial.state, trial.stopped_early),
        reason: trial.infeasible_reason.clone(),
        has_failed: trial.has_failed(),
        waiting: console.jobs.waiting_reason(&study.id, trial.id),
        fallback_reason: trial.fallback_reason.clone(),
        results: metrics
            .iter()
            .map(|metric| (metric.name.clone(), goal_word(metric.goal), value(&metric.name)))
            .collect(),
        constraints: study
            .problem
            .constraints()
            .iter()
            .map(|constraint| (constraint.name.clone(), value(&constraint.name)))
            .collect(),
        parameters: trials::parameter_names(study)
            .into_iter()
            .filter_map(|name| trial.parameters.get(&name).cloned().map(|value| (name, Value(value))))
            .collect(),
        flags: flags(&trial),
        origin: trial.origin.map_or_else(|| "A user".to_owned(), |origin| origin_text(origin.algorithm, origin.step)),
        fixed_parameters: trial.fixed_parameters.join(", "),
        attempts: trial.attempt,
        lost: trial.lost_attempts,
        preempted: trial.preempted_attempts,
        places: trial.places.iter().rev().map(LocationRow::from).collect(),
        client: trial.client_id.clone(),
        lease_end: trial.lease.map(|lease| Time(lease.deadline)),
        create_time: Time(trial.create_time),
        start_time: trial.start_time.map(Time),
        end_time: trial.end_time.map(Time),
        run_time: trial.start_time.map(|start| Span::between(start, trial.end_time.unwrap_or(now))),
        metric_folders: trial
            .metric_folders
            .ambiguous()
            .filter_map(|(metric, folders)| metric_folder(metric, folders))
            .collect(),
        curves: columns.iter().filter_map(|name| Curve::of(name, &measurements)).collect(),
        measurements: Measurements::of(&measurements, &columns, offset),
        columns,
        logs: match subject.job() {
            Some(job) => console.logs(&job.id, Some(number)).await?,
            None => Vec::new(),
        },
        artifacts: match subject.job() {
            Some(job) => console.artifacts(&job.id, Some(number)).await?,
            None => None,
        },
        has_output: subject.job().is_some(),
        actions: match subject.job() {
            Some(job) => TrialActions::of_job(job, &trial, &visit.visitor),
            None => TrialActions::of(study, &trial, &visit.visitor),
        },
        note: trial.note().map(|note| NoteText {
            text: note.text.clone(),
            author: note.author.clone(),
            time: Time(note.time),
        }),
        beside,
    };
    Ok(rendered(&page))
}

impl TrialPage {
    /// Address of the page of measurements after the `offset` latest ones.
    fn measurements_from(&self, offset: &usize) -> String {
        let list = if self.beside.query.is_empty() { "" } else { "&" };
        format!("{}/trials/{}?measurements={offset}{list}{}", self.head.address, self.number, self.beside.query)
    }
}

/// Parameters as trainer flags, quoted for a shell.
fn flags(trial: &Trial) -> Vec<String> {
    trial.parameters.iter().map(|(name, value)| shell_word(&format!("--{name}={value}"))).collect()
}

pub(crate) fn shell_word(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_=./:,+@%".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

fn origin_text(algorithm: AlgorithmName, step: Option<Step>) -> String {
    let algorithm = match algorithm {
        AlgorithmName::GaussianProcessBandit => "Gaussian process",
        AlgorithmName::TreeStructuredParzenEstimator => "Tree-structured Parzen estimator",
        AlgorithmName::CmaEs => "CMA-ES",
        AlgorithmName::RandomSearch => "Random search",
        AlgorithmName::QuasiRandomSearch => "Quasi-random search",
        AlgorithmName::GridSearch => "Grid search",
        AlgorithmName::InitialTrials => "Given with the study",
        AlgorithmName::Repeats => "Repetition of a leader with another seed or fold",
    };
    let step = match step {
        None => return algorithm.to_owned(),
        Some(Step::Start) => "initial design: there are too few trials for a model",
        Some(Step::SourceStudies) => "the best point of the source studies",
        Some(Step::Confirmation) => "the neighbour of a trial whose result is too good to be true",
        Some(Step::TrustRegion) => "the best expected improvement near the best trials",
        Some(Step::WholeSpace) => "the best expected improvement in the whole space",
        Some(Step::Model) => "a draw from the model",
        Some(Step::Unused) => "a point that was not used yet",
    };
    format!("{algorithm}: {step}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tunesmith_domain::ReportKey;

    #[test]
    fn measurements_are_paged_from_the_latest_one() {
        let measurement = |step| Measurement {
            step,
            wall_time_secs: 0.0,
            elapsed_secs: None,
            key: ReportKey::Http,
            metrics: Vec::new(),
        };
        let all: Vec<Measurement> = (1..=40).map(measurement).collect();
        let page = |offset| Measurements::of(&all, &[], offset);
        let steps = |page: &Measurements| (page.rows.first().map(|row| row.step), page.rows.len());
        let [first, second, last, beyond] = [0, 15, 30, 100].map(page);
        assert_eq!((steps(&first), first.later, first.earlier), ((Some(40), 15), None, Some(15)));
        assert_eq!((steps(&second), second.later, second.earlier), ((Some(25), 15), Some(0), Some(30)));
        assert_eq!((steps(&last), last.later, last.earlier), ((Some(10), 10), Some(15), None));
        assert_eq!((steps(&beyond), beyond.later, beyond.earlier), ((None, 0), Some(25), None));
        assert_eq!(offset("a=1&measurements=15").unwrap(), 15);
        assert!(offset("measurements=-1").is_err() && !first.has_times);
    }

    #[test]
    fn flags_are_words_of_a_shell() {
        assert_eq!(shell_word("--lr=1e-3"), "--lr=1e-3");
        assert_eq!(shell_word("--act=it's $(x)"), r"'--act=it'\''s $(x)'");
    }
}
