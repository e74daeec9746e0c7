//! Reading YAML: flow collections, compared with PyYAML on a generated corpus, and the positions of later messages.
#![expect(clippy::unwrap_used, reason = "the lint does not recognise helpers of tests as tests")]

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use tunesmith_config::{ConfigErrors, HptuningConfig, outline, parse};
use tunesmith_testing::python;

/// A configuration in which `values` are the categories of the first of two parameters.
fn config(values: &str) -> String {
    format!(
        "trainingInput:
  hyperparameters:
    goal: MAXIMIZE
    params:
    - parameterName: kernel
      type: CATEGORICAL
      categoricalValues: {values}
    - parameterName: c
      type: DOUBLE
      minValue: 0
      maxValue: 1
"
    )
}

fn categories(config: Result<HptuningConfig, ConfigErrors>) -> Vec<String> {
    let config = config.unwrap_or_else(|errors| panic!("{errors}"));
    config.training_input.hyperparameters.unwrap().params.remove(0).categorical_values
}

/// The list of the samples of scikit-learn and XGBoost, and its variations.
#[test]
fn bracket_may_close_in_any_column() {
    let lists = [
        "[\n        \"linear\",\n        \"rbf\"\n      ]",
        "[\n        'linear',\n        'rbf'\n      ]",
        "[\n        linear,\n        rbf\n      ]",
        // In the column of the dash, at the start of the line, further right, and behind the last item.
        "[\n        \"linear\",\n        \"rbf\"\n    ]",
        "[\n        \"linear\",\n        \"rbf\"\n]",
        "[\n        \"linear\",\n        \"rbf\"\n            ]",
        "[\"linear\", \"rbf\"\n      ]",
        // Items in the column of the key, of the dash, and at the start of the line.
        "[\n      \"linear\",\n      \"rbf\"\n      ]",
        "[\n    \"linear\",\n    'rbf'\n    ]",
        "[\n\"linear\"\n,\n\"rbf\"\n]",
        // Comments, a comma at the end, anchors, quoted and plain scalars of several lines.
        "[  # the kernels\n        \"linear\",  # ] \"\n      # rbf\n        \"rbf\"  # ]\n      ]",
        "[\n        \"linear\",\n        \"rbf\",\n      ]",
        "&kernels [\n        &first \"linear\",\n        \"rbf\"\n      ]",
        "[\"lin\\\n      ear\", \"rbf\"\n      ]",
    ];
    for list in lists {
        let text = config(list);
        for text in [text.replace('\n', "\r\n"), text] {
            assert_eq!(categories(parse("c.yaml", &text)), ["linear", "rbf"], "{text}");
        }
    }
    for (list, expected) in [
        ("[\n      plain\n      words, \"quoted\n      words\"\n      ]", ["plain words", "quoted words"]),
        ("[\"a\n\n      b\", ']'\n]", ["a\nb", "]"]),
    ] {
        assert_eq!(categories(parse("c.yaml", &config(list))), expected, "{list}");
    }
}

#[test]
fn brace_may_close_in_any_column() {
    let braced = [
        "trainingInput: {\n  \"pythonModule\": \"trainer.task\"\n}\n",
        "trainingInput: {\n\"pythonModule\":\n\"trainer.task\"\n}\n",
        "trainingInput: { # {\n  'pythonModule': 'trainer.task' # }\n}\n",
        "trainingInput:\n  pythonModule: \"trainer.task\"\n  masterConfig: {\n    \"imageUri\": \"\"\n  }\n",
    ];
    for text in braced {
        let config = parse("c.yaml", text).unwrap_or_else(|errors| panic!("{text}{errors}"));
        assert_eq!(config.training_input.python_module, "trainer.task", "{text}");
    }
    let nested = "- {\n  \"a\": [\n  \"b\", {\n  \"c\": 'd'\n  }\n  ]\n}\n- [\n[\n\"e\"\n]\n]\n";
    assert_eq!(outline(nested), Some(serde_json::json!([{"a": ["b", {"c": "d"}]}, [["e"]]])));
}

