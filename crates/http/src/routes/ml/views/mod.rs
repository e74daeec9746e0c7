//! `views` of a study: its trials reduced to a bounded size, for plots and tables.

mod queries;
mod view;

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use self::queries::{FrontQuery, MetricQuery, PairQuery, SliceQuery, TableQuery, TimelineQuery};
use self::view::{ViewRequest, Viewed};
use crate::openapi::Operation;
use crate::request::names::{Names, study_id};
use crate::request::query::{self, refused_filter};
use crate::response::error::ApiError;
use crate::routes::state::Api;
use crate::routes::table::Routes;
use tunesmith_admission::long_work::off_the_runtime;
use tunesmith_admission::use_cases;
use tunesmith_domain::{Study, TrialId};
use tunesmith_filter::Filter;
use tunesmith_studies::Studies;
use tunesmith_views::{self as views, Columns, ViewError};

macro_rules! view {
    ($name:literal) => {
        concat!("/v1/projects/{project}/locations/{location}/studies/{study}/views/", $name)
    };
}

pub(crate) fn routes(routes: Routes<Arc<Api>>) -> Routes<Arc<Api>> {
    let get = |path, use_case| Operation::get(path, use_case).or_not_found();
    routes
        .add(get(view!("history"), use_cases::VIEW_HISTORY), history)
        .add(get(view!("parallelCoordinates"), use_cases::VIEW_PARALLEL_COORDINATES), parallel_coordinates)
        .add(get(view!("slice"), use_cases::VIEW_SLICE), slice)
        .add(get(view!("contour"), use_cases::VIEW_CONTOUR), contour)
        .add(get(view!("rank"), use_cases::VIEW_RANK), rank)
        .add(get(view!("paretoFront"), use_cases::VIEW_PARETO_FRONT), pareto_front)
        .add(get(view!("distribution"), use_cases::VIEW_DISTRIBUTION), distribution)
        .add(
            get(view!("learningCurves"), use_cases::VIEW_LEARNING_CURVES),
            async |request: ViewRequest<MetricQuery>| request.curves().await,
        )
        .add(get(view!("timeline"), use_cases::VIEW_TIMELINE), timeline)
        .add(get(view!("importance"), use_cases::VIEW_IMPORTANCE), async |request: ViewRequest<MetricQuery>| {
            request.of_model(views::importances).await
        })
        .add(get(view!("trust"), use_cases::VIEW_TRUST), async |request: ViewRequest<MetricQuery>| {
            request.of_model(views::trust).await
        })
        .add(get(view!("recommended"), use_cases::VIEW_RECOMMENDED), async |request: ViewRequest<MetricQuery>| {
            request.of_model(views::recommendation).await
        })
        .add(get(view!("sourceStudies"), use_cases::VIEW_SOURCE_STUDIES), source_studies)
        .add(get(view!("table"), use_cases::VIEW_TABLE), table)
}

/// Numbers of the trials that match `filter`.
pub(crate) async fn selected_trials(studies: &Studies, study: &Study, filter: &str) -> Result<Vec<TrialId>, ApiError> {
    let filter: Filter = query::filter(filter)?;
    let columns = studies.columns(study).await?;
    off_the_runtime(move || {
        let rows = columns.select(&filter).map_err(refused_filter)?;
        Ok(rows.iter().map(|row| TrialId(columns.number(row))).collect())
    })
    .await?
}

/// Trial that the model of the results recommends instead of the best one; `None` if it has no better choice.
///
/// # Errors
/// [`Code::FailedPrecondition`](tunesmith_domain::Code::FailedPrecondition) if the results are too few for a model.
pub(super) async fn recommended_trial(api: &Api, study: &Study) -> Result<Option<TrialId>, ApiError> {
    let all = query::filter("")?;
    let insight = view::insight_of(api, study, all, "", tunesmith_views::DEFAULT_POINTS).await?.0;
    let optimum = &insight.optimum;
    Ok(optimum.is_recommended.then_some(optimum.best_measured_by_model.trial).flatten())
}

type Response<T> = Result<Viewed<T>, ApiError>;

