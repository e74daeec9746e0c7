"""Search space of a study as people read it: own names, real values, texts of the choices.

The sampler's space, in `_dimension`, has indices instead, because it translates every value back.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial

from .._wire import ParameterValue
from ..parameters import Parameter, Scale, categorical, discrete, double, integer
from ._dimension import dimension
from ._space import infer

# Limit of a DISCRETE.
_MOST_VALUES = 1000
# Integers up to here are exact as doubles.
_MOST_EXACT = 2**53
# Optuna accepts values this close to a multiple of the step, in steps.
_STEP_TOLERANCE = 1e-8


class OutsideSpace(ValueError):
    """A trial is no point of the space; the text has the reason."""


@dataclass(frozen=True)
class ImportedSpace:
    """Parameters of Tunesmith, children below their parents."""

    parameters: tuple[Parameter, ...]
    left_out: Mapping[str, str]
    """Reasons by the name of a parameter that the space cannot express."""
    notes: tuple[str, ...]
    """Differences from the study's own space."""


class Points:
    """Trials as points of a space, which may be older than the last trials."""

    def __init__(self, parameters: Sequence[Parameter], trials: Sequence[FrozenTrial]) -> None:
        self._parameters = parameters
        distributions = _distributions(trials)
        self._originals = {text: name for name, text in distinct_names(distributions).items()}
        self._labels = _all_labels(distributions)
        known = {self._originals.get(name, name) for name in _names(parameters)}
        self.unknown = frozenset(distributions.keys() - known)
        """Parameters of trials that the space lacks; their values are ignored."""
        self._known = known

    def of(self, trial: FrozenTrial) -> dict[str, ParameterValue]:
        """Returns the values of a trial by name. Raises `OutsideSpace` if it is no point of the space."""
        values: dict[str, ParameterValue] = {}
        used: set[str] = set()
        for parameter in self._parameters:
            self._collect(parameter, trial, values, used)
        surplus = sorted(name for name in trial.params if name in self._known and name not in used)
        if surplus:
            raise OutsideSpace(f"parameter {surplus[0]!r} does not exist for these values")
        return values

    def _collect(
        self, parameter: Parameter, trial: FrozenTrial, values: dict[str, ParameterValue], used: set[str]
    ) -> None:
        name = self._originals.get(parameter.name, parameter.name)
        if name not in trial.params:
            raise OutsideSpace(f"parameter {name!r} is missing")
        external = trial.params[name]
        value = self._value(parameter, name, external, trial.distributions[name])
        if value is None:
            raise OutsideSpace(f"parameter {name!r} is {external!r}, outside the imported space")
        values[parameter.name] = value
        used.add(name)
        for condition, child in parameter.children:
            if value in condition:
                self._collect(child, trial, values, used)

    def _value(
        self, parameter: Parameter, name: str, external: Any, distribution: BaseDistribution
    ) -> ParameterValue | None:
        """Returns the value of Tunesmith, `None` outside the parameter's range."""
        if isinstance(distribution, CategoricalDistribution) != (parameter.type == "CATEGORICAL"):
            return None
        if parameter.type == "CATEGORICAL":
            label = self._label(name, external, distribution)
            return label if label in parameter.values else None
        if parameter.type == "DISCRETE":
            return _nearest([float(value) for value in parameter.values], float(external))
        low, high = parameter.bounds or (-math.inf, math.inf)
        if not low <= external <= high:
            return None
        if parameter.type == "DOUBLE":
            return float(external)
        return int(external) if external == int(external) else None

    def _label(self, name: str, external: Any, distribution: CategoricalDistribution) -> str:
        labels = self._labels[name]
        if _key(external) not in labels:
            # A value that merely equals the choice, such as 1.0 for 1.
            external = distribution.choices[int(distribution.to_internal_repr(external))]
        return labels[_key(external)]


