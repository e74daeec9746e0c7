"""Trials for training loops, and loops' view of them."""

from __future__ import annotations

import tunesmith


def search(**options: object) -> tunesmith.Optimizer:
    """Returns a search that minimizes a loss."""
    return tunesmith.Optimizer([tunesmith.double("x", 0, 1)], [tunesmith.minimize("loss")], seed=1, **options)  # type: ignore[arg-type]


def curve(optimizer: tunesmith.Optimizer, trial: tunesmith.Trial) -> dict[int, float]:
    """Returns the reports of a trial: values by step."""
    measurements = optimizer.study.trial(trial.number).measurements
    steps = [measurement.step for measurement in measurements]
    assert steps == sorted(set(steps)), "steps are rising"
    return {measurement.step: measurement.metrics["loss"] for measurement in measurements}
