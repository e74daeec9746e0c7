use serde_json::json;

use super::*;

fn import(text: &str) -> Result<Imported, ConfigErrors> {
    wandb(&Document::parse("sweep.yaml", text.to_owned()).unwrap(), Options::default())
}

/// Paths and lines of the errors of `text`.
fn errors(text: &str) -> Vec<(String, usize)> {
    let errors = import(text).unwrap_err();
    errors.diagnostics().iter().map(|it| (it.field.clone(), it.line)).collect()
}

const SWEEP: &str = "
program: train.py
method: bayes
name: first
metric: {name: val_loss, goal: minimize}
parameters:
  learning_rate: {distribution: log_uniform_values, min: 1e-4, max: 0.1}
  batch_size: {values: [32, 16, 64]}
  optimizer: {values: [adam, sgd, null, true], probabilities: [0.4, 0.4, 0.1, 0.1]}
  layers: {min: 1, max: 4}
  dropout: {distribution: q_uniform, min: 0, max: 0.5, q: 0.1}
  epochs: {value: 5}
early_terminate: {type: hyperband, min_iter: 3}
run_cap: 20
";

#[test]
fn sweep_becomes_a_job_with_the_same_command() {
    let imported = import(SWEEP).unwrap();
    let input = serde_json::to_value(&imported.training_input).unwrap();
    assert_eq!(input["masterConfig"]["containerCommand"], json!(["/usr/bin/env", "python3", "train.py", "--epochs=5"]));
    let spec = &input["hyperparameters"];
    assert_eq!((&spec["goal"], &spec["hyperparameterMetricTag"]), (&json!("MINIMIZE"), &json!("val_loss")));
    assert_eq!((&spec["maxTrials"], &spec["enableTrialEarlyStopping"]), (&json!(20), &json!(true)));
    let params = spec["params"].as_array().unwrap();
    let named = |name: &str| params.iter().find(|param| param["parameterName"] == name).unwrap();
    assert_eq!(named("batch_size")["discreteValues"], json!([16, 32, 64]));
    assert_eq!(named("optimizer")["categoricalValues"], json!(["adam", "sgd", "None", "True"]));
    assert_eq!(named("dropout")["discreteValues"], json!([0, 0.1, 0.2, 0.3, 0.4, 0.5]));
    assert_eq!(named("layers")["type"], "INTEGER");
    let rate = named("learning_rate");
    assert_eq!(
        (&rate["minValue"], &rate["maxValue"], &rate["scaleType"]),
        (&json!(0.0001), &json!(0.1), &json!("UNIT_LOG_SCALE"))
    );
    let settings = &input["tunesmith"];
    assert_eq!(
        (&settings["earlyStopping"], &settings["earlyStoppingSettings"]["minResource"]),
        (&json!("ASHA"), &json!("3"))
    );
    assert_eq!(settings["priors"][0]["weights"]["adam"], 0.4);
    assert!(imported.losses.is_empty(), "{:?}", imported.losses);
    let text = serde_json::to_string(&json!(input)).unwrap();
    tunesmith_config::parse("imported.json", &text).unwrap_or_else(|errors| panic!("{errors}"));
}

#[test]
fn macros_of_a_command_name_parameters() {
    let sweep = |command: &str| {
        let text = "method: random\nprogram: t.py\nrun_cap: 2\nmetric: {name: m}\nparameters: {x: {min: 0.5, max: 1}, k: {values: [a, b]}, c: {value: 3}}\n";
        import(&format!("{text}command: {command}\n"))
            .map(|it| it.training_input.master_config.unwrap().container_command)
    };
    assert_eq!(
        sweep("[run, '${args}', end]").unwrap(),
        ["run", "--c=3", "--k={parameters.k}", "--x={parameters.x}", "end"]
    );
    assert_eq!(sweep("[run, '${args_no_hyphens}']").unwrap(), ["run", "c=3", "k={parameters.k}", "x={parameters.x}"]);
    assert_eq!(sweep("[run, '${args_json}']").unwrap()[1], r#"{"c": 3, "k": "{parameters.k}", "x": {parameters.x}}"#);
    let error = sweep("[run, '${args_json_file}']").unwrap_err();
    assert_eq!(error.diagnostics()[0].field, "command[1]");
}

#[test]
fn what_has_no_counterpart_is_refused_with_its_place() {
    let text = "method: anneal
program: t.py
metric: {name: m, goal: up, target: 0.9}
parameters:
  a: {distribution: normal, mu: 0, sigma: 1}
  b: {parameters: {c: {value: 1}}}
  d: {min: 0}
  e: {distribution: q_uniform, min: 0, max: 1, q: 0.0001}
controller: {type: local}
";
    assert_eq!(
        errors(text),
        [
            ("run_cap".to_owned(), 1),
            ("method".to_owned(), 1),
            ("metric.goal".to_owned(), 3),
            ("parameters.a.distribution".to_owned(), 5),
            ("parameters.b.parameters".to_owned(), 6),
            ("parameters.d.max".to_owned(), 7),
            ("parameters.e.q".to_owned(), 8),
            ("controller".to_owned(), 9),
        ]
    );
}

#[test]
fn losses_are_listed() {
    let text = SWEEP
        .replace("goal: minimize", "goal: minimize, target: 0.1")
        .replace("min_iter: 3", "max_iter: 27, s: 2, strict: true");
    let text = text.replace("log_uniform_values", "inv_log_uniform_values");
    let losses = import(&text).unwrap().losses;
    let paths: Vec<&str> = losses.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["metric.target", "parameters.learning_rate.distribution", "early_terminate.strict"]);
}
