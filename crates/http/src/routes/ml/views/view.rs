use std::io::Write as _;
use std::marker::PhantomData;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tunesmith_admission::long_work::{self, off_the_runtime};
use tunesmith_algorithms::insight::MetricInsight;
use tunesmith_domain::Study;
use tunesmith_filter::Filter;
use tunesmith_studies::ViewedColumns;
use tunesmith_views::{self as views, Columns, Rows, ViewError};

use super::queries::{MetricQuery, ViewQuery};
use crate::openapi::{Input, Operation, Output};
use crate::request::names::{Names, study_id};
use crate::request::query::{self, Query, refused_filter};
use crate::response::error::{ApiError, Code};
use crate::response::rendered::render;
use crate::routes::state::Api;

/// A view, with the number of trials that it stands for.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "{T}View")]
pub(super) struct View<T> {
    /// Revision of the study; changes with every change of its trials.
    revision: String,
    /// The number of trials of the study.
    total: usize,
    /// The number of trials that the filter accepts.
    matched: usize,
    /// The view.
    view: T,
}

pub(super) enum Viewed<T> {
    /// The client has the current version.
    Unchanged { etag: String },
    /// Rendered view.
    New { etag: String, content: Content, of: PhantomData<fn() -> T> },
}

impl<T> IntoResponse for Viewed<T> {
    fn into_response(self) -> Response {
        let headers = |etag| {
            let fixed = [(CACHE_CONTROL, "private, no-cache"), (VARY, "accept-encoding")];
            ([(ETAG, etag)], fixed)
        };
        match self {
            Self::Unchanged { etag } => (StatusCode::NOT_MODIFIED, headers(etag)).into_response(),
            Self::New { etag, content: Content { bytes, is_compressed }, .. } => {
                let encoding = is_compressed.then_some([(CONTENT_ENCODING, "gzip")]);
                (headers(etag), encoding, [(CONTENT_TYPE, "application/json")], bytes).into_response()
            }
        }
    }
}

/// Minimum size for compressing a view, in bytes. A guess: smaller ones fit into a few packets.
const LARGE: usize = 3000;

/// JSON of a view.
pub(super) struct Content {
    bytes: Bytes,
    /// Whether `bytes` are compressed with gzip.
    is_compressed: bool,
}

impl Content {
    /// `json`, compressed if it is large and the client accepts that.
    fn of(json: Bytes, accepts_gzip: bool) -> Self {
        let compressed = Some(&json).filter(|json| accepts_gzip && json.len() >= LARGE).and_then(|json| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(json).ok()?;
            encoder.finish().ok()
        });
        match compressed {
            Some(compressed) => Self { bytes: compressed.into(), is_compressed: true },
            None => Self { bytes: json, is_compressed: false },
        }
    }
}

/// Whether a value of `Accept-Encoding` in `headers` lists gzip with a quality other than 0.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        let is_refused = quality.trim().strip_prefix("q=").and_then(|quality| quality.parse().ok()) == Some(0.0);
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

/// Whether a value of `If-None-Match` in `headers` has `etag`, by the weak comparison of RFC 9110, 8.8.3.2.
fn is_known(etag: &str, headers: &HeaderMap) -> bool {
    let values = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let opaque = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag).to_owned();
    let mut known = values.flat_map(|value| value.split(',')).map(str::trim);
    known.any(|known| known == "*" || opaque(known) == opaque(etag))
}

impl<T: JsonSchema> Output for Viewed<T> {
    fn describe(operation: &mut Operation) {
        axum::Json::<View<T>>::describe(operation);
    }
}

/// Minimum number of parameter values for computing a view on a blocking thread (a guess: 1 ms).
const MANY: usize = 20_000;

pub(super) struct ViewRequest<Q> {
    pub(super) api: Arc<Api>,
    names: [String; 3],
    headers: HeaderMap,
    pub(super) query: Q,
}

