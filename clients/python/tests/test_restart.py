"""A server that is killed under load and restarted."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import tunesmith
from server_process import ServerProcess
from tunesmith import Client

TRIALS = 60
KILLS = 3


def test_workers_continue_after_the_server_was_killed_and_restarted(own_server: ServerProcess) -> None:
    client = Client(own_server.address)
    study = client.create_study(
        "s", [tunesmith.double("x", 0, 1)], [tunesmith.minimize("loss")], max_trials=TRIALS, algorithm="random_search"
    )
    completed = threading.Semaphore(0)

    def work(_: int) -> dict[int, float]:
        results = {}
        for trial in study.trials():
            with trial:
                loss = float(trial.parameters["x"]) ** 2
                trial.report(loss + 1)
                trial.report(loss)
            results[trial.number] = loss
            completed.release()
        return results

    with ThreadPoolExecutor(4) as pool:
        workers = [pool.submit(work, number) for number in range(4)]
        for _ in range(KILLS):
            for _ in range(TRIALS // (KILLS + 1)):
                assert completed.acquire(timeout=120)
            own_server.end(signal.SIGKILL)
            own_server.start()
        results = [worker.result() for worker in workers]
    acknowledged = {number: result for each in results for number, result in each.items()}
    # Each number was assigned to exactly one worker.
    assert sum(len(each) for each in results) == len(acknowledged) == TRIALS
    records = {record.number: record for record in study.all_trials()}
    assert sorted(records) == sorted(acknowledged) == list(range(1, TRIALS + 1))
    for number, loss in acknowledged.items():
        assert records[number].metrics == {"loss": loss}
        reports = {(measurement.step, measurement.metrics["loss"]) for measurement in records[number].measurements}
        assert reports == {(1, loss + 1), (2, loss)}
    assert study.state == "COMPLETED"
