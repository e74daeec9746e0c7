//! Settings of the search in jobs and studies: algorithms, prior knowledge, stopping rules and their thresholds.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Finished, Workspace, finished};

const STUDIES: &str = "/v1/projects/p/locations/us-central1/studies";

const CONFIG: &str = "
hyperparameters:
  goal: MINIMIZE
  hyperparameterMetricTag: loss
  maxTrials: 5
  maxParallelTrials: 1
  algorithm: ALGORITHM
  params:
    - {parameterName: x, type: DOUBLE, minValue: 0, maxValue: 10}
    - {parameterName: n, type: INTEGER, minValue: 1, maxValue: 9}
tunesmith: {metricFromStdout: true, seed: 7}
";

/// Reports the value of `x`.
const TRAINER: [&str; 5] =
    ["--", "sh", "-c", r#"for arg in "$@"; do case "$arg" in --x=*) echo "loss=${arg#--x=}";; esac; done"#, "trainer"];

fn command(workspace: &Workspace, args: &[&str]) -> Finished {
    finished(workspace.command().args(args).output().unwrap())
}

fn study(more: &Value, tunesmith: &Value) -> Value {
    let mut config = json!({
        "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
        "parameters": [
            {"parameter": "x", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 10}},
            {"parameter": "n", "type": "INTEGER", "integerValueSpec": {"minValue": "1", "maxValue": "9"}}],
        "tunesmith": tunesmith,
    });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"studyConfig": config})
}

fn suggest(server: &Server, study: &str, count: u32) -> (Vec<Value>, String) {
    let body = json!({"clientId": "worker", "suggestionCount": count});
    let (status, operation) = server.post(&format!("{STUDIES}/{study}/trials:suggest"), &body);
    if status == 429 {
        // A published client takes this code for the end of the search.
        return (Vec::new(), "COMPLETED".to_owned());
    }
    assert_eq!(status, 200, "{operation}");
    let response = server.wait(operation)["response"].clone();
    let trials = response["trials"].as_array().cloned().unwrap_or_default();
    (trials, response["studyState"].as_str().unwrap().to_owned())
}

fn complete(server: &Server, trial: &Value, loss: f64) {
    let path = format!("/v1/{}:complete", trial["name"].as_str().unwrap());
    let body = json!({"finalMeasurement": {"metrics": [{"metric": "loss", "value": loss}]}});
    let (status, answer) = server.post(&path, &body);
    assert_eq!(status, 200, "{answer}");
}

/// The value of a parameter of a trial.
fn value(trial: &Value, name: &str) -> f64 {
    let parameters = trial["parameters"].as_array().unwrap();
    let parameter = parameters.iter().find(|parameter| parameter["parameter"] == name).unwrap();
    let integer = parameter["intValue"].as_str().map(|text| text.parse().unwrap());
    parameter["floatValue"].as_f64().or(integer).unwrap()
}

#[track_caller]
fn assert_refused((status, answer): (u16, Value), field: &str, description: &str) {
    assert_eq!(status, 400, "{answer}");
    let violations = answer["error"]["details"][0]["fieldViolations"].as_array().unwrap();
    let found = violations.iter().find(|violation| violation["field"] == field);
    assert_eq!(found.unwrap_or_else(|| panic!("{field} is not in {answer}"))["description"], description);
}

#[test]
fn jobs_run_and_resume_with_every_algorithm() {
    for (algorithm, origin) in [
        ("TPE", "TREE_STRUCTURED_PARZEN_ESTIMATOR"),
        ("CMA_ES", "CMA_ES"),
        ("QUASI_RANDOM_SEARCH", "QUASI_RANDOM_SEARCH"),
    ] {
        let config = CONFIG.replace("ALGORITHM", algorithm);
        let workspace = Workspace::new(&config);
        workspace.run(["--job-id", "j"].into_iter().chain(TRAINER)).expect(0);
        let before = workspace.column("x");
        assert_eq!(before.len(), 5, "{algorithm}");

        // The same job with more trials continues; a job with all of them from the start has the same ones.
        let longer = config.replace("maxTrials: 5", "maxTrials: 13");
        workspace.write("hptuning_config.yaml", &longer);
        workspace.run(["--job-id", "j", "--trials", "13"].into_iter().chain(TRAINER)).expect(0);
        let all = workspace.column("x");
        assert_eq!((all.len(), &all[..5]), (13, &before[..]), "{algorithm}");
        let whole = Workspace::new(&longer);
        whole.run(["--job-id", "j"].into_iter().chain(TRAINER)).expect(0);
        assert_eq!(whole.column("x"), all, "{algorithm}");

        let explained = command(&workspace, &["explain", "j", "--json"]).expect(0);
        let explained: Value = serde_json::from_str(&explained.stdout).unwrap();
        assert_eq!(explained["algorithm"], algorithm);
        assert_eq!(explained["choice"], Value::Null);
        let origins = explained["origins"].as_array().unwrap();
        assert!(origins.iter().all(|one| one["algorithm"] == origin), "{origins:?}");
        assert_eq!(origins.iter().map(|one| one["trials"].as_u64().unwrap()).sum::<u64>(), 13);
        let described = command(&workspace, &["jobs", "describe", "j", "--format", "json"]).expect(0);
        let described: Value = serde_json::from_str(&described.stdout).unwrap();
        assert_eq!(described["trainingInput"]["hyperparameters"]["algorithm"], algorithm);
    }
}

