"""Objectives in the processes of joblib's loky."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Any

import pytest
from joblib.externals import loky

import tunesmith

LINE: dict[str, Any] = {"x": (-2.0, 2.0)}


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    """Two processes."""
    pool = loky.get_reusable_executor(max_workers=2)
    yield pool
    pool.shutdown(wait=True)


def test_a_local_function_is_an_objective(pool: Executor) -> None:
    target, here = 1.0, os.getpid()

    def objective(parameters: dict[str, Any]) -> float:
        assert os.getpid() != here
        return float((parameters["x"] - target) ** 2)

    result = tunesmith.minimize(objective, LINE, trials=20, seed=1, executor=pool)
    assert len(result.trials) == 20
    assert abs(result.parameters["x"] - 1) < 0.1


def test_exceptions_are_caught_by_type(pool: Executor) -> None:
    class Odd(Exception):
        pass

    def objective(parameters: dict[str, Any]) -> float:
        if parameters["n"] % 2 == 1:
            raise Odd(parameters["n"])
        return float(parameters["n"])

    result = tunesmith.minimize(objective, {"n": (1, 12)}, trials=12, seed=1, executor=pool, catch=Odd)
    assert {trial.parameters["n"]: trial.infeasible for trial in result.trials} == {n: n % 2 == 1 for n in range(1, 13)}
    with pytest.raises(tunesmith.ObjectiveFailed, match="Odd: 3"):
        tunesmith.minimize(objective, {"n": [3]}, trials=12, seed=1, executor=pool)
