"""Trials as in one answer of the service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from ._wire import parameter_values, seconds_of, timestamp

TrialState = Literal["REQUESTED", "ACTIVE", "STOPPING", "COMPLETED"]


@dataclass(frozen=True)
class Measurement:
    """Values of metrics at one step."""

    metrics: Mapping[str, float]
    """The values by metric; may be NaN or infinite."""
    step: int
    elapsed: float | None
    """Seconds since the trial's start, if they were reported."""

    @classmethod
    def of_message(cls, message: Mapping[str, Any]) -> Measurement:
        """Converts a `Measurement` of the API."""
        elapsed = message.get("elapsedTime")
        return cls(
            metrics={str(metric["metric"]): float(metric["value"]) for metric in message.get("metrics", [])},
            step=int(message.get("stepCount", 0)),
            elapsed=None if elapsed is None else seconds_of(elapsed),
        )


@dataclass(frozen=True)
class TrialRecord:
    """A trial at the time of the request."""

    name: str
    """Resource name; after a lease has expired it ends with the number of the attempt, as in `.../trials/7~2`."""
    number: int
    """In its study, from 1."""
    state: TrialState
    parameters: Mapping[str, Any]
    """The values by name, `int`, `float` or `str`; only those that exist in this trial."""
    measurements: tuple[Measurement, ...]
    """The reports, by step. The answer to a report contains them up to 100; that of `Study.trial` contains all."""
    final_measurement: Measurement | None
    """The result; `None` before completion and for an infeasible trial."""
    infeasible: bool
    infeasible_reason: str
    """Empty if the trial is not infeasible."""
    client_id: str
    """The present or last owner; empty if there is none."""
    start_time: datetime | None
    end_time: datetime | None
    lease_end_time: datetime | None
    """When the lease expires if it is not renewed; `None`: never."""
    expired_leases: int
    """How many leases have expired."""
    note: str = ""
    """The note of a person; empty if there is none."""

    @property
    def id(self) -> int:
        """The same as `number`."""
        return self.number

    @property
    def value(self) -> float:
        """The value of the only metric. Raises `ValueError` without a result, and with several metrics."""
        if len(self.metrics) != 1:
            found = ", ".join(self.metrics) or "no result"
            raise ValueError(f"trial {self.number} has {found}: `metrics` has the values by name")
        return next(iter(self.metrics.values()))

    @property
    def metrics(self) -> Mapping[str, float]:
        """The result by metric; empty if there is none."""
        return {} if self.final_measurement is None else self.final_measurement.metrics

    @classmethod
    def of_message(cls, message: Mapping[str, Any], whole_discrete: frozenset[str]) -> TrialRecord:
        """Converts a `Trial` of the API. `whole_discrete`: DISCRETE parameters with whole numbers only."""
        additions = message.get("tunesmith", {})
        final = message.get("finalMeasurement")
        return cls(
            name=message["name"],
            number=number_of(message["name"]),
            state=message["state"],
            parameters=parameter_values(message.get("parameters", []), whole_discrete),
            measurements=tuple(Measurement.of_message(each) for each in message.get("measurements", [])),
            final_measurement=None if final is None else Measurement.of_message(final),
            infeasible=bool(message.get("trialInfeasible", False)),
            infeasible_reason=message.get("infeasibleReason", ""),
            client_id=message.get("clientId", ""),
            start_time=timestamp(message.get("startTime")),
            end_time=timestamp(message.get("endTime")),
            lease_end_time=timestamp(additions.get("leaseEndTime")),
            expired_leases=int(additions.get("expiredLeases", 0)),
            note=additions.get("note", {}).get("text", ""),
        )


def number_of(name: str) -> int:
    """Returns the number of the trial with the resource name `name`."""
    return int(name.rpartition("/")[2].partition("~")[0])
