"""Evaluation of candidates in batches by scikit-learn's `fit`, which is made for a single batch.

Three things differ from it: all batches have the same folds, a batch may fail as a whole, and warnings about results
appear once.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils.validation import _num_samples

from ._sklearn_proposals import Scores

_DETAILS = "Below are more details about the failures:\n"


class Rows:
    """The rows of `cv_results_` during a fit: the lists of `fit` itself, and the failures that it refuses.

    `fit` gives up when all fits of one call failed. In a search that evaluates few candidates at a time that is one
    bad candidate; its rows are added here.
    """

    def __init__(self) -> None:
        self.candidates: list[Any] = []
        self.out: list[dict[str, Any]] = []
        self.more: dict[str, list[Any]] = {}
        self.n_splits = 0
        self._waiting: list[tuple[list[Any], Mapping[str, int], float, float]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles without rows: each parallel fit receives the search, as its caller."""
        return Rows, ()

    def share(self, candidates: list[Any], n_splits: int, out: list[Any], more: Any) -> Rows:
        """Keeps the lists of `fit`, and adds the failures that waited for the first success."""
        self.candidates, self.out, self.more, self.n_splits = candidates, out, more, n_splits
        waiting, self._waiting = self._waiting, []
        for failed in reversed(waiting):
            self._insert(0, *failed)
        return self

    def add_failed(
        self, params: list[Any], columns: Mapping[str, int], error_score: float, seconds_per_fit: float
    ) -> None:
        """Adds candidates of which all fits failed."""
        if self.out:
            self._insert(len(self.candidates), params, columns, error_score, seconds_per_fit)
        else:
            # The entries of a row are known from the first success.
            self._waiting.append((params, columns, error_score, seconds_per_fit))

    def _insert(
        self, at: int, params: list[Any], columns: Mapping[str, int], error_score: float, seconds_per_fit: float
    ) -> None:
        fit = {**self.out[0], "fit_time": seconds_per_fit, "score_time": 0.0}
        for entry in ("test_scores", "train_scores"):
            if entry in fit:
                scores = fit[entry]
                fit[entry] = dict.fromkeys(scores, error_score) if isinstance(scores, dict) else error_score
        self.candidates[at:at] = params
        self.out[at * self.n_splits : at * self.n_splits] = [dict(fit) for _ in range(len(params) * self.n_splits)]
        for name, value in columns.items():
            self.more[name][at:at] = [value] * len(params)


class _Folds:
    """The folds of the search, the same for all batches; optionally with a share of each training part."""

    def __init__(self, cv: Any, seed: int) -> None:
        self._cv = cv
        self._seed = seed
        self._folds: list[tuple[Any, Any]] | None = None
        self.n_samples: int | None = None
        """How many of the samples to use; `None`: all."""

    def split(self, X: Any, y: Any = None, **params: Any) -> Iterator[tuple[Any, Any]]:  # noqa: N803
        """Yields indices of the training and the test part."""
        if self._folds is None:
            self._folds = list(self._cv.split(X, y, **params))
        n_all = _num_samples(X)
        for index, (train, test) in enumerate(self._folds):
            if self.n_samples is None or self.n_samples >= n_all:
                yield train, test
                continue
            # The first part of a fixed order, so that a larger share contains a smaller one.
            order = np.random.RandomState(self._seed + index).permutation(len(train))
            count = max(1, round(len(train) * self.n_samples / n_all))
            yield np.asarray(train)[np.sort(order[:count])], test


class Evaluation:
    """Evaluates candidates for a search during its `fit`."""

    def __init__(
        self,
        search: BaseSearchCV,
        evaluate_candidates: Callable[..., dict[str, Any]],
        rows: Rows,
        seed: int,
        callback_context: Any,
    ) -> None:
        self._search = search
        self._evaluate_candidates = evaluate_candidates
        self._rows = rows
        self._folds = _Folds(search._checked_cv_orig, seed)
        self._results: dict[str, Any] = {}
        self._first_failure: ValueError | None = None
        self.objectives: tuple[str, ...] | None = None
        """Scorers to maximize; `None` before the first success."""
        self._context: Any = None
        if callback_context is not None:
            # The number of batches is unknown: the search space may end early.
            self._context = callback_context.subcontext(task_name="search", max_subtasks=None)
            self._context.call_on_fit_task_begin(estimator=search)

    def scores(
        self, params: list[dict[str, Any]], columns: Mapping[str, int] | None = None, n_samples: int | None = None
    ) -> list[Scores | None]:
        """Returns the mean test scores of each candidate by objective; `None` where all fits failed.

        `columns` are further columns of `cv_results_`, the same for all these candidates. `n_samples`: how many of the
        samples to use.
        """
        self._folds.n_samples = n_samples
        columns = columns or {}
        keywords: dict[str, Any] = {"more_results": {name: [value] * len(params) for name, value in columns.items()}}
        context = None
        n_fits = len(params) * self._search.n_splits_
        if self._context is not None:
            context = self._context.subcontext(task_name="batch", max_subtasks=n_fits, sequential_subtasks=False)
            context.call_on_fit_task_begin(estimator=self._search)
            keywords["callback_ctx"] = context
        started = time.perf_counter()
        scores: list[Scores | None]
        try:
            self._results = self._evaluate_candidates(params, self._folds, **keywords)
        except ValueError as error:
            if not str(error).startswith(f"\nAll the {n_fits} fits failed."):
                raise
            self._first_failure = self._first_failure or error
            self._warn(error, params)
            at_once = min(n_fits, int(effective_n_jobs(self._search.n_jobs)))
            seconds_per_fit = (time.perf_counter() - started) * at_once / n_fits
            self._rows.add_failed(params, columns, float(self._search.error_score), seconds_per_fit)
            scores = [None] * len(params)
        else:
            self.objectives = self._objectives()
            means = {name: self._results[f"mean_test_{name}"][-len(params) :] for name in self.objectives}
            scores = [{name: float(means[name][index]) for name in means} for index in range(len(params))]
        if context is not None:
            context.call_on_fit_task_end(estimator=self._search)
        return scores

    def end(self) -> None:
        """Completes `cv_results_`. Raises scikit-learn's error if all fits of all candidates failed."""
        if not self._rows.out:
            assert self._first_failure is not None, "a search has a candidate"
            raise self._first_failure
        rows = self._rows
        # `fit` has this very dictionary.
        self._results.clear()
        self._results.update(
            BaseSearchCV._format_results(self._search, rows.candidates, rows.n_splits, rows.out, rows.more)
        )
        if self._context is not None:
            self._context.call_on_fit_task_end(estimator=self._search)

    def _objectives(self) -> tuple[str, ...]:
        prefix = "mean_test_"
        names = tuple(name[len(prefix) :] for name in self._results if name.startswith(prefix))
        refit = self._search.refit
        if names == ("score",) or not isinstance(refit, str):
            return names
        if refit not in names:
            raise ValueError(f"refit={refit!r} is not one of the scorers {', '.join(names)}")
        return (refit,)

    def _warn(self, error: ValueError, params: list[dict[str, Any]]) -> None:
        candidates = "; ".join(str(each) for each in params)
        warnings.warn(
            f"\nAll fits failed for these parameters; their scores will be set to {self._search.error_score}:\n"
            f"{candidates}\n\n{_DETAILS}{str(error).partition(_DETAILS)[2]}",
            FitFailedWarning,
            stacklevel=2,
        )