impl<Q: DeserializeOwned> FromRequestParts<Arc<Api>> for ViewRequest<Q> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
        let Names(names) = Names::from_request_parts(parts, api).await?;
        let Query(query) = Query::from_request_parts(parts, api).await?;
        Ok(Self { api: Arc::clone(api), names, headers: std::mem::take(&mut parts.headers), query })
    }
}

impl<Q: JsonSchema> Input for ViewRequest<Q> {
    fn describe(operation: &mut Operation) {
        Query::<Q>::describe(operation);
    }
}

/// Viewed study at one revision.
struct Viewing {
    study: Study,
    filter: Filter,
    etag: String,
    limit: usize,
    accepts_gzip: bool,
}

impl<Q: ViewQuery> ViewRequest<Q> {
    /// Loads the study; its etag instead if the client has this version and the filter is not relative.
    async fn viewing(&self) -> Result<Result<Viewing, String>, ApiError> {
        let limit = self.query.limit()?;
        let filter: Filter = query::filter(self.query.filter())?;
        let [project, location, study] = &self.names;
        let study = self.api.studies.study(&study_id(project, location, study)?).await?;
        let (created, revision) = (study.create_time.as_microsecond(), study.revision);
        // Weak, since a compressed response has the same.
        let etag = format!("W/\"{}-{created:x}-{revision:x}\"", env!("CARGO_PKG_VERSION"));
        let is_known = !filter.is_relative() && is_known(&etag, &self.headers);
        let accepts_gzip = accepts_gzip(&self.headers);
        Ok(if is_known { Err(etag) } else { Ok(Viewing { study, filter, etag, limit, accepts_gzip }) })
    }

    /// Computes a view from the query, the trials and the maximum number of points.
    pub(super) async fn view<T: Serialize + Send + 'static>(
        self,
        compute: impl FnOnce(&Q, &Columns, &Rows, usize) -> Result<T, ViewError> + Send + 'static,
    ) -> Result<Viewed<T>, ApiError>
    where
        Q: Send + 'static,
    {
        let Viewing { study, filter, etag, limit, accepts_gzip } = match self.viewing().await? {
            Ok(viewing) => viewing,
            Err(etag) => return Ok(Viewed::Unchanged { etag }),
        };
        let columns = self.api.studies.columns(&study).await?;
        let parameters = study.problem.search_space().parameters().len();
        let is_small = columns.len().saturating_mul(parameters.max(1)) <= MANY;
        let query = self.query;
        let work = move || {
            let rows = columns.select(&filter).map_err(refused_filter)?;
            let view = compute(&query, &columns, &rows, limit).map_err(unknown_field)?;
            enveloped(&columns, &rows, view).map(|json| Content::of(json, accepts_gzip))
        };
        let content = if is_small {
            work()?
        } else {
            let _permit = long_work::permit().await;
            off_the_runtime(work).await??
        };
        Ok(Viewed::New { etag, content, of: PhantomData })
    }
}

impl ViewRequest<MetricQuery> {
    pub(super) async fn curves(self) -> Result<Viewed<views::Curves>, ApiError> {
        let Viewing { study, filter, etag, limit, accepts_gzip } = match self.viewing().await? {
            Ok(viewing) => viewing,
            Err(etag) => return Ok(Viewed::Unchanged { etag }),
        };
        let columns = self.api.studies.columns(&study).await?;
        let (columns, rows, metric, chosen) = off_the_runtime(move || {
            let (rows, metric) = selected(&columns, &filter, &self.query.metric)?;
            let chosen = views::trials_of_curves(&columns, &rows, metric, limit);
            Ok::<_, ApiError>((columns, rows, metric, chosen))
        })
        .await??;
        let read = self.api.studies.curves_of(&study.id, chosen).await?;
        let curves = move || {
            let json = enveloped(&columns, &rows, views::curves(&columns, &rows, metric, &read, limit))?;
            Ok::<_, ApiError>(Content::of(json, accepts_gzip))
        };
        Ok(Viewed::New { etag, content: off_the_runtime(curves).await??, of: PhantomData })
    }

