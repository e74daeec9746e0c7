//! Reports for the terminal: the overview and the last checkpoint of each group, without colours. The caller draws the
//! tables, since it knows the terminal's width.

use tunesmith_benchmark::analysis::{Change, Comparison};

use super::ReportMeta;
use super::format::finding;
use super::markdown::pairing;
use super::tables::{
    Cell, Table, Tone, change, checkpoint_title, extent, failures, further_tables, overview, pairs, standings,
    whole_suites,
};

/// Draws a table from column names and rows; the first cell of a row is its name. The text ends with a line break.
pub type Draw<'a, E> = &'a dyn Fn(&[String], Vec<Vec<String>>) -> Result<String, E>;

/// Renders a comparison.
///
/// # Errors
/// Those of `draw`.
pub fn terminal<E>(comparison: &Comparison, meta: &ReportMeta, draw: Draw<'_, E>) -> Result<String, E> {
    let mut text = format!("{}\n{}\n\n", printable(&meta.title), printable(&extent(comparison)));
    section(&mut text, "overview", &overview(comparison), draw)?;
    for group in &comparison.groups {
        let Some(checkpoint) = group.checkpoints.last() else { continue };
        section(&mut text, &checkpoint_title(group, checkpoint), &standings(comparison, checkpoint), draw)?;
        if !checkpoint.pairs.is_empty() {
            table(&mut text, &pairs(comparison, checkpoint), draw)?;
        }
    }
    for group in whole_suites(comparison) {
        for (title, found) in further_tables(comparison, group) {
            section(&mut text, &format!("{}, {}", title.to_lowercase(), group.suite), &found, draw)?;
        }
    }
    if let Some(failures) = failures(comparison) {
        section(&mut text, "failures", &failures, draw)?;
    }
    for note in &meta.notes {
        text.push_str(&format!("{}\n", printable(note)));
    }
    Ok(text)
}

/// Renders a comparison of old and new records.
///
/// # Errors
/// Those of `draw`.
pub fn change_terminal<E>(found: &Change, meta: &ReportMeta, draw: Draw<'_, E>) -> Result<String, E> {
    let mut text = format!("{}\n{}\n\n", printable(&meta.title), pairing(found));
    table(&mut text, &change(found), draw)?;
    text.push_str(&format!("overall: {}\n", finding(found.overall)));
    Ok(text)
}

fn section<E>(text: &mut String, title: &str, found: &Table, draw: Draw<'_, E>) -> Result<(), E> {
    text.push_str(&format!("{}\n", printable(title)));
    table(text, found, draw)
}

fn table<E>(text: &mut String, found: &Table, draw: Draw<'_, E>) -> Result<(), E> {
    let header: Vec<String> = found.header.iter().map(|name| printable(name)).collect();
    let shown = |cell: &Cell| match cell.tone {
        Tone::Best => format!("*{}", printable(&cell.text)),
        Tone::Plain | Tone::Better | Tone::Worse => printable(&cell.text),
    };
    let rows = found.rows.iter().map(|cells| cells.iter().map(shown).collect()).collect();
    text.push_str(&format!("{}{}\n\n", draw(&header, rows)?, printable(&found.note)));
    Ok(())
}

/// Removes control characters, which a terminal would interpret.
fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}
