//! Explore and Trust pages: plots and a table of filtered trials.
//!
//! Pages contain no trials: their script fetches views of the study from the API and draws them.

use std::sync::Arc;

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::console::Console;
use super::errors::PageError;
use super::format::encoded;
use super::frame::{Frame, Section};
use super::plotly;
use super::subject::{Head, Named, Tab};
use super::trials::parameter_names;
use super::visit::Visit;
use tunesmith_algorithms::problem::{Goal, MetricSpec};
use tunesmith_domain::Study;

#[derive(Template)]
#[template(path = "explore.html")]
struct ExplorePage {
    frame: Frame,
    head: Head,
    /// URL of plotly.js.
    library: String,
    /// URL of the study in the API.
    study: String,
    /// Names of metrics and parameters, as JSON.
    space: String,
    metrics: Vec<String>,
    parameters: Vec<String>,
    /// Parameter in the example filter.
    example: String,
    plots: Vec<Figure>,
    /// Whether the page shows the model's best points.
    has_best_points: bool,
}

pub(crate) struct Figure {
    /// Name of the drawing function.
    pub(crate) name: &'static str,
    /// Name of the view in the API.
    pub(crate) view: &'static str,
    pub(crate) title: &'static str,
    pub(crate) is_wide: bool,
    pub(crate) choices: Vec<Choice>,
}

pub(crate) struct Choice {
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    pub(crate) options: Vec<String>,
    pub(crate) first: usize,
}

pub(crate) async fn explore(console: Console, visit: Visit, named: Named, (): ()) -> Result<Response, PageError> {
    page(console, visit, &named, Tab::Explore).await
}

/// Trust page: the predictions of the search model, and their reliability.
pub(crate) async fn trust(console: Console, visit: Visit, named: Named, (): ()) -> Result<Response, PageError> {
    page(console, visit, &named, Tab::Trust).await
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
        frame: visit
            .frame(format!("{} {}", if is_trust { "Trust in" } else { "Explore" }, subject.name()), Section::Jobs),
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

/// Prefetches the trials of `study`, which the plots of the page request next.
pub(crate) fn read_ahead(console: &Console, study: &Study) {
    let (studies, study) = (Arc::clone(&console.studies), study.clone());
    tokio::spawn(async move {
        // Requests of the plots read again and report errors.
        let _ = studies.columns(&study).await;
    });
}

/// Quotes `name` for a field in a filter.
pub(crate) fn field_name(name: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || letter == '_';
    if name.chars().all(is_plain) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
    }
}

/// URL of `study` in the API.
pub(crate) fn address_of(study: &Study) -> String {
    let (project, location, name) = study.id.parts();
    let [project, location, name] = [project, location, name].map(encoded);
    format!("/v1/projects/{project}/locations/{location}/studies/{name}")
}

impl Figure {
    fn of(view: &'static str, title: &'static str) -> Self {
        Self { name: view, view, title, is_wide: false, choices: Vec::new() }
    }
}

pub(crate) fn figures_of_model() -> Vec<Figure> {
    vec![
        Figure::of("trust", "Predicted against observed"),
        Figure { name: "coverage", ..Figure::of("trust", "Coverage of the predicted bands") },
        Figure::of("importance", "Importance of the parameters"),
    ]
}

/// Plots of a study with these metrics and parameters. Plots over two parameters offer the choice `paired`.
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
        // This plot shares the choice above.
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