#[test]
fn later_messages_keep_their_position() {
    for line_end in ["\n", "\r\n"] {
        for list in ["[\n        \"größe 😀\",\n        'rbf'\n      ]", "[\n\"größe 😀\", # ü\n\"rbf\"]"] {
            let text = config(list).replace("      minValue: 0\n", "      minValu: 0\n").replace('\n', line_end);
            let errors = parse("c.yaml", &text).unwrap_err();
            let found: Vec<_> =
                errors.diagnostics().iter().map(|one| (one.line, one.column, one.message.as_str())).collect();
            let line = text.lines().position(|line| line.contains("minValu:")).unwrap() + 1;
            assert_eq!(found, [(line, 7, "unknown field")], "{text}{errors}");
        }
    }
}

#[test]
fn wrong_indentation_and_unclosed_collections_are_found() {
    let cases = [
        // Block collections.
        ("hyperparameters:\n  goal: MAXIMIZE\n maxTrials: 3\n", 3),
        ("hyperparameters:\n    goal: MAXIMIZE\n  maxTrials: 3\n", 3),
        ("args:\n  - a\n - b\n", 3),
        ("args:\n- a\n  - b: c\n   d: e\n", 3),
        ("args:\n\t- a\n", 2),
        // Behind and inside flow collections.
        ("args: [\n\"a\"\n] b\n", 3),
        ("args: [\n\"a\"\n}\n", 3),
        ("args: [\n\"a\"\npythonModule: m\n", 3),
        ("args: [\n\"a\"\n---\n]\n", 3),
        ("args: [\n\"a\"\n...\n]\n", 3),
        ("args: [\n\"a\n---\nb\"]\n", 3),
    ];
    for (text, line) in cases {
        let errors = parse("c.yaml", text).unwrap_err();
        let first = &errors.diagnostics()[0];
        assert!(first.message.starts_with("cannot be parsed: "), "{text}{errors}");
        assert!(first.line.abs_diff(line) <= 2, "{text}{errors}");
    }
}

/// PyYAML ends a plain key at such a colon, as YAML 1.2 allows; ruamel.yaml refuses it, as here. A colon in front of other text
/// belongs to the key for both.
#[test]
fn colon_in_front_of_a_collection_needs_a_space() {
    let errors = parse("c.yaml", "trainingInput: {args:[a]}\n").unwrap_err().to_string();
    assert!(errors.contains("':' may not precede any of") && errors.contains("a space after the colon"), "{errors}");

    let list = json!({"a": ["b"]});
    let cases = [
        ("{a:[b]}", None, list.clone()),
        ("{a:{b: c}}", None, json!({"a": {"b": "c"}})),
        ("[a:[b]]", None, json!([list])),
        ("{a: [b]}", Some(list.clone()), list.clone()),
        ("{\"a\":[b]}", Some(list.clone()), list),
        ("{a:b}", Some(json!({"a:b": null})), json!({"a:b": null})),
    ];
    let python = python::interpreter(&["PyYAML==6.0.3"]);
    for (text, ours, theirs) in cases {
        let script = "import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.argv[1])))";
        let output = tunesmith_testing::program(&python).args(["-c", script, text]).output().unwrap();
        let read: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((outline(text), read), (ours, theirs), "{text}");
    }
}

/// The reason why `text` is refused.
fn refusal(text: &str) -> String {
    let errors = parse("c.yaml", text).unwrap_err();
    let message = errors.diagnostics()[0].message.clone();
    let parser = errors.diagnostics().iter().find_map(|one| one.message.strip_prefix("cannot be parsed: "));
    parser.map_or(message, str::to_owned)
}

/// The texts that only one of both accepts, by the reason of the other, and those that they read differently.
#[derive(Debug, Default)]
struct Differences {
    texts: usize,
    accepted_by_both: usize,
    refused_here: BTreeMap<String, Vec<String>>,
    refused_by_pyyaml: BTreeMap<String, Vec<String>>,
    read_differently: Vec<(String, Value, Value)>,
}

