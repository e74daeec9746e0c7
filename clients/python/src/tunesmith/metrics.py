"""Metrics and their goals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """A metric and its goal."""

    name: str
    goal: Literal["MINIMIZE", "MAXIMIZE"]

    def to_message(self) -> dict[str, str]:
        """Returns the metric as `MetricSpec` of the API."""
        return {"metric": self.name, "goal": self.goal}


def minimize(name: str) -> Metric:
    """Returns a metric to minimize."""
    return Metric(name, "MINIMIZE")


def maximize(name: str) -> Metric:
    """Returns a metric to maximize."""
    return Metric(name, "MAXIMIZE")
