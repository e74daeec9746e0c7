//! Filter fields of trials, and filtering of columns.

use tunesmith_algorithms::problem::ParameterKind;
use tunesmith_filter::{Condition, Expression, Fields, Filter, FilterError, Kind, Test};

use super::{Columns, Rows};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrialField {
    Id,
    State,
    StoppedEarly,
    InfeasibleReason,
    ClientId,
    /// Note of a person.
    Note,
    Origin,
    Attempt,
    Measurements,
    /// Seconds from start to end.
    Duration,
    CreateTime,
    StartTime,
    EndTime,
    Metric(usize),
    Constraint(usize),
    /// Names of the violated constraints.
    ViolatedConstraint,
    Parameter(usize),
}

const STATES: &[&str] = &["REQUESTED", "ACTIVE", "STOPPING", "SUCCEEDED", "INFEASIBLE"];

/// Fields without a dot.
const PLAIN: [(&str, TrialField, Kind); 14] = [
    ("id", TrialField::Id, Kind::Number),
    ("state", TrialField::State, Kind::Word(STATES)),
    ("stoppedEarly", TrialField::StoppedEarly, Kind::Flag),
    ("infeasibleReason", TrialField::InfeasibleReason, Kind::Text),
    ("violatedConstraint", TrialField::ViolatedConstraint, Kind::Text),
    ("clientId", TrialField::ClientId, Kind::Text),
    ("note", TrialField::Note, Kind::Text),
    ("origin", TrialField::Origin, Kind::Text),
    ("attempt", TrialField::Attempt, Kind::Number),
    ("measurements", TrialField::Measurements, Kind::Number),
    ("duration", TrialField::Duration, Kind::Number),
    ("createTime", TrialField::CreateTime, Kind::Time),
    ("startTime", TrialField::StartTime, Kind::Time),
    ("endTime", TrialField::EndTime, Kind::Time),
];

struct TrialFields<'a>(&'a Columns);

impl Fields for TrialFields<'_> {
    type Field = TrialField;

    fn find(&self, root: &str, name: Option<&str>) -> Option<(TrialField, Kind)> {
        let Some(name) = name else {
            return PLAIN.into_iter().find(|(plain, ..)| *plain == root).map(|(_, field, kind)| (field, kind));
        };
        match root {
            "metric" => {
                let (metrics, constraints) = (self.0.problem().metrics(), self.0.problem().constraints());
                let metric = metrics.iter().position(|metric| metric.name == name).map(TrialField::Metric);
                let constraint = || constraints.iter().position(|one| one.name == name).map(TrialField::Constraint);
                Some((metric.or_else(constraint)?, Kind::Number))
            }
            "parameters" => {
                let parameters = self.0.problem().search_space().parameters();
                let index = parameters.iter().position(|parameter| parameter.name() == name)?;
                let is_text = matches!(parameters[index].kind(), ParameterKind::Categorical { .. });
                Some((TrialField::Parameter(index), if is_text { Kind::Text } else { Kind::Number }))
            }
            _ => None,
        }
    }

    fn allowed(&self, root: &str) -> String {
        let named = |root: &str, names: Vec<&str>| {
            let shown: Vec<String> = names.iter().take(20).map(|name| format!("{root}.{name}")).collect();
            let more = names.len().saturating_sub(shown.len());
            shown.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
        };
        match root {
            "metric" => {
                let metrics = self.0.problem().metrics().iter().map(|metric| metric.name.as_str());
                named(root, metrics.chain(self.0.problem().constraints().iter().map(|one| one.name.as_str())).collect())
            }
            "parameters" => {
                named(root, self.0.problem().search_space().parameters().iter().map(|spec| spec.name()).collect())
            }
            _ => format!("{}, metric.NAME, parameters.NAME", PLAIN.map(|(name, ..)| name).join(", ")),
        }
    }
}

impl Columns {
    /// Parses a field, as in a filter.
    pub(super) fn field(&self, text: &str) -> Option<TrialField> {
        let (root, name) = text.split_once('.').map_or((text, None), |(root, name)| (root, Some(name)));
        let fields = TrialFields(self);
        if let Some((field, _)) = fields.find(root, name) {
            return Some(field);
        }
        // With quotation marks, as in a filter.
        let Expression::Leaf(restriction) = format!("{text}:*").parse::<Filter>().ok()?.expression else { return None };
        fields.find(&restriction.field.root, restriction.field.name.as_deref()).map(|(field, _)| field)
    }

    /// Rows that match `filter`, without deleted trials.
    ///
    /// # Errors
    /// If a field does not exist in this study, or a value is of another kind.
    pub fn select(&self, filter: &Filter) -> Result<Rows, FilterError> {
        let expression = filter.check(&TrialFields(self))?;
        Ok(self.rows_of(&expression).and(&self.live()))
    }

    fn rows_of(&self, expression: &Expression<Condition<TrialField>>) -> Rows {
        let parts = |parts: &[Expression<Condition<TrialField>>], all: bool| {
            parts.iter().map(|part| self.rows_of(part)).reduce(|a, b| if all { a.and(&b) } else { a.or(&b) })
        };
        match expression {
            Expression::All(all) => parts(all, true).unwrap_or_else(|| Rows::all_or_none(self.len(), true)),
            Expression::Any(any) => parts(any, false).unwrap_or_else(|| Rows::all_or_none(self.len(), false)),
            Expression::Not(part) => self.rows_of(part).not(),
            Expression::Leaf(Condition { field, test }) => Rows::of(self.len(), |row| self.passes(*field, test, row)),
        }
    }

    /// Whether the value of `field` exists and passes `test`.
    fn passes(&self, field: TrialField, test: &Test, row: usize) -> bool {
        let text = |text: &str| !text.is_empty() && test.accepts_text(text);
        let number = |value: Option<f64>| value.is_some_and(|value| test.accepts_number(value));
        let time = |index: usize| self.times(row)[index].is_some_and(|time| test.accepts_time(time));
        match field {
            TrialField::Id => test.accepts_number(self.number(row) as f64),
            TrialField::State => self.state(row).is_some_and(|state| test.accepts_text(state.as_str())),
            TrialField::StoppedEarly => test.accepts_flag(self.stopped_early(row)),
            TrialField::InfeasibleReason => text(self.infeasible_reason(row)),
            TrialField::ClientId => text(self.client(row)),
            TrialField::Note => text(self.note(row)),
            TrialField::Origin => self.origin(row).is_some_and(|origin| test.accepts_text(&origin.to_string())),
            TrialField::Attempt => test.accepts_number(f64::from(self.attempt(row))),
            TrialField::Measurements => test.accepts_number(f64::from(self.measurement_count(row))),
            TrialField::Duration => number(self.duration_secs(row)),
            TrialField::CreateTime => time(0),
            TrialField::StartTime => time(1),
            TrialField::EndTime => time(2),
            TrialField::Metric(metric) => number(self.any_metric(metric, row)),
            TrialField::Constraint(constraint) => number(self.any_constraint(constraint, row)),
            TrialField::ViolatedConstraint => self.violated(row).any(|name| test.accepts_text(name)),
            TrialField::Parameter(index) => match self.spec(index).kind() {
                ParameterKind::Categorical { values } => {
                    let level = self.coordinate(index, row).and_then(|level| values.get(level as usize));
                    level.is_some_and(|level| test.accepts_text(level))
                }
                _ => number(self.coordinate(index, row)),
            },
        }
    }
}
