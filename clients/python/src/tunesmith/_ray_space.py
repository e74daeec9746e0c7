"""Search spaces of Ray Tune as parameters, and their values in both directions.

A space is a tree like the configuration that it describes: constants, domains, and containers of both. Each domain is
one parameter, named by its path (`net/layers[0]`).

| domain | parameter |
|---|---|
| `uniform`, `loguniform` | DOUBLE, both bounds included |
| `randint`, `lograndint` | INTEGER, upper bound excluded |
| `quniform`, `qloguniform` | INTEGER: the multiple of `q`, upper bound included |
| `qrandint`, `qlograndint` | INTEGER: the multiple of `q`, upper bound included, except if `q` is 1 |
| `randn`, `qrandn` | DOUBLE or INTEGER within four standard deviations, with the normal distribution as its prior |
| `choice` | CATEGORICAL; domains inside an option exist only in trials with this option |
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from ray.tune.search.sample import Categorical, Domain, Float, Function, Integer, LogUniform, Normal, Quantized

from ._wire import ParameterValue
from .parameters import Parameter, categorical, double, integer

# 99.994 % of a normal distribution; a search needs a range.
_DEVIATIONS = 4.0
# Spreads that the engine accepts, as a fraction of the range.
_SPREADS = (0.001, 1.0)
_LABEL_LENGTH = 60
# The Tuner replaces functions and other objects of its param_space by pairs of such a text and a hash.
_FUNCTION_PLACEHOLDER, _OBJECT_PLACEHOLDER = "__fn_ph", "__ref_ph"
_SAMPLE_FROM = "sample_from is not supported; compute the value in the trainable"

Values = dict[str, ParameterValue]


class Node:
    """A part of a space at `path`."""

    path: str

    def parameters(self) -> list[Parameter]:
        """Returns the parameters of this part, without those inside of a choice's options."""
        raise NotImplementedError

    def priors(self) -> Iterator[dict[str, Any]]:
        """Yields the priors of all parameters of this part, as in `StudyConfig`."""
        raise NotImplementedError

    def decode(self, values: Mapping[str, ParameterValue]) -> Any:
        """Returns this part of the configuration for the values of a trial."""
        raise NotImplementedError

    def encode(self, part: Any) -> Values:
        """Returns the values of a trial for this part of a configuration. Raises `ValueError` if it is outside."""
        raise NotImplementedError


@dataclass(frozen=True)
class Constant(Node):
    """A value that all configurations share."""

    path: str
    value: Any

    def parameters(self) -> list[Parameter]:
        """Returns an empty list."""
        return []

    def priors(self) -> Iterator[dict[str, Any]]:
        """Yields nothing."""
        return iter(())

    def decode(self, values: Mapping[str, ParameterValue]) -> Any:
        """Returns the constant."""
        return self.value

    def encode(self, part: Any) -> Values:
        """Accepts the constant only, and any value for an object, which the Tuner hides."""
        if not _is_placeholder(self.value, _OBJECT_PLACEHOLDER) and not _equal(self.value, part):
            raise ValueError(f"{self.path}: {part!r} is not the constant {self.value!r} of the search space")
        return {}


@dataclass(frozen=True)
class Number(Node):
    """A domain of numbers: those of `parameter`, or its multiples of `step`."""

    path: str
    parameter: Parameter
    step: float | None = None
    whole: bool = False
    prior: Mapping[str, Any] | None = None

    def parameters(self) -> list[Parameter]:
        """Returns the parameter."""
        return [self.parameter]

    def priors(self) -> Iterator[dict[str, Any]]:
        """Yields the prior of a normal distribution."""
        if self.prior is not None:
            yield dict(self.prior)

    def decode(self, values: Mapping[str, ParameterValue]) -> Any:
        """Returns the number, an `int` in a domain of integers and a `float` otherwise."""
        value = values[self.path]
        if self.step is None:
            return value
        multiple = _multiple(int(value), self.step)
        return int(multiple) if self.whole else float(multiple)

    def encode(self, part: Any) -> Values:
        """Accepts numbers within the bounds, on the grid of a quantized domain."""
        number = _number(self.path, part, self.whole)
        low, high = self.parameter.bounds or (-math.inf, math.inf)
        value: float = number
        if self.step is not None:
            value = round(number / self.step)
            if not math.isclose(number, float(_multiple(int(value), self.step)), rel_tol=1e-9, abs_tol=1e-12):
                raise ValueError(f"{self.path}: {part!r} is not a multiple of {self.step!r}")
        if not low <= value <= high:
            lowest, highest = (
                bound if self.step is None else _multiple(int(bound), self.step) for bound in (low, high)
            )
            raise ValueError(f"{self.path}: {part!r} is outside of {lowest} to {highest}")
        return {self.path: value}


