use proptest::prelude::*;
use tunesmith_filter::{Comparison, Condition, Expression, Field, Fields, Filter, Kind, Restriction, Test, Value};

fn restriction(root: &str, name: Option<&str>, comparison: Comparison, text: &str, is_prefix: bool) -> Restriction {
    Restriction {
        field: Field { root: root.to_owned(), name: name.map(str::to_owned) },
        comparison,
        value: Value { text: text.to_owned(), is_prefix },
        column: 1,
        value_column: 1,
    }
}

fn leaf(root: &str, name: Option<&str>, comparison: Comparison, text: &str) -> Expression<Restriction> {
    Expression::Leaf(restriction(root, name, comparison, text, false))
}

#[test]
fn issue_example_parses() {
    let text =
        "state = SUCCEEDED AND parameters.learning_rate > 0.001 AND (labels.team:vision OR NOT metric.loss >= 0.5)";
    let expected = Expression::All(vec![
        leaf("state", None, Comparison::Equal, "SUCCEEDED"),
        leaf("parameters", Some("learning_rate"), Comparison::Greater, "0.001"),
        Expression::Any(vec![
            leaf("labels", Some("team"), Comparison::Has, "vision"),
            Expression::Not(Box::new(leaf("metric", Some("loss"), Comparison::GreaterOrEqual, "0.5"))),
        ]),
    ]);
    let filter: Filter = text.parse().unwrap();
    assert_eq!(filter.expression, expected);
    assert_eq!(filter.to_string(), text);
}