fn compare(arguments: &[&str]) -> Differences {
    let python = python::interpreter(&["PyYAML==6.0.3"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/yaml/corpus.py");
    let output = tunesmith_testing::program(python).arg(script).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut found = Differences::default();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let text = case["text"].as_str().unwrap();
        found.texts += 1;
        match (outline(text), case.get("value")) {
            (Some(ours), Some(theirs)) if ours == *theirs => found.accepted_by_both += 1,
            (Some(ours), Some(theirs)) => found.read_differently.push((text.to_owned(), ours, theirs.clone())),
            (Some(_), None) => {
                let problem = case["problem"].as_str().unwrap().to_owned();
                found.refused_by_pyyaml.entry(problem).or_default().push(text.to_owned());
            }
            (None, Some(_)) => found.refused_here.entry(refusal(text)).or_default().push(text.to_owned()),
            (None, None) => {}
        }
    }
    found
}

#[test]
fn generated_texts_are_read_as_by_pyyaml() {
    let found = compare(&["1", "4000"]);
    assert!(found.texts == 4000 && found.accepted_by_both > 3500, "{found:#?}");
    assert!(found.refused_here.is_empty() && found.refused_by_pyyaml.is_empty(), "{found:#?}");
    assert!(found.read_differently.is_empty(), "{found:#?}");
}

/// Reasons for which PyYAML, which reads YAML 1.1, refuses texts that YAML 1.2 allows.
const STRICTER_IN_PYYAML: [&str; 10] = [
    // Tabs that separate tokens.
    "found character '\\t' that cannot start any token",
    // Plain scalars that begin with or contain `?` or `:` in flow collections, and empty keys.
    "expected the node content, but found",
    "expected ',' or",
    "expected <block end>, but found ':'",
    // Anchors of other characters, and the same one twice.
    "expected alphabetic or numeric character",
    "that cannot start any token",
    "could not find expected ':'",
    "second occurrence",
    // Tags without a name.
    "expected URI",
    // Documents without `---` after the end of another one.
    "expected '<document start>'",
];

/// Reasons for which a text is refused here only.
const STRICTER_HERE: [&str; 7] = [
    // A text without a document, which PyYAML reads as null.
    "the file is empty",
    // `&0: {…}` in a flow mapping: the colon belongs to the name of the anchor in YAML 1.2, and the mapping is a key.
    "a list or mapping cannot be a key",
    // `"a"#b`, which YAML 1.2 refuses as well.
    "comments must be separated from other tokens by whitespace",
    // `[-]`, likewise.
    "plain scalar cannot start with '-'",
    // `{a:[b]}`; `{"a":[b]}` and `{a: [b]}` are read.
    "':' may not precede any of",
    // `&a: b`: the colon belongs to the name of the anchor in YAML 1.2.
    "did not find expected <document start>",
    "simple key expected ':'",
];

/// Whether `text` has what YAML 1.1 and 1.2 read differently: `?` in front of a plain scalar, and anchors whose name has other
/// characters than letters and digits.
fn is_read_by_another_rule(text: &str) -> bool {
    let is_of_name = |letter: char| letter.is_alphanumeric() || "-_".contains(letter);
    let anchors = text.split(['&', '*']).skip(1);
    text.contains('?')
        || anchors
            .map(|name| name.trim_start_matches(is_of_name))
            .any(|rest| !rest.is_empty() && !rest.starts_with([' ', '\n', '\r', ',', ']', '}']))
}

#[test]
fn damaged_texts_are_refused_as_by_pyyaml_or_for_a_known_difference() {
    let found = compare(&["1", "6000", "damaged"]);
    assert!(found.texts == 6000 && found.accepted_by_both > 2000, "{}", found.accepted_by_both);
    let differently: Vec<_> =
        found.read_differently.iter().filter(|(text, ..)| !is_read_by_another_rule(text)).collect();
    assert!(differently.is_empty(), "{differently:#?}");
    let unknown = |reasons: &BTreeMap<String, Vec<String>>, known: &[&str]| -> Vec<(usize, String, String)> {
        let of = |reason: &String| known.iter().any(|known| reason.contains(known));
        reasons
            .iter()
            .filter(|(reason, _)| !of(reason))
            .map(|(reason, texts)| {
                (texts.len(), reason.clone(), texts.iter().min_by_key(|text| text.len()).unwrap().clone())
            })
            .collect()
    };
    let stricter_here = unknown(&found.refused_here, &STRICTER_HERE);
    let stricter_there = unknown(&found.refused_by_pyyaml, &STRICTER_IN_PYYAML);
    assert!(stricter_here.is_empty() && stricter_there.is_empty(), "{stricter_here:#?}\n{stricter_there:#?}");
}
