//! Filters of events.

use std::str::FromStr;

use tunesmith_filter::{Condition, Expression, Fields, Filter, FilterError, Kind};

use crate::Event;

/// Selects events by `type`, `project`, `job`, `study`, `state` and `labels.KEY`.
#[derive(Debug, Clone, PartialEq)]
pub struct EventFilter(Expression<Condition<Attribute>>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Attribute {
    Type,
    Project,
    Job,
    Study,
    State,
    Label(String),
}

struct EventAttributes;

impl Fields for EventAttributes {
    type Field = Attribute;

    fn find(&self, root: &str, name: Option<&str>) -> Option<(Attribute, Kind)> {
        let attribute = match (root, name) {
            ("type", None) => Attribute::Type,
            ("project", None) => Attribute::Project,
            ("job", None) => Attribute::Job,
            ("study", None) => Attribute::Study,
            ("state", None) => Attribute::State,
            ("labels", Some(key)) => Attribute::Label(key.to_owned()),
            _ => return None,
        };
        Some((attribute, Kind::Text))
    }

    fn allowed(&self, _: &str) -> String {
        "type, project, job, study, state, labels.KEY".to_owned()
    }
}

impl FromStr for EventFilter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        text.parse::<Filter>()?.check(&EventAttributes).map(Self)
    }
}

impl EventFilter {
    /// Jobs and studies are compared by the last part of their names.
    pub fn accepts(&self, event: &Event) -> bool {
        let data = &event.data;
        let short = |name: &Option<String>| name.as_deref().and_then(|name| name.rsplit('/').next()).map(str::to_owned);
        self.0.holds(&mut |Condition { field, test }| {
            let value = match field {
                Attribute::Type => Some(event.kind.to_string()),
                Attribute::Project => Some(data.project.clone()),
                Attribute::Job => short(&data.job),
                Attribute::Study => short(&data.study),
                Attribute::State => Some(data.state.clone()),
                Attribute::Label(key) => data.labels.get(key).cloned(),
            };
            value.is_some_and(|value| test.accepts_text(&value))
        })
    }
}
