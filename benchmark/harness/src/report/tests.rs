use std::convert::Infallible;

use comfy_table::{CellAlignment, Table, presets};
use tunesmith_benchmark::analysis::compare_records;
use tunesmith_benchmark::record::ResultValue;

use super::synthetic_fixture::{comparison, meta, options, records};
use super::*;

/// The page without plotly.js.
fn own_part(page: &str) -> String {
    let library = tunesmith_plotly_js::text().unwrap();
    assert_eq!(page.matches(&library).count(), 1, "plotly.js is embedded once");
    page.replace(&library, "")
}

#[test]
fn the_page_is_whole_and_loads_nothing() {
    let page = html(&comparison(), &meta()).unwrap();
    if let Ok(path) = std::env::var("TUNESMITH_REPORT_PAGE") {
        std::fs::write(path, &page).unwrap();
    }
    let page = own_part(&page);
    for name in ["gp&lt;b&gt;&amp;", "tpe|fast", "random", "bbob, all dimensions", "bbob, 5 parameters"] {
        assert!(page.contains(name), "{name} is missing");
    }
    for loads in ["http://", "https://", "src=", "<link", "@import", "url("] {
        assert!(!page.contains(loads), "the page loads something by {loads}");
    }
    assert!(!page.contains("alert(1)</script>") && !page.contains("<b>&"));
    // Curves, targets and times for each of three groups.
    assert_eq!(page.matches("class=\"plot\"").count(), 9);
    assert_eq!(page.matches("<svg class=\"ranks\"").count(), 1);
    assert!(page.contains("tunesmith bench --suite bbob --dims 2,5"));
}

/// Data of a plot, and the names of its lines.
fn plot_data(page: &str, number: usize) -> (serde_json::Value, Vec<String>) {
    let element = format!("id=\"plot-{number}-data\">");
    let start = page.find(&element).unwrap() + element.len();
    let data = &page[start..start + page[start..].find("</script>").unwrap()];
    let plot: serde_json::Value = serde_json::from_str(data).unwrap();
    let traces = plot["data"].as_array().unwrap();
    let names = traces.iter().filter_map(|trace| trace["name"].as_str().map(str::to_owned)).collect();
    (plot, names)
}

#[test]
fn plot_data_is_json_with_every_optimizer() {
    let (plot, names) = plot_data(&own_part(&html(&comparison(), &meta()).unwrap()), 1);
    assert_eq!(names, ["gp&lt;b&gt;&amp;", "tpe|fast", "random"]);
    assert_eq!(plot["data"][0]["y"].as_array().unwrap().len(), 50);
}

#[test]
fn targets_are_drawn_over_evaluations_per_parameter_with_their_areas() {
    let comparison = comparison();
    let (plot, names) = plot_data(&own_part(&html(&comparison, &meta()).unwrap()), 2);
    assert_eq!(plot["layout"]["xaxis"]["title"]["text"], "evaluations / parameters");
    // From the first evaluation with 5 parameters to the last with 2.
    let x = plot["data"][0]["x"].as_array().unwrap();
    assert_eq!((x[0].as_f64(), x[x.len() - 1].as_f64()), (Some(0.2), Some(25.0)));
    let area = comparison.groups[0].target_curves[0].area.unwrap();
    assert_eq!(names[0], format!("gp&lt;b&gt;&amp;, {area:.3}"));
}

#[test]
fn markdown_holds_all_tables() {
    insta::assert_snapshot!(markdown(&comparison(), &meta()));
}

fn drawn(header: &[String], rows: Vec<Vec<String>>) -> Result<String, Infallible> {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header(header).add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    Ok(format!("{table}\n"))
}

#[test]
fn the_terminal_shows_the_end_of_each_group() {
    insta::assert_snapshot!(terminal(&comparison(), &meta(), &drawn).unwrap());
}

#[test]
fn change_report_has_its_decision() {
    let old = records();
    let mut new = old.clone();
    for result in new.iter_mut().flat_map(|record| &mut record.results) {
        if let Some(ResultValue::One(value)) = result {
            *value *= 2.0;
        }
    }
    let change = compare_records(&old, &new, &options()).unwrap();
    insta::assert_snapshot!(change_markdown(&change, &meta()));
    assert!(change_terminal(&change, &meta(), &drawn).unwrap().ends_with("overall: worse\n"));
}
