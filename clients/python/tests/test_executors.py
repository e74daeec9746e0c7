"""Objectives in processes and in the threads of an executor, and runs in an event loop."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pytest

import objectives
import tunesmith
from objectives import parabola

# Since Python 3.12, for a fork beside threads.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

LINE: dict[str, Any] = {"x": (-2.0, 2.0)}


@pytest.fixture(params=["fork", "spawn"])
def pool(request: pytest.FixtureRequest) -> Iterator[ProcessPoolExecutor]:
    """Two processes."""
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(request.param)) as pool:
        yield pool


def test_processes_run_the_objective(pool: ProcessPoolExecutor) -> None:
    result = tunesmith.minimize(parabola, LINE, trials=20, seed=1, executor=pool)
    assert len(result.trials) == 20
    assert abs(result.parameters["x"] - 1) < 0.1
    assert all(trial.metrics["value"] == parabola(dict(trial.parameters)) for trial in result.trials)
    processes = tunesmith.minimize(objectives.process_number, LINE, trials=6, seed=1, executor=pool)
    numbers = {trial.metrics["value"] for trial in processes.trials}
    assert float(os.getpid()) not in numbers
    assert len(numbers) <= 2


def test_a_process_knows_the_number_of_its_trial(pool: ProcessPoolExecutor) -> None:
    result = tunesmith.minimize(objectives.number_of_trial, LINE, trials=5, seed=1, executor=pool)
    assert [trial.metrics["value"] for trial in result.trials] == [1, 2, 3, 4, 5]


def test_a_process_cannot_report(pool: ProcessPoolExecutor) -> None:
    with pytest.raises(tunesmith.ObjectiveFailed, match="cannot report: return the result, or run") as caught:
        tunesmith.minimize(objectives.reporting, LINE, trials=5, seed=1, executor=pool)
    assert isinstance(caught.value.__cause__, tunesmith.ReportsUnavailable)


def test_exceptions_of_processes_are_caught_by_type(pool: ProcessPoolExecutor) -> None:
    # Sent as it is, this exception would break the pool: it cannot be unpickled.
    result = tunesmith.minimize(
        objectives.half_fails, {"n": (1, 20)}, trials=20, seed=1, executor=pool, catch=objectives.OddError
    )
    assert len(result.trials) == 20
    for trial in result.trials:
        n = trial.parameters["n"]
        assert trial.infeasible == (n % 2 == 1)
        assert trial.infeasible_reason == (f"OddError: {n} is odd" if trial.infeasible else "")


def test_another_exception_of_a_process_has_its_traceback(pool: ProcessPoolExecutor) -> None:
    with pytest.raises(tunesmith.ObjectiveFailed, match="ZeroDivisionError: division by zero") as caught:
        tunesmith.minimize(objectives.dividing_by_zero, LINE, trials=5, seed=1, executor=pool)
    cause = caught.value.__cause__
    assert isinstance(cause, ZeroDivisionError)
    assert "in dividing_by_zero" in str(cause.__cause__)
    assert "return 1 / 0" in str(cause.__cause__)
    with pytest.raises(tunesmith.ObjectiveFailed, match=r"OddError: .* is odd") as caught:
        tunesmith.minimize(objectives.half_fails, {"n": [1, 3]}, trials=5, seed=1, executor=pool)
    assert "raise OddError" in str(caught.value.__cause__.__cause__)  # type: ignore[union-attr]


def test_a_process_that_dies_leaves_its_trial_unfinished(tmp_path: Any) -> None:
    for context in ("fork", "spawn"):
        storage = tmp_path / context
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(context)) as pool:
            tunesmith.minimize(parabola, LINE, trials=3, seed=1, executor=pool, storage=storage)
            with pytest.raises(
                tunesmith.ExecutorFailed, match=r"trial 4 stays unfinished.*BrokenProcessPool"
            ) as caught:
                tunesmith.minimize(
                    objectives.ending_its_process, LINE, trials=9, seed=1, executor=pool, storage=storage
                )
        states = [trial.state for trial in caught.value.result.trials]
        assert states == ["COMPLETED"] * 3 + ["ACTIVE"]
        result = tunesmith.minimize(parabola, LINE, trials=5, seed=1, storage=storage)
        assert [trial.state for trial in result.trials] == ["COMPLETED"] * 5


def test_an_objective_that_cannot_be_pickled_is_a_failure_of_the_executor(pool: ProcessPoolExecutor) -> None:
    lock = threading.Lock()
    with pytest.raises(tunesmith.ExecutorFailed, match=r"trial 1 stays unfinished.*pickle") as caught:
        tunesmith.minimize(lambda parameters: float(lock.locked()), LINE, trials=5, seed=1, executor=pool, parallel=1)
    assert [trial.state for trial in caught.value.result.trials] == ["ACTIVE"]


def test_threads_of_an_executor_report() -> None:
    def objective(parameters: dict[str, Any]) -> None:
        trial = tunesmith.current_trial()
        assert trial is not None
        trial.report(parabola(parameters))

    with ThreadPoolExecutor(3) as pool:
        result = tunesmith.minimize(objective, LINE, trials=12, seed=1, executor=pool)
    assert [trial.metrics["value"] for trial in result.trials] == [
        parabola(dict(trial.parameters)) for trial in result.trials
    ]


def test_as_many_trials_run_as_the_executor_has_workers() -> None:
    barrier = threading.Barrier(3, timeout=60)

    def objective(parameters: dict[str, Any]) -> float:
        barrier.wait()
        return parabola(parameters)

    with ThreadPoolExecutor(3) as pool:
        assert len(tunesmith.minimize(objective, LINE, trials=12, seed=1, executor=pool).trials) == 12


def test_an_executor_of_another_kind_needs_a_number_of_trials() -> None:
    class Immediate(Executor):
        def submit(self, function: Any, /, *arguments: Any, **options: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_result(function(*arguments, **options))
            return future

    with pytest.raises(ValueError, match="parallel: needed, since Immediate does not state its workers"):
        tunesmith.minimize(parabola, LINE, trials=3, executor=Immediate())
    result = tunesmith.minimize(parabola, LINE, trials=3, seed=1, executor=Immediate(), parallel=2)
    assert [trial.state for trial in result.trials] == ["COMPLETED"] * 3


def test_an_executor_that_was_shut_down_is_a_failure_of_the_executor() -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(tunesmith.ExecutorFailed, match="cannot schedule new futures after shutdown") as caught:
        tunesmith.minimize(parabola, LINE, trials=3, seed=1, executor=pool)
    assert [trial.state for trial in caught.value.result.trials] == ["ACTIVE"]


def test_an_event_loop_runs_searches_concurrently() -> None:
    barrier = threading.Barrier(2, timeout=60)

    def objective(parameters: dict[str, Any]) -> float:
        trial = tunesmith.current_trial()
        assert trial is not None
        assert trial.parameters == parameters
        barrier.wait()
        return parabola(parameters)

    async def both() -> list[tunesmith.Result]:
        runs = (asyncio.to_thread(tunesmith.minimize, objective, LINE, trials=10, seed=seed) for seed in (1, 2))
        return list(await asyncio.gather(*runs))

    for result in asyncio.run(both()):
        assert len(result.trials) == 10
        assert abs(result.parameters["x"] - 1) < 0.3


def test_coroutines_are_objectives_by_ask_and_tell() -> None:
    async def objective(x: float) -> float:
        await asyncio.sleep(0)
        return (x - 1) ** 2

    async def search() -> tunesmith.Optimizer:
        optimizer = tunesmith.Optimizer([tunesmith.double("x", -2, 2)], [tunesmith.minimize("loss")], seed=1)

        async def worker() -> None:
            for _ in range(5):
                trial = await asyncio.to_thread(optimizer.ask)
                optimizer.tell(trial, await objective(trial.parameters["x"]))

        await asyncio.gather(*(worker() for _ in range(4)))
        return optimizer

    optimizer = asyncio.run(search())
    assert len(optimizer.trials) == 20
    assert optimizer.best.value is not None
    assert optimizer.best.value < 0.05
