//! Field paths into resources.

use serde_json::{Map, Value};

/// Path from a resource to a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path(pub(super) Vec<Key>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    /// A field of a message, or of each message in a list.
    Name(String),
    /// A list element; -1 is the last.
    Index(i64),
    /// All list elements.
    All,
}

impl Path {
    pub(super) fn find(&self, resource: &Value) -> Option<Value> {
        find(&self.0, resource)
    }

    /// Column name as gcloud derives it: the last key in SCREAMING_SNAKE_CASE.
    pub(super) fn label(&self) -> String {
        snake_case(self.last_name()).to_uppercase()
    }

    /// Column name for CSV.
    pub(super) fn csv_label(&self) -> String {
        snake_case(self.last_name())
    }

    fn last_name(&self) -> &str {
        let names = self.0.iter().rev().find_map(|key| match key {
            Key::Name(name) => Some(name.as_str()),
            Key::Index(_) | Key::All => None,
        });
        names.unwrap_or_default()
    }

    /// Inserts `value` into `message` at this path.
    pub(super) fn insert(&self, message: &mut Map<String, Value>, value: Value) {
        let names: Vec<&str> = self
            .0
            .iter()
            .filter_map(|key| match key {
                Key::Name(name) => Some(name.as_str()),
                Key::Index(_) | Key::All => None,
            })
            .collect();
        let Some((last, parents)) = names.split_last() else { return };
        let mut place = message;
        for name in parents {
            let child = place.entry((*name).to_owned()).or_insert_with(|| Value::Object(Map::new()));
            if !child.is_object() {
                *child = Value::Object(Map::new());
            }
            let Value::Object(inner) = child else { return };
            place = inner;
        }
        place.insert((*last).to_owned(), value);
    }
}

fn find(keys: &[Key], value: &Value) -> Option<Value> {
    let Some((key, rest)) = keys.split_first() else { return Some(value.clone()) };
    let of_each = |keys: &[Key], elements: &[Value]| {
        let found: Vec<Value> = elements.iter().filter_map(|element| find(keys, element)).collect();
        (!found.is_empty()).then_some(Value::Array(found))
    };
    match (key, value) {
        (Key::Name(name), Value::Object(fields)) => {
            let found = fields.get(name).or_else(|| fields.get(&camel_case(name)))?;
            find(rest, found)
        }
        (Key::Name(_), Value::Array(elements)) => of_each(keys, elements),
        (Key::Index(index), Value::Array(elements)) => {
            let length = i64::try_from(elements.len()).ok()?;
            let index = if *index < 0 { length + index } else { *index };
            find(rest, elements.get(usize::try_from(index).ok()?)?)
        }
        (Key::All, Value::Array(elements)) => of_each(rest, elements),
        _ => None,
    }
}

/// Converts `jobId` to `job_id`.
fn snake_case(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.extend(c.to_lowercase());
    }
    text
}

/// Converts `job_id`, which gcloud also accepts, to `jobId`.
fn camel_case(name: &str) -> String {
    let mut text = String::new();
    let mut is_start = false;
    for c in name.chars() {
        match c {
            '_' => is_start = true,
            c if is_start => {
                text.extend(c.to_uppercase());
                is_start = false;
            }
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_found_by_path() {
        let job = json!({"jobId": "a", "labels": {"my key": "v"}, "trainingOutput": {"trials": [
            {"trialId": "1", "finalMetric": {"objectiveValue": 0.5}}, {"trialId": "2"}]}});
        let name = |name: &str| Key::Name(name.to_owned());
        let find = |keys: Vec<Key>| Path(keys).find(&job);
        assert_eq!(find(vec![name("jobId")]), Some(json!("a")));
        assert_eq!(find(vec![name("job_id")]), Some(json!("a")));
        assert_eq!(find(vec![name("labels"), name("my key")]), Some(json!("v")));
        let trials = || vec![name("trainingOutput"), name("trials")];
        assert_eq!(find([trials(), vec![Key::Index(-1), name("trialId")]].concat()), Some(json!("2")));
        for keys in [vec![Key::All, name("trialId")], vec![name("trialId")]] {
            assert_eq!(find([trials(), keys].concat()), Some(json!(["1", "2"])));
        }
        for keys in [vec![name("absent")], [trials(), vec![Key::Index(2)]].concat(), vec![name("jobId"), Key::All]] {
            assert_eq!(find(keys), None);
        }
        assert_eq!(Path(vec![name("trainingOutput"), name("completedTrialCount")]).label(), "COMPLETED_TRIAL_COUNT");
    }
}
