"""Tunes a built-in algorithm as public scripts do, through the unmodified google-api-python-client.

Usage: built_in.py ENDPOINT DATA JOB_DIR
"""

import sys
from pathlib import Path

from google.auth.credentials import AnonymousCredentials
from googleapiclient import discovery, errors

endpoint, data, job_dir = sys.argv[1:]
ml = discovery.build(
    "ml",
    "v1",
    credentials=AnonymousCredentials(),
    client_options={"api_endpoint": endpoint},
    static_discovery=True,
)
jobs = ml.projects().jobs()
project = "projects/my-project"

training_input = {
    "scaleTier": "CUSTOM",
    "masterType": "complex_model_m",
    "region": "europe-west1",
    "jobDir": job_dir,
    "masterConfig": {"imageUri": "gcr.io/cloud-ml-algos/boosted_trees:latest"},
    "args": [
        "--preprocess", f"--training_data_path={data}", "--validation_split=0.3", "--test_split=0.1",
        "--objective=multi:softmax", "--num_class=3", "--booster=gbtree", "--colsample_bytree=1", "--lambda=1",
        "--tree_method=auto", "--colsample_bylevel=1", "--scale_pos_weight=1", "--updater=grow_colmaker,prune",
        "--refresh_leaf=0", "--process_type=default", "--grow_policy=depthwise", "--num_boost_round=10",
        "--csv_weight=0", "--base_score=0.5",
    ],
    "hyperparameters": {
        "goal": "MINIMIZE",
        "maxTrials": 4,
        "maxParallelTrials": 2,
        "hyperparameterMetricTag": "merror",
        "enableTrialEarlyStopping": True,
        "params": [
            {"parameterName": "max_depth", "minValue": 1, "maxValue": 8, "type": "INTEGER",
             "scaleType": "UNIT_LINEAR_SCALE"},
            {"parameterName": "eta", "minValue": 0.01, "maxValue": 0.5, "type": "DOUBLE", "scaleType": "UNIT_LOG_SCALE"},
            # The service's own JSON leaves zeros out.
            {"parameterName": "gamma", "maxValue": 1, "type": "DOUBLE", "scaleType": "UNIT_LINEAR_SCALE"},
        ],
    },
}  # fmt: skip
created = jobs.create(parent=project, body={"jobId": "training_birds_3", "trainingInput": training_input}).execute()
output = created["trainingOutput"]
assert output["isBuiltInAlgorithmJob"] is True, created
assert output["builtInAlgorithmOutput"]["framework"] == "XGBOOST", created
assert "modelPath" not in output["builtInAlgorithmOutput"], created
notices = created["tunesmith"]["notices"]
assert any(notice["field"] == "trainingInput.region" for notice in notices), notices
while True:
    job = jobs.get(name=f"{project}/jobs/training_birds_3").execute()
    if job["state"] in ("SUCCEEDED", "FAILED", "CANCELLED"):
        break
assert job["state"] == "SUCCEEDED", job

# What public scripts do next.
output = job["trainingOutput"]
best = output["trials"][0]
version_spec = {
    "name": "v1",
    "isDefault": False,
    "runtimeVersion": output["builtInAlgorithmOutput"]["runtimeVersion"],
    "deploymentUri": best["builtInAlgorithmOutput"]["modelPath"],
    "framework": output["builtInAlgorithmOutput"]["framework"],
    "pythonVersion": output["builtInAlgorithmOutput"]["pythonVersion"],
}
assert version_spec["deploymentUri"] == f"{job_dir}/{best['trialId']}/model/", version_spec
assert version_spec["runtimeVersion"] == "3.2", version_spec
config = (Path(version_spec["deploymentUri"]) / "deployment_config.yaml").read_text()
for name in ("deploymentUri", "runtimeVersion", "pythonVersion"):
    assert f'{name}: "{version_spec[name]}"\n' in config, config
assert 'job_id: "training_birds_3"' in config, config
assert (Path(version_spec["deploymentUri"]) / "model.bst").stat().st_size > 0
assert 0 <= best["finalMetric"]["objectiveValue"] < 0.3, best
assert output["completedTrialCount"] == "4", output


def refused(**changes):
    body = {"jobId": "refused", "trainingInput": {**training_input, **changes}}
    try:
        jobs.create(parent=project, body=body).execute()
    except errors.HttpError as error:
        assert error.status_code == 400, error
        return str(error.error_details)
    raise AssertionError("expected status 400")


image = {"imageUri": "gcr.io/cloud-ml-algos/image_classification:latest"}
details = refused(masterConfig=image)
assert "image_classification" in details and "container of your own" in details, details
details = refused(args=["--eta=0.1"])
assert "--eta is also a parameter" in details, details
print("all steps passed")
