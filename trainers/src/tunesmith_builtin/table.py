"""CSV files of the data rules: UTF-8, no header row, target first, comma separated, blank means missing."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence

from .errors import InputError
from .storage import matching, open_text

Row = list[str]


def read(path: str) -> list[Row]:
    """Reads the rows of ``path``, or of all files that it matches, with blanks around values removed.

    Raises:
        InputError: if a file is empty, ragged, or begins with a header row.
    """
    rows: list[Row] = []
    for each in matching(path):
        found = _read_one(each)
        if rows and len(found[0]) != len(rows[0]):
            raise InputError(f"{each} has {len(found[0])} columns, but the files before it have {len(rows[0])}")
        rows.extend(found)
    return rows


def _read_one(path: str) -> list[Row]:
    rows: list[Row] = []
    with open_text(path) as file:
        reader = csv.reader(file, skipinitialspace=True)
        try:
            for fields in reader:
                if not fields:
                    continue
                row = [field.strip() for field in fields]
                if rows and len(row) != len(rows[0]):
                    raise InputError(
                        f"{path}, line {reader.line_num}: {len(row)} columns, but the first row has {len(rows[0])}"
                    )
                rows.append(row)
        except (csv.Error, UnicodeDecodeError) as error:
            raise InputError(f"{path}, after line {reader.line_num}: not a CSV file in UTF-8: {error}") from error
    if not rows:
        raise InputError(f"{path} has no rows")
    if len(rows[0]) < 2:
        raise InputError(f"{path} has one column; the target and at least one further column are required")
    _refuse_header(path, rows)
    return rows


def number(text: str) -> float | None:
    """The finite number that ``text`` is; ``None`` for other text and blanks."""
    # Python reads underscores in numbers; no other reader of CSV files does.
    if not text or "_" in text:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _refuse_header(path: str, rows: Sequence[Row]) -> None:
    for index, first in enumerate(rows[0]):
        if not first or number(first) is not None:
            continue
        others = [row[index] for row in rows[1:] if row[index]]
        if others and all(number(other) is not None for other in others):
            raise InputError(
                f"{path} begins with a header row: column {index + 1} has {first!r} in the first row and numbers "
                f"below. Remove the header row"
            )
