"""Leases that expire and leases that are renewed."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from datetime import timedelta

import pytest

import tunesmith
from server_process import ServerProcess, until
from tunesmith import Client, Study


def one_trial(client: Client, lease: float | timedelta) -> Study:
    return client.create_study(
        "s", [tunesmith.double("x", 0, 1)], [tunesmith.minimize("loss")], max_trials=1, trial_lease=lease
    )


def test_an_expired_trial_goes_to_a_lingering_worker(client: Client) -> None:
    study = one_trial(client, timedelta(minutes=1))
    silent = study.trials(client_id="silent", lease=0.2, renew_lease=False)
    lost = next(silent)
    for trial in study.trials(client_id="next", linger=True):
        with trial:
            trial.report(0.5)
    assert trial.parameters == lost.parameters
    assert trial.record.expired_leases == 1
    with pytest.raises(tunesmith.TrialLost, match="trial 1 is not ours any more"):
        lost.report(0.1)
    with pytest.raises(tunesmith.TrialLost), lost:
        lost.complete(0.1)
    assert lost.is_lost
    # The loop continues after a trial was lost.
    assert next(silent, None) is None
    (record,) = study.all_trials()
    assert (record.client_id, record.metrics) == ("next", {"loss": 0.5})


def test_an_expired_lease_raises_trial_lost_before_reassignment(client: Client) -> None:
    study = one_trial(client, 0.2)
    (trial,) = study.suggest(renew_lease=False)
    until(lambda: study.all_trials()[0].state == "REQUESTED")
    with pytest.raises(tunesmith.TrialLost, match="lease"):
        trial.report(0.5)


def test_a_lease_is_renewed_without_reports(client: Client) -> None:
    study = one_trial(client, 3)
    for trial in study.trials():
        with trial:
            first = trial.record.lease_end_time
            assert first is not None

            def later(first: float = first.timestamp()) -> bool:
                (record,) = study.all_trials()
                assert record.state == "ACTIVE"
                return record.lease_end_time is not None and record.lease_end_time.timestamp() > first + 6

            until(later)
            trial.report(0.25)
    (record,) = study.all_trials()
    assert (record.expired_leases, record.metrics) == (0, {"loss": 0.25})


def test_the_lease_of_a_dropped_or_released_trial_expires(client: Client) -> None:
    study = one_trial(client, 0.2)

    def expired() -> int:
        return study.all_trials()[0].expired_leases

    next(study.trials())
    gc.collect()
    until(lambda: expired() == 1)
    (trial,) = study.suggest(client_id="again")
    assert trial.record.expired_leases == 1
    trial.release()
    until(lambda: expired() == 2)
    (trial,) = study.suggest(client_id="forgetful")
    del trial
    gc.collect()
    until(lambda: expired() == 3)


def test_a_worker_can_choose_its_lease(client: Client) -> None:
    study = client.create_study("s", [tunesmith.double("x", 0, 1)], [tunesmith.minimize("loss")])
    (trial,) = study.suggest(lease=30)
    assert trial.record.lease_end_time is not None
    assert trial.record.start_time is not None
    assert 29 < (trial.record.lease_end_time - trial.record.start_time).total_seconds() < 31


PAUSED_WORKER = """
import sys
import tunesmith

for trial in tunesmith.Client().study("s").trials(client_id="paused", lease=0.5):
    print("taken", flush=True)
    sys.stdin.readline()
    try:
        trial.report(0.1)
    except tunesmith.TrialLost as error:
        print("lost", error, flush=True)
"""


def test_a_process_that_was_paused_past_its_lease_is_refused(own_server: ServerProcess) -> None:
    study = one_trial(Client(own_server.address), 60)
    with subprocess.Popen(
        [sys.executable, "-c", PAUSED_WORKER],
        env=os.environ | {"TUNESMITH_SERVER": own_server.address},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        assert worker.stdout.readline() == "taken\n"
        worker.send_signal(signal.SIGSTOP)
        for trial in study.trials(linger=True):
            trial.complete(0.5)
        worker.send_signal(signal.SIGCONT)
        output, _ = worker.communicate("\n")
    assert output.startswith("lost trial 1 is not ours any more")
    assert worker.returncode == 0
    assert study.all_trials()[0].metrics == {"loss": 0.5}
