"""Trials of a study as observations for the search."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from .._wire import ParameterValue
from ..metrics import Metric, maximize, minimize
from ._space import Space

CONSTRAINTS = "constraints"
"""System attribute with the values of `constraints_func`; a named constraint has its own, `constraints:NAME`."""
SUGGESTION = "tunesmith:suggestion"
"""System attribute with the internal representations that were suggested for a trial."""
_FIXED = "fixed_params"
_RETRIED = "retry_history"
_UNFINISHED = (TrialState.RUNNING, TrialState.WAITING)


@dataclass(frozen=True)
class Observation:
    """A point with its result, infeasible, or pending: without either."""

    parameters: tuple[tuple[str, ParameterValue], ...]
    """Values by quoted name, as Tunesmith's parameters have it."""
    metrics: tuple[float, ...] | None = None
    """One value a metric; `None` without a result."""
    infeasible: str | None = None
    """Reason; `None` if the point is not infeasible."""


@dataclass(frozen=True)
class History:
    """Metrics and observations of a study."""

    metrics: tuple[Metric, ...]
    finished: tuple[Observation, ...]
    """In the order in which the trials ended, so that a growing history continues its former self."""
    pending: tuple[Observation, ...]
    """By number of the trial."""


def history(directions: Sequence[StudyDirection], trials: Sequence[FrozenTrial], space: Space) -> History:
    """Returns the observations in `space` from `trials`, given by number. Those that are no points of it are left out.

    | trial | observation |
    |---|---|
    | COMPLETE | its values; infeasible if one of them is infinite |
    | PRUNED | its last intermediate value; infeasible without one, or if it is not finite |
    | FAIL | infeasible, unless the trial was queued again after its worker had died |
    | RUNNING, WAITING | pending |

    A constraint without a value is satisfied, as in Optuna: it gets the median of the values that satisfy it, or 0.
    """
    constraints = [constraint_values(trial.system_attrs) for trial in trials]
    names = sorted({name for each in constraints for name in each})
    usual = {name: _usual([each[name] for each in constraints if name in each]) for name in names}
    metrics = [_objective(index, direction) for index, direction in enumerate(directions)]
    metrics += [minimize(f"constraint{index}", safety_threshold=0.0) for index in range(len(names))]

    retried = {number for trial in trials for number in trial.system_attrs.get(_RETRIED, [])}
    finished: list[tuple[datetime, Observation]] = []
    pending: list[Observation] = []
    for trial, own in zip(trials, constraints, strict=True):
        if trial.number in retried:
            continue
        point = space.existing(known_values(trial, space))
        if point is None:
            continue
        parameters = tuple((repr(name), value) for name, value in point.items())
        if trial.state in _UNFINISHED:
            pending.append(Observation(parameters))
            continue
        result, reason = _result(trial, len(directions))
        # An infinite margin has no information about the neighbourhood.
        margins = [usual[name] if own.get(name, -math.inf) == -math.inf else own[name] for name in names]
        if reason is None and not all(math.isfinite(value) for value in [*result, *margins]):
            reason = "a value is not finite"
        outcome = None if reason else (*result, *margins)
        finished.append((trial.datetime_complete or datetime.max, Observation(parameters, outcome, reason)))
    finished.sort(key=lambda timed: timed[0])
    return History(tuple(metrics), tuple(observation for _, observation in finished), tuple(pending))


def known_values(trial: FrozenTrial, space: Space) -> dict[str, ParameterValue]:
    """Returns the values of a trial in `space`; of an unfinished one also those that it will have.

    These are the values it was queued with and those that were suggested for it but not asked for yet.
    """
    values: dict[str, ParameterValue] = {}
    suggestion: Mapping[str, float] = {}
    fixed: Mapping[str, Any] = {}
    if trial.state in _UNFINISHED:
        suggestion = trial.system_attrs.get(SUGGESTION, {})
        fixed = trial.system_attrs.get(_FIXED, {})
    for name, dimension in space.dimensions.items():
        value = None
        if name in trial.params:
            value = dimension.of_external(trial.params[name])
        elif name in fixed:
            value = dimension.of_external(fixed[name])
        elif name in suggestion:
            value = dimension.of_internal(suggestion[name])
        if value is not None:
            values[name] = value
    return values


def constraint_values(system_attributes: Mapping[str, Any]) -> dict[str, float]:
    """Returns the constraints of a trial, at most 0 if satisfied: those of `constraints_func` by index, others by name.

    Reads the attributes themselves, since `FrozenTrial.constraints` exists from Optuna 5 on only.
    """
    unnamed = system_attributes.get(CONSTRAINTS) or ()
    values = {str(index): float(value) for index, value in enumerate(unnamed)}
    prefix = f"{CONSTRAINTS}:"
    for key, value in system_attributes.items():
        if key.startswith(prefix):
            values[key.removeprefix(prefix)] = float(value)
    return values


def _objective(index: int, direction: StudyDirection) -> Metric:
    name = f"objective{index}"
    return maximize(name) if direction == StudyDirection.MAXIMIZE else minimize(name)


def _usual(values: Sequence[float]) -> float:
    """Returns the median of the values that satisfy a constraint, 0 without one."""
    satisfied = [value for value in values if -math.inf < value <= 0]
    return statistics.median(satisfied) if satisfied else 0.0


def _result(trial: FrozenTrial, objectives: int) -> tuple[list[float], str | None]:
    """Returns the values of a finished trial, or the reason why it is infeasible."""
    if trial.state == TrialState.FAIL:
        return [], "the trial failed"
    if trial.state == TrialState.PRUNED:
        if trial.last_step is None or objectives > 1:
            return [], "the trial was pruned without an intermediate value"
        return [float(trial.intermediate_values[trial.last_step])], None
    return [float(value) for value in trial.values], None
