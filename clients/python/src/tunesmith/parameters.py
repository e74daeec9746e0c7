"""Parameters of a search space, and those that exist only for some values of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ._wire import ParameterValue, double_text

Scale = Literal["linear", "log", "reverse_log"]
"""Resolution of a range: even, finest near the lower bound, or finest near the upper bound."""

_SCALES = {"linear": "UNIT_LINEAR_SCALE", "log": "UNIT_LOG_SCALE", "reverse_log": "UNIT_REVERSE_LOG_SCALE"}
_SCALE_NAMES: dict[str, Scale] = {
    "UNIT_LINEAR_SCALE": "linear",
    "UNIT_LOG_SCALE": "log",
    "UNIT_REVERSE_LOG_SCALE": "reverse_log",
}
_CONDITIONS = {
    "INTEGER": "parentIntValues",
    "CATEGORICAL": "parentCategoricalValues",
    "DISCRETE": "parentDiscreteValues",
}


@dataclass(frozen=True)
class Parameter:
    """One parameter, immutable. Created by `double`, `integer`, `discrete` or `categorical`."""

    name: str
    type: Literal["DOUBLE", "INTEGER", "DISCRETE", "CATEGORICAL"]
    bounds: tuple[float, float] | None = None
    """Lower and upper bound, both inclusive, of a DOUBLE or INTEGER."""
    values: tuple[ParameterValue, ...] = ()
    """The values of a DISCRETE or CATEGORICAL."""
    scale: Scale | None = None
    children: tuple[tuple[tuple[ParameterValue, ...], Parameter], ...] = ()
    """Parameters that exist only for some values of this one, each with these values."""

    def when(self, values: ParameterValue | Sequence[ParameterValue], *children: Parameter) -> Parameter:
        """Returns this parameter with `children` that exist only in trials in which it has one of `values`.

        >>> categorical("optimizer", ["adam", "sgd"]).when("sgd", double("momentum", 0, 0.99)).children[0][0]
        ('sgd',)
        """
        if self.type == "DOUBLE":
            raise ValueError(f"{self.name!r} is a DOUBLE, which cannot have children")
        if not children:
            raise ValueError(f"{self.name!r}: when() needs the parameters that exist for {values!r}")
        chosen = (values,) if isinstance(values, (str, int, float)) else tuple(values)
        return replace(self, children=self.children + tuple((chosen, child) for child in children))

    def to_message(self) -> dict[str, Any]:
        """Returns the parameter as `ParameterSpec` of the API."""
        message: dict[str, Any] = {"parameter": self.name, "type": self.type}
        if self.scale is not None:
            message["scaleType"] = _SCALES[self.scale]
        if self.bounds is not None:
            low, high = self.bounds
            if self.type == "INTEGER":
                message["integerValueSpec"] = {"minValue": str(low), "maxValue": str(high)}
            else:
                message["doubleValueSpec"] = {"minValue": double_text(low), "maxValue": double_text(high)}
        elif self.type == "DISCRETE":
            message["discreteValueSpec"] = {"values": [double_text(float(value)) for value in self.values]}
        else:
            message["categoricalValueSpec"] = {"values": list(self.values)}
        if self.children:
            message["childParameterSpecs"] = [self._child(values, child) for values, child in self.children]
        return message

    @classmethod
    def of_message(cls, message: Mapping[str, Any]) -> Parameter:
        """Converts a `ParameterSpec` of the API."""
        kind, scale = message["type"], _SCALE_NAMES.get(message.get("scaleType", ""))
        name = str(message["parameter"])
        parameter: Parameter
        if kind == "INTEGER":
            spec = message["integerValueSpec"]
            parameter = integer(name, int(spec["minValue"]), int(spec["maxValue"]), scale=scale)
        elif kind == "DOUBLE":
            spec = message["doubleValueSpec"]
            parameter = double(name, float(spec["minValue"]), float(spec["maxValue"]), scale=scale)
        elif kind == "DISCRETE":
            values = [float(value) for value in message["discreteValueSpec"]["values"]]
            whole = all(value.is_integer() for value in values)
            parameter = discrete(name, [int(value) for value in values] if whole else values, scale=scale)
        else:
            parameter = categorical(name, message["categoricalValueSpec"]["values"])
        for child in message.get("childParameterSpecs", []):
            values_of = {"INTEGER": int, "DISCRETE": float}.get(kind, str)
            condition = [values_of(value) for value in child[_CONDITIONS[kind]]["values"]]
            parameter = parameter.when(condition, cls.of_message(child))
        return parameter

    def _child(self, values: tuple[ParameterValue, ...], child: Parameter) -> dict[str, Any]:
        written: list[Any]
        if self.type == "INTEGER":
            written = [str(value) for value in values]
        elif self.type == "DISCRETE":
            written = [double_text(float(value)) for value in values]
        else:
            written = list(values)
        return {**child.to_message(), _CONDITIONS[self.type]: {"values": written}}


def double(name: str, minimum: float, maximum: float, *, scale: Scale | None = None) -> Parameter:
    """Returns a parameter for real numbers from `minimum` to `maximum`, both inclusive."""
    return Parameter(name, "DOUBLE", bounds=(float(minimum), float(maximum)), scale=_checked(name, scale))


def integer(name: str, minimum: int, maximum: int, *, scale: Scale | None = None) -> Parameter:
    """Returns a parameter for whole numbers from `minimum` to `maximum`, both inclusive."""
    for bound in (minimum, maximum):
        if not isinstance(bound, int):
            raise TypeError(f"{name!r}: the bound {bound!r} of an INTEGER is not an int")
    return Parameter(name, "INTEGER", bounds=(minimum, maximum), scale=_checked(name, scale))


def discrete(name: str, values: Sequence[float], *, scale: Scale | None = None) -> Parameter:
    """Returns a parameter for listed numbers, strictly increasing. Its values are `int` if all of them are whole."""
    return Parameter(name, "DISCRETE", values=tuple(values), scale=_checked(name, scale))


def categorical(name: str, values: Sequence[str]) -> Parameter:
    """Returns a parameter for listed texts without order."""
    if isinstance(values, str) or not all(isinstance(value, str) for value in values):
        raise TypeError(f"{name!r}: the values of a CATEGORICAL are a list of texts, not {values!r}")
    return Parameter(name, "CATEGORICAL", values=tuple(values))


def _checked(name: str, scale: Scale | None) -> Scale | None:
    if scale is not None and scale not in _SCALES:
        raise ValueError(f"{name!r}: scale {scale!r} is not one of {', '.join(_SCALES)}")
    return scale
