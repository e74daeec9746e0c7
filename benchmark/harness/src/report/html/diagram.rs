//! Critical-difference diagram: mean ranks on a line, with bars over those that do not differ significantly.
//!
//! Source: Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 7, 2006, figure 1.

use tunesmith_benchmark::analysis::{Checkpoint, Comparison, Standing};

use super::super::format::two;
use super::{css_colour, escaped};

const WIDTH: f64 = 760.0;
/// Margin on both sides of the axis, for the names.
const SIDE: f64 = 210.0;
/// Axis position from the top.
const AXIS: f64 = 58.0;
/// Distance between bars, and between names.
const BAR: f64 = 9.0;
const LINE: f64 = 22.0;

/// Renders an SVG element; `None` without a ranking.
pub(super) fn diagram(comparison: &Comparison, checkpoint: &Checkpoint) -> Option<String> {
    let ranking = checkpoint.ranking.as_ref()?;
    let standings = &checkpoint.standings;
    let last = standings.len() as f64;
    let x = |rank: f64| SIDE + (rank - 1.0) / (last - 1.0) * (WIDTH - 2.0 * SIDE);
    let names_from = AXIS + 14.0 + BAR * ranking.cliques.len() as f64;
    let half = standings.len().div_ceil(2);
    let height = names_from + LINE * half as f64 + 14.0;

    let mut svg = format!(
        "<svg class=\"ranks\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"mean ranks\" \
         font-family=\"inherit\" font-size=\"13\">\n"
    );
    line(&mut svg, (x(1.0), AXIS), (x(last), AXIS), "#1c2430", 1.5);
    for rank in 1..=standings.len() {
        let at = x(rank as f64);
        line(&mut svg, (at, AXIS - 6.0), (at, AXIS), "#1c2430", 1.5);
        text(&mut svg, (at, AXIS - 11.0), "middle", "#5b6675", &rank.to_string());
    }
    // Clip to the length of the axis.
    let difference = ranking.critical_difference.min(last - 1.0);
    let (from, to) = (x(1.0), x(1.0 + difference));
    line(&mut svg, (from, 16.0), (to, 16.0), "#1c2430", 1.5);
    for end in [from, to] {
        line(&mut svg, (end, 12.0), (end, 20.0), "#1c2430", 1.5);
    }
    let label = format!("critical difference {}", two(ranking.critical_difference));
    text(&mut svg, (to + 8.0, 20.0), "start", "#5b6675", &label);

    for (index, clique) in ranking.cliques.iter().enumerate() {
        let ranks = standings.iter().filter(|standing| clique.contains(&standing.optimizer));
        let ranks: Vec<f64> = ranks.map(|standing| standing.mean_rank).collect();
        let least = ranks.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = ranks.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let height = AXIS + 9.0 + BAR * index as f64;
        line(&mut svg, (x(least) - 4.0, height), (x(greatest) + 4.0, height), "#1c2430", 4.0);
    }
    for (index, standing) in standings.iter().enumerate() {
        // The better half on the left, best on top; the others on the right, worst on top: their lines do not cross.
        let is_left = index < half;
        let row = if is_left { index } else { standings.len() - 1 - index };
        let height = names_from + LINE * row as f64 + 10.0;
        name(&mut svg, comparison, standing, x(standing.mean_rank), height, is_left);
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

fn name(svg: &mut String, comparison: &Comparison, standing: &Standing, x: f64, y: f64, is_left: bool) {
    let colour = css_colour(standing.optimizer);
    let (end, anchor, at) =
        if is_left { (SIDE - 14.0, "end", SIDE - 18.0) } else { (WIDTH - SIDE + 14.0, "start", WIDTH - SIDE + 18.0) };
    svg.push_str(&format!(
        "<polyline points=\"{x:.1},{AXIS} {x:.1},{y:.1} {end:.1},{y:.1}\" fill=\"none\" stroke=\"{colour}\" \
         stroke-width=\"1.6\"/>\n"
    ));
    let label = format!("{} ({})", shortened(&comparison.optimizers[standing.optimizer]), two(standing.mean_rank));
    text(svg, (at, y + 4.0), anchor, "#1c2430", &label);
}

/// Shortens a name to the available letters.
fn shortened(name: &str) -> String {
    const MOST: usize = 22;
    if name.chars().count() <= MOST {
        return name.to_owned();
    }
    name.chars().take(MOST - 1).chain(['…']).collect()
}

fn line(svg: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str, width: f64) {
    svg.push_str(&format!(
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>\n"
    ));
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, colour: &str, content: &str) {
    svg.push_str(&format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{}</text>\n",
        escaped(content)
    ));
}