def imported_space(trials: Sequence[FrozenTrial]) -> ImportedSpace:
    """Returns the union of the distributions of all trials, given by number, with inferred conditions.

    Raises `ValueError` if no trial has parameters, or for integers beyond 2^53.
    """
    distributions = _distributions(trials)
    if not distributions:
        raise ValueError("no trial of the study has parameters, so there is no search space to import")
    names, labels = distinct_names(distributions), _all_labels(distributions)
    united = {name: _united(name, each) for name, each in distributions.items()}
    notes: list[str] = []
    built = {name: _parameter(names[name], each, list(labels[name].values()), notes) for name, each in united.items()}
    guess = infer(trials, {name: _evidence(united[name], built[name]) for name in united})
    conditions = guess.conditions

    def build(name: str) -> Parameter:
        parameter = built[name]
        for child, condition in sorted(conditions.items()):
            if condition.parent == name:
                parameter = parameter.when(_readable(name, condition.values), build(child))
        return parameter

    def _readable(parent: str, values: Iterable[ParameterValue]) -> list[ParameterValue]:
        # Conditions have integers, numbers of steps, or indices of categories.
        indices = sorted(int(value) for value in values)
        if built[parent].type == "CATEGORICAL":
            return [built[parent].values[index] for index in indices]
        each = dimension(parent, united[parent])
        return [each.to_external(index) for index in indices]

    roots = tuple(build(name) for name in guess.dimensions if name not in conditions)
    if not roots:
        raise ValueError("each parameter of the study is missing in some trials, and no other parameter explains when")
    return ImportedSpace(roots, dict(sorted(guess.unmodelled.items())), tuple(notes))


def distinct_names(names: Iterable[str]) -> dict[str, str]:
    """Returns the names for Tunesmith: the same, except that an empty one is quoted and lone surrogates are escaped."""
    found: dict[str, str] = {}
    used: set[str] = set()
    # Names that stay the same have precedence over quoted ones.
    for name in sorted(names, key=lambda name: (_text(name) != name or not name, name)):
        text = _text(name) or repr(name)
        while text in used:
            text = repr(text)
        used.add(text)
        found[name] = text
    return found


def labels_of(choices: Sequence[Any]) -> list[str]:
    """Returns distinct texts of choices; equal ones name their type: `1 (int)` beside `1`."""
    texts = [_text(str(choice)) for choice in choices]
    used = {text for text, choice in zip(texts, choices, strict=True) if isinstance(choice, str)}
    labels = []
    for text, choice in zip(texts, choices, strict=True):
        label = text
        if not isinstance(choice, str):
            if label in used:
                label = f"{text} ({type(choice).__name__})"
            while label in used:
                label += "'"
            used.add(label)
        labels.append(label)
    return labels


