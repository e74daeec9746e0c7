//! Data of a study report: its views, as in the API, and its trials.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::super::errors::PageError;
use super::super::format::{Badge, Number, Span, Value};
use super::super::trials::parameter_names;
use super::failed;
use tunesmith_algorithms::insight::{InsightError, MetricInsight};
use tunesmith_domain::Study;
use tunesmith_studies::{Studies, ViewedColumns};
use tunesmith_views::{self as views, Columns, DEFAULT_POINTS, Rows};

/// Maximum number of plotted metrics: each adds about 1 MB. The table has all.
const MOST_PLOTTED: usize = 4;

/// Maximum number of parameters with slices, by importance.
const MOST_SLICED: usize = 40;

/// Maximum number of parameters in pair plots, by importance.
const MOST_PAIRED: usize = 5;

/// Total points of a metric's slices, and the minimum and maximum per slice.
const POINTS_OF_SLICES: usize = 20_000;
const POINTS_OF_SLICE: (usize, usize) = (300, DEFAULT_POINTS);

/// Points of a pair plot, and lines of parallel coordinates.
const POINTS_OF_PAIR: usize = 400;
const LINES: usize = 400;

/// Cells of the trial table, and its minimum and maximum rows.
const CELLS: usize = 20_000;
const ROWS: (usize, usize) = (100, 1000);

pub(super) struct Contents {
    /// Views by name and indices of the selection, as JSON.
    pub(super) data: String,
    pub(super) metrics: Vec<String>,
    pub(super) plotted: Vec<String>,
    pub(super) parameters: Vec<String>,
    /// Parameters with slices and with pair plots.
    pub(super) sliced: Vec<String>,
    pub(super) paired: Vec<String>,
    pub(super) omissions: Vec<String>,
    pub(super) rows: Vec<Row>,
    pub(super) total: usize,
}

pub(super) struct Row {
    pub(super) number: u64,
    pub(super) badge: Badge,
    pub(super) values: Vec<Option<Number>>,
    pub(super) run_time: Option<Span>,
    pub(super) parameters: Vec<Option<Value>>,
    pub(super) reason: String,
    pub(super) note: String,
}

/// Models of the plotted metrics, or the reason for a missing one.
type Insights = Vec<Result<std::sync::Arc<MetricInsight>, InsightError>>;

/// Data of the report of `study` at `now`. `name` is the prefix of files saved from it.
pub(super) async fn contents(
    studies: &Studies,
    study: &Study,
    name: &str,
    now: Timestamp,
) -> Result<Contents, PageError> {
    let plotted = study.problem.metrics().len().min(MOST_PLOTTED);
    let insights = insights(studies, study, plotted).await?;
    let parameters = parameter_names(study);
    let order = by_importance(&parameters, insights.first());
    let columns = studies.columns(study).await?;
    let (columns, chosen) = off_the_runtime(move || {
        let rows = columns.live();
        let of_metric = |metric| views::trials_of_curves(&columns, &rows, metric, DEFAULT_POINTS);
        let chosen: Vec<_> = (0..plotted).map(of_metric).collect();
        (columns, chosen)
    })
    .await?;
    let mut curves = Vec::with_capacity(chosen.len());
    for chosen in chosen {
        curves.push(studies.curves_of(&study.id, chosen).await?);
    }
    let (name, metrics) = (name.to_owned(), study.problem.metrics().iter().map(|metric| metric.name.clone()).collect());
    off_the_runtime(move || {
        let rows = columns.live();
        let mut views = Views { columns: &columns, rows: &rows, answers: BTreeMap::new() };
        views.add_all(plotted, &order, &insights, now);
        for (metric, curves) in curves.iter().enumerate() {
            let view = views::curves(&columns, &rows, metric, curves, DEFAULT_POINTS);
            views.add(format!("learningCurves {metric}"), &view);
        }
        contents_of(views, name, metrics, parameters, &order)
    })
    .await
}

