use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::*;
use crate::problem::{Condition, ParameterKind, ScaleType};

/// Random parameter: kind, number of values, whether it has a parent, which one, and for which of the parent's values
/// it is active (one bit each).
type Recipe = (u8, u8, bool, prop::sample::Index, u8);

fn kind(kind: u8, size: u8) -> ParameterKind {
    let scale = ScaleType::UnitLinear;
    match kind {
        0 => ParameterKind::Integer { min: 3, max: 2 + i64::from(size), scale },
        1 => ParameterKind::Discrete { values: (0..size).map(|i| 0.5 * f64::from(i)).collect(), scale },
        2 => ParameterKind::Categorical { values: (0..size).map(|i| format!("l{}", 9 - i)).collect() },
        _ => ParameterKind::Double { min: -1.0, max: 2.0, scale },
    }
}

fn values(kind: &ParameterKind) -> Vec<ParameterValue> {
    match kind {
        ParameterKind::Integer { min, max, .. } => (*min..=*max).map(ParameterValue::Integer).collect(),
        ParameterKind::Discrete { values, .. } => values.iter().copied().map(ParameterValue::Discrete).collect(),
        ParameterKind::Categorical { values } => values.iter().cloned().map(ParameterValue::Categorical).collect(),
        ParameterKind::Double { .. } => vec![],
    }
}

/// Space of some recipes. Parents precede their children, but names are not in that order.
fn space(recipes: &[Recipe]) -> SearchSpace {
    let mut specs: Vec<ParameterSpec> = Vec::new();
    for (number, (kind_number, size, has_parent, parent, active)) in recipes.iter().enumerate() {
        let name = format!("p{}", (number * 7 + 3) % 10);
        let spec = ParameterSpec::new(name, kind(*kind_number, *size)).unwrap();
        let parents: Vec<_> = specs.iter().filter(|spec| !values(spec.kind()).is_empty()).collect();
        if !has_parent || parents.is_empty() {
            specs.push(spec);
            continue;
        }
        let parent = parents[parent.index(parents.len())];
        let all = values(parent.kind());
        let mut chosen: Vec<_> =
            all.iter().enumerate().filter(|(bit, _)| active >> bit & 1 == 1).map(|(_, value)| value.clone()).collect();
        if chosen.is_empty() {
            chosen.push(all[0].clone());
        }
        let condition = Condition::new(parent.name(), chosen);
        specs.push(spec.with_condition(condition));
    }
    SearchSpace::new(specs).unwrap()
}

fn spaces(kinds: u8) -> impl Strategy<Value = SearchSpace> {
    let recipe = (0..kinds, 1..4_u8, prop::bool::weighted(0.7), any::<prop::sample::Index>(), any::<u8>());
    prop::collection::vec(recipe, 1..7).prop_map(|recipes| space(&recipes))
}

/// All points of a finite space, found by trying every value, or none, of every parameter.
fn enumerated(space: &SearchSpace) -> Vec<ParameterValues> {
    let mut points = vec![ParameterValues::new()];
    for parameter in space.parameters() {
        let with = |value: &ParameterValue, point: &ParameterValues| {
            let mut point = point.clone();
            point.insert(parameter.name().to_owned(), value.clone());
            point
        };
        let mut more = points.clone();
        for value in values(parameter.kind()) {
            more.extend(points.iter().map(|point| with(&value, point)));
        }
        points = more;
    }
    points.retain(|point| space.check(point).is_ok());
    points
}