async fn history(request: ViewRequest<MetricQuery>) -> Response<views::History> {
    let view = |query: &MetricQuery, columns: &_, rows: &_, limit| {
        Ok(views::history(columns, rows, metric(columns, &query.metric)?, limit))
    };
    request.view(view).await
}

async fn parallel_coordinates(request: ViewRequest<MetricQuery>) -> Response<views::ParallelCoordinates> {
    let view = |query: &MetricQuery, columns: &_, rows: &_, limit| {
        Ok(views::parallel_coordinates(columns, rows, metric(columns, &query.metric)?, limit))
    };
    request.view(view).await
}

async fn distribution(request: ViewRequest<MetricQuery>) -> Response<views::Distribution> {
    let view = |query: &MetricQuery, columns: &_, rows: &_, limit| {
        Ok(views::distribution(columns, rows, metric(columns, &query.metric)?, limit))
    };
    request.view(view).await
}

async fn slice(request: ViewRequest<SliceQuery>) -> Response<views::Slice> {
    let view = |query: &SliceQuery, columns: &Columns, rows: &_, limit| {
        let parameter = columns.parameter_named(&query.parameter, 0, "parameter")?;
        Ok(views::slice(columns, rows, metric(columns, &query.metric)?, parameter, limit))
    };
    request.view(view).await
}

async fn contour(request: ViewRequest<PairQuery>) -> Response<views::Contour> {
    let view = |query: &PairQuery, columns: &_, rows: &_, limit| {
        let (metric, pair) = pair(columns, query)?;
        Ok(views::contour(columns, rows, metric, pair, limit))
    };
    request.view(view).await
}

async fn rank(request: ViewRequest<PairQuery>) -> Response<views::Rank> {
    let view = |query: &PairQuery, columns: &_, rows: &_, limit| {
        let (metric, pair) = pair(columns, query)?;
        Ok(views::rank(columns, rows, metric, pair, limit))
    };
    request.view(view).await
}

async fn pareto_front(request: ViewRequest<FrontQuery>) -> Response<views::ParetoFront> {
    let view = |query: &FrontQuery, columns: &Columns, rows: &_, limit| {
        let x = columns.metric_named(&query.x, "x")?;
        let second = columns.problem().metrics().get(1).map_or("", |metric| &metric.name);
        let y = if query.y.is_empty() { second } else { &query.y };
        Ok(views::pareto_front(columns, rows, [x, columns.metric_named(y, "y")?], limit))
    };
    request.view(view).await
}

async fn timeline(request: ViewRequest<TimelineQuery>) -> Response<views::Timeline> {
    let now = request.api.clock.now().as_microsecond();
    request.view(move |_, columns, rows, limit| Ok(views::timeline(columns, rows, now, limit))).await
}

async fn source_studies(
    State(api): State<Arc<Api>>,
    Names([project, location, study]): Names<3>,
) -> Result<Json<views::SourceStudies>, ApiError> {
    let study = api.studies.study(&study_id(&project, &location, &study)?).await?;
    let reports = api.studies.source_reports(&study).await?;
    Ok(Json(views::SourceStudies { sources: reports.iter().map(Into::into).collect() }))
}

async fn table(request: ViewRequest<TableQuery>) -> Response<views::Table> {
    let offset = request.query.offset()?;
    let view = move |query: &TableQuery, columns: &Columns, rows: &_, limit| {
        Ok(views::table(columns, rows, columns.order(&query.order_by)?, offset, limit))
    };
    request.view(view).await
}

/// Metric by name; the first one if `name` is empty.
fn metric(columns: &Columns, name: &str) -> Result<usize, ViewError> {
    columns.metric_named(name, "metric")
}

fn pair(columns: &Columns, query: &PairQuery) -> Result<(usize, [usize; 2]), ViewError> {
    let metric = metric(columns, &query.metric)?;
    let x = columns.parameter_named(&query.x, 0, "x")?;
    // A study with one parameter shows it on both axes.
    let second = 1.min(columns.problem().search_space().parameters().len().saturating_sub(1));
    Ok((metric, [x, columns.parameter_named(&query.y, second, "y")?]))
}
