//! Job progress: live lines on a terminal, plain lines elsewhere, events in JSON logs.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use tunesmith_algorithms::designers::GpBandit;
use tunesmith_algorithms::problem::{AlgorithmName, Origin, ParameterValues, Step, TrialId};

use super::busy::{Busy, activity_text};
use super::output::notice;
use super::table::wrapped;
use tunesmith_algorithms::rounded::{Rounded, RoundedValue};
use tunesmith_domain::{JobState, LossCause, Study, Trial, TrialState, compare_results};
use tunesmith_jobs::{Activity, JobEvent, attempt_directory};

pub(super) struct Progress {
    tally: Tally,
    view: View,
    /// Current activity besides trials.
    busy: Option<Busy>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Live lines on a terminal.
    Live,
    /// One line per event.
    Plain,
    /// Log events.
    Log,
}

/// Trial counts, and data for estimating the remaining time.
struct Tally {
    directory: PathBuf,
    /// Parameter names in configuration order.
    parameters: Vec<String>,
    metric: String,
    max_trials: u64,
    parallel: u64,
    done: u64,
    failed: u64,
    /// Ended trials of the initial design of a Gaussian process, and their number in the design.
    initial: (usize, usize),
    /// The job's study, whose rule ranks results.
    study: Option<Study>,
    best: Option<Trial>,
    running: BTreeMap<TrialId, Instant>,
    /// Total duration in seconds and count of trials that ended during this process.
    spent: (f64, u32),
}

enum View {
    Live { lines: MultiProgress, total: ProgressBar, trials: BTreeMap<TrialId, ProgressBar> },
    Plain,
    Log,
}

impl Progress {
    /// Creates the display of a job with `max_trials` trials, `parallel` of them concurrent. `parameters` are in
    /// configuration order.
    pub(super) fn new(
        metric: &str,
        max_trials: u64,
        parallel: u64,
        style: Style,
        directory: PathBuf,
        parameters: Vec<String>,
    ) -> Self {
        let tally = Tally {
            directory,
            parameters,
            metric: metric.to_owned(),
            max_trials,
            parallel: parallel.max(1),
            done: 0,
            failed: 0,
            initial: (0, 0),
            study: None,
            best: None,
            running: BTreeMap::new(),
            spent: (0.0, 0),
        };
        let view = match style {
            Style::Log => View::Log,
            Style::Plain => View::Plain,
            Style::Live => {
                let lines = MultiProgress::new();
                let total = lines.add(ProgressBar::new(max_trials).with_style(total_style()));
                total.enable_steady_tick(Duration::from_millis(250));
                View::Live { lines, total, trials: BTreeMap::new() }
            }
        };
        Self { tally, view, busy: None }
    }

