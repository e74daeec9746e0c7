//! Tools: their definitions for clients, and their handlers.

use std::sync::Arc;

use futures::future::BoxFuture;
use rmcp::model::{JsonObject, Tool as Definition, ToolAnnotations};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tunesmith_admission::UseCase;
use tunesmith_admission::tools::use_cases_of;

use crate::context::Context;
use crate::failure::Failure;

/// Start of the names of tools in audit records.
const PREFIX: &str = "mcp.";

/// Effects of a tool beside its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effects {
    /// None.
    Reads,
    /// Adds something at each call.
    Adds,
    /// Adds something that runs programs.
    Runs,
    /// Changes something; a repeated call has no further effect.
    Sets,
    /// As [`Self::Sets`], and may lose work.
    Ends,
}

/// A tool.
pub(crate) struct Tool {
    /// Name in audit records: [`PREFIX`] and the name for clients.
    pub(crate) method: &'static str,
    title: &'static str,
    description: &'static str,
    /// Use cases of its requests.
    use_cases: &'static [UseCase],
    effects: Effects,
    /// Whether it opens files of the caller, who must be the user of this process.
    is_of_this_machine: bool,
    input: Arc<JsonObject>,
    output: Arc<JsonObject>,
    example: Value,
    handler: Handler,
}

type Handler = Box<dyn Fn(Context, Value) -> BoxFuture<'static, Result<Value, Failure>> + Send + Sync>;

/// Description of a tool, for references and tests.
#[derive(Debug, Clone)]
pub struct ToolDescription {
    pub name: &'static str,
    /// Name in audit records.
    pub method: &'static str,
    /// Whether it is absent at `POST /mcp`, because it opens files of the caller's machine.
    pub is_of_this_machine: bool,
    /// Use cases of its requests; empty if it only needs a valid token.
    pub use_cases: &'static [UseCase],
    /// Message of `tools/list`.
    pub definition: Value,
    /// Valid arguments.
    pub example: Value,
}

impl Tool {
    /// Tool named `method` without [`PREFIX`], whose handler takes arguments `A` and returns `R`.
    pub(crate) fn new<A, R, F>(
        (method, title): (&'static str, &'static str),
        description: &'static str,
        effects: Effects,
        example: Value,
        handler: fn(Context, A) -> F,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        R: Serialize + JsonSchema,
        F: Future<Output = Result<R, Failure>> + Send + 'static,
    {
        let call = move |context: Context, arguments: Value| -> BoxFuture<'static, Result<Value, Failure>> {
            Box::pin(async move {
                let arguments: A = serde_path_to_error::deserialize(arguments)?;
                let result = handler(context, arguments).await?;
                serde_json::to_value(result).map_err(|error| Failure::new("INTERNAL", error.to_string()))
            })
        };
        let (input, output) = (schema::<A>(false), schema::<R>(true));
        let use_cases = use_cases_of(method).unwrap_or_default();
        Self {
            method,
            title,
            description,
            use_cases,
            effects,
            is_of_this_machine: false,
            input,
            output,
            example,
            handler: Box::new(call),
        }
    }

    /// Marks that the tool opens files of the caller.
    pub(crate) fn of_this_machine(self) -> Self {
        Self { is_of_this_machine: true, ..self }
    }

    pub(crate) fn is_of_this_machine(&self) -> bool {
        self.is_of_this_machine
    }

    pub(crate) fn name(&self) -> &'static str {
        self.method.trim_start_matches(PREFIX)
    }

    pub(crate) fn reads_only(&self) -> bool {
        self.effects == Effects::Reads
    }

    /// Refuses unknown arguments, before a handler of its own takes them.
    pub(crate) fn checked(&self, arguments: JsonObject) -> Result<Value, Failure> {
        let arguments = Value::Object(arguments);
        self.check_names(&arguments)?;
        Ok(arguments)
    }

    /// Calls the tool. A failure contains the given values of its fields.
    pub(crate) async fn call(&self, context: Context, arguments: JsonObject) -> Result<Value, Failure> {
        let arguments = Value::Object(arguments);
        let outcome = match self.check_names(&arguments) {
            Ok(()) => (self.handler)(context, arguments.clone()).await,
            Err(failure) => Err(failure),
        };
        outcome.map_err(|failure| failure.with_values(&arguments))
    }

    /// Refuses unknown arguments: those of flattened types are not refused by serde.
    fn check_names(&self, arguments: &Value) -> Result<(), Failure> {
        let known = self.input.get("properties").and_then(Value::as_object);
        let given = arguments.as_object().into_iter().flatten();
        for (name, _) in given {
            if !known.is_some_and(|known| known.contains_key(name)) {
                let known: Vec<&str> = known.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
                return Err(Failure::argument(name, "is no argument of this tool", known.join(", ")));
            }
        }
        Ok(())
    }

    pub(crate) fn definition(&self) -> Definition {
        let is = |effects: &[Effects]| effects.contains(&self.effects);
        let annotations = ToolAnnotations::new()
            .read_only(self.reads_only())
            .destructive(is(&[Effects::Ends]))
            .idempotent(is(&[Effects::Reads, Effects::Sets, Effects::Ends]))
            .open_world(is(&[Effects::Runs]));
        Definition::new(self.name(), self.description, Arc::clone(&self.input))
            .with_title(self.title)
            .with_raw_output_schema(Arc::clone(&self.output))
            .with_annotations(annotations)
    }

    pub(crate) fn describe(&self) -> ToolDescription {
        ToolDescription {
            name: self.name(),
            method: self.method,
            is_of_this_machine: self.is_of_this_machine,
            use_cases: self.use_cases,
            definition: json!(self.definition()),
            example: self.example.clone(),
        }
    }
}

/// JSON Schema of `T` in one piece: as an argument, or as a result.
fn schema<T: JsonSchema>(is_result: bool) -> Arc<JsonObject> {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let settings = if is_result { settings.for_serialize() } else { settings };
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    let mut object = schema.as_object_mut().map(std::mem::take).unwrap_or_default();
    // Those of the Rust type.
    object.remove("title");
    object.remove("description");
    object.values_mut().for_each(shorten);
    object.entry("properties").or_insert_with(|| json!({}));
    if !is_result {
        object.insert("additionalProperties".to_owned(), json!(false));
    }
    Arc::new(object)
}

/// Removes what a model does not need from a schema: names of Rust's numbers, `null` for absent arguments.
fn shorten(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(fields) => {
            let is_type = |value: &Value| value.is_string() || value.is_array();
            if fields.get("type").is_some_and(is_type) {
                fields.retain(|name, value| {
                    let is_trivial = name == "minimum" && *value == json!(0);
                    !is_trivial && !matches!(name.as_str(), "format" | "default")
                });
            }
            if let Some(Value::Array(types)) = fields.get_mut("type") {
                types.retain(|of| of != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    fields.insert("type".to_owned(), only);
                }
            }
            fields.values_mut().for_each(shorten);
        }
        _ => {}
    }
}
