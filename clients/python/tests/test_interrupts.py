"""Ctrl-C in every phase of a run, and its continuation from the storage."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import tunesmith
from objectives import parabola

LINE: dict[str, Any] = {"x": (-2.0, 2.0)}


def number() -> int:
    """The number of the current trial."""
    trial = tunesmith.current_trial()
    assert trial is not None
    return trial.number


@pytest.mark.parametrize("at", [1, 5, 9])
def test_an_interrupt_in_the_objective_returns_the_result_so_far(at: int, tmp_path: Path) -> None:
    calls = []

    def objective(parameters: dict[str, Any]) -> float:
        calls.append(number())
        if len(calls) == at:
            raise KeyboardInterrupt
        return parabola(parameters)

    result = tunesmith.minimize(objective, LINE, trials=9, seed=1, storage=tmp_path / "data", name="s")
    assert result.interrupted
    assert [trial.state for trial in result.trials] == ["COMPLETED"] * (at - 1) + ["ACTIVE"]
    assert "interrupted" in repr(result)
    if at == 1:
        with pytest.raises(tunesmith.NoResult):
            _ = result.best
    else:
        assert result.value == min(parabola(dict(trial.parameters)) for trial in result.trials[:-1])

    continued = tunesmith.minimize(objective, LINE, trials=9, seed=1, storage=tmp_path / "data", name="s")
    assert not continued.interrupted
    assert [trial.state for trial in continued.trials] == ["COMPLETED"] * 9
    assert continued.trials[: at - 1] == result.trials[: at - 1]
    assert calls == [*range(1, at + 1), *range(at, 10)]
    assert [trial.metrics["value"] for trial in continued.trials] == [
        parabola(dict(trial.parameters)) for trial in continued.trials
    ]


def test_a_finished_run_in_a_storage_runs_no_more_trials_until_there_are_to_be_more(tmp_path: Path) -> None:
    calls = []

    def objective(parameters: dict[str, Any]) -> float:
        calls.append(number())
        return parabola(parameters)

    for trials in (3, 3, 5):
        result = tunesmith.minimize(objective, LINE, trials=trials, seed=1, storage=tmp_path / "data")
        assert [trial.number for trial in result.trials] == list(range(1, trials + 1))
    assert calls == [1, 2, 3, 4, 5]


def test_another_space_under_the_same_name_is_refused(tmp_path: Path) -> None:
    tunesmith.minimize(parabola, LINE, trials=1, seed=1, storage=tmp_path / "data")
    with pytest.raises(tunesmith.StudyDiffers):
        tunesmith.minimize(parabola, {"x": (-2.0, 3.0)}, trials=1, seed=1, storage=tmp_path / "data")
    result = tunesmith.minimize(parabola, {"x": (-2.0, 3.0)}, trials=1, seed=1, storage=tmp_path / "data", name="b")
    assert len(result.trials) == 1


@pytest.mark.parametrize("at", [4, 9, 20])
def test_a_signal_releases_the_threads(at: int, tmp_path: Path) -> None:
    """The signal comes while trial `at` and three others run, which end only after the run has returned."""
    returned = threading.Event()
    ended = threading.Semaphore(0)
    refused: list[int] = []
    stopped: list[int] = []
    blocked = threading.Barrier(4, timeout=60)

    def objective(parameters: dict[str, Any]) -> float:
        trial = tunesmith.current_trial()
        assert trial is not None
        if trial.number > at - 4:
            trial.report(1.0)
            assert not trial.should_stop()
            if blocked.wait() == 0:
                os.kill(os.getpid(), signal.SIGINT)
            assert returned.wait(60)
            if trial.should_stop():
                stopped.append(trial.number)
            try:
                trial.report(2.0)
            except tunesmith.TrialLost:
                refused.append(trial.number)
            finally:
                ended.release()
        return parabola(parameters)

    result = tunesmith.minimize(objective, LINE, trials=20, seed=1, parallel=4, storage=tmp_path / "data")
    returned.set()
    assert result.interrupted
    for _ in range(4):
        assert ended.acquire(timeout=60)
    running = list(range(at - 3, at + 1))
    assert sorted(refused) == sorted(stopped) == running
    assert [trial.number for trial in result.trials] == list(range(1, at + 1))
    assert [trial.number for trial in result.trials if trial.state != "COMPLETED"] == running
    for trial in result.trials[: at - 4]:
        assert trial.metrics["value"] == parabola(dict(trial.parameters))

    continued = tunesmith.minimize(parabola, LINE, trials=20, seed=1, storage=tmp_path / "data")
    assert [trial.state for trial in continued.trials] == ["COMPLETED"] * 20
    assert [trial.parameters for trial in continued.trials[:at]] == [trial.parameters for trial in result.trials]


def test_an_interrupt_in_a_thread_ends_the_run() -> None:
    barrier = threading.Barrier(3, timeout=60)

    def objective(parameters: dict[str, Any]) -> float:
        if number() in (7, 8, 9):
            barrier.wait()
            raise KeyboardInterrupt
        return parabola(parameters)

    result = tunesmith.minimize(objective, LINE, trials=30, seed=1, parallel=3)
    assert result.interrupted
    assert [trial.state for trial in result.trials] == ["COMPLETED"] * 6 + ["ACTIVE"] * 3


def test_an_interrupt_of_an_inner_run_reaches_the_outer_one() -> None:
    def inner(_: dict[str, Any]) -> float:
        raise KeyboardInterrupt

    result = tunesmith.minimize(lambda _: tunesmith.minimize(inner, LINE, trials=3).value, LINE, trials=5, seed=1)
    assert result.interrupted
    assert len(result.trials) == 1


@pytest.mark.parametrize("parallel", [1, 2])
def test_an_interrupt_on_any_line_of_the_loop_loses_no_result(parallel: int) -> None:
    """Interrupts runs at the first line, the second line, and so on, until a run ends before the interrupt."""
    at = 0
    while True:
        result, returned = run_with_interrupt(at, parallel)
        assert tunesmith.current_trial() is None
        completed = [trial for trial in result.trials if trial.state == "COMPLETED"]
        for trial in completed:
            assert trial.metrics["value"] == parabola(dict(trial.parameters))
        if not result.interrupted:
            assert len(completed) == 3
            break
        # Results of threads may come after the interrupt; the calling thread may lose the one that it is receiving.
        assert returned - len(completed) <= parallel
        at += 1
    assert at > 100


def run_with_interrupt(at: int, parallel: int) -> tuple[tunesmith.Result, int]:
    """Runs three trials with an interrupt before line `at` of the loop. Returns the number of calls that returned."""
    files = {sys.modules[f"tunesmith.{name}"].__file__ for name in ("_run", "_workers", "_objective")}
    returned = lines = 0
    is_in_loop = False

    def objective(parameters: dict[str, Any]) -> float:
        nonlocal returned
        value = parabola(parameters)
        returned += 1
        return value

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines, is_in_loop
        if frame.f_code.co_filename not in files:
            return None
        if frame.f_code.co_name == "_loop" and event in ("call", "return"):
            is_in_loop = event == "call"
        if event == "line" and is_in_loop:
            lines += 1
            if lines == at + 1:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        result = tunesmith.minimize(objective, LINE, trials=3, seed=1, parallel=parallel, algorithm="random_search")
    finally:
        sys.settrace(None)
    return result, returned


PROGRAM = """
import threading, tunesmith

