//! Workers page: running and waiting trials, utilization of the server, and lost time.

use std::cmp::Reverse;
use std::fmt::Write;
use std::time::Duration;

use askama::Template;
use axum::extract::Query;
use axum::response::Response;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::console::{Console, rendered};
use super::errors::PageError;
use super::format::{Number, Span, Time};
use super::frame::{Frame, Section};
use super::subject::job_address;
use super::visit::Visit;
use tunesmith_access::Permission;
use tunesmith_domain::{AttemptLocation, Job, JobState, Study, Trial, TrialState};
use tunesmith_studies::{most_at_once, running_at_once};

const BINS: usize = 120;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 150.0;

/// Maximum number of trials to read for one page view.
const MOST_TRIALS: u64 = 300_000;

const MOST_ROWS: usize = 100;

/// Selectable time spans, in hours.
const CHOICES: [(u32, &str); 3] = [(1, "1 hour"), (24, "24 hours"), (168, "7 days")];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Selection {
    hours: Option<u32>,
}

#[derive(Template)]
#[template(path = "workers.html")]
struct WorkersPage {
    frame: Frame,
    hours: u32,
    choices: [(u32, &'static str); 3],
    slots: Option<(usize, usize)>,
    queued: usize,
    running_trials: usize,
    /// Mean share of the job slots in use.
    utilisation: Option<Number>,
    lost_time: Span,
    lost_attempts: u64,
    charts: Vec<Chart>,
    running: Vec<RunningRow>,
    waiting: Vec<WaitingRow>,
    losses: Vec<LossRow>,
    /// Whether a known server runs any job.
    has_servers: bool,
    /// Number of jobs omitted for having too many trials.
    left_out: usize,
    /// Number of omitted table rows.
    rows_left_out: usize,
}

struct Chart {
    title: &'static str,
    from: Time,
    to: Time,
    mean_exact: f64,
    mean: Number,
    highest: Number,
    /// `points` attributes of the polygons for means and maxima.
    means: String,
    most: String,
    /// Height of the capacity line, and the capacity.
    limit: Option<(f64, usize)>,
}

/// Running trial, or job that runs its program once.
struct RunningRow {
    job: JobLink,
    trial: Option<u64>,
    attempt: Option<u64>,
    what: &'static str,
    since: Option<Time>,
    ran: Option<Span>,
    /// Node or executor; empty if unknown.
    nodes: String,
    server: String,
}

struct WaitingRow {
    job: JobLink,
    /// `None` for trials not created yet, and for a job.
    trial: Option<u64>,
    /// Number of waiting trials; 0 for a job.
    trials: u64,
    reason: String,
    since: Time,
    waited: Span,
}

struct LossRow {
    job: JobLink,
    attempts: u64,
    time: Span,
    /// Lost share of the trials' run time, in percent.
    share: Option<Number>,
    server: String,
}

#[derive(Clone)]
struct JobLink {
    name: String,
    project: String,
    address: String,
}

pub(crate) async fn show(
    console: Console,
    visit: Visit,
    Query(Selection { hours }): Query<Selection>,
) -> Result<Response, PageError> {
    let hours = hours.unwrap_or(24);
    if !CHOICES.iter().any(|(choice, _)| *choice == hours) {
        let allowed = CHOICES.map(|(choice, _)| choice.to_string()).join(", ");
        return Err(PageError::Invalid(format!("hours is {hours}; allowed: {allowed}")));
    }
    let now = console.clock.now();
    let begin = now.checked_sub(SignedDuration::from_hours(i64::from(hours))).unwrap_or(Timestamp::MIN);
    let visitor = visit.visitor.clone();
    let is_wanted = move |job: Job| {
        let is_recent = !job.state.is_final() || job.end_time.is_some_and(|end| end >= begin);
        (is_recent && visitor.may_on(Permission::JobsGet, &job)).then_some(job)
    };
    let mut jobs = console.jobs.pick(is_wanted).await?;
    jobs.sort_by_key(|job| Reverse(job.create_time));
    let edges = edges(begin, now);
    let mut found = Found::default();
    for job in &jobs {
        console.look_at(job, now, edges[0], &mut found).await?;
    }
    let load = console.jobs.load();
    let spans = jobs.iter().filter_map(|job| {
        let start = job.start_time?;
        Some((seconds(start), seconds(job.end_time.unwrap_or(now).max(start))))
    });
    let spans_of_jobs: Vec<(f64, f64)> = spans.collect();
    let slots = load.slots.map(|(_, all)| all);
    let chart = |title, spans: &[(f64, f64)], limit| {
        let most = most_at_once(&edges, spans.iter().copied());
        Chart::new(title, &running_at_once(&edges, spans.iter().copied()), &most, limit, (begin, now))
    };
    let charts = vec![chart("Jobs at once", &spans_of_jobs, slots), chart("Trials at once", &found.trial_times, None)];
    let utilisation = slots.filter(|all| *all > 0).map(|all| Number(percent(charts[0].mean_exact / all as f64)));
    found.losses.sort_by_key(|row| Reverse((row.time.0, row.attempts)));
    let rows_left_out = [found.running.len(), found.waiting.len(), found.losses.len()]
        .map(|rows| rows.saturating_sub(MOST_ROWS))
        .iter()
        .sum();
    let page = WorkersPage {
        frame: visit.frame("Workers", Section::Workers),
        hours,
        choices: CHOICES,
        slots: load.slots,
        queued: load.queued.len(),
        running_trials: found.running.len(),
        utilisation,
        lost_time: Span(found.losses.iter().map(|row| row.time.0).sum::<Duration>()),
        lost_attempts: found.losses.iter().map(|row| row.attempts).sum(),
        charts,
        has_servers: found.has_servers,
        left_out: found.left_out,
        rows_left_out,
        running: found.running.into_iter().take(MOST_ROWS).collect(),
        waiting: found.waiting.into_iter().take(MOST_ROWS).collect(),
        losses: found.losses.into_iter().take(MOST_ROWS).collect(),
    };
    Ok(rendered(&page))
}

#[derive(Default)]
struct Found {
    running: Vec<RunningRow>,
    waiting: Vec<WaitingRow>,
    losses: Vec<LossRow>,
    has_servers: bool,
    /// Start and end times of trials.
    trial_times: Vec<(f64, f64)>,
    trials_read: u64,
    left_out: usize,
}

impl Console {
    /// Adds `job` to `found`, with its trials that ran at `begin` or later.
    async fn look_at(&self, job: &Job, now: Timestamp, begin: f64, found: &mut Found) -> Result<(), PageError> {
        let (project, name) = job.id.parts();
        let link = JobLink { name: name.to_owned(), project: project.to_owned(), address: job_address(job) };
        let owner = self.jobs.owner(&job.id).await?;
        found.has_servers |= owner.is_some();
        let server = owner.map(|owner| owner.name).unwrap_or_default();
        let study = self.study_of(job).await?;
        let open = match &study {
            Some(study) if !job.state.is_final() => self.studies.unfinished_trials(&study.id, MOST_ROWS).await?,
            _ => Vec::new(),
        };
        let waits = if job.state.is_final() { Vec::new() } else { self.jobs.waits(job, &open) };
        let is_waiting = |trial: &Trial| waits.iter().any(|waiting| waiting.trial == Some(trial.id));
        let ran = |since: Option<Timestamp>| since.map(|since| Span::between(since, now).whole());
        for trial in open.iter().filter(|trial| trial.start_time.is_some() && !is_waiting(trial)) {
            found.running.push(RunningRow {
                job: link.clone(),
                trial: Some(trial.id.0),
                attempt: Some(trial.attempt),
                what: if trial.state == TrialState::Stopping { "is being stopped" } else { "runs" },
                since: trial.attempt_start_time.map(Time),
                ran: ran(trial.attempt_start_time),
                nodes: nodes(trial),
                server: server.clone(),
            });
        }
        if study.is_none() && job.state == JobState::Running && waits.is_empty() {
            found.running.push(RunningRow {
                job: link.clone(),
                trial: None,
                attempt: None,
                what: "runs its program",
                since: job.start_time.map(Time),
                ran: ran(job.start_time),
                nodes: String::new(),
                server: server.clone(),
            });
        }
        found.waiting.extend(waits.into_iter().map(|waiting| WaitingRow {
            job: link.clone(),
            trial: waiting.trial.map(|trial| trial.0),
            trials: waiting.trials,
            reason: waiting.reason,
            since: Time(waiting.since),
            waited: Span::between(waiting.since, now).whole(),
        }));
        let Some(study) = study else { return Ok(()) };
        found.losses.extend(self.losses(&study, link, server).await?);
        let count = study.next_trial_id.0.saturating_sub(1);
        if found.trials_read.saturating_add(count) > MOST_TRIALS {
            found.left_out += 1;
            return Ok(());
        }
        found.trials_read += count;
        found.trial_times.extend(self.studies.running_times(&study, begin).await?);
        Ok(())
    }

    /// Losses of a job's study; `None` without any.
    async fn losses(&self, study: &Study, job: JobLink, server: String) -> Result<Option<LossRow>, PageError> {
        let figures = self.studies.figures(study).await?;
        let attempts = figures.ended.lost_attempts + figures.open_lost_attempts;
        let lost = figures.ended.lost_time + figures.open_lost_time;
        if attempts == 0 && lost.is_zero() {
            return Ok(None);
        }
        let all = figures.ended.time.as_secs_f64();
        let share = (all > 0.0).then(|| Number(percent(figures.ended.lost_time.as_secs_f64() / all)));
        Ok(Some(LossRow { job, attempts, time: Span(lost), share, server }))
    }
}

fn nodes(trial: &Trial) -> String {
    let current = trial.places.last().filter(|place| place.attempt == trial.attempt);
    let names = current.map(AttemptLocation::node_names).unwrap_or_default();
    match names.as_slice() {
        [first, second, third, rest @ ..] if !rest.is_empty() => {
            format!("{first}, {second}, {third} and {} more", rest.len())
        }
        names => names.join(", "),
    }
}

impl Chart {
    /// Chart of the mean and maximum per bin.
    fn new(
        title: &'static str,
        means: &[f64],
        most: &[f64],
        limit: Option<usize>,
        (from, to): (Timestamp, Timestamp),
    ) -> Self {
        let highest = most.iter().copied().fold(0.0, f64::max);
        let top = highest.max(limit.unwrap_or_default() as f64).max(1.0);
        let height = |value: f64| HEIGHT - value / top * HEIGHT;
        let outline = |values: &[f64]| {
            let mut points = format!("0,{HEIGHT} ");
            for (index, value) in values.iter().enumerate() {
                let x = |index: usize| index as f64 / values.len() as f64 * WIDTH;
                let (left, right, height) = (x(index), x(index + 1), height(*value));
                // Writing to a string does not fail.
                let _ = write!(points, "{left:.1},{height:.1} {right:.1},{height:.1} ");
            }
            let _ = write!(points, "{WIDTH},{HEIGHT}");
            points
        };
        let limit = limit.map(|limit| (height(limit as f64), limit));
        let mean_exact = mean(means);
        Self {
            title,
            from: Time(from),
            to: Time(to),
            mean_exact,
            mean: Number((mean_exact * 100.0).round() / 100.0),
            highest: Number(highest),
            means: outline(means),
            most: outline(most),
            limit,
        }
    }
}

/// Bin edges between two times, in seconds since 1970.
fn edges(begin: Timestamp, end: Timestamp) -> Vec<f64> {
    let (begin, end) = (seconds(begin), seconds(end));
    (0..=BINS).map(|index| begin + (end - begin) * index as f64 / BINS as f64).collect()
}

fn seconds(time: Timestamp) -> f64 {
    time.as_microsecond() as f64 / 1e6
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// `share` in percent, with one digit.
fn percent(share: f64) -> f64 {
    (share * 1000.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chart_has_the_height_of_its_limit() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let edges = edges(at(0), at(120));
        assert_eq!((edges.len(), edges[0], edges[BINS]), (BINS + 1, 0.0, 120.0));
        let chart = Chart::new("t", &[0.0, 2.0], &[1.0, 3.0], Some(4), (at(0), at(2)));
        assert_eq!(chart.means, "0,150 0.0,150.0 280.0,150.0 280.0,75.0 560.0,75.0 560,150");
        assert_eq!(chart.most, "0,150 0.0,112.5 280.0,112.5 280.0,37.5 560.0,37.5 560,150");
        assert_eq!(chart.limit, Some((0.0, 4)));
        assert_eq!((chart.mean.0, chart.highest.0), (1.0, 3.0));
        let empty = Chart::new("t", &[0.0], &[0.0], None, (at(0), at(2)));
        assert!(!empty.means.contains("NaN"), "{}", empty.means);
        assert_eq!(percent(0.12345), 12.3);
    }
}