async fn off_the_runtime<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, PageError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| failed(&error))
}

/// Models of the first `plotted` metrics, as on the job's pages.
async fn insights(studies: &Studies, study: &Study, plotted: usize) -> Result<Insights, PageError> {
    let mut insights = Vec::with_capacity(plotted);
    for (metric, spec) in study.problem.metrics().iter().enumerate().take(plotted) {
        let columns: ViewedColumns = studies.columns(study).await?;
        let work = move || {
            let completed = views::modelled(&columns, &columns.live(), metric, DEFAULT_POINTS);
            (columns.revision(), completed)
        };
        let (revision, completed) = off_the_runtime(work).await?;
        let choice = (String::new(), DEFAULT_POINTS);
        insights.push(studies.insight(study, revision, &spec.name, choice, completed).await?);
    }
    Ok(insights)
}

/// Indices of `parameters` by decreasing importance; in order without a model.
fn by_importance(
    parameters: &[String],
    insight: Option<&Result<std::sync::Arc<MetricInsight>, InsightError>>,
) -> Vec<usize> {
    let mut order: Vec<usize> = match insight {
        Some(Ok(insight)) => {
            let bars = insight.importance.parameters.iter();
            bars.filter_map(|bar| parameters.iter().position(|name| *name == bar.parameter)).collect()
        }
        Some(Err(_)) | None => Vec::new(),
    };
    let known: BTreeSet<usize> = order.iter().copied().collect();
    order.extend((0..parameters.len()).filter(|index| !known.contains(index)));
    order
}

/// Views of a study by name and indices of the selection.
struct Views<'a> {
    columns: &'a Columns,
    rows: &'a Rows,
    answers: BTreeMap<String, Json>,
}

impl Views<'_> {
    fn add(&mut self, key: String, view: &impl Serialize) {
        let answer = match serde_json::to_value(view) {
            Ok(view) => json!({ "view": view }),
            Err(error) => json!({ "error": error.to_string() }),
        };
        self.answers.insert(key, answer);
    }

    /// Adds all views except learning curves. `order` has parameter indices by decreasing importance.
    fn add_all(&mut self, plotted: usize, order: &[usize], insights: &Insights, now: Timestamp) {
        let (columns, rows) = (self.columns, self.rows);
        let sliced = &order[..order.len().min(MOST_SLICED)];
        let paired = &order[..order.len().min(MOST_PAIRED)];
        let (fewest, most) = POINTS_OF_SLICE;
        let points = (POINTS_OF_SLICES / sliced.len().max(1)).clamp(fewest, most);
        self.add("timeline".to_owned(), &views::timeline(columns, rows, now.as_microsecond(), DEFAULT_POINTS));
        for metric in 0..plotted {
            self.add(format!("history {metric}"), &views::history(columns, rows, metric, DEFAULT_POINTS));
            let lines = views::parallel_coordinates(columns, rows, metric, LINES);
            self.add(format!("parallelCoordinates {metric}"), &lines);
            let distribution = views::distribution(columns, rows, metric, DEFAULT_POINTS);
            self.add(format!("distribution {metric}"), &distribution);
            for (index, parameter) in sliced.iter().enumerate() {
                let slice = views::slice(columns, rows, metric, *parameter, points);
                self.add(format!("slice {metric} {index}"), &slice);
            }
            for (across, up) in pairs(paired.len()) {
                let pair = [paired[across], paired[up]];
                let key = |view: &str| format!("{view} {metric} {across} {up}");
                self.add(key("contour"), &views::contour(columns, rows, metric, pair, POINTS_OF_PAIR));
                self.add(key("rank"), &views::rank(columns, rows, metric, pair, POINTS_OF_PAIR));
            }
        }
        for (across, up) in pairs(plotted) {
            let front = views::pareto_front(columns, rows, [across, up], DEFAULT_POINTS);
            self.add(format!("paretoFront {across} {up}"), &front);
        }
        for (metric, insight) in insights.iter().enumerate() {
            match insight {
                Ok(insight) => {
                    self.add(format!("importance {metric}"), &views::importances(insight));
                    self.add(format!("trust {metric}"), &views::trust(insight));
                }
                Err(error) => {
                    for view in ["importance", "trust"] {
                        self.answers.insert(format!("{view} {metric}"), json!({ "error": error.to_string() }));
                    }
                }
            }
        }
    }
}

