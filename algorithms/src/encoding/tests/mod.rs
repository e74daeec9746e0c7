mod conditional;

use proptest::prelude::*;

use super::*;
use crate::problem::{ParameterKind, ParameterSpec, ScaleType};

const SCALES: [ScaleType; 3] = [ScaleType::UnitLinear, ScaleType::UnitLog, ScaleType::UnitReverseLog];

fn encoding(kind: ParameterKind) -> Encoding {
    Encoding::new(&SearchSpace::new(vec![ParameterSpec::new("p", kind).unwrap()]).unwrap())
}

fn double(min: f64, max: f64, scale: ScaleType) -> Encoding {
    encoding(ParameterKind::Double { min, max, scale })
}

fn integer(min: i64, max: i64, scale: ScaleType) -> Encoding {
    encoding(ParameterKind::Integer { min, max, scale })
}

fn point(value: ParameterValue) -> ParameterValues {
    ParameterValues::from([("p".to_owned(), value)])
}

fn unit(encoding: &Encoding, value: ParameterValue) -> f64 {
    encoding.encode(&point(value)).unwrap()[0]
}

fn number(encoding: &Encoding, u: f64) -> f64 {
    match encoding.decode(&[u])["p"] {
        ParameterValue::Double(value) | ParameterValue::Discrete(value) => value,
        ParameterValue::Integer(value) => value as f64,
        ParameterValue::Categorical(_) => panic!("not a number"),
    }
}

fn scale() -> impl Strategy<Value = ScaleType> {
    proptest::sample::select(SCALES.to_vec())
}

/// Positive ranges over many orders of magnitude, narrow and wide.
fn positive_range() -> impl Strategy<Value = (f64, f64)> {
    (-300.0..300.0_f64, prop_oneof![-9.0..3.0_f64, 3.0..280.0_f64])
        .prop_map(|(lo, width)| (10_f64.powf(lo), 10_f64.powf(lo) * (1.0 + 10_f64.powf(width))))
        .prop_filter("finite and not empty", |(lo, hi)| hi.is_finite() && (lo + hi).is_finite() && lo < hi)
}

