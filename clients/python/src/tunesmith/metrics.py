"""Metrics and their goals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Metric:
    """A metric and its goal. With a threshold it is a constraint, which is not optimised."""

    name: str
    goal: Literal["MINIMIZE", "MAXIMIZE"]
    safety_threshold: float | None = None
    desired_min_safe_trials_fraction: float | None = None

    def to_message(self) -> dict[str, Any]:
        """Returns the metric as `MetricSpec` of the API."""
        message: dict[str, Any] = {"metric": self.name, "goal": self.goal}
        if self.safety_threshold is not None:
            message["safetyConfig"] = {"safetyThreshold": self.safety_threshold}
            if self.desired_min_safe_trials_fraction is not None:
                fraction = self.desired_min_safe_trials_fraction
                message["safetyConfig"]["desiredMinSafeTrialsFraction"] = fraction
        elif self.desired_min_safe_trials_fraction is not None:
            raise ValueError(f"metric {self.name!r}: desired_min_safe_trials_fraction needs a safety_threshold")
        return message

    @classmethod
    def of_message(cls, message: Mapping[str, Any]) -> Metric:
        """Converts a `MetricSpec` of the API."""
        safety = message.get("safetyConfig")
        threshold = fraction = None
        if safety is not None:
            threshold = float(safety.get("safetyThreshold", 0.0))
            fraction = safety.get("desiredMinSafeTrialsFraction")
        goal: Literal["MINIMIZE", "MAXIMIZE"] = "MINIMIZE" if message.get("goal") == "MINIMIZE" else "MAXIMIZE"
        return cls(str(message["metric"]), goal, threshold, None if fraction is None else float(fraction))


def minimize(
    name: str, *, safety_threshold: float | None = None, desired_min_safe_trials_fraction: float | None = None
) -> Metric:
    """Returns a metric to minimize, or a constraint: results up to `safety_threshold` satisfy it."""
    return Metric(name, "MINIMIZE", safety_threshold, desired_min_safe_trials_fraction)


def maximize(
    name: str, *, safety_threshold: float | None = None, desired_min_safe_trials_fraction: float | None = None
) -> Metric:
    """Returns a metric to maximize, or a constraint: results from `safety_threshold` on satisfy it."""
    return Metric(name, "MAXIMIZE", safety_threshold, desired_min_safe_trials_fraction)
