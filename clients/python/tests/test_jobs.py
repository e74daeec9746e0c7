"""Jobs, and programs that are trials of jobs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import tunesmith
from server_process import until
from tunesmith import Client

TRAINER = """
import tunesmith

trial = tunesmith.current_trial()
assert trial is not None
parameters = trial.parameters
assert [type(parameters[name]) for name in ("x", "batch", "drop", "kind")] == [float, int, float, str], parameters
assert trial.name.endswith(f"/trials/{trial.number}") and trial.name.startswith(trial.study)
for step in (10, 20):
    trial.report(parameters["x"] / step, step=step)
    assert not trial.should_stop()
trial.report({"score": parameters["x"], "other": 1})
"""


def training_input(*command: str, **more: Any) -> dict[str, Any]:
    return {"scaleTier": "BASIC", "region": "here", "masterConfig": {"containerCommand": list(command)}, **more}


def test_a_program_that_the_service_starts_finds_its_trial_and_reports(client: Client, tmp_path: Path) -> None:
    trainer = tmp_path / "trainer.py"
    trainer.write_text(TRAINER)
    hyperparameters = {
        "goal": "MAXIMIZE",
        "hyperparameterMetricTag": "score",
        "maxTrials": 3,
        "params": [
            {"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 8},
            {"parameterName": "batch", "type": "DISCRETE", "discreteValues": [16, 32]},
            {"parameterName": "drop", "type": "DISCRETE", "discreteValues": [0, 0.5]},
            {"parameterName": "kind", "type": "CATEGORICAL", "categoricalValues": ["a", "b"]},
        ],
    }
    job = client.submit_job(
        "tuning",
        training_input(sys.executable, str(trainer), hyperparameters=hyperparameters),
        labels={"team": "a"},
    )
    ended = job.wait(timeout=300)
    assert (job.id, job.state, ended["labels"]) == ("tuning", "SUCCEEDED", {"team": "a"})
    assert job.name == client.job("tuning").name == client.jobs("labels.team:a")[0].name
    trials = job.trials
    assert sorted(trial.number for trial in trials) == [1, 2, 3]
    scores = [trial.metric for trial in trials]
    assert scores == sorted(scores, reverse=True)
    assert scores == [float(trial.hyperparameters["x"]) for trial in trials]
    assert {trial.step for trial in trials} == {21}


def test_failed_and_cancelled_jobs_raise_job_ended(client: Client) -> None:
    failing = client.submit_job("failing", training_input("sh", "-c", "exit 3"))
    with pytest.raises(tunesmith.JobEnded, match=r"FAILED.*exit code 3"):
        failing.wait(timeout=300)
    assert failing.trials == []
    endless = client.submit_job("endless", training_input("tail", "-f", "/dev/null"))
    until(lambda: endless.state == "RUNNING")
    with pytest.raises(TimeoutError, match="RUNNING"):
        endless.wait(timeout=0)
    endless.cancel()
    with pytest.raises(tunesmith.JobEnded, match="CANCELLED"):
        endless.wait(timeout=300)
    assert [job.id for job in client.jobs()] == ["endless", "failing"]
    assert client.jobs("state:SUCCEEDED") == []
    with pytest.raises(tunesmith.InvalidArgument) as caught:
        client.submit_job("bad", training_input("true", hyperparameters={"goal": "MAXIMIZE"}))
    assert caught.value.violations[0].field == "trainingInput.hyperparameters.params"


def test_there_is_no_current_trial_outside_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ENDPOINT", "STUDY", "TRIAL", "TOKEN"):
        monkeypatch.delenv(f"TUNESMITH_{name}", raising=False)
    assert tunesmith.current_trial() is None
    monkeypatch.setenv("TUNESMITH_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(tunesmith.ConfigurationError, match="TUNESMITH_STUDY, TUNESMITH_TRIAL, TUNESMITH_TOKEN not set"):
        tunesmith.current_trial()
