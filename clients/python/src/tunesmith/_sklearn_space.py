"""Search spaces of scikit-learn's `param_distributions`, as parameters of the search.

Each estimator parameter is a `Dimension`: a parameter of the search with the conversions between the search's values
(numbers and texts) and the estimator's values (any objects). Parameters with a single value are constants, which the
search does not see.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from scipy.stats import rv_continuous, rv_discrete

from ._wire import ParameterValue
from .parameters import Parameter, categorical, discrete, double, integer

# The engine's limit for the values of one parameter.
_MAX_VALUES = 1000
# Quantiles at which a distribution without bounds is cut.
_TAIL = 0.001
_EXACT_INTEGERS = 2**53


@dataclass(frozen=True)
class Dimension:
    """One entry of `param_distributions`."""

    parameter: Parameter | None
    """`None` for a constant."""
    decode: Callable[[Any], Any]
    """Returns the estimator's value for a value of the search."""
    encode: Callable[[Any], ParameterValue]
    """Inverse of `decode`. Raises `ValueError` for a value outside the space."""


class Subspace:
    """One dictionary of `param_distributions`."""

    def __init__(self, distributions: Mapping[str, Any]) -> None:
        self.dimensions: dict[str, Dimension] = {}
        for name, distribution in distributions.items():
            if not isinstance(name, str) or not name:
                raise ValueError(f"param_distributions: {name!r} is not the name of a parameter")
            for found, dimension in _dimensions(name, distribution):
                if found in self.dimensions:
                    raise ValueError(f"param_distributions: parameter {found!r} is defined twice")
                self.dimensions[found] = dimension
        # A parameter that exists only for some values of another one has no entry of its own.
        self.parameters = [
            dimension.parameter
            for name, dimension in self.dimensions.items()
            if dimension.parameter is not None and name in distributions
        ]
        self._constants = {
            name: dimension.decode(None) for name, dimension in self.dimensions.items() if dimension.parameter is None
        }

    def decode(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the parameters of the estimator, in the order of the dictionary."""
        return {
            name: self._constants[name] if name in self._constants else dimension.decode(values[name])
            for name, dimension in self.dimensions.items()
            if name in self._constants or name in values
        }

    def encode(self, point: Mapping[str, Any]) -> dict[str, ParameterValue]:
        """Returns the values of the search. Raises `ValueError` if one is unknown or outside the space."""
        values: dict[str, ParameterValue] = {}
        for name, value in point.items():
            dimension = self.dimensions.get(name)
            if dimension is None:
                raise ValueError(f"{name!r} is not among the parameters {', '.join(self.dimensions)}")
            encoded = dimension.encode(value)
            if dimension.parameter is not None:
                values[name] = encoded
        return values


class SearchSpace:
    """The whole of `param_distributions`: one dictionary, a choice among several, or parameters of Tunesmith."""

    def __init__(self, param_distributions: Any) -> None:
        self._subspaces = [Subspace(each) for each in _dictionaries(param_distributions)]
        self.names = frozenset(name for subspace in self._subspaces for name in subspace.dimensions)
        """All parameters of the estimator that may be set."""
        self._root = "param_distributions"
        while self._root in self.names:
            self._root += "_"
        self._is_choice = len(self._subspaces) > 1 or not self._subspaces[0].parameters
        self.parameters = self._subspaces[0].parameters
        if self._is_choice:
            root = categorical(self._root, [str(index) for index in range(len(self._subspaces))])
            for index, subspace in enumerate(self._subspaces):
                if subspace.parameters:
                    root = root.when(str(index), *subspace.parameters)
            self.parameters = [root]

    def decode(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the parameters of the estimator for a trial's parameters."""
        index = int(values[self._root]) if self._is_choice else 0
        return self._subspaces[index].decode(values)

    def encode(self, point: Mapping[str, Any]) -> dict[str, ParameterValue]:
        """Returns a trial's parameters for some parameters of the estimator, in the first dictionary that has them.

        Raises `ValueError` if none has them.
        """
        refusals = []
        for index, subspace in enumerate(self._subspaces):
            try:
                values = subspace.encode(point)
            except ValueError as error:
                refusals.append(str(error))
                continue
            return {self._root: str(index), **values} if self._is_choice else values
        raise ValueError("; ".join(dict.fromkeys(refusals)))


def point_key(params: Mapping[str, Any]) -> Hashable:
    """Returns a key that is equal for equal points."""
    return frozenset((name, _token(value)) for name, value in params.items())


def _dictionaries(param_distributions: Any) -> list[Mapping[str, Any]]:
    if isinstance(param_distributions, Mapping):
        return [param_distributions]
    entries = list(param_distributions)
    if not entries:
        raise ValueError("param_distributions is empty: give a dictionary, a list of them, or parameters of tunesmith")
    if all(isinstance(entry, Parameter) for entry in entries):
        names = [entry.name for entry in entries]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"param_distributions: parameter {name!r} is defined twice")
        return [{entry.name: entry for entry in entries}]
    for entry in entries:
        if not isinstance(entry, Mapping):
            raise TypeError(
                f"param_distributions: {entry!r} is not a dictionary; a list has either dictionaries only, or "
                "parameters of tunesmith only"
            )
    return entries


