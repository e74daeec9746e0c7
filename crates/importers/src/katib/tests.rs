use serde_json::json;

use super::*;

fn import(text: &str) -> Result<Imported, ConfigErrors> {
    katib(&Document::parse("experiment.yaml", text.to_owned()).unwrap(), Options::default())
}

const EXPERIMENT: &str = r#"
apiVersion: kubeflow.org/v1beta1
kind: Experiment
metadata: {name: digits, namespace: team}
spec:
  objective: {type: maximize, objectiveMetricName: accuracy, additionalMetricNames: [loss]}
  algorithm: {algorithmName: bayesianoptimization, algorithmSettings: [{name: random_state, value: "10"}]}
  earlyStopping: {algorithmName: medianstop, algorithmSettings: [{name: min_trials_required, value: "4"}]}
  parallelTrialCount: 2
  maxTrialCount: 12
  maxFailedTrialCount: 3
  parameters:
  - {name: lr, parameterType: double, feasibleSpace: {min: "0.01", max: "0.05", distribution: logUniform}}
  - {name: momentum, parameterType: double, feasibleSpace: {min: "0.5", max: "0.9", step: "0.1"}}
  - {name: layers, parameterType: int, feasibleSpace: {min: "2", max: "5"}}
  - {name: batch, parameterType: discrete, feasibleSpace: {list: ["64", "32"]}}
  - {name: optimizer, parameterType: categorical, feasibleSpace: {list: [sgd, adam]}}
  trialTemplate:
    primaryContainerName: trainer
    trialParameters:
    - {name: learningRate, description: step size, reference: lr}
    - {name: kind, reference: optimizer}
    trialSpec:
      apiVersion: batch/v1
      kind: Job
      spec:
        template:
          spec:
            restartPolicy: Never
            containers:
            - name: trainer
              image: example.org/trainer:1
              command: [python3, /opt/train.py, "--lr=${trialParameters.learningRate}", "--run=${trialSpec.Name}"]
              args: ["--optimizer", "${trialParameters.kind}"]
              env: [{name: MODE, value: fast}]
              resources: {limits: {memory: 1Gi, cpu: 500m}}
"#;

#[test]
fn experiment_becomes_a_job() {
    let imported = import(EXPERIMENT).unwrap();
    let input = serde_json::to_value(&imported.training_input).unwrap();
    let master = &input["masterConfig"];
    assert_eq!(
        master["containerCommand"],
        json!(["python3", "/opt/train.py", "--lr={parameters.lr}", "--run={trial}"])
    );
    assert_eq!(master["containerArgs"], json!(["--optimizer", "{parameters.optimizer}"]));
    assert_eq!((&input["masterType"], &input["scaleTier"]), (&json!("pod-cpu-500m-memory-1gi"), &json!("CUSTOM")));
    let entry = "machineTypes: {pod-cpu-500m-memory-1gi: {cpus: 0.5, memory: 1GiB}}";
    assert!(imported.notes.iter().any(|note| note.ends_with(entry)), "{:?}", imported.notes);
    let spec = &input["hyperparameters"];
    assert_eq!((&spec["algorithm"], &spec["maxTrials"]), (&json!("GAUSSIAN_PROCESS_BANDIT"), &json!(12)));
    let params = spec["params"].as_array().unwrap();
    assert_eq!(params[0]["scaleType"], "UNIT_LOG_SCALE");
    assert_eq!(params[1]["discreteValues"], json!([0.5, 0.6, 0.7, 0.8, 0.9]));
    assert_eq!((&params[2]["type"], &params[3]["discreteValues"]), (&json!("INTEGER"), &json!([32, 64])));
    let additions = &input["tunesmith"];
    assert_eq!((&additions["seed"], &additions["environment"]["MODE"]), (&json!(10), &json!("fast")));
    assert_eq!((&additions["finalMeasurement"], &additions["metricFromStdout"]), (&json!("BEST"), &json!(true)));
    assert_eq!(
        (&additions["earlyStopping"], &additions["earlyStoppingSettings"]["minTrials"]),
        (&json!("MEDIAN"), &json!(4))
    );
    assert!(imported.losses.is_empty(), "{:?}", imported.losses);
    tunesmith_config::parse("imported.json", &input.to_string()).unwrap_or_else(|errors| panic!("{errors}"));
}

#[test]
fn what_has_no_counterpart_is_refused_with_its_place() {
    let errors = |from: &str, to: &str| {
        let errors = import(&EXPERIMENT.replace(from, to)).unwrap_err();
        errors.diagnostics().iter().map(|it| (it.field.clone(), it.line)).collect::<Vec<_>>()
    };
    let one = |path: &str, line| vec![(path.to_owned(), line)];
    assert_eq!(errors("bayesianoptimization", "enas"), one("spec.algorithm.algorithmName", 7));
    assert_eq!(
        errors("distribution: logUniform", "distribution: normal"),
        one("spec.parameters[0].feasibleSpace.distribution", 13)
    );
    assert_eq!(
        errors("reference: lr", "reference: rate")[0],
        ("spec.trialTemplate.trialParameters[0].reference".to_owned(), 21)
    );
    assert_eq!(errors("batch/v1", "kubeflow.org/v1"), one("spec.trialTemplate.trialSpec.kind", 25));
    let container = "spec.trialTemplate.trialSpec.spec.template.spec";
    assert_eq!(errors("restartPolicy: Never", "nodeSelector: {a: b}"), one(&format!("{container}.nodeSelector"), 29));
    assert_eq!(
        errors("value: fast", "value: \"${trialParameters.kind}\""),
        one(&format!("{container}.containers[0].env[0].value"), 35)
    );
    assert_eq!(
        errors("cpu: 500m", "ephemeral-storage: 1Gi"),
        one(&format!("{container}.containers[0].resources.limits.ephemeral-storage"), 36)
    );
    assert_eq!(
        errors("${trialParameters.kind}", "${trialParameters.none}"),
        one(&format!("{container}.containers[0].args[1]"), 34)
    );
}

#[test]
fn losses_are_listed() {
    let text =
        EXPERIMENT.replace("type: maximize", "type: maximize, goal: 0.99").replace("random_state", "n_initial_points");
    let paths: Vec<String> = import(&text).unwrap().losses.into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["spec.objective.goal", "spec.algorithm.algorithmSettings[0]"]);
}
