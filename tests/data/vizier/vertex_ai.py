"""Google's clients of Vertex AI's Vizier against a server: the generated client, the SDK, and googleapiclient.

Arguments: the endpoint, the transport (`rest`, `grpc` without TLS, or `tls`), and the parts: `client`, `sdk`, `discovery`;
with `v1beta1`, the clients of that version.
"""

import importlib
import json
import sys
import urllib.request

from google.api_core import exceptions
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import aiplatform

ENDPOINT, TRANSPORT, *PARTS = sys.argv[1:]
VERSION = "v1beta1" if "v1beta1" in PARTS else "v1"
package = importlib.import_module(f"google.cloud.aiplatform_{VERSION}")
VizierServiceClient, types = package.VizierServiceClient, package.types
PARENT = "projects/p/locations/us-central1"


def client():
    if TRANSPORT == "grpc":
        import grpc

        channel = grpc.insecure_channel(ENDPOINT)
        return VizierServiceClient(transport=VizierServiceClient.get_transport_class("grpc")(channel=channel))
    more = {"transport": "rest"} if TRANSPORT == "rest" else {}
    options = ClientOptions(api_endpoint=ENDPOINT)
    return VizierServiceClient(credentials=AnonymousCredentials(), client_options=options, **more)


BAD = exceptions.BadRequest if TRANSPORT == "rest" else exceptions.InvalidArgument
CONFLICT = exceptions.Conflict if TRANSPORT == "rest" else exceptions.AlreadyExists
ENDED = exceptions.BadRequest if TRANSPORT == "rest" else exceptions.FailedPrecondition


def spec(**more):
    return {
        "metrics": [{"metric_id": "acc", "goal": "MAXIMIZE"}],
        "parameters": [
            {"parameter_id": "lr", "double_value_spec": {"max_value": 1.0}, "scale_type": "UNIT_LINEAR_SCALE"},
            {
                "parameter_id": "n",
                "integer_value_spec": {"min_value": 1, "max_value": 8, "default_value": 2},
                "conditional_parameter_specs": [
                    {
                        "parameter_spec": {
                            "parameter_id": "m",
                            "double_value_spec": {"min_value": 0.1, "max_value": 0.9},
                            "scale_type": "UNIT_LOG_SCALE",
                        },
                        "parent_int_values": {"values": [2, 3]},
                    }
                ],
            },
            {"parameter_id": "kind", "categorical_value_spec": {"values": ["tree", "net"]}},
            {"parameter_id": "w", "discrete_value_spec": {"values": [16.0, 32.0]}},
        ],
        **more,
    }


def refused(error, call, part):
    try:
        call()
    except error as refusal:
        assert part in str(refusal), refusal
        return
    raise AssertionError(f"{part} was accepted")


def check_studies(api):
    made = api.create_study(parent=PARENT, study={"display_name": "s 1", "study_spec": spec()})
    assert made.state == types.Study.State.ACTIVE and made.create_time is not None
    assert made.name.rsplit("/", 1)[1].isdigit(), made.name
    read = api.get_study(name=made.name)
    assert read == made, (read, made)
    assert read.study_spec.parameters[0].double_value_spec.min_value == 0.0
    assert read.study_spec.parameters[1].integer_value_spec.default_value == 2
    child = read.study_spec.parameters[1].conditional_parameter_specs[0]
    assert list(child.parent_int_values.values) == [2, 3] and child.parameter_spec.parameter_id == "m"
    assert api.lookup_study(request={"parent": PARENT, "display_name": "s 1"}).name == made.name
    refused(exceptions.NotFound, lambda: api.lookup_study(request={"parent": PARENT, "display_name": "none"}), "none")
    same = api.create_study(parent=PARENT, study={"display_name": "s 1", "study_spec": spec()})
    assert same.name == made.name
    other = spec(algorithm="RANDOM_SEARCH")
    refused(CONFLICT, lambda: api.create_study(parent=PARENT, study={"display_name": "s 1", "study_spec": other}), "s 1")
    for number in range(2, 5):
        api.create_study(parent=PARENT, study={"display_name": f"s {number}", "study_spec": spec()})
    listed = list(api.list_studies(request={"parent": PARENT, "page_size": 2}))
    assert {study.display_name for study in listed} == {"s 1", "s 2", "s 3", "s 4"}, listed
    api.delete_study(name=listed[-1].name)
    refused(exceptions.NotFound, lambda: api.get_study(name=listed[-1].name), listed[-1].name.rsplit("/", 1)[1])
    return api.lookup_study(request={"parent": PARENT, "display_name": "s 1"})


