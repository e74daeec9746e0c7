//! Trials page: a table, sorted, filtered and reduced to chosen columns by the address.

use askama::Template;
use axum::extract::RawQuery;
use axum::response::Response;

use super::console::{Console, rendered};
use super::errors::PageError;
use super::explore::field_name;
use super::format::{Badge, Number, Span, Value, encoded};
use super::frame::{Frame, Section};
use super::query;
use super::sparkline::Sparkline;
use super::subject::{Head, Named, Tab};
use super::summary::goal_word;
use super::visit::Visit;
use tunesmith_admission::long_work::off_the_runtime;
use tunesmith_algorithms::problem::{ConstraintSpec, Goal, TrialId};
use tunesmith_algorithms::rounded::Rounded;
use tunesmith_domain::{Study, Trial};
use tunesmith_filter::Filter;
use tunesmith_views as views;

pub(crate) const PAGE_SIZE: usize = 100;

/// Maximum number of running trials with their measurements, and number of their latest measurements.
const MOST_CURVES: usize = 20;
pub(crate) const MOST_MEASUREMENTS: usize = 200;

/// Maximum number of columns named in an error.
const MOST_NAMED: usize = 20;

/// Common restrictions on trials beside a filter, as JSON: label and restriction.
pub(crate) const CHIPS: &str = r#"[["Running","state = ACTIVE"],["Succeeded","state = SUCCEEDED"],["Failed","state = INFEASIBLE"],["Stopped early","stoppedEarly = true"],["With a note","note:*"]]"#;

/// Selection in the query string.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Selection {
    pub(crate) filter: String,
    /// Field as in a filter, optionally followed by ` desc`; empty for the trial number.
    pub(crate) order: String,
    /// Names of the shown columns; empty for all.
    columns: Vec<String>,
    /// Trial number before the page, if all trials are listed by number.
    after: u64,
    /// Number of trials before the page otherwise.
    offset: usize,
}

#[derive(Template)]
#[template(path = "trials.html")]
struct TrialsPage {
    frame: Frame,
    head: Head,
    selection: Selection,
    /// Error in the filter or the order.
    error: Option<String>,
    /// Parameter in the example filter.
    example: String,
    columns: Vec<Column>,
    rows: Vec<Row>,
    /// Number of selected trials; `None` if all are listed by number.
    matched: Option<usize>,
    previous: Option<String>,
    next: Option<String>,
}

/// Column of a metric, a constraint, the run time or a parameter.
pub(crate) struct Column {
    pub(crate) name: String,
    /// Goal of a metric, or bound of a constraint.
    pub(crate) sub: String,
    /// Field in filters and orders.
    pub(crate) field: String,
    /// Whether the first click sorts in descending order.
    is_maximized: bool,
    pub(crate) is_shown: bool,
}

pub(crate) struct Row {
    pub(crate) number: u64,
    pub(crate) badge: Badge,
    /// Cells of the shown columns.
    pub(crate) cells: Vec<Cell>,
    pub(crate) reason: Option<String>,
    pub(crate) note: Option<String>,
}

/// Trials that a selection lists around one of them.
pub(crate) struct Around {
    pub(crate) numbers: Vec<TrialId>,
    /// Number of selected trials before the one; `None` if it is not selected.
    pub(crate) before: Option<usize>,
    /// Number of all selected trials.
    pub(crate) matched: usize,
}

pub(crate) enum Cell {
    Result(Number),
    /// Latest value of a running trial, with its course.
    Latest(Number, Option<Sparkline>),
    Time(Span),
    Parameter(Value),
    Empty,
}

impl Selection {
    pub(crate) fn of(text: &str) -> Result<Self, PageError> {
        let mut selection = Self { columns: query::values(text, "column"), ..Self::default() };
        for (name, value) in query::pairs(text) {
            match name.as_str() {
                "filter" => value.trim().clone_into(&mut selection.filter),
                "orderBy" => value.trim().clone_into(&mut selection.order),
                "after" => selection.after = number(&name, &value)?,
                "offset" => selection.offset = number(&name, &value)?,
                _ => {}
            }
        }
        Ok(selection)
    }

    /// Whether trials are listed by number without a filter, which needs no columns of the study.
    pub(crate) fn is_plain(&self) -> bool {
        self.filter.is_empty() && (self.order.is_empty() || self.order == "id")
    }

