"""Search space of a study, inferred from its trials.

Optuna's spaces are defined by running the objective function, so only the trials show which parameters there are and
when they exist. The inferred space never contradicts a trial; a guess that turns out wrong is corrected by the trial
that refutes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, TrialState

from .._wire import ParameterValue
from ..parameters import Parameter
from ._dimension import Dimension, dimension

# Larger ranges are not enumerated in a condition.
_MOST_VALUES_OF_A_PARENT = 1000
# A numeric parent activates a child below, above or between bounds. More changes along its range are chance.
_MOST_CHANGES = 2
# A parameter missing from a completed trial does not exist there. Other trials may have ended before they reached it.
_EVIDENCE = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL, TrialState.RUNNING)


@dataclass(frozen=True)
class Condition:
    """Values of a parent for which a parameter exists."""

    parent: str
    values: frozenset[ParameterValue]


@dataclass(frozen=True)
class Space:
    """Parameters by name, with the conditions of those that do not always exist."""

    dimensions: Mapping[str, Dimension[Any]]
    """Sorted by name, without parameters of a single value."""
    conditions: Mapping[str, Condition]
    unmodelled: Mapping[str, str]
    """Parameters that the search cannot use, with the reason."""

    def restricted(self, distributions: Mapping[str, BaseDistribution]) -> Space:
        """Returns the part of the space with the names and distributions of `distributions`.

        A parameter that no trial has had is added. A condition on a parameter that is not among them is dropped.
        """
        names = sorted(distributions.keys() - self.unmodelled.keys())
        dimensions = {name: dimension(name, distributions[name]) for name in names}
        dimensions = {name: each for name, each in dimensions.items() if not each.distribution.single()}
        conditions = {
            name: condition
            for name, condition in self.conditions.items()
            if name in dimensions and condition.parent in dimensions
        }
        return Space(dimensions, conditions, {})

    def parameters(self) -> list[Parameter]:
        """Returns the space as Tunesmith's parameters, children below their parents."""
        children: dict[str, list[str]] = {}
        for name, condition in self.conditions.items():
            children.setdefault(condition.parent, []).append(name)

        def build(name: str) -> Parameter:
            parameter = self.dimensions[name].parameter()
            for child in sorted(children.get(name, [])):
                # The order of the values is that of their numbers, whatever the order of the set.
                values = sorted(self.conditions[child].values, key=int)
                parameter = parameter.when(values, build(child))
            return parameter

        return [build(name) for name in self.dimensions if name not in self.conditions]

    def existing(self, values: Mapping[str, ParameterValue]) -> dict[str, ParameterValue] | None:
        """Returns the values of the parameters that exist, or `None` if one of them is missing."""
        found: dict[str, ParameterValue] = {}
        for name in self.dimensions:
            if self._exists(name, values):
                if name not in values:
                    return None
                found[name] = values[name]
        return found

    def settled(self, values: Mapping[str, ParameterValue]) -> dict[str, ParameterValue]:
        """Returns those of `values` whose parameters certainly exist: all parameters above them have a value, too."""
        return {name: values[name] for name in self.dimensions if name in values and self._exists(name, values)}

    def _exists(self, name: str, values: Mapping[str, ParameterValue]) -> bool:
        condition = self.conditions.get(name)
        if condition is None:
            return True
        return self._exists(condition.parent, values) and values.get(condition.parent) in condition.values