proptest! {
    #[test]
    fn doubles_round_trip((lo, hi) in positive_range(), scale in scale(), fraction in 0.0..=1.0_f64) {
        let encoding = double(lo, hi, scale);
        let x = number(&encoding, fraction);
        prop_assert!(lo <= x && x <= hi);
        let u = unit(&encoding, ParameterValue::Double(x));
        prop_assert!((0.0..=1.0).contains(&u));
        let again = number(&encoding, u);
        // A log scale keeps relative precision everywhere, the other scales relative to the upper bound.
        let size = if scale == ScaleType::UnitLog { x } else { hi };
        prop_assert!((again - x).abs() <= 1e-12 * size, "{x} became {again}");
    }

    #[test]
    fn linear_doubles_of_any_sign_round_trip(a in -1e6..1e6_f64, width in 1e-6..1e6_f64, fraction in 0.0..=1.0_f64) {
        let encoding = double(a, a + width, ScaleType::UnitLinear);
        let x = a + fraction * width;
        let again = number(&encoding, unit(&encoding, ParameterValue::Double(x.min(a + width))));
        prop_assert!((again - x).abs() <= 1e-12 * a.abs().max(width));
    }

    #[test]
    fn coordinates_increase_with_values((lo, hi) in positive_range(), scale in scale(), mut u in [0.0..=1.0_f64, 0.0..=1.0_f64]) {
        u.sort_by(f64::total_cmp);
        let encoding = double(lo, hi, scale);
        let [low, high] = u.map(|u| number(&encoding, u));
        prop_assert!(low <= high);
        let [from_low, from_high] = [low, high].map(|x| unit(&encoding, ParameterValue::Double(x)));
        prop_assert!(from_low <= from_high);
    }

    #[test]
    fn integers_round_trip_exactly(min in 1_i64..=i64::MAX - 2_000, width in 1_i64..1_000, offset in 0.0..=1.0_f64, scale in scale()) {
        let value = min + (offset * width as f64) as i64;
        let encoding = integer(min, min + width, scale);
        let u = unit(&encoding, ParameterValue::Integer(value));
        prop_assert_eq!(&encoding.decode(&[u])["p"], &ParameterValue::Integer(value));
        let mut snapped = [u];
        encoding.snap(&mut snapped);
        prop_assert_eq!(snapped, [u]);
    }

    #[test]
    fn large_integer_ranges_round_trip_exactly(min in 1_i64..1 << 40, width in 1_000_i64..1 << 40, offset in 0.0..=1.0_f64, scale in scale()) {
        let value = min + (offset * width as f64) as i64;
        let encoding = integer(min, min + width, scale);
        prop_assert_eq!(&encoding.features()[0].kind, &FeatureKind::LargeGrid);
        let u = unit(&encoding, ParameterValue::Integer(value));
        prop_assert_eq!(&encoding.decode(&[u])["p"], &ParameterValue::Integer(value));
    }

    #[test]
    fn discrete_values_round_trip_exactly(values in proptest::collection::btree_set(1_u32.., 2..200), scale in scale()) {
        let values: Vec<f64> = values.into_iter().map(f64::from).collect();
        let encoding = encoding(ParameterKind::Discrete { values: values.clone(), scale });
        for value in values {
            let u = unit(&encoding, ParameterValue::Discrete(value));
            prop_assert_eq!(number(&encoding, u), value);
        }
    }

    #[test]
    fn snapping_equals_decoding_and_encoding(u in [-0.5..1.5_f64, -0.5..1.5_f64, -0.5..1.5_f64, -1.0..4.0_f64]) {
        let encoding = mixed();
        let mut snapped = u;
        encoding.snap(&mut snapped);
        prop_assert_eq!(encoding.encode(&encoding.decode(&snapped)).unwrap()[1..].to_vec(), snapped[1..].to_vec());
        prop_assert_eq!(encoding.key(&encoding.decode(&u)), encoding.key(&encoding.decode(&snapped)));
        encoding.snap(&mut snapped);
        let once = snapped;
        encoding.snap(&mut snapped);
        prop_assert_eq!(once, snapped);
    }
}

/// A double, two integers and a categorical parameter, in this order by name.
fn mixed() -> Encoding {
    let levels = ["tanh", "elu", "relu"].map(str::to_owned).to_vec();
    let kinds = [
        ("a", ParameterKind::Double { min: 1e-5, max: 1.0, scale: ScaleType::UnitLog }),
        ("d", ParameterKind::Categorical { values: levels }),
        ("c", ParameterKind::Integer { min: -5, max: 100_000, scale: ScaleType::UnitLinear }),
        ("b", ParameterKind::Integer { min: 1, max: 8, scale: ScaleType::UnitLog }),
    ];
    let parameters = kinds.map(|(name, kind)| ParameterSpec::new(name, kind).unwrap()).to_vec();
    Encoding::new(&SearchSpace::new(parameters).unwrap())
}

#[test]
fn the_middle_of_a_log_scale_is_the_geometric_mean() {
    for (lo, hi) in [(1e-5_f64, 1e-1_f64), (2.0, 8.0), (1e-300, 1e300), (1.0, 1.0 + 1e-9)] {
        let middle = number(&double(lo, hi, ScaleType::UnitLog), 0.5);
        let geometric = lo.sqrt() * hi.sqrt();
        assert!((middle / geometric - 1.0).abs() < 1e-12, "{middle} is not {geometric}");
    }
}

