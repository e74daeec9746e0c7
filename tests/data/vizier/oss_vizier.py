"""OSS Vizier's own client against a server: every call of `clients.Study` and `clients.Trial`."""

import sys

import grpc
from vizier.client import client_abc
from vizier.service import clients, pyvizier

ENDPOINT = sys.argv[1]


def config(algorithm="DEFAULT", conditional=True):
    config = pyvizier.StudyConfig(algorithm=algorithm)
    root = config.search_space.root
    root.add_float_param("rate", 1e-4, 1.0, scale_type=pyvizier.ScaleType.LOG, default_value=0.1)
    root.add_int_param("depth", 1, 8)
    root.add_bool_param("bias")
    root.add_discrete_param("width", [16, 32, 64])
    kind = root.add_categorical_param("kind", ["tree", "net"])
    if conditional:
        kind.select_values(["net"]).add_float_param("dropout", 0.0, 0.5)
    config.metric_information.append(pyvizier.MetricInformation("loss", goal=pyvizier.ObjectiveMetricGoal.MINIMIZE))
    config.metadata.ns("library")["note"] = "given"
    return config


def check_study():
    study = clients.Study.from_study_config(config(), owner="team", study_id="my study")
    assert study.resource_name == "owners/team/studies/my study", study.resource_name
    again = clients.Study.from_study_config(config("RANDOM_SEARCH"), owner="team", study_id="my study")
    assert again.resource_name == study.resource_name
    stored = again.materialize_study_config()
    assert stored.algorithm == "DEFAULT", stored.algorithm
    assert stored.metadata.ns("library")["note"] == "given"
    names = [parameter.name for parameter in stored.search_space.parameters]
    assert names == ["rate", "depth", "bias", "width", "kind"], names
    assert stored.search_space.get("rate").default_value == 0.1
    assert [child.name for child in stored.search_space.get("kind").child_parameter_configs] == ["dropout"]
    return study


def check_trials(study):
    first = study.suggest(count=2, client_id="worker")
    repeated = study.suggest(count=2, client_id="worker")
    assert [trial.id for trial in first] == [trial.id for trial in repeated] == [1, 2]
    values = first[0].parameters
    assert values["rate"] == 0.1, "the first trial has the defaults"
    assert isinstance(values["depth"], int) and isinstance(values["bias"], bool), values
    assert values["width"] in (16, 32, 64)
    assert ("dropout" in values) == (values["kind"] == "net"), values
    for step in range(1, 4):
        first[0].add_measurement(pyvizier.Measurement({"loss": 1.0 / step}, elapsed_secs=step, steps=step))
    assert first[0].check_early_stopping() is False
    final = first[0].complete()
    assert final.metrics["loss"].value == 1.0 / 3, final
    first[1].complete(pyvizier.Measurement({"loss": 0.25}))
    third = study.suggest(count=1)[0]
    third.complete(infeasible_reason="out of memory")
    assert third.materialize().infeasible
    try:
        third.complete(pyvizier.Measurement({"loss": 0.0}))
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.FAILED_PRECONDITION, error
    else:
        raise AssertionError("a trial was completed twice")
    fourth = study.suggest(count=1)[0]
    fourth.stop()
    assert fourth.materialize().stopping_reason is not None or fourth.materialize().status.name == "STOPPING"
    fourth.delete()
    assert [trial.id for trial in study.trials()] == [1, 2, 3]
    best = study.optimal_trials()
    assert [trial.id for trial in best] == [2]


def check_own_trials():
    # Its client cannot check points of conditional spaces.
    study = clients.Study.from_study_config(config(conditional=False), owner="team", study_id="own")
    known = pyvizier.Trial(
        parameters={"rate": 0.01, "depth": 3, "bias": "True", "width": 32, "kind": "tree"},
        final_measurement=pyvizier.Measurement({"loss": 0.5}),
    )
    added = study.add_trial(known)
    assert added.materialize().final_measurement.metrics["loss"].value == 0.5
    study.request(pyvizier.TrialSuggestion({"rate": 0.02, "depth": 4, "bias": "False", "width": 16, "kind": "tree"}))
    requested = study.suggest(count=1, client_id="other")[0]
    assert requested.parameters["depth"] == 4, requested.parameters
    requested.complete(pyvizier.Measurement({"loss": 0.75}))
    try:
        study.request(pyvizier.TrialSuggestion({"rate": 7.0, "depth": 4, "bias": "False", "width": 16, "kind": "tree"}))
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, error
    else:
        raise AssertionError("a point outside of the space was taken")


def check_metadata(study):
    added = pyvizier.Metadata()
    added.ns("library")["state"] = "on"
    study.update_metadata(added)
    stored = study.materialize_study_config().metadata.ns("library")
    assert (stored["state"], stored["note"]) == ("on", "given")
    trial = study.get_trial(1)
    trial.update_metadata(added)
    assert trial.materialize().metadata.ns("library")["state"] == "on"


def check_states(study):
    study.set_state(pyvizier.StudyState.ABORTED)
    assert study.materialize_state() == pyvizier.StudyState.ABORTED
    assert study.suggest(count=1, client_id="late") == []
    study.set_state(pyvizier.StudyState.ACTIVE)
    assert len(study.suggest(count=1, client_id="late")) == 1
    found = clients.Study.from_resource_name(study.resource_name)
    found.delete()
    try:
        clients.Study.from_resource_name(study.resource_name)
    except client_abc.ResourceNotFoundError:
        return
    raise AssertionError("a deleted study was found")


def check_algorithms():
    noted = clients.Study.from_study_config(config("NSGA2"), owner="team", study_id="nsga2").materialize_study_config()
    assert noted.algorithm == "NSGA2"
    assert "NSGA2 is" in noted.metadata.ns("tunesmith")["notices"]
    for algorithm in ["RANDOM_SEARCH", "QUASI_RANDOM_SEARCH", "GAUSSIAN_PROCESS_BANDIT", "GRID_SEARCH"]:
        study = clients.Study.from_study_config(config(algorithm), owner="team", study_id=algorithm.lower())
        assert len(study.suggest(count=3)) == 3
    try:
        clients.Study.from_study_config(config("NONE_SUCH"), owner="team", study_id="none")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT and "GP_UCB_PE" in error.details(), error
    else:
        raise AssertionError("an unknown algorithm was taken")


clients.environment_variables.server_endpoint = ENDPOINT
study = check_study()
check_trials(study)
check_own_trials()
check_metadata(study)
check_states(study)
check_algorithms()
print("ok")
