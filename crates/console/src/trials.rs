use askama::Template;
use axum::extract::Query;
use axum::response::Response;
use serde::Deserialize;

use super::console::{Console, rendered};
use super::errors::PageError;
use super::format::{Badge, Number, Span, Value};
use super::frame::{Frame, Section};
use super::subject::{Head, Named, Tab};
use super::summary::goal_word;
use super::visit::Visit;
use tunesmith_algorithms::problem::{ConstraintSpec, Goal, TrialId};
use tunesmith_algorithms::rounded::Rounded;
use tunesmith_domain::{Study, Trial};

const PAGE_SIZE: usize = 100;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Selection {
    /// Trial number before the page.
    after: u64,
}

#[derive(Template)]
#[template(path = "trials.html")]
struct TrialsPage {
    frame: Frame,
    head: Head,
    /// Metrics with goals, then constraints with bounds.
    values: Vec<(String, String)>,
    names: Vec<String>,
    rows: Vec<Row>,
    after: u64,
    next: Option<u64>,
}

struct Row {
    number: u64,
    badge: Badge,
    values: Vec<Option<Number>>,
    parameters: Vec<Option<Value>>,
    run_time: Option<Span>,
    reason: Option<String>,
}

impl TrialsPage {
    fn previous(&self) -> u64 {
        self.after.saturating_sub(PAGE_SIZE as u64)
    }
}

pub(crate) async fn show(
    console: Console,
    visit: Visit,
    named: Named,
    Query(Selection { after }): Query<Selection>,
) -> Result<Response, PageError> {
    let subject = console.subject(&named).await?;
    let study = subject.trials()?;
    let page = console.studies.trial_page(&study.id, TrialId(after), PAGE_SIZE).await?;
    let now = console.clock.now();
    let names = parameter_names(study);
    let goals = study.problem.metrics().iter().map(|metric| (metric.name.clone(), goal_word(metric.goal).to_owned()));
    let bounds = study.problem.constraints().iter().map(|constraint| (constraint.name.clone(), bound(constraint)));
    let row = |trial: &Trial| Row {
        number: trial.id.0,
        badge: Badge::of_trial(trial.state, trial.stopped_early),
        values: study
            .problem
            .value_names()
            .map(|name| trial.final_measurement.as_ref()?.value(name).map(Number))
            .collect(),
        parameters: names.iter().map(|name| trial.parameters.get(name).cloned().map(Value)).collect(),
        run_time: trial.start_time.map(|start| Span::between(start, trial.end_time.unwrap_or(now))),
        reason: trial.infeasible_reason.clone().or_else(|| violation(study, trial)),
    };
    let page = TrialsPage {
        frame: visit.frame(format!("Trials of {}", subject.name()), Section::Jobs),
        head: subject.head(&visit.visitor, Tab::Trials),
        values: goals.chain(bounds).collect(),
        rows: page.trials.iter().map(row).collect(),
        names,
        after,
        next: page.next.map(|next| next.0),
    };
    Ok(rendered(&page))
}

fn bound(constraint: &ConstraintSpec) -> String {
    let side = match constraint.goal {
        Goal::Maximize => "at least",
        Goal::Minimize => "at most",
    };
    format!("{side} {}", Rounded(constraint.threshold))
}

/// Constraints violated by the result of `trial`, if any.
fn violation(study: &Study, trial: &Trial) -> Option<String> {
    let names: Vec<&str> = study.violated(trial).map(|constraint| constraint.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("violates {}", names.join(", ")))
}

pub(crate) fn parameter_names(study: &Study) -> Vec<String> {
    study.problem.search_space().parameters().iter().map(|parameter| parameter.name().to_owned()).collect()
}
