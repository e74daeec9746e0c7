use tunesmith_benchmark::analysis::{Checkpoint, Comparison, GroupComparison};

use super::super::ReportMeta;
use super::super::format::{count, group_title};
use super::super::tables::{
    Table, Tone, checkpoint_title, extent, failures, further_tables, method, overview, pairs, standings, whole_suites,
};
use super::diagram::diagram;
use super::{css_colour, escaped, plots};

const CSS: &str = include_str!("page.css");

/// Draws each plot when it scrolls into view; toggles optimizers in all plots.
const SCRIPT: &str = include_str!("page.js");

/// Renders a comparison as HTML.
///
/// # Errors
/// If the embedded plotly.js is damaged.
pub fn html(comparison: &Comparison, meta: &ReportMeta) -> std::io::Result<String> {
    let library = tunesmith_plotly_js::text()?;
    let mut page = Page::default();
    page.overview(comparison, meta);
    for group in &comparison.groups {
        page.group(comparison, group);
    }
    page.failures(comparison);
    page.method(comparison);
    page.environment(meta);
    let title = escaped(&meta.title);
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n<style>\n{CSS}</style>\n</head>\n<body>\n\
         <div class=\"layout\">\n<nav>\n<h2>Contents</h2>\n<ul>\n{}</ul>\n{}</nav>\n<main>\n{}</main>\n</div>\n<script>{library}</script>\n\
         <script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        page.contents,
        optimizers(comparison),
        page.body,
    ))
}

/// Checkboxes that toggle optimizers.
fn optimizers(comparison: &Comparison) -> String {
    let mut text = "<h2>Optimizers in plots</h2>\n".to_owned();
    for (index, name) in comparison.optimizers.iter().enumerate() {
        text.push_str(&format!(
            "<label><input type=\"checkbox\" checked data-optimizer=\"{index}\"><span class=\"swatch\" \
             style=\"background: {}\"></span>{}</label>\n",
            css_colour(index),
            escaped(name)
        ));
    }
    text
}

#[derive(Default)]
struct Page {
    contents: String,
    body: String,
    sections: usize,
    plots: usize,
}

impl Page {
    fn section(&mut self, title: &str, is_inner: bool) {
        self.sections += 1;
        let (title, id) = (escaped(title), self.sections);
        let class = if is_inner { " class=\"inner\"" } else { "" };
        self.contents.push_str(&format!("<li{class}><a href=\"#section-{id}\">{title}</a></li>\n"));
        self.body.push_str(&format!("<h2 id=\"section-{id}\">{title}</h2>\n"));
    }

    fn paragraph(&mut self, class: &str, text: &str) {
        self.body.push_str(&format!("<p class=\"{class}\">{}</p>\n", escaped(text)));
    }

    fn table(&mut self, table: &Table, is_text: bool) {
        let class = if is_text { " class=\"text\"" } else { "" };
        self.body.push_str(&format!("<div class=\"scroll\"><table{class}>\n<thead><tr>"));
        for name in &table.header {
            self.body.push_str(&format!("<th scope=\"col\">{}</th>", escaped(name)));
        }
        self.body.push_str("</tr></thead>\n<tbody>\n");
        for row in &table.rows {
            self.body.push_str("<tr>");
            for cell in row {
                let class = match cell.tone {
                    Tone::Plain => "",
                    Tone::Best => " class=\"best\"",
                    Tone::Better => " class=\"better\"",
                    Tone::Worse => " class=\"worse\"",
                };
                self.body.push_str(&format!("<td{class}>{}</td>", escaped(&cell.text)));
            }
            self.body.push_str("</tr>\n");
        }
        self.body.push_str("</tbody>\n</table></div>\n");
        self.paragraph("note", &table.note);
    }

    fn plot(&mut self, title: &str, explanation: &str, data: Option<String>) {
        let Some(data) = data else { return };
        self.plots += 1;
        let id = self.plots;
        self.body.push_str(&format!(
            "<figure><figcaption>{}<span>{}</span></figcaption>\n<div class=\"plot\" id=\"plot-{id}\"></div>\n<script \
             type=\"application/json\" id=\"plot-{id}-data\">{data}</script></figure>\n",
            escaped(title),
            escaped(explanation)
        ));
    }