proptest! {
    #[test]
    fn every_point_has_exactly_one_number(space in spaces(3)) {
        let encoding = Encoding::new(&space);
        let expected = enumerated(&space);
        prop_assert_eq!(space.cardinality(), Some(expected.len() as u64));
        prop_assert_eq!(encoding.cardinality(), space.cardinality());
        let numbering = encoding.numbering().unwrap();
        prop_assert_eq!(numbering.size(), Some(expected.len() as u128));
        let mut found = Vec::new();
        for index in 0..expected.len() as u128 {
            let ordinals = numbering.ordinals(index);
            prop_assert_eq!(numbering.index(&ordinals), Some(index));
            let point = encoding.point_at(&ordinals);
            let key = encoding.key(&point).unwrap();
            prop_assert_eq!(key.ordinals(), &ordinals);
            let vector: Vec<f64> =
                ordinals.iter().enumerate().map(|(feature, ordinal)| encoding.coordinate_at(feature, *ordinal)).collect();
            prop_assert_eq!(encoding.encode(&point).unwrap(), vector);
            found.push(format!("{point:?}"));
        }
        let mut expected: Vec<_> = expected.iter().map(|point| format!("{point:?}")).collect();
        expected.sort();
        found.sort();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn any_vector_decodes_to_a_point_that_encodes_back(space in spaces(4), u in prop::collection::vec(-0.5..4.0_f64, 10)) {
        let encoding = Encoding::new(&space);
        let mut vector = u[..encoding.dimensions()].to_vec();
        let point = encoding.decode(&vector);
        prop_assert_eq!(space.check(&point), Ok(()));
        encoding.snap(&mut vector);
        prop_assert_eq!(encoding.decode(&vector), point.clone());
        let encoded = encoding.encode(&point).unwrap();
        for (feature, (a, b)) in encoded.iter().zip(&vector).enumerate() {
            prop_assert!((a - b).abs() < 1e-12, "feature {feature}: {a} {b}");
        }
        let key = encoding.key(&point).unwrap();
        prop_assert_eq!(encoding.key(&encoding.decode(&encoded)).unwrap(), key.clone());
        let active = encoding.active(&vector);
        for feature in 0..encoding.dimensions() {
            let name = &encoding.features()[feature].name;
            prop_assert_eq!(active[feature], point.contains_key(name));
            if !active[feature] {
                prop_assert_eq!(vector[feature], encoding.neutral(feature));
                prop_assert_eq!(key.ordinals()[feature], u64::MAX);
            }
        }
        let mut again = vector.clone();
        encoding.canonicalize(&mut again);
        prop_assert_eq!(&again, &vector);
        encoding.snap(&mut again);
        prop_assert_eq!(again, vector);
    }

    #[test]
    fn encoding_rejects_values_that_the_space_rejects(
        space in spaces(4),
        points in [prop::collection::vec(-0.5..4.0_f64, 10), prop::collection::vec(-0.5..4.0_f64, 10)],
        mask in any::<u16>(),
    ) {
        // Some values of one point combined with values of another point.
        let encoding = Encoding::new(&space);
        let [one, other] = points.map(|u| encoding.decode(&u[..encoding.dimensions()]));
        let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
        let pick = |(bit, name): (usize, &&String)| {
            let source = if mask >> bit & 1 == 1 { &one } else { &other };
            source.get(*name).map(|value| ((*name).clone(), value.clone()))
        };
        let mixed: ParameterValues = names.iter().enumerate().filter_map(pick).collect();
        prop_assert_eq!(encoding.encode(&mixed).is_ok(), space.check(&mixed).is_ok());
        prop_assert_eq!(encoding.key(&mixed).is_ok(), space.check(&mixed).is_ok());
    }

    #[test]
    fn newly_active_features_get_their_start_coordinate_and_others_stay(
        space in spaces(4),
        u in prop::collection::vec(-0.5..4.0_f64, 10),
        moved in any::<prop::sample::Index>(),
        to in 0.0..3.0_f64,
    ) {
        let encoding = Encoding::new(&space);
        let mut before = u[..encoding.dimensions()].to_vec();
        encoding.snap(&mut before);
        prop_assume!(!before.is_empty());
        let was_active = encoding.active(&before);
        let moved = moved.index(before.len());
        prop_assume!(was_active[moved]);
        let mut after = before.clone();
        after[moved] = to;
        encoding.reactivate(&mut after, &was_active, |_| 0.0);
        let active = encoding.active(&after);
        for feature in 0..after.len() {
            let expected = match (active[feature], was_active[feature]) {
                (false, _) => encoding.neutral(feature),
                (true, false) => 0.0,
                (true, true) if feature == moved => to,
                (true, true) => before[feature],
            };
            prop_assert_eq!(after[feature], expected, "feature {}", feature);
        }
    }
}

fn integer(name: &str, min: i64, max: i64) -> ParameterSpec {
    ParameterSpec::new(name, ParameterKind::Integer { min, max, scale: ScaleType::UnitLinear }).unwrap()
}

fn under(spec: ParameterSpec, parent: &str, values: &[i64]) -> ParameterSpec {
    spec.with_condition(Condition::new(parent, values.iter().copied().map(ParameterValue::Integer).collect()))
}

#[test]
fn last_feature_varies_fastest_without_conditions() {
    let space = SearchSpace::new(vec![integer("a", 0, 1), integer("b", 5, 5), integer("c", 1, 3)]).unwrap();
    let numbering = Encoding::new(&space).numbering().unwrap();
    let all: Vec<_> = (0..6).map(|index| numbering.ordinals(index)).collect();
    assert_eq!(all, [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]);
}

#[test]
fn children_vary_faster_than_their_parent_and_only_while_active() {
    // The child sorts before its parent by name.
    let space = SearchSpace::new(vec![integer("b", 0, 3), under(integer("a", 0, 1), "b", &[2, 1])]).unwrap();
    let encoding = Encoding::new(&space);
    let numbering = encoding.numbering().unwrap();
    let none = u64::MAX;
    let all: Vec<_> = (0..6).map(|index| numbering.ordinals(index)).collect();
    assert_eq!(all, [[none, 0], [0, 1], [1, 1], [0, 2], [1, 2], [none, 3]]);
    assert_eq!(
        (encoding.top_down(), encoding.parent(0), encoding.parent_ordinals(0)),
        (&[1, 0][..], Some(1), &[1, 2][..])
    );
}

#[test]
fn very_large_spaces_are_numbered_at_small_indices() {
    let widest = |name: &str| integer(name, i64::MIN, i64::MAX);
    let space = vec![widest("a"), under(widest("b"), "a", &[i64::MIN]), under(widest("c"), "b", &[i64::MAX])];
    let encoding = Encoding::new(&SearchSpace::new(space).unwrap());
    let numbering = encoding.numbering().unwrap();
    // 2^64 - 1 values of a alone, 2^64 - 1 of b, and 2^64 of c.
    assert_eq!(numbering.size(), Some(3 * (1 << 64) - 2));
    for index in [0, 1, (1 << 64) - 2, (1 << 64) - 1, 1 << 64, 2 * (1 << 64) - 1, 2 * (1 << 64), 3 * (1 << 64) - 3] {
        let ordinals = numbering.ordinals(index);
        assert_eq!(numbering.index(&ordinals), Some(index));
        let point = encoding.point_at(&ordinals);
        assert_eq!(encoding.key(&point).unwrap().ordinals(), ordinals, "{index}");
    }
    let several = vec![
        integer("a", 0, 1),
        under(widest("b"), "a", &[1]),
        under(widest("c"), "a", &[1]),
        under(widest("d"), "a", &[1]),
    ];
    let numbering = Encoding::new(&SearchSpace::new(several).unwrap()).numbering().unwrap();
    assert_eq!(numbering.size(), None);
    assert_eq!(numbering.ordinals(2), [1, 0, 0, 1]);
    assert_eq!(numbering.index(&[1, 0, 0, 1]), Some(2));
    assert_eq!(numbering.index(&[1, u64::MAX, 0, 1]), None);
}

#[test]
fn parameters_with_one_value_are_not_features_but_are_checked() {
    let space = SearchSpace::new(vec![
        integer("a", 1, 2),
        under(integer("fixed_child", 4, 4), "a", &[2]),
        under(integer("grandchild", 1, 5), "fixed_child", &[4]),
        integer("fixed", 7, 7),
        under(integer("always", 1, 3), "fixed", &[7]),
    ])
    .unwrap();
    let encoding = Encoding::new(&space);
    let names: Vec<_> = encoding.features().iter().map(|feature| feature.name.as_str()).collect();
    assert_eq!(names, ["a", "always", "grandchild"]);
    assert_eq!([0, 1, 2].map(|feature| encoding.parent(feature)), [None, None, Some(0)]);
    let texts = |vector: &[f64]| -> BTreeMap<String, String> {
        encoding.decode(vector).into_iter().map(|(name, value)| (name, value.to_string())).collect()
    };
    let expected = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    assert_eq!(texts(&[0.0, 1.0, 1.0]), expected(&[("a", "1"), ("always", "3"), ("fixed", "7")]));
    let second = [("a", "2"), ("always", "1"), ("fixed", "7"), ("fixed_child", "4"), ("grandchild", "5")];
    assert_eq!(texts(&[1.0, 0.0, 1.0]), expected(&second));
    let mut values = encoding.decode(&[0.0, 1.0, 1.0]);
    values.insert("fixed_child".into(), ParameterValue::Integer(4));
    let inactive = |parameter: &str| Err(EncodingError::Inactive { parameter: parameter.into(), parent: "a".into() });
    assert_eq!(encoding.encode(&values), inactive("fixed_child"));
    values.remove("fixed_child");
    values.insert("grandchild".into(), ParameterValue::Integer(4));
    assert_eq!(encoding.encode(&values), inactive("grandchild"));
    let mut values = encoding.decode(&[1.0, 1.0, 1.0]);
    values.remove("fixed_child");
    assert_eq!(encoding.encode(&values), Err(EncodingError::Missing { parameter: "fixed_child".into() }));
}