#[test]
fn studies_search_with_every_algorithm_also_after_a_restart() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let algorithms = ["TPE", "CMA_ES", "QUASI_RANDOM_SEARCH"];
    for algorithm in algorithms {
        let config = study(&json!({"algorithm": algorithm}), &json!({"seed": "3"}));
        let (status, created) = server.post(&format!("{STUDIES}?studyId={algorithm}"), &config);
        assert_eq!((status, &created["studyConfig"]["algorithm"]), (200, &json!(algorithm)), "{created}");
    }
    let run = |server: &Server, algorithm: &str| {
        for _ in 0..8 {
            let (trials, _) = suggest(server, algorithm, 1);
            let origin = trials[0]["tunesmith"]["origin"]["algorithm"].as_str().unwrap();
            let expected = if algorithm == "TPE" { "TREE_STRUCTURED_PARZEN_ESTIMATOR" } else { algorithm };
            assert_eq!(origin, expected);
            complete(server, &trials[0], (value(&trials[0], "x") - 3.0).abs() + value(&trials[0], "n"));
        }
    };
    algorithms.iter().for_each(|algorithm| run(&server, algorithm));
    server.kill();
    let server = Server::start(&workspace, &[]);
    for algorithm in algorithms {
        run(&server, algorithm);
        let (_, list) = server.get(&format!("{STUDIES}/{algorithm}/trials"));
        let xs: BTreeSet<String> =
            list["trials"].as_array().unwrap().iter().map(|trial| value(trial, "x").to_string()).collect();
        assert!(xs.len() >= 15, "{algorithm}: {xs:?}");
    }
}

#[test]
fn algorithm_that_cannot_search_the_space_is_refused_when_it_is_submitted() {
    let config = CONFIG.replace("ALGORITHM", "CMA_ES") + "\n";
    let categories =
        config.replace("type: INTEGER, minValue: 1, maxValue: 9", "type: CATEGORICAL, categoricalValues: [a, b]");
    let workspace = Workspace::new(&categories);
    let run = workspace.run(["--job-id", "j"].into_iter().chain(TRAINER)).expect(2);
    let expected = "CMA_ES cannot order the values of the CATEGORICAL \"n\"";
    assert!(run.stderr.contains(expected), "{}", run.stderr);
    assert!(run.stderr.contains("^ with CMA_ES only INTEGER, DOUBLE or DISCRETE"), "{}", run.stderr);
    let validate = command(&workspace, &["validate", "--config", "hptuning_config.yaml"]).expect(2);
    assert!(validate.stderr.contains(expected), "{}", validate.stderr);

    let server = Server::start(&workspace, &[]);
    let job = json!({"jobId": "j", "trainingInput": {
        "masterConfig": {"containerCommand": ["true"]},
        "hyperparameters": {"goal": "MINIMIZE", "algorithm": "CMA_ES", "params": [
            {"parameterName": "a", "type": "CATEGORICAL", "categoricalValues": ["u", "v"]},
            {"parameterName": "b", "type": "INTEGER", "minValue": 1, "maxValue": 2}]},
        "tunesmith": {"conditions": [{"parameter": "b", "parent": "a", "values": ["u"]}]}}});
    let answer = server.post("/v1/projects/p/jobs", &job);
    let allowed = "allowed: with CMA_ES only parameters that exist in every trial";
    let description = format!("CMA_ES cannot search the conditional parameter \"b\"; {allowed}");
    assert_refused(answer.clone(), "trainingInput.tunesmith.conditions[0]", &description);
    let description = "CMA_ES cannot order the values of the CATEGORICAL \"a\"; allowed: with CMA_ES only INTEGER, DOUBLE or \
                       DISCRETE";
    assert_refused(answer, "trainingInput.hyperparameters.params[0].type", description);
    let config = study(
        &json!({"algorithm": "CMA_ES", "parameters": [
            {"parameter": "a", "type": "CATEGORICAL", "categoricalValueSpec": {"values": ["u", "v"]}}]}),
        &json!({}),
    );
    let answer = server.post(&format!("{STUDIES}?studyId=s"), &config);
    assert_refused(answer, "studyConfig.parameters[0].type", description);
}

