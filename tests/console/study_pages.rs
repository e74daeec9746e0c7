//! Studies that belong to no job in the console: their pages, their actions, and studies of unusual kinds.

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::access::{bearer, token};
use tunesmith_testing::console::browse;
use tunesmith_testing::server::Server;

const STUDIES: &str = "/v1/projects/p/locations/l/studies";

/// Text that is a script or an attribute where it is not escaped, and letters of several scripts.
const PAYLOAD: &str = "Größe 学習率 <img src=x onerror=injected()> \"'&</script>";

fn real(name: &str) -> Value {
    json!({"parameter": name, "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}})
}

fn value(name: &str, value: f64) -> Value {
    json!({"parameter": name, "floatValue": value})
}

/// Numbers from 0 to 1 without an order that a model could find.
fn scattered(seed: usize) -> f64 {
    (seed as f64 * 0.618_033_988_749_895).fract()
}

struct Studies<'a> {
    server: &'a Server,
    headers: String,
}

impl Studies<'_> {
    fn post(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.server.send("POST", path, &self.headers, &body.to_string());
        assert_eq!(status, 200, "{path} {body}: {answer}");
        answer
    }

    fn create(&self, id: &str, metrics: &Value, parameters: &[Value], tunesmith: &Value) {
        let config =
            json!({"metrics": metrics, "parameters": parameters, "tunesmith": tunesmith, "algorithm": "RANDOM_SEARCH"});
        self.post(&format!("{STUDIES}?studyId={id}"), &json!({"studyConfig": config}));
    }

    /// Adds a trial with results; with none, an infeasible one.
    fn add(&self, id: &str, parameters: &[Value], results: &[(&str, Value)]) {
        let results: Vec<Value> =
            results.iter().map(|(metric, value)| json!({"metric": metric, "value": value})).collect();
        let body = if results.is_empty() {
            json!({"parameters": parameters, "trialInfeasible": true, "infeasibleReason": PAYLOAD})
        } else {
            json!({"parameters": parameters, "finalMeasurement": {"stepCount": "3", "metrics": results}})
        };
        self.post(&format!("{STUDIES}/{id}/trials"), &body);
    }

    /// 60 parameters with long names, of which two matter.
    fn wide(&self) {
        let name = |index: usize| format!("encoder.layers.{index:02}.attention.dropout_probability");
        let parameters: Vec<Value> = (0..60).map(|index| real(&name(index))).collect();
        self.create(
            "wide",
            &json!([{"metric": "validation/loss_after_the_last_epoch", "goal": "MINIMIZE"}]),
            &parameters,
            &json!({}),
        );
        for trial in 0..64 {
            let at = |index: usize| scattered(trial * 61 + index * 7 + 1);
            let parameters: Vec<Value> = (0..60).map(|index| value(&name(index), at(index))).collect();
            let loss = (at(3) - 0.4).powi(2) + 0.5 * at(41);
            self.add("wide", &parameters, &[("validation/loss_after_the_last_epoch", json!(loss))]);
        }
    }

    fn conditional(&self) {
        let child = |name: &str, parent: &str, low: f64| {
            json!({"parameter": name, "type": "DOUBLE", "doubleValueSpec": {"minValue": low, "maxValue": 1},
                   "parentCategoricalValues": {"values": [parent]}})
        };
        let optimizer = json!({
            "parameter": "optimizer", "type": "CATEGORICAL", "categoricalValueSpec": {"values": ["adam", "sgd"]},
            "childParameterSpecs": [child("momentum", "sgd", 0.1), child("beta", "adam", 0.0), child("decay", "adam", 0.0), child("decay", "sgd", 0.2)],
        });
        let depth =
            json!({"parameter": "depth", "type": "INTEGER", "integerValueSpec": {"minValue": "1", "maxValue": "9"}});
        self.create(
            "conditional",
            &json!([{"metric": "loss", "goal": "MINIMIZE"}]),
            &[optimizer, depth],
            &json!({"maxTrials": "20"}),
        );
        for trial in 0..16_usize {
            let at = |index: usize| 0.2 + 0.8 * scattered(trial * 5 + index);
            let (name, first) = if trial % 2 == 0 { ("sgd", "momentum") } else { ("adam", "beta") };
            let parameters = [
                json!({"parameter": "optimizer", "stringValue": name}),
                json!({"parameter": "depth", "intValue": (1 + trial % 9).to_string()}),
                value(first, at(0)),
                value("decay", at(1)),
            ];
            self.add("conditional", &parameters, &[("loss", json!(at(0) + at(1)))]);
        }
    }

    fn three_metrics(&self) {
        let metrics = json!([{"metric": "accuracy", "goal": "MAXIMIZE"}, {"metric": "latency", "goal": "MINIMIZE"}, {"metric": "size", "goal": "MINIMIZE"}]);
        self.create("three", &metrics, &[real("x"), real("y")], &json!({}));
        for trial in 0..16_usize {
            let (x, y) = (scattered(trial + 1), scattered(trial * 3 + 2));
            let results = [("accuracy", json!(x)), ("latency", json!(x * x + y)), ("size", json!(1.0 - y))];
            self.add("three", &[value("x", x), value("y", y)], &results);
        }
    }

    /// A limit that half of the trials violate.
    fn constrained(&self) {
        let metrics = json!([{"metric": "loss", "goal": "MINIMIZE"},
                             {"metric": "latency", "goal": "MINIMIZE", "safetyConfig": {"safetyThreshold": 0.5}}]);
        self.create("constrained", &metrics, &[real("x"), real("y")], &json!({}));
        for trial in 0..12_usize {
            let (x, y) = (scattered(trial + 1), scattered(trial * 3 + 2));
            self.add(
                "constrained",
                &[value("x", x), value("y", y)],
                &[("loss", json!(x)), ("latency", json!(1.0 - x))],
            );
        }
    }

    /// Results that are not finite, and trials without a result.
    fn failures(&self) {
        self.create("failures", &json!([{"metric": "loss", "goal": "MINIMIZE"}]), &[real("x")], &json!({}));
        for trial in 0..20_usize {
            let x = scattered(trial + 1);
            let result = match trial % 4 {
                0 => json!("NaN"),
                1 => json!("Infinity"),
                _ => json!(x),
            };
            let results = [("loss", result)];
            self.add("failures", &[value("x", x)], if trial % 5 == 4 { &[] } else { &results });
        }
    }

    /// Names in which every character may go wrong.
    fn names(&self) {
        let metric = json!([{"metric": PAYLOAD, "goal": "MAXIMIZE"}]);
        let category = json!({"parameter": PAYLOAD, "type": "CATEGORICAL", "categoricalValueSpec": {"values": [PAYLOAD, "plain"]}});
        self.create("names", &metric, &[category, real("*")], &json!({}));
        for trial in 0..8_usize {
            let x = scattered(trial + 1);
            let level = json!({"parameter": PAYLOAD, "stringValue": if trial % 2 == 0 { PAYLOAD } else { "plain" }});
            let results = [(PAYLOAD, json!(x))];
            self.add("names", &[level, value("*", x)], if trial == 7 { &[] } else { &results });
        }
        let suggested =
            self.post(&format!("{STUDIES}/names/trials:suggest"), &json!({"suggestionCount": 1, "clientId": PAYLOAD}));
        assert!(suggested["name"].is_string(), "{suggested}");
    }
}