def infer(trials: Sequence[FrozenTrial], declared: Mapping[str, BaseDistribution]) -> Space:
    """Infers the space from `trials`, by number. Distributions in `declared` replace those of the trials.

    A parameter has the distribution of its last trial, unless the distribution changed in both of the last two trials.
    """
    distributions = dict(declared)
    unmodelled: dict[str, str] = {}
    for name, recent in _distributions(trials).items():
        if name in declared:
            continue
        if len(recent) == 3 and recent[0] != recent[1] != recent[2]:
            unmodelled[name] = "its range changes from trial to trial"
        else:
            distributions[name] = recent[-1]
    dimensions = {
        name: dimension(name, distributions[name]) for name in sorted(distributions) if not distributions[name].single()
    }
    evidence = _evidence(trials)
    if not evidence:
        return Space(dimensions, {}, unmodelled)

    presence = {name: sum(name in trial.params for trial in evidence) for name in dimensions}
    placed = {name: each for name, each in dimensions.items() if presence[name] == len(evidence)}
    conditions: dict[str, Condition] = {}
    # A parent exists in more trials than its child, so it is placed before.
    for name in sorted(dimensions.keys() - placed.keys(), key=lambda name: (-presence[name], name)):
        condition = _condition(name, placed, trials, evidence) if presence[name] else None
        if condition is None:
            unmodelled[name] = "no other parameter decides in which trials it exists"
        else:
            conditions[name] = condition
            placed[name] = dimensions[name]
    return Space({name: placed[name] for name in sorted(placed)}, conditions, unmodelled)


def _distributions(trials: Iterable[FrozenTrial]) -> dict[str, list[BaseDistribution]]:
    """Returns the distributions of the last three trials that have the parameter, by its name."""
    found: dict[str, list[BaseDistribution]] = {}
    for trial in trials:
        for name, distribution in trial.distributions.items():
            found[name] = [*found.get(name, []), distribution][-3:]
    return found


def _evidence(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Returns the trials whose missing parameters do not exist in them: those of the first state that occurs."""
    for state in _EVIDENCE:
        found = [trial for trial in trials if trial.state == state and trial.params]
        if found:
            return found
    return []


def _condition(
    name: str, parents: Mapping[str, Dimension[Any]], trials: Sequence[FrozenTrial], evidence: Sequence[FrozenTrial]
) -> Condition | None:
    """Returns the condition that explains in which trials the parameter exists, the most plausible one of several."""
    best: tuple[tuple[int, bool, int, str], Condition] | None = None
    for parent, parent_dimension in parents.items():
        finite = parent_dimension.finite
        if finite is None or finite[-1] - finite[0] >= _MOST_VALUES_OF_A_PARENT:
            continue
        if any(name in trial.params and parent not in trial.params for trial in evidence):
            continue
        without = [trial for trial in evidence if parent in trial.params and name not in trial.params]
        together = [trial for trial in trials if parent in trial.params and name in trial.params]
        absent, present = _values(parent_dimension, without), _values(parent_dimension, together)
        if not absent or not present or absent & present:
            continue
        if parent_dimension.is_ordered:
            changes = _changes(absent, present)
            values: frozenset[ParameterValue] = frozenset(
                value for value in finite if _distance(value, present) <= _distance(value, absent)
            )
        else:
            changes = 1
            # A category never seen counts as present: a superfluous suggestion is ignored, a missing one drawn blindly.
            values = frozenset(str(value) for value in finite if value not in absent)
        if changes > _MOST_CHANGES:
            continue
        is_later = any(_position(trial, parent) > _position(trial, name) for trial in together)
        repeats = len(without) + len(together) - len(absent) - len(present)
        rank = (changes, is_later, -repeats, parent)
        if best is None or rank < best[0]:
            best = rank, Condition(parent, values)
    return None if best is None else best[1]


def _values(parent: Dimension[Any], trials: Iterable[FrozenTrial]) -> set[int]:
    """Returns the values, or indices of categories, that `parent` has in these trials, within its range."""
    values = (parent.of_external(trial.params[parent.name]) for trial in trials)
    return {int(value) for value in values if value is not None}


def _changes(absent: set[int], present: set[int]) -> int:
    """Returns how often presence changes along the values."""
    flags = [value in present for value in sorted(absent | present)]
    return sum(before != after for before, after in pairwise(flags))


def _distance(value: int, others: set[int]) -> int:
    return min(abs(value - other) for other in others)


def _position(trial: FrozenTrial, name: str) -> int:
    return list(trial.params).index(name)
