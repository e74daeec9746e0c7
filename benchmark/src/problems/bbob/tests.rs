use tunesmith_algorithms::problem::{ParameterValue, ParameterValues, TrialId};

use super::*;
use crate::problem::EvaluationOutcome;

const DRAW: Draw = Draw { seed: 1, trial: TrialId::FIRST };

/// Points of the box, from COCO's generator.
fn random_points(dimensions: usize, count: usize) -> Vec<Vec<f64>> {
    let numbers = random::uniform(dimensions * count, 12345);
    numbers.chunks(dimensions).map(|chunk| chunk.iter().map(|number| 10.0 * number - 5.0).collect()).collect()
}

#[test]
fn the_minimizer_has_the_optimum_and_no_point_is_below_it() {
    for function in 1..=FUNCTIONS {
        for dimensions in [2, 5, 10] {
            for instance in [1, 2, 33] {
                let problem = bbob(function, dimensions, instance).unwrap();
                assert!(problem.minimizer().iter().all(|coordinate| coordinate.abs() <= 5.0));
                let at_minimizer = problem.value(problem.minimizer());
                let difference = (at_minimizer - problem.optimum()).abs();
                assert!(difference <= 1e-11, "f{function} d{dimensions} i{instance}: {difference:e}");
                for point in random_points(dimensions, 100) {
                    let value = problem.value(&point);
                    assert!(value > problem.optimum(), "f{function} d{dimensions} i{instance}: {value}");
                }
            }
        }
    }
}

#[test]
fn mixed_integer_functions_keep_the_optimum() {
    for function in 1..=FUNCTIONS {
        for dimensions in [5, 10] {
            for instance in [1, 2, 33] {
                let problem = bbob_mixint(function, dimensions, instance).unwrap();
                let continuous = bbob(function, dimensions, instance).unwrap();
                let at_minimizer = problem.value(problem.minimizer());
                let difference = (at_minimizer - problem.optimum()).abs();
                assert!(difference <= 1e-10, "f{function} d{dimensions} i{instance}: {difference:e}");
                let integers = 4 * dimensions / 5;
                assert_eq!(problem.minimizer()[integers..], continuous.minimizer()[integers..]);
                assert!(problem.minimizer()[..integers].iter().all(|value| value.fract() == 0.0));
                let parameters = problem.statement().search_space().parameters();
                for (parameter, value) in parameters.iter().zip(&problem.minimizer()[..integers]) {
                    assert!(parameter.contains(&ParameterValue::Integer(*value as i64)), "f{function}: {value}");
                }
                for point in random_points(dimensions, 100) {
                    let scaled: Vec<f64> = point.iter().map(|coordinate| 2.0 * coordinate + 7.0).collect();
                    let value = problem.value(&[&scaled[..integers], &point[integers..]].concat());
                    assert!(value > problem.optimum(), "f{function} d{dimensions} i{instance}: {value}");
                }
            }
        }
    }
}

#[test]
fn the_space_of_bbob_is_a_box() {
    let problem = bbob(24, 10, 3).unwrap();
    assert_eq!(problem.name(), "f24/d10");
    assert_eq!(problem.quality(), &Quality::Value { best_known: Some(13.64) });
    let parameters = problem.statement().search_space().parameters();
    let names: Vec<&str> = parameters.iter().map(ParameterSpec::name).collect();
    assert_eq!(names, ["x01", "x02", "x03", "x04", "x05", "x06", "x07", "x08", "x09", "x10"]);
    let kind = ParameterKind::Double { min: -5.0, max: 5.0, scale: ScaleType::UnitLinear };
    assert!(parameters.iter().all(|parameter| parameter.kind() == &kind));
    let [metric] = problem.statement().metrics() else { panic!("one metric") };
    assert_eq!((metric.name.as_str(), metric.goal), ("objective", Goal::Minimize));
}

