//! Reports in GitHub flavoured Markdown.

use tunesmith_benchmark::analysis::{Change, Comparison};

use super::ReportMeta;
use super::format::{count, finding, group_title};
use super::tables::{
    Table, Tone, change, checkpoint_title, extent, failures, further_tables, method, overview, pairs, standings,
};

pub fn markdown(comparison: &Comparison, meta: &ReportMeta) -> String {
    let mut text = format!("# {}\n\n{}\n", escaped(&meta.title), escaped(&extent(comparison)));
    for note in &meta.notes {
        text.push_str(&format!("\n{}\n", escaped(note)));
    }
    section(&mut text, "Overview", &overview(comparison));
    for group in &comparison.groups {
        text.push_str(&format!("\n## {}\n\n{}.\n", escaped(&group_title(group)), count(group.problems, "problem")));
        for checkpoint in &group.checkpoints {
            text.push_str(&format!("\n### {}\n\n", escaped(&checkpoint_title(group, checkpoint))));
            table(&mut text, &standings(comparison, checkpoint));
            if !checkpoint.pairs.is_empty() {
                text.push('\n');
                table(&mut text, &pairs(comparison, checkpoint));
            }
        }
        for (title, found) in further_tables(comparison, group) {
            text.push_str(&format!("\n### {title}: {}\n\n", escaped(&group_title(group))));
            table(&mut text, &found);
        }
    }
    if let Some(failures) = failures(comparison) {
        section(&mut text, "Failures", &failures);
    }
    text.push_str("\n## Method\n\n");
    for line in method(comparison) {
        text.push_str(&format!("- {}\n", escaped(&line)));
    }
    environment(&mut text, meta);
    text
}

/// Renders a comparison of old and new records.
pub fn change_markdown(found: &Change, meta: &ReportMeta) -> String {
    let mut text =
        format!("# {}\n\n**Overall: {}.** {}\n\n", escaped(&meta.title), finding(found.overall), pairing(found));
    table(&mut text, &change(found));
    for note in &meta.notes {
        text.push_str(&format!("\n{}\n", escaped(note)));
    }
    environment(&mut text, meta);
    text
}

/// Number of compared runs, and the runs left out.
pub(super) fn pairing(found: &Change) -> String {
    let mut text = format!("{} of runs.", count(found.pairs, "pair"));
    if found.only_old + found.only_new > 0 {
        text.push_str(&format!(
            " Without a counterpart: {} old, {} new.",
            count(found.only_old, "run"),
            count(found.only_new, "run")
        ));
    }
    if found.failed_old + found.failed_new > 0 {
        text.push_str(&format!(
            " Failed: {} old, {} new.",
            count(found.failed_old, "run"),
            count(found.failed_new, "run")
        ));
    }
    text
}

fn section(text: &mut String, title: &str, found: &Table) {
    text.push_str(&format!("\n## {title}\n\n"));
    table(text, found);
}

fn table(text: &mut String, found: &Table) {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    text.push_str(&row(found.header.iter().map(|name| escaped(name)).collect()));
    let rules = (0..found.header.len()).map(|column| if column == 0 { "---" } else { "---:" }.to_owned());
    text.push_str(&row(rules.collect()));
    for cells in &found.rows {
        let cell = |cell: &super::tables::Cell| match cell.tone {
            Tone::Plain => escaped(&cell.text),
            Tone::Best | Tone::Better | Tone::Worse => format!("**{}**", escaped(&cell.text)),
        };
        text.push_str(&row(cells.iter().map(cell).collect()));
    }
    text.push_str(&format!("\n{}\n", escaped(&found.note)));
}

fn environment(text: &mut String, meta: &ReportMeta) {
    if !meta.commands.is_empty() {
        // The fence must be longer than any in the commands.
        let longest = meta.commands.iter().map(|command| longest_run(command, '`')).max().unwrap_or(0);
        let fence = "`".repeat(3.max(longest + 1));
        text.push_str(&format!("\n## Commands\n\n{fence}sh\n{}\n{fence}\n", meta.commands.join("\n")));
    }
    for (title, entries) in [("Versions", &meta.versions), ("Machine", &meta.machine)] {
        if !entries.is_empty() {
            text.push_str(&format!("\n## {title}\n\n| name | value |\n| --- | --- |\n"));
            for (name, value) in entries {
                text.push_str(&format!("| {} | {} |\n", escaped(name), escaped(value)));
            }
        }
    }
}

fn longest_run(text: &str, wanted: char) -> usize {
    text.split(|letter| letter != wanted).map(|run| run.chars().count()).max().unwrap_or(0)
}

/// Escapes markup and joins lines.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' => safe.extend(['\\', letter]),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '\n' | '\r' => safe.push(' '),
            letter => safe.push(letter),
        }
    }
    safe
}
