"""`StudyConfig` of the API: built from arguments, and compared with that of an existing study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal

from ._wire import duration_text, seconds_of
from .metrics import Metric
from .parameters import Parameter

Algorithm = Literal[
    "automatic", "gaussian_process_bandit", "grid_search", "random_search", "tpe", "cma_es", "quasi_random_search"
]
AutomatedStopping = Literal["median", "decay_curve"]
FinalMeasurement = Literal["last", "best"]

_STOPPING = {"median": "medianAutomatedStoppingConfig", "decay_curve": "decayCurveStoppingConfig"}


def study_config(
    parameters: Sequence[Parameter],
    metrics: Sequence[Metric],
    *,
    algorithm: Algorithm = "automatic",
    seed: int | None = None,
    max_trials: int | None = None,
    trial_lease: float | timedelta | None = None,
    automated_stopping: AutomatedStopping | None = None,
    use_elapsed_time: bool = False,
    final_measurement: FinalMeasurement = "last",
    additions: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Returns a `StudyConfig` of the API; `Client.create_study` documents the arguments."""
    for metric in metrics:
        if not isinstance(metric, Metric):
            raise TypeError(f"metric {metric!r} has no goal: use minimize(...) or maximize(...)")
    config: dict[str, Any] = {
        "metrics": [metric.to_message() for metric in metrics],
        "parameters": [parameter.to_message() for parameter in parameters],
    }
    if algorithm != "automatic":
        config["algorithm"] = algorithm.upper()
    if automated_stopping is not None:
        if automated_stopping not in _STOPPING:
            raise ValueError(f"automated_stopping {automated_stopping!r} is not one of {', '.join(_STOPPING)}")
        rule = {"useElapsedTime": True} if use_elapsed_time else {}
        config["automatedStoppingConfig"] = {_STOPPING[automated_stopping]: rule}
    elif use_elapsed_time:
        raise ValueError("use_elapsed_time has no effect without automated_stopping")
    added: dict[str, Any] = dict(additions or {})
    if seed is not None:
        added["seed"] = str(seed)
    if max_trials is not None:
        added["maxTrials"] = str(max_trials)
    if trial_lease is not None:
        added["trialLease"] = duration_text(trial_lease)
    if final_measurement != "last":
        added["finalMeasurement"] = final_measurement.upper()
    if added:
        config["tunesmith"] = added
    return config


def differences(wanted: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Returns the differences in meaning of two `StudyConfig`s; empty if they mean the same."""
    return list(_differences("studyConfig", _canonical(wanted), _canonical(found)))


_ABSENT = "absent"
# Values that mean the same as an absent field. An empty stopping rule is not among them: its presence enables it.
_DEFAULTS = {
    "algorithm": "ALGORITHM_UNSPECIFIED",
    "scaleType": "SCALE_TYPE_UNSPECIFIED",
    "finalMeasurement": "LAST",
    "observationNoise": "AUTO",
    "safetyThreshold": 0.0,
    "desiredMinSafeTrialsFraction": 0.0,
    "useElapsedTime": False,
    "childParameterSpecs": [],
    "automatedStoppingConfig": {},
    "tunesmith": {},
}
_INTEGERS = frozenset({"seed", "maxTrials", "minResource"})
_DURATIONS = frozenset({"trialLease", "maxDuration", "maxDurationNoProgress"})
# Values of parameters, which may be numbers or texts of numbers.
_HOLDERS_OF_VALUES = frozenset({"mode", "initialTrials"})
_HOLDERS_OF_INTEGERS = frozenset({"integerValueSpec", "parentIntValues"})


def _canonical(value: Any, key: str = "", of_integers: bool = False, of_values: bool = False) -> Any:
    """Returns `value` with one spelling for each meaning."""
    if isinstance(value, dict):
        inner = of_integers or key in _HOLDERS_OF_INTEGERS
        values = of_values or key in _HOLDERS_OF_VALUES
        members = {name: _canonical(member, name, inner, values) for name, member in value.items()}
        if members.get("goal") == "GOAL_TYPE_UNSPECIFIED" or ("metric" in members and "goal" not in members):
            members["goal"] = "MAXIMIZE"
        return {name: member for name, member in members.items() if _DEFAULTS.get(name, _ABSENT) != member}
    if isinstance(value, list):
        return [_canonical(member, key, of_integers, of_values) for member in value]
    if key in _INTEGERS or of_integers:
        return int(value)
    if (of_values or key in _HOLDERS_OF_VALUES) and isinstance(value, str):
        return _number_or_text(value)
    if key in _DURATIONS:
        return seconds_of(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def _number_or_text(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _differences(path: str, wanted: Any, found: Any) -> Iterator[str]:
    if isinstance(wanted, dict) and isinstance(found, dict):
        for name in sorted(wanted.keys() | found.keys()):
            yield from _differences(f"{path}.{name}", wanted.get(name, _ABSENT), found.get(name, _ABSENT))
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for index, (ours, theirs) in enumerate(zip(wanted, found, strict=True)):
            yield from _differences(f"{path}[{index}]", ours, theirs)
    elif wanted != found:
        yield f"{path} is {found!r}, not {wanted!r}"
