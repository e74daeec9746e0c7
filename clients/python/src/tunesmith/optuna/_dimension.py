"""Optuna's distributions as Tunesmith's parameters, value by value.

Optuna stores a value as a `float`, its internal representation: the number itself, or the index of a category.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from decimal import Decimal
from random import Random
from typing import Any, Generic, TypeVar

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from .._wire import ParameterValue
from ..parameters import Parameter, Scale, categorical, double, integer

_D = TypeVar("_D", bound=BaseDistribution)
_INT64 = range(-(2**63), 2**63)
# Optuna accepts values this close to a multiple of the step, in steps.
_STEP_TOLERANCE = 1e-8


class Dimension(ABC, Generic[_D]):
    """A parameter of a study in Optuna and in Tunesmith. Values outside the distribution have no counterpart."""

    def __init__(self, name: str, distribution: _D) -> None:
        self.name = name
        self.distribution = distribution

    @abstractmethod
    def parameter(self) -> Parameter:
        """Returns Tunesmith's parameter. Its name is quoted, because Optuna allows the empty name."""

    @abstractmethod
    def of_internal(self, internal: float) -> ParameterValue | None:
        """Converts an internal representation to Tunesmith's value; `None` outside the distribution."""

    @abstractmethod
    def to_external(self, value: ParameterValue) -> Any:
        """Converts Tunesmith's value to the one that the objective function gets."""

    @abstractmethod
    def middle(self) -> ParameterValue:
        """Returns the middle of the range on its scale, or the first category."""

    @abstractmethod
    def draw(self, random: Random) -> ParameterValue:
        """Draws a value, uniform on the scale of the distribution."""

    @property
    @abstractmethod
    def finite(self) -> range | None:
        """The values that a condition can list, as integers or indices; `None` for a continuous parameter."""

    @property
    def is_ordered(self) -> bool:
        """Whether its values are numbers."""
        return True

    def of_external(self, external: Any) -> ParameterValue | None:
        """Converts a value of the objective function; `None` outside the distribution or of another type."""
        try:
            return self.of_internal(self.distribution.to_internal_repr(external))
        except (ValueError, TypeError):
            return None


class _Continuous(Dimension[FloatDistribution]):
    def parameter(self) -> Parameter:
        low, high = self.distribution.low, self.distribution.high
        return double(repr(self.name), low, high, scale=_scale(self.distribution.log))

    def of_internal(self, internal: float) -> ParameterValue | None:
        return float(internal) if self.distribution.low <= internal <= self.distribution.high else None

    def to_external(self, value: ParameterValue) -> float:
        return float(value)

    def middle(self) -> ParameterValue:
        return self._at(0.5)

    def draw(self, random: Random) -> ParameterValue:
        return self._at(random.random())

    def _at(self, share: float) -> float:
        low, high = self.distribution.low, self.distribution.high
        if self.distribution.log:
            value = math.exp((1 - share) * math.log(low) + share * math.log(high))
        else:
            value = (1 - share) * low + share * high
        return float(min(max(value, low), high))

    @property
    def finite(self) -> range | None:
        return None


class _Stepped(Dimension[FloatDistribution]):
    """Floats on a grid, as the INTEGER that counts the steps.

    A DISCRETE would have the same geometry, but at most 1000 values.
    """

    def __init__(self, name: str, distribution: FloatDistribution, step: float) -> None:
        super().__init__(name, distribution)
        # Decimal arithmetic gives the numbers that a person would write: -9.9 rather than -9.899999999999999.
        self._low, self._step = Decimal(str(distribution.low)), Decimal(str(step))
        self._last = int((Decimal(str(distribution.high)) - self._low) / self._step)

    def parameter(self) -> Parameter:
        return integer(repr(self.name), 0, _int64(self.name, self._last))

    def of_internal(self, internal: float) -> ParameterValue | None:
        if not math.isfinite(internal):
            return None
        steps = (internal - float(self._low)) / float(self._step)
        index = round(steps)
        return index if 0 <= index <= self._last and abs(steps - index) <= _STEP_TOLERANCE else None

    def to_external(self, value: ParameterValue) -> float:
        return float(self._low + int(value) * self._step)

    def middle(self) -> ParameterValue:
        return self._last // 2

    def draw(self, random: Random) -> ParameterValue:
        return random.randint(0, self._last)

    @property
    def finite(self) -> range:
        return range(self._last + 1)


