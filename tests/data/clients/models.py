"""Models, versions and predictions with the published client: python models.py ENDPOINT FOLDER

The interpreter has scikit-learn and XGBoost, whose models are trained here; the server maps the runtime versions to it.
"""

import json
import os
import pickle
import subprocess
import sys
import time

import joblib
import numpy
import xgboost
from google.auth.credentials import AnonymousCredentials
from googleapiclient import discovery, errors
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

endpoint, folder = sys.argv[1:]
ml = discovery.build("ml", "v1", credentials=AnonymousCredentials(), client_options={"api_endpoint": endpoint})
models = ml.projects().models()
PROJECT = "projects/p"


def done(operation):
    while not operation.get("done"):
        time.sleep(0.1)
        operation = ml.projects().operations().get(name=operation["name"]).execute()
    return operation


def refused(request, status, text):
    try:
        request.execute()
    except errors.HttpError as error:
        assert error.resp.status == status, error
        assert text in str(error), error
        return
    raise AssertionError("the request is not refused")


def place(name):
    path = os.path.join(folder, name)
    os.makedirs(path)
    return path


def version(model, name, **more):
    body = {"name": name, "runtimeVersion": "2.11", "pythonVersion": "3.7"}
    body.update(more)
    return models.versions().create(parent="%s/models/%s" % (PROJECT, model), body=body).execute()


X, y = load_iris(return_X_y=True)
rows = X[::10].tolist()

# scikit-learn, with a model that was loaded as the check.
model = models.create(parent=PROJECT, body={"name": "iris", "regions": ["us-central1"]}).execute()
assert model["name"] == "projects/p/models/iris" and "defaultVersion" not in model, model
refused(models.create(parent=PROJECT, body={"name": "iris"}), 409, "already exists")
refused(models.create(parent=PROJECT, body={"name": "1iris"}), 400, "beginning with a letter")
refused(ml.projects().predict(name="projects/p/models/iris", body={"instances": rows}), 400, "has no default version")
estimator = LogisticRegression(max_iter=1000).fit(X, y)
sklearn_folder = place("sklearn")
joblib.dump(estimator, os.path.join(sklearn_folder, "model.joblib"))
operation = version("iris", "v1", deploymentUri=sklearn_folder, framework="SCIKIT_LEARN", isDefault=False)
metadata = operation["metadata"]
assert metadata["operationType"] == "CREATE_VERSION" and metadata["modelName"] == "projects/p/models/iris", operation
assert metadata["@type"] == "type.googleapis.com/google.cloud.ml.v1.OperationMetadata", operation
operation = done(operation)
created = operation["response"]
assert created["@type"] == "type.googleapis.com/google.cloud.ml.v1.Version" and created["state"] == "READY", operation
assert created["tunesmith"]["packageVersions"]["scikit-learn"], created
assert models.get(name="projects/p/models/iris").execute()["defaultVersion"]["name"].endswith("/versions/v1")
answer = ml.projects().predict(name="projects/p/models/iris", body={"instances": rows}).execute()
assert answer == {"predictions": estimator.predict(rows).tolist()}, answer
answer = ml.projects().predict(
    name="projects/p/models/iris/versions/v1", body={"instances": [[1, 2]], "signature_name": "s"}
).execute()
assert answer["error"].startswith("Prediction failed: Exception during sklearn prediction: X has 2 features"), answer
refused(ml.projects().predict(name="projects/p/models/none", body={"instances": rows}), 404, "does not exist")
refused(ml.projects().explain(name="projects/p/models/iris", body={"instances": rows}), 400, "not supported")

# XGBoost, with names of features, and with lines of CSV as for built-in algorithms.
booster_folder = place("xgboost")
names = ["a", "b", "c", "d"]
booster = xgboost.train({"objective": "multi:softprob", "num_class": 3}, xgboost.DMatrix(X, y, feature_names=names), 5)
booster.save_model(os.path.join(booster_folder, "model.ubj"))
os.rename(os.path.join(booster_folder, "model.ubj"), os.path.join(booster_folder, "model.bst"))
operation = done(version("iris", "boosted", deploymentUri=booster_folder, framework="XGBOOST"))
assert operation["response"]["state"] == "READY", operation
expected = booster.predict(xgboost.DMatrix(numpy.array(rows), feature_names=names))
name = "projects/p/models/iris/versions/boosted"
for instances in (rows, [",".join(map(str, row)) for row in rows]):
    answer = ml.projects().predict(name=name, body={"instances": instances}).execute()
    assert numpy.allclose(answer["predictions"], expected), answer

# A custom prediction routine in a source archive, with a module that is shipped as a script, as in Google's samples.
routine_folder, source = place("routine"), place("routine-source")
with open(os.path.join(routine_folder, "model.pkl"), "wb") as file:
    pickle.dump(estimator, file)
with open(os.path.join(source, "setup.py"), "w") as file:
    file.write("from setuptools import setup\nsetup(name='my_custom_code', version='0.1', py_modules=[], scripts=['predictor.py'])\n")
