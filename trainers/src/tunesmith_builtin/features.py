"""Features of boosted trees: the encoding of raw columns as numbers, found in the training split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .columns import CATEGORICAL, KEY, NUMERICAL, Column
from .errors import InputError
from .instance_generator import Encoder
from .table import Row, number

# "Few categories" are one-hot encoded and others hashed; the published limit is unknown: both numbers are ours.
MAX_ONE_HOT = 100
HASH_BUCKETS = 100


def fit(training: Sequence[Row], columns: Sequence[Column]) -> list[dict[str, Any]]:
    """Encodings of ``columns``, each a JSON object of ``metadata.json``."""
    return [_fit_one(training, column) for column in columns]


def _fit_one(training: Sequence[Row], column: Column) -> dict[str, Any]:
    about: dict[str, Any] = {"column": column.index + 1, "reason": column.reason}
    if column.kind == KEY:
        return {"type": "key", **about}
    if column.kind == CATEGORICAL:
        categories = sorted({row[column.index] for row in training})
        if len(categories) <= MAX_ONE_HOT:
            return {"type": "one_hot", "categories": categories, **about}
        return {"type": "hashed", "buckets": HASH_BUCKETS, **about}
    values = [value for row in training if (value := number(row[column.index])) is not None]
    return {"type": "numerical", "missing": sum(values) / len(values) if values else 0.0, **about}


def numeric(rows: Sequence[Row], indices: Sequence[int], path: str) -> list[dict[str, Any]]:
    """Encodings of columns that are numeric and complete already, as without ``--preprocess``.

    Raises:
        InputError: for the first value that is missing or not a number.
    """
    check_numeric(rows, indices, path)
    return [{"type": "numerical", "missing": 0.0, "column": index + 1, "reason": "as given"} for index in indices]


def check_numeric(rows: Sequence[Row], indices: Sequence[int], path: str) -> None:
    """Checks that the columns ``indices`` of ``rows`` are numbers.

    Raises:
        InputError: for the first value that is not.
    """
    for line, row in enumerate(rows, start=1):
        for index in indices:
            if number(row[index]) is None:
                fault = "is missing" if not row[index] else f"{row[index]!r} is not a number"
                raise InputError(
                    f"{path}, row {line}, column {index + 1}: the value {fault}; without --preprocess, all data must "
                    f"be numeric and complete"
                )


def encode(rows: Sequence[Row], encoder: Encoder, first: int) -> list[list[float]]:
    """Numeric rows of ``rows``, whose features begin with the column ``first``."""
    return [encoder.encode(row[first:]) for row in rows]


__all__ = ["CATEGORICAL", "KEY", "NUMERICAL", "check_numeric", "encode", "fit", "numeric"]