#[test]
fn the_space_of_bbob_mixint_has_integers_first() {
    let problem = bbob_mixint(1, 10, 1).unwrap();
    let parameters = problem.statement().search_space().parameters();
    let cardinalities: Vec<Option<u64>> = parameters.iter().map(ParameterSpec::cardinality).collect();
    let expected = [2, 2, 4, 4, 8, 8, 16, 16].into_iter().map(Some).chain([None, None]);
    assert_eq!(cardinalities, expected.collect::<Vec<_>>());
}

#[test]
fn a_trial_is_evaluated_at_its_coordinates() {
    let sphere = bbob(1, 2, 1).unwrap();
    let mut point = ParameterValues::from([
        ("x01".to_owned(), ParameterValue::Double(1.5)),
        ("x02".to_owned(), ParameterValue::Double(-2.0)),
    ]);
    assert_eq!(sphere.evaluate(&point, DRAW), Evaluation::exact(sphere.value(&[1.5, -2.0])));
    let distance = (1.5 - sphere.minimizer()[0]).powi(2) + (-2.0 - sphere.minimizer()[1]).powi(2);
    assert_eq!(sphere.value(&[1.5, -2.0]), 79.48 + distance);

    point.insert("x02".to_owned(), ParameterValue::Double(5.5));
    assert!(matches!(sphere.evaluate(&point, DRAW).outcome, EvaluationOutcome::Infeasible { .. }));
}

#[test]
fn mixed_integer_values_follow_the_order_of_the_variables() {
    let problem = bbob_mixint(8, 5, 2).unwrap();
    let integers = [1, 0, 7, 12].into_iter().map(ParameterValue::Integer);
    let values = integers.chain([ParameterValue::Double(0.25)]).enumerate();
    let point: ParameterValues = values.map(|(index, value)| (format!("x{:02}", index + 1), value)).collect();
    assert_eq!(problem.evaluate(&point, DRAW), Evaluation::exact(problem.value(&[1.0, 0.0, 7.0, 12.0, 0.25])));
    // Values between and beyond the integers are rounded to the nearest one.
    assert_eq!(problem.value(&[1.0, 0.0, 7.0, 12.0, 0.25]), problem.value(&[9.0, -3.0, 6.5, 12.4, 0.25]));
    assert_ne!(problem.value(&[1.0, 0.0, 7.0, 12.0, 0.25]), problem.value(&[1.0, 0.0, 7.0, 11.0, 0.25]));
}

#[test]
fn points_of_another_size_have_no_value() {
    assert!(bbob(1, 2, 1).unwrap().value(&[0.0]).is_nan());
    assert!(bbob(3, 2, 1).unwrap().value(&[0.0, f64::NAN]).is_nan());
    assert!(bbob_mixint(1, 5, 1).unwrap().value(&[0.0; 6]).is_nan());
}

#[test]
fn arguments_out_of_range_are_named() {
    assert_eq!(bbob(0, 2, 1).unwrap_err(), BbobError::UnknownFunction { function: 0 });
    assert_eq!(bbob_mixint(25, 5, 1).unwrap_err(), BbobError::UnknownFunction { function: 25 });
    for dimensions in [0, 1, 41] {
        assert_eq!(bbob(1, dimensions, 1).unwrap_err(), BbobError::UnsupportedDimensions { dimensions });
    }
    for dimensions in [0, 2, 6, 80] {
        let error = BbobError::UnsupportedMixintDimensions { dimensions };
        assert_eq!(bbob_mixint(1, dimensions, 1).unwrap_err(), error);
    }
    for instance in [0, MAX_INSTANCE + 1, u64::MAX] {
        assert_eq!(bbob(21, 2, instance).unwrap_err(), BbobError::UnknownInstance { instance });
    }
    assert_eq!(bbob(1, 41, 1).unwrap_err().to_string(), "bbob does not support 41 dimensions: 2 to 40 are allowed");
    assert!(bbob(21, 40, MAX_INSTANCE).is_ok());
}