def _text(text: str) -> str:
    """Returns `text` as valid UTF-8, with escapes for lone surrogates."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _key(choice: Any) -> tuple[str, str]:
    # `True` equals `1` and NaN differs from itself, so the choices themselves are no keys.
    return type(choice).__name__, repr(choice)


def _distributions(trials: Iterable[FrozenTrial]) -> dict[str, list[BaseDistribution]]:
    """Returns the different distributions of each parameter, in the order of the trials."""
    found: dict[str, list[BaseDistribution]] = {}
    for trial in trials:
        for name, distribution in trial.distributions.items():
            known = found.setdefault(name, [])
            if distribution not in known:
                known.append(distribution)
    return found


def _all_labels(distributions: Mapping[str, Sequence[BaseDistribution]]) -> dict[str, dict[tuple[str, str], str]]:
    """Returns the text of each choice by its key, by the name of the parameter; empty for numbers."""
    found = {}
    for name, each in distributions.items():
        choices = {
            _key(choice): choice
            for distribution in each
            if isinstance(distribution, CategoricalDistribution)
            for choice in distribution.choices
        }
        found[name] = dict(zip(choices, labels_of(list(choices.values())), strict=True))
    return found


def _names(parameters: Iterable[Parameter]) -> Iterable[str]:
    for parameter in parameters:
        yield parameter.name
        yield from _names(child for _, child in parameter.children)


def _united(name: str, distributions: Sequence[BaseDistribution]) -> BaseDistribution:
    """Returns the distribution with the values of all of them."""
    first = distributions[0]
    dimension(name, first)
    if len(distributions) == 1 and not isinstance(first, CategoricalDistribution):
        return first
    kinds = {type(distribution) for distribution in distributions}
    if len(kinds) > 1:
        texts = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ValueError(f"parameter {name!r} has distributions of several kinds: {texts}")
    if isinstance(first, CategoricalDistribution):
        choices = {_key(choice): choice for each in distributions for choice in each.choices}
        return CategoricalDistribution(list(choices.values()))
    low, high = min(each.low for each in distributions), max(each.high for each in distributions)
    log = all(each.log for each in distributions)
    # A grid that includes all grids.
    numbers = [each.step for each in distributions]
    if any(step is None for step in numbers):
        return FloatDistribution(low, high, log=log)
    step = _divisor(
        [*numbers, *(Fraction(Decimal(str(each.low))) - Fraction(Decimal(str(low))) for each in distributions)]
    )
    if isinstance(first, IntDistribution):
        return IntDistribution(low, high, log=log, step=int(step))
    return FloatDistribution(low, high, step=float(step))


def _divisor(numbers: Iterable[Any]) -> Fraction:
    """Returns the greatest common divisor of decimal numbers."""
    exact = [number if isinstance(number, Fraction) else Fraction(Decimal(str(number))) for number in numbers]
    denominator = math.lcm(*(number.denominator for number in exact))
    return Fraction(math.gcd(*(int(number * denominator) for number in exact)), denominator)


def _parameter(name: str, distribution: BaseDistribution, labels: list[str], notes: list[str]) -> Parameter:
    """Returns Tunesmith's parameter. A grid of more than 1000 values becomes its whole range, with a note."""
    if isinstance(distribution, CategoricalDistribution):
        return categorical(name, labels)
    scale: Scale | None = "log" if distribution.log else None
    low, high, step = distribution.low, distribution.high, distribution.step
    if isinstance(distribution, IntDistribution):
        for bound in (low, high):
            if abs(bound) > _MOST_EXACT:
                raise ValueError(f"parameter {name!r}: {bound} is not from -2^53 to 2^53, where integers are exact")
        if step == 1:
            return integer(name, low, high, scale=scale)
    elif step is None:
        return double(name, low, high, scale=scale)
    each = dimension(name, distribution)
    count = 1 + (each.finite or range(1))[-1]
    if count <= _MOST_VALUES:
        return discrete(name, [each.to_external(index) for index in range(count)])
    kind = "an INTEGER" if isinstance(distribution, IntDistribution) else "a DOUBLE"
    notes.append(f"parameter {name!r} is {kind} without its step {step}: {count} values are more than {_MOST_VALUES}")
    return integer(name, low, high) if isinstance(distribution, IntDistribution) else double(name, low, high)


def _evidence(distribution: BaseDistribution, parameter: Parameter) -> BaseDistribution:
    """Returns the distribution for inferring conditions.

    Only the presence of constants and of continuous parameters counts. The inference ignores constants, so they get a
    range.
    """
    return FloatDistribution(0.0, 1.0) if parameter.type == "DOUBLE" or distribution.single() else distribution


def _nearest(values: Sequence[float], number: float) -> float | None:
    """Returns the one of ascending `values` that `number` means, `None` if it is none of them."""
    if not math.isfinite(number):
        return None
    index = bisect_left(values, number)
    around = values[max(index - 1, 0) : index + 1]
    nearest = min(around, key=lambda value: abs(value - number))
    gap = min((after - before for before, after in pairwise(values)), default=abs(nearest) or 1.0)
    return nearest if abs(nearest - number) <= _STEP_TOLERANCE * gap else None
