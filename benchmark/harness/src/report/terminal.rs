//! Reports for the terminal: the overview and the last checkpoint of each group, without colours.

use comfy_table::{CellAlignment, Table as TextTable, presets};
use tunesmith_benchmark::analysis::{Change, Comparison};

use super::ReportMeta;
use super::format::finding;
use super::markdown::pairing;
use super::tables::{
    Table, Tone, change, checkpoint_title, extent, failures, overview, pairs, simulated_times, standings,
    suggestion_times, whole_suites,
};

/// A comparison for the terminal.
pub fn terminal(comparison: &Comparison, meta: &ReportMeta) -> String {
    let mut text = format!("{}\n{}\n\n", printable(&meta.title), printable(&extent(comparison)));
    section(&mut text, "overview", &overview(comparison));
    for group in &comparison.groups {
        let Some(checkpoint) = group.checkpoints.last() else { continue };
        section(&mut text, &checkpoint_title(group, checkpoint), &standings(comparison, checkpoint));
        if !checkpoint.pairs.is_empty() {
            table(&mut text, &pairs(comparison, checkpoint));
        }
    }
    for group in whole_suites(comparison) {
        if let Some(times) = suggestion_times(comparison, group) {
            section(&mut text, &format!("suggestion time, {}", group.suite), &times);
        }
        if let Some(times) = simulated_times(comparison, group) {
            section(&mut text, &format!("simulated time, {}", group.suite), &times);
        }
    }
    if let Some(failures) = failures(comparison) {
        section(&mut text, "failures", &failures);
    }
    for note in &meta.notes {
        text.push_str(&format!("{}\n", printable(note)));
    }
    text
}

/// Old and new records for the terminal.
pub fn change_terminal(found: &Change, meta: &ReportMeta) -> String {
    let mut text = format!("{}\n{}\n\n", printable(&meta.title), pairing(found));
    table(&mut text, &change(found));
    text.push_str(&format!("overall: {}\n", finding(found.overall)));
    text
}

fn section(text: &mut String, title: &str, found: &Table) {
    text.push_str(&format!("{}\n", printable(title)));
    table(text, found);
}

fn table(text: &mut String, found: &Table) {
    let mut shown = TextTable::new();
    shown.load_style(presets::UTF8_BORDERS_ONLY);
    shown.set_header(found.header.iter().map(|name| printable(name)));
    for cells in &found.rows {
        shown.add_row(cells.iter().map(|cell| match cell.tone {
            Tone::Best => format!("*{}", printable(&cell.text)),
            Tone::Plain | Tone::Better | Tone::Worse => printable(&cell.text),
        }));
    }
    for column in shown.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    text.push_str(&format!("{shown}\n{}\n\n", printable(&found.note)));
}

/// Text without control characters, which a terminal would obey.
fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}
