//! Embedded files at `/console/assets/HASH/NAME`.
//!
//! The hash covers all files, so that modules import each other by plain names and browsers cache files forever: new
//! content has a new URL.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::OnceLock;

use axum::extract::Path;
use axum::http::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

use super::plotly;

pub(crate) const PATH: &str = "/console/assets/{hash}/{name}";

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const IMAGE: &str = "image/svg+xml";
const SCHEMA: &str = "application/schema+json";

/// Name, content type and content of each file.
const FILES: &[(&str, &str, &[u8])] = &[
    ("actions.js", SCRIPT, include_bytes!("../assets/actions.js")),
    ("app.js", SCRIPT, include_bytes!("../assets/app.js")),
    ("axes.js", SCRIPT, include_bytes!("../assets/axes.js")),
    ("beside.js", SCRIPT, include_bytes!("../assets/beside.js")),
    ("card.js", SCRIPT, include_bytes!("../assets/card.js")),
    ("caret.js", SCRIPT, include_bytes!("../assets/caret.js")),
    ("chips.js", SCRIPT, include_bytes!("../assets/chips.js")),
    ("commands.js", SCRIPT, include_bytes!("../assets/commands.js")),
    ("compare.js", SCRIPT, include_bytes!("../assets/compare.js")),
    ("compared.js", SCRIPT, include_bytes!("../assets/compared.js")),
    ("completion.js", SCRIPT, include_bytes!("../assets/completion.js")),
    ("console.css", STYLE, include_bytes!("../assets/console.css")),
    ("copy.js", SCRIPT, include_bytes!("../assets/copy.js")),
    ("curve.js", SCRIPT, include_bytes!("../assets/curve.js")),
    ("editor.js", SCRIPT, include_bytes!("../assets/editor.js")),
    ("explore.css", STYLE, include_bytes!("../assets/explore.css")),
    ("explore.js", SCRIPT, include_bytes!("../assets/explore.js")),
    ("figure.js", SCRIPT, include_bytes!("../assets/figure.js")),
    ("filters.js", SCRIPT, include_bytes!("../assets/filters.js")),
    ("first_views.js", SCRIPT, include_bytes!("../assets/first_views.js")),
    ("health.js", SCRIPT, include_bytes!("../assets/health.js")),
    ("icon.svg", IMAGE, include_bytes!("../assets/icon.svg")),
    ("job_form.js", SCRIPT, include_bytes!("../assets/job_form.js")),
    ("keys.js", SCRIPT, include_bytes!("../assets/keys.js")),
    ("leaders.js", SCRIPT, include_bytes!("../assets/leaders.js")),
    ("live.js", SCRIPT, include_bytes!("../assets/live.js")),
    ("model.js", SCRIPT, include_bytes!("../assets/model.js")),
    ("new_job.js", SCRIPT, include_bytes!("../assets/new_job.js")),
    ("new_model.js", SCRIPT, include_bytes!("../assets/new_model.js")),
    ("parallel.js", SCRIPT, include_bytes!("../assets/parallel.js")),
    ("plot_parts.js", SCRIPT, include_bytes!("../assets/plot_parts.js")),
    ("plots.js", SCRIPT, include_bytes!("../assets/plots.js")),
    ("scales.js", SCRIPT, include_bytes!("../assets/scales.js")),
    ("schema.js", SCRIPT, include_bytes!("../assets/schema.js")),
    ("selection.js", SCRIPT, include_bytes!("../assets/selection.js")),
    ("sketch.js", SCRIPT, include_bytes!("../assets/sketch.js")),
    ("summary.js", SCRIPT, include_bytes!("../assets/summary.js")),
    ("surface.js", SCRIPT, include_bytes!("../assets/surface.js")),
    ("theme.js", SCRIPT, include_bytes!("../assets/theme.js")),
    ("ticks.js", SCRIPT, include_bytes!("../assets/ticks.js")),
    ("times.js", SCRIPT, include_bytes!("../assets/times.js")),
    ("trial_form.js", SCRIPT, include_bytes!("../assets/trial_form.js")),
    ("upload.js", SCRIPT, include_bytes!("../assets/upload.js")),
    ("views.js", SCRIPT, include_bytes!("../assets/views.js")),
    ("wheel.js", SCRIPT, include_bytes!("../assets/wheel.js")),
    ("words.js", SCRIPT, include_bytes!("../assets/words.js")),
];

/// JSON schemas of the configurations that the pages of new jobs and studies complete.
fn schemas() -> [(&'static str, String); 2] {
    [
        ("job.schema.json", tunesmith_config::json_schema().as_value().to_string()),
        ("study.schema.json", tunesmith_config::study_json_schema().as_value().to_string()),
    ]
}

struct Assets {
    hash: String,
    files: BTreeMap<&'static str, Served>,
}

struct Served {
    content_type: &'static str,
    plain: Bytes,
    /// `None` if compression does not reduce the size.
    compressed: Option<Bytes>,
    /// Modules that it imports, directly or indirectly.
    imports: Vec<&'static str>,
}

fn assets() -> &'static Assets {
    static ASSETS: OnceLock<Assets> = OnceLock::new();
    ASSETS.get_or_init(|| {
        let fixed = FILES.iter().map(|(name, kind, content)| (*name, *kind, Bytes::from_static(content)));
        let all = fixed.chain(schemas().map(|(name, content)| (name, SCHEMA, Bytes::from(content))));
        let mut digest = Sha256::new();
        let mut files = BTreeMap::new();
        for (name, content_type, plain) in all {
            digest.update(name);
            digest.update(&plain);
            let compressed = compressed(&plain).filter(|compressed| compressed.len() < plain.len());
            files.insert(name, Served { content_type, plain, compressed, imports: all_imports(name) });
        }
        Assets { hash: hex::encode(&digest.finalize()[..8]), files }
    })
}

