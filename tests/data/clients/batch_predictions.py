"""Batch predictions with the published client: python batch_predictions.py ENDPOINT FOLDER"""

import json
import os
import sys
import time

import joblib
from google.auth.credentials import AnonymousCredentials
from googleapiclient import discovery, errors
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

endpoint, folder = sys.argv[1:]
ml = discovery.build("ml", "v1", credentials=AnonymousCredentials(), client_options={"api_endpoint": endpoint})
jobs = ml.projects().jobs()
PROJECT = "projects/p"

X, y = load_iris(return_X_y=True)
model = LogisticRegression(max_iter=1000).fit(X, y)
os.makedirs(os.path.join(folder, "model"))
joblib.dump(model, os.path.join(folder, "model", "model.joblib"))
ml.projects().models().create(parent=PROJECT, body={"name": "iris"}).execute()
body = {"name": "v1", "deploymentUri": os.path.join(folder, "model"), "runtimeVersion": "2.11", "framework": "SCIKIT_LEARN"}
operation = ml.projects().models().versions().create(parent=PROJECT + "/models/iris", body=body).execute()
while not operation.get("done"):
    time.sleep(0.1)
    operation = ml.projects().operations().get(name=operation["name"]).execute()
assert operation["response"]["state"] == "READY", operation

os.makedirs(os.path.join(folder, "rows"))
for part in range(2):
    with open(os.path.join(folder, "rows", "part-%d.json" % part), "w") as file:
        for row in X[part::2].tolist():
            file.write(json.dumps(row) + "\n")
with open(os.path.join(folder, "rows", "part-1.json"), "a") as file:
    file.write("[1, 2]\nno json\n")


def submitted(name, **more):
    given = {
        "modelName": PROJECT + "/models/iris",
        "dataFormat": "JSON",
        "inputPaths": [os.path.join(folder, "rows", "*")],
        "outputPath": os.path.join(folder, name),
        "region": "us-central1",
    }
    given.update(more)
    jobs.create(parent=PROJECT, body={"jobId": name, "predictionInput": given, "labels": {"kind": "batch"}}).execute()
    while True:
        job = jobs.get(name="%s/jobs/%s" % (PROJECT, name)).execute()
        if job["state"] in ("SUCCEEDED", "FAILED", "CANCELLED"):
            return job
        time.sleep(0.1)


def read(name, prefix):
    place = os.path.join(folder, name)
    names = sorted(entry for entry in os.listdir(place) if entry.startswith(prefix))
    return [line for entry in names for line in open(os.path.join(place, entry)).read().splitlines()]


job = submitted("all")
assert job["state"] == "SUCCEEDED", job
output = job["predictionOutput"]
assert output["predictionCount"] == "150" and output["errorCount"] == "2", output
assert output["outputPath"] == os.path.join(folder, "all"), output
assert output["nodeHours"] > 0, output
expected = [int(label) for part in range(2) for label in model.predict(X[part::2])]
assert [json.loads(line) for line in read("all", "prediction.results-")] == expected
failed = [json.loads(line) for line in read("all", "prediction.errors-")]
assert len(failed) == 2, failed
assert sorted(str(entry["instance"]) if "instance" in entry else json.dumps(entry) for entry in failed), failed
stats = read("all", "prediction.errors_stats-")
assert stats, stats

job = submitted("version", modelName="", versionName=PROJECT + "/models/iris/versions/v1", maxWorkerCount="3", batchSize="7")
assert job["predictionOutput"]["predictionCount"] == "150", job
job = submitted("folder", modelName="", uri=os.path.join(folder, "model"), runtimeVersion="2.11")
assert job["predictionOutput"]["predictionCount"] == "150", job

# A cancelled job keeps the files and the counts of its finished shards.
with open(os.path.join(folder, "many.json"), "w") as file:
    for number in range(9000):
        file.write("[%s%s]\n" % (", ".join(map(str, X[number % 150])), " " * 1000))
given = {
    "modelName": PROJECT + "/models/iris",
    "dataFormat": "JSON",
    "inputPaths": [os.path.join(folder, "many.json")],
    "outputPath": os.path.join(folder, "cancelled"),
    "region": "us-central1",
    "batchSize": "1",
    "maxWorkerCount": "1",
}
jobs.create(parent=PROJECT, body={"jobId": "cancelled", "predictionInput": given}).execute()
job = {}
while int(job.get("predictionOutput", {}).get("predictionCount", 0)) == 0:
    job = jobs.get(name=PROJECT + "/jobs/cancelled").execute()
    assert job["state"] in ("QUEUED", "PREPARING", "RUNNING"), job
assert jobs.cancel(name=PROJECT + "/jobs/cancelled").execute() == {}
while job["state"] != "CANCELLED":
    job = jobs.get(name=PROJECT + "/jobs/cancelled").execute()
    assert job["state"] in ("RUNNING", "CANCELLING", "CANCELLED"), job
place = os.path.join(folder, "cancelled")
while any(name.startswith(".") for name in os.listdir(place)):
    time.sleep(0.1)
predicted, count = read("cancelled", "prediction.results-"), int(job["predictionOutput"]["predictionCount"])
assert 0 < count <= len(predicted) < 9000, (count, len(predicted))
assert [json.loads(line) for line in predicted[:150]] == [int(label) for label in model.predict(X)]

listed = jobs.list(parent=PROJECT, filter="labels.kind=batch").execute()["jobs"]
assert sorted(entry["jobId"] for entry in listed) == ["all", "folder", "version"], listed
assert all("predictionInput" in entry for entry in listed), listed

try:
    submitted("all")
except errors.HttpError as error:
    assert error.resp.status == 409, error
else:
    raise AssertionError("a job is not created twice")

print("all steps passed")
