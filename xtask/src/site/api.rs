//! The reference of the API, from the OpenAPI document: a page of methods and a page of types.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

/// The page of methods in the sources of the book.
pub(super) const METHODS: &str = "docs/reference/api-methods.md";

/// The page of types.
pub(super) const TYPES: &str = "docs/reference/api-types.md";

/// The page of the methods of `document`, by the resource in their names.
pub(super) fn methods(document: &Value) -> String {
    let mut sections: BTreeMap<String, String> = BTreeMap::new();
    for (path, operations) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in operations.as_object().into_iter().flatten() {
            let name = text(&operation["operationId"]);
            let resource = name.rsplit_once('.').map_or("server", |(resource, _)| resource);
            let section = sections.entry(resource.to_owned()).or_default();
            let _ = write!(section, "\n### {name}\n\n`{} {path}`\n\n", method.to_uppercase());
            let _ = writeln!(section, "{}\n", text(&operation["summary"]));
            if let Some(description) = operation["description"].as_str() {
                let _ = writeln!(section, "{description}\n");
            }
            parameters(operation, section);
            bodies(operation, section);
        }
    }
    let mut page = format!(
        "# API: methods\n\n{}\n\nThe [types](api-types.md) have the fields.\n",
        text(&document["info"]["description"])
    );
    for (resource, section) in sections {
        let _ = write!(page, "\n## {resource}\n{section}");
    }
    page
}

fn parameters(operation: &Value, page: &mut String) {
    let parameters = operation["parameters"].as_array().map(Vec::as_slice).unwrap_or_default();
    if parameters.is_empty() {
        return;
    }
    page.push_str("| parameter | in | type | meaning |\n|---|---|---|---|\n");
    for parameter in parameters {
        let required = if parameter["required"] == true { ", required" } else { "" };
        let (name, place) = (text(&parameter["name"]), text(&parameter["in"]));
        let meaning = cell(text(&parameter["description"]));
        let _ = writeln!(page, "| `{name}` | {place}{required} | {} | {meaning} |", shape(&parameter["schema"]));
    }
    page.push('\n');
}

/// The body of the request and those of the responses. Errors have one form, which is on the page of types.
fn bodies(operation: &Value, page: &mut String) {
    let content = |message: &Value| {
        let media = message["content"].as_object().into_iter().flatten();
        media.map(|(name, media)| format!("{} (`{name}`)", shape(&media["schema"]))).collect::<Vec<_>>().join(", ")
    };
    let request = content(&operation["requestBody"]);
    if !request.is_empty() {
        let _ = writeln!(page, "Request: {request}\n");
    }
    let (mut errors, mut answers) = (Vec::new(), Vec::new());
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        match response["$ref"].is_null() {
            true => answers.push(format!("`{status}` {} {}", text(&response["description"]), content(response))),
            false => errors.push(format!("`{status}`")),
        }
    }
    let _ = writeln!(page, "Response: {}\n", answers.join("; ").trim_end());
    if !errors.is_empty() {
        let _ = writeln!(page, "Errors: {}\n", errors.join(", "));
    }
}

/// The page of the types of `document`.
pub(super) fn types(document: &Value) -> String {
    let mut page = String::from("# API: types\n\nThe bodies of the [methods](api-methods.md).\n");
    for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
        let _ = write!(page, "\n## {name} {{#{name}}}\n\n{}\n\n", text(&schema["description"]));
        let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
        if let Some(properties) = schema["properties"].as_object() {
            page.push_str("| field | type | meaning |\n|---|---|---|\n");
            for (field, property) in properties {
                let mark = if required.iter().any(|name| name == field) { ", required" } else { "" };
                let meaning = cell(text(&property["description"]));
                let _ = writeln!(page, "| `{field}` | {}{mark} | {meaning} |", shape(property));
            }
        } else if let (Some(values), Some(descriptions)) =
            (schema["enum"].as_array(), schema["x-enum-descriptions"].as_array())
        {
            page.push_str("| value | meaning |\n|---|---|\n");
            for (value, description) in values.iter().zip(descriptions) {
                let _ = writeln!(page, "| `{}` | {} |", text(value), cell(text(description)));
            }
        } else {
            let _ = writeln!(page, "Type: {}", shape(schema));
        }
    }
    page
}

/// A short name of the type `schema`, with a link to the named type that it contains.
fn shape(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("[{name}](api-types.md#{name})");
    }
    let choices = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array());
    if let Some(choices) = choices {
        let choices = choices.iter().filter(|choice| choice["type"] != "null").map(shape);
        return choices.collect::<Vec<_>>().join(" or ");
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(|value| format!("`{}`", text(value))).collect::<Vec<_>>().join(", ");
    }
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().map(text).filter(|kind| *kind != "null").collect::<Vec<_>>().join(" or "),
        kind => text(kind).to_owned(),
    };
    match kinds.as_str() {
        "array" => format!("list of {}", shape(&schema["items"])),
        "object" if schema["additionalProperties"].is_object() => {
            format!("map to {}", shape(&schema["additionalProperties"]))
        }
        "" => schema["const"].as_str().map_or_else(|| "any".to_owned(), |value| format!("`{value}`")),
        kinds => match schema["format"].as_str() {
            Some(format) => format!("{kinds} ({format})"),
            None => kinds.to_owned(),
        },
    }
}

/// `text` in one line of a table.
fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn types_are_named_and_linked() {
        let study = json!({"$ref": "#/components/schemas/Study"});
        assert_eq!(shape(&study), "[Study](api-types.md#Study)");
        assert_eq!(shape(&json!({"type": ["array", "null"], "items": study})), "list of [Study](api-types.md#Study)");
        assert_eq!(shape(&json!({"anyOf": [{"type": "number"}, {"type": "null"}]})), "number");
        assert_eq!(shape(&json!({"type": "object", "additionalProperties": {"type": "string"}})), "map to string");
        assert_eq!(shape(&json!({"type": "string", "format": "date-time"})), "string (date-time)");
    }

    #[test]
    fn every_method_and_type_is_on_its_page() {
        let document = std::fs::read_to_string(crate::root().join("schemas/openapi.json")).unwrap();
        let document: Value = serde_json::from_str(&document).unwrap();
        let (methods, types) = (methods(&document), types(&document));
        for operation in
            document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap().values())
        {
            assert!(methods.contains(&format!("### {}\n", text(&operation["operationId"]))), "{operation}");
        }
        for name in document["components"]["schemas"].as_object().unwrap().keys() {
            assert!(types.contains(&format!("## {name} {{#{name}}}\n")), "{name}");
        }
        let linked = methods.split("api-types.md#").skip(1).filter_map(|rest| rest.split(')').next());
        for name in linked {
            assert!(types.contains(&format!("{{#{name}}}")), "{name}");
        }
    }
}
