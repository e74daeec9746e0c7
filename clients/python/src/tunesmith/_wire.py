"""Scalars as proto3's JSON mapping writes them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, TypeAlias

ParameterValue: TypeAlias = "int | float | str"
"""The value of a parameter: `int` (INTEGER, and DISCRETE if all its values are whole), `float` or `str`."""

_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z")


def double_text(value: float) -> float | str:
    """Returns a double for JSON, with NaN and infinities as text."""
    value = float(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def duration_text(seconds: float | timedelta) -> str:
    """Returns a duration for JSON, with up to nine fraction digits."""
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"


def seconds_of(duration: str) -> float:
    """Returns the seconds of a duration such as `3.5s`."""
    return float(duration.removesuffix("s"))


def timestamp(text: str | None) -> datetime | None:
    """Parses a time, truncated to microseconds; `None` for `None`."""
    if text is None:
        return None
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an RFC 3339 time in UTC")
    whole = datetime.fromisoformat(match[1]).replace(tzinfo=timezone.utc)
    return whole.replace(microsecond=int((match[2] or "0").ljust(9, "0")[:6]))


def metrics_message(metrics: Mapping[str, float]) -> list[dict[str, Any]]:
    """Returns values by metric as in a `Measurement` of the API."""
    return [{"metric": name, "value": double_text(value)} for name, value in metrics.items()]


def parameter_values(
    parameters: Iterable[Mapping[str, Any]], whole_discrete: frozenset[str]
) -> dict[str, ParameterValue]:
    """Returns the values of a trial by name. `whole_discrete`: DISCRETE parameters with whole numbers only."""
    values: dict[str, ParameterValue] = {}
    for parameter in parameters:
        name = str(parameter["parameter"])
        if "intValue" in parameter:
            values[name] = int(parameter["intValue"])
        elif "stringValue" in parameter:
            values[name] = str(parameter["stringValue"])
        else:
            value = float(parameter["floatValue"])
            values[name] = int(value) if name in whole_discrete else value
    return values


def whole_discrete_names(specs: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Returns the DISCRETE parameters of a `StudyConfig`, children included, that have whole numbers only."""
    whole: set[str] = set()
    others: set[str] = set()

    def visit(specs: Iterable[Mapping[str, Any]]) -> None:
        for spec in specs:
            values = spec.get("discreteValueSpec", {}).get("values", [])
            # Children under different values of their parents may share a name.
            is_whole = spec["type"] == "DISCRETE" and all(float(value).is_integer() for value in values)
            (whole if is_whole else others).add(str(spec["parameter"]))
            visit(spec.get("childParameterSpecs", []))

    visit(specs)
    return frozenset(whole - others)