def check_refusals(api):
    def made(study_spec):
        return lambda: api.create_study(parent=PARENT, study={"display_name": "bad", "study_spec": study_spec})

    metrics, parameter = spec()["metrics"], spec()["parameters"][0]
    refused(BAD, made({"metrics": metrics}), "studySpec.parameters")
    refused(BAD, made({"parameters": [parameter]}), "at least one metric")
    refused(BAD, made({"metrics": metrics, "parameters": [parameter, parameter]}), "studySpec.parameters")
    reversed_range = {"parameter_id": "x", "double_value_spec": {"min_value": 2.0, "max_value": 1.0}}
    refused(BAD, made({"metrics": metrics, "parameters": [reversed_range]}), "studySpec.parameters[0]")
    log = {**parameter, "scale_type": "UNIT_LOG_SCALE"}
    refused(BAD, made({"metrics": metrics, "parameters": [log]}), "studySpec.parameters[0]")
    refused(BAD, made({"metrics": metrics, "parameters": [{"parameter_id": "x", "categorical_value_spec": {}}]}), "at least one value")
    refused(BAD, made({"metrics": metrics, "parameters": [parameter], "algorithm": "GRID_SEARCH"}), "GRID_SEARCH")
    spaced = {**parameter, "parameter_id": "a b"}
    refused(BAD, made({"metrics": metrics, "parameters": [spaced]}), "studySpec.parameters[0].parameterId")
    foreign = spec()["parameters"][1]
    foreign["conditional_parameter_specs"][0]["parent_int_values"] = {"values": [99]}
    refused(BAD, made({"metrics": metrics, "parameters": [foreign]}), "n")
    wrong = {**spec()["parameters"][1], "integer_value_spec": {"min_value": 1, "max_value": 8, "default_value": 9}}
    place = "studySpec.parameters[0].integerValueSpec.defaultValue"
    refused(BAD, made({"metrics": metrics, "parameters": [wrong]}), place)


def check_trials(api, study):
    def suggest(count, worker):
        request = {"parent": study.name, "suggestion_count": count, "client_id": worker}
        return api.suggest_trials(request=request).result(timeout=60)

    first = suggest(2, "worker")
    assert first.study_state == types.Study.State.ACTIVE and len(first.trials) == 2
    again = suggest(2, "worker")
    assert [trial.name for trial in again.trials] == [trial.name for trial in first.trials]
    trial = first.trials[0]
    # As a client reads an operation that was not complete.
    started = api.suggest_trials(request={"parent": study.name, "suggestion_count": 2, "client_id": "worker"})
    read = api.transport.operations_client.get_operation(started.operation.name)
    assert read.response.type_url.endswith(f"aiplatform.{VERSION}.SuggestTrialsResponse"), read
    assert read.metadata.type_url.endswith(f"aiplatform.{VERSION}.SuggestTrialsMetadata"), read
    response = types.SuggestTrialsResponse.pb(types.SuggestTrialsResponse())
    assert read.response.Unpack(response) and [trial.id for trial in response.trials] == ["1", "2"]
    values = {parameter.parameter_id: parameter.value for parameter in trial.parameters}
    assert values["n"] == 2 and 0.1 <= values["m"] <= 0.9, values
    assert trial.state == types.Trial.State.ACTIVE and trial.client_id == "worker" and trial.id == "1"

    def measure(step, value, seconds=0):
        measurement = {"step_count": step, "elapsed_duration": {"seconds": seconds}, "metrics": [{"metric_id": "acc", "value": value}]}
        return api.add_trial_measurement(request={"trial_name": trial.name, "measurement": measurement})

    measure(2, 0.5, 2)
    measure(1, 0.25, 1)
    seen = measure(2, 0.75, 2)
    assert [(item.step_count, item.metrics[0].value) for item in seen.measurements] == [(1, 0.25), (2, 0.75)]
    refused(
        BAD,
        lambda: api.add_trial_measurement(
            request={"trial_name": trial.name, "measurement": {"step_count": 3, "metrics": [{"metric_id": "x", "value": 1}]}}
        ),
        "measurement.metrics[0].metricId",
    )
    check = api.check_trial_early_stopping_state(request={"trial_name": trial.name}).result(timeout=60)
    assert check.should_stop is False
    done = api.complete_trial(request={"name": trial.name})
    assert done.state == types.Trial.State.SUCCEEDED and done.final_measurement.metrics[0].value == 0.75
    assert done.end_time is not None
    refused(ENDED, lambda: api.complete_trial(request={"name": trial.name}), "trial 1")
    bad = api.complete_trial(request={"name": first.trials[1].name, "trial_infeasible": True, "infeasible_reason": "nan"})
    assert bad.state == types.Trial.State.INFEASIBLE and bad.infeasible_reason == "nan"
    third = suggest(1, "worker").trials[0]
    stopping = api.stop_trial(request={"name": third.name})
    assert stopping.state == types.Trial.State.STOPPING
    assert api.complete_trial(request={"name": third.name}).state == types.Trial.State.INFEASIBLE
    point = [
        {"parameter_id": "lr", "value": 0.5},
        {"parameter_id": "n", "value": 5},
        {"parameter_id": "kind", "value": "net"},
        {"parameter_id": "w", "value": 32.0},
    ]
    own = api.create_trial(parent=study.name, trial={"parameters": point})
    assert own.state == types.Trial.State.REQUESTED
    best = {"parameters": point, "final_measurement": {"metrics": [{"metric_id": "acc", "value": 0.9}]}}
    known = api.create_trial(parent=study.name, trial=best)
    assert known.state == types.Trial.State.SUCCEEDED
    outside = [{**value, "value": 9} if value["parameter_id"] == "n" else value for value in point]
    refused(BAD, lambda: api.create_trial(parent=study.name, trial={"parameters": outside}), "n")
    assert suggest(1, "other").trials[0].name == own.name
    optimal = api.list_optimal_trials(request={"parent": study.name}).optimal_trials
    assert [trial.name for trial in optimal] == [known.name]
    api.delete_trial(name=known.name)
    refused(exceptions.NotFound, lambda: api.get_trial(name=known.name), "trial 5")
    listed = list(api.list_trials(request={"parent": study.name, "page_size": 2}))
    assert [trial.id for trial in listed] == ["1", "2", "3", "4"], listed


