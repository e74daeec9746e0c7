use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::operation::Operation;
use crate::request::names::parameter_names;

/// SHA-256 of empty input.
const EXAMPLE_HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Pattern, example and description of a path parameter.
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
        "token" => ("^[0-9a-f]{12}$", "0123456789ab", "ID of an access token: its public part."),
        "log" => ("^[^/]+$", "attempt-1.master-0.stdout", "Name of a log, as listed."),
        "worker" => ("^[0-9a-f]{12}$", "0123456789ab", "ID of the workers of a version in pods."),
        "file" => ("^[0-9]{1,9}$", "0", "Number of a file."),
        _ => ("^[A-Za-z0-9_-]+$", "e30", "ID of an operation."),
    }
}

pub(super) fn of(operation: &Operation) -> Vec<Value> {
    let mut parameters: Vec<Value> = parameter_names(operation.path)
        .map(|name| {
            let (pattern, example, description) = self::name(name);
            json!({
                "name": name,
                "in": "path",
                "required": true,
                "description": description,
                "schema": {"type": "string", "pattern": pattern},
                "example": example,
            })
        })
        .collect();
    let (properties, required) = query(operation);
    for (name, mut schema) in properties {
        let mut description = None;
        if let Some(schema) = schema.as_object_mut() {
            description = schema.remove("description");
            // Absent parameters have no value.
            if schema.get("default").is_some_and(Value::is_null) {
                schema.remove("default");
            }
        }
        let mut parameter =
            json!({"name": name, "in": "query", "required": required.contains(&name), "schema": schema});
        if let Some(description) = description {
            parameter["description"] = description;
        }
        parameters.push(parameter);
    }
    if operation.use_case.takes_key() {
        parameters.push(json!({
            "name": "Idempotency-Key",
            "in": "header",
            "required": false,
            "description": "The client's name for this change: repeated requests with the same key have one effect.",
            "schema": {"type": "string", "pattern": "^[!-~]{1,64}$"},
        }));
    }
    parameters
}

pub(crate) fn query_names(operation: &Operation) -> Vec<String> {
    query(operation).0.into_iter().map(|(name, _)| name).collect()
}

/// Schemas of the query parameters by name, and the names of the required ones.
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
