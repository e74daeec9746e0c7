//! Sparkline: a small line without axes, for a table.

use std::fmt::{self, Write};

use askama::filters::HtmlSafe;

use super::format::Escaped;

/// Size of the drawing, and its margin for the end point.
const WIDTH: f64 = 96.0;
const HEIGHT: f64 = 24.0;
const MARGIN: f64 = 3.0;

/// Number of drawn points; longer lines are thinned.
const MOST_POINTS: usize = 96;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sparkline {
    /// `d` attribute of the path.
    path: String,
    end: (f64, f64),
    label: String,
}

impl Sparkline {
    /// Line through `values`; `None` with fewer than two finite ones.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>, label: impl Into<String>) -> Option<Self> {
        Self::drawn(values, label, |path, x, y| write!(path, "L{x:.1} {y:.1}"))
    }

    /// Like [`Self::of`], with horizontal and vertical parts: a value holds until the next one.
    pub(crate) fn stepped(values: impl IntoIterator<Item = f64>, label: impl Into<String>) -> Option<Self> {
        Self::drawn(values, label, |path, x, y| write!(path, "H{x:.1}V{y:.1}"))
    }

    fn drawn(
        values: impl IntoIterator<Item = f64>,
        label: impl Into<String>,
        line: impl Fn(&mut String, f64, f64) -> fmt::Result,
    ) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        let [first, .., last] = values[..] else { return None };
        let low = values.iter().copied().fold(first, f64::min);
        let high = values.iter().copied().fold(first, f64::max);
        // Halved, since the difference of extreme values overflows.
        let height = |value: f64| if high > low { (value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0) } else { 0.5 };
        let y = |value: f64| MARGIN + (1.0 - height(value)) * (HEIGHT - 2.0 * MARGIN);
        let x = |index: usize| MARGIN + index as f64 / (values.len() - 1) as f64 * (WIDTH - 2.0 * MARGIN);
        let mut path = format!("M{:.1} {:.1}", x(0), y(first));
        let step = values.len().div_ceil(MOST_POINTS);
        let thinned = (1..values.len() - 1).filter(|index| index % step == 0);
        for index in thinned.chain([values.len() - 1]) {
            // Writing to a string does not fail.
            let _ = line(&mut path, x(index), y(values[index]));
        }
        Some(Self { path, end: (x(values.len() - 1), y(last)), label: label.into() })
    }
}

impl HtmlSafe for Sparkline {}

impl fmt::Display for Sparkline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, end: (x, y), label } = self;
        write!(
            f,
            r#"<svg class="spark" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{}"><path d="{path}"/><circle cx="{x:.1}" cy="{y:.1}" r="2.2"/></svg>"#,
            Escaped(label)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_fills_the_drawing_and_ends_in_a_point() {
        let line = Sparkline::stepped([3.0, f64::NAN, 1.0, 2.0], "a \"b\"").unwrap();
        assert_eq!(line.path, "M3.0 3.0H48.0V21.0H93.0V12.0");
        let drawn = line.to_string();
        assert!(drawn.contains("aria-label=\"a &quot;b&quot;\""), "{drawn}");
        assert!(drawn.contains("<circle cx=\"93.0\" cy=\"12.0\" r=\"2.2\"/>"), "{drawn}");
        assert_eq!(Sparkline::of([2.0, 2.0], "").unwrap().path, "M3.0 12.0L93.0 12.0");
        assert_eq!(Sparkline::of([f64::MIN, f64::MAX], "").unwrap().path, "M3.0 21.0L93.0 3.0");
        assert_eq!(Sparkline::of([1.0, f64::INFINITY], ""), None);
    }

    #[test]
    fn long_line_is_thinned_and_keeps_its_ends() {
        let line = Sparkline::of((0..10_000).map(f64::from), "").unwrap();
        assert!(line.path.matches('L').count() <= MOST_POINTS, "{}", line.path);
        assert!(line.path.starts_with("M3.0 21.0L") && line.path.ends_with("L93.0 3.0"), "{}", line.path);
    }
}