def _dimensions(name: str, distribution: Any) -> Iterator[tuple[str, Dimension]]:
    """Yields the dimension of an entry and, for a conditional parameter, those of its children."""
    if isinstance(distribution, Parameter):
        if distribution.name != name:
            raise ValueError(f"param_distributions[{name!r}]: the parameter has another name, {distribution.name!r}")
        for parameter in {parameter.name: parameter for parameter in _tree(distribution)}.values():
            yield parameter.name, Dimension(parameter, _same, _same)
        return
    kind = _optuna_kind(distribution)
    if kind is not None:
        yield name, _of_optuna(name, kind, distribution)
    elif isinstance(distribution, (rv_continuous, rv_discrete)):
        yield name, _of_scipy(name, distribution())
    elif hasattr(distribution, "rvs"):
        yield name, _of_scipy(name, distribution)
    elif _is_list(distribution):
        yield name, _of_values(name, list(distribution))
    else:
        raise TypeError(
            f"param_distributions[{name!r}]: {distribution!r} is not a list of values, a distribution of scipy.stats "
            "or optuna, or a parameter of tunesmith"
        )


def _tree(parameter: Parameter) -> Iterator[Parameter]:
    yield parameter
    for _, child in parameter.children:
        yield from _tree(child)


def _same(value: Any) -> Any:
    return value


# Lists of values.


def _is_list(values: Any) -> bool:
    if isinstance(values, np.ndarray):
        return bool(values.ndim == 1)
    return isinstance(values, Sequence) and not isinstance(values, (str, bytes))


def _of_values(name: str, values: list[Any]) -> Dimension:
    if not values:
        raise ValueError(f"param_distributions[{name!r}] has no values")
    distinct = list({_token(value): value for value in reversed(values)}.values())[::-1]
    if len(distinct) > 1 and all(_is_number(value) for value in distinct):
        return _of_numbers(name, sorted(distinct))
    return _of_objects(name, distinct)


def _of_objects(name: str, values: Sequence[Any]) -> Dimension:
    """Returns the dimension of values without order."""
    positions = {_token(value): index for index, value in enumerate(values)}

    def position(value: Any) -> int:
        index = positions.get(_token(value))
        if index is None:
            raise ValueError(f"{name!r}: {value!r} is not one of the values {_listed(values)}")
        return index

    if len(values) == 1:
        return Dimension(None, lambda _: values[0], position)
    if len(values) > _MAX_VALUES:
        # Neighbours are alike to the search; for numbers, which are sorted, they are.
        return Dimension(integer(name, 0, len(values) - 1), lambda index: values[index], position)
    labels = [str(index) for index in range(len(values))]
    return Dimension(categorical(name, labels), lambda label: values[int(label)], lambda value: labels[position(value)])