#[test]
fn studies_start_with_prior_knowledge_and_learn_from_source_studies() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let additions = json!({"seed": "3", "initialTrials": [{"x": 4.5}, {"x": "2", "n": 3}], "priors": [
        {"parameter": "n", "mode": 8, "confidence": "HIGH"}]});
    let (status, created) = server.post(&format!("{STUDIES}?studyId=first"), &study(&json!({}), &additions));
    assert_eq!(status, 200, "{created}");
    let (trials, _) = suggest(&server, "first", 2);
    let points: Vec<(f64, f64)> = trials.iter().map(|trial| (value(trial, "x"), value(trial, "n"))).collect();
    assert_eq!(points, [(4.5, 8.0), (2.0, 3.0)]);
    for trial in &trials {
        assert_eq!(trial["tunesmith"]["origin"]["algorithm"], "INITIAL_TRIALS");
        complete(&server, trial, value(trial, "x"));
    }

    // A study over a finite space does not repeat the points of a study that it continues.
    let finite = json!({"algorithm": "GRID_SEARCH", "parameters": [
        {"parameter": "x", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 2}}]});
    let create_with = |id: &str, continued: &[&str], related: &[&str]| {
        let additions = json!({"doubleResolution": {"x": 3}, "continuedStudies": continued, "priorStudies": related});
        server.post(&format!("{STUDIES}?studyId={id}"), &study(&finite, &additions))
    };
    let create = |id: &str, continued: &[&str]| create_with(id, continued, &[]);
    assert_eq!(create("a", &[]).0, 200);
    for _ in 0..2 {
        let (trials, _) = suggest(&server, "a", 1);
        complete(&server, &trials[0], 1.0);
    }
    assert_eq!(create("b", &["a"]).0, 200);
    let (trials, _) = suggest(&server, "b", 3);
    let xs: Vec<f64> = trials.iter().map(|trial| value(trial, "x")).collect();
    assert_eq!(xs, [2.0], "the grid has three points, of which the continued study has tried two");
    complete(&server, &trials[0], 1.0);
    // The studies that a continued study continues are included.
    assert_eq!(create("c", &["b"]).0, 200);
    assert_eq!(suggest(&server, "c", 1).0, Vec::<Value>::new());
    // Another study may have tried the same points.
    let (status, created) = create_with("e", &[], &["b"]);
    assert_eq!(status, 200, "{created}");
    let notices: Vec<&Value> = created["tunesmith"]["notices"].as_array().unwrap().iter().collect();
    let expected = json!({
        "field": "studyConfig.tunesmith.priorStudies",
        "description": "a: 0 of 2 trials are used: GRID_SEARCH does not learn from other studies; b: 0 of 1 trials are used: \
                        GRID_SEARCH does not learn from other studies"});
    assert_eq!(notices, [&expected]);
    assert_eq!(suggest(&server, "e", 3).0.len(), 3);
    let expected = "\"nowhere\" is not a study; allowed: IDs of studies at the location \"us-central1\"";
    assert_refused(create("d", &["a", "nowhere"]), "studyConfig.tunesmith.continuedStudies[1]", expected);
    assert_refused(create("d", &["a", "a"]), "studyConfig.tunesmith.continuedStudies[1]", "\"a\" is given twice");
    let twice = create_with("d", &["a"], &["b", "a"]);
    assert_refused(twice, "studyConfig.tunesmith.priorStudies[1]", "\"a\" is given twice");
}