    /// Runs `write`, which prints, with live lines hidden.
    pub(super) fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        match &self.view {
            View::Live { lines, .. } => lines.suspend(write),
            View::Plain | View::Log => write(),
        }
    }

    /// Counts the trials of `study` that ended before this process started.
    pub(super) fn start_from(&mut self, study: Option<&Study>, trials: &[Trial]) {
        self.tally.study = study.cloned();
        self.tally.initial.1 = study.map_or(0, |study| GpBandit::initial_trials(study.problem.search_space()));
        for trial in trials.iter().filter(|trial| trial.state.is_final()) {
            self.tally.end(trial);
        }
        self.update_total();
    }

    pub(super) fn show(&mut self, event: &JobEvent) {
        match event {
            JobEvent::TrialStarted { id, .. } => {
                self.tally.running.insert(*id, Instant::now());
            }
            JobEvent::TrialEnded { trial } => self.tally.end(trial),
            JobEvent::TrialContinued { .. } => self.tally.done = self.tally.done.saturating_sub(1),
            JobEvent::ActivityChanged { activity } => {
                self.busy = activity.clone().map(Busy::new);
                self.refresh();
            }
            _ => {}
        }
        match &mut self.view {
            View::Log => log(event),
            View::Plain => {
                if let Some(line) = self.tally.line(event) {
                    notice(&line);
                }
            }
            View::Live { lines, total, trials } => {
                match event {
                    JobEvent::TrialStarted { id, parameters, .. } => {
                        let bar = lines.insert_before(total, ProgressBar::new_spinner().with_style(trial_style()));
                        bar.set_prefix(format!("trial {id}"));
                        bar.set_message(self.tally.parameter_text(parameters));
                        bar.enable_steady_tick(Duration::from_millis(250));
                        trials.insert(*id, bar);
                    }
                    JobEvent::TrialMeasured { id, step, value } => {
                        if let Some(bar) = trials.get(id) {
                            bar.set_prefix(format!(
                                "trial {id}  {}={} step {step}",
                                self.tally.metric,
                                Rounded(*value)
                            ));
                        }
                    }
                    JobEvent::TrialStopping { id, .. } => {
                        if let Some(bar) = trials.get(id) {
                            bar.set_prefix(format!("trial {id}  stopping early"));
                        }
                    }
                    _ => {}
                }
                if let JobEvent::TrialEnded { trial } = event
                    && let Some(bar) = trials.remove(&trial.id)
                {
                    bar.finish_and_clear();
                    lines.remove(&bar);
                }
                if let Some(line) = self.tally.line(event) {
                    println(lines, &line);
                }
            }
        }
        self.update_total();
    }

    /// Prints a line above the live ones.
    pub(super) fn say(&self, line: &str) {
        match &self.view {
            View::Live { lines, .. } => println(lines, line),
            View::Plain | View::Log => notice(line),
        }
    }

    pub(super) fn refresh(&mut self) {
        let Some(busy) = &mut self.busy else { return self.update_total() };
        match self.view {
            View::Plain => {
                if let Some(line) = busy.line_if_due() {
                    notice(&line);
                }
            }
            View::Live { .. } => self.update_total(),
            View::Log => {}
        }
    }

    /// Removes the live lines so that other text can follow.
    pub(super) fn finish(self) {
        if let View::Live { lines, total, trials } = self.view {
            for bar in trials.into_values() {
                bar.finish_and_clear();
            }
            total.finish_and_clear();
            let _ = lines.clear();
        }
    }

    fn update_total(&mut self) {
        if let View::Live { total, .. } = &self.view {
            total.set_position(self.tally.done + self.tally.failed);
            let work = self.busy.as_mut().and_then(Busy::current).map(|work| format!("{work} | ")).unwrap_or_default();
            total.set_message(format!("{work}{}", self.tally.short_summary()));
        }
    }
}

impl Tally {
    fn end(&mut self, trial: &Trial) {
        if let Some(since) = self.running.remove(&trial.id) {
            self.spent.0 += since.elapsed().as_secs_f64();
            self.spent.1 += 1;
        }
        let is_initial = |origin| origin == Origin::with_step(AlgorithmName::GaussianProcessBandit, Step::Start);
        self.initial.0 += usize::from(trial.origin.is_some_and(is_initial));
        if trial.state != TrialState::Succeeded {
            self.failed += 1;
            return;
        }
        self.done += 1;
        let is_better = |study: &Study| {
            let is_first = |best: &Trial| compare_results(&study.problem, trial, best) == Ordering::Less;
            study.is_feasible(trial) && self.best.as_ref().is_none_or(is_first)
        };
        if self.study.as_ref().is_some_and(is_better) {
            self.best = Some(trial.clone());
        }
    }

    /// `name=value` per parameter, in configuration order.
    fn parameter_text(&self, parameters: &ParameterValues) -> String {
        let given = self.parameters.iter().filter_map(|name| Some((name, parameters.get(name)?)));
        given.map(|(name, value)| format!("{name}={}", RoundedValue(value))).collect::<Vec<_>>().join(" ")
    }