def _of_numbers(name: str, values: Sequence[Any]) -> Dimension:
    """Returns the dimension of at least two rising numbers. The search uses their order and distances."""
    if len(values) > _MAX_VALUES:
        return _of_objects(name, values)
    by_number = {float(value): value for value in values}

    def encode(value: Any) -> float:
        if not _is_number(value) or float(value) not in by_number:
            raise ValueError(f"{name!r}: {value!r} is not one of the values {_listed(values)}")
        return float(value)

    parameter = discrete(name, list(by_number), scale="log" if _is_geometric(list(by_number)) else None)
    return Dimension(parameter, lambda number: by_number[float(number)], encode)


def _is_geometric(numbers: Sequence[float]) -> bool:
    """Returns whether the spacing is more even on a log scale: the largest gap is a smaller share of the range."""
    if len(numbers) < 3 or numbers[0] <= 0:
        return False

    def largest_share(points: Sequence[float]) -> float:
        return max(high - low for low, high in itertools.pairwise(points)) / (points[-1] - points[0])

    return largest_share([math.log(number) for number in numbers]) < largest_share(numbers)


def _is_number(value: Any) -> bool:
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    number = float(value)
    return math.isfinite(number) and number == value


def _token(value: Any) -> Hashable:
    """Returns a key that is equal for values that are the same choice: equal numbers or texts, or the same object."""
    if isinstance(value, (bool, np.bool_)):
        return "bool", bool(value)
    if isinstance(value, Real) and value == value:  # NaN is a choice, but not equal to itself
        return "number", value
    if isinstance(value, float):
        return "number", "NaN"
    if isinstance(value, (str, bytes)) or value is None:
        return type(value).__name__, value
    if isinstance(value, tuple):
        return "tuple", tuple(_token(part) for part in value)
    return "object", id(value)


def _listed(values: Sequence[Any]) -> str:
    shown = ", ".join(repr(value) for value in values[:10])
    return f"{shown}, ..." if len(values) > 10 else shown


# Ranges.


def _in_range(name: str, value: Any, low: float, high: float) -> None:
    if not isinstance(value, Real) or isinstance(value, bool) or not low <= float(value) <= high:
        raise ValueError(f"{name!r}: {value!r} is not a number from {low:g} to {high:g}")


def _of_reals(name: str, low: float, high: float, *, log: bool) -> Dimension:
    if low == high:
        return _of_objects(name, [low])

    def encode(value: Any) -> float:
        _in_range(name, value, low, high)
        return float(value)

    return Dimension(double(name, low, high, scale="log" if log else None), float, encode)


def _of_integers(name: str, low: int, high: int, *, log: bool) -> Dimension:
    if low == high:
        return _of_objects(name, [low])
    _check_exact(name, low, high)

    def encode(value: Any) -> int:
        _in_range(name, value, low, high)
        if value != int(value):
            raise ValueError(f"{name!r}: {value!r} is not a whole number")
        return int(value)

    return Dimension(integer(name, low, high, scale="log" if log else None), int, encode)


def _check_exact(name: str, low: int, high: int) -> None:
    if max(-low, high) > _EXACT_INTEGERS:
        raise ValueError(f"param_distributions[{name!r}]: whole numbers are limited to ±2**53, not {low} to {high}")


# Distributions of scipy.stats.


def _of_scipy(name: str, distribution: Any) -> Dimension:
    family = getattr(distribution, "dist", None)
    if isinstance(family, rv_discrete):
        return _of_discrete(name, distribution)
    if not isinstance(family, rv_continuous):
        kind = type(distribution)
        raise TypeError(
            f"param_distributions[{name!r}]: {kind.__module__}.{kind.__qualname__} has no quantile function (ppf) of "
            "scipy.stats; give a frozen distribution with one dimension, a list of values, or a parameter of tunesmith"
        )
    low, high = (float(bound) for bound in distribution.support())
    if math.isnan(low) or math.isnan(high):
        raise _invalid(name, distribution)
    if math.isfinite(low) and math.isfinite(high):
        if low == high:
            return _of_objects(name, [low])
        shares = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
        quantiles = distribution.ppf(shares)
        if np.allclose(quantiles, low + shares * (high - low), rtol=1e-9, atol=1e-9 * (high - low)):
            return _of_reals(name, low, high, log=False)
        if low > 0 and np.allclose(quantiles, low * (high / low) ** shares, rtol=1e-9, atol=0.0):
            return _of_reals(name, low, high, log=True)
    return _of_quantiles(name, distribution, low, high, float)