class _Integer(Dimension[IntDistribution]):
    def parameter(self) -> Parameter:
        low, high = (_int64(self.name, bound) for bound in (self.distribution.low, self.distribution.high))
        return integer(repr(self.name), low, high, scale=_scale(self.distribution.log))

    def of_internal(self, internal: float) -> ParameterValue | None:
        inside = self.distribution.low <= internal <= self.distribution.high
        return int(internal) if inside and internal == int(internal) else None

    def to_external(self, value: ParameterValue) -> int:
        return int(value)

    def middle(self) -> ParameterValue:
        low, high = self.distribution.low, self.distribution.high
        return self._clipped(math.sqrt(low) * math.sqrt(high)) if self.distribution.log else (low + high) // 2

    def draw(self, random: Random) -> ParameterValue:
        low, high = self.distribution.low, self.distribution.high
        if not self.distribution.log:
            return random.randint(low, high)
        # Half a unit more on both sides, so that the bounds are as likely as their neighbours.
        return self._clipped(math.exp(random.uniform(math.log(low - 0.5), math.log(high + 0.5))))

    def _clipped(self, value: float) -> int:
        return int(min(max(round(value), self.distribution.low), self.distribution.high))

    @property
    def finite(self) -> range:
        return range(self.distribution.low, self.distribution.high + 1)


class _SteppedInteger(Dimension[IntDistribution]):
    """Integers on a grid, as the INTEGER that counts the steps; see `_Stepped`."""

    def parameter(self) -> Parameter:
        return integer(repr(self.name), 0, _int64(self.name, self.finite[-1]))

    def of_internal(self, internal: float) -> ParameterValue | None:
        if not math.isfinite(internal):
            return None
        index, rest = divmod(internal - self.distribution.low, self.distribution.step)
        return int(index) if rest == 0 and int(index) in self.finite else None

    def to_external(self, value: ParameterValue) -> int:
        return int(self.distribution.low + int(value) * self.distribution.step)

    def middle(self) -> ParameterValue:
        return self.finite[-1] // 2

    def draw(self, random: Random) -> ParameterValue:
        return random.choice(self.finite)

    @property
    def finite(self) -> range:
        return range((self.distribution.high - self.distribution.low) // self.distribution.step + 1)


class _Categorical(Dimension[CategoricalDistribution]):
    """Categories, as texts of their indices: `None`, `True`, `1` and `"1"` remain different."""

    def parameter(self) -> Parameter:
        return categorical(repr(self.name), [str(index) for index in self.finite])

    def of_internal(self, internal: float) -> ParameterValue | None:
        return str(int(internal)) if internal == int(internal) and int(internal) in self.finite else None

    def to_external(self, value: ParameterValue) -> Any:
        return self.distribution.choices[int(value)]

    def middle(self) -> ParameterValue:
        return "0"

    def draw(self, random: Random) -> ParameterValue:
        return str(random.choice(self.finite))

    @property
    def finite(self) -> range:
        return range(len(self.distribution.choices))

    @property
    def is_ordered(self) -> bool:
        return False


def dimension(name: str, distribution: BaseDistribution) -> Dimension[Any]:
    """Returns the parameter `name` with this distribution.

    Raises `TypeError` for a distribution of another library.
    """
    if isinstance(distribution, FloatDistribution):
        step = distribution.step
        return _Continuous(name, distribution) if step is None else _Stepped(name, distribution, step)
    if isinstance(distribution, IntDistribution):
        return _Integer(name, distribution) if distribution.step == 1 else _SteppedInteger(name, distribution)
    if isinstance(distribution, CategoricalDistribution):
        return _Categorical(name, distribution)
    raise TypeError(
        f"parameter {name!r}: {type(distribution).__name__} is not a float, int or categorical distribution of Optuna"
    )


def _scale(log: bool) -> Scale | None:
    return "log" if log else None


def _int64(name: str, number: int) -> int:
    if number not in _INT64:
        raise ValueError(f"parameter {name!r}: {number} is outside the integers of 64 bits")
    return number
