"""Pipeline of the linear learner: text lines of CSV to predictions, built from scikit-learn's own classes.

The saved model needs scikit-learn alone: it splits its instances, lines such as ``"5.1, 3.5, red"``, with Python's own
CSV reader, and holds no code of this package.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from .columns import CATEGORICAL, KEY, Column


def lines_to_rows() -> list[tuple[str, Any]]:
    """Steps that split text lines into columns."""
    reader = FunctionTransformer(csv.reader, kw_args={"skipinitialspace": True})
    return [("csv", reader), ("rows", FunctionTransformer(list))]


def encoder(columns: Sequence[Column], first: int, *, preprocess: bool) -> ColumnTransformer:
    """Encoder of rows of text whose first column is the column ``first`` of the data file.

    Blank numbers become the column's mean. With ``preprocess``, numbers are standardised.
    """
    numbers = [column.index - first for column in columns if column.kind not in (KEY, CATEGORICAL)]
    categories = [column.index - first for column in columns if column.kind == CATEGORICAL]
    # The text nan is a number for the second imputer, and blanks are none.
    steps: list[tuple[str, Any]] = [
        ("blank", SimpleImputer(missing_values="", strategy="constant", fill_value="nan")),
        ("mean", SimpleImputer(missing_values=math.nan, keep_empty_features=True)),
    ]
    if preprocess:
        steps.append(("scale", StandardScaler()))
    parts: list[tuple[str, Any, list[int]]] = []
    if numbers:
        parts.append(("numbers", Pipeline(steps), numbers))
    if categories:
        parts.append(("categories", OneHotEncoder(handle_unknown="ignore", sparse_output=False), categories))
    return ColumnTransformer(parts)


def as_rows(rows: Sequence[Sequence[str]], first: int) -> Any:
    """Features of ``rows`` as an array of texts."""
    return np.array([row[first:] for row in rows], dtype=object)
