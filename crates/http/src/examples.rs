//! Examples of request bodies in the OpenAPI document.

/// A tuning job.
pub(super) const JOB: &str = r#"{
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

/// A study with a conditional parameter.
pub(super) const STUDY: &str = r#"{
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

/// More trials for a study.
pub(super) const MORE_TRIALS: &str = r#"{"studyConfig": {"tunesmith": {"maxTrials": "200"}}}"#;

/// A user-supplied trial.
pub(super) const TRIAL: &str = r#"{
    "parameters": [
        {"parameter": "layers", "intValue": "2"},
        {"parameter": "optimizer", "stringValue": "adam"}
    ]
}"#;

/// A user-supplied trial of the job above.
pub(super) const TRIAL_OF_JOB: &str = r#"{"parameters": [{"parameter": "learning_rate", "floatValue": 0.01}]}"#;

/// A request for trials.
pub(super) const SUGGEST: &str = r#"{"suggestionCount": 1, "clientId": "worker-1"}"#;

/// A measurement.
pub(super) const MEASUREMENT: &str =
    r#"{"measurement": {"stepCount": "100", "elapsedTime": "2.5s", "metrics": [{"metric": "loss", "value": 0.25}]}}"#;

/// A report of an agent.
pub(super) const SYNC: &str =
    r#"{"logs": [{"task": "master-0", "stream": "stdout", "offset": "0", "data": "ZXBvY2ggMQo="}]}"#;

/// A result.
pub(super) const COMPLETE: &str =
    r#"{"finalMeasurement": {"stepCount": "1000", "metrics": [{"metric": "loss", "value": 0.125}]}}"#;

/// A policy.
pub(super) const POLICY: &str =
    r#"{"policy": {"bindings": [{"role": "roles/ml.jobOwner", "members": ["user:someone@example.com"]}]}}"#;

/// Permissions to test.
pub(super) const PERMISSIONS: &str = r#"{"permissions": ["ml.jobs.get", "ml.jobs.cancel"]}"#;

/// A change of labels.
pub(super) const LABELS: &str = r#"{"labels": {"team": "research"}}"#;
