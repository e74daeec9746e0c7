//! `views` of a study: what plots and tables show, reduced to a bounded size.

mod answer;
mod queries;

use std::marker::PhantomData;

use axum::extract::State;
use axum::http::HeaderMap;
use serde::Serialize;

use self::answer::{Request, View, Viewed, enveloped, off_the_runtime, parsed, refused, view};
use self::queries::{FrontQuery, MetricQuery, PairQuery, SliceQuery, TableQuery, TimelineQuery, limit};
use super::names::Names;
use super::openapi::Operation;
use super::query::Query;
use super::rendered::render_off_the_runtime;
use super::routes::Routes;
use super::state::StudiesState;
use super::status::{ApiError, Code};
use tunesmith_access::Permission;
use tunesmith_domain::{Study, TrialId};
use tunesmith_filter::Filter;
use tunesmith_service::studies::{Studies, ViewedColumns};
use tunesmith_views::{self as views, Columns, Rows, ViewError};

/// Default and maximum number of trials of a page of the table.
const DEFAULT_PAGE: usize = 100;
const MAX_PAGE: usize = 1000;

/// The path of a view.
macro_rules! view {
    ($name:literal) => {
        concat!("/v1/projects/{project}/locations/{location}/studies/{study}/views/", $name)
    };
}

/// Adds the routes of views to `routes`.
pub(super) fn routes(routes: Routes<StudiesState>) -> Routes<StudiesState> {
    let get = |path, id, summary| Operation::get(path, id, summary).permission(Permission::TrialsList).or_not_found();
    routes
        .add(
            get(
                view!("history"),
                "tunesmith.projects.locations.studies.views.history",
                "Gets the results in the order of the trials, and the best so far.",
            ),
            history,
        )
        .add(
            get(
                view!("parallelCoordinates"),
                "tunesmith.projects.locations.studies.views.parallelCoordinates",
                "Gets trials as lines across the axes of parameters and metrics.",
            ),
            parallel_coordinates,
        )
        .add(
            get(
                view!("slice"),
                "tunesmith.projects.locations.studies.views.slice",
                "Gets the results over one parameter.",
            ),
            slice,
        )
        .add(
            get(
                view!("contour"),
                "tunesmith.projects.locations.studies.views.contour",
                "Gets the results over two parameters, in cells.",
            ),
            contour,
        )
        .add(
            get(
                view!("rank"),
                "tunesmith.projects.locations.studies.views.rank",
                "Gets trials over two parameters, with their ranks.",
            ),
            rank,
        )
        .add(
            get(
                view!("paretoFront"),
                "tunesmith.projects.locations.studies.views.paretoFront",
                "Gets the Pareto front, and all trials over two metrics.",
            ),
            pareto_front,
        )
        .add(
            get(
                view!("distribution"),
                "tunesmith.projects.locations.studies.views.distribution",
                "Gets the empirical distribution function of the results.",
            ),
            distribution,
        )
        .add(
            get(
                view!("learningCurves"),
                "tunesmith.projects.locations.studies.views.learningCurves",
                "Gets the learning curves of the best trials and of a sample of the others.",
            ),
            learning_curves,
        )
        .add(
            get(
                view!("timeline"),
                "tunesmith.projects.locations.studies.views.timeline",
                "Gets when the trials ran, and on which clients.",
            ),
            timeline,
        )
        .add(
            get(
                view!("importance"),
                "tunesmith.projects.locations.studies.views.importance",
                "Gets the importance of the parameters, with ranges.",
            )
            .time_limit_factor(2),
            importance,
        )
        .add(
            get(
                view!("trust"),
                "tunesmith.projects.locations.studies.views.trust",
                "Gets how far the model's predictions can be trusted, and where it would look next.",
            )
            .time_limit_factor(2),
            trust,
        )
        .add(
            get(
                view!("recommended"),
                "tunesmith.projects.locations.studies.views.recommended",
                "Gets the tried point with the best expected result, and the best result.",
            )
            .time_limit_factor(2),
            recommended,
        )
        .add(
            get(
                view!("table"),
                "tunesmith.projects.locations.studies.views.table",
                "Gets some trials without their measurements, filtered and ordered.",
            ),
            table,
        )
}

/// The numbers of the trials of `study` that `filter` accepts.
pub(super) async fn selected_trials(studies: &Studies, study: &Study, filter: &str) -> Result<Vec<TrialId>, ApiError> {
    let filter = parsed(filter)?;
    let columns = studies.columns(study).await?;
    off_the_runtime(move || {
        let rows = columns.select(&filter).map_err(refused)?;
        Ok(rows.iter().map(|row| TrialId(columns.number(row))).collect())
    })
    .await
}

