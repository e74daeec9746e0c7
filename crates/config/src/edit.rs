//! Edits of single values in a config's text, preserving everything else: comments, order, style.
//!
//! An edit replaces the text of the value, and is verified by parsing the result: if the tree differs from the edited
//! original tree, as with aliases, the edit is refused.

use std::ops::Range;

use serde_json::Value;

use super::yaml::{Content, Entry, Node, compose};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    Key(&'a str),
    /// List item, from 0.
    Item(usize),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// Sets a key to a text, a number as written, a list of such values, or a mapping of them. The mapping that
    /// contains the key must exist.
    Set(Plain),
    /// Removes a key or an item, if it exists.
    Remove,
    Append(Plain),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plain {
    /// Text, or number as written.
    Scalar(String),
    List(Vec<Plain>),
    Mapping(Vec<(String, Plain)>),
}

/// Reason for refusing an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    #[error("the configuration cannot be read; correct it first")]
    Unreadable,
    #[error(
        "this value cannot be changed here, because of the way in which the configuration is written; change the text"
    )]
    Unsupported,
}

/// Parses `text` into a tree with scalars as written and nulls; `None` if it is not parsable.
pub fn outline(text: &str) -> Option<Value> {
    match compose(text) {
        (Some(tree), findings) if findings.is_empty() => Some(value(&tree)),
        _ => None,
    }
}

