use std::cmp::Ordering;
use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use tunesmith_algorithms::problem::ParameterKind;

use super::fields::TrialField;
use super::{Cell, Columns, Rows, ViewError};

/// Some trials, ordered.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Table {
    /// The number of trials before the first one.
    pub offset: usize,
    /// The trials.
    pub rows: Vec<TableRow>,
}

/// A trial without its measurements.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TableRow {
    /// Its number.
    pub id: u64,
    /// Its state: `REQUESTED`, `ACTIVE`, `STOPPING`, `SUCCEEDED` or `INFEASIBLE`.
    pub state: &'static str,
    /// Whether it was stopped early.
    pub stopped_early: bool,
    /// The results by metric.
    pub metrics: BTreeMap<String, f64>,
    /// The values by constraint.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub constraints: BTreeMap<String, f64>,
    /// The names of the constraints that the result violates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub violated_constraints: Vec<String>,
    /// The values by parameter.
    pub parameters: BTreeMap<String, Cell>,
    /// When it was created.
    pub create_time: Option<String>,
    /// When it started.
    pub start_time: Option<String>,
    /// When its result became final.
    pub end_time: Option<String>,
    /// Seconds from the start to the end.
    pub duration: Option<f64>,
    /// The number of attempts.
    pub attempt: u32,
    /// The number of measurements.
    pub measurements: u32,
    /// The algorithm and the step that proposed it.
    pub origin: Option<String>,
    /// The owner.
    pub client_id: String,
    /// Why it is infeasible; at most 300 characters.
    pub infeasible_reason: String,
    /// The note on it; at most 300 characters.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    field: TrialField,
    is_descending: bool,
}

impl Columns {
    /// Parses an order: a field as in a filter, optionally followed by ` desc`; trial number if empty.
    ///
    /// # Errors
    /// If the field does not exist.
    pub fn order(&self, text: &str) -> Result<Order, ViewError> {
        let text = text.trim();
        let (name, is_descending) = match text.rsplit_once(char::is_whitespace) {
            Some((name, "desc")) => (name.trim(), true),
            Some((name, "asc")) => (name.trim(), false),
            _ => (text, false),
        };
        let field = if name.is_empty() { Some(TrialField::Id) } else { self.field(name) };
        let field = field.ok_or_else(|| ViewError {
            field: "orderBy",
            message: format!(
                "{name:?} is not a field of trials, as in \"metric.loss desc\"; allowed are those of filters"
            ),
        })?;
        Ok(Order { field, is_descending })
    }

    /// Sort key of a trial; `None` without a value, or for a text field.
    fn order_number(&self, field: TrialField, row: usize) -> Option<f64> {
        let time = |index: usize| self.times(row)[index].map(|time| time as f64);
        match field {
            TrialField::Id => Some(row as f64),
            TrialField::StoppedEarly => Some(f64::from(u8::from(self.stopped_early(row)))),
            TrialField::Attempt => Some(f64::from(self.attempt(row))),
            TrialField::Measurements => Some(f64::from(self.measurement_count(row))),
            TrialField::Duration => self.duration_secs(row),
            TrialField::CreateTime => time(0),
            TrialField::StartTime => time(1),
            TrialField::EndTime => time(2),
            TrialField::Metric(metric) => self.metric(metric, row),
            TrialField::Constraint(constraint) => self.constraint(constraint, row),
            TrialField::Parameter(index) => self.coordinate(index, row),
            TrialField::State
            | TrialField::InfeasibleReason
            | TrialField::ViolatedConstraint
            | TrialField::ClientId
            | TrialField::Note
            | TrialField::Origin => None,
        }
    }

    fn order_text(&self, field: TrialField, row: usize) -> Option<String> {
        let text = match field {
            TrialField::State => self.state(row)?.as_str().to_owned(),
            TrialField::InfeasibleReason => self.infeasible_reason(row).to_owned(),
            TrialField::ViolatedConstraint => self.violated(row).collect::<Vec<_>>().join(", "),
            TrialField::ClientId => self.client(row).to_owned(),
            TrialField::Note => self.note(row).to_owned(),
            TrialField::Origin => self.origin(row)?.to_string(),
            TrialField::Parameter(index) => self.parameter(index, row)?.to_string(),
            _ => return None,
        };
        Some(text).filter(|text| !text.is_empty())
    }

    fn is_text(&self, field: TrialField) -> bool {
        match field {
            TrialField::State
            | TrialField::InfeasibleReason
            | TrialField::ViolatedConstraint
            | TrialField::ClientId
            | TrialField::Note
            | TrialField::Origin => true,
            TrialField::Parameter(index) => matches!(self.spec(index).kind(), ParameterKind::Categorical { .. }),
            _ => false,
        }
    }
}

