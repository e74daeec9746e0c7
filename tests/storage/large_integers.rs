//! Whole numbers above 2^53 are refused in every form, and never become another number.

use serde_json::{Value, json};
use tunesmith_config::parse;
use tunesmith_testing::Workspace;
use tunesmith_testing::client::client;
use tunesmith_testing::server::Server;

const JSON: &str = "content-type: application/json\r\n";
const STUDIES: &str = "/v1/projects/local/locations/local/studies";

/// 2^53 + 1, which is read as 2^53, in forms of YAML and JSON.
const FORMS: [&str; 6] = [
    "9007199254740993",
    "9007199254740993.0",
    "9.007199254740993e15",
    "9007199254740993e0",
    "\"9007199254740993.0\"",
    "-9007199254740993.0",
];

/// A job in JSON, which is also YAML, with these parameters and initial trials.
fn job(params: &str, initial: &str) -> String {
    format!(
        r#"{{"trainingInput": {{"masterConfig": {{"containerCommand": ["true"]}}, "hyperparameters": {{"goal": "MINIMIZE", "hyperparameterMetricTag": "loss", "maxTrials": 2,
            "params": [{params}]}}, "tunesmith": {{"initialTrials": [{initial}]}}}}}}"#
    )
}

fn integer(min: &str, max: &str) -> String {
    format!(r#"{{"parameterName": "n", "type": "INTEGER", "minValue": {min}, "maxValue": {max}}}"#)
}

#[test]
fn files_and_requests_with_large_whole_numbers_are_refused() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let refusals = |text: &str, id: &str| -> [String; 2] {
        let file = parse("job.yaml", text).map_or_else(|errors| errors.to_string(), |_| String::new());
        let body = format!(r#"{{"jobId": "{id}", {}"#, &text[1..]);
        let (status, answer) = server.send("POST", "/v1/projects/p/jobs", JSON, &body);
        [file, if status == 200 { String::new() } else { answer.to_string() }]
    };
    let limit = "9007199254740992";
    for (index, form) in FORMS.into_iter().enumerate() {
        let (min, max) = if form.starts_with('-') { (form, "1") } else { ("1", form) };
        let listed = if form.starts_with('-') { format!("{form}, 1") } else { format!("1, {form}") };
        let discrete = format!(r#"{{"parameterName": "d", "type": "DISCRETE", "discreteValues": [{listed}]}}"#);
        let wide = integer(&format!("-{limit}"), limit);
        for (what, text, expected) in [
            ("bound", job(&integer(min, max), ""), "is too large to be exact"),
            ("point", job(&discrete, ""), "is too large to be exact"),
            ("initial", job(&wide, &format!(r#"{{"n": {form}}}"#)), "initialTrials[0]"),
        ] {
            for refusal in refusals(&text, &format!("{what}{index}")) {
                assert!(refusal.contains(expected) && !refusal.is_empty(), "{text}: {refusal:?}");
            }
        }
    }
    // The limit itself is exact, as are floats of less.
    for (index, form) in [limit, "1e15", "9007199254740991.0"].into_iter().enumerate() {
        let text = job(&integer("1", form), &format!(r#"{{"n": {form}}}"#));
        assert_eq!(refusals(&text, &format!("exact{index}")), ["", ""], "{text}");
    }
    // A float of the limit's size may have been rounded by its reader.
    let [_, refusal] = refusals(&job(&integer("1", "9007199254740992.0"), ""), "float");
    assert!(refusal.contains("9.007199254740992e15 is too large to be exact"), "{refusal}");
}

#[test]
fn trials_with_large_whole_numbers_are_refused() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let parameters = json!([
        {"parameter": "n", "type": "INTEGER", "integerValueSpec": {"minValue": "1", "maxValue": "9007199254740992"}},
        {"parameter": "d", "type": "DISCRETE", "discreteValueSpec": {"values": [1, 9_007_199_254_740_992_i64]}},
    ]);
    let config =
        json!({"studyConfig": {"metrics": [{"metric": "loss", "goal": "MINIMIZE"}], "parameters": parameters}});
    let (status, answer) = server.post(&format!("{STUDIES}?studyId=s"), &config);
    assert_eq!(status, 200, "{answer}");
    let create = |n: &str, d: &str| -> (u16, Value) {
        let body = format!(
            r#"{{"parameters": [{{"parameter": "n", "intValue": {n}}}, {{"parameter": "d", "floatValue": {d}}}]}}"#
        );
        server.send("POST", &format!("{STUDIES}/s/trials"), JSON, &body)
    };
    for form in FORMS {
        for (n, d) in [(form, "1"), ("1", form)] {
            let (status, answer) = create(n, d);
            assert_eq!(status, 400, "{n} {d}: {answer}");
        }
    }
    let refused = create("1", "9007199254740993.0").1.to_string();
    assert!(refused.contains("too large to be exact; allowed: whole numbers from -2^53 to 2^53"), "{refused}");
    let (status, trial) = create("9007199254740992", "9007199254740992");
    assert_eq!(status, 200, "{trial}");
    assert_eq!(trial["parameters"].to_string().matches("9007199254740992").count(), 2, "{trial}");
    // The command line.
    let target = format!("http://{}", server.address);
    for (n, d) in
        [("9007199254740993", "1"), ("1", "9007199254740993"), ("1", "9007199254740993.0"), ("9007199254740993.0", "1")]
    {
        let (n, d) = (format!("n={n}"), format!("d={d}"));
        let args = ["trials", "create", "--study", "s", "--parameter", &n, "--parameter", &d];
        let done = client(&workspace, &args, &["--server", &target]);
        assert!(done.code != Some(0), "{n} {d}: {}{}", done.stdout, done.stderr);
    }
}