    /// Computes a view from the model of the trials.
    pub(super) async fn of_model<T: Serialize + Send + 'static>(
        self,
        compute: fn(&MetricInsight) -> T,
    ) -> Result<Viewed<T>, ApiError> {
        let Viewing { study, filter, etag, limit, accepts_gzip } = match self.viewing().await? {
            Ok(viewing) => viewing,
            Err(etag) => return Ok(Viewed::Unchanged { etag }),
        };
        let (insight, (revision, total, matched)) =
            insight_of(&self.api, &study, filter, &self.query.metric, limit).await?;
        let revision = revision.to_string();
        let view = move || {
            let json = render(&View { revision, total, matched, view: compute(&insight) })?;
            Ok::<_, ApiError>(Content::of(json, accepts_gzip))
        };
        Ok(Viewed::New { etag, content: off_the_runtime(view).await??, of: PhantomData })
    }
}

/// Findings of a model of at most `limit` trials that match `filter`; with the revision of the study and the numbers of its
/// trials and of those that match.
pub(super) async fn insight_of(
    api: &Api,
    study: &Study,
    filter: Filter,
    metric: &str,
    limit: usize,
) -> Result<(Arc<MetricInsight>, (u64, usize, usize)), ApiError> {
    let choice = (filter.to_string(), limit);
    let columns = api.studies.columns(study).await?;
    let metric = metric.to_owned();
    let (of_rows, metric, completed) = off_the_runtime(move || {
        let (rows, metric) = selected(&columns, &filter, &metric)?;
        let completed = views::modelled(&columns, &rows, metric, limit);
        Ok::<_, ApiError>(((columns.revision(), columns.live().count(), rows.count()), metric, completed))
    })
    .await??;
    let metric = &study.problem.metrics()[metric].name;
    let insight = api.studies.insight(study, of_rows.0, metric, choice, completed).await?;
    let insight = insight.map_err(|error| ApiError::new(Code::FailedPrecondition, error.to_string()))?;
    Ok((insight, of_rows))
}

/// Rows that match `filter`, and the metric named `metric`.
fn selected(columns: &ViewedColumns, filter: &Filter, metric: &str) -> Result<(Rows, usize), ApiError> {
    let rows = columns.select(filter).map_err(refused_filter)?;
    Ok((rows, columns.metric_named(metric, "metric").map_err(unknown_field)?))
}

fn unknown_field(error: ViewError) -> ApiError {
    ApiError::invalid(error.field, error.message)
}

fn enveloped<T: Serialize>(columns: &Columns, rows: &Rows, view: T) -> Result<Bytes, ApiError> {
    let (total, matched) = (columns.live().count(), rows.count());
    render(&View { revision: columns.revision().to_string(), total, matched, view })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn large_views_are_compressed_for_clients_that_accept_it() {
        let large = Bytes::from("{\"x\": 1}".repeat(1000));
        let content = Content::of(large.clone(), true);
        assert!(content.is_compressed && content.bytes.len() < large.len() / 10);
        let mut read = String::new();
        flate2::read::GzDecoder::new(&content.bytes[..]).read_to_string(&mut read).unwrap();
        assert_eq!(read, large);
        for (json, accepts_gzip) in [(large, false), (Bytes::from_static(b"{}"), true)] {
            let content = Content::of(json.clone(), accepts_gzip);
            assert!(!content.is_compressed && content.bytes == json);
        }
    }

    #[test]
    fn etags_are_compared_weakly() {
        for (value, expected) in
            [("W/\"0.1-a\"", true), ("\"other\", \"0.1-a\"", true), ("*", true), ("\"0.1-b\"", false), ("0.1-a", false)]
        {
            let headers = HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_static(value))]);
            assert_eq!(is_known("W/\"0.1-a\"", &headers), expected, "{value}");
        }
    }

    #[test]
    fn encodings_are_read_from_headers() {
        for (value, expected) in [("gzip, br", true), ("br;q=1, GZIP;q=0.5", true), ("gzip;q=0", false), ("br", false)]
        {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(value))]);
            assert_eq!(accepts_gzip(&headers), expected, "{value}");
        }
    }
}
