//! Learning curve of one metric as a static drawing with axes. A script shows the values under the pointer.

use std::fmt::Write;

use super::format::{Number, count};
use tunesmith_algorithms::rounded::Rounded;
use tunesmith_domain::Measurement;

/// Size of the drawing without labels. Its width follows the page, its height is in pixels.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 150.0;

/// Number of points above which each column is reduced to its minimum and maximum.
const MOST_POINTS: usize = 1200;

/// Maximum number of intervals between ticks.
const MOST_INTERVALS: f64 = 4.0;

pub(crate) struct Curve {
    pub(crate) metric: String,
    /// `points` attribute of a polyline.
    pub(crate) points: String,
    /// Steps and values of the points, for the script.
    pub(crate) steps: String,
    pub(crate) values: String,
    pub(crate) count: usize,
    pub(crate) low: Number,
    pub(crate) high: Number,
    /// Labels along the horizontal axis, with their places in percent of the width.
    pub(crate) step_ticks: Vec<(String, f64)>,
    /// Labels along the vertical axis, with their places in pixels from the top.
    pub(crate) value_ticks: Vec<(String, f64)>,
}

impl Curve {
    /// Curve of `metric`; `None` with fewer than two finite values.
    pub(crate) fn of(metric: &str, measurements: &[Measurement]) -> Option<Self> {
        let value = |measurement: &Measurement| measurement.value(metric).filter(|value| value.is_finite());
        let mut points: Vec<(i64, f64)> =
            measurements.iter().filter_map(|measurement| Some((measurement.step, value(measurement)?))).collect();
        if points.len() < 2 {
            return None;
        }
        points.sort_by_key(|(step, _)| *step);
        let (first_step, last_step) = (points[0].0, points[points.len() - 1].0);
        let low = points.iter().map(|(_, value)| *value).fold(f64::INFINITY, f64::min);
        let high = points.iter().map(|(_, value)| *value).fold(f64::NEG_INFINITY, f64::max);
        let total = points.len();
        let by_step = last_step > first_step;
        let along = |step: f64| (step - first_step as f64) / (last_step as f64 - first_step as f64);
        // Halved, since the difference of extreme values overflows.
        let height = |value: f64| if high > low { (value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0) } else { 0.5 };
        let down = |value: f64| (1.0 - height(value)) * HEIGHT;
        let [mut drawn, mut steps, mut values] = [const { String::new() }; 3];
        for (index, (step, value)) in reduced(points) {
            let share = if by_step { along(step as f64) } else { index as f64 / (total - 1) as f64 };
            // Writing to a string does not fail.
            let _ = write!(drawn, "{:.1},{:.1} ", share * WIDTH, down(value));
            let _ = write!(steps, "{step} ");
            let _ = write!(values, "{value} ");
        }
        let step_ticks = match by_step {
            true => ticks(first_step as f64, last_step as f64, 1.0),
            false => vec![first_step as f64],
        };
        let place = |step: f64| if by_step { 100.0 * along(step) } else { 50.0 };
        Some(Self {
            metric: metric.to_owned(),
            points: drawn,
            steps,
            values,
            count: total,
            low: Number(low),
            high: Number(high),
            step_ticks: step_ticks.into_iter().map(|step| (step_text(step), place(step))).collect(),
            value_ticks: ticks(low, high, 0.0)
                .into_iter()
                .map(|value| (Rounded(value).to_string(), down(value)))
                .collect(),
        })
    }
}

fn step_text(step: f64) -> String {
    let size = count(step.abs() as u64);
    if step < 0.0 { format!("-{size}") } else { size }
}

/// Round numbers from `low` to `high`, at least `least` apart; `low` alone if there is nothing between.
fn ticks(low: f64, high: f64, least: f64) -> Vec<f64> {
    let span = high - low;
    if !(span > 0.0 && span.is_finite()) {
        return vec![low];
    }
    let wanted = (span / MOST_INTERVALS).max(least);
    let power = 10_f64.powf(wanted.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| power * factor >= wanted).unwrap_or(10.0);
    let step = power * factor;
    // An end that is a tick but for rounding is one.
    let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
    let numbers =
        (0..=MOST_INTERVALS as u32).map(|index| first + f64::from(index)).take_while(|number| *number <= last);
    let mut ticks: Vec<f64> = numbers.map(|number| (number * step).clamp(low, high)).collect();
    // The numbers of a span far from zero may be too close for the step.
    ticks.dedup();
    if ticks.is_empty() { vec![low] } else { ticks }
}

