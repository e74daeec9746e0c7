"""Objectives that raise exceptions or return something else than results."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest

import tunesmith

LINE: dict[str, Any] = {"x": (-2.0, 2.0)}


def number() -> int:
    """The number of the current trial."""
    trial = tunesmith.current_trial()
    assert trial is not None
    return trial.number


@pytest.mark.parametrize("parallel", [1, 4])
def test_a_thousand_caught_exceptions_make_trials_infeasible(parallel: int) -> None:
    def objective(parameters: dict[str, Any]) -> float:
        if number() != 5:
            raise MemoryError(f"trial {number()} is too large")
        return float(parameters["x"])

    result = tunesmith.minimize(
        objective, LINE, trials=1001, seed=1, algorithm="random_search", parallel=parallel, catch=MemoryError
    )
    assert len(result.trials) == 1001
    for trial in result.trials:
        if trial.number == 5:
            assert result.best == trial
        else:
            assert trial.infeasible
            assert trial.infeasible_reason == f"MemoryError: trial {trial.number} is too large"
    assert "1000 failed" in repr(result)


def test_ten_failures_at_the_start_end_the_run() -> None:
    def objective(_: dict[str, Any]) -> float:
        raise FileNotFoundError(f"no data for trial {number()}")

    with pytest.raises(tunesmith.AllTrialsFailed, match="each of the first 10 trials") as caught:
        tunesmith.minimize(objective, LINE, trials=50, seed=1, catch=(OSError, ValueError))
    for trial in range(1, 11):
        assert f"trial {trial}: FileNotFoundError: no data for trial {trial}" in str(caught.value)
    assert isinstance(caught.value.__cause__, FileNotFoundError)
    assert len(caught.value.result.trials) == 10
    with pytest.raises(tunesmith.NoResult):
        _ = caught.value.result.best
    assert caught.value.result.front == []
    assert "no result" in repr(caught.value.result)
    assert "no result" in caught.value.result._repr_html_()


def test_nine_failures_at_the_start_do_not_end_the_run() -> None:
    def objective(parameters: dict[str, Any]) -> float:
        if number() != 10:
            raise ValueError
        return float(parameters["x"])

    result = tunesmith.minimize(objective, LINE, trials=30, seed=1, catch=ValueError)
    assert result.best.number == 10
    assert len(result.trials) == 30
    assert {trial.infeasible_reason for trial in result.trials if trial.infeasible} == {"ValueError"}


def test_another_exception_ends_the_run_and_has_the_result() -> None:
    failure = ZeroDivisionError("by zero")

    def objective(parameters: dict[str, Any]) -> float:
        if number() == 4:
            raise failure
        return float(parameters["x"])

    with pytest.raises(tunesmith.ObjectiveFailed, match="trial 4 failed: ZeroDivisionError: by zero") as caught:
        tunesmith.minimize(objective, LINE, trials=9, seed=1, catch=ValueError)
    assert caught.value.__cause__ is failure
    assert caught.value.trial.number == 4
    assert caught.value.trial.infeasible
    assert caught.value.trial.infeasible_reason == "ZeroDivisionError: by zero"
    result = caught.value.result
    assert len(result.trials) == 4
    assert result.value == min(trial.parameters["x"] for trial in result.trials[:3])


def test_running_trials_are_told_before_an_exception_is_raised() -> None:
    has_failed = threading.Event()
    started = threading.Barrier(4, timeout=60)

    def objective(parameters: dict[str, Any]) -> float:
        started.wait()
        if number() == 2:
            has_failed.set()
            raise KeyError("missing")
        assert has_failed.wait(60)
        return float(parameters["x"])

    with pytest.raises(tunesmith.ObjectiveFailed, match="trial 2 failed: KeyError: 'missing'") as caught:
        tunesmith.minimize(objective, LINE, trials=50, seed=1, parallel=4)
    trials = caught.value.result.trials
    assert [trial.number for trial in trials] == [1, 2, 3, 4]
    assert all(trial.state == "COMPLETED" for trial in trials)
    assert [trial.metrics.get("value") for trial in trials] == [
        None if trial.number == 2 else trial.parameters["x"] for trial in trials
    ]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_result_that_is_not_finite_makes_a_trial_infeasible(value: float) -> None:
    def objective(parameters: dict[str, Any]) -> float:
        return value if number() % 2 == 0 else float(parameters["x"])

    result = tunesmith.minimize(objective, LINE, trials=6, seed=1)
    assert [trial.infeasible for trial in result.trials] == [False, True] * 3
    assert math.isfinite(result.value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("0.5", "result is '0.5', of type str; return a number, a mapping"),
        ([0.5], r"result is \[0.5\], of type list"),
        ({"value": "low"}, "value of metric 'value' is 'low'"),
        ({"other": 1.0}, "other"),
        (None, "trial 1 failed"),
    ],
)
def test_an_invalid_result_ends_the_run(value: Any, message: str) -> None:
    with pytest.raises(tunesmith.ObjectiveFailed, match=message) as caught:
        tunesmith.minimize(lambda _: value, LINE, trials=3, seed=1, catch=(TypeError, ValueError))
    (trial,) = caught.value.result.trials
    assert trial.infeasible


def test_a_coroutine_as_the_result_is_closed() -> None:
    async def later() -> float:
        return 1.0

    with pytest.raises(tunesmith.ObjectiveFailed, match="of type coroutine"):
        tunesmith.minimize(lambda _: later(), LINE, trials=1)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("parallel", [1, 3])
def test_an_exit_ends_the_run_and_leaves_the_trial_unfinished(parallel: int, tmp_path: Any) -> None:
    def objective(parameters: dict[str, Any]) -> float:
        if number() == 3:
            raise SystemExit(7)
        return float(parameters["x"])

    with pytest.raises(SystemExit) as caught:
        tunesmith.minimize(objective, LINE, trials=9, seed=1, parallel=parallel, storage=tmp_path / "data")
    assert caught.value.code == 7
    result = tunesmith.minimize(lambda parameters: 0.5, LINE, trials=9, seed=1, storage=tmp_path / "data")
    assert len(result.trials) == 9
    assert result.trials[2].metrics == {"value": 0.5}
