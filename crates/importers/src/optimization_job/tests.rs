use serde_json::json;

use super::*;

const JOB: &str = r#"
apiVersion: trainer.kubeflow.org/v1alpha1
kind: OptimizationJob
metadata: {name: digits}
spec:
  objectives: [{metric: accuracy, direction: Maximize}]
  searchAlgorithm: {random: {seed: 7}}
  numTrials: 20
  parallelTrials: 4
  parameters:
  - {name: lr, searchSpace: {logUniform: {min: "0.001", max: "0.1", type: Float}}}
  - {name: layers, searchSpace: {uniform: {min: "1", max: "4", type: Int}}}
  - {name: optimizer, searchSpace: {categorical: {choices: [sgd, adam]}}}
  trainJobTemplate:
    spec:
      trainer:
        image: example.org/trainer:1
        command: [python3, /opt/train.py]
        args: ["--lr={{.lr}}", "--layers={{ .layers }}", "--optimizer", "{{.optimizer}}"]
        env: [{name: MODE, value: fast}]
        numNodes: 1
        resourcesPerNode: {limits: {cpu: "2", memory: 4Gi}}
"#;

fn import(text: &str) -> Result<Imported, ConfigErrors> {
    optimization_job(&Document::parse("job.yaml", text.to_owned()).unwrap(), Options::default())
}

#[test]
fn optimization_job_becomes_a_job() {
    let imported = import(JOB).unwrap();
    let input = serde_json::to_value(&imported.training_input).unwrap();
    let master = &input["masterConfig"];
    assert_eq!(master["imageUri"], "example.org/trainer:1");
    let arguments = ["--lr={parameters.lr}", "--layers={parameters.layers}", "--optimizer", "{parameters.optimizer}"];
    assert_eq!(master["containerArgs"], json!(arguments));
    assert_eq!(input["masterType"], "pod-cpu-2-memory-4gi");
    let spec = &input["hyperparameters"];
    assert_eq!((&spec["goal"], &spec["hyperparameterMetricTag"]), (&json!("MAXIMIZE"), &json!("accuracy")));
    assert_eq!((&spec["algorithm"], &input["tunesmith"]["seed"]), (&json!("RANDOM_SEARCH"), &json!(7)));
    assert_eq!((&spec["maxTrials"], &spec["maxParallelTrials"]), (&json!(20), &json!(4)));
    let params = spec["params"].as_array().unwrap();
    assert_eq!((&params[0]["type"], &params[0]["scaleType"]), (&json!("DOUBLE"), &json!("UNIT_LOG_SCALE")));
    assert_eq!((&params[1]["type"], &params[1]["maxValue"]), (&json!("INTEGER"), &json!(4)));
    assert_eq!(params[2]["categoricalValues"], json!(["sgd", "adam"]));
    assert_eq!(imported.losses, []);
    assert_eq!(input["tunesmith"]["environment"]["MODE"], "fast");
}

#[test]
fn what_has_no_counterpart_is_refused_with_its_place() {
    let refused = |old: &str, new: &str, wanted: &[&str]| {
        assert!(JOB.contains(old), "{old}");
        let errors = import(&JOB.replace(old, new)).unwrap_err().to_string();
        for text in wanted {
            assert!(errors.contains(text), "{text}: {errors}");
        }
    };
    refused("numNodes: 1", "numNodes: 2", &["job.yaml:21", "trainer.numNodes", "^ 1"]);
    refused("{{.lr}}", "{{.rate}}", &["trainer.args[0]", "{{.rate}} names no trial parameter"]);
    refused("value: fast", "value: \"{{.lr}}\"", &["trainer.env[0].value"]);
    refused("{random: {seed: 7}}", "{bayes: {}}", &["searchAlgorithm.bayes", "random or grid"]);
    refused("{random: {seed: 7}}", "{random: {}, grid: {}}", &["has two algorithms"]);
    refused("type: Int}}", "type: Int}, categorical: {choices: [1]}}", &["has 2 distributions"]);
    refused("Maximize", "Larger", &["objectives[0].direction"]);
    refused("        image: example.org/trainer:1\n", "", &["trainer.image", "is required"]);
    refused("v1alpha1", "v2", &["OptimizationJob of trainer.kubeflow.org/v1alpha1"]);
}

#[test]
fn runtime_is_a_loss() {
    let imported =
        import(&JOB.replace("      trainer:\n", "      runtimeRef: {name: torch-distributed}\n      trainer:\n"));
    assert_eq!(imported.unwrap().losses[0].0, "spec.trainJobTemplate.spec.runtimeRef");
}