with open(os.path.join(source, "predictor.py"), "w") as file:
    file.write(
        """
import os, pickle
class MyPredictor(object):
    def __init__(self, model):
        self._model = model
    def predict(self, instances, **kwargs):
        if kwargs.get('probabilities'):
            return self._model.predict_proba(instances).tolist()
        names = ['setosa', 'versicolor', 'virginica']
        return [names[index] for index in self._model.predict(instances)]
    @classmethod
    def from_path(cls, model_dir):
        with open(os.path.join(model_dir, 'model.pkl'), 'rb') as file:
            return cls(pickle.load(file))
"""
    )
subprocess.run([sys.executable, "setup.py", "-q", "sdist"], cwd=source, check=True, stdout=subprocess.DEVNULL)
package = os.path.join(source, "dist", os.listdir(os.path.join(source, "dist"))[0])
operation = done(
    version("iris", "routine", deploymentUri=routine_folder, packageUris=[package], predictionClass="predictor.MyPredictor")
)
assert operation["response"]["state"] == "READY", operation
name = "projects/p/models/iris/versions/routine"
body = {"instances": [[6.7, 3.1, 4.7, 1.5], [4.6, 3.1, 1.5, 0.2]]}
answer = ml.projects().predict(name=name, body=body).execute()
assert answer == {"predictions": ["versicolor", "setosa"]}, answer
answer = ml.projects().predict(name=name, body=dict(body, probabilities=True)).execute()
assert numpy.allclose(answer["predictions"], estimator.predict_proba(body["instances"])), answer

# What cannot be loaded fails with the published text, the traceback, and the version that wrote the file.
broken_folder = place("broken")
with open(os.path.join(sklearn_folder, "model.joblib"), "rb") as file:
    content = file.read().replace(b"LogisticRegression", b"LogisticRegressiom")
with open(os.path.join(broken_folder, "model.joblib"), "wb") as file:
    file.write(content)
operation = done(version("iris", "broken", deploymentUri=broken_folder))
error = operation["error"]["message"]
start = 'Create Version failed. Bad model detected with error:  "Failed to load model: Could not load the model: '
assert error.startswith(start) and "The file was written with scikit-learn " in error, error
assert "Traceback (most recent call last):" in error and "AttributeError" in error, error
failed = models.versions().get(name="projects/p/models/iris/versions/broken").execute()
assert failed["state"] == "FAILED" and failed["errorMessage"] == error, failed
bad = place("bad-package")
with open(os.path.join(bad, "setup.py"), "w") as file:
    file.write("raise SystemExit('this package cannot be built')\n")
subprocess.run(["tar", "-czf", os.path.join(bad, "bad-1.tar.gz"), "-C", folder, "bad-package/setup.py"], check=True)
operation = done(version("iris", "unbuilt", deploymentUri=sklearn_folder, packageUris=[os.path.join(bad, "bad-1.tar.gz")]))
error = operation["error"]["message"]
assert "User-provided package bad-1.tar.gz failed to install: " in error and "this package cannot be built" in error, error
refused(
    models.versions().create(parent="projects/p/models/iris", body={"name": "x", "deploymentUri": "/x", "runtimeVersion": "1.0"}),
    400,
    "is not a runtime version of this server; allowed: 2.11",
)

# Lists, defaults, masks and deletions.
listed = models.versions().list(parent="projects/p/models/iris", filter="state:READY", pageSize=2).execute()
assert [one["name"].split("/")[-1] for one in listed["versions"]] == ["boosted", "routine"], listed
rest = models.versions().list(
    parent="projects/p/models/iris", filter="state:READY", pageToken=listed["nextPageToken"]
).execute()
assert [one["name"].split("/")[-1] for one in rest["versions"]] == ["v1"] and "nextPageToken" not in rest, rest
assert len(models.list(parent=PROJECT).execute()["models"]) == 1
assert models.list(parent="projects/other").execute() == {}
refused(models.versions().delete(name="projects/p/models/iris/versions/v1"), 400, "is the default of its model")
default = models.versions().setDefault(name="projects/p/models/iris/versions/boosted", body={}).execute()
assert default["isDefault"] is True, default
operation = done(
    models.patch(
        name="projects/p/models/iris",
        updateMask="description,default_version.name",
        body={"description": "Iris", "defaultVersion": {"name": "projects/p/models/iris/versions/v1"}},
    ).execute()
)
assert operation["response"]["defaultVersion"]["name"].endswith("/v1"), operation
assert operation["response"]["description"] == "Iris", operation
operation = done(
    models.versions()
    .patch(name="projects/p/models/iris/versions/v1", updateMask="autoScaling.minNodes", body={"autoScaling": {"minNodes": 1}})
    .execute()
)
assert operation["response"]["autoScaling"] == {"minNodes": 1}, operation
refused(models.delete(name="projects/p/models/iris"), 400, "has versions")
listed = ml.projects().operations().list(name=PROJECT).execute()["operations"]
assert {one["metadata"]["operationType"] for one in listed} == {"CREATE_VERSION", "UPDATE_MODEL", "UPDATE_VERSION"}, listed
for one in ["boosted", "routine", "broken", "unbuilt", "v1"]:
    operation = done(models.versions().delete(name="projects/p/models/iris/versions/" + one).execute())
    assert operation["response"] == {"@type": "type.googleapis.com/google.protobuf.Empty"}, operation
done(models.delete(name="projects/p/models/iris").execute())
refused(models.get(name="projects/p/models/iris"), 404, "does not exist")
print("all steps passed")