/// Indexed `points`, reduced to the minimum and maximum per column if there are many.
fn reduced(points: Vec<(i64, f64)>) -> Vec<(usize, (i64, f64))> {
    let indexed: Vec<(usize, (i64, f64))> = points.into_iter().enumerate().collect();
    if indexed.len() <= MOST_POINTS {
        return indexed;
    }
    let mut kept = Vec::new();
    for column in indexed.chunks(indexed.len().div_ceil(MOST_POINTS / 2)) {
        let by_value = |a: &&(usize, (i64, f64)), b: &&(usize, (i64, f64))| a.1.1.total_cmp(&b.1.1);
        let (low, high) = (column.iter().min_by(by_value), column.iter().max_by(by_value));
        let mut both: Vec<_> = low.into_iter().chain(high).copied().collect();
        both.sort_by_key(|(index, _)| *index);
        both.dedup_by_key(|(index, _)| *index);
        kept.extend(both);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use tunesmith_domain::{MetricValue, ReportKey};

    fn curve(values: &[f64]) -> Option<Curve> {
        let measurement = |(index, value): (usize, &f64)| Measurement {
            step: index as i64 + 1,
            wall_time_secs: 0.0,
            elapsed_secs: None,
            key: ReportKey::Http,
            metrics: vec![MetricValue { metric: "m".to_owned(), value: *value }],
        };
        let measurements: Vec<Measurement> = values.iter().enumerate().map(measurement).collect();
        Curve::of("m", &measurements)
    }

    fn labels(ticks: &[(String, f64)]) -> Vec<&str> {
        ticks.iter().map(|(label, _)| label.as_str()).collect()
    }

    #[test]
    fn points_fill_the_drawing_and_have_axes() {
        let drawn = curve(&[1.0, 3.0, f64::NAN, 2.0]).unwrap();
        assert_eq!(drawn.points, "0.0,150.0 186.7,0.0 560.0,75.0 ");
        assert_eq!((drawn.steps.as_str(), drawn.values.as_str()), ("1 2 4 ", "1 3 2 "));
        assert_eq!(drawn.count, 3);
        assert_eq!((drawn.low, drawn.high), (Number(1.0), Number(3.0)));
        assert_eq!(labels(&drawn.step_ticks), ["1", "2", "3", "4"]);
        assert_eq!(labels(&drawn.value_ticks), ["1", "1.5", "2", "2.5", "3"]);
        assert_eq!((drawn.step_ticks[3].1, drawn.value_ticks[0].1, drawn.value_ticks[4].1), (100.0, 150.0, 0.0));
        assert!(curve(&[1.0, f64::INFINITY]).is_none());
        let flat = curve(&[2.0, 2.0]).unwrap();
        assert_eq!((flat.points.as_str(), labels(&flat.value_ticks)), ("0.0,75.0 560.0,75.0 ", vec!["2"]));
        assert!(curve(&[f64::MIN, f64::MAX]).unwrap().points.starts_with("0.0,150.0"));
    }

    #[test]
    fn ticks_are_round_and_within_the_range() {
        assert_eq!(ticks(0.18, 0.93, 0.0), [0.2, 0.4, 0.6000000000000001, 0.8]);
        assert_eq!(ticks(0.1, 0.3, 0.0), [0.1, 0.15000000000000002, 0.2, 0.25, 0.3]);
        assert_eq!(ticks(1.0, 20_000.0, 1.0), [5000.0, 10_000.0, 15_000.0, 20_000.0]);
        assert_eq!(ticks(-3.0, 3.0, 1.0), [-2.0, 0.0, 2.0]);
        assert_eq!(ticks(1e15, 1e15 + 2.0, 0.0).len(), 5);
        for (low, high) in [(1.0, 1.0), (f64::MIN, f64::MAX), (1e300, 1e300 * (1.0 + f64::EPSILON))] {
            let found = ticks(low, high, 0.0);
            assert!(
                !found.is_empty() && found.iter().all(|tick| (low..=high).contains(tick)),
                "{low} {high} {found:?}"
            );
        }
        assert_eq!(step_text(-1500.0), "-1,500");
    }

    #[test]
    fn long_curve_keeps_its_extremes() {
        let mut values = vec![0.0; 100_000];
        values[77_777] = 9.0;
        let drawn = curve(&values).unwrap();
        assert!(drawn.points.split(' ').count() <= MOST_POINTS + 2);
        assert!(drawn.points.contains(",0.0 "), "the highest value is drawn");
    }
}
