"""The search in process: asking and telling, errors, persistence, and other processes and threads."""

from __future__ import annotations

import asyncio
import copy
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tunesmith
from process_worker import send_suggestions
from server_process import ServerProcess
from tunesmith import Optimizer, double, errors, integer, maximize, minimize

SPACE = [
    double("rate", 1e-4, 1.0, scale="log"),
    integer("layers", 1, 6),
    tunesmith.categorical("optimizer", ["adam", "sgd"]).when("sgd", tunesmith.discrete("momentum", [0, 0.5, 0.9])),
]
LOSS = [minimize("loss")]


def loss(parameters: dict[str, Any]) -> float:
    """The function to minimize, which is smallest with 3 layers and momentum 0.5."""
    rate = abs(float(parameters["rate"]) - 0.01)
    return float(rate + (parameters["layers"] - 3) ** 2 + abs(parameters.get("momentum", 2.0) - 0.5))


def run(search: Optimizer, count: int) -> list[dict[str, Any]]:
    points = []
    for _ in range(count):
        trial = search.ask()
        points.append(trial.parameters)
        search.tell(trial, loss(trial.parameters))
    return points


def test_search_finds_the_optimum_and_names_what_matters() -> None:
    search = Optimizer(SPACE, LOSS, seed=3)
    run(search, 40)
    best = search.best
    assert (best.parameters["layers"], best.parameters["momentum"]) == (3, 0.5)
    assert best.value < 0.1
    assert search.front == [best]
    assert [trial.number for trial in search.trials] == list(range(1, 41))
    assert next(iter(search.importance())) == "layers"
    assert search.recommended.parameters["layers"] == 3
    assert search.parameters == tuple(SPACE)
    assert search.metrics == tuple(LOSS)


def test_same_seed_and_history_give_the_same_suggestions_in_process_and_on_a_server(
    client: tunesmith.Client,
) -> None:
    search = Optimizer(SPACE, LOSS, seed=5)
    study = client.create_study("same", SPACE, LOSS, seed=5)
    there = []
    for _ in range(12):
        trial = study.ask()
        there.append(trial.parameters)
        study.tell(trial, loss(trial.parameters))
    assert run(search, 12) == there
    assert run(Optimizer(SPACE, LOSS, seed=6), 12) != there
    assert study.best.value == search.best.value
    assert study.recommended.number == search.recommended.number
    assert study.importance() == search.importance()


def test_own_values_are_completed_and_checked() -> None:
    search = Optimizer(SPACE, LOSS, seed=1)
    trial = search.ask(parameters={"momentum": 0.9, "layers": 2})
    assert trial.parameters.items() >= {"momentum": 0.9, "layers": 2, "optimizer": "sgd"}.items()
    assert set(trial.parameters) == {"rate", "layers", "optimizer", "momentum"}
    search.tell(trial, 1.0)
    assert search.ask(parameters={"optimizer": "adam"}).parameters.keys() == {"rate", "layers", "optimizer"}
    earlier = search.tell({"rate": 0.1, "layers": 3, "optimizer": "adam"}, 2.0)
    assert (earlier.state, earlier.value) == ("COMPLETED", 2.0)
    known = len(search.trials)
    refused: list[tuple[Any, type[Exception], str]] = [
        ({"rate": 2.0, "layers": 3, "optimizer": "adam"}, errors.InvalidArgument, "rate"),
        ({"rate": 0.1, "layers": 3}, errors.InvalidArgument, "optimizer"),
        ({"rate": 0.1, "layers": 3, "optimizer": "adam", "depth": 1}, errors.InvalidArgument, "depth"),
        ({"rate": 0.1, "layers": 3, "optimizer": "adam", "momentum": 0.5}, errors.InvalidArgument, "momentum"),
        ({"rate": "fast", "layers": 3, "optimizer": "adam"}, errors.InvalidArgument, "rate"),
        ({"rate": True, "layers": 3, "optimizer": "adam"}, TypeError, "rate"),
        ({"rate": 0.1, "layers": 2.5, "optimizer": "adam"}, errors.InvalidArgument, "layers"),
        ({"rate": None, "layers": 2, "optimizer": "adam"}, TypeError, "rate"),
    ]
    for parameters, kind, name in refused:
        with pytest.raises(kind, match=name):
            search.tell(parameters, 1.0)
        with pytest.raises(kind, match=name):
            search.ask(parameters={**parameters, "optimizer": "adam"} if name != "optimizer" else {"optimizer": "x"})
    assert len(search.trials) == known


def test_results_may_come_in_any_order_and_only_once() -> None:
    search = Optimizer(SPACE, LOSS, seed=1)
    trials = search.ask(3)
    for trial in reversed(trials):
        search.tell(trial, float(trial.number))
    assert [trial.value for trial in search.trials] == [1.0, 2.0, 3.0]
    search.tell(trials[0], 1.0)
    with pytest.raises(errors.FailedPrecondition, match="already completed"):
        search.tell(trials[0], 5.0)
    with pytest.raises(errors.FailedPrecondition, match="already completed"):
        search.tell(2, infeasible="no")
    assert search.tell(2, 2.0).value == 2.0
    with pytest.raises(errors.NotFound):
        search.tell(99, 1.0)
    with pytest.raises(ValueError, match="exclude each other"):
        search.tell(trials[1], 1.0, infeasible="no")
    with pytest.raises(errors.FailedPrecondition, match="no measurement"):
        search.tell(search.ask())