#[test]
fn reverse_log_is_the_mirror_of_log() {
    let (lo, hi) = (0.25, 16.0);
    let [log, reverse] = [ScaleType::UnitLog, ScaleType::UnitReverseLog].map(|scale| double(lo, hi, scale));
    for step in 0..=64 {
        let u = f64::from(step) / 64.0;
        assert!((number(&reverse, u) - (lo + hi - number(&log, 1.0 - u))).abs() < 1e-13);
    }
    // The resolution is finest near the top: the upper half of the cube covers 16 - 2 to 16.
    assert!((number(&reverse, 0.5) - 14.25).abs() < 1e-13);
}

#[test]
fn the_ends_of_every_range_are_exact() {
    for scale in SCALES {
        for (lo, hi) in [(1e-300, 1e300), (0.1, 0.7), (5e-324, 1e308), (3.0, 3.0 + 1e-15), (1e-5, 1e-4)] {
            let encoding = double(lo, hi, scale);
            assert_eq!((number(&encoding, 0.0), number(&encoding, 1.0)), (lo, hi));
            assert_eq!(unit(&encoding, ParameterValue::Double(lo)), 0.0);
            assert_eq!(unit(&encoding, ParameterValue::Double(hi)), 1.0);
        }
        let FeatureKind::Grid { points } = integer(1, 7, scale).features()[0].kind.clone() else {
            panic!("expected a grid");
        };
        assert_eq!((points[0], points[6]), (0.0, 1.0));
    }
}

#[test]
fn the_widest_integers_do_not_overflow() {
    let encoding = integer(i64::MIN, i64::MAX, ScaleType::UnitLinear);
    assert_eq!(encoding.cardinality(), None);
    for (value, expected) in [(i64::MIN, 0.0), (0, 0.5), (i64::MAX, 1.0)] {
        assert_eq!(unit(&encoding, ParameterValue::Integer(value)), expected);
        assert_eq!(encoding.decode(&[expected])["p"], ParameterValue::Integer(value));
    }
    assert_eq!(encoding.coordinate_from_uniform(0, 0.0), 0.0);
    assert!(encoding.coordinate_from_uniform(0, 1.0_f64.next_down()) > 1.0 - 1e-15);
    let keys = [i64::MAX, i64::MAX - 1].map(|value| encoding.key(&point(ParameterValue::Integer(value))).unwrap());
    assert_ne!(keys[0], keys[1], "keys are exact where doubles are not");
}

#[test]
fn a_narrow_grid_of_large_integers_keeps_its_log_scale() {
    let min = 1 << 60;
    let encoding = integer(min, min + 999, ScaleType::UnitLog);
    for value in min..=min + 999 {
        let u = unit(&encoding, ParameterValue::Integer(value));
        assert_eq!(encoding.decode(&[u])["p"], ParameterValue::Integer(value));
    }
}

#[test]
fn values_closer_than_the_precision_of_coordinates_stay_distinct() {
    let values = vec![-1e300, -1e-300, 0.0, 1e-300, 1e300];
    let encoding = encoding(ParameterKind::Discrete { values: values.clone(), scale: ScaleType::UnitLinear });
    for value in values {
        assert_eq!(number(&encoding, unit(&encoding, ParameterValue::Discrete(value))), value);
    }
}

#[test]
fn coordinates_outside_the_cube_are_clipped() {
    let encoding = mixed();
    let last = encoding.decode(&[2.0, f64::INFINITY, 1e300, 17.0]);
    assert_eq!(encoding.encode(&last).unwrap(), [1.0, 1.0, 1.0, 2.0]);
    let first = encoding.decode(&[f64::NAN, f64::NEG_INFINITY, -1.0, f64::NAN]);
    assert_eq!(encoding.encode(&first).unwrap(), [0.0; 4]);
}

