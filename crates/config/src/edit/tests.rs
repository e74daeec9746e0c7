use super::*;

const TEXT: &str = "\
# A job.
trainingInput:
  hyperparameters:  # what is searched
    goal: MINIMIZE
    maxTrials: 20  # a few
    # Flow style.
    params:
    - {parameterName: rate, type: DOUBLE, minValue: 1e-5, maxValue: 1}
    - parameterName: layers
      type: INTEGER
      minValue: 1  # at least
      maxValue: 8
      unknown: {a: [1, 2]}
  tunesmith: {seed: 7}
";

const HYPERPARAMETERS: [Step<'static>; 2] = [Step::Key("trainingInput"), Step::Key("hyperparameters")];

fn path<'a>(more: &[Step<'a>]) -> Vec<Step<'a>> {
    HYPERPARAMETERS.iter().chain(more).copied().collect()
}

fn set(text: &str, more: &[Step<'_>], value: &str) -> String {
    edit(text, &path(more), &Edit::Set(Plain::Scalar(value.to_owned()))).unwrap()
}

/// Lines only in `new`, and lines only in `old`.
fn difference<'a>(old: &'a str, new: &'a str) -> (Vec<&'a str>, Vec<&'a str>) {
    let lacks =
        |of: &'a str, other: &'a str| of.lines().filter(|line| !other.lines().any(|known| known == *line)).collect();
    (lacks(new, old), lacks(old, new))
}

#[test]
fn values_are_replaced_in_place() {
    let new = set(TEXT, &[Step::Key("maxTrials")], "50");
    assert_eq!(difference(TEXT, &new), (vec!["    maxTrials: 50  # a few"], vec!["    maxTrials: 20  # a few"]));
    let params = Step::Key("params");
    let new = set(TEXT, &[params, Step::Item(0), Step::Key("minValue")], "0.001");
    assert_eq!(difference(TEXT, &new).0, ["    - {parameterName: rate, type: DOUBLE, minValue: 0.001, maxValue: 1}"]);
    let new = set(TEXT, &[params, Step::Item(1), Step::Key("minValue")], "2");
    assert_eq!(difference(TEXT, &new).0, ["      minValue: 2  # at least"]);
    let new = set(TEXT, &[params, Step::Item(1), Step::Key("parameterName")], "it's: \"x\" # y");
    assert_eq!(difference(TEXT, &new).0, [r##"    - parameterName: "it's: \"x\" # y""##]);
    assert_eq!(set(TEXT, &[Step::Key("goal")], "no"), TEXT.replace("MINIMIZE", "\"no\""));
}

#[test]
fn missing_keys_are_added() {
    let new = set(TEXT, &[Step::Key("algorithm")], "RANDOM_SEARCH");
    assert_eq!(difference(TEXT, &new), (vec!["    algorithm: RANDOM_SEARCH"], vec![]));
    let params = Step::Key("params");
    let new = set(TEXT, &[params, Step::Item(0), Step::Key("scaleType")], "UNIT_LOG_SCALE");
    assert!(new.contains("maxValue: 1, scaleType: UNIT_LOG_SCALE}\n"), "{new}");
    let new = set(TEXT, &[params, Step::Item(1), Step::Key("scaleType")], "UNIT_LOG_SCALE");
    assert_eq!(difference(TEXT, &new), (vec!["      scaleType: UNIT_LOG_SCALE"], vec![]));
    let empty = "hyperparameters:\n  goal:\n";
    let new =
        edit(empty, &[Step::Key("hyperparameters"), Step::Key("goal")], &Edit::Set(Plain::Scalar("MAXIMIZE".into())));
    assert_eq!(new.unwrap(), "hyperparameters:\n  goal: MAXIMIZE\n");
    let json = "{\"hyperparameters\": {}}";
    let new =
        edit(json, &[Step::Key("hyperparameters"), Step::Key("goal")], &Edit::Set(Plain::Scalar("MAXIMIZE".into())));
    assert_eq!(new.unwrap(), "{\"hyperparameters\": {goal: MAXIMIZE}}");
}

#[test]
fn keys_and_items_are_removed_and_items_appended() {
    let params = Step::Key("params");
    let remove = |more: &[Step<'_>]| edit(TEXT, &path(more), &Edit::Remove).unwrap();
    let new = remove(&[Step::Key("maxTrials")]);
    assert_eq!(difference(TEXT, &new), (vec![], vec!["    maxTrials: 20  # a few"]));
    assert_eq!(remove(&[Step::Key("none")]), TEXT);
    let new = remove(&[params, Step::Item(0), Step::Key("type")]);
    assert!(new.contains("{parameterName: rate, minValue: 1e-5, maxValue: 1}"), "{new}");
    let new = remove(&[params, Step::Item(0), Step::Key("maxValue")]);
    assert!(new.contains("minValue: 1e-5}"), "{new}");
    let new = remove(&[params, Step::Item(1), Step::Key("parameterName")]);
    assert!(new.contains("    - type: INTEGER\n      minValue: 1  # at least\n"), "{new}");
    let new = remove(&[params, Step::Item(0)]);
    assert_eq!(difference(TEXT, &new).1, ["    - {parameterName: rate, type: DOUBLE, minValue: 1e-5, maxValue: 1}"]);
    let new = remove(&[params, Step::Item(1)]);
    assert!(new.ends_with("maxValue: 1}\n  tunesmith: {seed: 7}\n"), "{new}");

    let values = Plain::List(["a b", "relu", "2"].map(|text| Plain::Scalar(text.to_owned())).to_vec());
    let parameter = Plain::Mapping(vec![
        ("parameterName".to_owned(), Plain::Scalar("act".to_owned())),
        ("categoricalValues".to_owned(), values),
    ]);
    let new = edit(TEXT, &path(&[params]), &Edit::Append(parameter.clone())).unwrap();
    let line = "    - {parameterName: act, categoricalValues: [\"a b\", relu, 2]}";
    assert_eq!(difference(TEXT, &new), (vec![line], vec![]));
    let flow = "hyperparameters: {params: [{parameterName: x}]}";
    let new = edit(flow, &[Step::Key("hyperparameters"), params], &Edit::Append(parameter)).unwrap();
    assert_eq!(
        new,
        "hyperparameters: {params: [{parameterName: x}, {parameterName: act, categoricalValues: [\"a b\", relu, 2]}]}"
    );
}

#[test]
fn changes_that_would_affect_other_values_are_refused() {
    let shared = "a: &x {goal: MINIMIZE}\nb: *x\nc:\n  <<: *x\n  other: 1\n";
    let change = Edit::Set(Plain::Scalar("MAXIMIZE".to_owned()));
    for key in ["a", "b", "c"] {
        assert_eq!(edit(shared, &[Step::Key(key), Step::Key("goal")], &change), Err(EditError::Unsupported), "{key}");
    }
    assert_eq!(edit("a: [", &[Step::Key("a")], &change), Err(EditError::Unreadable));
    assert_eq!(edit("a: 1", &[Step::Key("a"), Step::Key("b")], &change), Err(EditError::Unsupported));
    assert_eq!(edit("", &[Step::Key("a")], &change), Err(EditError::Unreadable));
    let lists = "a:\n- [1, 2]\n- [3]\n";
    let new = edit(lists, &[Step::Key("a")], &Edit::Append(Plain::List(vec![Plain::Scalar("4".to_owned())])));
    assert_eq!(new.unwrap(), "a:\n- [1, 2]\n- [3]\n- [4]\n");
    assert_eq!(outline("a: [1, x, ~]"), Some(serde_json::json!({"a": ["1", "x", null]})));
}