def test_failures_and_values_that_are_not_finite_are_infeasible() -> None:
    search = Optimizer([double("x", 0, 1)], LOSS, seed=1)
    for value in (float("nan"), float("inf"), -float("inf")):
        record = search.tell(search.ask(), value)
        assert record.infeasible
        assert record.infeasible_reason
    with pytest.raises(errors.NoResult):
        _ = search.best
    with pytest.raises(errors.NoResult):
        _ = search.recommended
    assert search.front == []
    assert search.importance() == {}
    for number in range(1000):
        search.tell(search.ask(), infeasible=f"ValueError: {number}")
    trials = search.trials
    assert len(trials) == 1003
    assert trials[-1].infeasible_reason == "ValueError: 999"


def test_several_objectives_and_constraints() -> None:
    search = Optimizer([double("x", 0, 1)], [minimize("loss"), minimize("size")], seed=1)
    for x in (0.0, 0.5, 1.0):
        search.tell({"x": x}, {"loss": x, "size": 1 - x})
    search.tell({"x": 0.25}, {"loss": 2.0, "size": 2.0})
    assert sorted(trial.number for trial in search.front) == [1, 2, 3]
    with pytest.raises(ValueError, match=r"loss, size"):
        _ = search.best
    with pytest.raises(ValueError, match="several metrics"):
        search.tell({"x": 0.1}, 1.0)
    with pytest.raises(errors.InvalidArgument, match="size"):
        search.tell({"x": 0.1}, {"loss": 1.0})
    constrained = Optimizer([double("x", 0, 1)], [maximize("score"), minimize("cost", safety_threshold=0.5)], seed=1)
    for x in (0.1, 0.4, 0.9):
        constrained.tell({"x": x}, {"score": x, "cost": x})
    assert constrained.best.number == 2


def test_stopping_rule_advises_to_stop_a_bad_trial() -> None:
    search = Optimizer([double("x", 0, 1)], LOSS, seed=1, automated_stopping="median", final_measurement="best")
    for _ in range(6):
        trial = search.ask()
        for step in range(1, 11):
            trial.report(1.0 / step, step=step)
        search.tell(trial)
    bad = search.ask()
    stopped_at = None
    for step in range(1, 11):
        bad.report(10.0, step=step)
        if bad.should_stop():
            stopped_at = step
            break
    assert stopped_at is not None
    assert search.tell(bad).value == 10.0


def test_search_ends_with_its_space_or_its_number_of_trials() -> None:
    search = Optimizer([integer("n", 1, 3)], LOSS, algorithm="grid_search")
    assert sorted(trial.parameters["n"] for trial in search.ask(5)) == [1, 2, 3]
    with pytest.raises(errors.SearchEnded):
        search.ask()
    limited = Optimizer(SPACE, LOSS, max_trials=2)
    assert len(limited.ask(9)) == 2
    with pytest.raises(ValueError, match="not positive"):
        limited.ask(0)


def test_unusable_problems_are_refused_with_the_field() -> None:
    with pytest.raises(errors.InvalidArgument, match="parameters"):
        Optimizer([], LOSS)
    with pytest.raises(errors.InvalidArgument, match="metrics"):
        Optimizer(SPACE, [])
    with pytest.raises(errors.InvalidArgument, match=r"lower bound 1\.0 is above the upper bound 0\.0"):
        Optimizer([double("x", 1, 0)], LOSS)
    with pytest.raises(errors.InvalidArgument, match="algorithm"):
        Optimizer(SPACE, LOSS, algorithm="annealing")  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgument, match="study"):
        Optimizer(SPACE, LOSS, name="a b")


def test_copies_continue_with_the_same_suggestions() -> None:
    search = Optimizer(SPACE, LOSS, seed=2, automated_stopping="median")
    run(search, 8)
    running = search.ask()
    running.report(3.0)
    for other in (pickle.loads(pickle.dumps(search)), copy.deepcopy(search), Optimizer.from_json(search.to_json())):
        assert other.trials == search.trials
        assert [trial.parameters for trial in other.ask(4)] == [trial.parameters for trial in copy.copy(search).ask(4)]
        # A copy has results of its own.
        other.tell(9, 1.0)
    assert search.trials[8].state == "ACTIVE"
    with pytest.raises(errors.InvalidArgument, match="not a snapshot"):
        Optimizer.from_json("{}")
    with pytest.raises(errors.InvalidArgument, match="not JSON"):
        Optimizer.from_json("no")


def test_threads_share_a_search() -> None:
    search = Optimizer(SPACE, LOSS, seed=4)

    def work(_: int) -> int:
        trial = search.ask()
        search.tell(trial, loss(trial.parameters))
        return trial.number

    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(work, range(48)))
    assert sorted(numbers) == list(range(1, 49))
    assert all(trial.state == "COMPLETED" for trial in search.trials)


