//! Filters of lists.

use std::str::FromStr;

use tunesmith_filter::{Condition, Expression, Fields, Filter, FilterError, Kind};

use crate::records::{Model, Version};

/// Selects models by `name`, `description`, `labels.KEY` and `createTime`.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelFilter(Expression<Condition<Attribute>>);

/// Selects versions as [`ModelFilter`] does models, and by `state`.
#[derive(Debug, Clone, PartialEq)]
pub struct VersionFilter(Expression<Condition<Attribute>>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Attribute {
    Name,
    Description,
    Label(String),
    CreateTime,
    State,
}

const STATES: &[&str] = &["CREATING", "READY", "FAILED", "DELETING"];

/// Attributes; with `true`, those of versions.
struct Attributes(bool);

impl Fields for Attributes {
    type Field = Attribute;

    fn find(&self, root: &str, name: Option<&str>) -> Option<(Attribute, Kind)> {
        Some(match (root, name) {
            ("name", None) => (Attribute::Name, Kind::Text),
            ("description", None) => (Attribute::Description, Kind::Text),
            ("labels", Some(key)) => (Attribute::Label(key.to_owned()), Kind::Text),
            ("createTime", None) => (Attribute::CreateTime, Kind::Time),
            ("state", None) if self.0 => (Attribute::State, Kind::OpenWord(STATES)),
            _ => return None,
        })
    }

    fn allowed(&self, _: &str) -> String {
        let of_versions = if self.0 { ", state" } else { "" };
        format!("name, description, labels.KEY, createTime{of_versions}")
    }
}

impl FromStr for ModelFilter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        text.parse::<Filter>()?.check(&Attributes(false)).map(Self)
    }
}

impl FromStr for VersionFilter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        text.parse::<Filter>()?.check(&Attributes(true)).map(Self)
    }
}

impl ModelFilter {
    pub fn accepts(&self, model: &Model) -> bool {
        self.0.holds(&mut |Condition { field, test }| match field {
            Attribute::Name => test.accepts_text(&model.name),
            Attribute::Description => test.accepts_text(&model.description),
            Attribute::Label(key) => model.labels.get(key).is_some_and(|value| test.accepts_text(value)),
            Attribute::CreateTime => test.accepts_time(model.create_time.as_microsecond()),
            Attribute::State => false,
        })
    }
}

impl VersionFilter {
    pub fn accepts(&self, version: &Version) -> bool {
        self.0.holds(&mut |Condition { field, test }| match field {
            Attribute::Name => test.accepts_text(&version.name),
            Attribute::Description => test.accepts_text(&version.spec.description),
            Attribute::Label(key) => version.spec.labels.get(key).is_some_and(|value| test.accepts_text(value)),
            Attribute::CreateTime => test.accepts_time(version.create_time.as_microsecond()),
            Attribute::State => test.accepts_text(version.state.as_str()),
        })
    }
}
