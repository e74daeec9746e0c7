//! Tables fitted to the terminal, with aligned numbers. Columns that do not fit are dropped, and a hint names them.

mod arguments;
mod order;

use comfy_table::{CellAlignment, Table as TextTable, presets};

pub(super) use self::arguments::{Layout, TableArgs};
pub(super) use self::order::natural_order;

/// Minimum width of the wrapped text column.
const LEAST_TEXT: usize = 24;

/// A table without borders, so that `awk` and `cut` can read it. Headers of fixed columns are in capitals; metrics
/// and parameters keep their names.
pub(super) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

pub(super) struct Column {
    header: String,
    kind: Kind,
    /// Columns of higher rank are dropped first; 0 is never dropped.
    rank: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    /// Aligned at the decimal point.
    Number,
    /// Number if all cells are numbers, otherwise text.
    Value,
    /// Wrapped at words.
    Prose,
}

impl Column {
    pub(super) fn text(header: impl Into<String>) -> Self {
        Self { header: header.into(), kind: Kind::Text, rank: 0 }
    }

    /// Column of numbers, aligned at the decimal point. Other texts are right-aligned.
    pub(super) fn number(header: impl Into<String>) -> Self {
        Self { kind: Kind::Number, ..Self::text(header) }
    }

    /// Column of numbers if all cells are numbers or missing, otherwise of text.
    pub(super) fn value(header: impl Into<String>) -> Self {
        Self { kind: Kind::Value, ..Self::text(header) }
    }

    /// Column of wrapped sentences. At most one per table.
    pub(super) fn prose(header: impl Into<String>) -> Self {
        Self { kind: Kind::Prose, ..Self::text(header) }
    }

    /// Allows dropping the column, after those of a higher `rank`.
    pub(super) fn may_be_left_out(self, rank: usize) -> Self {
        Self { rank: rank + 1, ..self }
    }
}

impl Table {
    pub(super) fn new(columns: Vec<Column>) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row with one cell per column.
    pub(super) fn add_row(&mut self, mut row: Vec<String>) {
        row.resize(self.columns.len(), String::new());
        self.rows.push(row);
    }

