"""Trials whose workers have died."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from optuna.exceptions import UpdateFinishedTrialError
from optuna.study import StudyDirection
from optuna.trial import TrialState, create_trial

from server_process import until
from storage_server import StorageServer


@pytest.fixture
def lease_server(tmp_path: Path) -> Iterator[StorageServer]:
    """A server with leases of two seconds."""
    server = StorageServer(tmp_path, "--optuna-trial-lease", "2")
    yield server
    server.end()


def test_running_trials_fail_without_calls_about_them(lease_server: StorageServer) -> None:
    storage = lease_server.proxy()
    study = storage.create_new_study([StudyDirection.MINIMIZE])
    waiting = storage.create_new_trial(study, create_trial(state=TrialState.WAITING))
    finished = storage.create_new_trial(study)
    storage.set_trial_state_values(finished, TrialState.COMPLETE, [1.0])
    taken = storage.create_new_trial(study, create_trial(state=TrialState.WAITING))
    storage.set_trial_state_values(taken, TrialState.RUNNING)
    abandoned, reporting = storage.create_new_trial(study), storage.create_new_trial(study)

    def states() -> dict[int, TrialState]:
        storage.set_trial_intermediate_value(reporting, 0, 0.0)
        return {trial._trial_id: trial.state for trial in storage.get_all_trials(study)}

    until(lambda: states()[abandoned] == states()[taken] == TrialState.FAIL)
    assert states() == {
        waiting: TrialState.WAITING,
        finished: TrialState.COMPLETE,
        taken: TrialState.FAIL,
        abandoned: TrialState.FAIL,
        reporting: TrialState.RUNNING,
    }
    with pytest.raises(UpdateFinishedTrialError):
        storage.set_trial_user_attr(abandoned, "k", 1)
    ended = storage.get_trial(abandoned)
    assert ended.datetime_start is not None
    assert ended.datetime_complete is not None
    assert (ended.datetime_complete - ended.datetime_start).total_seconds() > 1.9


def test_trials_of_an_earlier_server_get_new_leases(lease_server: StorageServer) -> None:
    storage = lease_server.proxy()
    study = storage.create_new_study([StudyDirection.MINIMIZE])
    trial = storage.create_new_trial(study)
    lease_server.end(signal.SIGKILL)
    lease_server.start()
    storage = lease_server.proxy()
    until(lambda: storage.get_all_trials(study)[0].state == TrialState.FAIL)
    with pytest.raises(UpdateFinishedTrialError):
        storage.set_trial_state_values(trial, TrialState.COMPLETE, [1.0])
