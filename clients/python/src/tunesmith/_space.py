"""Search spaces in shorthand: ranges as tuples and choices as lists, by name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, TypeAlias, get_args

from ._wire import ParameterValue
from .parameters import Parameter, Scale, categorical, discrete, double, integer
from .records import TrialRecord

Choice: TypeAlias = "str | int | float | bool | None"
"""An element of a list of choices."""

Space: TypeAlias = "Sequence[Parameter] | Mapping[str, object]"
"""Parameters, or shorthand by name: a range `(low, high)` or `(low, high, scale)`, a list of choices, or a parameter.

Type checkers infer `object` for a dict of several kinds of shorthand, so that only the run checks them.
"""

_ALLOWED = "(low, high), (low, high, scale), a list of choices, or a parameter"


class SearchSpace:
    """Parameters of a study, and the user's objects behind their values."""

    def __init__(self, space: Space) -> None:
        self._choices: dict[str, dict[ParameterValue, Any]] = {}
        if isinstance(space, Mapping):
            self.parameters = tuple(self._parameter(name, shorthand) for name, shorthand in space.items())
        elif isinstance(space, Sequence) and not isinstance(space, str):
            self.parameters = tuple(space)
            for parameter in self.parameters:
                if not isinstance(parameter, Parameter):
                    raise TypeError(
                        f"space: {parameter!r} is not a parameter; use double(), integer(), discrete() or "
                        "categorical(), or a mapping of names to shorthand"
                    )
        else:
            raise TypeError(f"space: {space!r} is neither a sequence of parameters nor a mapping of names to shorthand")
        if not self.parameters:
            raise ValueError("space: there are no parameters")
        self._positions = {parameter.name: position for position, parameter in enumerate(self.parameters)}

    def decoded(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Returns values of a trial with the objects of the user's lists of choices, in the order of the space."""
        # Conditional parameters follow their parents.
        names = sorted(parameters, key=lambda name: self._positions.get(name, len(self._positions)))
        return {name: self._object(name, parameters[name]) for name in names}

    def decoded_record(self, record: TrialRecord) -> TrialRecord:
        """Returns `record` with decoded parameters."""
        return replace(record, parameters=self.decoded(record.parameters))

    def _object(self, name: str, value: Any) -> Any:
        choices = self._choices.get(name)
        return value if choices is None else choices[value]

    def _parameter(self, name: str, shorthand: Any) -> Parameter:
        if not isinstance(name, str):
            raise TypeError(f"space: the name {name!r} of a parameter is not a text")
        if isinstance(shorthand, Parameter):
            if shorthand.name != name:
                raise ValueError(f"space: the parameter under {name!r} has another name, {shorthand.name!r}")
            return shorthand
        if isinstance(shorthand, tuple):
            return _range(name, shorthand)
        if isinstance(shorthand, list):
            return self._of_choices(name, shorthand)
        raise TypeError(f"parameter {name!r}: {shorthand!r} is not {_ALLOWED}")

    def _of_choices(self, name: str, choices: list[Any]) -> Parameter:
        if not choices:
            raise ValueError(f"parameter {name!r}: the list of choices is empty")
        for choice in choices:
            if not (choice is None or _is_bool(choice) or isinstance(choice, (str, Real))):
                raise TypeError(
                    f"parameter {name!r}: the choice {choice!r} is not a text, number, bool or None; "
                    "for other objects, list names and look the object up in the objective"
                )
            if isinstance(choice, Real) and not _is_bool(choice) and not math.isfinite(choice):
                raise ValueError(f"parameter {name!r}: the choice {choice!r} is not finite")
        values: Mapping[ParameterValue, Any]
        if all(_is_exact_double(choice) for choice in choices):
            values = _distinct(name, [(float(choice), choice) for choice in choices])
            parameter = discrete(name, sorted(values))
        else:
            values = _distinct(name, list(zip(_labels(choices), choices, strict=True)))
            parameter = categorical(name, list(values))
        self._choices[name] = dict(values)
        return parameter


def _range(name: str, shorthand: tuple[Any, ...]) -> Parameter:
    if len(shorthand) not in (2, 3):
        raise ValueError(f"parameter {name!r}: the range {shorthand!r} is not (low, high) or (low, high, scale)")
    low, high, *scales = shorthand
    for bound in (low, high):
        if _is_bool(bound) or not isinstance(bound, Real):
            raise TypeError(
                f"parameter {name!r}: the bound {bound!r} of the range {shorthand!r} is not a number; "
                "a tuple is a range, and choices are a list"
            )
        if not math.isfinite(bound):
            raise ValueError(f"parameter {name!r}: the bound {bound!r} of the range {shorthand!r} is not finite")
    if low > high:
        raise ValueError(f"parameter {name!r}: the range {shorthand!r} is empty, since {low!r} is above {high!r}")
    scale: Scale | None = scales[0] if scales else None
    if scales and scale not in get_args(Scale):
        allowed = ", ".join(repr(each) for each in get_args(Scale))
        raise ValueError(f"parameter {name!r}: the scale {scale!r} is not one of {allowed}")
    if scale in ("log", "reverse_log") and low <= 0:
        raise ValueError(f"parameter {name!r}: the scale {scale!r} needs bounds above 0, not {low!r}")
    if isinstance(low, Integral) and isinstance(high, Integral):
        return integer(name, int(low), int(high), scale=scale)
    return double(name, float(low), float(high), scale=scale)


def _is_bool(value: object) -> bool:
    # A bool of NumPy is neither a `bool` nor a number.
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")


def _is_exact_double(choice: object) -> bool:
    if _is_bool(choice) or not isinstance(choice, Real):
        return False
    try:
        return float(choice) == choice
    except OverflowError:
        return False


def _labels(choices: Sequence[Choice]) -> list[str]:
    """Returns texts for choices of several types: the text itself, or the type in parentheses where texts collide."""
    texts = {choice for choice in choices if isinstance(choice, str)}
    labels = []
    for choice in choices:
        label = str(choice)
        if not isinstance(choice, str) and label in texts:
            label = f"{label} ({type(choice).__name__})"
        labels.append(label)
    return labels


def _distinct(name: str, pairs: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
    values: dict[Any, Any] = {}
    for value, choice in pairs:
        if value in values:
            raise ValueError(f"parameter {name!r}: the choices {values[value]!r} and {choice!r} are the same")
        values[value] = choice
    return values
