//! Resources: the schema of configurations, and pages of the documentation.

use rmcp::model::{ErrorData, ReadResourceResult, Resource, ResourceContents};
use serde_json::json;

/// URI of the schema.
const SCHEMA: &str = "tunesmith://docs/configuration-schema";

/// A page of the documentation: name, title, text.
struct Page(&'static str, &'static str, &'static str);

macro_rules! pages {
    ($($folder:literal $name:literal $title:literal;)+) => {
        &[$(Page($name, $title, include_str!(concat!("../../../docs/", $folder, "/", $name, ".md")))),+]
    };
}

/// Pages that an agent needs to write a configuration and to read its results.
const PAGES: &[Page] = pages! {
    "reference" "configuration" "Fields of a configuration";
    "reference" "standard-output" "Metrics from standard output";
    "reference" "trials" "Environment and arguments of a trial";
    "reference" "filters" "Language of filters";
    "guide" "your-own-trainer" "Programs that report results";
    "guide" "conditional-spaces" "Conditional parameters";
    "guide" "early-stopping" "Early stopping";
    "guide" "several-metrics" "Several metrics and constraints";
    "guide" "priors-and-warm-start" "Prior knowledge";
    "guide" "reading-explain" "Reading an explanation";
    "guide" "suggest-and-report" "Studies whose trials clients run";
    "guide" "troubleshooting" "Troubleshooting";
};

/// All resources.
pub(crate) fn list() -> Vec<Resource> {
    let schema = Resource::new(SCHEMA, "configuration-schema")
        .with_title("JSON Schema of configurations")
        .with_mime_type("application/json");
    let pages = PAGES.iter().map(|Page(name, title, text)| {
        Resource::new(uri(name), *name).with_title(*title).with_mime_type("text/markdown").with_size(text.len() as u64)
    });
    std::iter::once(schema).chain(pages).collect()
}

fn uri(name: &str) -> String {
    format!("tunesmith://docs/{name}")
}

/// Content of the resource `uri`.
///
/// # Errors
/// If it does not exist.
pub(crate) fn read(uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let (text, mime_type) = if uri == SCHEMA {
        (tunesmith_config::json_schema().to_value().to_string(), "application/json")
    } else {
        let page = PAGES.iter().find(|Page(name, ..)| self::uri(name) == uri);
        let Some(Page(_, _, text)) = page else {
            let known = list().into_iter().map(|resource| resource.uri);
            let data = json!({ "uri": uri, "allowed": known.collect::<Vec<_>>() });
            return Err(ErrorData::resource_not_found(format!("there is no resource {uri}"), Some(data)));
        };
        ((*text).to_owned(), "text/markdown")
    };
    Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri).with_mime_type(mime_type)]))
}
