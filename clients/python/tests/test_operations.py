"""Unfinished and failed operations, and deactivated studies, from scripted answers."""

from __future__ import annotations

import pytest

import tunesmith
from scripted_server import Scripted, ScriptedServer
from tunesmith import Client

STUDY = "projects/local/locations/local/studies/s"
OPERATION = "projects/local/locations/local/operations/o"
CONFIG = {
    "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
    "parameters": [{"parameter": "x", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}],
}
ACTIVE = Scripted(200, {"name": STUDY, "studyConfig": CONFIG, "state": "ACTIVE"})
INACTIVE = Scripted(
    200, {"name": STUDY, "studyConfig": CONFIG, "state": "INACTIVE", "inactiveReason": "the algorithm failed 5 times"}
)
RUNNING = Scripted(200, {"name": OPERATION})
TRIAL = {
    "name": f"{STUDY}/trials/7~2",
    "state": "ACTIVE",
    "parameters": [{"parameter": "x", "floatValue": 1}],
    "startTime": "2026-11-22T04:50:55.157212246Z",
}


def given(*trials: object, state: str) -> Scripted:
    response = {
        "trials": list(trials),
        "studyState": state,
        "startTime": "2026-11-22T04:50:55Z",
        "endTime": "2026-11-22T04:50:56.5Z",
    }
    return Scripted(200, {"name": OPERATION, "done": True, "response": response})


def test_an_operation_is_polled_until_it_is_done() -> None:
    answers = [ACTIVE, RUNNING, RUNNING, given(TRIAL, state="ACTIVE")]
    with ScriptedServer(answers) as server, Client(server.address) as client:
        (trial,) = client.study("s").suggest()
        assert (trial.number, trial.parameters) == (7, {"x": 1.0})
        assert isinstance(trial.parameters["x"], float)
        assert trial.record.start_time is not None
        assert trial.record.start_time.isoformat() == "2026-11-22T04:50:55.157212+00:00"
        asked = [request for request, _ in server.requests]
        assert asked == [f"GET /v1/{STUDY}", f"POST /v1/{STUDY}/trials:suggest"] + [f"GET /v1/{OPERATION}"] * 2


def test_a_failed_operation_raises_its_error() -> None:
    failed = Scripted(200, {"name": OPERATION, "done": True, "error": {"code": 5, "message": "study s is gone"}})
    with (
        ScriptedServer([ACTIVE, RUNNING, failed]) as server,
        Client(server.address) as client,
        pytest.raises(tunesmith.NotFound, match="NOT_FOUND: study s is gone"),
    ):
        client.study("s").suggest()


def test_a_deactivated_study_raises_study_inactive_with_the_reason() -> None:
    answers = [ACTIVE, given(state="INACTIVE"), INACTIVE, given(state="INACTIVE"), INACTIVE]
    with ScriptedServer(answers) as server, Client(server.address) as client:
        study = client.study("s")
        with pytest.raises(tunesmith.StudyInactive, match="the algorithm failed 5 times"):
            next(study.trials())
        with pytest.raises(tunesmith.StudyInactive):
            study.suggest()


def test_a_worker_polls_while_an_active_study_has_no_trial() -> None:
    answers = [ACTIVE, given(state="ACTIVE"), given(state="ACTIVE"), given(TRIAL, state="ACTIVE")]
    with ScriptedServer(answers) as server, Client(server.address) as client:
        assert next(client.study("s").trials(client_id="w")).number == 7
        assert len(server.requests) == 4
