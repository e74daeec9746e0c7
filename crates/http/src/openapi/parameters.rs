//! The parameters of a method, in its path and in its query.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{RefOr, Required, Schema};

use super::operation::Operation;
use crate::names::parameter_names;

/// The SHA-256 of empty input.
const EXAMPLE_HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Pattern, example and description of a name in a path.
fn name(name: &str) -> (&'static str, &'static str, &'static str) {
    match name {
        "project" => ("^[A-Za-z0-9_.:-]{1,128}$", "my-project", "A project. Any valid name is accepted."),
        "location" => ("^[A-Za-z0-9_.-]{1,128}$", "us-central1", "A location. Any valid name is accepted."),
        "job" => ("^[A-Za-z][A-Za-z0-9_]{0,127}$", "census_1", "ID of a job."),
        "study" => ("^[A-Za-z0-9_.-]{1,128}$", "example", "ID of a study."),
        "trial" => (
            "^[0-9]{1,18}(~[0-9]{1,18})?$",
            "1",
            "Number of a trial; after an expired lease followed by the attempt, as in `7~2`.",
        ),
        "sha256" => ("^[0-9a-f]{64}$", EXAMPLE_HASH, "The SHA-256 of a package's bytes."),
        "file_name" => ("^[^/]+$", "trainer-1.0.tar.gz", "The file name of a package."),
        "log" => ("^[^/]+$", "attempt-1.master-0.stdout", "Name of a log, as listed."),
        _ => ("^[A-Za-z0-9_-]+$", "e30", "ID of an operation."),
    }
}

/// The parameters of `operation`.
pub(super) fn of(operation: &Operation) -> Vec<Parameter> {
    let mut parameters: Vec<Parameter> = parameter_names(operation.path)
        .map(|name| {
            let (pattern, example, description) = self::name(name);
            ParameterBuilder::new()
                .name(name)
                .parameter_in(ParameterIn::Path)
                .required(Required::True)
                .description(Some(description))
                .schema(schema(json!({ "type": "string", "pattern": pattern })))
                .example(Some(json!(example)))
                .build()
        })
        .collect();
    let (properties, required) = query(operation);
    for (name, mut property) in properties {
        let description = property.as_object_mut().and_then(|property| property.remove("description"));
        let is_required = required.contains(&name);
        parameters.push(
            ParameterBuilder::new()
                .name(name)
                .parameter_in(ParameterIn::Query)
                .required(if is_required { Required::True } else { Required::False })
                .description(description.as_ref().and_then(Value::as_str))
                .schema(schema(property))
                .build(),
        );
    }
    if operation.takes_key {
        let description = "The client's name for this change: repeated requests with the same key have one effect.";
        parameters.push(
            ParameterBuilder::new()
                .name("Idempotency-Key")
                .parameter_in(ParameterIn::Header)
                .required(Required::False)
                .description(Some(description))
                .schema(schema(json!({ "type": "string", "pattern": "^[!-~]{1,64}$" })))
                .build(),
        );
    }
    parameters
}

/// Names of the query parameters of `operation`.
pub(crate) fn query_names(operation: &Operation) -> Vec<String> {
    query(operation).0.into_iter().map(|(name, _)| name).collect()
}

/// The schemas of the query parameters by name, and the names of those that are required.
fn query(operation: &Operation) -> (Map<String, Value>, Vec<String>) {
    let Some(query) = operation.query else { return (Map::new(), Vec::new()) };
    let mut generator =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true).into_generator();
    let mut schema = query(&mut generator).to_value();
    let properties = match schema.get_mut("properties").map(Value::take) {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    };
    let required = schema["required"].as_array().into_iter().flatten();
    (properties, required.filter_map(|name| name.as_str().map(str::to_owned)).collect())
}

/// `value` as a schema of utoipa, which represents the simple schemas of parameters in full.
fn schema(value: Value) -> Option<RefOr<Schema>> {
    serde_json::from_value(value).ok().map(RefOr::T)
}
