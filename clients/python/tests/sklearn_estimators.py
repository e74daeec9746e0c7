"""Estimators with known scores, and data for them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

DATA: tuple[Any, Any] = (np.arange(20.0).reshape(-1, 1), np.arange(20) % 2)
"""Twenty samples of one feature, 0 to 19, of two classes in turn."""


class Bowl(BaseEstimator):
    """Scores best, with 0, at x=0.3, n=7 and kind "b", independently of the data."""

    def __init__(self, x: float = 0.0, n: int = 7, kind: Any = "b", resource: int = 1) -> None:
        self.x = x
        self.n = n
        self.kind = kind
        self.resource = resource

    def fit(self, X: Any, y: Any = None) -> Bowl:  # noqa: N803
        self.n_samples_ = len(X)
        return self

    def score(self, X: Any, y: Any = None) -> float:  # noqa: N803
        is_best = isinstance(self.kind, str) and self.kind == "b"
        return -((self.x - 0.3) ** 2) - 0.01 * (self.n - 7) ** 2 - (not is_best)


class Recorder(Bowl):
    """A `Bowl` that scores with the number of samples that it was fitted with."""

    def score(self, X: Any, y: Any = None) -> float:  # noqa: N803
        return float(self.n_samples_)


class Fussy(Bowl):
    """A `Bowl` that cannot be fitted for some `kind`."""

    def fit(self, X: Any, y: Any = None) -> Fussy:  # noqa: N803
        if self.kind == "broken" or (self.kind == "half" and X[0, 0] == 0):
            raise RuntimeError(f"kind {self.kind} cannot be fitted")
        super().fit(X, y)
        return self

    def score(self, X: Any, y: Any = None) -> float:  # noqa: N803
        return math.nan if self.kind == "unscorable" else super().score(X, y)