#[test]
fn values_and_names_may_be_quoted() {
    for (text, printed) in [
        (r#"parameters."learning rate"<=1"#, r#"parameters."learning rate" <= 1"#),
        (r#"parameters."a\"b\\c" = "x y""#, r#"parameters."a\"b\\c" = "x y""#),
        (r#"parameters.a.b = "plain""#, "parameters.a.b = plain"),
        (r#"metric.training/hptuning/metric < -1e-3"#, "metric.training/hptuning/metric < -1e-3"),
        ("id:abc*", "id:abc*"),
        (r#"id = "a b"*"#, r#"id = "a b"*"#),
        (r#"id = "AND""#, r#"id = "AND""#),
        ("createTime > 2026-11-23T08:00:00Z", "createTime > 2026-11-23T08:00:00Z"),
        ("((a:b))", "a:b"),
        ("NOT(a:b AND c:d)", "NOT (a:b AND c:d)"),
        ("  ", ""),
    ] {
        assert_eq!(text.parse::<Filter>().map(|filter| filter.to_string()).unwrap(), printed, "{text}");
    }
}

/// Original syntax of `jobs.list`: `attribute:value` joined by ` AND `, where a value is any text.
#[test]
fn values_after_a_colon_may_have_several_words_and_parentheses() {
    let value = |text: &str| match text.parse::<Filter>().unwrap().expression {
        Expression::Leaf(Restriction { value, .. }) => (value.text, value.is_prefix),
        other => panic!("{text}: {other:?}"),
    };
    for (text, expected) in [
        ("errorMessage:trial 3 failed (exit code 1)", ("trial 3 failed (exit code 1)", false)),
        ("errorMessage : the  trainer *", ("the  trainer ", true)),
        ("errorMessage:a) or (b", ("a) or (b", false)),
        (r#"errorMessage:"loss" was not reported*"#, (r#""loss" was not reported"#, true)),
        ("labels.team:", ("", false)),
        ("jobId:AND", ("AND", false)),
    ] {
        assert_eq!(value(text), (expected.0.to_owned(), expected.1), "{text}");
    }
    let both: Filter = "(errorMessage:no (more) memory OR state:FAILED) AND labels.a: AND jobId:b".parse().unwrap();
    assert_eq!(both.to_string(), r#"(errorMessage:"no (more) memory" OR state:FAILED) AND labels.a:"" AND jobId:b"#);
}

/// Syntax of `gcloud topic filters`.
#[test]
fn terms_side_by_side_lists_and_regular_expressions_are_those_of_gcloud() {
    for (text, printed) in [
        ("state=RUNNING labels.a=b", "state = RUNNING AND labels.a = b"),
        ("state:RUNNING labels.a:b", "state:RUNNING AND labels.a:b"),
        ("a:1 OR b:2 c:3", "(a:1 OR b:2) AND c:3"),
        ("a=1 b=2 OR c=3 d=4", "a = 1 AND (b = 2 OR c = 3) AND d = 4"),
        ("state:RUNNING NOT labels.a:b", "state:RUNNING AND NOT labels.a:b"),
        ("state:RUNNING (labels.a:b OR labels.c:d)", "state:RUNNING AND (labels.a:b OR labels.c:d)"),
        (r#"a:1 labels."x y"=2"#, r#"a:1 AND labels."x y" = 2"#),
        ("createTime>-P7D AND labels.team:vision", "createTime > -P7D AND labels.team:vision"),
        ("state=(A B)", "state = A OR state = B"),
        ("state:(A, B ,C)", "state:A OR state:B OR state:C"),
        ("jobId:(census* OR \"a b\")", "jobId:census* OR jobId:\"a b\""),
        ("state=(A)", "state = A"),
        ("state!=(A B) x=1", "(state != A AND state != B) AND x = 1"),
        ("NOT state=(A B)", "NOT (state = A OR state = B)"),
        ("(state=(A B) OR c=1)", "(state = A OR state = B) OR c = 1"),
        ("jobId~^census", "jobId ~ ^census"),
        (r"jobId ~ ^(a|b)_\d+$ state=A", r#"jobId ~ "^(a|b)_\\d+$" AND state = A"#),
        ("jobId !~ x*", r#"jobId !~ x*"#),
        // As published: no list, and no further restriction.
        ("errorMessage:(one)", r#"errorMessage:"(one)""#),
        ("errorMessage:disk full: no space", r#"errorMessage:"disk full: no space""#),
        ("errorMessage:(a b) c", r#"errorMessage:"(a b) c""#),
    ] {
        let filter: Filter = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(filter.to_string(), printed, "{text}");
        assert_eq!(filter.to_string().parse(), Ok(filter), "{text}");
    }
}

#[test]
fn regular_expressions_search_texts_and_are_bounded() {
    let accepts = |filter: &str, value: &str| {
        filter.parse::<Filter>().unwrap().check(&Sample).unwrap().holds(&mut |leaf| leaf.test.accepts_text(value))
    };
    assert!(accepts("id ~ ^ab", "abc") && accepts("id~b", "abc") && !accepts("id~^b", "abc"));
    assert!(accepts("id~ab*c", "xac") && !accepts("id~(?i)^B", "ab") && accepts("id~(?i)^B", "ba"));
    assert!(accepts("id!~^b", "abc") && !accepts("id!~^a", "abc") && accepts("state~SUCC|ACT", "ACTIVE"));
    for (text, expected) in [
        ("id ~ (a", "column 6: found \"(a\"; id needs a regular expression: unclosed group"),
        (
            "id ~ (x{999}){999}",
            "column 6: found \"(x{999}){999}\"; id needs a regular expression: is too large when compiled",
        ),
        ("metric.loss ~ 1", "column 15: found 1; metric.loss has no text, which ~ searches"),
        ("created !~ 2026", "column 12: found 2026; created has no text, which !~ searches"),
    ] {
        assert_eq!(text.parse::<Filter>().unwrap().check(&Sample).unwrap_err().to_string(), expected, "{text}");
    }
    let many = |count: usize| vec!["id~a"; count].join(" ").parse::<Filter>();
    assert!(many(10).is_ok());
    assert_eq!(many(11).unwrap_err().to_string(), "column 51: the filter has more than 10 regular expressions");
    let list = |count: usize| format!("id=({})", vec!["a"; count].join(" ")).parse::<Filter>();
    assert!(list(100).is_ok());
    assert_eq!(list(101).unwrap_err().to_string(), "column 205: the filter has more than 100 restrictions");
    // Exponential in backtracking engines.
    assert!(!accepts("id~^(a+)+$", &format!("{}!", "a".repeat(100_000))));
}

#[test]
fn errors_name_the_column_what_was_found_and_what_is_allowed() {
    for (text, expected) in [
        ("rnn", "column 4: found the end; expected one of : = != < <= > >= ~ !~ after rnn"),
        ("a = 1 and b = 2", "column 7: found \"and\"; expected AND, OR or the end: write AND in upper case"),
        ("a = 1 b", "column 7: found \"b\"; expected AND, OR or the end"),
        ("a = 1 AND", "column 10: found the end; expected a field, NOT or ("),
        ("a:1 AND b:2 OR c:3", "column 13: found OR after AND; use parentheses, as in a AND (b OR c)"),
        ("(a = 1", "column 7: found the end; expected AND, OR or ) for the parenthesis of column 1"),
        ("a = 1)", "column 6: found \")\"; expected AND, OR or the end"),
        ("ä = \"x", "column 5: found an opening quotation mark; the closing one is missing"),
        (r#"a = "\n""#, "column 6: found 'n' after a backslash; allowed are \\\" and \\\\"),
        ("parameters. = 1", "column 1: found \"parameters.\"; expected a name before and behind the point"),
        ("= 1", "column 1: found \"=\"; expected a field, NOT or ("),
        ("a > ", "column 5: found the end; expected a value, as in a > 0.5"),
    ] {
        assert_eq!(text.parse::<Filter>().unwrap_err().to_string(), expected, "{text}");
    }
    let deep = "(".repeat(10_000);
    let expected = "column 52: more than 50 parentheses and negations are nested";
    assert_eq!(deep.parse::<Filter>().unwrap_err().to_string(), expected);
    assert_eq!("NOT ".repeat(4_000).parse::<Filter>().unwrap_err().column, 51 * 4 + 1);
}

#[test]
fn length_and_number_of_restrictions_are_limited() {
    let spaces = |count: usize| format!("labels.a:{}x", " ".repeat(count)).parse::<Filter>();
    assert_eq!(spaces((16 << 10) - 10).unwrap().to_string(), "labels.a:x");
    let expected = "column 1: the filter has 60010 bytes; at most 16384 are allowed";
    assert_eq!(spaces(60_000).unwrap_err().to_string(), expected);
    let ids = |count: usize| vec!["(ä=1)"; count].join(" OR ").parse::<Filter>();
    match ids(100).unwrap().expression {
        Expression::Any(parts) => assert_eq!(parts.len(), 100),
        other => panic!("{other:?}"),
    }
    let expected = "column 902: the filter has more than 100 restrictions";
    assert_eq!(ids(101).unwrap_err().to_string(), expected);
}

struct Sample;

impl Fields for Sample {
    type Field = String;

    fn find(&self, root: &str, name: Option<&str>) -> Option<(String, Kind)> {
        let kind = match (root, name) {
            ("id", None) => Kind::Text,
            ("state", None) => Kind::Word(&["ACTIVE", "SUCCEEDED"]),
            ("metric", Some("loss")) => Kind::Number,
            ("created", None) => Kind::Time,
            ("early", None) => Kind::Flag,
            _ => return None,
        };
        Some((root.to_owned(), kind))
    }

    fn allowed(&self, root: &str) -> String {
        if root == "metric" { "metric.loss" } else { "id, state, metric.NAME, created, early" }.to_owned()
    }
}

fn test_of(text: &str) -> Test {
    match text.parse::<Filter>().expect("a filter").check(&Sample).expect("a filter of the sample") {
        Expression::Leaf(Condition { test, .. }) => test,
        other => panic!("{other:?}"),
    }
}

#[test]
fn values_are_compared_by_the_kind_of_their_field() {
    assert!(test_of("id:ab*").accepts_text("abc") && !test_of("id:ab").accepts_text("abc"));
    assert!(test_of("id = 0.5").accepts_text("0.5") && !test_of("id = 0.5").accepts_text("0.50"));
    for (text, accepted, refused) in [
        ("metric.loss = 0.5", 0.50, 0.4),
        ("metric.loss < 0.5", 0.4, 0.5),
        ("metric.loss <= 5e-1", 0.5, 0.6),
        ("metric.loss > -inf", -1.0, f64::NEG_INFINITY),
        ("metric.loss >= 1", 1.0, f64::NAN),
        ("metric.loss = NaN", f64::NAN, 0.0),
    ] {
        let test = test_of(text);
        assert!(test.accepts_number(accepted) && !test.accepts_number(refused), "{text}");
    }
    assert!(test_of("metric.loss:*").accepts_number(f64::NAN));
    let day = 24 * 3600 * 1_000_000;
    for (text, accepted, refused) in [
        ("created = 1970-01-02", day, 2 * day),
        ("created <= 1970-01-02", 2 * day - 1, 2 * day),
        ("created > 1970-01-02", 2 * day, 2 * day - 1),
        ("created >= 1970-01-02T00:00:00+00:00", day, day - 1),
        ("created < 1970-01-02T01:00:00+01:00", day - 1, day),
    ] {
        let test = test_of(text);
        assert!(test.accepts_time(accepted) && !test.accepts_time(refused), "{text}");
    }
    assert!(test_of("early = true").accepts_flag(true) && !test_of("early:true").accepts_flag(false));
    let not: Filter = "state != ACTIVE".parse().unwrap();
    let not = not.check(&Sample).unwrap();
    assert!(not.holds(&mut |leaf| leaf.test.accepts_text("SUCCEEDED")));
    assert!(!not.holds(&mut |leaf| leaf.test.accepts_text("ACTIVE")));
}

#[test]
fn values_of_another_kind_are_refused() {
    for (text, expected) in [
        ("loss > 1", "column 1: found the field loss; allowed: id, state, metric.NAME, created, early"),
        ("state:ACTIVE AND metric.lost > 1", "column 18: found the field metric.lost; allowed: metric.loss"),
        ("metric.loss > low", "column 15: found low; metric.loss needs a number, as in 0.001, 1e-3, inf or NaN"),
        ("state = active", "column 9: found active; state is one of ACTIVE, SUCCEEDED"),
        ("state = X*", "column 9: found X*; state is one of ACTIVE, SUCCEEDED"),
        ("state < ACTIVE", "column 1: found < after state, whose values have no order; allowed are : = !="),
        (
            "created > now",
            "column 11: found now; created needs a time, as in 2026-11-23T08:00:00Z, a day, as in 2026-11-23, or a time before now, as in -P7D",
        ),
        ("early = 1", "column 9: found 1; early is true or false"),
        (
            "metric.loss:1*",
            "column 13: found 1*; metric.loss has no text, so * is allowed only alone, after a colon, for any value",
        ),
    ] {
        assert_eq!(text.parse::<Filter>().unwrap().check(&Sample).unwrap_err().to_string(), expected, "{text}");
    }
}

fn any_restriction() -> impl Strategy<Value = Expression<Restriction>> {
    let comparisons = prop::sample::select(vec![
        Comparison::Has,
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
        Comparison::Matches,
    ]);
    let value =
        prop_oneof!["[ -~]{0,12}", any::<String>(), Just("AND".to_owned()), any::<f64>().prop_map(|x| x.to_string())];
    let name = prop::option::of(any::<String>().prop_filter("a name is not empty", |name| !name.is_empty()));
    ("[a-z][a-zA-Z]{0,6}", name, comparisons, value, any::<bool>()).prop_map(
        |(root, name, comparison, text, is_prefix)| {
            Expression::Leaf(restriction(&root, name.as_deref(), comparison, &text, is_prefix))
        },
    )
}

fn any_expression() -> impl Strategy<Value = Expression<Restriction>> {
    any_restriction().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(Expression::All),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Expression::Any),
            inner.prop_map(|part| Expression::Not(Box::new(part))),
        ]
    })
}

proptest! {
    #[test]
    fn printed_filters_parse_to_the_same(expression in any_expression()) {
        let filter = Filter { expression };
        let text = filter.to_string();
        prop_assert_eq!(text.parse::<Filter>(), Ok(filter), "{}", text);
    }

    #[test]
    fn any_text_is_a_filter_or_an_error(text in any::<String>()) {
        let _ = text.parse::<Filter>().map(|filter| filter.check(&Sample));
    }

    #[test]
    fn any_text_of_the_grammars_words_is_a_filter_or_an_error(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "AND", "OR", "NOT", "(", ")", " ", ",", "a", "id", "metric.loss", ":", "=", "!=", "~", "<", ">", "\"", "\\", "*", "1", "ä", ".",
            ]),
            0..30,
        )
    ) {
        if let Ok(filter) = words.concat().parse::<Filter>() {
            prop_assert_eq!(filter.to_string().parse::<Filter>(), Ok(filter.clone()));
            let _ = filter.check(&Sample);
        }
    }
}
