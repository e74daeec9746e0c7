//! Plots of a group, as data for plotly.js.

use plotly::color::{Color, Rgb, Rgba};
use plotly::common::{DashType, Fill, HoverInfo, Line, Mode, Orientation, Title};
use plotly::layout::{Axis, AxisRange, AxisType, HoverMode, Legend, Margin};
use plotly::{Configuration, Layout, Plot, Scatter};
use tunesmith_benchmark::analysis::{Comparison, GroupComparison};

use super::{PALETTE, colour, escaped};

/// Best-so-far curves with bands; `None` without curves.
pub(super) fn curves(comparison: &Comparison, group: &GroupComparison) -> Option<String> {
    let mut plot = Plot::new();
    for curve in &group.curves {
        let x: Vec<usize> = curve.points.iter().map(|point| point.evaluations).collect();
        let edge = |y: Vec<f64>| {
            Scatter::new(x.clone(), y)
                .mode(Mode::Lines)
                .line(Line::new().width(0.0).color(solid(curve.optimizer)))
                .legend_group(curve.optimizer.to_string())
                .show_legend(false)
                .hover_info(HoverInfo::Skip)
        };
        plot.add_trace(edge(curve.points.iter().map(|point| point.low).collect()));
        let high = edge(curve.points.iter().map(|point| point.high).collect());
        plot.add_trace(high.fill(Fill::ToNextY).fill_color(faint(curve.optimizer)));
    }
    for curve in &group.curves {
        let x: Vec<usize> = curve.points.iter().map(|point| point.evaluations).collect();
        let y: Vec<f64> = curve.points.iter().map(|point| point.mean).collect();
        plot.add_trace(line(comparison, curve.optimizer, x, y, Mode::Lines));
    }
    plot.set_layout(layout(Axis::new().title(title("evaluations")), Axis::new().title(title("mean log10 gap"))));
    (!group.curves.is_empty()).then(|| json(plot))
}

/// Shares of reached targets, with the area under each curve in the legend; `None` without curves.
pub(super) fn targets(comparison: &Comparison, group: &GroupComparison) -> Option<String> {
    let mut plot = Plot::new();
    for curve in &group.target_curves {
        let (x, y): (Vec<f64>, Vec<f64>) = curve.points.iter().copied().unzip();
        let mut trace = line(comparison, curve.optimizer, x, y, Mode::Lines);
        if let Some(area) = curve.area {
            trace = trace.name(format!("{}, {area:.3}", escaped(&comparison.optimizers[curve.optimizer])));
        }
        plot.add_trace(trace);
    }
    let x_axis = Axis::new().title(title("evaluations / parameters")).type_(AxisType::Log);
    let y_axis = Axis::new().title(title("share of targets reached")).range(AxisRange::new(0.0, 1.0));
    plot.set_layout(layout(x_axis, y_axis));
    (!group.target_curves.is_empty()).then(|| json(plot))
}

/// Median suggestion times with their 90th percentile; `None` without times.
pub(super) fn suggestion_times(comparison: &Comparison, group: &GroupComparison) -> Option<String> {
    let mut plot = Plot::new();
    for optimizer in 0..comparison.optimizers.len() {
        let times = group.suggestion_times.iter().filter(|time| time.optimizer == optimizer);
        let (mut x, mut median, mut p90) = (Vec::new(), Vec::new(), Vec::new());
        for time in times {
            x.push(time.from);
            median.push(time.median_ms);
            p90.push(time.p90_ms);
        }
        if x.is_empty() {
            continue;
        }
        let upper = Scatter::new(x.clone(), p90)
            .mode(Mode::Lines)
            .name(format!("{}, p90", escaped(&comparison.optimizers[optimizer])))
            .line(Line::new().width(1.0).dash(DashType::Dot).color(solid(optimizer)))
            .legend_group(optimizer.to_string())
            .show_legend(false);
        plot.add_trace(line(comparison, optimizer, x, median, Mode::LinesMarkers));
        plot.add_trace(upper);
    }
    let x_axis = Axis::new().title(title("results before the suggestion, from"));
    let y_axis = Axis::new().title(title("milliseconds")).type_(AxisType::Log);
    plot.set_layout(layout(x_axis, y_axis));
    (!group.suggestion_times.is_empty()).then(|| json(plot))
}

fn line<X, Y>(comparison: &Comparison, optimizer: usize, x: Vec<X>, y: Vec<Y>, mode: Mode) -> Box<Scatter<X, Y>>
where
    X: serde::Serialize + Clone + 'static,
    Y: serde::Serialize + Clone + 'static,
{
    let line = Line::new().width(2.2).color(solid(optimizer));
    let line = if optimizer < PALETTE.len() { line } else { line.dash(DashType::Dash) };
    Scatter::new(x, y)
        .mode(mode)
        .name(escaped(&comparison.optimizers[optimizer]))
        .line(line)
        .legend_group(optimizer.to_string())
}

fn layout(x_axis: Axis, y_axis: Axis) -> Layout {
    let styled = |axis: Axis| {
        axis.grid_color("#e8ecf1").line_color("#9aa4b1").show_line(true).zero_line(false).auto_margin(true)
    };
    Layout::new()
        .x_axis(styled(x_axis))
        .y_axis(styled(y_axis))
        .hover_mode(HoverMode::XUnified)
        .margin(Margin::new().left(60).right(16).top(12).bottom(50))
        .legend(Legend::new().orientation(Orientation::Horizontal).y(-0.22))
        .paper_background_color("#ffffff")
        .plot_background_color("#ffffff")
}

fn title(text: &str) -> Title {
    Title::with_text(text)
}

fn solid(optimizer: usize) -> impl Color {
    let (red, green, blue) = colour(optimizer);
    Rgb::new(red, green, blue)
}

fn faint(optimizer: usize) -> impl Color {
    let (red, green, blue) = colour(optimizer);
    Rgba::new(red, green, blue, 0.15)
}

/// JSON that is safe inside a script element.
fn json(mut plot: Plot) -> String {
    plot.set_configuration(Configuration::new().responsive(true).display_logo(false));
    plot.to_json().replace('<', "\\u003c")
}
