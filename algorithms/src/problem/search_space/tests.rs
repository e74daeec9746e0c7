use super::*;
use crate::problem::{ParameterKind, ScaleType};

fn integer(name: &str, max: i64) -> ParameterSpec {
    ParameterSpec::new(name, ParameterKind::Integer { min: 1, max, scale: ScaleType::UnitLinear }).unwrap()
}

#[test]
fn point_has_a_value_for_every_parameter_and_no_other() {
    let space = SearchSpace::new(vec![integer("a", 3), integer("b", 4)]).unwrap();
    assert_eq!(space.cardinality(), Some(12));
    let mut values = ParameterValues::from([("a".to_owned(), ParameterValue::Integer(3))]);
    assert_eq!(space.check(&values), Err(ValueError::Missing { parameter: "b".into() }));
    values.insert("b".into(), ParameterValue::Integer(5));
    assert!(matches!(space.check(&values), Err(ValueError::Infeasible { .. })));
    values.insert("b".into(), ParameterValue::Integer(4));
    assert_eq!(space.check(&values), Ok(()));
    values.insert("c".into(), ParameterValue::Integer(4));
    assert_eq!(space.check(&values), Err(ValueError::Unknown { parameter: "c".into() }));
}

#[test]
fn repeated_names_are_rejected() {
    let error = SearchSpace::new(vec![integer("a", 3), integer("a", 4)]).unwrap_err();
    assert_eq!(error, SearchSpaceError::RepeatedName { name: "a".into(), index: 1 });
    assert_eq!(SearchSpace::new(vec![]), Err(SearchSpaceError::Empty));
}

fn under(spec: ParameterSpec, parent: &str, values: &[i64]) -> ParameterSpec {
    spec.with_condition(Condition::new(parent, values.iter().copied().map(ParameterValue::Integer).collect()))
}

/// `a` in 1..=3; `b` in 1..=4 for a = 1; `c` in 1..=2 for a = 1 and 2; `d` in 1..=5 for b = 4; `e` in 1..=6 always.
fn tree() -> SearchSpace {
    SearchSpace::new(vec![
        under(integer("d", 5), "b", &[4]),
        under(integer("b", 4), "a", &[1]),
        integer("a", 3),
        integer("e", 6),
        under(integer("c", 2), "a", &[2, 1, 2]),
    ])
    .unwrap()
}

#[test]
fn cardinality_of_a_conditional_space_counts_active_parameters() {
    // a = 1: (3 + 5) values of b and d, 2 of c. a = 2: 2 of c. a = 3: no children. Times 6 values of e.
    assert_eq!(tree().cardinality(), Some((8 * 2 + 2 + 1) * 6));
    assert!(tree().is_conditional());
    assert_eq!(tree().top_down(), [2, 3, 1, 4, 0]);
    assert_eq!(tree().parent(0), Some(1));
    let double = ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear };
    let infinite = under(ParameterSpec::new("x", double).unwrap(), "a", &[1]);
    assert_eq!(SearchSpace::new(vec![integer("a", 3), infinite]).unwrap().cardinality(), None);
    let wide = |name: &str, parent| under(integer(name, i64::MAX), parent, &[1]);
    let overflowing = SearchSpace::new(vec![integer("a", 3), wide("b", "a"), wide("c", "a"), wide("d", "a")]);
    assert_eq!(overflowing.unwrap().cardinality(), None);
}

#[test]
fn values_are_required_for_active_parameters_only() {
    let space = tree();
    let point = |values: &[(&str, i64)]| -> ParameterValues {
        values.iter().map(|(name, value)| ((*name).to_owned(), ParameterValue::Integer(*value))).collect()
    };
    let missing = |name: &str| Err(ValueError::Missing { parameter: name.into() });
    let inactive =
        |name: &str, parent: &str| Err(ValueError::Inactive { parameter: name.into(), parent: parent.into() });
    for (values, expected) in [
        (vec![("a", 3), ("e", 1)], Ok(())),
        (vec![("a", 2), ("e", 1), ("c", 1)], Ok(())),
        (vec![("a", 1), ("e", 1), ("c", 1), ("b", 3)], Ok(())),
        (vec![("a", 1), ("e", 1), ("c", 1), ("b", 4), ("d", 5)], Ok(())),
        (vec![("a", 2), ("e", 1)], missing("c")),
        (vec![("a", 1), ("e", 1), ("c", 1), ("b", 4)], missing("d")),
        (vec![("e", 1)], missing("a")),
        (vec![("a", 3), ("e", 1), ("c", 1)], inactive("c", "a")),
        (vec![("a", 1), ("e", 1), ("c", 1), ("b", 3), ("d", 5)], inactive("d", "b")),
        // The parent has a matching value, but is itself inactive.
        (vec![("a", 2), ("e", 1), ("c", 1), ("b", 4), ("d", 5)], inactive("b", "a")),
        (vec![("a", 3), ("e", 1), ("f", 1)], Err(ValueError::Unknown { parameter: "f".into() })),
    ] {
        assert_eq!(space.check(&point(&values)), expected, "{values:?}");
    }
}

#[test]
fn conditions_must_refer_to_feasible_values_of_other_parameters() {
    let double = ParameterKind::Double { min: 1.0, max: 1.0, scale: ScaleType::UnitLinear };
    let double = ParameterSpec::new("x", double).unwrap();
    let text = |parameters: Vec<ParameterSpec>| SearchSpace::new(parameters).unwrap_err().to_string();
    let level = Condition::new("a", vec![ParameterValue::Categorical("1".into())]);
    for (parameters, expected) in [
        (
            vec![under(integer("b", 3), "a", &[1])],
            "parameter \"b\" is conditional on \"a\", which is not a parameter of the search space",
        ),
        (vec![under(integer("b", 3), "b", &[1])], "parameter \"b\" is conditional on itself"),
        (
            vec![under(integer("a", 3), "b", &[1]), under(integer("b", 3), "a", &[1])],
            "parameter \"a\" is conditional on \"b\", which leads to a cycle of conditions",
        ),
        (
            vec![double, under(integer("b", 3), "x", &[1])],
            "parameter \"b\" is conditional on \"x\", a double; a parent must be an integer, discrete or categorical",
        ),
        (
            vec![integer("a", 3), under(integer("b", 3), "a", &[])],
            "parameter \"b\" is conditional on \"a\" but lists none of its values",
        ),
        (
            vec![integer("a", 3), under(integer("b", 3), "a", &[1, 4])],
            "parameter \"b\" is conditional on value 4 of \"a\", which that parameter cannot have",
        ),
        (
            vec![integer("a", 3), integer("b", 3).with_condition(level)],
            "parameter \"b\" is conditional on value 1 of \"a\", which that parameter cannot have",
        ),
    ] {
        assert_eq!(text(parameters), expected);
    }
}