def _of_discrete(name: str, distribution: Any) -> Dimension:
    low, high = distribution.support()
    if math.isnan(low) or math.isnan(high):
        raise _invalid(name, distribution)
    first = int(low if math.isfinite(low) else distribution.ppf(_TAIL))
    last = int(high if math.isfinite(high) else distribution.ppf(1 - _TAIL))
    _check_exact(name, first, last)
    count = last - first + 1
    probes = np.unique(np.linspace(first, last, min(count, 11)).astype(np.int64))
    if np.allclose(distribution.pmf(probes) * count, 1.0, rtol=1e-9, atol=0.0):
        return _of_integers(name, first, last, log=False)
    if count <= _MAX_VALUES:
        numbers = np.arange(first, last + 1)
        return _of_values(name, [int(number) for number in numbers[distribution.pmf(numbers) > 0]])
    return _of_quantiles(name, distribution, float(low), float(high), int)


def _invalid(name: str, distribution: Any) -> ValueError:
    arguments = [*map(repr, distribution.args), *(f"{key}={value!r}" for key, value in distribution.kwds.items())]
    family = distribution.dist.name
    return ValueError(f"param_distributions[{name!r}]: scipy.stats.{family}({', '.join(arguments)}) is no distribution")


def _of_quantiles(name: str, distribution: Any, low: float, high: float, kind: type[float] | type[int]) -> Dimension:
    """Returns a dimension whose search value is the probability of a smaller value."""
    bottom = 0.0 if math.isfinite(low) and kind is float else _TAIL
    top = 1.0 if math.isfinite(high) else 1 - _TAIL

    def encode(value: Any) -> float:
        _in_range(name, value, kind(distribution.ppf(bottom)), kind(distribution.ppf(top)))
        return float(min(max(distribution.cdf(value), bottom), top))

    return Dimension(double(name, bottom, top), lambda share: kind(distribution.ppf(share)), encode)


# Distributions of optuna, by their class names: optuna need not be installed.


_OPTUNA_KINDS = ("FloatDistribution", "IntDistribution", "CategoricalDistribution")


def _optuna_kind(distribution: Any) -> str | None:
    """Returns the kind of a distribution of optuna; older names are subclasses of the three kinds."""
    names = [kind.__name__ for kind in type(distribution).__mro__ if kind.__module__ == "optuna.distributions"]
    return next((name for name in names if name in _OPTUNA_KINDS), names[0] if names else None)


def _of_optuna(name: str, kind: str, distribution: Any) -> Dimension:
    if kind == "CategoricalDistribution":
        return _of_objects(name, list(distribution.choices))
    if kind not in _OPTUNA_KINDS:
        raise TypeError(
            f"param_distributions[{name!r}]: optuna's {kind} is unknown; supported are {', '.join(_OPTUNA_KINDS)}"
        )
    low, high, step = distribution.low, distribution.high, distribution.step
    if step is None or (kind == "IntDistribution" and step == 1):
        range_of = _of_integers if kind == "IntDistribution" else _of_reals
        return range_of(name, low, high, log=distribution.log)
    # Decimals avoid values such as 0.30000000000000004.
    first, width = Decimal(str(low)), Decimal(str(step))
    count = int((Decimal(str(high)) - first) // width) + 1
    number: Callable[[Decimal], Any] = int if kind == "IntDistribution" else float
    if count == 1:
        return _of_objects(name, [low])

    def encode(value: Any) -> int:
        _in_range(name, value, low, high)
        position = (Decimal(str(value)) - first) / width
        if position != position.to_integral_value():
            raise ValueError(f"{name!r}: {value!r} is not {low} plus a multiple of the step {step}")
        return int(position)

    return Dimension(integer(name, 0, count - 1), lambda index: number(first + index * width), encode)
