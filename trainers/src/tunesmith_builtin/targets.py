"""Targets: classes or numbers, in the first column."""

from __future__ import annotations

from collections.abc import Sequence

from .errors import InputError
from .table import Row, number


def classes(rows: Sequence[Row]) -> list[str]:
    """Classes of ``rows`` in order: by number if all are numbers, else by text.

    Raises:
        InputError: with a single class, or as many classes as rows.
    """
    found = {row[0] for row in rows}
    if len(found) < 2:
        raise InputError(f"the target has one class, {next(iter(found))!r}; at least two are required")
    if len(found) == len(rows):
        raise InputError(
            f"the target has as many classes as rows ({len(rows)}): classification needs repeated classes. Is the "
            f"target the first column, or is this a regression?"
        )
    numbers = {text: number(text) for text in found}
    if all(value is not None for value in numbers.values()):
        return sorted(found, key=lambda text: (numbers[text], text))
    return sorted(found)


def numbers(rows: Sequence[Row]) -> list[float]:
    """Targets of a regression.

    Raises:
        InputError: for the first that is not a number.
    """
    values = []
    for row in rows:
        value = number(row[0])
        if value is None:
            raise InputError(f"the target {row[0]!r} is not a number, which a regression needs; it is the first column")
        values.append(value)
    return values


def indices(rows: Sequence[Row], known: Sequence[str]) -> list[float]:
    """Index in ``known`` of each class.

    Raises:
        InputError: for a class that is not known.
    """
    index = {text: float(position) for position, text in enumerate(known)}
    for row in rows:
        if row[0] not in index:
            raise InputError(f"the class {row[0]!r} is not one of the training data")
    return [index[row[0]] for row in rows]
