//! Columnar storage of a study's trials.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use tunesmith_algorithms::problem::{
    Goal, Origin, ParameterKind, ParameterSpec, ParameterValue, ParameterValues, ProblemStatement,
};
use tunesmith_domain::{Study, Trial, TrialState};

use super::Rows;

mod stored;

/// Sentinel for a missing time, integer or level.
const NO_TIME: i64 = i64::MIN;
const NO_INTEGER: i64 = i64::MIN;
const NO_LEVEL: u32 = u32::MAX;

/// Maximum stored length of a reason, note or client ID, in characters.
const TEXT_LENGTH: usize = 300;

/// Trials of a study in columns: about 60 bytes per trial, plus 8 per parameter and metric.
///
/// The row of a trial is its number less one. [`Self::apply`] is idempotent and independent of order.
#[derive(Debug)]
pub struct Columns {
    problem: Arc<ProblemStatement>,
    /// Distinguishes studies of the same name.
    create_time: Timestamp,
    revision: u64,
    /// Revision of the latest stored form; 0 without one.
    stored_revision: u64,
    /// `None` for a trial not read yet.
    states: Vec<Option<TrialState>>,
    stopped_early: Vec<bool>,
    created: Vec<i64>,
    started: Vec<i64>,
    ended: Vec<i64>,
    attempts: Vec<u32>,
    measurements: Vec<u32>,
    origins: Vec<u8>,
    known_origins: Vec<Option<Origin>>,
    clients: Texts,
    reasons: Texts,
    /// Notes by row; most trials have none.
    notes: BTreeMap<usize, Box<str>>,
    /// One per metric; NaN without a result.
    metrics: Vec<Vec<f64>>,
    /// One per constraint; NaN without a result.
    constraints: Vec<Vec<f64>>,
    parameters: Vec<ParameterColumn>,
    /// By metric, rows with a result: best first, those that violate a constraint last. Computed on demand.
    best_first: Vec<OnceLock<Vec<u32>>>,
}

#[derive(Debug)]
enum ParameterColumn {
    /// NaN in trials without the parameter.
    Number(Vec<f64>),
    Integer(Vec<i64>),
    /// Indices of levels.
    Level(Vec<u32>),
}

/// Text column with many duplicates.
#[derive(Debug, Default)]
struct Texts {
    rows: Vec<u32>,
    known: Vec<Box<str>>,
    index: HashMap<Box<str>, u32>,
    bytes: usize,
}

impl Texts {
    fn set(&mut self, row: usize, text: &str) {
        let text = shortened(text);
        self.rows[row] = self.index.get(text).copied().unwrap_or_else(|| self.add(text));
    }

    /// Adds a new text, and returns its number.
    fn add(&mut self, text: &str) -> u32 {
        let number = self.known.len() as u32;
        self.known.push(text.into());
        self.index.insert(text.into(), number);
        self.bytes += 2 * text.len() + 96;
        number
    }

    fn get(&self, row: usize) -> &str {
        self.known.get(self.rows[row] as usize).map_or("", |text| text)
    }
}