/// Changes the value at `path` of `text`.
///
/// # Errors
/// [`EditError`], if only the author can make the change.
pub fn edit(text: &str, path: &[Step<'_>], change: &Edit) -> Result<String, EditError> {
    let (Some(tree), findings) = compose(text) else { return Err(EditError::Unreadable) };
    if !findings.is_empty() {
        return Err(EditError::Unreadable);
    }
    let mut expected = value(&tree);
    if !apply(&mut expected, path, change) {
        return if *change == Edit::Remove { Ok(text.to_owned()) } else { Err(EditError::Unsupported) };
    }
    let (last, parents) = path.split_last().ok_or(EditError::Unsupported)?;
    let parent = parents.iter().try_fold(&tree, |node, step| child(node, *step)).ok_or(EditError::Unsupported)?;
    let replaced = match (change, last) {
        (Edit::Set(plain), Step::Key(key)) => set(text, parent, key, plain),
        (Edit::Remove, Step::Key(key)) => remove_key(text, parent, key),
        (Edit::Remove, Step::Item(index)) => remove_item(text, parent, *index),
        (Edit::Append(plain), step) => child(parent, *step).and_then(|list| append(text, list, plain)),
        (Edit::Set(_), Step::Item(_)) => None,
    };
    let (range, new) = replaced.ok_or(EditError::Unsupported)?;
    let changed =
        format!("{}{new}{}", text.get(..range.start).unwrap_or_default(), text.get(range.end..).unwrap_or_default());
    if outline(&changed).as_ref() == Some(&expected) { Ok(changed) } else { Err(EditError::Unsupported) }
}

/// Range of the text with its replacement.
type Replaced = Option<(Range<usize>, String)>;

fn set(text: &str, parent: &Node, key: &str, plain: &Plain) -> Replaced {
    let Content::Mapping(entries) = &parent.content else { return None };
    if let Some(entry) = entries.iter().find(|entry| entry.key == key) {
        let range = extent(text, &entry.value);
        if !range.is_empty() {
            return Some((range, written(plain)));
        }
        // An empty value has no span.
        let at = entry.key_span.end + text[entry.key_span.end..].find(':')? + 1;
        return Some((at..at, format!(" {}", written(plain))));
    }
    let pair = format!("{}: {}", scalar(key), written(plain));
    if is_flow(text, parent) {
        let end = extent(text, parent).end.checked_sub(1)?;
        let at = text[..end].trim_end().len();
        let comma = if entries.is_empty() { "" } else { ", " };
        return Some((at..at, format!("{comma}{pair}")));
    }
    let (first, last) = (entries.first()?, entries.last()?);
    let indent = " ".repeat(column(text, first.key_span.start));
    let end = extent(text, &last.value).end.max(last.key_span.end);
    match line_end_after(text, end) {
        Some(at) if matches!(last.value.content, Content::Scalar { .. }) || is_flow(text, &last.value) => {
            Some((at..at, format!("\n{indent}{pair}")))
        }
        _ => Some((first.key_span.start..first.key_span.start, format!("{pair}\n{indent}"))),
    }
}

fn remove_key(text: &str, parent: &Node, key: &str) -> Replaced {
    let Content::Mapping(entries) = &parent.content else { return None };
    let index = entries.iter().position(|entry| entry.key == key)?;
    let end_of = |entry: &Entry| extent(text, &entry.value).end.max(entry.key_span.end);
    let spans: Vec<Range<usize>> = entries.iter().map(|entry| entry.key_span.start..end_of(entry)).collect();
    if is_flow(text, parent) {
        Some((flow_part(&spans, index), String::new()))
    } else {
        block_part(text, &spans, index, "")
    }
}

fn remove_item(text: &str, list: &Node, index: usize) -> Replaced {
    let Content::List(items) = &list.content else { return None };
    let spans: Vec<Range<usize>> = items.iter().map(|item| extent(text, item)).collect();
    spans.get(index)?;
    if is_flow(text, list) {
        Some((flow_part(&spans, index), String::new()))
    } else {
        block_part(text, &spans, index, "-")
    }
}

/// Range of item `index` in a flow collection, with its comma.
fn flow_part(spans: &[Range<usize>], index: usize) -> Range<usize> {
    let Range { start, end } = spans[index].clone();
    match (spans.get(index + 1), index.checked_sub(1)) {
        (Some(next), _) => start..next.start,
        (None, Some(previous)) => spans[previous].end..end,
        (None, None) => start..end,
    }
}

/// Lines of item `index` in a block collection with items prefixed by `mark`.
fn block_part(text: &str, spans: &[Range<usize>], index: usize, mark: &str) -> Replaced {
    let Range { start, end } = spans[index].clone();
    if spans.len() == 1 {
        return None;
    }
    let line = line_start(text, start);
    let line_end = line_end_after(text, end)?;
    if text[line..start].trim() == mark {
        return Some((line..(line_end + 1).min(text.len()), String::new()));
    }
    // The next key takes over the list mark before the first key of an item.
    let next = spans.get(index + 1)?.start;
    text[line_end..next].trim().is_empty().then(|| (start..next, String::new()))
}

fn append(text: &str, list: &Node, plain: &Plain) -> Replaced {
    let Content::List(items) = &list.content else { return None };
    let new = written(plain);
    if is_flow(text, list) {
        let end = extent(text, list).end.checked_sub(1)?;
        let at = text[..end].trim_end().len();
        return Some((at..at, if items.is_empty() { new } else { format!(", {new}") }));
    }
    let (first, last) = (items.first()?, items.last()?);
    let line = line_start(text, first.span.start);
    let indent: String = text[line..].chars().take_while(|letter| *letter == ' ').collect();
    let at = line_end_after(text, extent(text, last).end)?;
    Some((at..at, format!("\n{indent}- {new}")))
}

fn child<'a>(node: &'a Node, step: Step<'_>) -> Option<&'a Node> {
    match (&node.content, step) {
        (Content::Mapping(entries), Step::Key(key)) => {
            entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
        }
        (Content::List(items), Step::Item(index)) => items.get(index),
        _ => None,
    }
}

/// Applies `change` to `tree`. Returns whether anything changes.
fn apply(tree: &mut Value, path: &[Step<'_>], change: &Edit) -> bool {
    let Some((step, rest)) = path.split_first() else {
        return match (tree, change) {
            (Value::Array(items), Edit::Append(plain)) => {
                items.push(plain_value(plain));
                true
            }
            _ => false,
        };
    };
    let is_last = rest.is_empty();
    match (tree, step, change) {
        (Value::Object(fields), Step::Key(key), Edit::Set(plain)) if is_last => {
            fields.insert((*key).to_owned(), plain_value(plain));
            true
        }
        (Value::Object(fields), Step::Key(key), Edit::Remove) if is_last => fields.remove(*key).is_some(),
        (Value::Array(items), Step::Item(index), Edit::Remove) if is_last => {
            let exists = *index < items.len();
            if exists {
                items.remove(*index);
            }
            exists
        }
        (Value::Object(fields), Step::Key(key), _) => {
            fields.get_mut(*key).is_some_and(|value| apply(value, rest, change))
        }
        (Value::Array(items), Step::Item(index), _) => {
            items.get_mut(*index).is_some_and(|value| apply(value, rest, change))
        }
        _ => false,
    }
}

fn value(node: &Node) -> Value {
    match &node.content {
        Content::Scalar { .. } if node.is_null() => Value::Null,
        Content::Scalar { text, .. } => Value::String(text.clone()),
        Content::List(items) => Value::Array(items.iter().map(value).collect()),
        Content::Mapping(entries) => {
            Value::Object(entries.iter().map(|entry| (entry.key.clone(), value(&entry.value))).collect())
        }
    }
}

fn plain_value(plain: &Plain) -> Value {
    match plain {
        Plain::Scalar(text) => Value::String(text.clone()),
        Plain::List(items) => Value::Array(items.iter().map(plain_value).collect()),
        Plain::Mapping(fields) => {
            Value::Object(fields.iter().map(|(key, plain)| (key.clone(), plain_value(plain))).collect())
        }
    }
}

fn written(plain: &Plain) -> String {
    match plain {
        Plain::Scalar(text) => scalar(text),
        Plain::List(items) => {
            format!("[{}]", items.iter().map(written).collect::<Vec<_>>().join(", "))
        }
        Plain::Mapping(fields) => {
            let pairs = fields.iter().map(|(key, plain)| format!("{}: {}", scalar(key), written(plain)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Formats `text` as a scalar: unquoted if it is a number or a simple word.
fn scalar(text: &str) -> String {
    let is_number = text.parse::<f64>().is_ok_and(f64::is_finite)
        && text.starts_with(|first: char| first.is_ascii_digit() || "-+.".contains(first));
    let is_word = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-./".contains(letter))
        && !["true", "false", "yes", "no", "on", "off", "null", "y", "n"].contains(&text.to_ascii_lowercase().as_str());
    if is_number || is_word { text.to_owned() } else { Value::from(text).to_string() }
}

fn is_flow(text: &str, node: &Node) -> bool {
    let starts_with = |mark: char| text.get(node.span.start..).is_some_and(|rest| rest.starts_with(mark));
    match &node.content {
        Content::Scalar { .. } => false,
        Content::Mapping(_) => starts_with('{'),
        // A block list begins at its first item.
        Content::List(items) => starts_with('[') && items.first().is_none_or(|item| item.span.start > node.span.start),
    }
}

/// Range of `node` in `text`, without trailing content.
fn extent(text: &str, node: &Node) -> Range<usize> {
    let start = node.span.start;
    let last = match &node.content {
        Content::List(items) if !is_flow(text, node) => items.last(),
        Content::Mapping(entries) if !is_flow(text, node) => entries.last().map(|entry| &entry.value),
        _ => None,
    };
    let end = last.map_or(node.span.end, |last| extent(text, last).end);
    let written = text.get(start..end).unwrap_or_default();
    start..start + written.trim_end().len()
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |index| index + 1)
}

/// Number of characters before `at` in its line.
fn column(text: &str, at: usize) -> usize {
    text[line_start(text, at)..at].chars().count()
}

/// End of the line of `at`, if only a comment follows.
fn line_end_after(text: &str, at: usize) -> Option<usize> {
    let end = text[at..].find('\n').map_or(text.len(), |index| at + index);
    let rest = text[at..end].trim_start();
    (rest.is_empty() || rest.starts_with('#')).then_some(end)
}

#[cfg(test)]
mod tests;
