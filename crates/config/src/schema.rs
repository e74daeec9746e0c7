//! JSON Schema of a config file, generated from the wire types.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, json_schema};
use serde::Deserialize;
use serde_json::Value;

use super::shape::Shape;
use tunesmith_api::ai_platform::TrainingInput;

/// A config in the form of a job, with the key `trainingInput`, as in published examples.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("required" = ["trainingInput"]))]
pub(super) struct ConfigFile {
    /// The job's ID: letters, digits and underscores, starting with a letter, at most 128.
    pub(super) job_id: String,
    /// Labels of the job.
    pub(super) labels: BTreeMap<String, String>,
    /// What the job runs and tunes.
    pub(super) training_input: TrainingInput,
}

impl ConfigFile {
    /// Deserializes `value`, which must have the shape.
    pub(super) fn from_value(value: Value, wrapped: bool) -> serde_json::Result<Self> {
        if wrapped {
            return serde_json::from_value(value);
        }
        Ok(Self { training_input: serde_json::from_value(value)?, ..Self::default() })
    }

    pub(super) fn shape(wrapped: bool) -> Shape {
        let generator = SchemaSettings::draft2020_12().into_generator();
        if wrapped {
            Shape::of(&generator.into_root_schema_for::<Self>())
        } else {
            Shape::of(&generator.into_root_schema_for::<TrainingInput>())
        }
    }
}

/// JSON Schema (draft 2020-12) of `hptuning_config.yaml`, published as `schemas/hptuning_config.schema.json`.
///
/// The reader also accepts unquoted numbers as text and quoted numbers in Tunesmith's own fields.
pub fn json_schema() -> Schema {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let plain = generator.subschema_for::<TrainingInput>();
    let job = generator.subschema_for::<ConfigFile>();
    let definitions = generator.take_definitions(true);
    json_schema!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "hptuning_config",
        "description": "AI Platform's trainingInput, plain or under its key; Tunesmith's additions are under `tunesmith`.",
        "if": { "required": ["trainingInput"] },
        "then": job,
        "else": plain,
        "$defs": definitions,
    })
}