@dataclass(frozen=True)
class Choice(Node):
    """One of several options."""

    path: str
    labels: tuple[str, ...]
    options: tuple[Node, ...]

    def parameters(self) -> list[Parameter]:
        """Returns the choice, with the domains inside its options as its children."""
        parameter = categorical(self.path, self.labels)
        for label, option in zip(self.labels, self.options, strict=True):
            children = option.parameters()
            if children:
                parameter = parameter.when(label, *children)
        return [parameter]

    def priors(self) -> Iterator[dict[str, Any]]:
        """Yields the priors inside of the options."""
        for option in self.options:
            yield from option.priors()

    def decode(self, values: Mapping[str, ParameterValue]) -> Any:
        """Returns the option itself, not a copy or a text."""
        return self.options[self.labels.index(str(values[self.path]))].decode(values)

    def encode(self, part: Any) -> Values:
        """Accepts a value equal to an option; one of the same type has precedence, as of 1 and 1.0."""
        for same_type in (True, False):
            for label, option in zip(self.labels, self.options, strict=True):
                if isinstance(option, Constant):
                    if _equal(option.value, part) and (not same_type or type(option.value) is type(part)):
                        return {self.path: label}
                    continue
                try:
                    return {self.path: label, **option.encode(part)}
                except ValueError:
                    continue
        message = f"{self.path}: {part!r} is not one of the options {', '.join(self.labels)}"
        if any(
            isinstance(each, Constant) and _is_placeholder(each.value, _OBJECT_PLACEHOLDER) for each in self.options
        ):
            message += "; the Tuner hides the objects of its param_space, so give the space to TunesmithSearch instead"
        raise ValueError(message)


@dataclass(frozen=True)
class Container(Node):
    """A mapping (`keys`) or a sequence (of type `kind`) of parts."""

    path: str
    kind: type
    parts: tuple[Node, ...]
    keys: tuple[Any, ...] = field(default=())

    def parameters(self) -> list[Parameter]:
        """Returns the parameters of the parts."""
        return [parameter for part in self.parts for parameter in part.parameters()]

    def priors(self) -> Iterator[dict[str, Any]]:
        """Yields the priors of the parts."""
        for part in self.parts:
            yield from part.priors()

    def decode(self, values: Mapping[str, ParameterValue]) -> Any:
        """Returns a new container."""
        decoded = [part.decode(values) for part in self.parts]
        if issubclass(self.kind, dict):
            return dict(zip(self.keys, decoded, strict=True))
        return tuple(decoded) if issubclass(self.kind, tuple) else decoded

    def encode(self, part: Any) -> Values:
        """Accepts a container of the same shape; keys of a mapping may be absent, or paths such as `net/lr`."""
        if not issubclass(self.kind, dict):
            if not isinstance(part, Sequence) or isinstance(part, str) or len(part) != len(self.parts):
                raise ValueError(f"{self.path}: {part!r} is not a sequence of {len(self.parts)} values")
            return {k: v for node, each in zip(self.parts, part, strict=True) for k, v in node.encode(each).items()}
        if not isinstance(part, Mapping):
            raise ValueError(f"{self.path or 'configuration'}: {part!r} is not a mapping")
        values: Values = {}
        nodes = dict(zip(self.keys, self.parts, strict=True))
        for key, each in part.items():
            node = nodes.get(key)
            if node is None and isinstance(key, str) and "/" in key:
                head, _, rest = key.partition("/")
                node, each = nodes.get(head), {rest: each}
            if node is None:
                known = ", ".join(repr(known) for known in self.keys)
                raise ValueError(f"{_joined(self.path, key)} is not part of the search space; expected one of {known}")
            values |= node.encode(each)
        return values


def parse(space: Mapping[str, Any]) -> Container:
    """Returns the tree of a configuration with domains.

    Raises `ValueError` for one that no search can use, such as `grid_search` and `sample_from`.
    """
    node = _parsed("", dict(space))
    assert isinstance(node, Container)
    for name, count in Counter(name for parameter in node.parameters() for name in _names(parameter)).items():
        if count > 1:
            raise ValueError(f"two domains of the search space have the path {name!r}; rename a key that contains '/'")
    return node


def _names(parameter: Parameter) -> Iterator[str]:
    yield parameter.name
    for _, child in parameter.children:
        yield from _names(child)


def _parsed(path: str, value: Any) -> Node:
    if isinstance(value, Domain):
        return _of_domain(path, value)
    if isinstance(value, dict):
        if len(value) == 1:
            if "grid_search" in value:
                raise ValueError(
                    f"{path}: grid_search is not supported; use tune.choice, or run the grid without a search"
                )
            if "eval" in value:
                raise ValueError(f"{path}: an expression ('eval') is not supported; compute the value in the trainable")
        parts = tuple(_parsed(_joined(path, key), part) for key, part in value.items())
        # The root stays a mapping, however constant.
        return _container(path, value, parts, tuple(value))
    if _is_placeholder(value, _FUNCTION_PLACEHOLDER):
        raise ValueError(f"{path}: {_SAMPLE_FROM}")
    if type(value) in (list, tuple):
        return _container(path, value, tuple(_parsed(f"{path}[{i}]", part) for i, part in enumerate(value)))
    return Constant(path, value)