/// Modules that the script `name` imports, directly or indirectly, nearest first.
fn all_imports(name: &'static str) -> Vec<&'static str> {
    let mut found = vec![name];
    let mut next = 0;
    while let Some(script) = found.get(next) {
        let content = FILES.iter().find(|(name, kind, _)| name == script && *kind == SCRIPT);
        let text = content.and_then(|(.., content)| str::from_utf8(content).ok()).unwrap_or_default();
        for part in text.split(" from \"./").skip(1) {
            let import = part.split('"').next().unwrap_or_default();
            if !found.contains(&import) {
                found.push(import);
            }
        }
        next += 1;
    }
    found.split_off(1)
}

fn compressed(content: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).ok()?;
    Some(encoder.finish().ok()?.into())
}

pub(crate) fn address(name: &str) -> String {
    format!("/console/assets/{}/{name}", assets().hash)
}

/// Modules that the script `name` imports, directly or indirectly.
pub(crate) fn imports(name: &str) -> &'static [&'static str] {
    assets().files.get(name).map_or(&[], |file| &file.imports)
}

/// Serves a file. Public, since it is part of the program.
pub(crate) async fn asset(Path((hash, name)): Path<(String, String)>, headers: HeaderMap) -> Response {
    if name == plotly::NAME {
        return library(&hash, &headers).await;
    }
    let Some(file) = assets().files.get(name.as_str()).filter(|_| hash == assets().hash) else {
        return missing();
    };
    let compressed = file.compressed.as_ref().filter(|_| accepts_compressed(&headers));
    response(compressed.unwrap_or(&file.plain).clone(), file.content_type, compressed.is_some())
}

async fn library(hash: &str, headers: &HeaderMap) -> Response {
    let is_compressed = accepts_compressed(headers);
    let content = plotly::served(hash, is_compressed).await;
    content.map_or_else(missing, |content| response(content, SCRIPT, is_compressed))
}

fn missing() -> Response {
    (StatusCode::NOT_FOUND, "there is no such file; load the page again").into_response()
}

fn response(content: Bytes, content_type: &'static str, is_compressed: bool) -> Response {
    let mut response = content.into_response();
    let fixed: [(HeaderName, &'static str); 4] = [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (VARY, "accept-encoding"),
        (HeaderName::from_static("x-content-type-options"), "nosniff"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    if is_compressed {
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

fn accepts_compressed(headers: &HeaderMap) -> bool {
    accepts_gzip(headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default())
}

/// Whether `accept_encoding` lists gzip with a quality other than 0.
fn accepts_gzip(accept_encoding: &str) -> bool {
    accept_encoding.split(',').any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        is_gzip && !parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_used_only_for_clients_that_accept_it() {
        for accepted in ["gzip", "deflate, GZIP;q=0.5", "br,gzip"] {
            assert!(accepts_gzip(accepted), "{accepted}");
        }
        for refused in ["", "br", "gzip;q=0", "x-gzip"] {
            assert!(!accepts_gzip(refused), "{refused}");
        }
    }

    #[test]
    fn scripts_name_all_that_they_import() {
        assert_eq!(imports("completion.js"), ["caret.js", "schema.js"]);
        let of_explore = imports("explore.js");
        assert!(of_explore.contains(&"surface.js"), "imported by plots.js: {of_explore:?}");
        assert!(of_explore.iter().all(|name| assets().files.contains_key(name)), "{of_explore:?}");
        assert!(imports("console.css").is_empty());
    }

    #[tokio::test]
    async fn file_is_served_under_the_hash_of_the_set_only() {
        let hash = assets().hash.clone();
        assert_eq!(address("app.js"), format!("/console/assets/{hash}/app.js"));
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        let served = asset(Path((hash.clone(), "console.css".to_owned())), headers).await;
        assert_eq!(served.status(), 200);
        assert_eq!(served.headers()[CONTENT_ENCODING], "gzip");
        assert_eq!(served.headers()[CONTENT_TYPE], "text/css; charset=utf-8");
        for name in ["job.schema.json", "study.schema.json"] {
            let served = asset(Path((hash.clone(), name.to_owned())), HeaderMap::new()).await;
            let content = axum::body::to_bytes(served.into_body(), usize::MAX).await.unwrap();
            let schema: serde_json::Value = serde_json::from_slice(&content).unwrap();
            assert!(schema["then"].is_object() && schema["$defs"].is_object(), "{name}");
        }
        for (hash, name) in [("0", "app.js"), (hash.as_str(), "none.js")] {
            let missing = asset(Path((hash.to_owned(), name.to_owned())), HeaderMap::new()).await;
            assert_eq!(missing.status(), 404);
        }
    }
}