    fn overview(&mut self, comparison: &Comparison, meta: &ReportMeta) {
        self.body.push_str(&format!("<h1>{}</h1>\n", escaped(&meta.title)));
        self.paragraph("lead", &extent(comparison));
        for note in &meta.notes {
            self.paragraph("", note);
        }
        self.section("Overview", false);
        self.table(&overview(comparison), false);
        for group in whole_suites(comparison) {
            if let Some(checkpoint) = group.checkpoints.last()
                && let Some(svg) = diagram(comparison, checkpoint)
            {
                let caption = escaped(&checkpoint_title(group, checkpoint));
                self.body.push_str(&format!(
                    "<figure><figcaption>{caption}<span>Mean ranks, best on the left; a bar joins optimizers that do \
                     not differ.</span></figcaption>\n{svg}</figure>\n"
                ));
            }
        }
    }

    fn group(&mut self, comparison: &Comparison, group: &GroupComparison) {
        let is_inner = !whole_suites(comparison).any(|whole| std::ptr::eq(whole, group));
        self.section(&group_title(group), is_inner);
        self.paragraph("lead", &format!("{}.", count(group.problems, "problem")));
        if let Some((last, before)) = group.checkpoints.split_last() {
            self.checkpoint(comparison, group, last);
            for checkpoint in before.iter().rev() {
                let title = escaped(&format!("After {}", count(checkpoint.evaluations, "evaluation")));
                self.body.push_str(&format!("<details><summary>{title}</summary>\n"));
                self.checkpoint(comparison, group, checkpoint);
                self.body.push_str("</details>\n");
            }
        }
        self.body.push_str("<div class=\"plots\">\n");
        let band =
            format!("Mean over problems; bands: {:.0}% bootstrap intervals over seeds.", 100.0 * comparison.confidence);
        self.plot("Best so far", &band, plots::curves(comparison, group));
        let explanation = "51 targets a problem, evenly spaced in the logarithm of the gap; beside the names the area \
                           under the curve, as far as all curves go.";
        self.plot("Targets reached", explanation, plots::targets(comparison, group));
        let explanation = "Wall time, median; dotted: 90th percentile.";
        self.plot("Suggestion time", explanation, plots::suggestion_times(comparison, group));
        self.body.push_str("</div>\n");
        for (title, found) in further_tables(comparison, group) {
            self.body.push_str(&format!("<details><summary>{title}, in numbers</summary>\n"));
            self.table(&found, false);
            self.body.push_str("</details>\n");
        }
    }

    fn checkpoint(&mut self, comparison: &Comparison, group: &GroupComparison, checkpoint: &Checkpoint) {
        self.body.push_str(&format!("<h3>{}</h3>\n", escaped(&checkpoint_title(group, checkpoint))));
        self.table(&standings(comparison, checkpoint), false);
        if !checkpoint.pairs.is_empty() {
            self.table(&pairs(comparison, checkpoint), false);
        }
    }

    fn failures(&mut self, comparison: &Comparison) {
        self.section("Failures", false);
        match failures(comparison) {
            Some(found) => self.table(&found, true),
            None => self.paragraph("", "None: every run spent its budget or its search space."),
        }
    }

    fn method(&mut self, comparison: &Comparison) {
        self.section("Method", false);
        for line in method(comparison) {
            self.paragraph("", &line);
        }
    }

    fn environment(&mut self, meta: &ReportMeta) {
        self.section("How to repeat it", false);
        if !meta.commands.is_empty() {
            self.body.push_str(&format!("<pre>{}</pre>\n", escaped(&meta.commands.join("\n"))));
        }
        for (title, entries) in [("Versions", &meta.versions), ("Machine", &meta.machine)] {
            if entries.is_empty() {
                continue;
            }
            self.body.push_str(&format!("<h3>{title}</h3>\n<div class=\"scroll\"><table class=\"text\"><tbody>\n"));
            for (name, value) in entries {
                self.body.push_str(&format!("<tr><td>{}</td><td>{}</td></tr>\n", escaped(name), escaped(value)));
            }
            self.body.push_str("</tbody></table></div>\n");
        }
    }
}
