"""Drives the Optimizer API through the unmodified google-api-python-client. Usage: optimizer.py ENDPOINT"""

import sys

from google.auth.credentials import AnonymousCredentials
from googleapiclient import discovery, errors

ml = discovery.build(
    "ml",
    "v1",
    credentials=AnonymousCredentials(),
    client_options={"api_endpoint": sys.argv[1]},
    static_discovery=True,
)
locations = ml.projects().locations()
studies = locations.studies()
trials = studies.trials()
parent = "projects/my-project/locations/us-central1"
study = f"{parent}/studies/example"

config = {
    "metrics": [{"metric": "loss", "goal": "MINIMIZE"}, {"metric": "size", "goal": "MINIMIZE"}],
    "algorithm": "ALGORITHM_UNSPECIFIED",
    "parameters": [
        {
            "parameter": "learning_rate",
            "type": "DOUBLE",
            "scaleType": "UNIT_LOG_SCALE",
            "doubleValueSpec": {"minValue": 1e-5, "maxValue": 1.0},
        },
        {"parameter": "layers", "type": "INTEGER", "integerValueSpec": {"minValue": "1", "maxValue": "6"}},
        {
            "parameter": "optimizer",
            "type": "CATEGORICAL",
            "categoricalValueSpec": {"values": ["adam", "sgd"]},
            "childParameterSpecs": [
                {
                    "parameter": "momentum",
                    "type": "DISCRETE",
                    "discreteValueSpec": {"values": [0.5, 0.9, 0.99]},
                    "parentCategoricalValues": {"values": ["sgd"]},
                }
            ],
        },
    ],
}


def expect_error(status, request):
    try:
        request.execute()
    except errors.HttpError as error:
        assert error.status_code == status, error
        return error
    raise AssertionError(f"expected status {status}")


def value(trial, name):
    for parameter in trial["parameters"]:
        if parameter["parameter"] == name:
            (content,) = [parameter[kind] for kind in ("floatValue", "intValue", "stringValue") if kind in parameter]
            return content
    return None


def suggest(count, client):
    operation = trials.suggest(parent=study, body={"suggestionCount": count, "clientId": client}).execute()
    while not operation.get("done"):
        operation = locations.operations().get(name=operation["name"]).execute()
    # An operation that is done can still be asked for.
    assert locations.operations().get(name=operation["name"]).execute() == operation
    return operation["response"]["trials"]


assert studies.list(parent=parent).execute() == {}
created = studies.create(parent=parent, studyId="example", body={"studyConfig": config}).execute()
assert created["name"] == study and created["state"] == "ACTIVE", created
assert studies.get(name=study).execute() == created
assert studies.list(parent=parent).execute() == {"studies": [created]}
expect_error(409, studies.create(parent=parent, studyId="example", body={"studyConfig": config}))
expect_error(404, studies.get(name=f"{parent}/studies/none"))
bad = expect_error(400, studies.create(parent=parent, studyId="bad", body={"studyConfig": {"metric": []}}))
assert bad.error_details[0]["fieldViolations"][0]["field"] == "studyConfig.metric", bad.error_details

own = trials.create(
    parent=study,
    body={
        "parameters": [
            {"parameter": "learning_rate", "floatValue": 0.01},
            {"parameter": "layers", "intValue": "2"},
            {"parameter": "optimizer", "stringValue": "sgd"},
            {"parameter": "momentum", "floatValue": 0.9},
        ]
    },
).execute()
assert own["state"] == "REQUESTED", own

seen = set()
for round_number in range(12):
    (trial,) = suggest(1, "worker-1")
    assert suggest(1, "worker-1") == [trial], "the same client has the same trial"
    assert (round_number == 0) == (trial["name"] == own["name"]), "a queued trial comes first"
    assert trial["state"] == "ACTIVE" and trial["clientId"] == "worker-1", trial
    optimizer = value(trial, "optimizer")
    assert (value(trial, "momentum") is None) == (optimizer == "adam"), trial
    seen.add(optimizer)
    rate, layers = value(trial, "learning_rate"), int(value(trial, "layers"))
    for step in (1, 2):
        measurement = {
            "stepCount": str(step),
            "elapsedTime": f"{step}.5s",
            "metrics": [{"metric": "loss", "value": abs(rate - 0.1) / step}, {"metric": "size", "value": layers}],
        }
        trials.addMeasurement(name=trial["name"], body={"measurement": measurement}).execute()
    check = trials.checkEarlyStoppingState(name=trial["name"], body={}).execute()
    assert check["done"] and check["response"]["shouldStop"] is False, check
    done = trials.complete(name=trial["name"], body={}).execute()
    assert done["state"] == "COMPLETED" and done["finalMeasurement"] == done["measurements"][-1], done
    assert trials.complete(name=trial["name"], body={}).execute() == done
assert seen == {"adam", "sgd"}, seen

first, second = suggest(2, "worker-2")
infeasible = trials.complete(
    name=first["name"], body={"trialInfeasible": True, "infeasibleReason": "out of memory"}
).execute()
assert infeasible["trialInfeasible"] and infeasible["infeasibleReason"] == "out of memory", infeasible
assert trials.stop(name=second["name"]).execute()["state"] == "STOPPING"
assert trials.checkEarlyStoppingState(name=second["name"]).execute()["response"]["shouldStop"]
final = {"metrics": [{"metric": "loss", "value": "NaN"}, {"metric": "size", "value": 1}]}
stopped = trials.complete(name=second["name"], body={"finalMeasurement": final}).execute()
assert stopped["trialInfeasible"] and "NaN" in stopped["infeasibleReason"], stopped

listed = trials.list(parent=study).execute()["trials"]
assert [trial["name"] for trial in listed] == [f"{study}/trials/{number}" for number in range(1, 15)], listed
optimal = trials.listOptimalTrials(parent=study, body={}).execute()["trials"]


def losses(trial):
    return [metric["value"] for metric in trial["finalMeasurement"]["metrics"]]


measured = [trial for trial in listed if "finalMeasurement" in trial]
for trial in measured:
    dominated = any(
        all(a <= b for a, b in zip(losses(other), losses(trial))) and losses(other) != losses(trial)
        for other in measured
    )
    assert (trial in optimal) == (not dominated), trial["name"]

trials.delete(name=own["name"]).execute()
expect_error(404, trials.get(name=own["name"]))
assert len(trials.list(parent=study).execute()["trials"]) == 13
expect_error(404, trials.get(name=f"{study}/trials/99"))
place = locations.get(name=parent).execute()
assert place["name"] == parent, place
assert locations.list(parent="projects/my-project").execute()["locations"]
studies.delete(name=study).execute()
expect_error(404, studies.get(name=study))
print("all steps passed")