def test_other_threads_run_while_a_model_is_fitted() -> None:
    search = Optimizer([double(f"x{index}", 0, 1) for index in range(12)], LOSS, seed=4)
    for index, trial in enumerate(search.ask(300)):
        search.tell(trial, float(index % 7))
    ticks = 0
    done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)

    ticker = threading.Thread(target=tick)
    ticker.start()
    before = ticks
    search.ask(8)
    done.set()
    during = ticks - before
    ticker.join()
    # With the GIL held, the other thread would not run at all until the end: one tick may be under way before.
    assert during > 1


def test_async_code_awaits_suggestions() -> None:
    search = Optimizer(SPACE, LOSS, seed=4)

    async def worker() -> None:
        for _ in range(5):
            trial = await asyncio.to_thread(search.ask)
            await asyncio.to_thread(search.tell, trial, loss(trial.parameters))

    async def main() -> None:
        await asyncio.gather(*(worker() for _ in range(4)))

    asyncio.run(main())
    assert len(search.trials) == 20


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_processes_continue_with_their_copy(method: str) -> None:
    search = Optimizer(SPACE, LOSS, seed=4)
    run(search, 12)
    context = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    child = context.Process(target=send_suggestions, args=(search, theirs))  # type: ignore[attr-defined]
    child.start()
    theirs.close()
    there = ours.recv()
    child.join()
    assert child.exitcode == 0
    assert there == [trial.parameters for trial in search.ask(2)]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_fork_waits_until_no_thread_computes() -> None:
    search = Optimizer([double(f"x{index}", 0, 1) for index in range(8)], LOSS, seed=4)
    for index, trial in enumerate(search.ask(150)):
        search.tell(trial, float(index % 7))
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            search.tell(search.ask(), 1.0)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                # Not pytest's end of the process.
                os._exit(0 if search.ask().parameters else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_interrupt_ends_a_computation_and_loses_nothing(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import os, signal, threading, time
        import tunesmith

        search = tunesmith.Optimizer(
            [tunesmith.double(f"x{i}", 0, 1) for i in range(16)], [tunesmith.minimize("loss")], seed=1,
            algorithm="gaussian_process_bandit",
        )
        for index, trial in enumerate(search.ask(400)):
            search.tell(trial, (index * 7919 % 101) / 101)
        begin = time.monotonic()
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            search.ask(200)
        except KeyboardInterrupt:
            assert time.monotonic() - begin < 20
            assert len(search.trials) == 400
            search.tell(search.ask(), 0.5)
            print("interrupted", len(search.trials))
    """)
    printed = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True
    )
    assert printed.stdout == "interrupted 401\n", printed.stderr


def test_storage_is_continued_by_another_process_and_by_a_server(tmp_path: Path) -> None:
    folder = tmp_path / "server" / "data"
    with Optimizer(SPACE, LOSS, seed=7, storage=folder, name="digits") as search:
        points = run(search, 6)
        again = Optimizer(SPACE, LOSS, seed=7, storage=folder, name="digits")
        assert len(again.trials) == 6
        other = Optimizer([double("x", 0, 1)], LOSS, storage=folder, name="other")
        other.tell(other.ask(), 1.0)
        with pytest.raises(errors.StudyDiffers, match="digits"):
            Optimizer([double("x", 0, 1)], LOSS, seed=7, storage=folder, name="digits")
        reopened = pickle.loads(pickle.dumps(again))
        assert len(reopened.trials) == 6
        copied = Optimizer.from_json(search.to_json())
        refused = subprocess.run(
            [
                sys.executable,
                "-c",
                "import tunesmith; tunesmith.Optimizer([tunesmith.double('x', 0, 1)], [tunesmith.minimize('loss')], "
                f"storage={str(folder)!r})",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "is in use" in refused.stderr, refused.stderr
        for open_one in (again, other, reopened):
            open_one.close()
    with pytest.raises(errors.ConfigurationError, match="closed"):
        search.ask()
    server = ServerProcess(tmp_path / "server")
    try:
        with tunesmith.Client(server.address) as client:
            study = client.study("digits")
            assert [trial.parameters for trial in study.all_trials()] == points
            assert study.ask().parameters == copied.ask().parameters
    finally:
        server.end()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_child_of_a_fork_must_not_use_the_storage_of_its_parent(tmp_path: Path) -> None:
    search = Optimizer(SPACE, LOSS, storage=tmp_path / "data")
    child = os.fork()
    if child == 0:
        try:
            search.ask()
        except errors.FailedPrecondition as refusal:
            os._exit(0 if "parent" in str(refusal) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    search.tell(search.ask(), 1.0)
    search.close()


def test_package_is_imported_quickly_and_without_the_engine(tmp_path: Path) -> None:
    script = "import sys, tunesmith; print([name for name in sys.modules if 'tunesmith._core' in name])"
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert printed.stdout == "[]\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