    fn summary(&self) -> String {
        let counts = format!("{} done, {} failed, {} to go", self.done, self.failed, self.to_go());
        [Some(counts), self.best_text(), self.time_left()].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// Summary beside the bar. Most important first, since the end is cut off.
    fn short_summary(&self) -> String {
        let failed = (self.failed > 0).then(|| format!("{} failed", self.failed));
        [self.initial_text(), self.best_text(), self.time_left(), failed]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Reason why results do not improve yet, until the model decides.
    fn initial_text(&self) -> Option<String> {
        let (ended, trials) = self.initial;
        (0 < ended && ended < trials).then(|| format!("measuring the parameters, {ended} of {trials}"))
    }

    fn to_go(&self) -> u64 {
        self.max_trials.saturating_sub(self.done + self.failed)
    }

    fn best_text(&self) -> Option<String> {
        let best = self.best.as_ref()?;
        let value = best.final_measurement.as_ref()?.value(&self.metric)?;
        Some(format!("best {}={} (trial {})", self.metric, Rounded(value), best.id))
    }

    fn time_left(&self) -> Option<String> {
        let (seconds, trials) = self.spent;
        let left = seconds / f64::from(trials) * (self.to_go() as f64 / self.parallel as f64).ceil();
        // Without an ended trial there is no mean.
        (left >= 1.0).then(|| format!("about {} left", duration_text(left)))
    }

    /// Plain line for an event; `None` for frequent events.
    fn line(&self, event: &JobEvent) -> Option<String> {
        Some(match event {
            JobEvent::StateChanged { state: JobState::Preparing, .. } => "preparing the trainer".to_owned(),
            JobEvent::StateChanged { state: JobState::Cancelling, error_message } => {
                format!("cancelling: {error_message}")
            }
            JobEvent::StateChanged { .. } | JobEvent::TrialMeasured { .. } | JobEvent::ActivityChanged { .. } => {
                return None;
            }
            JobEvent::Resumed { completed, unfinished } => {
                format!("resuming the job: {completed} trials have results, {unfinished} were unfinished")
            }
            JobEvent::Prepared { log } => format!("trainer installed (log: {})", log.display()),
            JobEvent::TrialStarted { id, parameters, attempt, adopted } => {
                let how = match (adopted, attempt) {
                    (true, _) => " still running".to_owned(),
                    (false, 1) => " started".to_owned(),
                    (false, attempt) => format!(" started again (attempt {attempt})"),
                };
                format!("trial {id}{how}: {}", self.parameter_text(parameters))
            }
            JobEvent::TrialStopping { id, reason } => format!("trial {id} is stopped early: {reason}"),
            JobEvent::TrialContinued { id } => format!("trial {id} goes on: it may still become the best"),
            JobEvent::TrialWaiting { id, reason } => format!("trial {id} waits: {reason}"),
            JobEvent::TrialLost { id, cause: LossCause::Failure, reason } => {
                format!("trial {id} was lost by its executor: {reason}")
            }
            JobEvent::TrialLost { id, cause: LossCause::Preemption, reason } => {
                format!("trial {id} was preempted: {reason}")
            }
            JobEvent::TrialEnded { trial } => match (&trial.final_measurement, &trial.infeasible_reason) {
                (Some(measurement), _) => {
                    let value = Rounded(measurement.value(&self.metric).unwrap_or(f64::NAN));
                    let early = if trial.stopped_early { ", stopped early" } else { "" };
                    format!("trial {} ended: {}={value}{early} | {}", trial.id, self.metric, self.summary())
                }
                (None, reason) => {
                    let reason = reason.as_deref().unwrap_or("no result");
                    let log = attempt_directory(&self.directory, trial).join("stderr.log");
                    format!("trial {} failed: {reason} (log: {}) | {}", trial.id, log.display(), self.summary())
                }
            },
            JobEvent::Waiting { waiting } => waiting_line(waiting.trials, &waiting.reason),
            JobEvent::Warning { message } => format!("warning: {message}"),
        })
    }
}

fn log(event: &JobEvent) {
    match event {
        JobEvent::StateChanged { state, error_message } => {
            tracing::info!(job.state = %state, job.error = error_message, "job state changed");
        }
        JobEvent::Resumed { completed, unfinished } => {
            tracing::info!(trials.completed = completed, trials.unfinished = unfinished, "job resumed");
        }
        JobEvent::ActivityChanged { activity: None } => {}
        JobEvent::ActivityChanged { activity: Some(Activity::Suggesting) } => {
            tracing::debug!("computing the next trial")
        }
        JobEvent::ActivityChanged { activity: Some(activity) } => tracing::info!("{}", activity_text(activity)),
        JobEvent::Prepared { log } => tracing::info!(log.path = %log.display(), "trainer installed"),
        JobEvent::TrialStarted { id, parameters, attempt, adopted } => {
            let parameters = exact_parameters(parameters);
            tracing::info!(trial.id = %id, trial.attempt = attempt, trial.adopted = adopted, parameters, "trial started");
        }
        JobEvent::TrialMeasured { id, step, value } => {
            tracing::info!(trial.id = %id, metric.step = step, metric.value = value, "trial measured");
        }
        JobEvent::TrialStopping { id, reason } => tracing::info!(trial.id = %id, reason, "trial stopping early"),
        JobEvent::TrialContinued { id } => tracing::info!(trial.id = %id, "stopped trial goes on"),
        JobEvent::TrialWaiting { id, reason } => tracing::info!(trial.id = %id, reason, "trial waits"),
        JobEvent::TrialLost { id, cause: LossCause::Failure, reason } => {
            tracing::warn!(trial.id = %id, reason, "trial lost");
        }
        JobEvent::TrialLost { id, cause: LossCause::Preemption, reason } => {
            tracing::info!(trial.id = %id, reason, "trial preempted");
        }
        JobEvent::TrialEnded { trial } => {
            let reason = trial.infeasible_reason.as_deref().unwrap_or_default();
            tracing::info!(trial.id = %trial.id, trial.state = %trial.state, reason, "trial ended");
        }
        JobEvent::Waiting { waiting } => {
            tracing::info!(trials = waiting.trials, reason = waiting.reason, "trials are waiting");
        }
        JobEvent::Warning { message } => tracing::warn!("{message}"),
    }
}

/// `name=value` per parameter with exact values.
fn exact_parameters(parameters: &ParameterValues) -> String {
    let parts: Vec<String> = parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
    parts.join(" ")
}

pub(super) fn duration_text(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    match whole {
        0 if seconds < 0.1 => "< 0.1 s".to_owned(),
        0..10 => format!("{seconds:.1} s"),
        10..60 => format!("{whole} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

/// Prints a wrapped line above the live ones. A closed terminal does not stop the job.
fn println(lines: &MultiProgress, line: &str) {
    let width =
        terminal_size::terminal_size_of(std::io::stderr()).map_or(usize::MAX, |(width, _)| usize::from(width.0));
    let _ = lines.println(broken(line, width));
}

/// Wraps `line` at words to `width` characters, indenting continuation lines.
fn broken(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        line.to_owned()
    } else {
        wrapped(line, width.saturating_sub(2).max(8)).replace('\n', "\n  ")
    }
}

fn total_style() -> ProgressStyle {
    ProgressStyle::with_template("{bar:10} {pos}/{len}  {elapsed}  {wide_msg}").expect("the template is valid")
}

fn trial_style() -> ProgressStyle {
    ProgressStyle::with_template("{spinner} {elapsed} {prefix}  {wide_msg}").expect("the template is valid")
}

pub(super) fn waiting_line(trials: u64, reason: &str) -> String {
    let subject = if trials == 1 { "1 trial waits".to_owned() } else { format!("{trials} trials wait") };
    format!("{subject}: {reason}")
}
