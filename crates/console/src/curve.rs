//! Learning curve of one metric as a small static drawing.

use std::fmt::Write;

use super::format::Number;
use tunesmith_domain::Measurement;

/// Size of the drawing without margins.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 150.0;

/// Number of points above which each column is reduced to its minimum and maximum.
const MOST_POINTS: usize = 1200;

pub(crate) struct Curve {
    pub(crate) metric: String,
    /// `points` attribute of a polyline.
    pub(crate) points: String,
    pub(crate) count: usize,
    pub(crate) low: Number,
    pub(crate) high: Number,
    pub(crate) first_step: i64,
    pub(crate) last_step: i64,
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
        let count = points.len();
        let by_step = last_step > first_step;
        let mut drawn = String::new();
        for (index, (step, value)) in reduced(points).into_iter() {
            let along = if by_step {
                (step as f64 - first_step as f64) / (last_step as f64 - first_step as f64)
            } else {
                index as f64 / (count - 1) as f64
            };
            let height = if high > low { (value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0) } else { 0.5 };
            // Writing to a string does not fail.
            let _ = write!(drawn, "{:.1},{:.1} ", along * WIDTH, (1.0 - height) * HEIGHT);
        }
        Some(Self {
            metric: metric.to_owned(),
            points: drawn,
            count,
            low: Number(low),
            high: Number(high),
            first_step,
            last_step,
        })
    }
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

    #[test]
    fn points_fill_the_drawing() {
        let drawn = curve(&[1.0, 3.0, f64::NAN, 2.0]).unwrap();
        assert_eq!(drawn.points, "0.0,150.0 186.7,0.0 560.0,75.0 ");
        assert_eq!((drawn.count, drawn.first_step, drawn.last_step), (3, 1, 4));
        assert_eq!((drawn.low, drawn.high), (Number(1.0), Number(3.0)));
        assert!(curve(&[1.0, f64::INFINITY]).is_none());
        assert_eq!(curve(&[2.0, 2.0]).unwrap().points, "0.0,75.0 560.0,75.0 ");
        assert!(curve(&[f64::MIN, f64::MAX]).unwrap().points.starts_with("0.0,150.0"));
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
