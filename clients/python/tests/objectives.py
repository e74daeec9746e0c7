"""Objectives that other processes can import."""

from __future__ import annotations

import os
from typing import Any

import tunesmith


def parabola(parameters: dict[str, Any]) -> float:
    """Least at `x` = 1."""
    return float((parameters["x"] - 1) ** 2)


def process_number(_: dict[str, Any]) -> float:
    """The number of the process that runs it."""
    return float(os.getpid())


def number_of_trial(_: dict[str, Any]) -> float:
    """The number of the current trial."""
    trial = tunesmith.current_trial()
    assert trial is not None
    assert not trial.should_stop()
    return float(trial.number)


def reporting(_: dict[str, Any]) -> None:
    """Reports to the current trial."""
    trial = tunesmith.current_trial()
    assert trial is not None
    trial.report(1.0)


def half_fails(parameters: dict[str, Any]) -> float:
    """Raises an `OddError` below 0, which pickles by default but cannot be unpickled."""
    if parameters["n"] % 2 == 1:
        raise OddError(parameters["n"], "odd")
    return float(parameters["n"])


class OddError(Exception):
    """An exception whose constructor does not take its own `args`."""

    def __init__(self, number: int, kind: str) -> None:
        super().__init__(f"{number} is {kind}")


def dividing_by_zero(_: dict[str, Any]) -> float:
    """Raises an exception of Python."""
    return 1 / 0


def ending_its_process(_: dict[str, Any]) -> float:
    """Ends the process without an exception."""
    os._exit(3)
