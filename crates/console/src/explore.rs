//! The pages Explore and Trust: plots and a table of the trials that a filter selects.
//!
//! The pages have no trials: their script reads views of the study from the API, and draws them.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use serde_json::json;

use super::errors::PageError;
use super::format::encoded;
use super::frame::{Frame, Section};
use super::plotly;
use super::router::{Console, Visit};
use super::subject::{Head, Named, Tab};
use super::trials::parameter_names;
use tunesmith_access::Permission;
use tunesmith_algorithms::problem::{Goal, MetricSpec};
use tunesmith_domain::Study;

#[derive(Template)]
#[template(path = "explore.html")]
struct ExplorePage {
    frame: Frame,
    head: Head,
    /// The address of plotly.js.
    library: String,
    /// The address of the study in the API.
    study: String,
    /// The names of metrics and parameters, as JSON.
    space: String,
    metrics: Vec<String>,
    parameters: Vec<String>,
    /// A parameter for the example of a filter.
    example: String,
    plots: Vec<Figure>,
    /// Whether the page shows the best points of the model.
    has_best_points: bool,
}

/// A plot of the page.
pub(crate) struct Figure {
    /// The function that draws it.
    pub(crate) name: &'static str,
    /// The name of its view in the API.
    pub(crate) view: &'static str,
    pub(crate) title: &'static str,
    pub(crate) is_wide: bool,
    pub(crate) choices: Vec<Choice>,
}

/// What the axis of a plot may show.
pub(crate) struct Choice {
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    pub(crate) options: Vec<String>,
    /// The option that is chosen first.
    pub(crate) first: usize,
}

/// The page Explore.
pub(crate) async fn explore(State(console): State<Console>, Path(named): Path<Named>, parts: Parts) -> Response {
    let call = named.call("console.explore", Permission::TrialsList);
    console.show(call, parts, async move |console, visit| page(console, visit, &named, Tab::Explore).await).await
}

/// The page Trust: what the model of the search predicts, and how far that can be relied on.
pub(crate) async fn trust(State(console): State<Console>, Path(named): Path<Named>, parts: Parts) -> Response {
    let call = named.call("console.trust", Permission::TrialsList);
    console.show(call, parts, async move |console, visit| page(console, visit, &named, Tab::Trust).await).await
}

async fn page(console: Console, visit: Visit, named: &Named, tab: Tab) -> Result<Response, PageError> {
    let subject = console.subject(named).await?;
    let study = subject.trials()?;
    read_ahead(&console, study);
    let metrics: Vec<String> = study.problem.metrics().iter().map(|metric| metric.name.clone()).collect();
    let parameters = parameter_names(study);
    let of_metric = |metric: &MetricSpec| json!({"name": metric.name, "isMaximized": metric.goal == Goal::Maximize});
    let goals: Vec<_> = study.problem.metrics().iter().map(of_metric).collect();
    let named: Vec<_> = parameters.iter().map(|name| json!({"name": name})).collect();
    let is_trust = tab == Tab::Trust;
    let page = ExplorePage {
        frame: Frame::new(
            format!("{} {}", if is_trust { "Trust in" } else { "Explore" }, subject.name()),
            Section::Jobs,
            &visit.visitor,
            &visit.parts,
        ),
        head: subject.head(&visit.visitor, tab),
        library: plotly::address(),
        study: address_of(study),
        space: json!({"metrics": goals, "parameters": named}).to_string(),
        example: parameters.first().map(String::as_str).map(field_name).unwrap_or_default(),
        plots: if is_trust { figures_of_model() } else { figures(&metrics, &parameters, &parameters) },
        has_best_points: is_trust,
        metrics,
        parameters,
    };
    Ok(Frame::respond(true, StatusCode::OK, &page))
}

/// Reads the trials of `study` while the browser loads the page, whose plots ask for them next.
fn read_ahead(console: &Console, study: &Study) {
    let (studies, study) = (Arc::clone(&console.studies), study.clone());
    tokio::spawn(async move {
        // An error is answered to the requests of the plots, which read again.
        let _ = studies.columns(&study).await;
    });
}

/// `name` as part of a field in a filter.
fn field_name(name: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || letter == '_';
    if name.chars().all(is_plain) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
    }
}

/// The address of `study` in the API.
pub(crate) fn address_of(study: &Study) -> String {
    let (project, location, name) = study.id.parts();
    let [project, location, name] = [project, location, name].map(encoded);
    format!("/v1/projects/{project}/locations/{location}/studies/{name}")
}

impl Figure {
    /// The plot of the view `view`.
    fn of(view: &'static str, title: &'static str) -> Self {
        Self { name: view, view, title, is_wide: false, choices: Vec::new() }
    }
}

/// The plots of the page Trust.
pub(crate) fn figures_of_model() -> Vec<Figure> {
    vec![
        Figure::of("trust", "Predicted against observed"),
        Figure { name: "coverage", ..Figure::of("trust", "Coverage of the predicted bands") },
        Figure::of("importance", "Importance of the parameters"),
    ]
}

/// The plots of a study with these metrics and parameters, those over two parameters with a choice among `paired`.
pub(crate) fn figures(metrics: &[String], parameters: &[String], paired: &[String]) -> Vec<Figure> {
    let choice = |name, label, options: &[String], first: usize| Choice {
        name,
        label,
        options: options.to_vec(),
        first: first.min(options.len().saturating_sub(1)),
    };
    let figure = Figure::of;
    let pair = || vec![choice("x", "Across", paired, 0), choice("y", "Up", paired, 1)];
    let mut figures = vec![
        figure("history", "History"),
        Figure {
            choices: vec![choice("parameter", "Parameter", parameters, 0)],
            ..figure("slice", "Results over a parameter")
        },
        Figure { is_wide: true, ..figure("parallelCoordinates", "Parallel coordinates") },
    ];
    if metrics.len() > 1 {
        let choices = vec![choice("mx", "Across", metrics, 0), choice("my", "Up", metrics, 1)];
        figures.push(Figure { choices, ..figure("paretoFront", "Pareto front") });
    }
    if paired.len() > 1 {
        figures.push(Figure { choices: pair(), ..figure("contour", "Results over two parameters") });
        // The choice above is that of this plot, too.
        figures.push(figure("rank", "Ranks over the same two parameters"));
    }
    figures.extend([
        figure("distribution", "Distribution of the results"),
        figure("importance", "Importance of the parameters"),
        figure("learningCurves", "Learning curves"),
        figure("timeline", "Timeline"),
    ]);
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plots_of_pairs_need_pairs() {
        let names = |count: usize| -> Vec<String> { (0..count).map(|index| format!("n{index}")).collect() };
        let views = |metrics: usize, parameters: usize| -> Vec<&str> {
            figures(&names(metrics), &names(parameters), &names(parameters)).iter().map(|figure| figure.view).collect()
        };
        let [small, large] = [views(1, 1), views(3, 60)];
        assert_eq!((small.len(), large.len()), (7, 10));
        assert!(["paretoFront", "contour", "rank"].iter().all(|view| large.contains(view) && !small.contains(view)));
    }
}
