"""Overrides of Hydra as parameters, and values of trials as overrides."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import (
    IntervalSweep,
    Override,
    Quote,
    QuotedString,
    RangeSweep,
    Sweep,
    Transformer,
)
from hydra.errors import HydraException
from hydra.utils import get_method
from omegaconf import DictConfig
from tunesmith import Parameter, ParameterValue, categorical, discrete, double, integer

# A DISCRETE parameter lists its values.
_MAX_LISTED = 10_000


@dataclass
class Space:
    """The parameters of a sweep and the overrides that all of its jobs share."""

    parameters: list[Parameter] = field(default_factory=list)
    fixed: list[str] = field(default_factory=list)
    # Texts of overrides and the values that Hydra reads from them, by key.
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    # Ranges of floats, whose whole values the search returns as `int`.
    floats: set[str] = field(default_factory=set)

    def overrides(self, values: Mapping[str, ParameterValue]) -> list[str]:
        """Returns the overrides of a job."""
        chosen = []
        for key, value in values.items():
            text = value if isinstance(value, str) else repr(self._typed(key, value))
            chosen.append(f"{key}={text}")
        return self.fixed + chosen

    def values(self, values: Mapping[str, ParameterValue]) -> dict[str, Any]:
        """Returns the values as Hydra reads them, by key."""
        return {
            key: self.options[key][value] if key in self.options and isinstance(value, str) else self._typed(key, value)
            for key, value in values.items()
        }

    def _typed(self, key: str, value: ParameterValue) -> ParameterValue:
        return float(value) if key in self.floats else value


def space_of(
    params: Mapping[str, Any], arguments: Sequence[str], loader: ConfigLoader, custom: str | None, config: DictConfig
) -> Space:
    """Returns the space of `params` and the command line, which replaces entries of `params` with the same key.

    `custom` names a function that returns further parameters for the program's configuration.
    """
    parser = OverridesParser.create(config_loader=loader)
    from_config = parser.parse_overrides([f"{key}={_param_text(value)}" for key, value in params.items()])
    from_command_line = parser.parse_overrides(list(arguments))
    replaced = {_bare_key(override) for override in from_command_line}
    space = Space()
    for override in [each for each in from_config if _bare_key(each) not in replaced] + from_command_line:
        if override.is_sweep_override():
            _add_swept(space, override)
        else:
            space.fixed.append(str(override.input_line))
    for parameter in _custom_parameters(custom, config):
        _add_custom(space, parameter, parser)
    names = [name.lstrip("+~") for parameter in space.parameters for name in _names(parameter)]
    fixed = {_bare_key(override) for override in parser.parse_overrides(space.fixed)}
    for name in names:
        if names.count(name) > 1:
            raise HydraException(f"{name!r} is swept twice")
        if name in fixed:
            raise HydraException(f"{name!r} has a fixed value and is swept")
    if not names:
        raise HydraException("nothing to search: sweep at least one value, such as 'x=interval(0,1)'")
    return space


def encoded(value: Any) -> str:
    """Returns the text of an override that Hydra reads as `value`."""
    if isinstance(value, QuotedString):
        return value.with_quotes()
    if isinstance(value, list):
        return "[" + ",".join(encoded(each) for each in value) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{encoded(key)}:{encoded(each)}" for key, each in value.items()) + "}"
    text = Transformer.str(value)
    if isinstance(value, str) and _read(text) != value:
        # Such as '1', which is a number without quotes.
        return QuotedString(value, Quote.single).with_quotes()
    return text


def _read(text: str) -> Any:
    try:
        (override,) = OverridesParser.create().parse_overrides([f"x={text}"])
    except HydraException:
        return None
    return override.value() if not override.is_sweep_override() else None


def _param_text(value: Any) -> str:
    return value if isinstance(value, str) else encoded(value)


def _bare_key(override: Override) -> str:
    return override.get_key_element().lstrip("+~")


def _add_swept(space: Space, override: Override) -> None:
    key, value = str(override.get_key_element()), override.value()
    log = _is_log(key, value)
    if isinstance(value, IntervalSweep):
        space.parameters.append(_interval(key, value, log))
    elif isinstance(value, RangeSweep):
        space.parameters.append(_range(space, key, override, value, log))
    else:
        if log:
            raise HydraException(f"{key}: tag 'log' has no effect on a choice; use it with interval or range")
        options = {}
        for each in override.sweep_iterator():
            text = encoded(each)
            if text in options:
                raise HydraException(f"{key}: the option {text} is listed twice")
            options[text] = _read(text)
        if not options:
            raise HydraException(f"{key}: {override.input_line} has no options")
        space.options[key] = options
        space.parameters.append(categorical(key, list(options)))


def _is_log(key: str, value: Any) -> bool:
    tags = value.tags if isinstance(value, Sweep) else set()
    unknown = sorted(tags - {"log"})
    if unknown:
        raise HydraException(f"{key}: unknown tag {unknown[0]!r}; expected 'log'")
    return "log" in tags


def _interval(key: str, interval: IntervalSweep, log: bool) -> Parameter:
    low, high = interval.start, interval.end
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)) or low > high:
        raise HydraException(f"{key}: interval({low}, {high}) is not a finite, ascending interval")
    _check_log(key, low, log)
    if isinstance(low, int) and isinstance(high, int):
        return integer(key, low, high, scale="log" if log else None)
    return double(key, low, high, scale="log" if log else None)


def _range(space: Space, key: str, override: Override, value: RangeSweep, log: bool) -> Parameter:
    if value.start is None or value.stop is None or not value.step:
        raise HydraException(f"{key}: {override.input_line} has no step")
    count = math.ceil((value.stop - value.start) / value.step)
    if count < 1:
        raise HydraException(f"{key}: {override.input_line} has no values; the stop is excluded")
    whole = all(isinstance(each, int) for each in (value.start, value.stop, value.step))
    if whole and abs(value.step) == 1:
        low, high = sorted((int(value.start), int(value.stop) - int(value.step)))
        _check_log(key, low, log)
        return integer(key, low, high, scale="log" if log else None)
    if count > _MAX_LISTED:
        raise HydraException(f"{key}: {override.input_line} has {count} values, more than {_MAX_LISTED}; use interval")
    # The order, such as that of shuffle, does not matter to a search.
    values = sorted(float(each) for each in override.sweep_iterator() if isinstance(each, (int, float)))
    _check_log(key, values[0], log)
    if not whole:
        space.floats.add(key)
    return discrete(key, values, scale="log" if log else None)


def _check_log(key: str, low: float, log: bool) -> None:
    if log and not low > 0:
        raise HydraException(f"{key}: tag 'log' needs positive values, and the lowest is {low}")


def _custom_parameters(path: str | None, config: DictConfig) -> Iterable[Parameter]:
    if path is None:
        return ()
    function: Callable[[DictConfig], Any] = get_method(path)
    parameters = list(function(config))
    for parameter in parameters:
        if not isinstance(parameter, Parameter):
            raise HydraException(
                f"custom_search_space {path} returned {parameter!r}; expected parameters such as tunesmith.double(...)"
            )
    return parameters


def _add_custom(space: Space, parameter: Parameter, parser: OverridesParser) -> None:
    """Adds a parameter with its children; a text of a CATEGORICAL is the value part of an override."""
    space.parameters.append(parameter)
    for each in _family(parameter):
        if each.type == "CATEGORICAL":
            texts = [str(value) for value in each.values]
            overrides = parser.parse_overrides([f"{each.name}={text}" for text in texts])
            for override in overrides:
                if override.is_sweep_override():
                    raise HydraException(f"{override.input_line}: an option is a single value; quote its text")
            options = space.options.setdefault(each.name, {})
            options |= {text: override.value() for text, override in zip(texts, overrides, strict=True)}


def _family(parameter: Parameter) -> Iterable[Parameter]:
    yield parameter
    for _, child in parameter.children:
        yield from _family(child)


def _names(parameter: Parameter) -> set[str]:
    # Children under different values of their parent may share a name.
    return {each.name for each in _family(parameter)}