/// Pairs of distinct numbers below `count`, in both orders.
fn pairs(count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).flat_map(move |a| (0..count).filter(move |b| *b != a).map(move |b| (a, b)))
}

fn contents_of(
    views: Views<'_>,
    name: String,
    metrics: Vec<String>,
    parameters: Vec<String>,
    order: &[usize],
) -> Contents {
    let Views { columns, rows, answers } = views;
    let total = rows.count();
    let named = |most: usize| order.iter().take(most).map(|index| parameters[*index].clone()).collect::<Vec<_>>();
    let (sliced, paired) = (named(MOST_SLICED), named(MOST_PAIRED));
    let plotted: Vec<String> = metrics.iter().take(MOST_PLOTTED).cloned().collect();
    let mut omissions = Vec::new();
    let mut omit = |what: &str, shown: usize, all: usize, which: &str| {
        if shown < all {
            omissions.push(format!("{what} are of {shown} of {all} {which}."));
        }
    };
    omit("Plots", plotted.len(), metrics.len(), "metrics");
    omit("Results over a parameter", sliced.len(), parameters.len(), "parameters, the most important ones");
    omit("Results over two parameters", paired.len(), parameters.len(), "parameters, the most important ones");
    let (fewest, most) = ROWS;
    let limit = (CELLS / (metrics.len() + parameters.len()).max(1)).clamp(fewest, most);
    let goals: BTreeMap<&String, bool> = metrics
        .iter()
        .enumerate()
        .map(|(index, metric)| (metric, columns.goal(index).to_maximized(1.0) > 0.0))
        .collect();
    let data = json!({
        "name": name, "metrics": metrics.len(), "goals": goals, "parameters": parameters, "views": answers,
    });
    Contents {
        data: data.to_string(),
        rows: best_rows(columns, rows, limit).into_iter().map(|row| table_row(columns, row)).collect(),
        metrics,
        plotted,
        parameters,
        sliced,
        paired,
        omissions,
        total,
    }
}

/// At most `limit` of `rows`: those with a result of the first metric, best first, then the others by number.
fn best_rows(columns: &Columns, rows: &Rows, limit: usize) -> Vec<usize> {
    let mut ordered: Vec<usize> = columns.best_first(0).iter().map(|row| *row as usize).collect();
    ordered.retain(|row| rows.contains(*row));
    let ranked: BTreeSet<usize> = ordered.iter().copied().collect();
    ordered.extend(rows.iter().filter(|row| !ranked.contains(row)));
    ordered.truncate(limit);
    ordered
}

fn table_row(columns: &Columns, row: usize) -> Row {
    use tunesmith_domain::TrialState;
    let problem = columns.problem();
    let (metrics, parameters) = (problem.metrics().len(), problem.search_space().parameters().len());
    let run_time = columns.duration_secs(row).and_then(|secs| Duration::try_from_secs_f64(secs).ok());
    Row {
        number: columns.number(row),
        badge: Badge::of_trial(columns.state(row).unwrap_or(TrialState::Deleted), columns.stopped_early(row)),
        values: (0..metrics).map(|metric| columns.metric(metric, row).map(Number)).collect(),
        run_time: run_time.map(Span),
        parameters: (0..parameters).map(|parameter| columns.parameter(parameter, row).map(Value)).collect(),
        reason: columns.infeasible_reason(row).to_owned(),
        note: columns.note(row).to_owned(),
    }
}

#[cfg(test)]
mod tests;