    /// Query string with another order and page.
    pub(crate) fn query(&self, order: &str, page: &str) -> String {
        let Self { filter, columns, .. } = self;
        let mut parts = Vec::new();
        let mut add = |name: &str, value: &str| {
            if !value.is_empty() {
                parts.push(format!("{name}={}", encoded(value)));
            }
        };
        add("filter", filter);
        add("orderBy", order);
        columns.iter().for_each(|column| add("column", column));
        if !page.is_empty() {
            parts.push(page.to_owned());
        }
        parts.join("&")
    }
}

impl TrialsPage {
    fn address(&self, order: &str, page: &str) -> String {
        let query = self.selection.query(order, page);
        let mark = if query.is_empty() { "" } else { "?" };
        format!("{}/trials{mark}{query}", self.head.address)
    }

    /// URL of trial `number`, beside which the listed trials are shown.
    fn trial(&self, number: &u64) -> String {
        let query = self.selection.query(&self.selection.order, "");
        let mark = if query.is_empty() { "" } else { "?" };
        format!("{}/trials/{number}{mark}{query}", self.head.address)
    }

    /// URL that sorts by `field`: in the best direction first, then in the other.
    fn sorted_by(&self, field: &str, is_maximized: bool) -> String {
        let (up, down) = (field.to_owned(), format!("{field} desc"));
        let (first, second) = if is_maximized { (down, up) } else { (up, down) };
        let order = if self.selection.order == first { second } else { first };
        // By number is the order without a parameter.
        self.address(if order == "id" { "" } else { &order }, "")
    }

    fn sorted_by_column(&self, column: &Column) -> String {
        self.sorted_by(&column.field, column.is_maximized)
    }

    /// Value of `aria-sort` for the column of `field`, if the table is sorted by it.
    fn direction(&self, field: &str) -> Option<&'static str> {
        let order = if self.selection.order.is_empty() { "id" } else { &self.selection.order };
        if order == field {
            return Some("ascending");
        }
        (order.strip_suffix(" desc") == Some(field)).then_some("descending")
    }

    fn shown(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| column.is_shown)
    }
}

pub(crate) async fn show(
    console: Console,
    visit: Visit,
    named: Named,
    RawQuery(query): RawQuery,
) -> Result<Response, PageError> {
    let subject = console.subject(&named).await?;
    let study = subject.trials()?;
    let selection = Selection::of(query.as_deref().unwrap_or_default())?;
    let columns = columns_of(study, &selection.columns)?;
    let (trials, matched, error) = if selection.is_plain() {
        let page = console.studies.trial_page(&study.id, TrialId(selection.after), PAGE_SIZE).await?;
        (page.trials, None, None)
    } else {
        match console.selected(study, &selection).await? {
            Ok((numbers, matched)) => (console.studies.trials_numbered(&study.id, numbers).await?, Some(matched), None),
            Err(error) => (Vec::new(), None, Some(error)),
        }
    };
    let mut rows = Vec::with_capacity(trials.len());
    let mut curves = 0;
    for trial in &trials {
        let is_running = trial.final_measurement.is_none() && !trial.state.is_final() && trial.measurement_count > 0;
        let is_curve = is_running && curves < MOST_CURVES;
        curves += usize::from(is_curve);
        rows.push(console.trial_row(study, trial, &columns, is_curve).await?);
    }
    let last = selection.offset + rows.len();
    let mut page = TrialsPage {
        frame: visit.frame(format!("Trials of {}", subject.name()), Section::Jobs),
        head: subject.head(&visit.visitor, Tab::Trials),
        error,
        example: parameter_names(study).first().map(String::as_str).map(field_name).unwrap_or_default(),
        columns,
        previous: None,
        next: None,
        rows,
        matched,
        selection,
    };
    let order = page.selection.order.clone();
    let (previous, next) = match page.matched {
        Some(matched) => {
            let before = (page.selection.offset > 0).then(|| page.selection.offset.saturating_sub(PAGE_SIZE));
            (
                before.map(|offset| format!("offset={offset}")),
                (last < matched && !page.rows.is_empty()).then(|| format!("offset={last}")),
            )
        }
        None => {
            let after = page.selection.after;
            let before = (after > 0).then(|| format!("after={}", after.saturating_sub(PAGE_SIZE as u64)));
            // A partial page is the last one.
            let is_full = trials.len() == PAGE_SIZE;
            (before, trials.last().filter(|_| is_full).map(|last| format!("after={}", last.id)))
        }
    };
    page.previous = previous.map(|previous| page.address(&order, &previous));
    page.next = next.map(|next| page.address(&order, &next));
    Ok(rendered(&page))
}