def check_contexts(api):
    study = api.create_study(parent=PARENT, study={"display_name": "contexts", "study_spec": spec()})

    def suggest(worker, *contexts):
        contexts = [{"parameters": [{"parameter_id": name, "value": value} for name, value in each.items()]} for each in contexts]
        request = {"parent": study.name, "suggestion_count": max(1, len(contexts)), "client_id": worker, "contexts": contexts}
        return api.suggest_trials(request=request).result(timeout=60).trials

    def values(trial):
        return {parameter.parameter_id: parameter.value for parameter in trial.parameters}

    both = suggest("a", {"kind": "net", "n": 2, "m": 0.25}, {"kind": "tree", "w": 16.0})
    net, tree = map(values, both)
    assert (net["kind"], net["n"], net["m"]) == ("net", 2, 0.25) and "lr" in net and "w" in net, net
    assert (tree["kind"], tree["w"]) == ("tree", 16.0) and "lr" in tree and "n" in tree, tree
    again = suggest("a", {"kind": "tree"}, {"kind": "net"})
    assert [trial.name for trial in again] == [both[1].name, both[0].name]
    assert suggest("a", {})[0].name == both[0].name
    assert values(suggest("b", {"lr": 0.125})[0])["lr"] == 0.125
    point = [{"parameter_id": name, "value": value} for name, value in {"lr": 0.5, "n": 5, "kind": "net", "w": 32.0}.items()]
    queued = api.create_trial(parent=study.name, trial={"parameters": point})
    assert suggest("c", {"n": 5.0})[0].name == queued.name
    for context, part in [
        ({"lr": 2.0}, "contexts[0].parameters"),
        ({"speed": 1.0}, "contexts[0].parameters[0]"),
        ({"kind": "forest"}, "forest"),
        ({"m": 0.25}, "contexts[0].parameters[0]"),
        ({"n": 5, "m": 0.25}, "contexts[0].parameters"),
        ({"n": "five"}, "contexts[0].parameters[0].value"),
    ]:
        refused(BAD, lambda: suggest("d", context), part)
    if ENDPOINT.endswith("/vertex"):
        trials = f"{ENDPOINT.removesuffix('/vertex')}/v1/{study.name}/trials"
        with urllib.request.urlopen(trials) as response:
            known = {trial["name"].rsplit("/", 1)[1]: trial.get("tunesmith", {}) for trial in json.load(response)["trials"]}
        fixed = {name: known[name].get("fixedParameters") for name in ["1", "2", "3", "4"]}
        assert fixed == {"1": ["kind", "m", "n"], "2": ["kind", "w"], "3": ["lr"], "4": None}, fixed
    request = {"parent": study.name, "suggestion_count": 2, "client_id": "d", "contexts": [{}]}
    refused(BAD, lambda: api.suggest_trials(request=request), "contexts")
    assert len(list(api.list_trials(request={"parent": study.name}))) == 4
    api.delete_study(name=study.name)


