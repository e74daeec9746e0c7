"""Command line of the trainers: a table of arguments, and its parser.

``argparse`` is not used: an unknown argument must name the nearest known one, a flag has three published forms, and a
value is checked against the published range.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import InputError


@dataclass(frozen=True)
class Argument:
    """An argument ``--name=value``."""

    name: str
    parse: Callable[[str], Any]
    default: Any = None
    is_flag: bool = False
    # Marks arguments of the data rules, which are not passed on to the algorithm.
    is_data: bool = False


class Arguments:
    """Values of a command line: ``[name]`` is the given value or the default."""

    def __init__(self, table: Sequence[Argument], given: dict[str, Any]) -> None:
        self._defaults = {argument.name: argument.default for argument in table}
        self.given = given

    def __getitem__(self, name: str) -> Any:
        return self.given.get(name, self._defaults[name])


def parse(table: Sequence[Argument], command_line: Sequence[str]) -> Arguments:
    """Parses ``--name=value``, ``--name value`` and flags; a later value replaces an earlier one.

    Raises:
        InputError: for the first argument that is unknown, incomplete or out of range.
    """
    known = {argument.name: argument for argument in table}
    given: dict[str, Any] = {}
    rest = list(command_line)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            raise InputError(f"unexpected argument {word!r}: arguments have the form --name=value")
        written, has_value, text = word[2:].partition("=")
        name = "job_dir" if written == "job-dir" else written
        argument = known.get(name)
        if argument is None:
            raise InputError(_unknown(written, known))
        if argument.is_flag:
            given[name] = _flag(written, text) if has_value else True
            continue
        if not has_value:
            if not rest or rest[0].startswith("--"):
                raise InputError(f"--{written} has no value; give --{written}=VALUE")
            text = rest.pop(0)
        try:
            given[name] = argument.parse(text)
        except ValueError as error:
            raise InputError(f"--{written}={text}: {error}") from None
    return Arguments(table, given)


def _flag(name: str, text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise InputError(f"--{name}={text}: a flag is --{name}, --{name}=true or --{name}=false")
    return lowered == "true"


def _unknown(name: str, known: dict[str, Argument]) -> str:
    nearest = difflib.get_close_matches(name.replace("-", "_"), known, n=1, cutoff=0.5)
    hint = f"; did you mean --{nearest[0]}?" if nearest else f"; known: {', '.join(f'--{each}' for each in known)}"
    return f"unknown argument --{name}{hint}"


def text(value: str) -> str:
    """Any text but the empty one."""
    if not value:
        raise ValueError("the value is empty")
    return value


def any_text(value: str) -> str:
    """Any text."""
    return value


def integer(minimum: int | None = None, maximum: int | None = None) -> Callable[[str], int]:
    """A whole number in a range, bounds included."""

    def parse_integer(value: str) -> int:
        number = _number(value)
        if number != int(number):
            raise ValueError("a whole number is required")
        _check_range(number, minimum, maximum, False, False)
        return int(number)

    return parse_integer


def real(
    minimum: float | None = None,
    maximum: float | None = None,
    *,
    above: bool = False,
    below: bool = False,
) -> Callable[[str], float]:
    """A number in a range; ``above`` and ``below`` exclude the bounds."""

    def parse_real(value: str) -> float:
        number = _number(value)
        _check_range(number, minimum, maximum, above, below)
        return number

    return parse_real


def choice(*values: str) -> Callable[[str], str]:
    """One of ``values``."""

    def parse_choice(value: str) -> str:
        if value not in values:
            raise ValueError(f"one of {', '.join(values)} is required")
        return value

    return parse_choice


def _number(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        raise ValueError("a number is required") from None
    if not math.isfinite(number):
        raise ValueError("a finite number is required")
    return number


def _check_range(number: float, minimum: float | None, maximum: float | None, above: bool, below: bool) -> None:
    if minimum is not None and (number < minimum or (above and number == minimum)):
        raise ValueError(f"a value {'above' if above else 'of at least'} {minimum} is required")
    if maximum is not None and (number > maximum or (below and number == maximum)):
        raise ValueError(f"a value {'below' if below else 'of at most'} {maximum} is required")