impl Console {
    /// Numbers of the trials on a page of `selection`, and the number of all selected trials; the error of a filter or
    /// an order that does not fit the study.
    async fn selected(
        &self,
        study: &Study,
        selection: &Selection,
    ) -> Result<Result<(Vec<TrialId>, usize), String>, PageError> {
        let offset = selection.offset;
        let page = move |columns: &views::Columns, rows: &views::Rows, order| {
            (numbers(columns, rows, order, offset, PAGE_SIZE), rows.count())
        };
        self.select(study, selection, page).await
    }

    /// Up to `radius` trials of `selection` before and after trial `number`; the error of a filter or an order that does not
    /// fit the study.
    pub(crate) async fn around(
        &self,
        study: &Study,
        selection: &Selection,
        number: TrialId,
        radius: usize,
    ) -> Result<Result<Around, String>, PageError> {
        let around = move |columns: &views::Columns, rows: &views::Rows, order| {
            let row = usize::try_from(number.0).ok().and_then(|number| number.checked_sub(1));
            let before = row.and_then(|row| views::position(columns, rows, order, row));
            let numbers = before.map(|before| {
                let first = before.saturating_sub(radius);
                numbers(columns, rows, order, first, before - first + radius + 1)
            });
            Around { numbers: numbers.unwrap_or_default(), before, matched: rows.count() }
        };
        self.select(study, selection, around).await
    }

    /// Applies `read` to the trials and the order of `selection`.
    async fn select<T: Send + 'static>(
        &self,
        study: &Study,
        selection: &Selection,
        read: impl FnOnce(&views::Columns, &views::Rows, views::Order) -> T + Send + 'static,
    ) -> Result<Result<T, String>, PageError> {
        let filter: Filter = match selection.filter.parse() {
            Ok(filter) => filter,
            Err(error) => {
                let error: tunesmith_filter::FilterError = error;
                return Ok(Err(error.to_string()));
            }
        };
        let columns = self.studies.columns(study).await?;
        let order = selection.order.clone();
        let select = move || {
            let rows = columns.select(&filter).map_err(|error| error.to_string())?;
            let order = columns.order(&order).map_err(|error| error.message)?;
            Ok(read(&columns, &rows, order))
        };
        off_the_runtime(select).await.map_err(|refusal| PageError::Failed(refusal.message))
    }

    /// Row with the cells of the shown `columns`. Reads the latest measurements of a running trial if `is_curve`.
    pub(crate) async fn trial_row(
        &self,
        study: &Study,
        trial: &Trial,
        columns: &[Column],
        is_curve: bool,
    ) -> Result<Row, PageError> {
        let latest = match is_curve {
            true => self.studies.latest_measurements(&study.id, trial, MOST_MEASUREMENTS).await?,
            false => Vec::new(),
        };
        let now = self.clock.now();
        let values = study.problem.value_names().count();
        let cell = |(index, column): (usize, &Column)| {
            if index < values {
                let result = trial.final_measurement.as_ref().and_then(|result| result.value(&column.name));
                return result.map_or_else(|| latest_value(&column.name, &latest), |value| Cell::Result(Number(value)));
            }
            if index == values {
                let time = |start| Cell::Time(Span::between(start, trial.end_time.unwrap_or(now)));
                return trial.start_time.map_or(Cell::Empty, time);
            }
            trial.parameters.get(&column.name).map_or(Cell::Empty, |value| Cell::Parameter(Value(value.clone())))
        };
        let shown = columns.iter().enumerate().filter(|(_, column)| column.is_shown);
        Ok(Row {
            number: trial.id.0,
            badge: Badge::of_trial(trial.state, trial.stopped_early),
            cells: shown.map(cell).collect(),
            reason: trial.infeasible_reason.clone().or_else(|| violation(study, trial)),
            note: trial.note().map(|note| note.text.clone()),
        })
    }

    /// The first `limit` unfinished trials with measurements, with their latest values.
    pub(crate) async fn running_rows(&self, study: &Study, limit: usize) -> Result<(Vec<Column>, Vec<Row>), PageError> {
        let mut columns = columns_of(study, &[])?;
        columns.truncate(study.problem.value_names().count() + 1);
        let mut rows = Vec::new();
        for trial in self.studies.unfinished_trials(&study.id, limit).await? {
            if trial.measurement_count > 0 {
                rows.push(self.trial_row(study, &trial, &columns, true).await?);
            }
        }
        Ok((columns, rows))
    }
}

/// Numbers of the trials of a page of `rows`.
fn numbers(
    columns: &views::Columns,
    rows: &views::Rows,
    order: views::Order,
    offset: usize,
    limit: usize,
) -> Vec<TrialId> {
    views::table(columns, rows, order, offset, limit).rows.iter().map(|row| TrialId(row.id)).collect()
}

