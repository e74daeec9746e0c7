"""What a study makes small or large."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """A metric and which way it is better."""

    name: str
    goal: Literal["MINIMIZE", "MAXIMIZE"]

    def to_message(self) -> dict[str, str]:
        """The metric as `MetricSpec` of the API."""
        return {"metric": self.name, "goal": self.goal}


def minimize(name: str) -> Metric:
    """A metric of which less is better."""
    return Metric(name, "MINIMIZE")


def maximize(name: str) -> Metric:
    """A metric of which more is better."""
    return Metric(name, "MAXIMIZE")