#[test]
fn related_study_informs_the_search_in_any_unit_until_it_contradicts_the_results() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let space = json!({"algorithm": "GAUSSIAN_PROCESS_BANDIT", "parameters": [
        {"parameter": "x", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}]});
    let create = |id: &str, additions: Value| {
        let (status, created) = server.post(&format!("{STUDIES}?studyId={id}"), &study(&space, &additions));
        assert_eq!(status, 200, "{created}");
    };
    let run = |id: &str, trials: usize, result: &dyn Fn(f64) -> f64| -> Vec<f64> {
        let one = |_| {
            let (trials, _) = suggest(&server, id, 1);
            let x = value(&trials[0], "x");
            complete(&server, &trials[0], result(x));
            x
        };
        (0..trials).map(one).collect()
    };
    let use_of = |id: &str| {
        let (status, view) = server.get(&format!("{STUDIES}/{id}/views/sourceStudies"));
        assert_eq!(status, 200, "{view}");
        view["sources"].as_array().unwrap().clone()
    };
    let bowl = |x: f64| (x - 0.2).powi(2);
    create("other-unit", json!({"seed": "3"}));
    let tried = run("other-unit", 10, &|x| 5000.0 + 1000.0 * bowl(x));
    let best = tried.iter().copied().min_by(|a, b| bowl(*a).total_cmp(&bowl(*b))).unwrap();
    create("same-shape", json!({"seed": "4", "priorStudies": ["other-unit"]}));
    assert_eq!(use_of("same-shape")[0]["share"], 1.0, "the model is that of the source study");
    let first = run("same-shape", 4, &bowl);
    assert_eq!(first[0], best, "the first trial is at the best point of the source study");
    let used = &use_of("same-shape")[0];
    assert_eq!(
        (&used["study"], &used["relation"], &used["ownTrials"]),
        (&json!("other-unit"), &json!("RELATED"), &json!(0))
    );
    assert_eq!(used["otherTrials"], 10);
    assert!(used["rankCorrelation"].as_f64().unwrap() > 0.5, "{used}");
    create("contradicted", json!({"seed": "4", "priorStudies": ["other-unit"]}));
    run("contradicted", 3, &|x| -bowl(x));
    let dropped = &use_of("contradicted")[0];
    assert_eq!(dropped["share"], 0.0, "{dropped}");
    assert!(dropped["rankCorrelation"].as_f64().unwrap() < 0.0, "{dropped}");
    // A study of the same program may state so.
    create("continued", json!({"seed": "4", "continuedStudies": ["same-shape"]}));
    let sources = use_of("continued");
    let uses: Vec<(&Value, &Value)> =
        sources.iter().map(|source| (&source["relation"], &source["ownTrials"])).collect();
    assert_eq!(uses, [(&json!("RELATED"), &json!(0)), (&json!("CONTINUED"), &json!(4))]);
}

