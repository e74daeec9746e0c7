"""Failing programs and refused requests."""

from __future__ import annotations

import logging

import pytest

import tunesmith
from server_process import ServerProcess
from tunesmith import Client, Study


def small_study(client: Client) -> Study:
    return client.create_study("s", [tunesmith.double("x", 0, 1)], [tunesmith.minimize("loss")])


def test_an_exception_makes_the_trial_infeasible_and_propagates(client: Client) -> None:
    study = small_study(client)
    with pytest.raises(MemoryError, match="too large"):
        for trial in study.trials():
            with trial:
                trial.report(1.0)
                raise MemoryError("too large")
    (record,) = study.all_trials()
    assert (record.state, record.infeasible, record.metrics) == ("COMPLETED", True, {})
    assert record.infeasible_reason == "MemoryError: too large"


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_an_interruption_leaves_the_trial_active(client: Client, interruption: type[BaseException]) -> None:
    study = small_study(client)
    with pytest.raises(interruption), study.suggest()[0] as trial:
        trial.report(1.0)
        raise interruption
    assert study.all_trials()[0].state == "ACTIVE"


def test_a_misuse_of_the_client_does_not_make_the_trial_infeasible(client: Client) -> None:
    study = small_study(client)
    (trial,) = study.suggest()
    with pytest.raises(tunesmith.InvalidArgument, match="finalMeasurement") as caught, trial:
        trial.complete({"los": 1.0})
    assert caught.value.http_status == 400
    assert caught.value.violations[0].field == "finalMeasurement.metrics"
    with pytest.raises(tunesmith.TrialNotCompleted, match="without a report"), trial:
        pass
    with pytest.raises(tunesmith.TrialNotCompleted, match="neither completed nor declared infeasible"):
        list(study.trials(client_id=trial.record.client_id))
    assert study.all_trials()[0].state == "ACTIVE"


def test_an_infeasible_trial_has_a_reason(client: Client) -> None:
    study = small_study(client)
    (trial,) = study.suggest()
    with trial:
        record = trial.infeasible("does not fit")
    assert (record.infeasible, record.infeasible_reason) == (True, "does not fit")
    with pytest.raises(tunesmith.FailedPrecondition):
        trial.complete(1.0)


def test_a_result_that_is_not_finite_is_logged(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    (trial,) = small_study(client).suggest()
    with caplog.at_level(logging.WARNING, "tunesmith"):
        trial.complete(float("nan"))
    assert trial.record.infeasible
    assert "trial 1 is infeasible" in caplog.text
    assert "NaN" in caplog.text


def test_refusals_name_the_invalid_fields(client: Client) -> None:
    with pytest.raises(tunesmith.NotFound) as missing:
        client.study("none")
    assert (missing.value.http_status, missing.value.status) == (404, "NOT_FOUND")
    with pytest.raises(tunesmith.NotFound):
        client.job("none")
    with pytest.raises(tunesmith.InvalidArgument) as caught:
        client.create_study("s", [tunesmith.double("x", 2, 1), tunesmith.double("x", 0, 1)], [])
    fields = [violation.field for violation in caught.value.violations]
    assert "studyConfig.metrics" in fields
    assert any(field.startswith("studyConfig.parameters[0]") for field in fields)
    assert all(violation.description in str(caught.value) for violation in caught.value.violations)
    with pytest.raises(tunesmith.InvalidArgument, match="studyId"):
        client.create_study("a/b", [tunesmith.double("x", 0, 1)], [tunesmith.minimize("m")])


def test_invalid_arguments_are_refused_without_a_request() -> None:
    with pytest.raises(TypeError, match="list of texts"):
        tunesmith.categorical("c", "abc")
    with pytest.raises(TypeError, match="not an int"):
        tunesmith.integer("k", 1, 2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="reverse_log"):
        tunesmith.double("x", 1, 2, scale="logarithmic")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cannot have children"):
        tunesmith.double("x", 1, 2).when(1, tunesmith.double("y", 1, 2))


def test_a_client_needs_a_server_address(monkeypatch: pytest.MonkeyPatch, server: ServerProcess) -> None:
    monkeypatch.delenv("TUNESMITH_SERVER", raising=False)
    with pytest.raises(tunesmith.ConfigurationError, match="TUNESMITH_SERVER"):
        Client()
    for wrong in ("ftp://host", "127.0.0.1:8080", "http://", "http://host:port"):
        with pytest.raises(tunesmith.ConfigurationError, match="server"):
            Client(wrong)
    with pytest.raises(tunesmith.ConfigurationError, match="cafile"):
        Client("https://127.0.0.1:1", cafile="/does/not/exist")
    monkeypatch.setenv("TUNESMITH_SERVER", server.address)
    assert Client(project="empty").studies() == []


def test_an_unreachable_server_raises_connection_failed() -> None:
    client = Client("http://127.0.0.1:1", retry_for=0.3)
    with pytest.raises(tunesmith.ConnectionFailed, match=r"no answer after [2-9] attempts: .*refused"):
        client.studies()