/// `limit` trials of `rows` from `offset` in `order`. Trials without a value are last in either direction; ties are
/// ordered by number.
pub fn table(columns: &Columns, rows: &Rows, order: Order, offset: usize, limit: usize) -> Table {
    let numbers: Vec<usize> = match order {
        Order { field: TrialField::Id, is_descending: false } => rows.iter().skip(offset).take(limit).collect(),
        Order { field, .. } if columns.is_text(field) => {
            ordered(rows, |row| columns.order_text(field, row), order.is_descending, String::cmp, offset, limit)
        }
        Order { field, .. } => {
            ordered(rows, |row| columns.order_number(field, row), order.is_descending, f64::total_cmp, offset, limit)
        }
    };
    Table { offset, rows: numbers.into_iter().filter_map(|row| table_row(columns, row)).collect() }
}

/// Number of `rows` before `row` in `order`; `None` if `row` is not among them.
pub fn position(columns: &Columns, rows: &Rows, order: Order, row: usize) -> Option<usize> {
    if !rows.contains(row) {
        return None;
    }
    let Order { field, is_descending } = order;
    Some(match columns.is_text(field) {
        true => before(rows, |row| columns.order_text(field, row), is_descending, String::cmp, row),
        false => before(rows, |row| columns.order_number(field, row), is_descending, f64::total_cmp, row),
    })
}

fn before<K>(
    rows: &Rows,
    key: impl Fn(usize) -> Option<K>,
    is_descending: bool,
    compare: impl Fn(&K, &K) -> Ordering,
    row: usize,
) -> usize {
    let of_row = (key(row), row);
    rows.iter().filter(|other| by_key(&(key(*other), *other), &of_row, is_descending, &compare).is_lt()).count()
}

/// Order of two keyed rows: rows without a key are last in either direction; ties are ordered by number.
fn by_key<K>(
    a: &(Option<K>, usize),
    b: &(Option<K>, usize),
    is_descending: bool,
    compare: impl Fn(&K, &K) -> Ordering,
) -> Ordering {
    let order = match (&a.0, &b.0) {
        (Some(a), Some(b)) if is_descending => compare(b, a),
        (Some(a), Some(b)) => compare(a, b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    };
    order.then(a.1.cmp(&b.1))
}

fn ordered<K>(
    rows: &Rows,
    key: impl Fn(usize) -> Option<K>,
    is_descending: bool,
    compare: impl Fn(&K, &K) -> Ordering,
    offset: usize,
    limit: usize,
) -> Vec<usize> {
    let mut keyed: Vec<(Option<K>, usize)> = rows.iter().map(|row| (key(row), row)).collect();
    let by_key = |a: &(Option<K>, usize), b: &(Option<K>, usize)| by_key(a, b, is_descending, &compare);
    let end = offset.saturating_add(limit);
    // Sorts only up to the end of the page.
    if end < keyed.len() {
        keyed.select_nth_unstable_by(end, by_key);
        keyed.truncate(end);
    }
    keyed.sort_unstable_by(by_key);
    keyed.into_iter().skip(offset).take(limit).map(|(_, row)| row).collect()
}

fn table_row(columns: &Columns, row: usize) -> Option<TableRow> {
    let [create_time, start_time, end_time] =
        columns.times(row).map(|time| Some(Timestamp::from_microsecond(time?).ok()?.to_string()));
    let metrics = columns.problem().metrics().iter().enumerate();
    let constraints = columns.problem().constraints().iter().enumerate();
    Some(TableRow {
        id: columns.number(row),
        state: columns.state(row)?.as_str(),
        stopped_early: columns.stopped_early(row),
        metrics: metrics
            .filter_map(|(index, metric)| Some((metric.name.clone(), columns.metric(index, row)?)))
            .collect(),
        constraints: constraints
            .filter_map(|(index, constraint)| Some((constraint.name.clone(), columns.constraint(index, row)?)))
            .collect(),
        violated_constraints: columns.violated(row).map(str::to_owned).collect(),
        parameters: columns.parameters(row).into_iter().map(|(name, value)| (name, value.into())).collect(),
        create_time,
        start_time,
        end_time,
        duration: columns.duration_secs(row),
        attempt: columns.attempt(row),
        measurements: columns.measurement_count(row),
        origin: columns.origin(row).map(|origin| origin.to_string()),
        client_id: columns.client(row).to_owned(),
        infeasible_reason: columns.infeasible_reason(row).to_owned(),
        note: columns.note(row).to_owned(),
    })
}
