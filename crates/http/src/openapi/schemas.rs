//! The schemas of messages in requests and responses.

use std::collections::BTreeSet;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use utoipa::openapi::{Ref, RefOr, Schema};

use super::operation::{Operation, SchemaOf};

/// The location of the schemas in the document.
const HOME: &str = "#/components/schemas/";

/// Collects schemas.
pub(super) struct Schemas {
    sent: SchemaGenerator,
    answered: SchemaGenerator,
}

/// All schemas, with unique names.
pub(super) struct Finished {
    pub(super) definitions: Map<String, Value>,
    /// Request messages whose schema is not named after their type.
    renamed: BTreeSet<String>,
}

/// The schema of a message.
pub(super) struct MessageSchema {
    name: String,
    is_sent: bool,
}

impl Default for Schemas {
    fn default() -> Self {
        let settings = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            })
        };
        Self {
            sent: settings().for_deserialize().into_generator(),
            answered: settings().for_serialize().into_generator(),
        }
    }
}

/// The schema of the JSON responses of `operation`, with its definitions in `$defs`; `None` if they are not JSON.
pub(crate) fn answer_schema(operation: &Operation) -> Option<Value> {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = operation.answer?(&mut generator).to_value();
    if let Some(object) = schema.as_object_mut() {
        object.insert("$defs".to_owned(), Value::Object(generator.take_definitions(true)));
    }
    Some(schema)
}

impl Schemas {
    /// Adds the schema of a request.
    pub(super) fn sent(&mut self, schema: SchemaOf) -> MessageSchema {
        MessageSchema { name: name(&schema(&mut self.sent).to_value()), is_sent: true }
    }

    /// Adds the schema of a response.
    pub(super) fn answer(&mut self, schema: SchemaOf) -> MessageSchema {
        MessageSchema { name: name(&schema(&mut self.answered).to_value()), is_sent: false }
    }

    /// Renames each request schema that has the name of a different response schema.
    pub(super) fn finish(mut self) -> Finished {
        let mut sent = self.sent.take_definitions(true);
        for schema in sent.values_mut() {
            allow_null(schema);
            remove_defaults_of_messages(schema);
        }
        let mut definitions = self.answered.take_definitions(true);
        definitions.values_mut().for_each(remove_defaults_of_messages);
        let mut renamed = BTreeSet::new();
        loop {
            let more: Vec<String> = sent
                .iter()
                .filter(|(name, _)| !renamed.contains(*name))
                .filter(|(name, schema)| {
                    definitions.get(*name).is_some_and(|answered| *answered != with_names((*schema).clone(), &renamed))
                })
                .map(|(name, _)| name.clone())
                .collect();
            if more.is_empty() {
                break;
            }
            renamed.extend(more);
        }
        for (name, schema) in sent {
            definitions.insert(input_name(&name, &renamed), with_names(schema, &renamed));
        }
        definitions.sort_keys();
        Finished { definitions, renamed }
    }
}

impl Finished {
    /// A reference to a schema.
    pub(super) fn reference(&self, schema: MessageSchema) -> RefOr<Schema> {
        if schema.name.is_empty() {
            return RefOr::T(Schema::default());
        }
        let name = if schema.is_sent { input_name(&schema.name, &self.renamed) } else { schema.name };
        RefOr::Ref(Ref::from_schema_name(name))
    }
}

/// The name of the definition that `schema` refers to; empty if `schema` is not a reference.
fn name(schema: &Value) -> String {
    schema["$ref"].as_str().and_then(|reference| reference.strip_prefix(HOME)).unwrap_or_default().to_owned()
}

fn input_name(name: &str, renamed: &BTreeSet<String>) -> String {
    if renamed.contains(name) { format!("{name}Input") } else { name.to_owned() }
}

fn with_names(mut schema: Value, renamed: &BTreeSet<String>) -> Value {
    visit(&mut schema, &mut |object| {
        let Some(Value::String(reference)) = object.get_mut("$ref") else { return };
        if let Some(name) = reference.strip_prefix(HOME) {
            *reference = format!("{HOME}{}", input_name(name, renamed));
        }
    });
    schema
}

/// Fields of a request may be `null`, unless they are required.
fn allow_null(schema: &mut Value) {
    visit(schema, &mut |object| {
        let required: Vec<Value> = object.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        let Some(Value::Object(properties)) = object.get_mut("properties") else { return };
        for (name, property) in properties {
            if required.contains(&json!(name)) {
                continue;
            }
            let Value::Object(property) = property else { continue };
            if let Some(reference) = property.remove("$ref") {
                property.insert("anyOf".to_owned(), json!([{ "$ref": reference }, { "type": "null" }]));
            }
            match property.get_mut("type") {
                Some(Value::Array(types)) if !types.contains(&json!("null")) => types.push(json!("null")),
                Some(one @ Value::String(_)) if *one != "null" => *one = json!([one, "null"]),
                _ => {}
            }
        }
    });
}

/// Removes the defaults of messages, lists and enums, which are empty or unspecified: generators of clients refuse defaults of
/// types that a name refers to or that have several forms.
fn remove_defaults_of_messages(schema: &mut Value) {
    visit(schema, &mut |object| {
        let is_named = object.contains_key("$ref") || object.contains_key("anyOf") || object.contains_key("oneOf");
        let is_message = matches!(object.get("default"), Some(Value::Object(_) | Value::Array(_)));
        // A field may have the name `default`: it is a schema there.
        if object.contains_key("default") && (is_named || is_message && object.contains_key("type")) {
            object.remove("default");
        }
    });
}

/// Calls `each` with every object in `schema`.
fn visit(schema: &mut Value, each: &mut impl FnMut(&mut Map<String, Value>)) {
    match schema {
        Value::Object(object) => {
            each(object);
            object.values_mut().for_each(|value| visit(value, each));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| visit(item, each)),
        _ => {}
    }
}
