//! List of trials beside an open one: those of the trials page, in the same order.

use super::console::Console;
use super::errors::PageError;
use super::trials::{self, Around, Column, Row, Selection};
use tunesmith_algorithms::problem::TrialId;
use tunesmith_domain::Study;

/// Maximum number of trials before and after the open one.
const RADIUS: usize = 50;

/// Trials around the open one.
pub(crate) struct Beside {
    /// Query string with the selection, after `?`; empty for all trials by number.
    pub(crate) query: String,
    pub(crate) filter: String,
    /// Shown metric, constraint, time or parameter.
    pub(crate) column: Column,
    pub(crate) rows: Vec<Row>,
    /// Number of selected trials before the open one, and number of all selected trials; `None` for all trials by number.
    pub(crate) position: Option<(usize, usize)>,
    /// Reason why the list is not around the open trial.
    pub(crate) problem: Option<String>,
    /// Neighbours of the open trial.
    pub(crate) previous: Option<u64>,
    pub(crate) next: Option<u64>,
    /// Page of the trials page with the open trial.
    pub(crate) page: String,
}

impl Console {
    /// Trials of `study` that `selection` lists around trial `number`.
    pub(crate) async fn beside(
        &self,
        study: &Study,
        selection: &Selection,
        number: TrialId,
    ) -> Result<Beside, PageError> {
        let query = selection.query(&selection.order, "");
        let mut column = trials::columns_of(study, &[])?;
        let ordered = selection.order.strip_suffix(" desc").unwrap_or(&selection.order);
        let shown = column.iter().position(|column| column.field == ordered).unwrap_or(0);
        let (mut position, mut problem) = (None, None);
        let found = if selection.is_plain() {
            let before = TrialId(number.0.saturating_sub(RADIUS as u64 + 1));
            self.studies.trial_page(&study.id, before, 2 * RADIUS + 1).await?.trials
        } else {
            match self.around(study, selection, number, RADIUS).await? {
                Ok(Around { numbers, before: Some(before), matched }) => {
                    position = Some((before, matched));
                    self.studies.trials_numbered(&study.id, numbers).await?
                }
                Ok(Around { .. }) => {
                    problem = Some(format!("Trial {number} does not match the filter."));
                    Vec::new()
                }
                Err(error) => {
                    problem = Some(error);
                    Vec::new()
                }
            }
        };
        let open = found.iter().position(|trial| trial.id == number);
        let neighbour = |step: isize| Some(found.get(open?.checked_add_signed(step)?)?.id.0);
        let page = match position {
            Some((before, _)) => format!("offset={}", before / trials::PAGE_SIZE * trials::PAGE_SIZE),
            None => match number.0.saturating_sub(1) / trials::PAGE_SIZE as u64 * trials::PAGE_SIZE as u64 {
                0 => String::new(),
                after => format!("after={after}"),
            },
        };
        let (previous, next) = (neighbour(-1), neighbour(1));
        for (index, column) in column.iter_mut().enumerate() {
            column.is_shown = index == shown;
        }
        let mut rows = Vec::with_capacity(found.len());
        for trial in &found {
            rows.push(self.trial_row(study, trial, &column, false).await?);
        }
        Ok(Beside {
            page: selection.query(&selection.order, &page),
            filter: selection.filter.clone(),
            column: column.swap_remove(shown),
            query,
            rows,
            position,
            problem,
            previous,
            next,
        })
    }
}

impl Beside {
    /// Address of trial `number` of the subject at `address`, with the list.
    pub(crate) fn address(&self, address: &str, number: &u64) -> String {
        with_query(format!("{address}/trials/{number}"), &self.query)
    }

    /// Address of the trials page of the subject at `address`.
    pub(crate) fn list(&self, address: &str) -> String {
        with_query(format!("{address}/trials"), &self.page)
    }
}

fn with_query(address: String, query: &str) -> String {
    if query.is_empty() { address } else { format!("{address}?{query}") }
}
