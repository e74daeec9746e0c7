pub(crate) const JOB: &str = r#"{
    "jobId": "census_1",
    "labels": {"team": "growth"},
    "trainingInput": {
        "scaleTier": "BASIC",
        "region": "us-central1",
        "packageUris": ["trainer-1.0.tar.gz"],
        "pythonModule": "trainer.task",
        "args": ["--epochs", "10"],
        "jobDir": "output",
        "hyperparameters": {
            "goal": "MINIMIZE",
            "hyperparameterMetricTag": "loss",
            "maxTrials": 20,
            "maxParallelTrials": 2,
            "params": [{
                "parameterName": "learning_rate",
                "type": "DOUBLE",
                "minValue": 0.0001,
                "maxValue": 0.1,
                "scaleType": "UNIT_LOG_SCALE"
            }]
        }
    }
}"#;

pub(crate) const MODEL: &str = r#"{"name": "iris", "regions": ["us-central1"]}"#;

pub(crate) const VERSION: &str = r#"{
    "name": "v1",
    "deploymentUri": "/srv/models/iris",
    "framework": "SCIKIT_LEARN",
    "runtimeVersion": "2.11",
    "pythonVersion": "3.7"
}"#;

pub(crate) const INSTANCES: &str = r#"{"instances": [[6.7, 3.1, 4.7, 1.5], [4.6, 3.1, 1.5, 0.2]]}"#;

pub(crate) const STUDY: &str = r#"{
    "studyConfig": {
        "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
        "parameters": [
            {
                "parameter": "layers",
                "type": "INTEGER",
                "integerValueSpec": {"minValue": "1", "maxValue": "6"}
            },
            {
                "parameter": "optimizer",
                "type": "CATEGORICAL",
                "categoricalValueSpec": {"values": ["adam", "sgd"]},
                "childParameterSpecs": [{
                    "parameter": "momentum",
                    "type": "DISCRETE",
                    "discreteValueSpec": {"values": [0.5, 0.9, 0.99]},
                    "parentCategoricalValues": {"values": ["sgd"]}
                }]
            }
        ],
        "automatedStoppingConfig": {"medianAutomatedStoppingConfig": {"useElapsedTime": false}},
        "tunesmith": {"trialLease": "600s", "maxTrials": "100"}
    }
}"#;

pub(crate) const MORE_TRIALS: &str = r#"{"studyConfig": {"tunesmith": {"maxTrials": "200"}}}"#;

pub(crate) const TRIAL: &str = r#"{
    "parameters": [
        {"parameter": "layers", "intValue": "2"},
        {"parameter": "optimizer", "stringValue": "adam"}
    ]
}"#;

pub(crate) const TRIAL_OF_JOB: &str = r#"{"parameters": [{"parameter": "learning_rate", "floatValue": 0.01}]}"#;

pub(crate) const NOTE: &str =
    r#"{"text": "Diverged after epoch 3: the learning rate is too large for this batch size."}"#;

pub(crate) const SUGGEST: &str = r#"{"suggestionCount": 1, "clientId": "worker-1"}"#;

pub(crate) const MEASUREMENT: &str =
    r#"{"measurement": {"stepCount": "100", "elapsedTime": "2.5s", "metrics": [{"metric": "loss", "value": 0.25}]}}"#;

pub(crate) const SYNC: &str =
    r#"{"logs": [{"task": "master-0", "stream": "stdout", "offset": "0", "data": "ZXBvY2ggMQo="}]}"#;

pub(crate) const COMPLETE: &str =
    r#"{"finalMeasurement": {"stepCount": "1000", "metrics": [{"metric": "loss", "value": 0.125}]}}"#;

pub(crate) const POLICY: &str =
    r#"{"policy": {"bindings": [{"role": "roles/ml.jobOwner", "members": ["user:someone@example.com"]}]}}"#;

pub(crate) const PERMISSIONS: &str = r#"{"permissions": ["ml.jobs.get", "ml.jobs.cancel"]}"#;

pub(crate) const TOKEN: &str =
    r#"{"principal": "user:ada@example.com", "roles": ["ml.developer@my-project"], "lifetime": "604800s"}"#;

pub(crate) const LABELS: &str = r#"{"labels": {"team": "research"}}"#;

pub(crate) const MODEL_POLICY: &str =
    r#"{"policy": {"bindings": [{"role": "roles/ml.modelUser", "members": ["user:ada"]}]}}"#;

pub(crate) const MODEL_PERMISSIONS: &str = r#"{"permissions": ["ml.models.get", "ml.models.predict"]}"#;
