"""Types of columns, found by the published rule for automatic preprocessing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .table import Row, number

KEY = "key"
NUMERICAL = "numerical"
CATEGORICAL = "categorical"

# The published rule says "few distinct integers" without a number: these two are ours.
MAX_FEW_VALUES = 20
MAX_FEW_SHARE = 0.05


@dataclass(frozen=True)
class Column:
    """Type of one column of the data file, and the reason for it."""

    # Index in the rows of the file.
    index: int
    kind: str
    reason: str


def infer(rows: Sequence[Row], indices: Sequence[int]) -> list[Column]:
    """Types of the columns ``indices`` of ``rows``."""
    return [_infer_one(rows, index) for index in indices]


def _infer_one(rows: Sequence[Row], index: int) -> Column:
    values = [row[index] for row in rows if row[index]]
    numbers = [number(value) for value in values]
    if not values:
        return Column(index, NUMERICAL, "no value")
    if any(value is None for value in numbers):
        return Column(index, CATEGORICAL, "text")
    if not all(_is_integer(value) for value in values):
        return Column(index, NUMERICAL, "numbers with fractions")
    distinct = len(set(values))
    if distinct == len(values) and len(values) > 1:
        return Column(index, KEY, "every integer is unique: an instance key, not a feature")
    if distinct <= MAX_FEW_VALUES and distinct < MAX_FEW_SHARE * len(values):
        return Column(index, CATEGORICAL, f"{distinct} distinct integers in {len(values)} rows")
    return Column(index, NUMERICAL, f"{distinct} distinct integers in {len(values)} rows")


def _is_integer(text: str) -> bool:
    return text.lstrip("+-").isdigit()