def _is_placeholder(value: Any, token: str) -> bool:
    # Checked by type first: an array would compare elementwise.
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str) and value[0] == token


def _container(path: str, value: Any, parts: tuple[Node, ...], keys: tuple[Any, ...] = ()) -> Node:
    if path and all(isinstance(part, Constant) for part in parts):
        return Constant(path, value)
    return Container(path, type(value), parts, keys)


def _joined(path: str, key: Any) -> str:
    return f"{path}/{key}" if path else str(key)


def _of_domain(path: str, domain: Domain) -> Node:
    if isinstance(domain, Function):
        raise ValueError(f"{path}: {_SAMPLE_FROM}")
    if domain.is_grid():
        raise ValueError(f"{path}: grid_search is not supported; use tune.choice, or run the grid without a search")
    if isinstance(domain, Categorical):
        return _choice(path, domain.categories)
    if not isinstance(domain, (Float, Integer)):
        raise ValueError(f"{path}: domains of type {type(domain).__name__} are not supported")
    sampler, step = domain.get_sampler(), None
    if isinstance(sampler, Quantized):
        step, sampler = sampler.q, sampler.get_sampler()
        if not step > 0:
            raise ValueError(f"{path}: q is {step!r}, which is not positive")
    low, high = domain.lower, domain.upper
    mean = deviation = None
    if isinstance(sampler, Normal):
        mean, deviation = float(sampler.mean), float(sampler.sd)
        low, high = mean - _DEVIATIONS * deviation, mean + _DEVIATIONS * deviation
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(f"{path}: the bounds {low} and {high} are not finite")
    scale: Any = "log" if isinstance(sampler, LogUniform) else None
    whole = isinstance(domain, Integer)
    if step is None and not whole:
        parameter = double(path, low, high, scale=scale)
    else:
        unit = step or 1
        first, last = _grid_index(low / unit, math.ceil), _grid_index(high / unit, math.floor)
        # Ray samples indices with an excluded upper bound, and corrects this for any step but 1.
        if whole and unit == 1:
            last -= 1
        if first > last:
            raise ValueError(
                f"{path}: there is no value from {low} to {high}" + (f" in steps of {step}" if step else "")
            )
        parameter = integer(path, first, last, scale=scale)
    if parameter.bounds is not None and parameter.bounds[0] > parameter.bounds[1]:
        raise ValueError(f"{path}: the lower bound {low} is above the upper bound {high}")
    prior = (
        None if mean is None or deviation is None else _prior(parameter, mean / (step or 1), deviation / (step or 1))
    )
    return Number(path, parameter, step, whole, prior)


def _prior(parameter: Parameter, mean: float, deviation: float) -> dict[str, Any] | None:
    low, high = parameter.bounds or (mean, mean)
    if low == high:
        return None
    mode = min(max(float(round(mean)) if parameter.type == "INTEGER" else mean, low), high)
    spread = min(max(deviation / (high - low), _SPREADS[0]), _SPREADS[1])
    return {"parameter": parameter.name, "mode": int(mode) if parameter.type == "INTEGER" else mode, "spread": spread}


def _choice(path: str, categories: Sequence[Any]) -> Node:
    if not categories:
        raise ValueError(f"{path}: choice has no options")
    options = tuple(_parsed(f"{path}[{i}]", category) for i, category in enumerate(categories))
    return Choice(path, _labels(options), options)


def _labels(options: Sequence[Node]) -> tuple[str, ...]:
    """Returns unique texts: texts are their own, others as they are printed."""
    labels: list[str] = []
    for i, option in enumerate(options):
        text = f"option {i}"
        if isinstance(option, Constant):
            text = option.value if isinstance(option.value, str) else repr(option.value)
        text = text[:_LABEL_LENGTH]
        labels.append(text if text and text not in labels else f"{text}#{i}")
    return tuple(labels)


def _grid_index(scaled: float, rounded: Any) -> int:
    """Returns the index of a bound on the grid, the nearest one if only the arithmetic of floats is in the way."""
    nearest = round(scaled)
    return nearest if math.isclose(scaled, nearest) else int(rounded(scaled))


def _multiple(index: int, step: float) -> Decimal:
    # In decimals, so that 3 steps of 0.1 are 0.3.
    return Decimal(repr(float(step))) * index


def _number(path: str, value: Any, whole: bool) -> float:
    refusal = ValueError(f"{path}: {value!r} is not {'an integer' if whole else 'a finite number'}")
    if isinstance(value, (bool, str)):
        raise refusal
    try:
        number = float(value)
        if not math.isfinite(number) or (whole and not number.is_integer()):
            raise refusal
        return operator.index(value) if whole and not isinstance(value, float) else int(number) if whole else number
    except TypeError:
        raise refusal from None


def _equal(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    try:
        return bool(one == other)
    except Exception:
        # Arrays have no single truth value, and cannot be compared further without knowing their library.
        return type(one) is type(other)