def objective(parameters):
    if tunesmith.current_trial().number > 3:
        print("waiting", flush=True)
        threading.Event().wait()
    return parameters["x"]

result = tunesmith.minimize(objective, {"x": (0.0, 1.0)}, trials=9, seed=1, parallel=PARALLEL, storage="data")
print(result.interrupted, sum(trial.state == "COMPLETED" for trial in result.trials))
"""


@pytest.mark.parametrize("parallel", [1, 2])
def test_a_program_whose_objective_hangs_ends_after_ctrl_c(parallel: int, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", PROGRAM.replace("PARALLEL", str(parallel))]
    for _ in range(2):  # The second run repeats the unfinished trials.
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        )
        assert process.stdout is not None
        for _ in range(parallel):
            assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
        assert (output, errors, process.returncode) == ("True 3\n", "", 0)


def test_an_interrupt_cancels_the_calls_that_an_executor_has_not_started(tmp_path: Path) -> None:
    submitted = threading.Semaphore(0)
    returned = threading.Event()

    class Pool(ThreadPoolExecutor):
        def submit(self, function: Any, /, *arguments: Any, **options: Any) -> Future[Any]:
            future = super().submit(function, *arguments, **options)
            submitted.release()
            return future

    def objective(parameters: dict[str, Any]) -> float:
        for _ in range(3):
            assert submitted.acquire(timeout=60)
        os.kill(os.getpid(), signal.SIGINT)
        assert returned.wait(60)
        return parabola(parameters)

    with Pool(1) as pool:
        result = tunesmith.minimize(
            objective, LINE, trials=9, seed=1, executor=pool, parallel=3, storage=tmp_path / "data"
        )
        returned.set()
    assert result.interrupted
    assert [trial.state for trial in result.trials] == ["ACTIVE"] * 3
    continued = tunesmith.minimize(parabola, LINE, trials=9, seed=1, storage=tmp_path / "data")
    assert [trial.state for trial in continued.trials] == ["COMPLETED"] * 9
    assert [trial.parameters for trial in continued.trials[:3]] == [trial.parameters for trial in result.trials]


PROCESSES = """
import multiprocessing, os, threading, tunesmith
from concurrent.futures import ProcessPoolExecutor

def objective(parameters):
    if tunesmith.current_trial().number > 3:
        os.write(1, b"waiting\\n")
        threading.Event().wait()
    return parameters["x"]

if __name__ == "__main__":
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("METHOD")) as pool:
        result = tunesmith.minimize(objective, {"x": (0.0, 1.0)}, trials=9, seed=1, storage="data", executor=pool)
        print(result.interrupted, sum(trial.state == "COMPLETED" for trial in result.trials))
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_ctrl_c_in_a_terminal_interrupts_the_processes_of_an_executor(method: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROCESSES.replace("METHOD", method))
    process = subprocess.Popen(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    for _ in range(2):
        assert process.stdout.readline() == "waiting\n"
    # A terminal sends the signal to all processes of the program.
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert (output, process.returncode) == ("True 3\n", 0)
