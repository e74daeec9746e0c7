use tunesmith_algorithms::encoding::Encoding;
use tunesmith_algorithms::hypervolume::hypervolume;
use tunesmith_algorithms::problem::TrialId;
use tunesmith_algorithms::problem::pareto::{distinct_front, front};
use tunesmith_algorithms::sampling::sobol_point;

use super::builders::point_of_doubles;
use super::mixed::network_pareto_set;
use super::three_objectives::moved_pareto_set;
use super::*;
use crate::problem::EvaluationOutcome;
use crate::problem::{Draw, Problem};

fn volume(function: &MultiObjectiveFunction, points: &[ParameterValues]) -> f64 {
    let goals: Vec<Goal> = function.statement().metrics().iter().map(|metric| metric.goal).collect();
    let Quality::Hypervolume { reference_point, .. } = function.quality() else { panic!("no reference point") };
    let values: Vec<_> = points.iter().map(|point| function.value(point)).collect();
    hypervolume(&goals, reference_point, &values)
}

fn known(function: &MultiObjectiveFunction) -> f64 {
    let Quality::Hypervolume { best_known: Some(volume), .. } = function.quality() else { panic!("no volume") };
    *volume
}

/// Grid of `steps` + 1 points per position parameter in `[0, 1]`, one or two of them, with all distance parameters at
/// `distance`.
fn pareto_set(function: &MultiObjectiveFunction, places: usize, distance: f64, steps: usize) -> Vec<ParameterValues> {
    let dimensions = function.statement().search_space().parameters().len();
    let side = |index: usize| index as f64 / steps as f64;
    let numbers = 0..(steps + 1).pow(u32::try_from(places).unwrap());
    let point = |number: usize| {
        let mut x = vec![distance; dimensions];
        x[0] = side(number % (steps + 1));
        if places == 2 {
            x[1] = side(number / (steps + 1));
        }
        point_of_doubles(&x)
    };
    numbers.map(point).collect()
}

/// Asserts that the volume of increasingly fine samples grows to within `tolerance` of the known one and never exceeds
/// it.
fn assert_approached(
    function: &MultiObjectiveFunction,
    samples: impl Iterator<Item = Vec<ParameterValues>>,
    tolerance: f64,
) {
    let known = known(function);
    let rounding = 1e-12 * known;
    let mut last = 0.0;
    for points in samples {
        assert_eq!(function.statement().search_space().check(&points[0]), Ok(()), "{}", function.name());
        let volume = volume(function, &points);
        assert!(volume > last, "{}: {volume} after {last}", function.name());
        assert!(volume <= known + rounding, "{}: {volume} exceeds {known}", function.name());
        last = volume;
    }
    assert!(known - last < tolerance, "{}: {last} is far from {known}", function.name());
}

#[test]
fn fronts_of_two_metrics_have_the_stated_volumes() {
    let two = MetricCount::Two;
    let cases = [
        (zdt1(6), 0.0),
        (zdt2(6), 0.0),
        (zdt3(6), 0.0),
        (zdt4(4), 0.0),
        (zdt6(6), 0.0),
        (dtlz1(two, 5), 0.5),
        (dtlz2(two, 5), 0.5),
        (dtlz7(two, 5), 0.0),
    ];
    for (function, distance) in cases {
        let samples = [32, 256, 4096].into_iter().map(|steps| pareto_set(&function, 1, distance, steps));
        assert_approached(&function, samples, 2e-3);
    }
}

#[test]
fn fronts_of_three_metrics_have_the_stated_volumes() {
    let three = MetricCount::Three;
    for (function, distance, tolerance) in
        [(dtlz1(three, 6), 0.5, 0.02), (dtlz2(three, 6), 0.5, 0.06), (dtlz7(three, 6), 0.0, 0.06)]
    {
        let samples = [8, 16, 64].into_iter().map(|steps| pareto_set(&function, 2, distance, steps));
        assert_approached(&function, samples, tolerance);
    }
}

#[test]
fn moved_fronts_of_three_metrics_have_the_stated_volumes() {
    // Tolerances of a grid of 65 x 65 position parameters.
    let tolerances = [0.02, 0.06, 0.06, 0.08, 0.06, 0.06];
    for (make, tolerance) in three_objectives().into_iter().zip(tolerances) {
        let function = make(3);
        let samples = [8, 16, 64].into_iter().map(|steps| moved_pareto_set(&function, 3, steps));
        assert_approached(&function, samples, tolerance);
    }
}

#[test]
fn moved_fronts_differ_by_instance_and_no_point_is_beyond_them() {
    for make in three_objectives() {
        let best: std::collections::BTreeSet<String> =
            (1..=4).map(|instance| format!("{:?}", moved_pareto_set(&make(instance), instance, 1)[0])).collect();
        assert_eq!(best.len(), 4);
        let function = make(2);
        let encoding = Encoding::new(function.statement().search_space());
        let points: Vec<_> = (1..=512).map(|id| encoding.decode(&sobol_point(&encoding, 1, TrialId(id)))).collect();
        let (few, many) = (volume(&function, &points[..64]), volume(&function, &points));
        assert!(0.0 < few && few <= many && many < known(&function), "{}: {few}, {many}", function.name());
    }
    let names = three_objectives().map(|make| make(1).name().to_owned());
    let expected = ["dtlz1/d05", "dtlz2/d05", "dtlz2/d07", "convex_dtlz2/d06", "dtlz7/d06", "mixed_dtlz2/d07"];
    assert_eq!(names, expected);
}