/// Latest value of the metric `name` in `measurements`, with its course.
fn latest_value(name: &str, measurements: &[tunesmith_domain::Measurement]) -> Cell {
    let values: Vec<f64> = measurements.iter().filter_map(|measurement| measurement.value(name)).collect();
    let Some(last) = values.last() else { return Cell::Empty };
    let label = format!("{name} in the last {} measurements", values.len());
    Cell::Latest(Number(*last), Sparkline::of(values.iter().copied(), label))
}

/// Columns of metrics, constraints, the run time and parameters, in this order. `shown` names the shown ones; empty
/// for all.
///
/// # Errors
/// [`PageError::Invalid`] if `shown` names a column that the study does not have.
pub(crate) fn columns_of(study: &Study, shown: &[String]) -> Result<Vec<Column>, PageError> {
    let metrics = study.problem.metrics().iter().map(|metric| Column {
        sub: goal_word(metric.goal).to_owned(),
        field: format!("metric.{}", field_name(&metric.name)),
        is_maximized: metric.goal == Goal::Maximize,
        is_shown: true,
        name: metric.name.clone(),
    });
    let other = |name: &str, sub: String, field: String| Column {
        name: name.to_owned(),
        sub,
        field,
        is_maximized: false,
        is_shown: true,
    };
    let constraints = study.problem.constraints().iter().map(|constraint| {
        other(&constraint.name, bound(constraint), format!("metric.{}", field_name(&constraint.name)))
    });
    let time = other("Run time", String::new(), "duration".to_owned());
    let names = parameter_names(study);
    let parameters = names.iter().map(|name| other(name, String::new(), format!("parameters.{}", field_name(name))));
    let mut columns: Vec<Column> = metrics.chain(constraints).chain([time]).chain(parameters).collect();
    if let Some(unknown) = shown.iter().find(|name| columns.iter().all(|column| column.field != **name)) {
        let known: Vec<&str> = columns.iter().map(|column| column.field.as_str()).take(MOST_NAMED).collect();
        let more = if columns.len() > known.len() { ", and others" } else { "" };
        let known = known.join(", ");
        return Err(PageError::Invalid(format!(
            "column={unknown}: not a column of this study; allowed: {known}{more}"
        )));
    }
    for column in columns.iter_mut().filter(|_| !shown.is_empty()) {
        column.is_shown = shown.contains(&column.field);
    }
    Ok(columns)
}

/// Number of trials in the parameter `name`.
pub(crate) fn number<T: TryFrom<u32>>(name: &str, text: &str) -> Result<T, PageError> {
    let number = text.parse::<u32>().ok().and_then(|number| number.try_into().ok());
    number.ok_or_else(|| PageError::Invalid(format!("{name}={text}: use a number from 0 to {}", u32::MAX)))
}

fn bound(constraint: &ConstraintSpec) -> String {
    let side = match constraint.goal {
        Goal::Maximize => "at least",
        Goal::Minimize => "at most",
    };
    format!("{side} {}", Rounded(constraint.threshold))
}

/// Constraints violated by the result of `trial`, if any.
fn violation(study: &Study, trial: &Trial) -> Option<String> {
    let names: Vec<&str> = study.violated(trial).map(|constraint| constraint.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("violates {}", names.join(", ")))
}

pub(crate) fn parameter_names(study: &Study) -> Vec<String> {
    study.problem.search_space().parameters().iter().map(|parameter| parameter.name().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selection_is_part_of_the_address() {
        let text = "filter=state+%3D+ACTIVE&orderBy=metric.loss%20desc&column=duration&column=metric.loss&offset=100";
        let selection = Selection::of(text).unwrap();
        assert_eq!(selection.filter, "state = ACTIVE");
        assert_eq!((selection.order.as_str(), selection.offset), ("metric.loss desc", 100));
        assert_eq!(selection.columns, ["duration", "metric.loss"]);
        assert!(!selection.is_plain());
        let again = selection.query(&selection.order, "offset=100");
        assert_eq!(Selection::of(&again).unwrap(), selection);
        assert!(Selection::of("after=200").unwrap().is_plain() && Selection::of("orderBy=id").unwrap().is_plain());
        for bad in ["after=x", "offset=-1", "offset=18446744073709551615"] {
            assert!(Selection::of(bad).is_err(), "{bad}");
        }
        assert_eq!(Selection::default().query("", ""), "");
    }
}