#[test]
fn studies_of_every_kind_are_shown_to_those_who_may_see_them() {
    let workspace = Workspace::new("");
    let admin = token(&workspace, &["--principal", "user:admin@x", "--role", "ml.admin"]);
    let viewer = token(&workspace, &["--principal", "user:view@x", "--role", "ml.viewer@p"]);
    let stranger = token(&workspace, &["--principal", "user:other@x", "--role", "ml.viewer@q"]);
    let server = Server::start(&workspace, &[]);
    let studies = Studies { server: &server, headers: format!("{}content-type: application/json\r\n", bearer(&admin)) };
    studies.wide();
    studies.conditional();
    studies.three_metrics();
    studies.constrained();
    studies.failures();
    studies.names();
    let loss = json!([{"metric": "loss", "goal": "MINIMIZE"}]);
    for id in ["one", "none"] {
        studies.create(id, &loss, &[real("x")], &json!({"maxTrials": "3"}));
    }
    studies.add("one", &[value("x", 0.5)], &[("loss", json!(0.25))]);

    // The pages of a study need a role in its project.
    let page = |path: &str, token: &str| server.exchange("GET", path, &bearer(token), "");
    let study = "/console/projects/p/locations/l/studies/one";
    for path in ["", "/trials", "/trials/1", "/explore", "/trust", "/configuration", "/report"] {
        assert_eq!(page(&format!("{study}{path}"), &viewer).0, 200, "{path}");
        assert_eq!(page(&format!("{study}{path}"), &stranger).0, 403, "{path}");
    }
    assert!(!page("/console/jobs", &stranger).1.contains("three"), "a study of another project is not listed");
    assert!(!page(study, &viewer).1.contains("data-method="), "a viewer sees no action");
    assert_eq!(page("/console/projects/p/locations/jobs/studies/one", &viewer).0, 404);
    let refused = server.send("DELETE", &format!("{STUDIES}/one"), &bearer(&viewer), "");
    assert_eq!(refused.0, 403);

    // A study that has ended states why.
    studies.create("ended", &loss, &[real("x")], &json!({"maxTrials": "1"}));
    studies.add("ended", &[value("x", 0.5)], &[("loss", json!(0.25))]);
    let suggest = json!({"suggestionCount": 1, "clientId": "c"}).to_string();
    let suggest = server.send("POST", &format!("{STUDIES}/ended/trials:suggest"), &studies.headers, &suggest);
    assert_eq!((suggest.0, &suggest.1["error"]["status"]), (429, &json!("RESOURCE_EXHAUSTED")));
    let (_, ended) = server.send("GET", &format!("{STUDIES}/ended"), &studies.headers, "");
    let reason = ended["tunesmith"]["stateReason"].as_str().unwrap();
    let shown = page("/console/projects/p/locations/l/studies/ended", &viewer).1;
    assert!(shown.contains(&format!("<dt>Ended because</dt><dd>{reason}")), "{reason}\n{shown}");
    assert!(page("/console/jobs", &viewer).1.contains(reason));
    assert_eq!(server.send("DELETE", &format!("{STUDIES}/ended"), &studies.headers, "").0, 200);

    browse("study_pages.py", &server, &[&admin, &viewer]);
}
