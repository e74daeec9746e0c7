//! Compares the BBOB functions with values of COCO's implementation, which `benches/reference/bbob.py` recorded.
//!
//! The relative tolerance is 1e-9. Values close to 0 are differences of larger numbers, so below 0.01, the granularity
//! of the optima, the absolute tolerance is 1e-11.
#![expect(clippy::unwrap_used, reason = "clippy exempts test functions only, not their helpers")]

use tunesmith_benchmark::problems::bbob::{bbob, bbob_mixint};

const TOLERANCE: f64 = 1e-9;
const LEAST_SIZE: f64 = 0.01;

#[test]
fn bbob_values_equal_those_of_coco() {
    let points = Points::parse(include_str!("data/bbob_points.csv"));
    let rows = parse_rows(include_str!("data/bbob_reference.csv"));
    assert_eq!(rows.len(), 24 * 6 * 8);
    let mut greatest = Deviation::default();
    for row in &rows {
        let problem = bbob(row.function, row.dimensions, row.instance).unwrap();
        greatest.record_row(row, &points, problem.optimum(), problem.minimizer(), |point| problem.value(point));
    }
    println!("greatest of {} deviations: {}", greatest.count, greatest.of);
    greatest.check();
}

#[test]
fn bbob_mixint_values_equal_those_of_coco() {
    let points = Points::parse(include_str!("data/bbob_mixint_points.csv"));
    let rows = parse_rows(include_str!("data/bbob_mixint_reference.csv"));
    assert_eq!(rows.len(), 24 * 4 * 7);
    let mut greatest = Deviation::default();
    for row in &rows {
        let problem = bbob_mixint(row.function, row.dimensions, row.instance).unwrap();
        greatest.record_row(row, &points, problem.optimum(), problem.minimizer(), |point| problem.value(point));
    }
    println!("greatest of {} deviations: {}", greatest.count, greatest.of);
    greatest.check();
}

/// The points of a table, with their numbers of dimensions.
struct Points(Vec<(usize, Origin, Vec<f64>)>);

enum Origin {
    Zero,
    Optimum,
}

impl Points {
    fn parse(table: &str) -> Self {
        let mut lines = table.lines();
        assert_eq!(lines.next(), Some("dimensions,point,origin,coordinates"));
        let points = lines.map(|line| {
            let [dimensions, _, origin, coordinates] = line.split(',').collect::<Vec<_>>()[..] else {
                panic!("four columns: {line}")
            };
            let origin = match origin {
                "zero" => Origin::Zero,
                "optimum" => Origin::Optimum,
                other => panic!("origin {other}"),
            };
            let coordinates: Vec<f64> = coordinates.split(' ').map(|word| word.parse().unwrap()).collect();
            let dimensions: usize = dimensions.parse().unwrap();
            assert_eq!(coordinates.len(), dimensions);
            (dimensions, origin, coordinates)
        });
        Self(points.collect())
    }

    fn of(&self, dimensions: usize, minimizer: &[f64]) -> Vec<Vec<f64>> {
        let points = self.0.iter().filter(|(size, ..)| *size == dimensions);
        points
            .map(|(_, origin, coordinates)| match origin {
                Origin::Zero => coordinates.clone(),
                Origin::Optimum => minimizer.iter().zip(coordinates).map(|(a, b)| a + b).collect(),
            })
            .collect()
    }
}

/// A row of a table.
#[derive(Debug)]
struct Row {
    function: u8,
    dimensions: usize,
    instance: u64,
    best_value: f64,
    values: Vec<f64>,
}

fn parse_rows(table: &str) -> Vec<Row> {
    let mut lines = table.lines();
    let columns = lines.next().unwrap().split(',').count();
    let rows = lines.map(|line| {
        let words: Vec<&str> = line.split(',').collect();
        assert_eq!(words.len(), columns, "{line}");
        Row {
            function: words[0].parse().unwrap(),
            dimensions: words[1].parse().unwrap(),
            instance: words[2].parse().unwrap(),
            best_value: words[3].parse().unwrap(),
            values: words[4..].iter().map(|word| word.parse().unwrap()).collect(),
        }
    });
    rows.collect()
}

/// The largest deviation and the list of those above the tolerance.
#[derive(Default)]
struct Deviation {
    greatest: f64,
    of: String,
    failures: Vec<String>,
    count: usize,
}

impl Deviation {
    /// Compares a problem with its row: its best value, and its values at the minimizer and all points.
    fn record_row(
        &mut self,
        row: &Row,
        points: &Points,
        optimum: f64,
        minimizer: &[f64],
        value: impl Fn(&[f64]) -> f64,
    ) {
        self.record(row, "best value", optimum, row.best_value);
        self.record(row, "value at the minimizer", value(minimizer), row.best_value);
        let points = points.of(row.dimensions, minimizer);
        assert_eq!(points.len(), row.values.len());
        for (point, expected) in points.iter().zip(&row.values) {
            self.record(row, "value", value(point), *expected);
        }
    }

    fn record(&mut self, row: &Row, what: &str, value: f64, expected: f64) {
        let deviation = (value - expected).abs() / expected.abs().max(LEAST_SIZE);
        let Row { function, dimensions, instance, .. } = row;
        let text =
            format!("{what} of f{function} d{dimensions} i{instance}: {value:?} for {expected:?}, {deviation:e}");
        self.count += 1;
        if deviation.is_nan() || deviation > TOLERANCE {
            self.failures.push(text.clone());
        }
        if deviation > self.greatest {
            (self.greatest, self.of) = (deviation, text);
        }
    }

    fn check(&self) {
        let shown = &self.failures[..self.failures.len().min(20)];
        assert!(shown.is_empty(), "{} values deviate:\n{}", self.failures.len(), shown.join("\n"));
    }
}