def check_beta(api):
    """Fields that only v1beta1 has."""
    made = api.create_study(
        parent=PARENT,
        study={
            "display_name": "beta",
            "study_spec": {
                "metrics": [{"metric_id": "acc"}],
                "parameters": [{"parameter_id": "x", "double_value_spec": {"max_value": 1.0}}],
                "convex_stop_config": {"max_num_steps": 50, "min_num_steps": 5},
                "transfer_learning_config": {"disable_transfer_learning": True},
            },
        },
    )
    assert made.study_spec.transfer_learning_config.disable_transfer_learning is True
    assert made.study_spec.convex_automated_stopping_spec.max_step_count == 50, made.study_spec
    assert api.get_study(name=made.name) == made
    api.delete_study(name=made.name)


def check_sdk():
    from google.cloud.aiplatform.vizier import Study, pyvizier

    more = {"api_transport": "rest"} if TRANSPORT == "rest" else {}
    aiplatform.init(
        project="p",
        location="us-central1",
        credentials=AnonymousCredentials(),
        api_endpoint=ENDPOINT,
        staging_bucket="gs://x",
        **more,
    )
    problem = pyvizier.StudyConfig()
    problem.algorithm = pyvizier.Algorithm.RANDOM_SEARCH
    problem.metric_information.append(
        pyvizier.MetricInformation(name="loss", goal=pyvizier.ObjectiveMetricGoal.MINIMIZE)
    )
    problem.search_space.root.add_float_param("x", 0.0, 1.0, scale_type=pyvizier.ScaleType.LINEAR)
    study = Study.create_or_load(display_name="sdk", problem=problem)
    again = Study.create_or_load(display_name="sdk", problem=problem)
    assert study.resource_name == again.resource_name
    for trial in study.suggest(count=2, worker="w"):
        value = trial.parameters["x"].value
        measurement = pyvizier.Measurement(metrics={"loss": value}, steps=1, elapsed_secs=1)
        trial.add_measurement(measurement=measurement)
        assert trial.should_stop() is False
        trial.complete(measurement=measurement)
    assert len(study.trials()) == 2
    best = study.optimal_trials()
    assert len(best) == 1
    assert any(item.resource_name == study.resource_name for item in Study.list())
    study.delete()


def check_discovery():
    from googleapiclient import discovery

    api = discovery.build(
        "aiplatform",
        VERSION,
        client_options={"api_endpoint": ENDPOINT},
        static_discovery=True,
        credentials=AnonymousCredentials(),
    )
    studies = api.projects().locations().studies()
    body = {
        "displayName": "discovery",
        "studySpec": {
            "metrics": [{"metricId": "loss", "goal": "MINIMIZE"}],
            "parameters": [{"parameterId": "x", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}],
            "medianAutomatedStoppingSpec": {},
        },
    }
    made = studies.create(parent=PARENT, body=body).execute()
    assert made["state"] == "ACTIVE" and made["studySpec"]["metrics"][0]["goal"] == "MINIMIZE", made
    trials = studies.trials()
    operation = trials.suggest(parent=made["name"], body={"suggestionCount": 1, "clientId": "w"}).execute()
    assert operation["done"] is True
    trial = operation["response"]["trials"][0]
    assert studies.operations().get(name=operation["name"]).execute()["response"]["trials"][0]["id"] == "1"
    trials.complete(name=trial["name"], body={"finalMeasurement": {"metrics": [{"metricId": "loss", "value": 0.5}]}}).execute()
    assert trials.listOptimalTrials(parent=made["name"], body={}).execute()["optimalTrials"][0]["id"] == "1"
    locations = api.projects().locations().list(name="projects/p").execute()["locations"]
    assert locations[0]["locationId"] == "local"


if "client" in PARTS:
    api = client()
    study = check_studies(api)
    check_refusals(api)
    check_trials(api, study)
    check_contexts(api)
    if VERSION == "v1beta1":
        check_beta(api)
if "sdk" in PARTS:
    check_sdk()
if "discovery" in PARTS:
    check_discovery()
print("ok")
