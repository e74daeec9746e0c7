"""Drives the jobs API through the unmodified google-api-python-client. Usage: jobs.py ENDPOINT FOLDER"""

import sys

from google.auth.credentials import AnonymousCredentials
from googleapiclient import discovery, errors

endpoint, folder = sys.argv[1:]
ml = discovery.build(
    "ml",
    "v1",
    credentials=AnonymousCredentials(),
    client_options={"api_endpoint": endpoint},
    static_discovery=True,
)
jobs = ml.projects().jobs()
project = "projects/my-project"


def expect_error(status, request):
    try:
        request.execute()
    except errors.HttpError as error:
        assert error.status_code == status, error
        return error
    raise AssertionError(f"expected status {status}")


def command(script):
    return {"containerCommand": ["sh", "-c", script, "sh"]}


def training_input(script, **more):
    return {"scaleTier": "BASIC", "region": "us-central1", "masterConfig": command(script), **more}


def finished(name):
    while True:
        job = jobs.get(name=f"{project}/jobs/{name}").execute()
        if job["state"] in ("SUCCEEDED", "FAILED", "CANCELLED"):
            return job


assert jobs.list(parent=project).execute() == {}
hyperparameters = {
    "goal": "MAXIMIZE",
    "hyperparameterMetricTag": "score",
    "maxTrials": 4,
    "maxParallelTrials": 2,
    "params": [{"parameterName": "x", "type": "INTEGER", "minValue": 1, "maxValue": 9}],
}
tuning = training_input(
    'echo "score=${1#--x=}"', hyperparameters=hyperparameters, tunesmith={"metricFromStdout": True, "seed": 1}
)
created = jobs.create(
    parent=project, body={"jobId": "tuning_1", "trainingInput": tuning, "labels": {"team": "a"}}
).execute()
assert created["jobId"] == "tuning_1" and created["state"] in ("QUEUED", "PREPARING", "RUNNING"), created
expect_error(409, jobs.create(parent=project, body={"jobId": "tuning_1", "trainingInput": tuning}))
expect_error(404, jobs.get(name=f"{project}/jobs/none"))
bad = dict(tuning, hyperparameters=dict(hyperparameters, maxTrials=-1))
error = expect_error(400, jobs.create(parent=project, body={"jobId": "bad", "trainingInput": bad}))
field = error.error_details[0]["fieldViolations"][0]["field"]
assert field == "trainingInput.hyperparameters.maxTrials", field

job = finished("tuning_1")
assert job["state"] == "SUCCEEDED", job
output = job["trainingOutput"]
assert output["isHyperparameterTuningJob"] and output["completedTrialCount"] == "4", output
scores = [trial["finalMetric"]["objectiveValue"] for trial in output["trials"]]
assert scores == sorted(scores, reverse=True), "the best comes first"
assert all(float(trial["hyperparameters"]["x"]) == score for trial, score in zip(output["trials"], scores)), output
assert job["createTime"] <= job["startTime"] <= job["endTime"], job

jobs.create(parent=project, body={"jobId": "plain", "trainingInput": training_input(f"echo done > {folder}/plain")})\
    .execute()
assert finished("plain")["state"] == "SUCCEEDED"
assert open(f"{folder}/plain").read() == "done\n"
jobs.create(parent=project, body={"jobId": "failing", "trainingInput": training_input("exit 3")}).execute()
failed = finished("failing")
assert failed["state"] == "FAILED" and "exit code 3" in failed["errorMessage"], failed
expect_error(400, jobs.cancel(name=f"{project}/jobs/failing", body={}))

# One slot: the first runs until it is cancelled, the others wait, the more important one in front.
endless = training_input("exec tail -f /dev/null")
jobs.create(parent=project, body={"jobId": "endless", "trainingInput": endless}).execute()
while jobs.get(name=f"{project}/jobs/endless").execute()["state"] != "RUNNING":
    pass
for name, priority in (("low", 1), ("high", 2)):
    script = f"echo {name} >> {folder}/order"
    body = {"jobId": name, "trainingInput": training_input(script, scheduling={"priority": priority})}
    jobs.create(parent=project, body=body).execute()
waiting = jobs.list(parent=project, filter="state:QUEUED").execute()["jobs"]
assert {job["jobId"]: job["jobPosition"] for job in waiting} == {"high": "0", "low": "1"}, waiting
unwanted = {"jobId": "unwanted", "trainingInput": endless}
jobs.create(parent=project, body=unwanted).execute()
jobs.cancel(name=f"{project}/jobs/unwanted").execute()
assert jobs.get(name=f"{project}/jobs/unwanted").execute()["state"] == "CANCELLED"
jobs.cancel(name=f"{project}/jobs/endless", body={}).execute()
cancelled = finished("endless")
assert cancelled["state"] == "CANCELLED" and cancelled["errorMessage"] == "cancelled by a user", cancelled
assert finished("high")["state"] == finished("low")["state"] == "SUCCEEDED"
assert open(f"{folder}/order").read() == "high\nlow\n"

names = []
request = jobs.list(parent=project, pageSize=3)
while request is not None:
    page = request.execute()
    assert len(page["jobs"]) <= 3
    names += [job["jobId"] for job in page["jobs"]]
    request = jobs.list_next(request, page)
assert names == ["endless", "failing", "high", "low", "plain", "tuning_1", "unwanted"], names
chosen = jobs.list(parent=project, filter="jobId:t* AND labels.team:a AND state:SUCCEEDED").execute()["jobs"]
assert [job["jobId"] for job in chosen] == ["tuning_1"], chosen
expect_error(400, jobs.list(parent=project, filter="colour:blue"))
assert jobs.list(parent="projects/other").execute() == {}

name = f"{project}/jobs/tuning_1"
before = jobs.get(name=name).execute()
change = {"labels": {"team": "b"}, "etag": before["etag"]}
after = jobs.patch(name=name, updateMask="labels,etag", body=change).execute()
assert after["labels"] == {"team": "b"} and after["etag"] != before["etag"], after
expect_error(409, jobs.patch(name=name, updateMask="labels,etag", body=change))
expect_error(400, jobs.patch(name=name, updateMask="trainingInput", body=change))

assert jobs.getIamPolicy(resource=name).execute() == {}
policy = {"bindings": [{"role": "roles/ml.jobOwner", "members": ["user:a@example.com"]}]}
stored = jobs.setIamPolicy(resource=name, body={"policy": policy}).execute()
assert stored["bindings"] == policy["bindings"] and jobs.getIamPolicy(resource=name).execute() == stored, stored
expect_error(409, jobs.setIamPolicy(resource=name, body={"policy": dict(policy, etag="AAAA")}))
permissions = {"permissions": ["ml.jobs.get"]}
assert jobs.testIamPermissions(resource=name, body=permissions).execute() == permissions
assert jobs.testIamPermissions(resource=f"{project}/jobs/none", body=permissions).execute() == {}
print("all steps passed")
