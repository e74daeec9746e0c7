//! Forms of schemas that client generators understand.
//!
//! `schemars` lists the types of a union (`"type": ["number", "string"]`), of which generators take the first, or fail. It
//! describes each value of an enumeration as a form of its own, all of which a text has for a generated client.

use serde_json::{Map, Value, json};

use super::schemas::{HOME, visit};

/// Unions with a schema of their own: format, name, description. A client has one class for each of them, instead of one for
/// each field.
const UNIONS: [(&str, &str, &str); 4] = [
    ("double", "Double", "Double-precision number, or its text."),
    ("int32", "Int32", "32-bit integer, or its decimal text."),
    ("int64", "Int64", "64-bit integer, or its decimal text."),
    ("protobuf-duration", "Duration", "Seconds as text, such as `3600s`, or the fields of the message."),
];

/// Keywords of a field. The others are those of its type.
const OF_FIELDS: [&str; 4] = ["default", "description", "maximum", "minimum"];

/// Rewrites all `schemas`, and adds those of [`UNIONS`] that they use.
pub(super) fn rewrite(schemas: &mut Map<String, Value>) {
    let mut unions = Map::new();
    for schema in schemas.values_mut() {
        visit(schema, &mut |object| {
            join_values(object);
            split_types(object, &mut unions);
        });
    }
    schemas.extend(unions);
}

/// Makes an enumeration, whose values are forms with a constant, a list of values and of their descriptions.
fn join_values(object: &mut Map<String, Value>) {
    let Some(Value::Array(forms)) = object.get("oneOf") else { return };
    let (mut values, mut descriptions) = (Vec::new(), Vec::new());
    for form in forms {
        let of_form = match (&form["const"], &form["enum"]) {
            (Value::String(value), _) => vec![json!(value)],
            (_, Value::Array(values)) => values.clone(),
            _ => return,
        };
        let description = form["description"].as_str().unwrap_or_default();
        descriptions.extend(of_form.iter().map(|_| description.to_owned()));
        values.extend(of_form);
    }
    object.remove("oneOf");
    object.insert("type".to_owned(), json!("string"));
    object.insert("enum".to_owned(), values.into());
    object.insert("x-enum-descriptions".to_owned(), descriptions.into());
}

/// Makes a schema with several types, beside `null`, a reference to one of `unions`, or else a choice of schemas with one type.
fn split_types(object: &mut Map<String, Value>, unions: &mut Map<String, Value>) {
    let Some(Value::Array(types)) = object.get("type") else { return };
    let (nulls, types): (Vec<Value>, Vec<Value>) = types.iter().cloned().partition(|of| *of == "null");
    if types.len() < 2 {
        return;
    }
    let of_type = |name: &String| !OF_FIELDS.contains(&name.as_str());
    let names: Vec<String> = object.keys().filter(|name| of_type(name)).cloned().collect();
    let keywords: Map<_, _> =
        names.into_iter().filter_map(|name| object.remove(&name).map(|value| (name, value))).collect();
    let mut forms: Vec<Value> = types.iter().map(|of| form(of, of == &types[0], &keywords)).collect();
    let is_nullable = !nulls.is_empty();
    let known = UNIONS.iter().find(|(format, ..)| keywords.get("format").is_some_and(|of| of == format));
    if let Some((_, name, description)) = known {
        let union = json!({"description": description, "oneOf": forms});
        if *unions.entry(*name).or_insert_with(|| union.clone()) == union {
            let reference = format!("{HOME}{name}");
            if is_nullable {
                object.insert("anyOf".to_owned(), json!([{"$ref": reference}, {"type": "null"}]));
            } else {
                object.insert("$ref".to_owned(), reference.into());
            }
            return;
        }
    }
    for bound in ["minimum", "maximum"] {
        let of_number = forms.iter_mut().find(|form| form["type"] == "integer" || form["type"] == "number");
        if let Some((form, value)) = of_number.and_then(|form| Some((form, object.remove(bound)?))) {
            form[bound] = value;
        }
    }
    forms.extend(is_nullable.then(|| json!({"type": "null"})));
    object.insert("oneOf".to_owned(), forms.into());
}

