"""Several processes on one study, and a server that is killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import grpc
import optuna
import pytest
from optuna.storages import GrpcStorageProxy
from optuna.study import StudyDirection
from optuna.trial import TrialState

from server_process import until
from storage_server import StorageServer

WORKER = Path(__file__).with_name("take_trials.py")


def test_each_waiting_trial_is_taken_by_one_of_eight_processes(
    storage_server: StorageServer, storage: GrpcStorageProxy
) -> None:
    study = optuna.create_study(storage=storage, study_name="queue")
    for index in range(100):
        study.enqueue_trial({"x": index})
    command = [sys.executable, str(WORKER), str(storage_server.port), "queue", "100"]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    taken = [json.loads(worker.communicate()[0]) for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 8
    assert sorted(number for numbers in taken for number in numbers) == list(range(100))
    finished = study.get_trials(states=(TrialState.COMPLETE,))
    assert [(trial.number, trial.value) for trial in finished] == [(number, number) for number in range(100)]


def test_nothing_acknowledged_is_lost_when_the_server_is_killed(own_storage_server: StorageServer) -> None:
    server = own_storage_server
    study = server.proxy().create_new_study([StudyDirection.MINIMIZE], "s")
    acknowledged: list[dict[int, int]] = [{} for _ in range(4)]

    def write(trials: dict[int, int]) -> None:
        storage = server.proxy()
        with pytest.raises(grpc.RpcError):
            while True:
                trial = storage.create_new_trial(study)
                trials[trial] = -1
                for step in range(3):
                    storage.set_trial_intermediate_value(trial, step, float(trial))
                    trials[trial] = step

    threads = [threading.Thread(target=write, args=(trials,)) for trials in acknowledged]
    for kill in range(3):
        for thread in threads:
            thread.start()
        enough = 100 * (kill + 1)
        until(lambda enough=enough: sum(map(len, acknowledged)) >= enough)  # type: ignore[misc]
        server.end(signal.SIGKILL)
        for thread in threads:
            thread.join()
        server.start()
        stored = {trial._trial_id: trial for trial in server.proxy().get_all_trials(study)}
        assert [trial.number for trial in stored.values()] == list(range(len(stored)))
        assert list(stored) == sorted(stored)
        for trials in acknowledged:
            for trial, last_step in trials.items():
                values = stored[trial].intermediate_values
                # The change under way when the server was killed may have been applied.
                assert len(values) - 1 in (last_step, last_step + 1)
                assert all(value == trial for value in values.values())
        assert server.proxy().create_new_trial(study) == max(stored) + 1
        threads = [threading.Thread(target=write, args=(trials,)) for trials in acknowledged]


def test_studies_and_ids_continue_after_a_restart(own_storage_server: StorageServer) -> None:
    server = own_storage_server
    before = server.proxy()
    first = before.create_new_study([StudyDirection.MAXIMIZE], "kept")
    second = before.create_new_study([StudyDirection.MINIMIZE], "deleted")
    trial = before.create_new_trial(second)
    before.set_study_user_attr(first, "k", float("inf"))
    before.delete_study(second)
    server.end()
    server.start()
    # The same connection reaches the next server.
    grpc.channel_ready_future(before._channel).result(timeout=60)
    assert before.get_study_name_from_id(first) == "kept"
    after = server.proxy()
    assert after.get_study_user_attrs(first) == {"k": float("inf")}
    assert after.create_new_study([StudyDirection.MINIMIZE], "deleted") == second + 1
    assert after.create_new_trial(first) == trial + 1
    assert (server.folder / "data" / "optuna.sqlite").stat().st_mode & 0o777 == 0o600