#[test]
fn order_of_parameters_and_levels_has_no_effect() {
    let categorical = |levels: [&str; 3]| ParameterKind::Categorical { values: levels.map(str::to_owned).to_vec() };
    let number = ParameterKind::Integer { min: 0, max: 4, scale: ScaleType::UnitLinear };
    let space = |parameters: [(&str, ParameterKind); 2]| {
        SearchSpace::new(parameters.map(|(name, kind)| ParameterSpec::new(name, kind).unwrap()).to_vec()).unwrap()
    };
    let one = Encoding::new(&space([("x", number.clone()), ("c", categorical(["u", "v", "w"]))]));
    let other = Encoding::new(&space([("c", categorical(["w", "u", "v"])), ("x", number)]));
    assert_eq!(one.features(), other.features());
    let values = one.decode(&[1.0, 0.25]);
    assert_eq!(values["c"], ParameterValue::Categorical("v".into()));
    assert_eq!(values["x"], ParameterValue::Integer(1));
    assert_eq!(one.encode(&values), other.encode(&values));
    assert_eq!(one.key(&values), other.key(&values));
}

#[test]
fn parameters_with_one_value_are_not_features() {
    let space = SearchSpace::new(vec![
        ParameterSpec::new("x", ParameterKind::Double { min: 3.5, max: 3.5, scale: ScaleType::UnitLog }).unwrap(),
        ParameterSpec::new("k", ParameterKind::Integer { min: 2, max: 2, scale: ScaleType::UnitReverseLog }).unwrap(),
        ParameterSpec::new("c", ParameterKind::Categorical { values: vec!["only".into()] }).unwrap(),
        ParameterSpec::new("d", ParameterKind::Discrete { values: vec![0.1], scale: ScaleType::UnitLinear }).unwrap(),
    ])
    .unwrap();
    let encoding = Encoding::new(&space);
    assert_eq!((encoding.dimensions(), encoding.cardinality()), (0, Some(1)));
    let mut values = encoding.decode(&[]);
    assert_eq!(space.check(&values), Ok(()));
    assert_eq!(encoding.encode(&values), Ok(vec![]));
    values.insert("k".into(), ParameterValue::Integer(3));
    assert!(matches!(encoding.encode(&values), Err(EncodingError::Infeasible { parameter, .. }) if parameter == "k"));
}

#[test]
fn values_outside_the_space_are_rejected() {
    let encoding = mixed();
    let good = encoding.decode(&[0.5; 4]);
    let with = |name: &str, value| {
        let mut values = good.clone();
        values.insert(name.to_owned(), value);
        encoding.encode(&values)
    };
    for (name, value) in [
        ("a", ParameterValue::Double(2.0)),
        ("b", ParameterValue::Integer(0)),
        ("b", ParameterValue::Double(1.0)),
        ("d", ParameterValue::Categorical("selu".into())),
    ] {
        assert_eq!(with(name, value.clone()), Err(EncodingError::Infeasible { parameter: name.into(), value }));
    }
    assert_eq!(with("e", ParameterValue::Integer(1)), Err(EncodingError::Unknown { parameter: "e".into() }));
    assert!(matches!(with("a", ParameterValue::Double(f64::NAN)), Err(EncodingError::Infeasible { .. })));
    let mut short = good.clone();
    short.remove("c");
    assert_eq!(encoding.key(&short), Err(EncodingError::Missing { parameter: "c".into() }));
}

#[test]
fn ordinals_identify_the_point() {
    let encoding = mixed();
    let values = encoding.decode(&[0.5, 0.7, 0.123, 2.0]);
    let key = encoding.key(&values).unwrap();
    assert_eq!(key.ordinals()[3], 2);
    assert_eq!(encoding.key(&encoding.point_at(key.ordinals())), Ok(key));
}

#[test]
fn nearly_equal_doubles_are_one_trial() {
    let encoding = double(0.0, 1.0, ScaleType::UnitLinear);
    let key = |x| encoding.key(&point(ParameterValue::Double(x))).unwrap();
    assert_eq!(key(0.1 + 0.2), key(0.3));
    assert_ne!(key(0.3), key(0.3 + 1e-11));
}