#[test]
fn three_reports_are_enough_for_every_rule_where_trials_have_three() {
    // The last trial is bad from its first report, and runs until it is stopped.
    let trainer = r#"x="${1#--x=}"
for step in 1 2 3; do
  if [ "$x" = LAST ]; then [ $step -gt 2 ] || echo "loss=9 step=$step"; else echo "loss=0.$x step=$step"; fi
done
if [ "$x" = LAST ]; then exec tail -f /dev/null; fi
"#;
    for (rule, settings, good) in [
        ("MEDIAN", "{}", 5),
        ("MEDIAN", "{minTrials: 2, minReports: 2}", 2),
        ("DECAY_CURVE", "{}", 5),
        ("DECAY_CURVE", "{minTrials: 3, maxProbability: 0.2}", 3),
        ("ASHA", "{}", 2),
        ("ASHA", "{eta: 4, minResource: 2}", 3),
    ] {
        let last = good + 1;
        let workspace = Workspace::new(&format!(
            "
hyperparameters:
  goal: MINIMIZE
  hyperparameterMetricTag: loss
  maxTrials: {last}
  algorithm: GRID_SEARCH
  enableTrialEarlyStopping: true
  params:
    - {{parameterName: x, type: INTEGER, minValue: 1, maxValue: {last}}}
tunesmith: {{metricFromStdout: true, trialTimeLimit: 60s, earlyStopping: {rule}, earlyStoppingSettings: {settings}}}
"
        ));
        workspace.write("train.sh", &trainer.replace("LAST", &last.to_string()));
        let run = workspace.run(["--parallel", "1", "--", "sh", "train.sh"]).expect(0);
        let stopped = run.stderr.contains(&format!("trial {last} is stopped early"));
        assert!(stopped, "{rule} {settings}: {}", run.stderr);
        let job = workspace.job();
        let ended = job["trainingOutput"]["trials"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(
            (&ended["trialId"], &ended["isTrialStoppedEarly"]),
            (&last.to_string().into(), &true.into()),
            "{rule}"
        );
    }
}

#[test]
fn thresholds_of_another_rule_are_refused() {
    let config = CONFIG.replace("ALGORITHM", "TPE").replace("seed: 7", "earlyStoppingSettings: {eta: 4}");
    let workspace = Workspace::new(&config.replace("maxTrials: 5", "enableTrialEarlyStopping: true"));
    let refused = command(&workspace, &["validate", "--config", "hptuning_config.yaml"]).expect(2);
    assert!(refused.stderr.contains("is not a threshold of DECAY_CURVE"), "{}", refused.stderr);
    let own = "with DECAY_CURVE: minTrials, minReports, minProgress, maxProbability";
    assert!(refused.stderr.contains(own), "{}", refused.stderr);
}

#[test]
fn study_ends_by_its_rules_with_a_reason() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let additions = json!({"seed": "3", "studyStoppingConfig": {"maxNumTrialsNoProgress": 3, "minNumTrials": 5}});
    assert_eq!(server.post(&format!("{STUDIES}?studyId=s"), &study(&json!({}), &additions)).0, 200);
    for loss in [2.0, 1.0, 3.0, 3.0] {
        let (trials, _) = suggest(&server, "s", 1);
        complete(&server, &trials[0], loss);
    }
    server.kill();
    let server = Server::start(&workspace, &[]);
    let (trials, state) = suggest(&server, "s", 1);
    assert_eq!(state, "ACTIVE");
    complete(&server, &trials[0], 1.0);
    let (trials, state) = suggest(&server, "s", 2);
    assert_eq!((trials.len(), state.as_str()), (0, "COMPLETED"));
    let (_, study) = server.get(&format!("{STUDIES}/s"));
    let reason = "3 trials in a row were not better than trial 2";
    assert_eq!((&study["state"], &study["tunesmith"]["stateReason"]), (&json!("COMPLETED"), &json!(reason)));
    let url = format!("http://{}", server.address);
    let place = ["--project", "p", "--region", "us-central1", "--server", &url];
    let described = command(&workspace, &[&["studies", "describe", "s"][..], &place].concat()).expect(0);
    assert!(described.stdout.contains(reason), "{}", described.stdout);

    let limit = json!({"studyStoppingConfig": {"maximumRuntimeConstraint": {"endTime": "2020-01-31T12:00:00Z"}}});
    assert_eq!(server.post(&format!("{STUDIES}?studyId=late"), &self::study(&json!({}), &limit)).0, 200);
    assert_eq!(suggest(&server, "late", 1), (Vec::new(), "COMPLETED".to_owned()));
    let (_, late) = server.get(&format!("{STUDIES}/late"));
    assert_eq!(late["tunesmith"]["stateReason"], "the end time 2020-01-31T12:00:00Z of the study is reached");
    let several = json!({"metrics": [{"metric": "a"}, {"metric": "b"}]});
    let refused = server.post(&format!("{STUDIES}?studyId=two"), &self::study(&several, &additions));
    let description = "the study has 2 metrics, which have no single order; allowed: only with one metric";
    assert_refused(refused, "studyConfig.tunesmith.studyStoppingConfig.maxNumTrialsNoProgress", description);
}

#[test]
fn study_ends_when_little_is_to_be_gained() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let parameters = json!({"parameters": [
        {"parameter": "x", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}]});
    let mut counts = Vec::new();
    for (id, rules, expected) in [
        ("coarse", json!({"minExpectedGain": 0.05}), "COMPLETED"),
        ("fine", json!({"minExpectedGain": 0.001}), "COMPLETED"),
        ("later", json!({"minExpectedGain": 0.05, "minNumTrials": 21}), "ACTIVE"),
    ] {
        let additions = json!({"seed": "3", "studyStoppingConfig": rules});
        assert_eq!(server.post(&format!("{STUDIES}?studyId={id}"), &study(&parameters, &additions)).0, 200);
        let (mut last, mut count) = (String::new(), 0);
        for _ in 0..20 {
            let (trials, state) = suggest(&server, id, 1);
            last = state;
            let [trial] = &trials[..] else { break };
            complete(&server, trial, (value(trial, "x") - 0.37).powi(2));
            count += 1;
        }
        assert_eq!(last, expected, "{id}");
        counts.push(count);
    }
    assert!(counts[0] >= 5 && counts[0] <= counts[1] && counts[1] < 20 && counts[2] == 20, "{counts:?}");
    let (_, coarse) = server.get(&format!("{STUDIES}/coarse"));
    let reason = coarse["tunesmith"]["stateReason"].as_str().unwrap();
    assert!(
        reason.starts_with("a further trial is expected to gain ") && reason.ends_with("less than 0.05"),
        "{reason}"
    );
}