#[test]
fn the_front_of_branin_currin_has_the_stated_volume() {
    let function = branin_currin();
    // The whole front is in a corner of the square: a grid there, then finer ones around the points on the front.
    let mut spacing = (0.125 / 128.0, 0.1875 / 128.0);
    let number = 0..129 * 129;
    let mut points: Vec<(f64, f64)> =
        number.map(|i| (f64::from(i % 129) * spacing.0, 1.0 - f64::from(i / 129) * spacing.1)).collect();
    let mut samples = Vec::new();
    for _ in 0..4 {
        let at: Vec<_> = points.iter().map(|&(a, b)| point_of_doubles(&[a, b])).collect();
        let values: Vec<_> = at.iter().map(|point| function.value(point)).collect();
        let front: Vec<_> = bounded_front(&values).into_iter().map(|index| points[index]).collect();
        samples.push(front.iter().map(|&(a, b)| point_of_doubles(&[a, b])).collect::<Vec<_>>());
        spacing = (spacing.0 / 3.0, spacing.1 / 3.0);
        let offsets = [-2.0, -1.0, 0.0, 1.0, 2.0];
        points = Vec::new();
        for (a, b) in front {
            for i in offsets {
                for j in offsets {
                    points.push(((a + i * spacing.0).clamp(0.0, 1.0), (b + j * spacing.1).clamp(0.0, 1.0)));
                }
            }
        }
    }
    assert_approached(&function, samples.into_iter(), 0.02);
}

/// Indices of one point each of the front of minimised `values`, within (18, 6).
fn bounded_front(values: &[Vec<f64>]) -> Vec<usize> {
    let inside: Vec<usize> =
        (0..values.len()).filter(|&index| values[index][0] < 18.0 && values[index][1] < 6.0).collect();
    let gains: Vec<[f64; 2]> = inside.iter().map(|&index| [-values[index][0], -values[index][1]]).collect();
    distinct_front(&gains).into_iter().map(|place| inside[place]).collect()
}

#[test]
fn the_front_of_the_network_has_the_optimal_rate_of_each_combination() {
    let function = network_trade_off();
    let points = network_pareto_set();
    assert_eq!(points.len(), 2_988);
    assert_eq!(volume(&function, &points), known(&function));
    let values: Vec<_> = points.iter().map(|point| function.value(point)).collect();
    let maximized: Vec<[f64; 2]> = values.iter().map(|value| [value[0], -value[1]]).collect();
    let front = front(&maximized);
    for activation in ["relu", "tanh", "elu"] {
        let on_front =
            front.iter().filter(|&&index| builders::level(&points[index], "activation") == activation).count();
        assert!(on_front > 5, "{activation}: {on_front} of {} points on the front", front.len());
    }
    assert!(points.iter().all(|point| function.statement().search_space().check(point).is_ok()));
}

#[test]
fn random_points_have_a_positive_volume_below_the_stated_one() {
    for function in multi_objective() {
        let encoding = Encoding::new(function.statement().search_space());
        let points: Vec<_> = (1..=512).map(|id| encoding.decode(&sobol_point(&encoding, 1, TrialId(id)))).collect();
        let (few, many) = (volume(&function, &points[..64]), volume(&function, &points));
        assert!(few > 0.0, "{}: 64 points dominate nothing", function.name());
        assert!(few <= many && many < known(&function), "{}: {many}", function.name());
    }
}

#[test]
fn values_at_single_points_equal_those_of_the_papers() {
    let at = |function: MultiObjectiveFunction, x: &[f64]| function.value(&point_of_doubles(x));
    assert_eq!(at(zdt1(2), &[0.25, 1.0]), [0.25, 10.0 * (1.0 - 0.025_f64.sqrt())]);
    assert_eq!(at(zdt4(2), &[0.25, 0.0]), [0.25, 0.5]);
    assert_eq!(at(dtlz1(MetricCount::Three, 3), &[0.5, 0.25, 0.5]), [0.0625, 0.1875, 0.25]);
    assert_eq!(at(dtlz7(MetricCount::Two, 2), &[0.0, 1.0]), [0.0, 22.0]);
    let currin = at(branin_currin(), &[1.0, 0.5])[1];
    assert!((currin - (1.0 - (-1.0_f64).exp()) * 6352.0 / 624.0).abs() < 1e-12);
    // The published optimum of Branin at (-pi, 12.275), in the unit square.
    let branin = at(branin_currin(), &[(5.0 - std::f64::consts::PI) / 15.0, 12.275 / 15.0])[0];
    assert!((branin - 0.397887357729738).abs() < 1e-9);
    assert!(at(branin_currin(), &[0.0, 0.0])[1].is_finite());
}

#[test]
fn the_suite_has_unique_names_and_one_value_per_metric() {
    let suite = multi_objective();
    let mut names: Vec<_> = suite.iter().map(|problem| problem.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 13);
    for problem in &suite {
        let encoding = Encoding::new(problem.statement().search_space());
        let point = encoding.decode(&vec![0.3; encoding.dimensions()]);
        let EvaluationOutcome::Measured { observed, noiseless, .. } =
            problem.evaluate(&point, Draw { seed: 1, trial: TrialId(1) }).outcome
        else {
            panic!("no values")
        };
        assert_eq!(observed.len(), problem.statement().metrics().len(), "{}", problem.name());
        assert_eq!(observed, noiseless);
    }
}