/// The first characters of `text`.
fn shortened(text: &str) -> &str {
    let end = text.char_indices().nth(TEXT_LENGTH).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

impl Columns {
    /// Empty columns of `study`, with capacity for its trials.
    pub fn new(study: &Study) -> Self {
        let problem = Arc::clone(&study.problem);
        let capacity = usize::try_from(study.next_trial_id.0.saturating_sub(1)).unwrap_or(0);
        let column = |parameter: &ParameterSpec| match parameter.kind() {
            ParameterKind::Double { .. } | ParameterKind::Discrete { .. } => {
                ParameterColumn::Number(Vec::with_capacity(capacity))
            }
            ParameterKind::Integer { .. } => ParameterColumn::Integer(Vec::with_capacity(capacity)),
            ParameterKind::Categorical { .. } => ParameterColumn::Level(Vec::with_capacity(capacity)),
        };
        Self {
            create_time: study.create_time,
            revision: 0,
            stored_revision: 0,
            states: Vec::with_capacity(capacity),
            stopped_early: Vec::with_capacity(capacity),
            created: Vec::with_capacity(capacity),
            started: Vec::with_capacity(capacity),
            ended: Vec::with_capacity(capacity),
            attempts: Vec::with_capacity(capacity),
            measurements: Vec::with_capacity(capacity),
            origins: Vec::with_capacity(capacity),
            known_origins: vec![None],
            clients: Texts { rows: Vec::with_capacity(capacity), ..Texts::default() },
            reasons: Texts { rows: Vec::with_capacity(capacity), ..Texts::default() },
            notes: BTreeMap::new(),
            metrics: problem.metrics().iter().map(|_| Vec::with_capacity(capacity)).collect(),
            constraints: problem.constraints().iter().map(|_| Vec::with_capacity(capacity)).collect(),
            parameters: problem.search_space().parameters().iter().map(column).collect(),
            best_first: problem.metrics().iter().map(|_| OnceLock::new()).collect(),
            problem,
        }
    }

    /// Whether the columns belong to `study`, not to a deleted study of the same name.
    pub fn is_of(&self, study: &Study) -> bool {
        self.create_time == study.create_time
    }

    pub fn problem(&self) -> &ProblemStatement {
        &self.problem
    }

    /// Revision of the study up to which changes were applied.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Records that all changes up to `revision` were applied.
    pub fn mark_read_up_to(&mut self, revision: u64) {
        self.revision = self.revision.max(revision);
    }

    /// Revision of the latest stored form; 0 without one.
    pub fn stored_revision(&self) -> u64 {
        self.stored_revision
    }

    /// Records that the present form is being stored.
    pub fn mark_stored(&mut self) {
        self.stored_revision = self.revision;
    }

    /// Sets the trial's row to its current state.
    pub fn apply(&mut self, trial: &Trial) {
        let Some(row) = usize::try_from(trial.id.0).ok().and_then(|number| number.checked_sub(1)) else { return };
        if row >= self.states.len() {
            self.resize(row + 1);
        }
        let had_result = self.states[row] == Some(TrialState::Succeeded);
        self.states[row] = Some(trial.state);
        self.stopped_early[row] = trial.stopped_early;
        let microsecond = |time: Option<Timestamp>| time.map_or(NO_TIME, |time| time.as_microsecond());
        self.created[row] = trial.create_time.as_microsecond();
        self.started[row] = microsecond(trial.start_time);
        self.ended[row] = microsecond(trial.end_time);
        self.attempts[row] = u32::try_from(trial.attempt).unwrap_or(u32::MAX);
        self.measurements[row] = u32::try_from(trial.measurement_count).unwrap_or(u32::MAX);
        self.origins[row] = self.origin_number(trial.origin);
        self.clients.set(row, &trial.client_id);
        self.reasons.set(row, trial.infeasible_reason.as_deref().unwrap_or_default());
        match trial.note() {
            Some(note) => drop(self.notes.insert(row, shortened(&note.text).into())),
            None => drop(self.notes.remove(&row)),
        }
        let has_result = trial.state == TrialState::Succeeded;
        let result = trial.final_measurement.as_ref().filter(|_| has_result);
        for (metric, values) in self.problem.metrics().iter().zip(&mut self.metrics) {
            values[row] = result.and_then(|result| result.value(&metric.name)).unwrap_or(f64::NAN);
        }
        for (constraint, values) in self.problem.constraints().iter().zip(&mut self.constraints) {
            values[row] = result.and_then(|result| result.value(&constraint.name)).unwrap_or(f64::NAN);
        }
        for (spec, column) in self.problem.search_space().parameters().iter().zip(&mut self.parameters) {
            column.set(row, spec, trial.parameters.get(spec.name()));
        }
        if had_result || has_result {
            self.best_first.iter_mut().for_each(|order| *order = OnceLock::new());
        }
    }

    fn resize(&mut self, len: usize) {
        self.states.resize(len, None);
        self.stopped_early.resize(len, false);
        for times in [&mut self.created, &mut self.started, &mut self.ended] {
            times.resize(len, NO_TIME);
        }
        self.attempts.resize(len, 0);
        self.measurements.resize(len, 0);
        self.origins.resize(len, 0);
        for texts in [&mut self.clients, &mut self.reasons] {
            texts.rows.resize(len, u32::MAX);
        }
        for values in self.metrics.iter_mut().chain(&mut self.constraints) {
            values.resize(len, f64::NAN);
        }
        for column in &mut self.parameters {
            match column {
                ParameterColumn::Number(values) => values.resize(len, f64::NAN),
                ParameterColumn::Integer(values) => values.resize(len, NO_INTEGER),
                ParameterColumn::Level(values) => values.resize(len, NO_LEVEL),
            }
        }
    }

    fn origin_number(&mut self, origin: Option<Origin>) -> u8 {
        let known = self.known_origins.iter().position(|known| *known == origin);
        let number = known.unwrap_or_else(|| {
            self.known_origins.push(origin);
            self.known_origins.len() - 1
        });
        // There are fewer pairs of algorithm and step than values of a byte.
        u8::try_from(number).unwrap_or(0)
    }

    /// Estimated memory in bytes.
    pub fn bytes(&self) -> usize {
        let parameter = |column: &ParameterColumn| match column {
            ParameterColumn::Number(values) => values.capacity() * 8,
            ParameterColumn::Integer(values) => values.capacity() * 8,
            ParameterColumn::Level(values) => values.capacity() * 4,
        };
        let orders = self.best_first.iter().filter_map(OnceLock::get).map(|rows| rows.capacity() * 4);
        self.states.capacity() * (1 + 1 + 3 * 8 + 4 + 4 + 1 + 4 + 4)
            + self.metrics.iter().chain(&self.constraints).map(|values| values.capacity() * 8).sum::<usize>()
            + self.parameters.iter().map(parameter).sum::<usize>()
            + orders.sum::<usize>()
            + self.clients.bytes
            + self.reasons.bytes
            + self.notes.values().map(|note| note.len() + 64).sum::<usize>()
    }

    /// Number of rows, including deleted trials.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Rows without deleted trials.
    pub fn live(&self) -> Rows {
        Rows::of(self.len(), |row| self.state(row).is_some())
    }

    /// Trial number of `row`.
    pub fn number(&self, row: usize) -> u64 {
        row as u64 + 1
    }

    /// State; `None` if the trial is deleted.
    pub fn state(&self, row: usize) -> Option<TrialState> {
        self.states[row].filter(|state| *state != TrialState::Deleted)
    }

    pub fn stopped_early(&self, row: usize) -> bool {
        self.stopped_early[row]
    }

    /// Creation, start and end of the trial, in microseconds since 1970.
    pub fn times(&self, row: usize) -> [Option<i64>; 3] {
        [&self.created, &self.started, &self.ended].map(|times| Some(times[row]).filter(|time| *time != NO_TIME))
    }

    /// Seconds from start to end.
    pub fn duration_secs(&self, row: usize) -> Option<f64> {
        let [_, start, end] = self.times(row);
        Some((end?.saturating_sub(start?)) as f64 / 1e6)
    }

    pub fn attempt(&self, row: usize) -> u32 {
        self.attempts[row]
    }

    pub fn measurement_count(&self, row: usize) -> u32 {
        self.measurements[row]
    }

    /// Algorithm and step that proposed the trial.
    pub fn origin(&self, row: usize) -> Option<Origin> {
        self.known_origins.get(usize::from(self.origins[row])).copied().flatten()
    }

    /// Owner; empty without one.
    pub fn client(&self, row: usize) -> &str {
        self.clients.get(row)
    }

    /// Reason for infeasibility, truncated; empty if the trial is feasible.
    pub fn infeasible_reason(&self, row: usize) -> &str {
        self.reasons.get(row)
    }

    /// Note of a person, truncated; empty without one.
    pub fn note(&self, row: usize) -> &str {
        self.notes.get(&row).map_or("", |note| note)
    }

    /// Result of a metric by index; `None` unless finite.
    pub fn metric(&self, metric: usize, row: usize) -> Option<f64> {
        Some(self.metrics[metric][row]).filter(|value| value.is_finite())
    }

    /// Value of a constraint by index; `None` unless finite.
    pub fn constraint(&self, constraint: usize, row: usize) -> Option<f64> {
        Some(self.constraints[constraint][row]).filter(|value| value.is_finite())
    }

    /// Names of the constraints that the result violates.
    pub fn violated(&self, row: usize) -> impl Iterator<Item = &str> {
        let has_result = self.states[row] == Some(TrialState::Succeeded);
        let constraints = self.problem.constraints().iter().zip(&self.constraints);
        let violated = constraints.filter(move |(constraint, values)| has_result && !constraint.holds(values[row]));
        violated.map(|(constraint, _)| constraint.name.as_str())
    }

    /// Whether the result violates no constraint.
    pub fn is_feasible(&self, row: usize) -> bool {
        self.violated(row).next().is_none()
    }

    /// Like [`Self::metric`], including NaN and infinity; `None` without a result.
    pub(super) fn any_metric(&self, metric: usize, row: usize) -> Option<f64> {
        (self.states[row] == Some(TrialState::Succeeded)).then(|| self.metrics[metric][row])
    }

    /// Like [`Self::constraint`], including NaN and infinity; `None` without a result.
    pub(super) fn any_constraint(&self, constraint: usize, row: usize) -> Option<f64> {
        (self.states[row] == Some(TrialState::Succeeded)).then(|| self.constraints[constraint][row])
    }

    /// Numeric value of a parameter by index, or level index if categorical; `None` in trials without the parameter.
    pub fn coordinate(&self, parameter: usize, row: usize) -> Option<f64> {
        match &self.parameters[parameter] {
            ParameterColumn::Number(values) => Some(values[row]).filter(|value| !value.is_nan()),
            ParameterColumn::Integer(values) => {
                Some(values[row]).filter(|value| *value != NO_INTEGER).map(|value| value as f64)
            }
            ParameterColumn::Level(values) => Some(values[row]).filter(|value| *value != NO_LEVEL).map(f64::from),
        }
    }

    /// Value of a parameter by index; `None` in trials without it.
    pub fn parameter(&self, parameter: usize, row: usize) -> Option<ParameterValue> {
        let spec = self.spec(parameter);
        Some(match (&self.parameters[parameter], spec.kind()) {
            (ParameterColumn::Integer(values), _) => {
                ParameterValue::Integer(Some(values[row]).filter(|value| *value != NO_INTEGER)?)
            }
            (ParameterColumn::Level(values), ParameterKind::Categorical { values: levels }) => {
                ParameterValue::Categorical(levels.get(values[row] as usize)?.clone())
            }
            (ParameterColumn::Number(values), ParameterKind::Discrete { .. }) => {
                ParameterValue::Discrete(Some(values[row]).filter(|value| !value.is_nan())?)
            }
            (ParameterColumn::Number(values), _) => {
                ParameterValue::Double(Some(values[row]).filter(|value| !value.is_nan())?)
            }
            (ParameterColumn::Level(_), _) => return None,
        })
    }

    pub fn parameters(&self, row: usize) -> ParameterValues {
        let specs = self.problem.search_space().parameters().iter().enumerate();
        specs.filter_map(|(index, spec)| Some((spec.name().to_owned(), self.parameter(index, row)?))).collect()
    }

    pub fn spec(&self, parameter: usize) -> &ParameterSpec {
        &self.problem.search_space().parameters()[parameter]
    }

    pub fn goal(&self, metric: usize) -> Goal {
        self.problem.metrics()[metric].goal
    }

    /// Tests whether one of `rows` can be the best by `metrics`: it violates no constraint, and was not stopped early
    /// if another such row with all metrics was not.
    pub fn can_be_best(&self, rows: &Rows, metrics: &[usize]) -> impl Fn(usize) -> bool {
        let is_measured = |row: usize| metrics.iter().all(|metric| self.metric(*metric, row).is_some());
        let any_whole = rows.iter().any(|row| !self.stopped_early(row) && self.is_feasible(row) && is_measured(row));
        move |row| self.is_feasible(row) && !(any_whole && self.stopped_early(row))
    }

    /// Rows with a finite result of a metric by index: best first, ties ordered by the other metrics, then by number.
    /// As in [`tunesmith_domain::best_first`], constraint violations come last, and within both groups stopped trials
    /// follow complete ones.
    pub fn best_first(&self, metric: usize) -> &[u32] {
        self.best_first[metric].get_or_init(|| {
            let values = &self.metrics[metric];
            let goal = self.goal(metric);
            let mut rows: Vec<([bool; 2], f64, u32)> = (0..self.len())
                .filter(|row| values[*row].is_finite() && self.state(*row).is_some())
                .map(|row| ([!self.is_feasible(row), self.stopped_early(row)], goal.loss(values[row]), row as u32))
                .collect();
            let others = |a: u32, b: u32| {
                let losses = |row: u32| {
                    let others = (0..self.metrics.len()).filter(move |other| *other != metric);
                    // A metric without a finite value ranks below every value.
                    others.map(move |other| {
                        self.metric(other, row as usize).map_or(f64::INFINITY, |value| self.goal(other).loss(value))
                    })
                };
                losses(a).zip(losses(b)).fold(Ordering::Equal, |order, (a, b)| order.then(a.total_cmp(&b)))
            };
            rows.sort_unstable_by(|a, b| {
                let by_value = a.0.cmp(&b.0).then(a.1.total_cmp(&b.1));
                by_value.then_with(|| others(a.2, b.2)).then(a.2.cmp(&b.2))
            });
            rows.into_iter().map(|(_, _, row)| row).collect()
        })
    }
}

impl ParameterColumn {
    fn set(&mut self, row: usize, spec: &ParameterSpec, value: Option<&ParameterValue>) {
        match self {
            Self::Number(values) => {
                values[row] = match value {
                    Some(ParameterValue::Double(value) | ParameterValue::Discrete(value)) => *value,
                    _ => f64::NAN,
                }
            }
            Self::Integer(values) => {
                values[row] = match value {
                    Some(ParameterValue::Integer(value)) => *value,
                    _ => NO_INTEGER,
                }
            }
            Self::Level(values) => {
                values[row] = match (value, spec.kind()) {
                    (Some(ParameterValue::Categorical(value)), ParameterKind::Categorical { values: levels }) => {
                        levels.iter().position(|level| level == value).map_or(NO_LEVEL, |index| index as u32)
                    }
                    _ => NO_LEVEL,
                }
            }
        }
    }
}
