"""Rows of one job: read, cleaned and split into training, validation and test data."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from . import table
from .arguments import Arguments
from .errors import InputError, notice
from .table import Row

# Preprocessing drops rows with a larger share of missing columns; published.
MAX_MISSING_SHARE = 0.1


@dataclass
class Splits:
    """Raw rows, target first. ``validation`` and ``test`` may be empty."""

    training: list[Row]
    validation: list[Row] = field(default_factory=list)
    test: list[Row] = field(default_factory=list)
    dropped: int = 0

    def named(self) -> list[tuple[str, list[Row]]]:
        """The splits with rows, by name."""
        every = [("training", self.training), ("validation", self.validation), ("test", self.test)]
        return [(name, rows) for name, rows in every if rows]

    @property
    def all_rows(self) -> list[Row]:
        """All rows that were kept."""
        return self.training + self.validation + self.test


def read(arguments: Arguments) -> Splits:
    """Reads the files that ``arguments`` name; with ``--preprocess``, drops incomplete rows and splits at random.

    Raises:
        InputError: if a file cannot be used, or a split that is asked for gets no row.
    """
    rows = table.read(arguments["training_data_path"])
    if not arguments["preprocess"]:
        splits = Splits(rows)
        splits.validation = _read_like(arguments["validation_data_path"], rows)
        splits.test = _read_like(arguments["test_data_path"], rows)
        return splits
    complete = [row for row in rows if _is_usable(row)]
    dropped = len(rows) - len(complete)
    if dropped:
        notice(
            f"{dropped} of {len(rows)} rows are dropped: the target or more than {MAX_MISSING_SHARE:.0%} of the "
            f"columns are missing"
        )
    random.Random(arguments["seed"]).shuffle(complete)
    sizes = {name: round(len(complete) * arguments[f"{name}_split"]) for name in ("validation", "test")}
    for name, size in sizes.items():
        share = arguments[f"{name}_split"]
        if share > 0 and size == 0:
            raise InputError(
                f"the {name} split is empty: {share:g} of {len(complete)} rows is less than one; raise --{name}_split, "
                f"or give --{name}_split=0"
            )
    held_out = sizes["validation"] + sizes["test"]
    splits = Splits(
        complete[held_out:], complete[: sizes["validation"]], complete[sizes["validation"] : held_out], dropped
    )
    if not splits.training:
        raise InputError(f"no row is left for training: {len(complete)} usable rows, of which {held_out} are held out")
    return splits


def _read_like(path: str, rows: Sequence[Row]) -> list[Row]:
    if not path:
        return []
    found = table.read(path)
    if len(found[0]) != len(rows[0]):
        raise InputError(f"{path} has {len(found[0])} columns, but the training data have {len(rows[0])}")
    return found


def _is_usable(row: Row) -> bool:
    missing = sum(not value for value in row)
    return bool(row[0]) and missing <= MAX_MISSING_SHARE * len(row)