#[test]
fn job_ends_by_its_rules_with_a_reason() {
    let config = CONFIG.replace("ALGORITHM", "RANDOM_SEARCH").replace("maxTrials: 5", "maxTrials: 20");
    let rules = "seed: 7, studyStoppingConfig: {maxNumTrialsNoProgress: 4}";
    let workspace = Workspace::new(&config.replace("seed: 7", rules));
    let validated = command(&workspace, &["validate", "--config", "hptuning_config.yaml"]).expect(0);
    assert!(validated.stdout.contains("the job ends    after 4 trials without progress\n"), "{}", validated.stdout);
    let trainer = ["--job-id", "j", "--", "sh", "-c", "echo loss=5", "trainer"];
    let run = workspace.run(trainer).expect(0);
    let reason = "4 trials in a row were not better than trial 1";
    assert!(run.stdout.contains(&format!("no further trials after 5: {reason}\n")), "{}", run.stdout);
    assert_eq!(workspace.column("state"), ["SUCCEEDED"; 5]);
    let job = workspace.job();
    assert_eq!((&job["state"], &job["tunesmith"]["studyStateReason"]), (&json!("SUCCEEDED"), &json!(reason)));
    let described = command(&workspace, &["jobs", "describe", "j"]).expect(0);
    assert!(described.stdout.contains(reason), "{}", described.stdout);
}

#[test]
fn every_algorithm_starts_with_initial_trials_and_prior_modes() {
    for algorithm in ["GAUSSIAN_PROCESS_BANDIT", "RANDOM_SEARCH", "GRID_SEARCH", "TPE", "CMA_ES", "QUASI_RANDOM_SEARCH"]
    {
        let config = "
hyperparameters:
  goal: MAXIMIZE
  hyperparameterMetricTag: score
  maxTrials: 4
  maxParallelTrials: 1
  algorithm: ALGORITHM
  params:
    - {parameterName: a, type: INTEGER, minValue: 1, maxValue: 5}
    - {parameterName: b, type: DISCRETE, discreteValues: [1, 2, 4]}
tunesmith:
  metricFromStdout: true
  priors:
    - {parameter: a, mode: 5, confidence: HIGH}
  initialTrials:
    - {a: 2, b: 4}
    - {b: 1}
    - {a: 2, b: 4}
";
        let workspace = Workspace::new(&config.replace("ALGORITHM", algorithm));
        workspace.run(["--", "sh", "-c", "echo score=1", "trainer"]).expect(0);
        let trials: Vec<(String, String)> =
            workspace.trials().into_iter().map(|trial| (trial["a"].clone(), trial["b"].clone())).collect();
        let first = [("2", "4"), ("5", "1")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(trials[..2], first, "{algorithm}");
        let different: BTreeSet<_> = trials.iter().collect();
        assert_eq!((trials.len(), different.len()), (4, 4), "{algorithm}: {trials:?}");
    }
}

#[test]
fn job_over_a_changed_space_starts_at_the_best_point_of_the_previous_one() {
    let workspace = Workspace::new(
        "
hyperparameters:
  goal: MAXIMIZE
  hyperparameterMetricTag: score
  maxTrials: 6
  algorithm: GRID_SEARCH
  params:
    - {parameterName: a, type: INTEGER, minValue: 1, maxValue: 6}
tunesmith: {metricFromStdout: true, seed: 3}
",
    );
    // The score is the value of the parameter, so 6 is the best.
    let trainer = ["--", "sh", "-c", "echo score=${1##*=}", "trainer"];
    let job = |id: &'static str| ["--job-id", id].into_iter().chain(trainer);
    workspace.run(job("first")).expect(0);
    let next = "
hyperparameters:
  goal: MAXIMIZE
  hyperparameterMetricTag: score
  maxTrials: 1
  resumePreviousJobId: first
  params:
    - {parameterName: a, type: DOUBLE, minValue: 0, maxValue: 10}
    - {parameterName: z, type: CATEGORICAL, categoricalValues: [p, q]}
tunesmith: {metricFromStdout: true, seed: 3}
";
    workspace.write("hptuning_config.yaml", next);
    workspace.run(job("second")).expect(0);
    assert_eq!((workspace.column("a"), workspace.column("z")), (vec!["6.0".to_owned()], vec!["p".to_owned()]));
}