/// The schema of one type `of` of a union with `keywords`. The format is that of the first type.
fn form(of: &Value, is_first: bool, keywords: &Map<String, Value>) -> Value {
    let names: &[&str] = match of.as_str() {
        Some("string") => &["pattern"],
        Some("object") => &["additionalProperties", "properties"],
        _ => &[],
    };
    let names = names.iter().chain(is_first.then_some(&"format"));
    let mut form = Map::from_iter([("type".to_owned(), of.clone())]);
    form.extend(names.filter_map(|name| Some(((*name).to_owned(), keywords.get(*name)?.clone()))));
    form.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(schema: Value) -> (Value, Map<String, Value>) {
        let mut schemas = Map::from_iter([("X".to_owned(), schema)]);
        rewrite(&mut schemas);
        (schemas.remove("X").unwrap(), schemas)
    }

    #[test]
    fn unions_with_a_format_are_named_and_keep_bounds_at_the_field() {
        let count =
            json!({"type": ["integer", "string", "null"], "format": "int32", "pattern": "^[0-9]+$", "minimum": 1});
        let sum =
            json!({"type": ["integer", "string"], "format": "int32", "pattern": "^[0-9]+$", "description": "Sum."});
        let (schema, unions) = rewritten(json!({"properties": {"count": count, "sum": sum}}));
        let reference = json!({"$ref": "#/components/schemas/Int32"});
        assert_eq!(schema["properties"]["count"], json!({"anyOf": [reference, {"type": "null"}], "minimum": 1}));
        assert_eq!(schema["properties"]["sum"], json!({"$ref": "#/components/schemas/Int32", "description": "Sum."}));
        let forms = json!([{"type": "integer", "format": "int32"}, {"type": "string", "pattern": "^[0-9]+$"}]);
        assert_eq!(unions["Int32"]["oneOf"], forms);
        assert_eq!(unions.len(), 1);
    }

    #[test]
    fn other_unions_are_choices() {
        let union = json!({"type": ["integer", "string", "null"], "maximum": 9, "pattern": "^[0-9]$"});
        let (schema, unions) = rewritten(union);
        let forms =
            json!([{"type": "integer", "maximum": 9}, {"type": "string", "pattern": "^[0-9]$"}, {"type": "null"}]);
        assert_eq!((schema, unions.len()), (json!({ "oneOf": forms }), 0));
        // One type and `null` are no union.
        let text = json!({"type": ["string", "null"]});
        assert_eq!(rewritten(text.clone()).0, text);
    }

    #[test]
    fn a_second_union_of_a_format_is_not_the_first() {
        let number = |pattern: &str| json!({"type": ["number", "string"], "format": "double", "pattern": pattern});
        let (schema, unions) = rewritten(json!({"contains": number("a"), "items": number("b")}));
        assert_eq!(schema["contains"], json!({"$ref": "#/components/schemas/Double"}));
        assert_eq!(schema["items"]["oneOf"][1]["pattern"], "b");
        assert_eq!(unions["Double"]["oneOf"][1]["pattern"], "a");
    }

    #[test]
    fn enumerations_are_lists_with_descriptions() {
        let forms =
            json!([{"const": "A", "description": "First.", "type": "string"}, {"enum": ["B", "C"], "type": "string"}]);
        let (schema, _) = rewritten(json!({"oneOf": forms, "description": "Letter."}));
        let expected = json!({"type": "string", "enum": ["A", "B", "C"], "x-enum-descriptions": ["First.", "", ""],
            "description": "Letter."});
        assert_eq!(schema, expected);
        let messages = json!({"oneOf": [{"$ref": "#/components/schemas/A"}, {"const": "B"}]});
        assert_eq!(rewritten(messages.clone()).0, messages);
    }
}
