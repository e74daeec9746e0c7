use std::collections::BTreeSet;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::forms::rewrite;
use super::operation::SchemaOf;

/// Start of references to named schemas.
pub(super) const HOME: &str = "#/components/schemas/";

pub(crate) struct Schemas {
    sent: SchemaGenerator,
    returned: SchemaGenerator,
}

/// All schemas, with unique names.
pub(crate) struct Finished {
    pub(crate) definitions: Map<String, Value>,
    /// Request messages with a schema not named after their type.
    renamed: BTreeSet<String>,
}

pub(crate) struct MessageSchema {
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
            returned: settings().for_serialize().into_generator(),
        }
    }
}

impl Schemas {
    pub(crate) fn sent(&mut self, schema: SchemaOf) -> MessageSchema {
        MessageSchema { name: name(&schema(&mut self.sent).to_value()), is_sent: true }
    }

    pub(crate) fn response(&mut self, schema: SchemaOf) -> MessageSchema {
        MessageSchema { name: name(&schema(&mut self.returned).to_value()), is_sent: false }
    }

    /// Renames request schemas whose name a different response schema has.
    pub(crate) fn finish(mut self) -> Finished {
        let mut sent = self.sent.take_definitions(true);
        sent.values_mut().for_each(allow_null);
        let mut definitions = self.returned.take_definitions(true);
        for schemas in [&mut sent, &mut definitions] {
            rewrite(schemas);
            schemas.values_mut().for_each(remove_defaults_of_messages);
        }
        let mut renamed = BTreeSet::new();
        loop {
            let more: Vec<String> = sent
                .iter()
                .filter(|(name, _)| !renamed.contains(*name))
                .filter(|(name, schema)| {
                    definitions.get(*name).is_some_and(|returned| *returned != with_names((*schema).clone(), &renamed))
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
    pub(super) fn reference(&self, schema: MessageSchema) -> Value {
        if schema.name.is_empty() {
            return json!({"type": "object"});
        }
        let name = if schema.is_sent { input_name(&schema.name, &self.renamed) } else { schema.name };
        json!({"$ref": format!("{HOME}{name}")})
    }
}

/// Name of the definition `schema` refers to; empty if it is not a reference.
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

/// Allows `null` for the optional fields of a request.
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

/// Removes the empty or unspecified defaults of messages, lists and enums: client generators refuse defaults of
/// referenced types and of types with several forms.
fn remove_defaults_of_messages(schema: &mut Value) {
    visit(schema, &mut |object| {
        let is_named = object.contains_key("$ref") || object.contains_key("anyOf") || object.contains_key("oneOf");
        let is_message = matches!(object.get("default"), Some(Value::Object(_) | Value::Array(_)));
        // Except for a field named `default`, which is a schema.
        if object.contains_key("default") && (is_named || is_message && object.contains_key("type")) {
            object.remove("default");
        }
    });
}

/// Calls `each` on all objects in `schema`, the inner ones first.
pub(super) fn visit(schema: &mut Value, each: &mut impl FnMut(&mut Map<String, Value>)) {
    match schema {
        Value::Object(object) => {
            object.values_mut().for_each(|value| visit(value, each));
            each(object);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| visit(item, each)),
        _ => {}
    }
}