async fn history(
    State(api): State<StudiesState>,
    Names(names): Names<3>,
    headers: HeaderMap,
    Query(query): Query<MetricQuery>,
) -> Result<Viewed<views::History>, ApiError> {
    let limit = limit(query.points)?;
    view(&api, &names, &headers, &query.filter, move |columns, rows| {
        Ok(views::history(columns, rows, columns.metric_named(&query.metric, "metric")?, limit))
    })
    .await
}

async fn parallel_coordinates(
    State(api): State<StudiesState>,
    Names(names): Names<3>,
    headers: HeaderMap,
    Query(query): Query<MetricQuery>,
) -> Result<Viewed<views::ParallelCoordinates>, ApiError> {
    let limit = limit(query.points)?;
    view(&api, &names, &headers, &query.filter, move |columns, rows| {
        Ok(views::parallel_coordinates(columns, rows, columns.metric_named(&query.metric, "metric")?, limit))
    })
    .await
}

async fn slice(
    State(api): State<StudiesState>,
    Names(names): Names<3>,
    headers: HeaderMap,
    Query(query): Query<SliceQuery>,
) -> Result<Viewed<views::Slice>, ApiError> {
    let limit = limit(query.points)?;
    view(&api, &names, &headers, &query.filter, move |columns, rows| {
        let metric = columns.metric_named(&query.metric, "metric")?;
        Ok(views::slice(columns, rows, metric, columns.parameter_named(&query.parameter, 0, "parameter")?, limit))
    })
    .await
}

/// The metric named `metric`, and the parameters named `x` and `y`.
fn pair(columns: &Columns, metric: &str, x: &str, y: &str) -> Result<(usize, [usize; 2]), ViewError> {
    let metric = columns.metric_named(metric, "metric")?;
    let x = columns.parameter_named(x, 0, "x")?;
    // A study with one parameter shows it on both axes.
    let second = 1.min(columns.problem().search_space().parameters().len().saturating_sub(1));
    Ok((metric, [x, columns.parameter_named(y, second, "y")?]))
}

async fn contour(
    State(api): State<StudiesState>,
    Names(names): Names<3>,
    headers: HeaderMap,
    Query(query): Query<PairQuery>,
) -> Result<Viewed<views::Contour>, ApiError> {
    let limit = limit(query.points)?;
    view(&api, &names, &headers, &query.filter, move |columns, rows| {
        let (metric, pair) = pair(columns, &query.metric, &query.x, &query.y)?;
        Ok(views::contour(columns, rows, metric, pair, limit))
    })
    .await
}

async fn rank(
    State(api): State<StudiesState>,
    Names(names): Names<3>,
    headers: HeaderMap,
    Query(query): Query<PairQuery>,
) -> Result<Viewed<views::Rank>, ApiError> {
    let limit = limit(query.points)?;
    view(&api, &names, &headers, &query.filter, move |columns, rows| {
        let (metric, pair) = pair(columns, &query.metric, &query.x, &query.y)?;
        Ok(views::rank(columns, rows, metric, pair, limit))
    })
    .await
}

async fn pareto_front(
    State(api): State<StudiesState>,
    Names(names): Names<3>,
    headers: HeaderMap,
    Query(query): Query<FrontQuery>,
) -> Result<Viewed<views::ParetoFront>, ApiError> {
    let limit = limit(query.points)?;
    view(&api, &names, &headers, &query.filter, move |columns, rows| {
        let x = columns.metric_named(&query.x, "x")?;
        let second = columns.problem().metrics().get(1).map(|metric| metric.name.clone());
        let y = if query.y.is_empty() { second.unwrap_or_default() } else { query.y };
        Ok(views::pareto_front(columns, rows, [x, columns.metric_named(&y, "y")?], limit))
    })
    .await
}

async fn distribution(
    State(api): State<StudiesState>,
    Names(names): Names<3>,
    headers: HeaderMap,
    Query(query): Query<MetricQuery>,
) -> Result<Viewed<views::Distribution>, ApiError> {
    let limit = limit(query.points)?;
    view(&api, &names, &headers, &query.filter, move |columns, rows| {
        Ok(views::distribution(columns, rows, columns.metric_named(&query.metric, "metric")?, limit))
    })
    .await
}

async fn timeline(
    State(api): State<StudiesState>,
    Names(names): Names<3>,
    headers: HeaderMap,
    Query(query): Query<TimelineQuery>,
) -> Result<Viewed<views::Timeline>, ApiError> {
    let limit = limit(query.points)?;
    let now = api.clock.now().as_microsecond();
    view(&api, &names, &headers, &query.filter, move |columns, rows| Ok(views::timeline(columns, rows, now, limit)))
        .await
}