    /// Renders the table for `layout` with a final line break, followed by a hint about dropped columns.
    ///
    /// # Errors
    /// If the layout selects an unknown column.
    pub(super) fn render(&self, layout: &Layout) -> anyhow::Result<String> {
        let selected = self.selected(layout)?;
        let cells: Vec<Vec<String>> = selected.iter().map(|column| self.cells(*column)).collect();
        let widths: Vec<usize> = cells.iter().map(|cells| widest(cells)).collect();
        let (shown, prose_width) = self.fit(&selected, &widths, layout);
        let mut table = TextTable::new();
        table.load_style(presets::NOTHING);
        table.set_header(shown.iter().map(|index| &self.columns[selected[*index]].header));
        for row in 0..self.rows.len() {
            table.add_row(shown.iter().map(|index| {
                let cell = &cells[*index][row + 1];
                match (self.columns[selected[*index]].kind, prose_width) {
                    (Kind::Prose, Some(width)) => wrapped(cell, width),
                    _ => cell.clone(),
                }
            }));
        }
        for (position, index) in shown.iter().enumerate() {
            if let (Kind::Number, Some(column)) = (self.kind(selected[*index]), table.column_mut(position)) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let mut text = plain_lines(&table);
        let hidden: Vec<&str> = (0..selected.len())
            .filter(|index| !shown.contains(index))
            .map(|index| self.columns[selected[index]].header.as_str())
            .collect();
        if !hidden.is_empty() {
            let noun = if hidden.len() == 1 { "column does" } else { "columns do" };
            let names = hidden.join(", ");
            let select = if layout.is_selectable { ", --columns selects some" } else { "" };
            text.push_str(&format!("{} {noun} not fit: {names} (--wide prints all columns{select})\n", hidden.len()));
        }
        Ok(text)
    }

    /// Indices of the columns selected by the layout.
    fn selected(&self, layout: &Layout) -> anyhow::Result<Vec<usize>> {
        if layout.columns.is_empty() {
            return Ok((0..self.columns.len()).collect());
        }
        let find = |name: &String| {
            self.columns.iter().position(|column| column.header.eq_ignore_ascii_case(name)).ok_or_else(|| {
                let names: Vec<&str> = self.columns.iter().map(|column| column.header.as_str()).collect();
                anyhow::anyhow!("--columns: no column is named {name:?}; the columns are {}", names.join(", "))
            })
        };
        layout.columns.iter().map(find).collect()
    }

    /// Column kind, which may depend on its cells.
    fn kind(&self, column: usize) -> Kind {
        let is_number = |row: &Vec<String>| row[column].parse::<f64>().is_ok() || matches!(&*row[column], "" | "-");
        match self.columns[column].kind {
            Kind::Value if self.rows.iter().all(is_number) => Kind::Number,
            Kind::Value => Kind::Text,
            kind => kind,
        }
    }

    /// Aligned header and cells of a column.
    fn cells(&self, column: usize) -> Vec<String> {
        let mut cells: Vec<String> = self.rows.iter().map(|row| row[column].clone()).collect();
        if self.kind(column) == Kind::Number {
            align_points(&mut cells);
        }
        cells.insert(0, self.columns[column].header.clone());
        cells
    }

    /// Positions in `selected` that fit, and the width of the wrapped column if any.
    fn fit(&self, selected: &[usize], widths: &[usize], layout: &Layout) -> (Vec<usize>, Option<usize>) {
        let mut shown: Vec<usize> = (0..selected.len()).collect();
        let Some(limit) = layout.width else { return (shown, None) };
        let kind = |index: usize| self.columns[selected[index]].kind;
        let least = |index: usize| match kind(index) {
            Kind::Prose => widths[index].min(LEAST_TEXT),
            Kind::Text | Kind::Number | Kind::Value => widths[index],
        };
        // Two blanks separate the columns.
        let total = |shown: &[usize]| (shown.iter().map(|index| least(*index) + 2).sum::<usize>()).saturating_sub(2);
        while layout.columns.is_empty() && total(&shown) > limit {
            let rank = |index: usize| self.columns[selected[index]].rank;
            let Some(last) = (0..shown.len()).filter(|at| rank(shown[*at]) > 0).max_by_key(|at| rank(shown[*at]))
            else {
                break;
            };
            shown.remove(last);
        }
        let prose = shown.iter().copied().find(|index| kind(*index) == Kind::Prose);
        let width = prose.map(|prose| {
            let others = total(&shown) - least(prose);
            limit.saturating_sub(others).max(LEAST_TEXT)
        });
        (shown, width)
    }
}

/// Borderless lines of a table, without trailing blanks.
pub(super) fn plain_lines(table: &TextTable) -> String {
    let text = table.to_string();
    let lines = text.lines().map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end());
    lines.map(|line| format!("{line}\n")).collect()
}

/// Pads numbers so that right alignment lines up their decimal points.
fn align_points(cells: &mut [String]) {
    let tail = |cell: &str| match cell.starts_with(|c: char| c.is_ascii_digit() || c == '-') && cell != "-" {
        true => cell.find(['.', 'e']).map_or(0, |point| cell.len() - point),
        false => 0,
    };
    let longest = cells.iter().map(|cell| tail(cell)).max().unwrap_or_default();
    for cell in cells {
        let padding = longest - tail(cell);
        if cell.parse::<f64>().is_ok() {
            cell.push_str(&" ".repeat(padding));
        }
    }
}

/// Maximum line width in `cells`, in characters.
fn widest(cells: &[String]) -> usize {
    cells.iter().flat_map(|cell| cell.lines()).map(|line| line.chars().count()).max().unwrap_or_default()
}

/// Wraps `text` to `width` characters, at blanks where possible.
pub(super) fn wrapped(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let mut rest: Vec<char> = word.chars().collect();
        if used > 0 && used + 1 + rest.len() > width {
            lines.push(String::new());
            used = 0;
        }
        while rest.len() > width {
            let part: String = rest.drain(..width).collect();
            if let Some(line) = lines.last_mut() {
                line.push_str(&part);
            }
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            line.extend(&rest);
            used += rest.len();
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests;