async fn table(
    State(api): State<StudiesState>,
    Names(names): Names<3>,
    headers: HeaderMap,
    Query(query): Query<TableQuery>,
) -> Result<Viewed<views::Table>, ApiError> {
    let number = |field: &str, value: i32| {
        usize::try_from(value).map_err(|_| ApiError::invalid(field, format!("{value} is negative")))
    };
    let (offset, limit) = (number("offset", query.offset)?, number("limit", query.limit)?);
    let limit = if limit == 0 { DEFAULT_PAGE } else { limit.min(MAX_PAGE) };
    view(&api, &names, &headers, &query.filter, move |columns, rows| {
        Ok(views::table(columns, rows, columns.order(&query.order_by)?, offset, limit))
    })
    .await
}

async fn learning_curves(
    State(api): State<StudiesState>,
    Names(names): Names<3>,
    headers: HeaderMap,
    Query(query): Query<MetricQuery>,
) -> Result<Viewed<views::Curves>, ApiError> {
    let (limit, filter) = (limit(query.points)?, parsed(&query.filter)?);
    let Request { study, etag } = match Request::of(&api, &names, &headers, &filter).await? {
        Ok(request) => request,
        Err(etag) => return Ok(Viewed::Unchanged { etag }),
    };
    let columns = api.studies.columns(&study).await?;
    let (columns, rows, metric, chosen) = off_the_runtime(move || {
        let (rows, metric) = selected(&columns, &filter, &query.metric)?;
        let chosen = views::trials_of_curves(&columns, &rows, metric, limit);
        Ok((columns, rows, metric, chosen))
    })
    .await?;
    let numbers = chosen.iter().map(|(trial, _)| *trial).collect();
    let read = api.studies.curves_of(&study.id, numbers).await?;
    let stands_for = |trial| chosen.iter().find(|(other, _)| *other == trial).map_or(1, |(_, count)| *count);
    let read: Vec<_> = read.into_iter().map(|(trial, curve)| (trial, stands_for(trial), curve)).collect();
    let json =
        off_the_runtime(move || enveloped(&columns, &rows, views::curves(&columns, &rows, metric, &read, limit)));
    Ok(Viewed::New { etag, json: json.await?, of: PhantomData })
}

/// The rows that `filter` accepts, and the metric named `metric`.
fn selected(columns: &ViewedColumns, filter: &Filter, metric: &str) -> Result<(Rows, usize), ApiError> {
    let rows = columns.select(filter).map_err(refused)?;
    let metric = columns.metric_named(metric, "metric");
    Ok((rows, metric.map_err(|error| ApiError::invalid(error.field, error.message))?))
}

async fn importance(
    State(api): State<StudiesState>,
    Names(names): Names<3>,
    headers: HeaderMap,
    Query(query): Query<MetricQuery>,
) -> Result<Viewed<views::Importances>, ApiError> {
    of_model(&api, &names, &headers, query, views::importances).await
}

async fn trust(
    State(api): State<StudiesState>,
    Names(names): Names<3>,
    headers: HeaderMap,
    Query(query): Query<MetricQuery>,
) -> Result<Viewed<views::Trust>, ApiError> {
    of_model(&api, &names, &headers, query, views::trust).await
}

async fn recommended(
    State(api): State<StudiesState>,
    Names(names): Names<3>,
    headers: HeaderMap,
    Query(query): Query<MetricQuery>,
) -> Result<Viewed<views::Recommendation>, ApiError> {
    of_model(&api, &names, &headers, query, views::recommendation).await
}

/// The view of the model of the trials that `query` selects.
async fn of_model<T: Serialize + Send + 'static>(
    api: &StudiesState,
    names: &[String; 3],
    headers: &HeaderMap,
    query: MetricQuery,
    compute: fn(&tunesmith_algorithms::insight::MetricInsight) -> T,
) -> Result<Viewed<T>, ApiError> {
    let (limit, filter) = (limit(query.points)?, parsed(&query.filter)?);
    let Request { study, etag } = match Request::of(api, names, headers, &filter).await? {
        Ok(request) => request,
        Err(etag) => return Ok(Viewed::Unchanged { etag }),
    };
    let choice = (filter.to_string(), limit);
    let columns = api.studies.columns(&study).await?;
    let (revision, total, matched, metric, completed) = off_the_runtime(move || {
        let (rows, metric) = selected(&columns, &filter, &query.metric)?;
        let completed = views::modelled(&columns, &rows, metric, limit);
        Ok((columns.revision(), columns.live().count(), rows.count(), metric, completed))
    })
    .await?;
    let metric = &study.problem.metrics()[metric].name;
    let insight = api.studies.insight(&study, revision, metric, choice, completed).await?;
    let insight = insight.map_err(|error| ApiError::new(Code::FailedPrecondition, error.to_string()))?;
    let json = render_off_the_runtime(move || View {
        revision: revision.to_string(),
        total,
        matched,
        view: compute(&insight),
    });
    Ok(Viewed::New { etag, json: json.await?, of: PhantomData })
}
